#include "raft/txn/rlog_machine_content.h"

#include "base/mem.h"
#include "base/plant.h"

enum { PIECE_BYTES = 256 * 1024, DUMP_DEADLINE_MS = 10 * 60 * 1000 };

/* A node of the trie on the way to the last key written: a key, or a point where two keys part. */
struct spot {
    size_t depth;    /* length of the node's key */
    uint64_t newest; /* greatest version known below it from what was written */
    uint64_t own;    /* newest version of the node itself; 0: not known yet */
};

/* Nodes nest at most as deep as a key is long, plus the root. */
struct walk {
    const struct rlog_machine_dump *dump;
    enum status (*piece)(void *ctx, struct bytes content);
    void *ctx;
    struct buf out;
    uint64_t n_keys;
    uint8_t last[STORE_KEY_MAX];
    size_t last_len;
    struct spot spots[STORE_KEY_MAX + 1];
    size_t n_spots;
    struct store_iter iter;
};

static void walk_free(struct walk **w)
{
    if (*w != NULL)
        buf_done(&(*w)->out);
    mem_free(*w);
}

static enum status flush(struct walk *w, size_t above)
{
    TRY(buf_status(&w->out));
    if (w->out.len <= above)
        return ST_OK;
    TRY(w->piece(w->ctx, buf_bytes(&w->out)));
    buf_clear(&w->out);
    return ST_OK;
}

static void write_header(struct walk *w)
{
    const struct rlog_machine_dump *d = w->dump;

    buf_add(&w->out, BYTES(RLOG_CONTENT_MAGIC));
    buf_add_u8(&w->out, RLOG_CONTENT_FORMAT);
    buf_add_u16(&w->out, d->feature);
    buf_add_u64(&w->out, d->version);
    buf_add_u64(&w->out, d->replicated_only ? 0 : d->local_version);
    buf_add_u64(&w->out, (uint64_t)d->time_ms);
    buf_add_u64(&w->out, d->replicated_only ? 0 : d->id_floor);
    buf_add_u64(&w->out, d->replicated_only ? 0 : d->id_bytes);
}

/* Leave the deepest node. Keys alone do not show deletions: if the node's newest version is above
 * all that was written below it, write that version. */
static uint64_t close_spot(struct walk *w)
{
    ASSERT(w->n_spots > 0);
    struct spot *spot = &w->spots[--w->n_spots];
    uint64_t newest = spot->own;
    if (newest == 0 || w->dump->pin.floor != NULL)
        newest = store_newest(&w->dump->pin, bytes_of(w->last, spot->depth));

    ASSERT(newest >= spot->newest);
    if (newest > spot->newest) {
        buf_add_u8(&w->out, RLOG_CONTENT_NEWEST);
        buf_add_varint(&w->out, spot->depth);
        buf_add_varint(&w->out, newest);
    }
    return newest;
}

static struct spot *deepest(struct walk *w)
{
    return w->n_spots > 0 ? &w->spots[w->n_spots - 1] : NULL;
}

/* The next key parts from the last one at `depth`: leave every deeper node, and make sure that the
 * walk is at a node of that depth. */
static void part_at(struct walk *w, size_t depth)
{
    struct spot *top = deepest(w);

    while (top != NULL && top->depth > depth) {
        uint64_t newest = close_spot(w);
        top = deepest(w);
        if (top == NULL || top->depth < depth) {
            ASSERT(w->n_spots < ARRAY_LEN(w->spots));
            w->spots[w->n_spots++] = (struct spot){depth, newest, 0};
            return;
        }
        top->newest = MAX(top->newest, newest);
    }
}

static size_t common(struct bytes a, struct bytes b)
{
    size_t n = MIN(a.len, b.len), i = 0;
    while (i < n && a.data[i] == b.data[i])
        i++;
    return i;
}

