/* Life cycle, one step, and the order in which its update is handled:
 *
 *   term and vote (durable) -> entries -> snapshot -> state -> messages -> timer -> commit, apply
 *
 * Messages wait only until term and vote are durable. They need not wait for entries: a follower
 * acknowledges entries, and a leader counts itself, only after the entries were reported as
 * persisted. So a leader lets the messages leave before it writes (rlog_write_due). */
#include "base/mem.h"
#include "base/trace.h"
#include "raft/core/rlog_core_internal.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

_Static_assert((int)RLOG_COMMAND == (int)RAFT_COMMAND && (int)RLOG_BARRIER == (int)RAFT_BARRIER &&
                   (int)RLOG_CHANGE == (int)RAFT_CHANGE,
               "entry types are libraft's");

enum { LIBRAFT_VERSION = 2201, CATCH_UP_ROUND_MS = 5000 };
_Static_assert(RAFT_VERSION_NUMBER == LIBRAFT_VERSION, "libraft 0.22.1 exactly");

/* Weak, because a shared libraft hides the function. The check at build time then replaces the
 * check at run time. */
int raft_version_number(void) __attribute__((weak));

/* After a failed allocation libraft leaves its state half changed, or frees memory twice. So
 * libraft's own allocations abort the process instead of failing. Memory that we allocate for
 * libraft comes from mem.h and may fail. */

static void *heap_malloc(void *data, size_t size)
{
    (void)data;
    return mem_must_alloc(size);
}

static void *heap_calloc(void *data, size_t n, size_t size)
{
    (void)data;
    ASSERT(size == 0 || n <= SIZE_MAX / size);
    void *room = mem_must_alloc(n * size);
    memset(room, 0, n * size);
    return room;
}

static void *heap_realloc(void *data, void *old, size_t size)
{
    (void)data;
    return mem_must_realloc(old, size);
}

static void heap_free(void *data, void *pointer)
{
    (void)data;
    mem_free(pointer);
}

static void heap_set(void)
{
    static struct raft_heap heap = {.malloc = heap_malloc,
                                    .free = heap_free,
                                    .calloc = heap_calloc,
                                    /* aligned blocks are used by raft_uv alone */
                                    .realloc = heap_realloc};
    raft_heap_set(&heap);
}

void rlog_core_fatal(struct rlog_core *c, enum status why, const char *format, ...)
{
    struct reason reason;
    va_list args;
    if (c->dead)
        return;
    c->dead = true;
    va_start(args, format);
    /* a text that is too long is cut */
    (void)vsnprintf(reason.text, sizeof reason.text, format, args);
    va_end(args);
    c->ops.fatal(c->ops.ctx, why, &reason);
}

void rlog_core_alarm(struct rlog_core *c, uint64_t from, const char *what)
{
    c->alarms++;
    trace(TRACE_WARN, "raft", "dropped a message of %016llx: %s", (unsigned long long)from, what);
}

enum status rlog_core_raft_conf(struct bytes encoded, struct raft_configuration *ret_conf)
{
    struct rlog_conf checked;
    /* libraft only reads the buffer */
    struct raft_buffer buf = {(void *)(uintptr_t)encoded.data, encoded.len};
    TRY(rlog_conf_decode(encoded, &checked));
    return raft_configuration_decode(&buf, ret_conf) == 0 ? ST_OK : ST_INVALID;
}

