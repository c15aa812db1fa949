/* Judges the log of replies to clients with tokens: whether a correct cluster can give them. */
#include "front.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { LIN_STEPS_MAX = 1000000, DEPTH_MAX = 80 };

/* The log */

static void list_add(struct front_list *list, size_t event)
{
    list->all = sim_grow(list->all, (list->n + 1) * sizeof *list->all);
    list->all[list->n++] = event;
}

bool front_token_is_known(const struct front_token *token)
{
    return token->bearer != NULL || !(token->batch || token->wrapping);
}

/* Whether such an operation makes the token it is about. */
static bool makes(enum front_kind kind)
{
    return kind == FRONT_CREATE || kind == FRONT_TAKE || kind == FRONT_WRAP || kind == FRONT_REWRAP;
}

/* Whether such an operation ends the wrapping token that is shown. */
static bool takes(enum front_kind kind)
{
    return kind == FRONT_UNWRAP || kind == FRONT_REWRAP;
}

uint64_t front_log_token(struct front_log *log, const struct front_token *token)
{
    log->tokens = sim_grow(log->tokens, (log->n_tokens + 1) * sizeof *log->tokens);
    log->tokens[log->n_tokens] = *token;
    return log->n_tokens++;
}

void front_log_add(struct front_log *log, const struct front_event *event)
{
    enum front_kind kind = event->op.kind;
    ASSERT(event->op.by < log->n_tokens && event->op.about < log->n_tokens);
    log->events = sim_grow(log->events, (log->n_events + 1) * sizeof *log->events);
    log->events[log->n_events] = *event;
    list_add(&log->tokens[event->op.by].by, log->n_events);
    if (makes(kind) || kind == FRONT_RENEW || kind == FRONT_REVOKE)
        list_add(&log->tokens[event->op.about].about, log->n_events);
    if (kind == FRONT_POLICY)
        list_add(&log->edits[event->op.policy], log->n_events);
    if (kind == FRONT_BELOW)
        list_add(&log->below[event->op.key], log->n_events);
    log->n_events++;
}

void front_log_done(struct front_log *log)
{
    for (size_t i = 0; i < log->n_tokens; i++) {
        free(log->tokens[i].by.all);
        free(log->tokens[i].about.all);
        free(log->tokens[i].bearer);
    }
    for (size_t i = 0; i < ARRAY_LEN(log->edits); i++)
        free(log->edits[i].all);
    for (size_t i = 0; i < FRONT_FOLDERS; i++)
        free(log->below[i].all);
    free(log->tokens);
    free(log->events);
}

/* What is known about a token */

/* The token was good … */
static bool accepted(const struct front_event *e)
{
    enum front_verdict verdict = e->answer.verdict;
    return verdict == FRONT_DONE || verdict == FRONT_DIFFER || verdict == FRONT_FORBIDDEN;
}

/* … and the handler ran. */
static bool handled(const struct front_event *e)
{
    return accepted(e) && e->answer.verdict != FRONT_FORBIDDEN;
}

/* Reads a register. */
static bool reads(const struct front_event *e)
{
    return e->op.kind == FRONT_LOOK || e->op.kind == FRONT_ASK;
}

/* Took effect, or may have. */
static bool effective(const struct front_event *e)
{
    return e->answer.verdict == FRONT_DONE || e->answer.verdict == FRONT_UNKNOWN;
}

/* When the token was surely made; NULL: no reply says that it was. */
static const struct front_event *made(const struct front_log *log, uint64_t token)
{
    const struct front_list *about = &log->tokens[token].about;
    for (size_t i = 0; i < about->n; i++) {
        const struct front_event *e = &log->events[about->all[i]];
        if (makes(e->op.kind) && e->answer.verdict == FRONT_DONE)
            return e;
    }
    return NULL;
}

/* A revocation that was acknowledged and, if it found nothing, found nothing left. */
static bool surely_ended(const struct front_log *log, const struct front_event *e)
{
    if (e->op.kind != FRONT_REVOKE || e->answer.verdict != FRONT_DONE)
        return false;
    const struct front_event *create = made(log, e->op.about);
    return e->answer.found || (create != NULL && create->ret_ns <= e->call_ns);
}

