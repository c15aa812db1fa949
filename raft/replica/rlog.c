/* Start, the pump, frames in, close.
 *
 * OPEN -> CLOSING -> gone. `failed` may be set at any time: then nothing is acknowledged, sent or
 * started any more and only rlog_close is of use. */
#include "base/mem.h"
#include "base/trace.h"
#include "raft/replica/rlog_internal.h"

#include <stdatomic.h>

enum {
    FIRST_TERM = 1, /* of the initial configuration: no leader has it */
    ELECTION_MS = 1000,
    HEARTBEAT_MS = 100,
    BATCH_BYTES = 1024 * 1024,
    INFLIGHT_BYTES = 64 * 1024 * 1024,
    CLOSE_POLL_MS = 5,
};

static bool finished_any(const struct rlog *r)
{
    return !list_empty(&r->done_proposals) || !list_empty(&r->done_reads) ||
           !list_empty(&r->done_admins) || r->changed || r->members_changed ||
           r->announced_index < r->core.applied;
}

static void note_readiness(struct rlog *r)
{
    bool ready = rlog_ready(r);
    if (ready == r->was_ready)
        return;
    r->was_ready = ready;
    r->changed = true;
}

static void start_all(struct rlog *r)
{
    ASSERT(r->depth == 1);
    if (r->failed || r->closing || !r->core_live)
        return;
    rlog_clock_advance(r);
    note_readiness(r);
    rlog_members_pump(r);
    rlog_proposals_pump(r);
    rlog_commit_tell(r);
    rlog_reads_pump(r);
    rlog_snapshot_create_pump(r);
    rlog_snapshot_sends_pump(r);
}

static void fire_all(struct rlog *r)
{
    ASSERT(r->depth == 1);
    if (r->members_changed && !r->failed) {
        r->members_changed = false;
        r->options.net.members(r->options.net.ctx, r->core.conf.members, r->core.conf.n);
    }
    if (r->announced_index < r->core.applied && !r->failed) {
        r->announced_index = r->core.applied;
        if (r->options.events.applied != NULL)
            r->options.events.applied(r->options.events.ctx, r->announced_index,
                                      r->machine.version);
    }
    rlog_proposals_fire(r);
    rlog_reads_fire(r);
    rlog_members_fire(r);
    if (r->changed) {
        r->changed = false;
        if (r->options.events.changed != NULL && !r->failed)
            r->options.events.changed(r->options.events.ctx);
    }
}

static void arm_timer(struct rlog *r)
{
    if (r->failed || r->closing || !r->core_live)
        env_timer_stop(r->env, &r->timer);
    else if (r->timer.slot == 0 || r->timer.at_ms != r->core.timeout_ms)
        env_timer_set(r->env, &r->timer, r->core.timeout_ms);
}

/* A callback may call the replica again. Such a call only adds to the lists, and the loop goes on
 * until they are empty. */
static void pump(struct rlog *r, bool fire)
{
    ASSERT(r->depth == 1);
    do {
        r->again = false;
        start_all(r);
        rlog_write_due(r);
        if (fire)
            fire_all(r);
    } while (r->again || (fire && !r->failed && finished_any(r)));
    arm_timer(r);
    if (!fire && finished_any(r))
        rlog_wake(r);
}

static void on_timer(struct env_timer *timer)
{
    struct rlog *r = CONTAINER_OF(timer, struct rlog, timer);
    rlog_enter(r);
    rlog_core_timeout(&r->core, rlog_now(r));
    rlog_leave(r);
}

static void on_written(void *ctx, uint64_t seq)
{
    struct rlog *r = ctx;
    if (r->failed)
        return;
    rlog_enter(r);
    if (r->core_live)
        rlog_core_written(&r->core, seq, rlog_now(r));
    rlog_leave(r);
}

static void on_disk_fatal(void *ctx, enum status why, const struct reason *reason)
{
    rlog_fail(ctx, why, reason);
}

static void options_default(struct rlog_options *o)
{
    o->election_ms = o->election_ms != 0 ? o->election_ms : ELECTION_MS;
    o->heartbeat_ms = o->heartbeat_ms != 0 ? o->heartbeat_ms : HEARTBEAT_MS;
    o->batch_bytes_max = o->batch_bytes_max != 0 ? o->batch_bytes_max : BATCH_BYTES;
    o->inflight_bytes_max = o->inflight_bytes_max != 0 ? o->inflight_bytes_max : INFLIGHT_BYTES;
    o->feature_max = o->feature_max != 0 ? o->feature_max : RLOG_FEATURE;
    ASSERT(o->feature_max >= RLOG_FEATURE_FIRST);
    ASSERT(o->feature_max <= RLOG_FEATURE);
}