enum status rlog_core_init(struct rlog_core *c, const struct rlog_core_options *o)
{
    ASSERT(o->id != 0 && o->election_ms > 0 && o->heartbeat_ms > 0);
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (raft_version_number != NULL && raft_version_number() != LIBRAFT_VERSION)
        return ST_UNSUPPORTED;
    int err = pthread_once(&once, heap_set);
    ASSERT(err == 0);
    *c = (struct rlog_core){.ops = o->ops,
                            .id = o->id,
                            .election_ms = o->election_ms,
                            .heartbeat_ms = o->heartbeat_ms,
                            .inflight_max = RLOG_INFLIGHT_ENTRIES,
                            .log.first = 1,
                            .random = o->seed};
    if (o->trailing !=
        0) /* send less than the log keeps: otherwise a follower needs snapshot after snapshot */
        c->inflight_max = MIN(c->inflight_max, MAX(o->trailing / 2, 4u));
    if (raft_init(&c->raft, NULL, NULL, o->id, "-") != 0)
        return ST_INTERNAL;
    raft_seed(&c->raft, o->seed); /* seed first: the setters draw random numbers */
    c->raft.tracer = NULL;
    raft_set_election_timeout(&c->raft, o->election_ms);
    raft_set_heartbeat_timeout(&c->raft, o->heartbeat_ms);
    raft_set_pre_vote(&c->raft, true);
    /* While a server catches up, no other change can be made. So a dead server is given up soon,
     * and a slow server starts again. */
    raft_set_max_catch_up_round_duration(&c->raft, CATCH_UP_ROUND_MS);
    return ST_OK;
}

void rlog_core_done(struct rlog_core *c)
{
    ASSERT(!c->stepping);
    raft_close(&c->raft, NULL);
    rlog_core_log_done(&c->log);
    mem_free(c->writes);
    c->writes = NULL;
    c->dead = true;
}

enum status rlog_core_loaded_conf(const struct rlog_loaded *loaded, struct rlog_conf_bytes *ret)
{
    struct rlog_conf conf;
    const struct rlog_entry *newest = NULL;

    *ret = (struct rlog_conf_bytes){0};
    for (uint64_t i = 0; i < loaded->n; i++) {
        if (loaded->entries[i].type != RLOG_CHANGE)
            continue;
        newest = &loaded->entries[i];
        ret->index = loaded->first + i;
        if (rlog_conf_decode(newest->data, &conf) != ST_OK)
            return ST_CORRUPT;
    }
    const struct rlog_snapshot_meta *snap = &loaded->snapshot;
    if (snap->index != 0) {
        if (snap->conf_len > RLOG_CONF_MAX || snap->conf_index == 0 ||
            snap->conf_index > snap->index ||
            rlog_conf_decode(bytes_of(snap->conf, snap->conf_len), &conf) != ST_OK)
            return ST_CORRUPT;
        if (ret->index <= snap->conf_index)
            newest = NULL; /* the configuration in the snapshot is at least as new */
    }
    if (newest == NULL && snap->index != 0) {
        ret->index = snap->conf_index;
        ret->len = snap->conf_len;
        memcpy(ret->bytes, snap->conf, snap->conf_len);
    } else if (newest != NULL) {
        ret->len = (uint32_t)newest->data.len;
        memcpy(ret->bytes, newest->data.data, newest->data.len);
    }
    return ST_OK;
}

/* Check what libraft would only assert (raft-step: "Restart"). */
static bool loaded_valid(const struct rlog_loaded *l)
{
    uint64_t snap = l->snapshot.index, last = l->first + l->n - 1;
    if (l->first == 0 || l->n > UINT32_MAX)
        return false;
    if (l->term == 0)
        return l->vote == 0 && snap == 0 && l->n == 0;
    if (snap == 0)
        return l->first == 1 && (l->n == 0 || l->entries[0].type == RLOG_CHANGE);
    return l->snapshot.term != 0 && l->first <= snap + 1 && last >= snap;
}

static struct raft_entry *start_entries(const struct rlog_loaded *l)
{
    struct raft_entry *array = mem_alloc((size_t)l->n * sizeof *array);
    void *batch = mem_alloc(1); /* a dummy for libraft: payloads stay in our own blocks */
    if (array == NULL || batch == NULL) {
        mem_free(array);
        mem_free(batch);
        return NULL;
    }
    for (size_t i = 0; i < l->n; i++) {
        const struct rlog_entry *e = &l->entries[i];
        array[i] = (struct raft_entry){e->term,
                                       (enum raft_entry_type)e->type,
                                       {(void *)(uintptr_t)e->data.data, e->data.len},
                                       batch};
    }
    return array;
}

