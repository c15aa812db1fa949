/* The service of the active node: pending evaluations, one after the other, and nodes that beat no
 * more. */
#include "api/scheduler/scheduler.h"
#include "base/trace.h"
#include "node/service.h"
#include "state/feature.h"

#include <time.h>

enum { LOOK_EVERY_MS = 50, BEATS_EVERY_MS = 500 };

struct loop {
    uint64_t since_ms; /* monotonic: when this node became active */
    uint64_t beats_ms; /* monotonic: last look at the beats */
    bool worked;
    /* the evaluation of the last turn; the one that failed in an earlier turn, and why */
    char current[SCHED_UUID_LEN + 1], bad[SCHED_UUID_LEN + 1];
    enum status why;
};

static uint64_t mono_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* this clock exists */
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* An evaluation that cannot be carried out must not keep the others waiting. */
static enum status fail_eval(struct state_txn *txn, struct sched_eval *eval, enum status why,
                             int64_t now_ms)
{
    eval->status = SCHED_EVAL_FAILED;
    eval->text = status_text(why);
    eval->modified_ms = now_ms;
    return sched_eval_put(txn, eval);
}

/* Whether the failure is one of the evaluation, and comes again. */
static bool is_lasting(enum status st)
{
    return st == ST_CORRUPT || st == ST_TOO_BIG || st == ST_INVALID || st == ST_NOT_FOUND;
}

/* Take the first evaluation that is due. Other writers put evaluations meanwhile: the walk makes no
 * precondition, the load of the evaluation does. */
static enum status sched_loop_take_one(struct state_txn *txn, struct loop *loop, int64_t now_ms)
{
    struct state_walk walk;
    struct bytes prefix;
    TRY(sched_key(txn->arena, "sched-queue", "", NULL, &prefix));
    state_walk(txn, prefix, &walk);
    while (state_walk_next(&walk)) {
        struct sched_eval eval;
        const char *id = arena_str(txn->arena, bytes_from(walk.key, prefix.len));
        if (id == NULL)
            return ST_NOMEM;
        enum status st = sched_eval_load(txn, id, &eval);
        if (st == ST_NOT_FOUND)
            continue;
        TRY(st);
        if (eval.status != SCHED_EVAL_PENDING || eval.wait_until_ms > now_ms)
            continue;
        ASSERT(strlen(id) == SCHED_UUID_LEN);
        memcpy(loop->current, id, sizeof loop->current);
        return strcmp(id, loop->bad) == 0 ? fail_eval(txn, &eval, loop->why, now_ms)
                                          : sched_place(txn, &eval, now_ms);
    }
    return ST_OK;
}

enum status sched_node_down(struct state_txn *txn, const char *id, int64_t now_ms)
{
    struct sched_node node;
    struct sched_ids ids;
    TRY(sched_node_load(txn, id, &node));
    if (node.status != SCHED_NODE_READY)
        return ST_OK;
    node.status = SCHED_NODE_DOWN;
    node.status_ms = now_ms;
    TRY(sched_node_now_put(txn, &node));
    TRY(sched_ids_of(txn, "sched-node-alloc", id, &ids));
    const char *last = "";
    for (size_t i = 0; i < ids.n; i++) {
        struct sched_alloc alloc;
        struct sched_job job;
        const char *eval;
        TRY(sched_alloc_load(txn, ids.items[i], &alloc));
        if (sched_client_ended(alloc.report.status) || strcmp(alloc.plan.job, last) == 0)
            continue;
        last = alloc.plan.job;
        enum status st = sched_job_load(txn, alloc.plan.job, &job);
        if (st == ST_NOT_FOUND)
            job = (struct sched_job){.id = alloc.plan.job};
        else
            TRY(st);
        const struct sched_cause cause = {.trigger = "node-update", .node = id};
        TRY(sched_evaluate(txn, now_ms, &job, &cause, &eval));
    }
    return ST_OK;
}

/* Find one node whose time is over. */
static enum status look_at_beats(struct state_txn *txn, const struct loop *loop, int64_t now_ms)
{
    struct state_walk walk;
    struct bytes prefix;
    TRY(sched_key(txn->arena, "sched-node", "", NULL, &prefix));
    state_walk(txn, prefix, &walk);
    while (state_walk_next(&walk)) {
        struct sched_node node;
        const char *id = arena_str(txn->arena, bytes_from(walk.key, prefix.len));
        if (id == NULL)
            return ST_NOMEM;
        if (strlen(id) != SCHED_UUID_LEN || !sched_beat_is_late(id, loop->since_ms))
            continue;
        TRY(sched_node_load(txn, id, &node));
        if (node.status == SCHED_NODE_READY) {
            trace(TRACE_WARN, "scheduler", "node %s (%s) is down: it beat no more", id, node.name);
            return sched_node_down(txn, id, now_ms);
        }
    }
    return ST_OK;
}

static enum status sched_loop_turn(struct state_txn *txn, void *ctx, int64_t now_ms)
{
    struct loop *loop = ctx;
    bool raised;
    TRY(state_has_feature(txn, SCHEDULER_FEATURE, &raised));
    if (!raised)
        return ST_OK;
    TRY(sched_loop_take_one(txn, loop, now_ms));
    if (!state_staged(txn) && mono_ms() >= loop->beats_ms + BEATS_EVERY_MS) {
        loop->beats_ms = mono_ms();
        TRY(look_at_beats(txn, loop, now_ms));
    }
    loop->worked = state_staged(txn);
    return ST_OK;
}

void sched_loop_run(struct service *service)
{
    struct loop loop = {.since_ms = mono_ms()};
    for (uint64_t wait_ms = 0; service_wait(service, wait_ms);) {
        loop.worked = false;
        loop.current[0] = '\0';
        enum status st = service_transact(service, sched_loop_turn, &loop);
        if (st != ST_OK && st != ST_CONFLICT && st != ST_CLOSED && st != ST_NOT_LEADER)
            trace(TRACE_WARN, "scheduler", "evaluation %s failed: %s", loop.current,
                  status_text(st));
        if (is_lasting(st) && loop.current[0] != '\0') {
            memcpy(loop.bad, loop.current, sizeof loop.bad);
            loop.why = st;
        }
        wait_ms = st == ST_OK && loop.worked ? 0 : LOOK_EVERY_MS;
    }
}