uint64_t rlog_member_new_id(struct rlog *r)
{
    uint64_t id;
    do {
        env_random(r->env, &id, sizeof id);
        id &= INT64_MAX;
    } while (id == 0 || rlog_conf_find(&r->core.conf, id) != NULL);
    return id;
}

static enum status disk_open(struct rlog *r, struct rlog_loaded *loaded, struct reason *reason)
{
    struct rlog_options *o = &r->options;
    const struct rlog_identity *expect = o->identity.name[0] != '\0' ? &o->identity : NULL;
    struct rlog_disk_options options = {.env = r->env,
                                        .dir = o->dir,
                                        .ops = {on_written, on_disk_fatal, r},
                                        .segment_bytes = o->segment_bytes,
                                        .reserve_bytes = o->reserve_bytes,
                                        .held = true};

    ASSERT(!r->core_live);
    enum status st = rlog_disk_open(&options, expect, &r->disk, &r->identity, loaded, reason);
    if (st != ST_NOT_FOUND)
        return st;
    struct rlog_identity fresh = o->identity;
    if (fresh.id == 0)
        fresh.id = rlog_member_new_id(r);
    ASSERT(fresh.id != 0);
    TRY(rlog_disk_create(r->env, o->dir, &fresh, reason));
    return rlog_disk_open(&options, expect, &r->disk, &r->identity, loaded, reason);
}

static enum status snapshot_restore(struct rlog *r, const struct rlog_loaded *loaded)
{
    struct rlog_snapshot_meta meta;
    struct rlog_snap_reader *reader;
    struct rlog_machine_load *load;
    struct bytes content;

    ASSERT(!r->core_live);
    if (loaded->snapshot.index == 0)
        return ST_OK;
    TRY(rlog_snap_open(r->disk, loaded->snapshot.index, loaded->snapshot.term, &reader, &meta));
    enum status st = rlog_machine_load_begin(&r->machine, &load);
    if (st != ST_OK) {
        rlog_snap_close(reader);
        return st;
    }
    do {
        st = rlog_snap_read(reader, &content);
        if (st == ST_OK && content.len > 0)
            st = rlog_machine_load_piece(load, content);
    } while (st == ST_OK && content.len > 0);
    rlog_snap_close(reader);
    enum status end = rlog_machine_load_end(load);
    r->snapshot_time_ms = r->machine.time_ms;
    return st != ST_OK ? st : end;
}

static void entries_drop(struct rlog_loaded *l)
{
    for (uint64_t i = 0; i < l->n; i++)
        rlog_block_unref(l->entries[i].block);
    l->n = 0;
}

/* A crash may fall between the rename of an installed snapshot and the reset of the log. Keep the
 * log only if it continues the snapshot: the log contains the snapshot's last entry, or begins
 * right behind the snapshot, as only a reset or a compaction at this snapshot leaves it. */
static enum status reconcile(struct rlog *r, struct rlog_loaded *l)
{
    uint64_t index = l->snapshot.index;
    if (index == 0 || l->first == index + 1)
        return ST_OK;
    bool contains = index >= l->first && index - l->first < l->n &&
                    l->entries[index - l->first].term == l->snapshot.term;
    if (contains)
        return ST_OK;
    trace(TRACE_INFO, "raft", "the log ends before the snapshot at %llu and is begun anew",
          (unsigned long long)index);
    entries_drop(l);
    l->first = index + 1;
    l->prev_term = l->snapshot.term;
    return rlog_disk_reset(r->disk, l->first, l->prev_term);
}

/* Entry 1 of an initial member: the same configuration in term 1 on every initial member. */
static enum status bootstrap_log(struct rlog *r, struct rlog_loaded *l)
{
    struct rlog_conf conf = {.n = r->options.n_initial_members};
    struct rlog_conf_bytes encoded;
    bool blank = l->n == 0 && l->snapshot.index == 0 && l->first == 1;