static void entries_free(struct raft_entry *array)
{
    if (array != NULL)
        mem_free(array[0].batch);
    mem_free(array);
}

static enum status start_snapshot(const struct rlog_core *c, struct raft_snapshot_metadata *meta)
{
    *meta = (struct raft_snapshot_metadata){
        .index = c->snap.index, .term = c->snap.term, .configuration_index = c->snap.conf.index};
    return rlog_core_raft_conf(bytes_of(c->snap.conf.bytes, c->snap.conf.len),
                               &meta->configuration);
}

static void start_state(struct rlog_core *c, const struct rlog_loaded *l)
{
    c->term = l->term;
    c->vote = l->vote;
    rlog_core_log_reset(&c->log, l->first);
    for (uint64_t i = 0; i < l->n; i++)
        rlog_core_log_append(&c->log, &l->entries[i]);
    c->stored = rlog_core_log_last(&c->log);
    if (l->snapshot.index != 0) {
        c->snap.index = l->snapshot.index;
        c->snap.term = l->snapshot.term;
        c->snap.conf.index = l->snapshot.conf_index;
        c->snap.conf.len = l->snapshot.conf_len;
        memcpy(c->snap.conf.bytes, l->snapshot.conf, l->snapshot.conf_len);
        c->committed = c->snap.conf;
    }
    c->commit = c->applied = c->snap.index;
}

enum status rlog_core_start(struct rlog_core *c, const struct rlog_loaded *loaded,
                            uint64_t sole_term, uint64_t now_ms)
{
    struct raft_snapshot_metadata meta;
    struct rlog_conf_bytes newest;
    struct raft_event event = {.type = RAFT_START};

    ASSERT(!c->started);
    if (!loaded_valid(loaded))
        return ST_CORRUPT;
    TRY(rlog_core_loaded_conf(loaded, &newest));
    start_state(c, loaded);
    if (newest.index != 0)
        TRY(rlog_conf_decode(bytes_of(newest.bytes, newest.len), &c->conf));
    c->now_ms = now_ms;
    c->sole_term = sole_term;
    event.start.term = c->term;
    event.start.voted_for = c->vote;
    event.start.start_index = loaded->first;
    if (loaded->n > 0) {
        event.start.entries = start_entries(loaded);
        event.start.n_entries = (unsigned)loaded->n;
        if (event.start.entries == NULL)
            return ST_NOMEM;
    }
    if (c->snap.index != 0) {
        enum status st = start_snapshot(c, &meta);
        if (st != ST_OK) {
            entries_free(event.start.entries);
            return st;
        }
        event.start.metadata = &meta; /* libraft takes the configuration */
    }
    c->started = true;
    int rv = rlog_core_step(c, &event);
    if (rv != 0)
        return ST_CORRUPT; /* libraft has freed the entries */
    entries_free(event.start.entries);
    c->ops.configured(c->ops.ctx);
    return ST_OK;
}

static void update_term(struct rlog_core *c, const struct raft_update *up)
{
    if ((up->flags & ((RAFT_UPDATE_CURRENT_TERM) | (RAFT_UPDATE_VOTED_FOR))) == 0)
        return;
    uint64_t term = raft_current_term(&c->raft), vote = raft_voted_for(&c->raft);
    rlog_core_check_term(c, term, vote);
    if (term == c->term && vote == c->vote)
        return;
    enum status st = ST_OK;
    if (!planted(PLANT_VOTE_NOT_PERSISTED))
        st = c->ops.persist(c->ops.ctx, term, vote);
    if (st != ST_OK) {
        rlog_core_fatal(c, st, "term and vote could not be made durable");
        return;
    }
    c->term = term;
    c->vote = vote;
}

/* After a truncation at `from`, the end of a write that was in flight says nothing about entries
 * from `from` on (R10). */