/* A revocation that was surely over before `before`; `with_tree`: of its children too. */
static const struct front_event *ended_before(const struct front_log *log, uint64_t token,
                                              bool with_tree, uint64_t before)
{
    const struct front_list *about = &log->tokens[token].about;
    for (size_t i = 0; i < about->n; i++) {
        const struct front_event *e = &log->events[about->all[i]];
        if (surely_ended(log, e) && e->ret_ns < before && !(with_tree && e->op.spare))
            return e;
    }
    return NULL;
}

/* Whether what a wrapping token keeps was surely taken before `before`. */
static bool taken_before(const struct front_log *log, uint64_t token, uint64_t before)
{
    const struct front_list *by = &log->tokens[token].by;
    for (size_t i = 0; i < by->n; i++) {
        const struct front_event *e = &log->events[by->all[i]];
        if (takes(e->op.kind) && e->answer.verdict == FRONT_DONE && e->ret_ns < before)
            return true;
    }
    return false;
}

/* Whether `token` may have ended without its children until `until`: then it and all above it say
 * nothing about those any more. */
static bool may_be_left(const struct front_log *log, uint64_t token, uint64_t until)
{
    const struct front_list *about = &log->tokens[token].about;
    for (size_t i = 0; i < about->n; i++) {
        const struct front_event *e = &log->events[about->all[i]];
        bool nothing = e->answer.verdict == FRONT_DONE && !e->answer.found;
        if (e->op.kind == FRONT_REVOKE && e->op.spare && effective(e) && !nothing &&
            e->call_ns < until && ended_before(log, token, true, e->call_ns) == NULL)
            return true;
    }
    return false;
}

/* Whether it may have been revoked until `until`, in whatever way. */
static bool may_be_revoked(const struct front_log *log, uint64_t token, uint64_t until)
{
    const struct front_list *about = &log->tokens[token].about;
    for (size_t i = 0; i < about->n; i++) {
        const struct front_event *e = &log->events[about->all[i]];
        if (e->op.kind == FRONT_REVOKE && effective(e) && e->call_ns < until)
            return true;
    }
    return false;
}

/* The ends of the folder of a lease; of a token there are none. */
static struct front_list below_of(const struct front_log *log, uint64_t token)
{
    return log->tokens[token].lease ? log->below[token % FRONT_FOLDERS] : (struct front_list){0};
}

/* Whether the end of a folder surely means the lease, which was made before. */
static bool surely_meant(const struct front_log *log, const struct front_event *e, uint64_t lease)
{
    const struct front_event *take = made(log, lease);
    return e->answer.verdict == FRONT_DONE && take != NULL && take->ret_ns <= e->call_ns;
}

/* Whether the lease had surely ended before `before`, with all others of its folder. */
static bool ended_below(const struct front_log *log, uint64_t lease, uint64_t before)
{
    const struct front_list below = below_of(log, lease);
    for (size_t i = 0; i < below.n; i++) {
        const struct front_event *e = &log->events[below.all[i]];
        if (e->answer.found && surely_meant(log, e, lease) && e->ret_ns < before)
            return true;
    }
    return false;
}

/* Whether the lease may have ended until `until` with its folder: not by an end that was over when
 * the lease was asked for. */
static bool may_be_ended_below(const struct front_log *log, uint64_t lease, uint64_t until)
{
    const struct front_list below = below_of(log, lease);
    const struct front_event *take = made(log, lease);
    for (size_t i = 0; i < below.n; i++) {
        const struct front_event *e = &log->events[below.all[i]];
        if (effective(e) && e->call_ns < until && (take == NULL || e->ret_ns > take->call_ns))
            return true;
    }
    return false;
}

bool front_judge_left(const struct front_log *log, uint64_t lease)
{
    ASSERT(lease < log->n_tokens && log->tokens[lease].lease);
    const struct front_list below = below_of(log, lease);
    for (size_t i = 0; i < below.n; i++)
        if (surely_meant(log, &log->events[below.all[i]], lease))
            return false;
    return true;
}

/* Between which times of the cluster a token expires, as an operation that lasts from `from` to
 * `until` may find it. INT64_MAX: never, or nobody knows. */
struct span {
    int64_t lo, hi;
};