    ASSERT(!r->core_live);
    if (!blank || r->options.n_initial_members == 0)
        return ST_OK;
    if (conf.n > RLOG_MEMBERS_MAX)
        return ST_INVALID;
    memcpy(conf.members, r->options.initial_members, conf.n * sizeof conf.members[0]);
    TRY(rlog_conf_encode(&conf, &encoded));
    if (rlog_conf_find(&conf, r->identity.id) == NULL)
        return ST_INVALID;
    struct rlog_entry *entry = mem_zalloc(sizeof *entry);
    struct rlog_block *block = rlog_block_new(encoded.len);
    if (entry == NULL || block == NULL) {
        mem_free(entry);
        if (block != NULL)
            rlog_block_unref(block);
        return ST_NOMEM;
    }
    memcpy(rlog_block_data(block), encoded.bytes, encoded.len);
    *entry =
        (struct rlog_entry){FIRST_TERM, RLOG_CHANGE, bytes_of(rlog_block_data(block), encoded.len), block};
    mem_free(l->entries);
    l->entries = entry;
    l->n = 1;
    if (l->term == 0) {
        TRY(rlog_disk_set_term(r->disk, FIRST_TERM, 0));
        l->term = FIRST_TERM;
    }
    /* If a crash loses this entry before it is durable, the next start makes the same entry. */
    (void)rlog_disk_append(r->disk, 1, entry, 1);
    return ST_OK;
}

/* A sole voter leads in a fresh term only (F2). */
static enum status sole_voter_term(struct rlog *r, struct rlog_loaded *l, uint64_t *ret_term)
{
    struct rlog_conf_bytes newest;
    struct rlog_conf conf;

    ASSERT(!r->core_live);
    *ret_term = 0;
    TRY(rlog_core_loaded_conf(l, &newest));
    if (newest.index == 0 || planted(PLANT_F2_SOLE_VOTER))
        return ST_OK;
    TRY(rlog_conf_decode(bytes_of(newest.bytes, newest.len), &conf));
    if (!rlog_conf_sole_voter(&conf, r->identity.id))
        return ST_OK;
    TRY(rlog_disk_set_term(r->disk, l->term + 1, r->identity.id));
    l->term++;
    l->vote = r->identity.id;
    *ret_term = l->term;
    return ST_OK;
}

static enum status core_start(struct rlog *r, const struct rlog_loaded *loaded, uint64_t sole_term)
{
    struct rlog_core_options options = {.ops = rlog_core_ops_of(r),
                                        .id = r->identity.id,
                                        .election_ms = r->options.election_ms,
                                        .heartbeat_ms = r->options.heartbeat_ms,
                                        .trailing = r->options.snapshot_trailing};
    ASSERT(!r->core_live);
    ASSERT(r->identity.id != 0);
    env_random(r->env, &options.seed, sizeof options.seed);
    TRY(rlog_core_init(&r->core, &options));
    r->core_live = true;
    return rlog_core_start(&r->core, loaded, sole_term, rlog_now(r));
}

static enum status start(struct rlog *r, struct reason *reason)
{
    CLEANUP(rlog_loaded_done) struct rlog_loaded loaded = {0};
    uint64_t sole_term;

    TRY(disk_open(r, &loaded, reason));
    if (loaded.corrupt && !planted(PLANT_R13_AMNESIA)) {
        if (reason != NULL)
            *reason = loaded.reason;
        return ST_CORRUPT;
    }
    r->met = (struct rlog_met){.torn = loaded.torn,
                               .vote_file_fell_back = loaded.vote_file_fell_back,
                               .snapshot_fell_back = loaded.snapshot_fell_back,
                               .reset = loaded.reset,
                               .truncations = loaded.truncations};
    TRY(store_new(r->env, &r->machine.store));
    if (r->options.wal_bytes_max != 0)
        TRY(rlog_wal_new(r->options.wal_bytes_max, &r->machine.wal));
    enum status st = snapshot_restore(r, &loaded);
    if (st != ST_OK) {
        reason_set(reason, "snapshot %llu: %s", (unsigned long long)loaded.snapshot.index,
                   status_text(st));
        return st;
    }
    TRY(reconcile(r, &loaded));
    st = bootstrap_log(r, &loaded);
    if (st != ST_OK) {
        reason_set(reason, "list of initial members: %s", status_text(st));
        return st;
    }
    rlog_clock_start(r);
    TRY(sole_voter_term(r, &loaded, &sole_term));
    st = core_start(r, &loaded, sole_term);
    if (st == ST_UNSUPPORTED)
        reason_set(reason, "libraft 0.22.1 is needed, another was found");
    if (st == ST_OK && loaded.term == FIRST_TERM && loaded.vote == 0)
        rlog_members_first(r);
    return st;
}

static void destroy(struct rlog *r)
{
    ASSERT(!r->woken);
    if (r->core_live)
        rlog_core_done(&r->core);
    if (r->disk != NULL)
        rlog_disk_close(r->disk);
    if (r->machine.store != NULL)
        store_free(r->machine.store);
    rlog_wal_free(r->machine.wal);
    rlog_conflicts_done(r);
    buf_done(&r->out);
    buf_done(&r->entry);
    mem_free(r);
}

