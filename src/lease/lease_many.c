/* Many leases: the end of every lease below a path, and background work for the expiry index.
 *
 *   lease_end_below ──few──▶ all ended
 *                   └─many─▶ mark ──upkeep: some of them in each transaction──▶ mark gone
 *                                              └─many are left, nothing changed─▶ note of it
 *
 * The marks are the only record of this work, so another node can go on where one stopped. A client
 * that waits repeats its request. The first mark ends what can be ended. If more leases are left
 * than one transaction ends, the next mark finds only these; then the note tells the client that
 * the work is done. */
#include "base/plant.h"
#include "base/trace.h"
#include "lease/lease_internal.h"
#include "state/feature.h"
#include "state/ns_key.h"
#include "text/value.h"

#include <inttypes.h>
#include <stdatomic.h>

#define MARK_FORCE "force" /* after the prefix in the name of a mark; a prefix ends in '/' */

/* A lease whose record or kind cannot be read cannot be ended. lease_find
 * refuses it, so it cannot be used. It stays, is counted and does not hold up the others. A build
 * that reads it ends it when its time has come; lease_drop deletes it. */
static _Atomic uint64_t n_skipped;

uint64_t lease_skipped_total(void)
{
    return atomic_load(&n_skipped);
}

static void count_skipped(const char *id, enum status why, struct lease_ended *ended)
{
    ASSERT(why != ST_OK && !lease_is_passing(why));
    if (ended->skipped++ == 0)
        trace(TRACE_WARN, "lease",
              "lease %s cannot be ended, and is skipped: %s; "
              "sys/leases/revoke-force deletes its record",
              id, status_text(why));
    atomic_fetch_add(&n_skipped, 1);
}

/* End a lease. If the lease cannot be ended, nothing is staged, and *ret_skipped is true.
 * ST_NOT_FOUND: there is no such lease. */
static enum status end_or_skip(const struct lease_scope *s, const char *id,
                               struct lease_ended *ended, bool *ret_skipped)
{
    const struct state_mark mark = state_mark(s->txn);
    struct lease lease;

    *ret_skipped = false;
    enum status st = lease_load(s, id, &lease);
    if (st == ST_NOT_FOUND)
        return st;
    if (st == ST_OK)
        st = lease_end(s, &lease);
    if (st == ST_OK || lease_is_passing(st))
        return st;
    TRY(state_rollback(s->txn, mark));
    count_skipped(id, st, ended);
    *ret_skipped = true;
    return ST_OK;
}

enum status lease_end_one(const struct lease_scope *s, const char *id, bool force,
                          struct lease_ended *ended)
{
    bool skipped;
    ASSERT(id[0] != '\0');
    TRY(end_or_skip(s, id, ended, &skipped));
    return skipped && force ? lease_drop(s, id) : ST_OK;
}

/* A part of the leases below `prefix`: at most `steps` leases, beginning at `from`. */
struct part {
    const char *prefix;
    /* End the leases that existed in this version of the state. Cluster time cannot tell: it may
     * step back when the leader changes. In a mark that is written, 0: the version that the mark
     * makes. */
    uint64_t version;
    int64_t before_ms;
    bool by_time;      /* the mark of a build of the first feature level: before_ms decides */
    bool force;        /* delete the records of leases that cannot be ended */
    struct bytes from; /* empty: the beginning */
    unsigned steps;
    struct lease_ended ended; /* result */
    struct bytes next;        /* result, unless all ended: the rest begins at this key */
};

/* Whether the mark of an older build means this lease. */
static bool issued_before(const struct lease_scope *s, const char *id, int64_t before_ms)
{
    struct lease lease;
    enum status st = lease_load(s, id, &lease);
    return st != ST_OK || lease.issued_ms <= before_ms;
}

/* End the lease of one entry of the index, unless the lease is newer than the mark. If the lease is
 * gone, delete the entry. */
