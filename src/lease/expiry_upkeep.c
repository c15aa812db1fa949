/* The duty of the expiry index: what is due, unfinished work, former keys. */
#include "lease/expiry_internal.h"

#include "base/trace.h"
#include "state/feature.h"
#include "state/ns_key.h"
#include "text/value.h"

/* One run of the duty. */
struct run {
    const struct expiry_kinds *kinds;
    struct state_txn *txn;
    int64_t now_ms;
    bool raised;
    unsigned steps; /* left */
    size_t size;    /* size of the transaction at which the run takes no further step */
};

/* Keys in the order of one prefix: of an index, of former entries, or of marks. */
struct source {
    const struct expiry_kind *former; /* kind of former keys; NULL: the keys name their kind */
    struct bytes prefix;
    bool have; /* walk.key is a key that the run has not met */
    struct state_walk walk;
};

/* A key that the run has met, in the arena. */
struct met {
    struct bytes key;
    struct expiry_name name;
    const struct expiry_kind *kind; /* NULL: this server has no kind of that name */
};

static bool must_stop(enum status st)
{
    return st == ST_NOMEM || st == ST_SEALED;
}

/* Count what cannot be followed. One line in the log is enough: a damaged state may have many. */
static void put_off(const struct run *run, const struct met *met, enum status st)
{
    ASSERT(st != ST_OK);
    const char *what = met->kind != NULL ? met->kind->name : "unknown kind";
    if (atomic_fetch_add_explicit(&run->kinds->counts->put_off, 1, memory_order_relaxed) == 0)
        trace(TRACE_WARN, "lease",
              "%s: an entry of the expiry index cannot be followed, and is tried again later: %s. "
              "holdfast_expiry_put_off_total counts further ones",
              what, status_text(st));
}

/* Whether the run may do no more. A transaction without a write takes a step, whatever it read. */
static bool is_full(const struct run *run)
{
    return run->steps == 0 || (state_staged(run->txn) && state_size(run->txn) >= run->size);
}

/* Sources */

static enum status former_prefix(const struct run *run, const char *former, struct bytes *ret)
{
    return state_ns_key(run->txn->arena, STATE_NS_ROOT, former, (struct bytes){0}, NULL, ret);
}

/* Begin to walk below `prefix`, unless no key lies there: a walk costs more than a count. */
static enum status source_new(const struct run *run, struct bytes prefix,
                              const struct expiry_kind *former, struct source **ret_source)
{
    ASSERT(prefix.len != 0 && prefix.data[prefix.len - 1] == '/');
    *ret_source = NULL;
    if (state_count(run->txn, prefix) == 0)
        return ST_OK;
    struct source *source = arena_alloc(run->txn->arena, sizeof *source);
    if (source == NULL)
        return ST_NOMEM;
    source->former = former;
    source->prefix = prefix;
    state_walk(run->txn, prefix, &source->walk);
    source->have = state_walk_next(&source->walk);
    *ret_source = source;
    return ST_OK;
}

/* Cut the part before the next '/' from *rest. NULL: there is none, or it is empty. */
static const char *cut_part(char **rest)
{
    char *part = *rest, *slash = part != NULL ? strchr(part, '/') : NULL;
    *rest = slash != NULL ? slash + 1 : NULL;
    if (slash == NULL || slash == part)
        return NULL;
    *slash = '\0';
    return part;
}

static bool is_time(const char *text)
{
    return strlen(text) == STATE_TIME_DIGITS &&
           strspn(text, "0123456789abcdef") == STATE_TIME_DIGITS;
}

static const struct expiry_kind *kind_of(const struct run *run, const char *name)
{
    for (size_t i = 0; i < run->kinds->n; i++)
        if (strcmp(run->kinds->items[i]->name, name) == 0)
            return run->kinds->items[i];
    return NULL;
}

/* Read the walk's key. ST_CORRUPT: it has not the form of its source, and only ret->key is set. */
static enum status meet(const struct run *run, const struct source *source, bool timed,
                        struct met *ret)
{
    struct bytes key = source->walk.key;
    char *rest = arena_str(run->txn->arena, bytes_from(key, source->prefix.len));
    struct expiry_name name = {.time = "", .ns = STATE_NS_ROOT};