/* Whether a later change of the token's end was acknowledged before `from`. */
static bool overwritten(const struct front_log *log, const struct front_event *e, uint64_t from)
{
    const struct front_list *about = &log->tokens[e->op.about].about;
    for (size_t i = 0; i < about->n; i++) {
        const struct front_event *later = &log->events[about->all[i]];
        if (later->op.kind == FRONT_RENEW && later->answer.verdict == FRONT_DONE &&
            e->ret_ns <= later->call_ns && later->ret_ns <= from)
            return true;
    }
    return false;
}

static struct span expiry(const struct front_log *log, uint64_t token, uint64_t from,
                          uint64_t until)
{
    struct span span = {INT64_MAX, 0};
    const struct front_list *about = &log->tokens[token].about;
    for (size_t i = 0; i < about->n; i++) {
        const struct front_event *e = &log->events[about->all[i]];
        bool sets = makes(e->op.kind) || e->op.kind == FRONT_RENEW;
        if (!sets || !effective(e) || e->call_ns >= until || overwritten(log, e, from))
            continue;
        bool known = e->answer.verdict == FRONT_DONE;
        int64_t at = e->answer.new_expire_ms;
        int64_t soonest = e->seen_call_ms + e->op.ttl_s * 1000 - FRONT_SLACK_MS;
        span.lo = MIN(span.lo, known ? at : soonest);
        span.hi = MAX(span.hi, known ? at : INT64_MAX);
    }
    if (token == FRONT_ROOT || span.hi == 0)
        span.hi = INT64_MAX;
    return span;
}

/* Success */

static bool fail(char text[FRONT_TEXT], const struct front_event *e, const char *what,
                 uint64_t token, int64_t by_ms)
{
    snprintf(text, FRONT_TEXT,
             "token %" PRIu64 ", operation %" PRIu64 " from %.6f to %.6f s %s (token %" PRIu64
             ", %" PRId64 " ms)",
             e->op.by, e->op.number, (double)e->call_ns / 1e9, (double)e->ret_ns / 1e9, what, token,
             by_ms);
    return false;
}

static bool judge_accepted(const struct front_log *log, const struct front_event *e, char *text)
{
    uint64_t token = e->op.by;
    int64_t late_ms = e->answer.time_ms - e->answer.expire_ms;
    if (e->answer.expire_ms != 0 && late_ms >= 0)
        return fail(text, e, "succeeds at a time at which it has expired", token, late_ms);
    if (taken_before(log, token, e->call_ns))
        return fail(text, e, "succeeds after what it keeps was taken", token, 0);
    /* A token that ends without its children still takes its leases and batch tokens along. */
    bool child = false, along;
    for (unsigned i = 0; i < DEPTH_MAX; i++, token = log->tokens[token].parent) {
        if (child && may_be_left(log, token, e->ret_ns))
            return true; /* an orphan, perhaps */
        if (ended_before(log, token, child, e->call_ns) != NULL)
            return fail(text, e, "succeeds after a revocation was acknowledged", token, 0);
        if (ended_below(log, token, e->call_ns))
            return fail(text, e, "succeeds after its folder was ended", token, 0);
        struct span span = expiry(log, token, e->call_ns, e->ret_ns);
        if (span.hi != INT64_MAX && e->seen_call_ms >= span.hi + FRONT_SLACK_MS)
            return fail(text, e, "succeeds too late", token, e->seen_call_ms - span.hi);
        if (log->tokens[token].orphan)
            return true;
        along = log->tokens[token].lease || log->tokens[token].batch;
        child = child || !along;
    }
    return fail(text, e, "succeeds below too many", token, 0);
}

/* Refusal */

/* Whether its uses may be spent by what began before `until`. */
static bool may_be_spent(const struct front_log *log, uint64_t token, uint64_t until)
{
    const struct front_list *by = &log->tokens[token].by;
    int64_t uses = 0;
    for (size_t i = 0; i < by->n; i++) {
        const struct front_event *e = &log->events[by->all[i]];
        uses +=
            e->call_ns < until && e->answer.verdict != FRONT_REFUSED && e->op.kind != FRONT_PEEK;
    }
    return log->tokens[token].uses != 0 && uses >= log->tokens[token].uses;
}