static enum status end_entry(const struct lease_scope *s, struct part *part, struct bytes key,
                             size_t prefix_len, uint64_t created)
{
    const char *id = arena_str(s->txn->arena, bytes_from(key, prefix_len));
    if (id == NULL)
        return ST_NOMEM;
    ASSERT(part->by_time || part->version != 0);
    bool later = part->by_time ? !issued_before(s, id, part->before_ms) : created > part->version;
    if (later && !planted(PLANT_MARK_LATER))
        return ST_OK;
    enum status st = lease_end_one(s, id, part->force, &part->ended);
    return st == ST_NOT_FOUND ? state_delete(s->txn, key) : st;
}

static enum status end_part(const struct lease_scope *s, struct part *part)
{
    struct state_walk *walk = arena_alloc(s->txn->arena, sizeof *walk);
    struct bytes index, below;
    if (walk == NULL)
        return ST_NOMEM;
    TRY(lease_prefix(s->txn->arena, s->ns, "", &index));
    TRY(lease_prefix(s->txn->arena, s->ns, part->prefix, &below));
    state_walk_from(s->txn, below, part->from, walk);
    while (state_walk_next(walk)) {
        struct bytes key = bytes_of(arena_dup(s->txn->arena, walk->key), walk->key.len);
        if (key.data == NULL)
            return ST_NOMEM;
        part->next = key;
        if (part->steps == 0)
            return ST_OK;
        part->steps--;
        TRY(end_entry(s, part, key, index.len, walk->created));
    }
    part->ended.all = true;
    return ST_OK;
}

/* A forced end has a mark of its own, so neither mark takes the place of the other. */
static enum status mark_key(const struct lease_scope *s, const struct part *part,
                            struct bytes *ret_key)
{
    const char *id = part->prefix;
    ASSERT(id[0] != '\0' && id[strlen(id) - 1] == '/');
    if (part->force)
        id = arena_format(s->txn->arena, "%s" MARK_FORCE, id);
    return id != NULL ? expiry_mark_key(s->txn, &lease_expiry, s->ns, id, ret_key) : ST_NOMEM;
}

/* Store a mark of the remaining work (lease.h). */
static enum status put_part_mark(const struct lease_scope *s, const struct part *part)
{
    CLEANUP(buf_done) struct buf value = {0};
    struct bytes mark;
    ASSERT(!part->ended.all);
    ASSERT(part->next.len != 0 || (part->version == 0 && !part->by_time));
    buf_add_format(&value, "%lld ", (long long)part->before_ms);
    if (!part->by_time)
        buf_add_format(&value, "%" PRIu64 " ", part->version);
    buf_add(&value, part->next);
    TRY(buf_status(&value));
    TRY(mark_key(s, part, &mark));
    return state_put_exempt(s->txn, mark, buf_bytes(&value)); /* exempt: the mark serves deletion */
}

/* Take the bytes up to the next space, and the space. */
static bool take_word(struct reader *r, struct bytes *ret_word)
{
    const uint8_t *space = memchr(r->at, ' ', reader_left(r));
    if (space == NULL)
        return false;
    *ret_word = reader_take(r, (size_t)(space - r->at));
    (void)reader_take(r, 1); /* the space */
    return true;
}

/* Read what put_part_mark stored. */
static enum status read_part_mark(const struct state_value *stored, struct part *part)
{
    struct reader r = reader_of(stored->value);
    struct bytes time, version;
    int64_t n;

    if (!take_word(&r, &time) || text_int_parse(time, &part->before_ms) != ST_OK)
        return ST_CORRUPT;
    part->from = bytes_of(r.at, reader_left(&r));
    part->by_time = !take_word(&r, &version) || text_int_parse(version, &n) != ST_OK || n < 0;
    if (part->by_time)
        return ST_OK;
    ASSERT(stored->modified != 0); /* an earlier transaction wrote the mark */
    part->version = n != 0 ? (uint64_t)n : stored->modified;
    part->from = bytes_of(r.at, reader_left(&r));
    return ST_OK;
}

/* Whether a mark that is stored means every lease below the prefix: none was issued, renewed or
 * ended since. A new mark would only begin the walk again. */
static enum status is_marked(const struct lease_scope *s, const struct part *part,
                             struct bytes below, bool *ret_marked)
{
    struct part stored_part = {.prefix = part->prefix};
    struct state_value stored;
    struct bytes mark;