static void writes_clip(struct rlog_core *c, uint64_t from)
{
    for (size_t i = 0; i < c->n_writes; i++) {
        struct rlog_core_write *w = &c->writes[c->writes_at + i];
        if (w->ack >= from)
            w->ack = from - 1;
    }
    if (c->stored >= from)
        c->stored = from - 1;
}

static void writes_push(struct rlog_core *c, uint64_t seq, uint64_t last, uint64_t term)
{
    if (c->writes_at + c->n_writes == c->cap_writes) {
        if (c->writes_at > 0) {
            memmove(c->writes, c->writes + c->writes_at, c->n_writes * sizeof *c->writes);
            c->writes_at = 0;
        } else {
            c->cap_writes = c->cap_writes != 0 ? c->cap_writes * 2 : 64;
            c->writes = mem_must_realloc(c->writes, c->cap_writes * sizeof *c->writes);
        }
    }
    struct rlog_core_write *w = &c->writes[c->writes_at + c->n_writes++];
    *w = (struct rlog_core_write){.seq = seq, .ack = last, .last = last, .term = term};
}

/* The configuration in force is that of the newest CHANGE in the log, else the snapshot's. */
static void conf_refresh(struct rlog_core *c)
{
    struct rlog_conf conf = {0};
    struct bytes encoded = bytes_of(c->snap.conf.bytes, c->snap.conf.len);
    if (c->log.n_changes > 0)
        encoded = rlog_core_log_at(&c->log, c->log.changes[c->log.n_changes - 1])->data;
    if (encoded.len > 0 && rlog_conf_decode(encoded, &conf) != ST_OK) {
        rlog_core_fatal(c, ST_CORRUPT, "the newest configuration does not decode");
        return;
    }
    if (memcmp(&conf, &c->conf, sizeof conf) == 0)
        return;
    c->conf = conf;
    c->ops.configured(c->ops.ctx);
}

static void log_truncate(struct rlog_core *c, uint64_t index)
{
    size_t changes = c->log.n_changes;
    c->truncations++;
    rlog_core_log_truncate(&c->log, index);
    writes_clip(c, index);
    c->rollbacks += c->log.n_changes < changes;
}

/* Copy libraft's no-op for the beginning of a term: 8 zero bytes in libraft's memory. */
static struct rlog_entry noop_take(const struct raft_entry *e)
{
    /* abort if out of memory: libraft has the entry already */
    struct rlog_block *block = rlog_block_must(e->buf.len);
    memcpy(rlog_block_data(block), e->buf.base, e->buf.len);
    struct rlog_entry entry = {e->term, RLOG_BARRIER, bytes_of(rlog_block_data(block), e->buf.len),
                               block};
    raft_free(e->batch);
    return entry;
}

static void update_entries(struct rlog_core *c, const struct raft_update *up)
{
    if ((up->flags & (RAFT_UPDATE_ENTRIES)) == 0)
        return;
    const struct raft_entry *batch = up->entries.batch;
    uint64_t index = up->entries.index;
    unsigned n = up->entries.n;
    struct rlog_entry noop = {0};
    const struct rlog_entry *entries = &noop;

    rlog_core_check_entries(c, up);
    if (c->feed_array != NULL && batch >= c->feed_array && batch < c->feed_array + c->feed_n) {
        entries = c->feed + (batch - c->feed_array);
        c->feed_taken = true;
    } else {
        ASSERT(n == 1 && batch == &c->raft.barrier);
        noop = noop_take(batch);
    }
    size_t changes = c->log.n_changes;
    bool cut = index <= rlog_core_log_last(&c->log);
    if (cut)
        log_truncate(c, index);
    for (unsigned i = 0; i < n; i++)
        rlog_core_log_append(&c->log, &entries[i]);
    uint64_t seq = c->ops.append(c->ops.ctx, index, entries, n);
    writes_push(c, seq, index + n - 1, entries[n - 1].term);
    if (noop.block != NULL)
        rlog_block_unref(noop.block);
    if (cut || c->log.n_changes != changes)
        conf_refresh(c);
}