enum status rlog_start(const struct rlog_options *options, struct rlog **ret_rlog,
                       struct reason *reason)
{
    ASSERT(options->env != NULL && options->dir != NULL);
    ASSERT(options->net.send != NULL && options->net.members != NULL);
    ASSERT(options->events.fatal != NULL);
    struct rlog *r = mem_zalloc(sizeof *r);
    if (r == NULL)
        return ST_NOMEM;
    r->env = options->env;
    r->options = *options;
    options_default(&r->options);
    r->timer.fire = on_timer;
    r->commit_timer.fire = rlog_commit_on_timer;
    rlog_turn_init(r, pump);
    list_init(&r->done_proposals);
    list_init(&r->done_reads);
    list_init(&r->done_admins);
    rlog_proposals_init(r);
    rlog_tickets_init(r);
    rlog_reads_init(r);
    rlog_members_init(r);
    rlog_snapshot_create_init(r);
    rlog_install_init(r);
    rlog_enter(r);
    enum status st = start(r, reason);
    if (st == ST_OK && r->failed)
        st = ST_IO;
    if (st != ST_OK) {
        destroy(r);
        return st;
    }
    rlog_disk_release(r->disk);
    r->options.dir = NULL;
    r->options.initial_members = NULL;
    r->changed = r->members_changed = true;
    rlog_leave_start(r);
    *ret_rlog = r;
    return ST_OK;
}

/* rlog_entry_check, for the feature level that this node understands. */
static enum status entry_check(const struct rlog *r, struct bytes entry)
{
    struct rlog_entry_header header;
    TRY(rlog_entry_check(entry));
    TRY(rlog_entry_peek(entry, &header));
    return header.feature > r->options.feature_max && !planted(PLANT_LATER_FORMAT) ? ST_UNSUPPORTED
                                                                                   : ST_OK;
}

/* Commands of another format stop this node (R6); malformed ones are dropped with their frame. */
static bool entries_acceptable(struct rlog *r, uint64_t from, const struct rlog_frame *f)
{
    const struct raft_append_entries *ae = &f->core.raft.append_entries;
    struct reason reason;
    ASSERT(f->kind == RLOG_FRAME_CORE);
    for (unsigned i = 0; i < ae->n_entries; i++) {
        const struct rlog_entry *e = &f->entries[i];
        enum status st = e->type == RLOG_COMMAND ? entry_check(r, e->data) : ST_OK;
        if (st == ST_OK)
            continue;
        if (st == ST_UNSUPPORTED) {
            reason_set(&reason, "entry %llu is of a later format: upgrade this node",
                       (unsigned long long)ae->prev_log_index + 1 + i);
            rlog_fail(r, st, &reason);
        }
        trace(TRACE_WARN, "raft", "dropped entries of %016llx: %s", (unsigned long long)from,
              status_text(st));
        return false;
    }
    return true;
}

static void frame_handle(struct rlog *r, uint64_t from, const struct rlog_frame *f)
{
    ASSERT(r->depth > 0);
    switch (f->kind) {
    case RLOG_FRAME_CORE:
        /* Drop a late or malformed frame: it is no fault of this program. */
        if (f->core.raft.type != RAFT_APPEND_ENTRIES ||
            !rlog_core_credible(&r->core, from, &f->core) || entries_acceptable(r, from, f))
            rlog_core_receive(&r->core, from, &f->core, rlog_now(r));
        return;
    case RLOG_FRAME_ASK:
    case RLOG_FRAME_REPLY:
    case RLOG_FRAME_READ:
    case RLOG_FRAME_READ_INDEX:
    case RLOG_FRAME_COMMIT: rlog_reads_receive(r, from, f); return;
    case RLOG_FRAME_CHUNK: rlog_install_receive(r, from, f); return;
    case RLOG_FRAME_CHUNK_REPLY: rlog_snapshot_sends_receive(r, from, f); return;
    }
}

void rlog_receive(struct rlog *r, uint64_t from, const char *from_name, struct bytes bytes)
{
    struct rlog_frame frame;
    if (r->failed || r->closing)
        return;
    const struct rlog_member *member = rlog_conf_find(&r->core.conf, from);
    enum status st = rlog_wire_decode(bytes, &frame);
    if (st != ST_OK || (member != NULL && strcmp(member->name, from_name) != 0)) {
        trace(TRACE_WARN, "raft", "dropped a frame of %016llx (%s)", (unsigned long long)from,
              st != ST_OK ? status_text(st) : "not the name of that member");
        if (st == ST_OK)
            rlog_frame_done(&frame);
        return;
    }
    rlog_enter(r);
    rlog_members_heard(r, from);
    frame_handle(r, from, &frame);
    rlog_frame_done(&frame);
    rlog_leave(r);
}

