/* A difference sync in a pair: the secondary's state is compared with the primary's from the top
 * down (cluster/dr/diff), and a clone of it gets the difference, as cluster/dr/follow/sync_diff.c
 * does. The comparison takes no time here; the changes travel through the log like a whole state.
 */
#include "pair_sync.h"

#include "cluster/dr/diff/dr_diff.h"
#include "sim_mem.h"

#include <stdlib.h>

static void on_goes(void *ctx, const struct store_item *item)
{
    (void)ctx;
    (void)item; /* what is lost is judged at the end */
}

static enum status take_nodes(void *ctx, struct bytes nodes)
{
    struct pair_sync *s = ctx;
    return dr_diff_take(s->diff, nodes);
}

static enum status ask_all(struct pair_sync *s, const struct store_pin *primary)
{
    CLEANUP(buf_done) struct buf question = {0};
    while (dr_diff_ask(s->diff, &question)) {
        TRY(buf_status(&question));
        TRY(dr_diff_answer(primary, s->floor, buf_bytes(&question), take_nodes, s));
        buf_clear(&question);
    }
    return ST_OK;
}

static enum status fetch_wanted(struct pair_sync *s, struct rlog_machine_dump *dump,
                                struct dr_diff_parts *parts)
{
    CLEANUP(buf_done) struct buf list = {0};
    for (bool last = false; !last; buf_clear(&list)) {
        TRY(dr_diff_want(s->diff, &list, &last));
        TRY(dr_diff_parts_add(parts, buf_bytes(&list)));
    }
    TRY(dr_diff_parts_end(parts));
    dump->parted = true;
    dump->parts = parts->parts;
    dump->n_parts = parts->n;
    TRY(rlog_machine_dump_run(dump, pair_sync_piece, s));
    pair_sync_read(s);
    return dr_diff_end(s->diff);
}

/* What the keys that were fetched leave to change. */
static void add_rest(struct pair_sync *s)
{
    struct part part = {.kind = PART_DELETE};
    struct bytes key;
    while (dr_diff_deleted(s->diff, &key))
        pair_sync_add(s, &part, key, (struct bytes){0});
    part.kind = PART_NEWEST;
    while (dr_diff_newest(s->diff, &key, &part.modified))
        if (key.len != 0)
            pair_sync_add(s, &part, key, (struct bytes){0});
}

static enum status compare(struct pair_sync *s, struct rlog_machine_dump *dump,
                           const struct store_pin *own)
{
    struct dr_diff_parts parts = {.n = 0};
    const struct dr_diff_input in = {own, s->target, s->floor, on_goes, NULL};
    TRY(dr_diff_new(&in, &s->diff));
    enum status st = ask_all(s, &dump->pin);
    if (st == ST_OK)
        st = fetch_wanted(s, dump, &parts);
    if (st == ST_OK)
        add_rest(s);
    dr_diff_parts_done(&parts);
    dr_diff_free(s->diff);
    s->diff = NULL;
    return st;
}

static enum status fetch(struct pair_sync *s, struct node *from, struct node *to)
{
    struct rlog_machine_dump dump = {.parts = NULL};
    struct store_pin own;
    TRY(store_pin(rlog_store(to->rlog), "pair", 0, &own));
    enum status st = rlog_dump_begin(from->rlog, &dump);
    if (st == ST_OK) {
        dump.replicated_only = true;
        s->target = dump.version;
        s->time_ms = dump.time_ms;
        s->floor = dr_diff_floor(s->target);
        store_hash(&dump.pin, BYTES(RLOG_REPLICATED), s->tree_root);
        st = s->target >= own.version ? compare(s, &dump, &own) : ST_CONFLICT;
        rlog_machine_dump_end(&dump);
    }
    store_unpin(&own);
    return st;
}

bool pair_diff_fetch(struct pair_sync *s, struct node *from, struct node *to)
{
    unsigned owner = sim_mem_owner(0);
    enum status st = fetch(s, from, to);
    sim_mem_owner(owner);
    if (st != ST_OK && st != ST_CONFLICT && st != ST_BUSY)
        core_fail(s->pair->core, "%s and %s cannot be compared: %s", from->name, to->name,
                  status_name(st));
    return st == ST_OK;
}

static enum status read_source(struct pair_sync *s, const struct store_pin *pin)
{
    struct store_iter *iter = sim_alloc(sizeof *iter);
    enum status st = ST_OK;
    store_iter_init(iter, pin, BYTES(STATE_SHARED "core/"), (struct bytes){0});
    while (st == ST_OK && store_iter_next(iter))
        st = state_dr_source_add(&s->source, iter->item.key, iter->item.value);
    free(iter);
    return st;
}

bool pair_diff_check(struct pair_sync *s, struct node *n)
{
    struct store_pin staged;
    uint8_t root[sizeof s->tree_root];
    if (store_pin_staged(rlog_store(n->rlog), "pair", 0, &staged) != ST_OK)
        return false; /* another active node began a tree */
    store_hash(&staged, BYTES(RLOG_REPLICATED), root);
    if (memcmp(root, s->tree_root, sizeof root) != 0)
        core_fail(s->pair->core, "%s: the difference leads to another root than the primary's",
                  n->name);
    unsigned owner = sim_mem_owner(0);
    enum status st = read_source(s, &staged);
    sim_mem_owner(owner);
    store_unpin(&staged);
    return st == ST_OK;
}