/* libraft has already forgotten its log: writes in flight no longer count. */
static void update_snapshot(struct rlog_core *c, const struct raft_update *up)
{
    if ((up->flags & (RAFT_UPDATE_SNAPSHOT)) == 0)
        return;
    struct raft_configuration conf = up->snapshot.metadata.configuration;
    ASSERT(c->incoming.index != 0 && up->snapshot.metadata.index == c->incoming.index);
    raft_configuration_close(&conf);
    raft_free(up->snapshot.chunk.base);
    rlog_core_log_reset(&c->log, c->incoming.index + 1);
    writes_clip(c, 1);
    c->feed_taken = true;
    c->ops.install(c->ops.ctx);
}

static void update_state(struct rlog_core *c, const struct raft_update *up)
{
    uint64_t leader = rlog_core_leader(c);
    int state = (int)raft_state(&c->raft);
    if ((up->flags & (RAFT_UPDATE_STATE)) != 0 && state == RAFT_LEADER) {
        ASSERT(c->term > c->led_term); /* a node wins at most one election in a term */
        c->led_term = c->term;
        c->ready_index = raft_last_index(&c->raft); /* index of the no-op entry, if there is one */
        c->sent_commit = 0;
        c->elections++;
        memset(c->peers, 0, sizeof c->peers);
    }
    if (state == c->seen_state && leader == c->seen_leader && c->term == c->seen_term)
        return;
    c->seen_state = state;
    c->seen_leader = leader;
    c->seen_term = c->term;
    c->ops.state(c->ops.ctx);
}

/* The leader's commit index, as far as our log is known to agree with the leader's. */
static uint64_t notified_commit(const struct rlog_core *c)
{
    if (c->raft.state != RAFT_FOLLOWER || c->notified_term != c->term || rlog_core_installing(c))
        return 0;
    return MIN(c->notified_commit, c->raft.follower_state.match);
}

static void update_commit(struct rlog_core *c)
{
    uint64_t commit = raft_commit_index(&c->raft);
    c->commit_back += commit < c->commit;
    if (planted(PLANT_F8_COMMIT))
        c->commit = commit;
    c->commit = MAX(c->commit, MAX(commit, notified_commit(c)));
    ASSERT(c->commit <= rlog_core_last(c) || rlog_core_installing(c));
}

void rlog_core_commit_change(struct rlog_core *c, uint64_t index)
{
    struct raft_event event = {.type = RAFT_CONFIGURATION};
    const struct rlog_entry *e = rlog_core_log_at(&c->log, index);
    ASSERT(e->type == RLOG_CHANGE);
    event.configuration.index = index;
    if (rlog_core_raft_conf(e->data, &event.configuration.conf) != ST_OK) {
        rlog_core_fatal(c, ST_CORRUPT, "the configuration at index %llu does not decode",
                        (unsigned long long)index);
        return;
    }
    rlog_core_must_step(c, &event, "configuration");
}

static void apply_one(struct rlog_core *c, uint64_t index)
{
    const struct rlog_entry e = *rlog_core_log_at(&c->log, index);
    rlog_block_ref(e.block);
    c->applied = index;
    if (e.type == RLOG_CHANGE) {
        ASSERT(e.data.len <= RLOG_CONF_MAX);
        c->committed.index = index;
        c->committed.len = (uint32_t)e.data.len;
        memcpy(c->committed.bytes, e.data.data, e.data.len);
    }
    c->ops.apply(c->ops.ctx, index, &e);
    if (e.type == RLOG_CHANGE)
        rlog_core_commit_change(c, index);
    rlog_block_unref(e.block);
}

static void apply_committed(struct rlog_core *c)
{
    if (c->applying)
        return;
    c->applying = true;
    while (!c->dead && !rlog_core_installing(c) && c->applied < c->commit)
        apply_one(c, c->applied + 1);
    c->applying = false;
}

