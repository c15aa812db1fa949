/* Transactions of the simulator on a node of a pair: a handler on `src/state`, or operations that
 * only the code of disaster recovery proposes. */
#include "pair.h"

#include "base/mem.h"

enum { RUNS_MAX = 8 };

/* One call under way on a node; it vanishes with the node's memory. */
struct work {
    struct pair_call *call;
    struct node *node;
    struct arena arena;
    struct state_commit commit;
    struct rlog_propose propose;
    struct buf encoded;
    unsigned runs;
};

static void finish(struct work *w, enum status st)
{
    struct pair_call *call = w->call;
    state_commit_done(&w->commit);
    arena_done(&w->arena);
    buf_done(&w->encoded);
    w->node->requests--;
    mem_free(w);
    list_remove(&call->link);
    call->process = 0;
    call->done(call, st);
}

static void run(struct work *w);

static void on_committed(struct state_commit *commit, enum status st)
{
    struct work *w = CONTAINER_OF(commit, struct work, commit);
    if (st == ST_CONFLICT && ++w->runs < RUNS_MAX) {
        run(w);
        return;
    }
    w->call->version = commit->version;
    finish(w, st);
}

static void run(struct work *w)
{
    struct node *n = w->node;
    struct state_txn txn;
    enum status st = state_begin(n->service, &w->arena, NULL, &txn);
    bool committing = false;
    if (st == ST_OK) {
        w->call->version = state_version(&txn);
        st = w->call->stage(w->call, &txn, rlog_time_ms(n->rlog));
        if (st == ST_OK && state_staged(&txn)) {
            w->commit.done = on_committed;
            st = state_commit(&txn, &w->commit);
            committing = st == ST_OK;
        }
        state_end(&txn);
    }
    if (!committing)
        finish(w, st);
}

static void on_proposed(struct rlog_propose *p, enum status st)
{
    struct work *w = CONTAINER_OF(p, struct work, propose);
    if (st == ST_OK && p->applied.outcome != RLOG_APPLIED)
        st = ST_CONFLICT;
    w->call->version = p->applied.version;
    w->call->tree = p->applied.stage;
    finish(w, st);
}

static void propose(struct work *w)
{
    struct rlog_txn_builder b = {0};
    enum status st = w->call->build(w->call, &b);
    if (st == ST_OK)
        st = rlog_txn_encode(&b, &w->encoded);
    rlog_txn_done(&b);
    if (st != ST_OK) {
        finish(w, st);
        return;
    }
    w->propose =
        (struct rlog_propose){.txn = buf_bytes(&w->encoded), .upkeep = true, .done = on_proposed};
    rlog_propose(w->node->rlog, &w->propose);
}

void pair_call_begin(struct pair *p, struct pair_call *call, struct node *n)
{
    ASSERT(call->process == 0 && n->process != 0);
    ASSERT((call->stage != NULL) != (call->build != NULL));
    call->node = n;
    call->process = n->process;
    list_push(&p->calls, &call->link);
    sim_env_enter(&n->env);
    struct work *w = mem_must_alloc(sizeof *w);
    memset(w, 0, sizeof *w);
    w->call = call;
    w->node = n;
    n->requests++;
    if (call->stage != NULL)
        run(w);
    else
        propose(w);
    (void)sim_env_leave(&n->env); /* nothing is touched after it */
}

void pair_forget(struct cluster *site, uint64_t process)
{
    if (site->pair == NULL)
        return;
    LIST_FOR_SAFE (link, next, &site->pair->calls) {
        struct pair_call *call = CONTAINER_OF(link, struct pair_call, link);
        if (call->node->cluster != site || call->process != process)
            continue;
        list_remove(&call->link);
        call->process = 0;
        call->done(call, ST_UNKNOWN_OUTCOME);
    }
}