/* `newest`: of the key's own node; 0: not known. */
static void write_key(struct walk *w, const struct store_item *item, uint64_t newest)
{
    size_t shared = common(bytes_of(w->last, w->last_len), item->key);

    ASSERT(item->key.len > shared);
    part_at(w, shared);
    buf_add_u8(&w->out, RLOG_CONTENT_KEY);
    buf_add_varint(&w->out, shared);
    buf_add_block(&w->out, bytes_from(item->key, shared));
    buf_add_varint(&w->out, item->created);
    buf_add_varint(&w->out, item->modified);
    buf_add_block(&w->out, item->value);
    memcpy(w->last + shared, item->key.data + shared, item->key.len - shared);
    w->last_len = item->key.len;
    ASSERT(w->n_spots < ARRAY_LEN(w->spots));
    w->spots[w->n_spots++] = (struct spot){item->key.len, item->modified, newest};
    w->n_keys++;
}

/* The keys to leave out at the end: none, but for the planted bug. */
static uint64_t keys_to_write(struct walk *w)
{
    uint64_t n = 0;

    if (!planted(PLANT_SNAPSHOT_SHORT))
        return UINT64_MAX;
    store_iter_init(&w->iter, &w->dump->pin, BYTES(""), BYTES(""));
    while (store_iter_next(&w->iter))
        n++;
    return n > 0 ? n - 1 : 0;
}

enum status rlog_machine_dump_begin(struct rlog_machine *m, struct rlog_machine_dump *dump)
{
    if (m->staging && !planted(PLANT_STAGE_FORGOTTEN))
        return ST_BUSY;
    *dump = (struct rlog_machine_dump){
        .version = m->version,
        .local_version = m->local_version,
        .time_ms = m->time_ms,
        .id_floor = m->id_floor,
        .id_bytes = m->id_bytes,
        .feature = m->feature,
    };
    TRY(store_pin(m->store, "snapshot", DUMP_DEADLINE_MS, &dump->pin));
    ASSERT(dump->pin.root == NULL || dump->pin.version == dump->version);
    return ST_OK;
}

/* Write the keys that begin with `prefix`, until `n_max` keys are written. */
static enum status write_keys(struct walk *w, struct bytes prefix, uint64_t n_max)
{
    store_iter_init(&w->iter, &w->dump->pin, prefix, BYTES(""));
    while (w->n_keys < n_max && store_iter_next(&w->iter)) {
        write_key(w, &w->iter.item, w->iter.newest);
        TRY(flush(w, PIECE_BYTES));
    }
    return ST_OK;
}

/* The points where two written keys part are nodes of the tree, so their newest versions are those
 * of the tree; nodes without two written keys below are left out. */
static enum status keys_of_parts(struct walk *w)
{
    struct store_item item;
    for (size_t i = 0; i < w->dump->n_parts; i++) {
        const struct rlog_machine_part *part = &w->dump->parts[i];
        if (!part->exact)
            TRY(write_keys(w, part->at, UINT64_MAX));
        else if (store_get(&w->dump->pin, part->at, &item) == ST_OK)
            write_key(w, &item, 0);
        TRY(flush(w, PIECE_BYTES));
    }
    return ST_OK;
}

enum status rlog_machine_dump_run(struct rlog_machine_dump *dump,
                                  enum status (*piece)(void *ctx, struct bytes content), void *ctx)
{
    CLEANUP(walk_free) struct walk *w = mem_zalloc(sizeof *w);
    if (w == NULL)
        return ST_NOMEM;
    w->dump = dump;
    w->piece = piece;
    w->ctx = ctx;
    uint64_t n_max = keys_to_write(w);

    write_header(w);
    if (dump->parted)
        TRY(keys_of_parts(w));
    else
        TRY(write_keys(w, dump->replicated_only ? BYTES(RLOG_REPLICATED) : BYTES(""), n_max));
    while (w->n_spots > 0) {
        uint64_t newest = close_spot(w);
        struct spot *top = deepest(w);
        if (top != NULL)
            top->newest = MAX(top->newest, newest);
    }
    buf_add_u8(&w->out, RLOG_CONTENT_END);
    buf_add_varint(&w->out, w->n_keys);
    return flush(w, 0);
}

void rlog_machine_dump_end(struct rlog_machine_dump *dump)
{
    store_unpin(&dump->pin);
}