/* Bound the bytes in flight to a peer: the core itself only counts entries. */
static void inflight_bound(struct rlog_core *c)
{
    uint64_t mean = c->log.n > 0 ? c->log.bytes / c->log.n + 1 : 1;
    uint64_t fit = MAX(RLOG_INFLIGHT_BYTES / mean, 32u);
    raft_set_max_inflight_entries(&c->raft, (unsigned)MIN(fit, c->inflight_max));
}

int rlog_core_step(struct rlog_core *c, struct raft_event *event)
{
    struct raft_update up;
    ASSERT(c->started && !c->stepping);
    if (c->dead)
        return RAFT_SHUTDOWN;
    event->time = c->now_ms;
    event->capacity = 0; /* libraft's threshold stays off: a refused no-op would silence a leader */
    c->stepping = true;
    inflight_bound(c);
    rlog_core_check_before(c, event);
    int rv = rlog_core_raft_step(c, event, &up);
    if (rv == 0) {
        update_term(c, &up);
        if (!c->dead)
            update_entries(c, &up);
        if (!c->dead)
            update_snapshot(c, &up);
        if (!c->dead)
            update_state(c, &up);
        if (!c->dead)
            rlog_core_send_all(c, &up);
        if (!c->dead) { /* a dead core has handled only a part of the update */
            rlog_core_timer_update(c);
            update_commit(c);
            rlog_core_check_after(c);
        }
    }
    c->stepping = false;
    if (rv == 0)
        apply_committed(c);
    return rv;
}

void rlog_core_must_step(struct rlog_core *c, struct raft_event *event, const char *what)
{
    if (c->dead)
        return;
    int rv = rlog_core_step(c, event);
    if (rv != 0)
        rlog_core_fatal(c, ST_INTERNAL, "raft core: %s: %s", what, raft_strerror(rv));
}

void rlog_core_notified(struct rlog_core *c, uint64_t from, uint64_t term, uint64_t commit,
                        uint64_t now_ms)
{
    c->now_ms = MAX(now_ms, c->now_ms);
    if (c->dead || term != c->term || c->raft.state != RAFT_FOLLOWER || rlog_core_leader(c) != from)
        return;
    if (c->notified_term != term)
        c->notified_commit = 0;
    c->notified_term = term;
    c->notified_commit = MAX(c->notified_commit, commit);
    update_commit(c);
    apply_committed(c);
}

/* The highest index that is durable once the writes up to `seq` are done (R10). */
static uint64_t writes_pop(struct rlog_core *c, uint64_t seq)
{
    uint64_t ack = 0;
    while (c->n_writes > 0 && c->writes[c->writes_at].seq <= seq) {
        const struct rlog_core_write *w = &c->writes[c->writes_at];
        uint64_t valid = planted(PLANT_R10_PERSISTED) ? w->last : w->ack;
        if (valid > ack) {
            ack = valid;
            c->written_term = valid == w->last ? w->term : 0;
        }
        c->writes_at++;
        c->n_writes--;
    }
    if (c->n_writes == 0)
        c->writes_at = 0;
    return planted(PLANT_R10_PERSISTED) ? MIN(ack, rlog_core_log_last(&c->log)) : ack;
}

void rlog_core_written(struct rlog_core *c, uint64_t seq, uint64_t now_ms)
{
    struct raft_event event = {.type = RAFT_PERSISTED_ENTRIES};
    c->now_ms = MAX(now_ms, c->now_ms);
    uint64_t ack = writes_pop(c, seq);
    if (c->dead || rlog_core_installing(c) || ack <= c->stored)
        return;
    c->stored = ack;
    event.persisted_entries.index = ack;
    rlog_core_must_step(c, &event, "persisted entries");
}