    ASSERT(source->have);
    *ret = (struct met){.key = bytes_of(arena_dup(run->txn->arena, key), key.len)};
    if (rest == NULL || ret->key.data == NULL)
        return ST_NOMEM;
    if (timed)
        name.time = cut_part(&rest);
    if (source->former == NULL) {
        name.ns = cut_part(&rest);
        name.kind = cut_part(&rest);
        ret->kind = name.kind != NULL ? kind_of(run, name.kind) : NULL;
    } else {
        name.kind = source->former->name;
        ret->kind = source->former;
    }
    name.id = rest;
    if (name.time == NULL || name.ns == NULL || name.kind == NULL || rest == NULL ||
        rest[0] == '\0' || memchr(key.data, 0, key.len) != NULL || (timed && !is_time(name.time)))
        return ST_CORRUPT;
    ret->name = name;
    return ST_OK;
}

static struct expiry_task task_of(const struct run *run, const struct met *met)
{
    return (struct expiry_task){.txn = run->txn,
                                .ns = met->name.ns,
                                .id = met->name.id,
                                .now_ms = run->now_ms,
                                .leases = run->kinds->leases};
}

/* Due entries */

static bool earlier(const struct source *a, const struct source *b)
{
    return bytes_cmp(bytes_from(a->walk.key, a->prefix.len),
                     bytes_from(b->walk.key, b->prefix.len)) < 0;
}

static struct source *earliest(struct source *const *sources, size_t n)
{
    struct source *first = NULL;
    for (size_t i = 0; i < n; i++)
        if (sources[i] != NULL && sources[i]->have && (first == NULL || earlier(sources[i], first)))
            first = sources[i];
    return first;
}

/* Try an entry again later, in the form of the level, so that entries behind it do not wait. */
static enum status entry_put_off(const struct run *run, const struct source *source,
                                 const struct met *met, enum status why)
{
    int64_t again_ms = run->now_ms + EXPIRY_AGAIN_MS;
    char time[STATE_TIME_DIGITS + 1];
    struct expiry_name name = met->name;
    struct bytes key;

    ASSERT(why != ST_OK && !must_stop(why));
    ASSERT(name.ns != NULL && name.id != NULL);
    put_off(run, met, why);
    if (source->former != NULL)
        return expiry_put(run->txn, met->kind, name.ns, again_ms, name.id);
    state_time_text(again_ms, time);
    name.time = time;
    TRY(expiry_join(run->txn->arena, EXPIRY_INDEX, &name, &key));
    return state_put_name(run->txn, key, true);
}

/* Follow one entry: end the thing that the entry names. In any case the entry itself goes. */
static enum status entry_follow(struct run *run, const struct source *source)
{
    struct met met;
    enum status st = meet(run, source, true, &met);
    ASSERT(source->have);
    if (st == ST_CORRUPT) { /* the key names no time and no thing */
        put_off(run, &met, st);
        return state_delete(run->txn, met.key);
    }
    TRY(st);
    TRY(state_delete(run->txn, met.key));
    const struct expiry_task task = task_of(run, &met);
    struct state_mark before = state_mark(run->txn);
    st = met.kind != NULL ? met.kind->end(&task) : ST_UNSUPPORTED;
    if (st == ST_OK || st == ST_NOT_FOUND) {
        ++*(st == ST_OK ? &run->kinds->counts->staged.ended : &run->kinds->counts->staged.dropped);
        return ST_OK;
    }
    if (must_stop(st))
        return st;
    TRY(state_rollback(run->txn, before));
    return entry_put_off(run, source, &met, st);
}

/* Before EXPIRY_FEATURE, and after a restore of a state of that time, each kind has a source. */
static enum status due_follow(struct run *run)
{
    struct source *sources[EXPIRY_KINDS_MAX + 1];
    struct bytes prefix;
    char end[STATE_TIME_DIGITS + 1];
    struct source *next;
    size_t n = 0;