/* Whether that token was the reason, or may have been. */
static bool may_refuse(const struct front_log *log, const struct front_event *e, uint64_t token)
{
    const struct front_event *create = made(log, token);
    if (token != FRONT_ROOT && (create == NULL || create->ret_ns > e->call_ns))
        return true;
    struct span span = expiry(log, token, e->call_ns, e->ret_ns);
    return e->seen_ret_ms >= (span.lo == INT64_MAX ? span.lo : span.lo - FRONT_SLACK_MS) ||
           may_be_revoked(log, token, e->ret_ns) || may_be_spent(log, token, e->ret_ns) ||
           may_be_ended_below(log, token, e->ret_ns);
}

static bool judge_refused(const struct front_log *log, const struct front_event *e, char *text)
{
    uint64_t token = e->op.by;
    for (unsigned i = 0; i < DEPTH_MAX; i++, token = log->tokens[token].parent) {
        if (may_refuse(log, e, token))
            return true;
        if (log->tokens[token].orphan)
            break;
    }
    return fail(text, e, "is refused too early", e->op.by, e->seen_ret_ms);
}

/* Uses */

static bool judge_uses(const struct front_log *log, uint64_t token, char *text)
{
    const struct front_list *by = &log->tokens[token].by;
    int64_t limit = log->tokens[token].uses, n = 0;
    uint64_t seen = 0;
    for (size_t i = 0; i < by->n && limit != 0; i++) {
        const struct front_event *e = &log->events[by->all[i]];
        int64_t left = e->answer.uses_left;
        if (!accepted(e) || e->op.kind == FRONT_PEEK)
            continue;
        if (left < 0 || left >= limit || (seen >> left & 1) != 0)
            return fail(text, e, "leaves a number of uses that cannot be", token, left);
        seen |= 1ull << left;
        if (++n > limit)
            return fail(text, e, "is one use too many", token, n);
    }
    return true;
}

/* Tokens that nodes make */

static bool judge_made(const struct front_log *log, const struct front_event *e, char *text)
{
    const struct front_token *shown = &log->tokens[e->op.by], *about = &log->tokens[e->op.about];
    bool done = e->answer.verdict == FRONT_DONE;
    if (done && shown->wrapping && e->answer.value != shown->value)
        return fail(text, e, "gives another reply than the one that was wrapped", e->op.by,
                    (int64_t)e->answer.value);
    if (done && about->batch && e->op.kind == FRONT_RENEW)
        return fail(text, e, "renews a batch token", e->op.about, 0);
    if (done && about->batch && e->op.kind == FRONT_REVOKE && e->answer.found)
        return fail(text, e, "revokes a batch token", e->op.about, 0);
    return true;
}

/* Policies */

/* Whether another edit of the policy was made after what had been over at `since`, and was over at
 * `until`. */
static bool edited_since(const struct front_log *log, const struct front_list *edits,
                         uint64_t since, uint64_t until)
{
    for (size_t i = 0; i < edits->n; i++) {
        const struct front_event *e = &log->events[edits->all[i]];
        if (e->answer.verdict == FRONT_DONE && e->call_ns >= since && e->ret_ns <= until)
            return true;
    }
    return false;
}

static bool may_say(const struct front_log *log, uint64_t policy, bool allow,
                    const struct front_event *e)
{
    const struct front_list *edits = &log->edits[policy];
    if (allow == (policy < FRONT_POLICIES) && !edited_since(log, edits, 0, e->call_ns))
        return true;
    for (size_t i = 0; i < edits->n; i++) {
        const struct front_event *edit = &log->events[edits->all[i]];
        if (edit->op.allow == allow && effective(edit) && edit->call_ns < e->ret_ns &&
            !edited_since(log, edits, edit->ret_ns, e->call_ns))
            return true;
    }
    return false;
}

static bool judge_policy(const struct front_log *log, const struct front_event *e, char *text)
{
    bool allowed = e->answer.verdict != FRONT_FORBIDDEN;
    uint64_t policy = log->tokens[e->op.by].policy;
    bool asks = reads(e) || e->op.kind == FRONT_CAS;
    if (!asks || !accepted(e) || e->op.by == FRONT_ROOT || may_say(log, policy, allowed, e))
        return true;
    return fail(text, e,
                allowed ? "succeeds after an edit of its policy forbade it"
                        : "is forbidden after an edit of its policy allowed it",
                e->op.by, 0);
}