uint64_t rlog_core_snapshot(struct rlog_core *c, const struct rlog_core_snapshot *snap,
                            uint64_t trailing, uint64_t now_ms)
{
    uint64_t upto = 0;
    struct raft_event event = {.type = RAFT_SNAPSHOT};

    ASSERT(snap->index <= c->applied && snap->index <= c->stored);
    c->now_ms = MAX(now_ms, c->now_ms);
    if (c->dead || rlog_core_installing(c) || snap->index <= c->snap.index ||
        rlog_core_term_of(c, snap->index) != snap->term)
        return 0;
    event.snapshot.metadata.index = snap->index;
    event.snapshot.metadata.term = snap->term;
    event.snapshot.metadata.configuration_index = snap->conf.index;
    event.snapshot.trailing = (unsigned)MIN(trailing, (uint64_t)UINT32_MAX);
    if (rlog_core_raft_conf(bytes_of(snap->conf.bytes, snap->conf.len),
                            &event.snapshot.metadata.configuration) != ST_OK) {
        rlog_core_fatal(c, ST_CORRUPT, "the configuration of snapshot %llu does not decode",
                        (unsigned long long)snap->index);
        return 0;
    }
    c->snap = *snap;
    if (snap->index > trailing && rlog_core_log_has(&c->log, snap->index - trailing)) {
        upto = snap->index - trailing;
        rlog_core_log_drop_prefix(&c->log, upto);
    }
    rlog_core_must_step(c, &event, "snapshot created");
    return upto;
}

void rlog_core_installed(struct rlog_core *c, uint64_t now_ms)
{
    struct raft_event event = {.type = RAFT_PERSISTED_SNAPSHOT};
    const struct rlog_core_snapshot *snap = &c->incoming;

    ASSERT(rlog_core_installing(c) && snap->index != 0);
    c->now_ms = MAX(now_ms, c->now_ms);
    event.persisted_snapshot.last = true;
    event.persisted_snapshot.metadata.index = snap->index;
    event.persisted_snapshot.metadata.term = snap->term;
    event.persisted_snapshot.metadata.configuration_index = snap->conf.index;
    if (rlog_core_raft_conf(bytes_of(snap->conf.bytes, snap->conf.len),
                            &event.persisted_snapshot.metadata.configuration) != ST_OK) {
        rlog_core_fatal(c, ST_CORRUPT, "the configuration of snapshot %llu does not decode",
                        (unsigned long long)snap->index);
        return;
    }
    c->snap = *snap;
    c->committed = snap->conf;
    c->stored = c->applied = snap->index;
    c->commit = MAX(c->commit, snap->index);
    c->incoming.index = 0;
    conf_refresh(c);
    rlog_core_must_step(c, &event, "persisted snapshot");
}

bool rlog_core_leads(const struct rlog_core *c)
{
    return !c->dead && c->raft.state == RAFT_LEADER;
}

bool rlog_core_ready(const struct rlog_core *c)
{
    return rlog_core_leads(c) && (c->commit >= c->ready_index || planted(PLANT_R15_NOT_READY));
}

uint64_t rlog_core_leader(struct rlog_core *c)
{
    raft_id id;
    const char *address;
    if (c->raft.state == RAFT_LEADER)
        return c->id; /* libraft reports no leader while it transfers leadership */
    raft_leader(&c->raft, &id, &address);
    return id;
}

bool rlog_core_installing(const struct rlog_core *c)
{
    return c->raft.snapshot.installing;
}

bool rlog_core_transferring(const struct rlog_core *c)
{
    return raft_transferee(&c->raft) != 0;
}

uint64_t rlog_core_term_of(const struct rlog_core *c, uint64_t index)
{
    if (rlog_core_log_has(&c->log, index))
        return rlog_core_log_at(&c->log, index)->term;
    return index != 0 && index == c->snap.index ? c->snap.term : 0;
}

uint64_t rlog_core_last(const struct rlog_core *c)
{
    return rlog_core_log_last(&c->log);
}

uint64_t rlog_core_match(const struct rlog_core *c, uint64_t id)
{
    raft_index match;
    if (!rlog_core_leads(c) || raft_match_index(&c->raft, id, &match) != 0)
        return 0;
    return match;
}