    ASSERT(run->now_ms >= 0);
    state_time_text(run->now_ms + 1, end);
    TRY(source_new(run, BYTES(EXPIRY_INDEX), NULL, &sources[n++]));
    for (size_t i = 0; i < run->kinds->n; i++) {
        TRY(former_prefix(run, run->kinds->items[i]->former_end, &prefix));
        TRY(source_new(run, prefix, run->kinds->items[i], &sources[n++]));
    }
    for (; !is_full(run) && (next = earliest(sources, n)) != NULL; run->steps--) {
        if (bytes_cmp(bytes_from(next->walk.key, next->prefix.len), bytes_str(end)) >= 0)
            return ST_OK;
        TRY(entry_follow(run, next));
        next->have = state_walk_next(&next->walk);
    }
    return ST_OK;
}

/* Unfinished work */

static enum status mark_follow(struct run *run, const struct source *source)
{
    struct met met;
    unsigned before = run->steps;
    ASSERT(before > 0);
    enum status st = meet(run, source, false, &met);
    struct state_mark mark = state_mark(run->txn);
    if (st == ST_OK)
        st = met.kind != NULL && met.kind->go_on != NULL ? ST_OK : ST_UNSUPPORTED;
    if (st == ST_OK) {
        const struct expiry_task task = task_of(run, &met);
        st = met.kind->go_on(&task, &run->steps);
    }
    ASSERT(run->steps <= before);
    if (st == ST_OK && run->steps == before)
        run->steps--; /* a mark with nothing below it is a step too */
    if (st == ST_OK || must_stop(st))
        return st;
    run->steps = before;
    put_off(run, &met, st); /* the mark stays, and a later run meets it again */
    return state_rollback(run->txn, mark);
}

/* All places where marks lie, in a fixed order. */
static enum status mark_sources(const struct run *run, struct source **sources, size_t *ret_n)
{
    struct bytes prefix;
    size_t n = 0;
    TRY(source_new(run, BYTES(EXPIRY_UNFINISHED), NULL, &sources[n]));
    n += sources[n] != NULL;
    for (size_t i = 0; i < run->kinds->n; i++) {
        const struct expiry_kind *kind = run->kinds->items[i];
        if (kind->former_mark == NULL)
            continue;
        TRY(former_prefix(run, kind->former_mark, &prefix));
        TRY(source_new(run, prefix, kind, &sources[n]));
        n += sources[n] != NULL;
    }
    *ret_n = n;
    return ST_OK;
}

/* Follow the marks of a source after `after`, or all of them. With `upto`, stop behind that key. */
static enum status marks_follow(struct run *run, struct source *source, struct bytes after,
                                struct bytes upto, unsigned *looks)
{
    struct expiry_counts *counts = run->kinds->counts;
    state_walk_from(run->txn, source->prefix, after, &source->walk);
    while (*looks > 0 && !is_full(run) && (source->have = state_walk_next(&source->walk))) {
        struct bytes key = source->walk.key;
        if (upto.len != 0 && bytes_cmp(key, upto) > 0)
            return ST_OK;
        if (bytes_eq(key, after))
            continue;
        ASSERT(key.len <= sizeof counts->mark);
        memcpy(counts->mark, key.data, key.len);
        counts->mark_len = key.len;
        --*looks;
        TRY(mark_follow(run, source));
    }
    return ST_OK;
}

/* Go round all marks, from the mark at which the last run stopped back to that mark. */
static enum status work_follow(struct run *run, struct source *const *sources, size_t n)
{
    const struct expiry_counts *counts = run->kinds->counts;
    uint8_t *copy = arena_dup(run->txn->arena, bytes_of(counts->mark, counts->mark_len));
    const struct bytes last = bytes_of(copy, counts->mark_len), none = {0};
    unsigned looks = EXPIRY_MARKS_MAX;
    size_t first = 0;

    ASSERT(n > 0);
    if (copy == NULL)
        return ST_NOMEM;
    while (first < n && !bytes_has_prefix(last, sources[first]->prefix))
        first++;
    bool begun = first < n;
    first = begun ? first : 0;
    TRY(marks_follow(run, sources[first], begun ? last : none, none, &looks));
    for (size_t i = 1; i < n; i++)
        TRY(marks_follow(run, sources[(first + i) % n], none, none, &looks));
    return begun ? marks_follow(run, sources[first], none, last, &looks) : ST_OK;
}