bool front_judge(const struct front_log *log, char text[FRONT_TEXT])
{
    for (size_t i = 0; i < log->n_events; i++) {
        const struct front_event *e = &log->events[i];
        if (accepted(e) && !judge_accepted(log, e, text))
            return false;
        if (!judge_policy(log, e, text) || !judge_made(log, e, text))
            return false;
        if (e->answer.verdict == FRONT_REFUSED && !judge_refused(log, e, text))
            return false;
    }
    for (uint64_t token = 0; token < log->n_tokens; token++)
        if (!judge_uses(log, token, text))
            return false;
    return true;
}

/* Registers: a history of their versions. */

static bool version_add(const struct front_event *e, struct lin_op *op)
{
    bool answered = handled(e);
    *op = (struct lin_op){.client = e->op.client, .call = e->call_ns, .ret = e->ret_ns};
    if (e->op.kind == FRONT_CAS && e->answer.verdict != FRONT_DIFFER) {
        op->kind = LIN_CAS;
        op->expect = e->op.expect;
        op->value = e->op.expect + 1;
        return effective(e);
    }
    op->kind = LIN_READ;
    op->value = e->answer.version;
    return answered && (reads(e) || e->op.kind == FRONT_CAS);
}

/* Every version has one writer, and a success the next version. */
static bool judge_writers(const struct front_log *log, uint64_t key, char *text)
{
    uint64_t *writer = NULL;
    size_t n = 0;
    bool well = true;
    for (size_t i = 0; i < log->n_events && well; i++) {
        const struct front_event *e = &log->events[i];
        uint64_t at = e->answer.version;
        bool cas = e->op.kind == FRONT_CAS;
        if (e->op.key != key || !handled(e) || !(cas || reads(e)))
            continue;
        if (cas && (e->answer.verdict == FRONT_DONE) != (at == e->op.expect + 1))
            well = e->answer.verdict == FRONT_DIFFER && at != e->op.expect;
        for (; n <= at; n++) {
            writer = sim_grow(writer, (n + 1) * sizeof *writer);
            writer[n] = 0;
        }
        well = well && (writer[at] == 0 || writer[at] == e->answer.value) &&
               (e->answer.value != 0) == (at != 0);
        writer[at] = e->answer.value;
        if (!well)
            (void)fail(text, e, "finds another writer, or a version that cannot be", e->op.by, 0);
    }
    free(writer);
    return well;
}

bool front_judge_register(const struct front_log *log, uint64_t key, uint64_t end,
                          bool *ret_too_hard, char text[FRONT_TEXT])
{
    struct lin_op *ops = sim_alloc((log->n_events + 1) * sizeof *ops);
    size_t n = 0, stuck = 0;
    uint64_t last_ns = 0;
    *ret_too_hard = false;
    for (size_t i = 0; i < log->n_events; i++) {
        const struct front_event *e = &log->events[i];
        last_ns = MAX(last_ns, e->ret_ns != LIN_NEVER ? e->ret_ns : e->call_ns);
        if (e->op.key == key)
            n += version_add(e, &ops[n]);
    }
    if (end != UINT64_MAX)
        ops[n++] = (struct lin_op){LIN_READ, last_ns + 1, last_ns + 2, end, 0, 0};
    enum lin_verdict verdict = lin_check(ops, n, LIN_STEPS_MAX, &stuck);
    *ret_too_hard = verdict == LIN_TOO_HARD;
    if (verdict == LIN_BAD)
        snprintf(text, FRONT_TEXT,
                 "version register %" PRIu64 " is not linearizable: client %u, operation %d from "
                 "%.6f to %.6f s, version %" PRIu64 ", expected %" PRIu64,
                 key, ops[stuck].client, ops[stuck].kind, (double)ops[stuck].call / 1e9,
                 (double)ops[stuck].ret / 1e9, ops[stuck].value, ops[stuck].expect);
    free(ops);
    return verdict != LIN_BAD && judge_writers(log, key, text);
}