/* Wait for what runs off the loop, then end. Not from the callback of anything that is closed. */
static void on_close_timer(struct env_timer *timer)
{
    struct rlog *r = CONTAINER_OF(timer, struct rlog, close_timer);
    ASSERT(r->closing);
    ASSERT(r->depth == 0);
    rlog_enter(r);
    rlog_leave(r);
    bool busy = r->woken || r->create.running || !rlog_snapshot_sends_idle(r) ||
                !rlog_install_idle(r) || !rlog_disk_idle(r->disk);
    if (!busy)
        rlog_install_done(r); /* a half-loaded state may take long to free */
    if (busy || !store_idle(r->machine.store)) {
        env_timer_set(r->env, &r->close_timer, rlog_now(r) + CLOSE_POLL_MS);
        return;
    }
    void (*closed)(void *ctx) = r->closed;
    void *ctx = r->closed_ctx;
    destroy(r);
    closed(ctx);
}

void rlog_close(struct rlog *r, void (*closed)(void *ctx), void *ctx)
{
    ASSERT(!r->closing);
    rlog_enter(r);
    r->closing = true;
    r->closed = closed;
    r->closed_ctx = ctx;
    r->close_timer.fire = on_close_timer;
    rlog_proposals_close(r);
    rlog_reads_close(r);
    rlog_members_close(r);
    rlog_snapshot_sends_close(r);
    env_timer_stop(r->env, &r->timer);
    env_timer_stop(r->env, &r->commit_timer);
    env_timer_set(r->env, &r->close_timer, rlog_now(r));
    rlog_wake(r);
    rlog_leave_start(r);
}

struct store *rlog_store(struct rlog *r)
{
    return r->machine.store;
}

struct rlog_wal *rlog_wal(struct rlog *r)
{
    return r->machine.wal;
}

uint64_t rlog_entry_term(struct rlog *r, uint64_t index)
{
    return rlog_core_term_of(&r->core, index);
}

enum status rlog_dump_begin(struct rlog *r, struct rlog_machine_dump *ret_dump)
{
    if (r->failed || r->closing)
        return ST_CLOSED;
    return rlog_machine_dump_begin(&r->machine, ret_dump);
}

uint64_t rlog_heard_ms(const struct rlog *r)
{
    return atomic_load_explicit(&r->core.heard_ms, memory_order_relaxed);
}

void rlog_status(struct rlog *r, struct rlog_status *ret)
{
    struct rlog_core *c = &r->core;
    ASSERT(c->conf.n <= RLOG_MEMBERS_MAX);
    *ret = (struct rlog_status){.id = r->identity.id,
                                .term = c->term,
                                .leader = r->failed ? 0 : rlog_core_leader(c),
                                .is_leader = rlog_core_leads(c),
                                .ready = rlog_ready(r),
                                .transferring = rlog_core_transferring(c),
                                .last_index = rlog_core_last(c),
                                .commit_index = c->commit,
                                .applied_index = c->applied,
                                .stored_index = c->stored,
                                .snapshot_index = c->snap.index,
                                .version = r->machine.version,
                                .local_version = r->machine.local_version,
                                .stage = r->machine.stage,
                                .feature = MAX(r->machine.feature, (uint16_t)RLOG_FEATURE_FIRST),
                                .following = r->machine.following,
                                .time_ms = r->machine.time_ms,
                                .snapshot_time_ms = r->snapshot_time_ms,
                                .n_members = c->conf.n,
                                .members_committed = c->raft.configuration_uncommitted_index == 0,
                                .elections = c->elections,
                                .snapshots_created = r->snapshots_created,
                                .snapshots_installed = r->snapshots_installed,
                                .entries_applied = r->entries_applied,
                                .txns_applied = r->txns_applied,
                                .conflicts = r->conflicts,
                                .reads_confirmed = r->reads_confirmed,
                                .read_rounds = r->read_rounds,
                                .truncations = c->truncations,
                                .rollbacks = c->rollbacks,
                                .met = r->met};
    memcpy(ret->members, c->conf.members, c->conf.n * sizeof c->conf.members[0]);
    for (unsigned i = 0; ret->is_leader && i < c->conf.n; i++) {
        bool self = c->conf.members[i].id == c->id;
        ret->match[i] = self ? ret->last_index : rlog_core_match(c, c->conf.members[i].id);
        ret->match_term[i] = rlog_core_term_of(c, ret->match[i]);
    }
}