/* Former keys */

/* Move an entry or a mark, unless it is gone. Reading it makes it a precondition. */
static enum status key_move(struct run *run, const struct source *source, bool timed)
{
    struct state_value stored = {.value = {0}};
    struct bytes key;
    struct met met;

    ASSERT(source->former != NULL && run->raised);
    enum status st = meet(run, source, timed, &met);
    if (st == ST_CORRUPT) {
        put_off(run, &met, st);
        return state_delete(run->txn, met.key);
    }
    TRY(st);
    st = timed ? state_exists(run->txn, met.key) : state_get(run->txn, met.key, &stored);
    if (st == ST_NOT_FOUND)
        return ST_OK; /* this run has ended the thing */
    TRY(st);
    TRY(expiry_join(run->txn->arena, timed ? EXPIRY_INDEX : EXPIRY_UNFINISHED, &met.name, &key));
    TRY(timed ? state_put_name(run->txn, key, true)
              : state_put_exempt(run->txn, key, stored.value));
    TRY(state_delete(run->txn, met.key));
    run->kinds->counts->staged.moved++;
    return ST_OK;
}

static enum status keys_move(struct run *run, const struct expiry_kind *kind, bool timed)
{
    const char *former = timed ? kind->former_end : kind->former_mark;
    struct source *source = NULL;
    struct bytes prefix;
    ASSERT(run->raised);
    if (former == NULL)
        return ST_OK;
    TRY(former_prefix(run, former, &prefix));
    TRY(source_new(run, prefix, kind, &source));
    for (; source != NULL && source->have && !is_full(run); run->steps--) {
        TRY(key_move(run, source, timed));
        source->have = state_walk_next(&source->walk);
    }
    return ST_OK;
}

static enum status former_move(struct run *run)
{
    if (!run->raised)
        return ST_OK;
    for (size_t i = 0; i < run->kinds->n; i++) {
        TRY(keys_move(run, run->kinds->items[i], true));
        TRY(keys_move(run, run->kinds->items[i], false));
    }
    return ST_OK;
}

enum status expiry_upkeep(const void *kinds, struct state_txn *txn, int64_t now_ms, unsigned steps)
{
    struct run run = {.kinds = kinds, .txn = txn, .now_ms = now_ms};
    struct source *marks[EXPIRY_KINDS_MAX + 1];
    size_t n_marks;
    ASSERT(now_ms >= 0 && steps > 0 && steps <= EXPIRY_STEPS);
    ASSERT(run.kinds->counts != NULL && run.kinds->n > 0);
    memset(&run.kinds->counts->staged, 0, sizeof run.kinds->counts->staged);
    TRY(state_has_feature(txn, EXPIRY_FEATURE, &run.raised));
    TRY(mark_sources(&run, marks, &n_marks));
    unsigned kept = n_marks != 0 && steps > 1 ? MAX(steps / EXPIRY_MARK_PART, 1U) : 0;
    run.steps = steps - kept;
    run.size = EXPIRY_BYTES - (kept != 0 ? EXPIRY_BYTES / EXPIRY_MARK_PART : 0);
    TRY(due_follow(&run));
    run.steps += kept;
    run.size = EXPIRY_BYTES;
    unsigned before = run.steps;
    if (n_marks != 0)
        TRY(work_follow(&run, marks, n_marks));
    run.kinds->counts->asked = run.steps < before;
    TRY(former_move(&run));
    ASSERT(state_is_exempt(txn)); /* else nothing would end in a full state */
    return ST_OK;
}

bool expiry_asked(const void *kinds)
{
    return ((const struct expiry_kinds *)kinds)->counts->asked;
}

static void count(_Atomic uint64_t *counter, unsigned more)
{
    (void)atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
}

void expiry_committed(const void *kinds)
{
    struct expiry_counts *counts = ((const struct expiry_kinds *)kinds)->counts;
    count(&counts->ended, counts->staged.ended);
    count(&counts->dropped, counts->staged.dropped);
    count(&counts->moved, counts->staged.moved);
    memset(&counts->staged, 0, sizeof counts->staged);
}