    ASSERT(below.len != 0);
    ASSERT(state_count(s->txn, below) > LEASE_STEPS_MAX);
    *ret_marked = false;
    TRY(mark_key(s, part, &mark));
    enum status st = state_get(s->txn, mark, &stored);
    if (st == ST_OK)
        st = read_part_mark(&stored, &stored_part);
    if (st == ST_OK)
        *ret_marked = !stored_part.by_time && state_changed(s->txn, below) <= stored_part.version;
    return st == ST_NOT_FOUND || st == ST_CORRUPT ? ST_OK : st;
}

static enum status note_key(const struct lease_scope *s, const char *prefix, struct bytes *ret_key)
{
    return state_ns_key(s->txn->arena, s->ns, LEASE_SKIPPED, bytes_str(prefix), NULL, ret_key);
}

/* A mark has met every lease below its prefix. Note it if the mark could end none of them, and they
 * are too many to find that out in one transaction. */
static enum status note_skipped(const struct lease_scope *s, const struct part *part)
{
    CLEANUP(buf_done) struct buf value = {0};
    struct bytes below, note;

    ASSERT(part->ended.all);
    ASSERT(part->by_time || part->version != 0);
    TRY(lease_prefix(s->txn->arena, s->ns, part->prefix, &below));
    if (part->by_time || part->force || state_count(s->txn, below) <= LEASE_STEPS_MAX ||
        state_changed(s->txn, below) > part->version)
        return ST_OK;
    buf_add_format(&value, "%lld %" PRIu64 " ", (long long)s->now_ms, part->version);
    TRY(buf_status(&value));
    TRY(note_key(s, part->prefix, &note));
    return state_put_exempt(s->txn, note, buf_bytes(&value));
}

/* Use the note of a mark: *ret_known says that no lease below the prefix can be ended. Each note
 * serves one request, soon, because the build that runs later may read the leases. */
static enum status take_note(const struct lease_scope *s, const struct part *part,
                             struct bytes below, bool *ret_known)
{
    struct part noted = {.prefix = part->prefix};
    struct state_value stored;
    struct bytes note;
    uint64_t newest;

    ASSERT(!part->force && below.len != 0);
    *ret_known = false;
    TRY(note_key(s, part->prefix, &note));
    enum status st = state_get(s->txn, note, &stored);
    if (st == ST_OK)
        st = read_part_mark(&stored, &noted); /* a note has the form of a mark without a key */
    if (st == ST_NOT_FOUND || st == ST_CORRUPT)
        return ST_OK;
    TRY(st);
    if (noted.by_time || state_changed(s->txn, below) > noted.version ||
        s->now_ms - noted.before_ms > LEASE_NOTE_MS)
        return ST_OK;
    TRY(state_newest(s->txn, below, &newest)); /* a precondition from here on */
    ASSERT(newest <= noted.version);
    *ret_known = true;
    return state_delete(s->txn, note);
}

/* Leave the leases to the active node, unless all of them are known to be unreadable. */
static enum status end_later(const struct lease_scope *s, const struct part *part,
                             struct bytes below, struct lease_ended *ret_ended)
{
    bool known = false, marked;
    ASSERT(part->version == 0 && !part->by_time); /* as in a mark that is written */
    ASSERT(!ret_ended->all && ret_ended->skipped == 0);
    if (!part->force)
        TRY(take_note(s, part, below, &known));
    if (known) {
        *ret_ended =
            (struct lease_ended){.all = true, .skipped = (unsigned)state_count(s->txn, below)};
        return ST_OK;
    }
    TRY(is_marked(s, part, below, &marked));
    return marked ? ST_OK : put_part_mark(s, part);
}

enum status lease_end_below(const struct lease_scope *s, const char *prefix, bool force,
                            struct lease_ended *ret_ended)
{
    struct part part = {
        .prefix = prefix, .before_ms = s->now_ms, .force = force, .steps = LEASE_STEPS_MAX};
    struct bytes below;
    uint64_t newest;
    bool raised;

    ASSERT(prefix[0] != '\0' && prefix[strlen(prefix) - 1] == '/');
    *ret_ended = (struct lease_ended){0};
    TRY(state_has_feature(s->txn, EXPIRY_FEATURE, &raised));
    TRY(lease_prefix(s->txn->arena, s->ns, prefix, &below));
    /* A mark means every lease that exists when the mark is written. So a transaction that writes a
     * mark reads no lease, and conflicts with none that is issued, renewed or ended meanwhile. */
    if (raised && state_count(s->txn, below) > LEASE_STEPS_MAX)
        return end_later(s, &part, below, ret_ended);
    /* A lease that is issued meanwhile is a conflict: the walk alone is no precondition. */
    TRY(state_newest(s->txn, below, &newest));
    part.version = state_version(s->txn);
    TRY(end_part(s, &part));
    ASSERT(part.ended.all || (part.steps == 0 && !raised));
    *ret_ended = part.ended;
    part.force = false; /* builds of the first feature level know no forced mark */
    return part.ended.all ? ST_OK : put_part_mark(s, &part);
}

enum status lease_end_of_token(const struct lease_scope *s, const char *token, unsigned *steps,
                               bool *ret_all)
{
    struct state_walk *walk = arena_alloc(s->txn->arena, sizeof *walk);
    struct lease_ended ended = {0};
    struct bytes prefix;
    bool skipped;

    if (walk == NULL)
        return ST_NOMEM;
    TRY(lease_token_prefix(s->txn->arena, s->ns, token, &prefix));
    *ret_all = false;
    for (state_walk(s->txn, prefix, walk); state_walk_next(walk); --*steps) {
        if (*steps == 0)
            return ST_OK;
        const char *key = arena_str(s->txn->arena, walk->key);
        if (key == NULL)
            return ST_NOMEM;
        ASSERT(walk->key.len > prefix.len);
        enum status st = end_or_skip(s, key + prefix.len, &ended, &skipped);
        if (st != ST_NOT_FOUND)
            TRY(st);
        if (st == ST_NOT_FOUND || skipped) /* else the end of the lease deletes the key */
            TRY(state_delete(s->txn, bytes_str(key)));
    }
    *ret_all = true;
    return ST_OK;
}

/* Background work */

static struct lease_scope scope_of(const struct expiry_task *task)
{
    return (struct lease_scope){
        .txn = task->txn, .ns = task->ns, .kinds = task->leases, .now_ms = task->now_ms};
}

/* Read the name of a mark. */
static enum status read_part_name(struct arena *arena, const char *id, struct part *part)
{
    size_t len = strlen(id), force = sizeof MARK_FORCE - 1;
    part->force = len > force && strcmp(id + len - force, MARK_FORCE) == 0;
    if (part->force)
        len -= force;
    if (id[len - 1] != '/')
        return ST_CORRUPT;
    part->prefix = arena_str(arena, bytes_of(id, len));
    return part->prefix != NULL ? ST_OK : ST_NOMEM;
}

static enum status follow_mark(const struct expiry_task *task, unsigned *steps)
{
    const struct lease_scope scope = scope_of(task);
    struct part part = {.steps = *steps};
    struct state_value stored;
    struct bytes mark;

    ASSERT(task->id[0] != '\0' && *steps > 0);
    TRY(read_part_name(task->txn->arena, task->id, &part));
    TRY(mark_key(&scope, &part, &mark));
    TRY(state_get(task->txn, mark, &stored));
    TRY(read_part_mark(&stored, &part));
    TRY(end_part(&scope, &part));
    ASSERT(part.steps <= *steps && (part.ended.all || part.steps == 0));
    *steps = part.steps;
    part.ended.all = part.ended.all || planted(PLANT_MARK_SHORT);
    if (!part.ended.all)
        return put_part_mark(&scope, &part);
    TRY(note_skipped(&scope, &part));
    return state_delete(task->txn, mark);
}

static enum status lease_expire(const struct expiry_task *task)
{
    const struct lease_scope scope = scope_of(task);
    struct lease lease;
    TRY(lease_load(&scope, task->id, &lease));
    if (lease.expire_ms == 0 || lease.expire_ms > task->now_ms)
        return ST_NOT_FOUND;
    return lease_end(&scope, &lease);
}

const struct expiry_kind lease_expiry = {.name = "lease",
                                         .former_end = "leaseend",
                                         .former_mark = "unlease",
                                         .end = lease_expire,
                                         .go_on = follow_mark};
