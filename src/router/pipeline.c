/* The phases of a call: a table, and the loop that runs them.
 *
 *   ARRIVED ─▶ CHOOSING ──┬──▶ STATELESS ─▶ STATELESS_OUTSIDE ─────────────────────────┐
 *               ▲    ▲    ├──▶ FORWARDING, to the active node ─────────────────────────┤
 *               │    │    └──▶ PRECHECKING ◀─▶ PRECHECK_READING     for unread bodies  │
 *            WAITING │              ▼                                                  │
 *               ▲    └───────── COLLECTING                                             │
 *               │                                                                      │
 *   from phases │    CHOOSING ─▶ READING ─▶ ADMITTING ─▶ PARSING ─▶ AUTHORISING        │
 *   that ask    │                   ▲           ▲           │            ▼             │
 *   other nodes ┘                   └── again ──┴───────────┤    RECORDING_REQUEST     │
 *                                                           │            ▼             │
 *                                                           ├──────  PREPARING         │
 *                                                           │            ▼             │
 *                                                       COMMITTING  ◀─ HANDLING        │
 *                                                       CONFIRMING                     │
 *                                                           ▼                          │
 *                                     FINISHING ◀─ OUTSIDE ◀─ RECEIVING                │
 *                                      ▲     ▼                                         │
 *                         FINISH_COMMITTING, FINISH_CONFIRMING                         │
 *                                         ▼                                            ▼
 *                                  RECORDING_REPLY ─────────────────────────────────▶ DONE
 *
 * 1. A phase that has nothing to wait for returns the next one at once.
 * 2. A transaction runs again, from READING or ADMITTING on, when a long body was parsed, when the
 *    route has prepared, and when another request changed what the transaction had read.
 * 3. Any phase can fail: the call goes on to RECORDING_REPLY, or to DONE where nothing was
 * recorded.
 * 4. A phase outside of a transaction holds none open: `txn` of the table.
 * 5. A client that was told that nothing is changed can rely on that: no phase that may change
 *    something begins after router_give_up (`touches` of the table). */
#include "router/pipe_phases.h"

/* Whether a phase runs inside a transaction. */
enum phase_txn { TXN_CLOSED = 1 << false, TXN_OPEN = 1 << true, TXN_ANY = TXN_CLOSED | TXN_OPEN };

/* Whether the call may change something in a phase. What a forwarded read changes is the count of
 * its token's uses: the client need not know. */
enum phase_touch { TOUCHES_NOTHING, TOUCHES_IF_WRITE, TOUCHES };

struct phase {
    enum pipe_phase (*run)(struct pipe *p);
    enum pipe_phase (*resume)(struct pipe *p); /* NULL: the phase waits for nothing */
    uint32_t next;                             /* a bit for each phase that may follow */
    uint8_t txn, touches;                      /* enum phase_txn, enum phase_touch */
};

static_assert(PIPE_PHASES <= 32, "struct phase has a bit for each phase");

#define BIT(phase) (UINT32_C(1) << PIPE_##phase)
#define ENDS (BIT(RECORDING_REPLY) | BIT(DONE))
#define BEGINS (BIT(READING) | BIT(ADMITTING) | BIT(PRECHECKING) | BIT(PRECHECK_READING))
#define ELSEWHERE (BIT(WAITING) | BIT(FORWARDING)) /* pipe_forward */
#define REFUSES (BIT(RECORDING_REQUEST) | BIT(HANDLING))
#define RUNS (REFUSES | BIT(READING) | BIT(PREPARING))

static const struct phase phases[PIPE_PHASES] = {
    [PIPE_ARRIVED] = {NULL, NULL, BIT(CHOOSING) | ENDS, TXN_CLOSED, TOUCHES_NOTHING},
    [PIPE_CHOOSING] = {pipe_choose, NULL, BIT(STATELESS) | BEGINS | ELSEWHERE | ENDS, TXN_CLOSED,
                       TOUCHES_NOTHING},
    [PIPE_WAITING] = {pipe_wait_begin, pipe_wait_done, BIT(CHOOSING), TXN_CLOSED, TOUCHES_NOTHING},
    [PIPE_STATELESS] = {pipe_stateless, NULL, BIT(STATELESS_OUTSIDE) | ENDS, TXN_CLOSED,
                        TOUCHES_NOTHING},
    [PIPE_STATELESS_OUTSIDE] = {pipe_outside, pipe_stateless_done, ENDS, TXN_CLOSED, TOUCHES},
    [PIPE_FORWARDING] = {pipe_send, pipe_send_done, BIT(WAITING) | ENDS, TXN_CLOSED,
                         TOUCHES_IF_WRITE},
    [PIPE_PRECHECKING] = {pipe_precheck, NULL,
                          BIT(PRECHECK_READING) | BIT(COLLECTING) | REFUSES | ELSEWHERE | ENDS,
                          TXN_CLOSED, TOUCHES_NOTHING},
    [PIPE_PRECHECK_READING] = {pipe_read, pipe_read_done, BIT(PRECHECKING) | BIT(WAITING) | ENDS,
                               TXN_CLOSED, TOUCHES_NOTHING},
    [PIPE_COLLECTING] = {pipe_collect, pipe_collect_done, BIT(CHOOSING) | ENDS, TXN_CLOSED,
                         TOUCHES_NOTHING},
    [PIPE_READING] = {pipe_read, pipe_read_done, BIT(ADMITTING) | BIT(WAITING) | ENDS, TXN_CLOSED,
                      TOUCHES_NOTHING},
    [PIPE_ADMITTING] = {pipe_admit, NULL,
                        BIT(ADMITTING) | BIT(PARSING) | BIT(AUTHORISING) | REFUSES | ENDS,
                        TXN_CLOSED, TOUCHES_NOTHING},
    [PIPE_PARSING] = {pipe_parse, pipe_parse_done, BIT(AUTHORISING) | BEGINS | ENDS, TXN_OPEN,
                      TOUCHES_NOTHING},
    [PIPE_AUTHORISING] = {pipe_authorise, NULL, RUNS | ELSEWHERE | ENDS, TXN_OPEN, TOUCHES_NOTHING},
    [PIPE_RECORDING_REQUEST] = {pipe_record_request, pipe_record_request_done, RUNS | ENDS,
                                TXN_OPEN, TOUCHES_NOTHING},
    [PIPE_PREPARING] = {pipe_prepare, pipe_prepare_done, BEGINS | ENDS, TXN_CLOSED,
                        TOUCHES_NOTHING},
    [PIPE_HANDLING] = {pipe_handle, NULL,
                       BIT(ADMITTING) | BIT(COMMITTING) | BIT(CONFIRMING) | BIT(RECEIVING) |
                           BIT(OUTSIDE) | ELSEWHERE | ENDS,
                       TXN_OPEN, TOUCHES_NOTHING},
    [PIPE_COMMITTING] = {pipe_commit, pipe_commit_done,
                         BEGINS | BIT(RECEIVING) | BIT(OUTSIDE) | BIT(WAITING) | ENDS, TXN_OPEN,
                         TOUCHES},
    [PIPE_CONFIRMING] = {pipe_confirm, pipe_confirm_done,
                         BEGINS | BIT(RECEIVING) | BIT(OUTSIDE) | BIT(WAITING) | ENDS, TXN_OPEN,
                         TOUCHES_NOTHING},
    [PIPE_RECEIVING] = {pipe_receive, pipe_receive_done, BIT(OUTSIDE) | ENDS, TXN_CLOSED,
                        TOUCHES_NOTHING},
    [PIPE_OUTSIDE] = {pipe_outside, pipe_outside_done, BIT(FINISHING) | BIT(WAITING) | ENDS,
                      TXN_CLOSED, TOUCHES},
    [PIPE_FINISHING] = {pipe_finish, NULL, BIT(FINISH_COMMITTING) | BIT(FINISH_CONFIRMING) | ENDS,
                        TXN_CLOSED, TOUCHES},
    [PIPE_FINISH_COMMITTING] = {pipe_finish_commit, pipe_finish_commit_done, BIT(FINISHING) | ENDS,
                                TXN_OPEN, TOUCHES},
    [PIPE_FINISH_CONFIRMING] = {pipe_finish_confirm, pipe_finish_confirm_done,
                                BIT(FINISHING) | ENDS, TXN_OPEN, TOUCHES},
    [PIPE_RECORDING_REPLY] = {pipe_record_reply, pipe_record_reply_done, BIT(DONE), TXN_ANY,
                              TOUCHES_NOTHING},
    [PIPE_DONE] = {pipe_respond, NULL, 0, TXN_ANY, TOUCHES_NOTHING},
};

/* Tell router_give_up whether the call may change something from now on, or has. */
static void settle(struct pipe *p, const struct phase *to)
{
    bool writes = p->effect == PIPE_UNKNOWN || to->touches == TOUCHES_IF_WRITE;
    bool unsettled =
        p->effect == PIPE_CHANGED || to->touches == TOUCHES || (writes && !stage_reads(&p->req));
    ASSERT(!p->call->given_up || p->call->unsettled || !unsettled); /* as router_give_up said */
    p->call->unsettled = unsettled;
}

static void move(struct pipe *p, enum pipe_phase next)
{
    const struct phase *from = &phases[p->phase], *to = &phases[next];
    ASSERT(next < PIPE_PHASES);
    ASSERT((from->next >> next & 1) != 0);
    ASSERT((to->txn >> (p->req.txn != NULL) & 1) != 0);
    if ((from->touches | to->touches) != TOUCHES_NOTHING)
        settle(p, to);
    p->phase = next;
}

void pipe_go(struct pipe *p, enum pipe_phase next)
{
    while (next != PIPE_PENDING) {
        move(p, next);
        next = phases[next].run(p); /* PIPE_DONE: the last touch */
    }
}

void pipe_step(struct pipe *p)
{
    ASSERT(p->phase < PIPE_PHASES);
    const struct phase *phase = &phases[p->phase];
    ASSERT(phase->resume != NULL); /* else nothing was begun that could end */
    pipe_go(p, phase->resume(p));
}

enum status pipe_need_more(struct pipe *p)
{
    if (p->more != NULL)
        return ST_OK;
    p->more = arena_alloc(p->req.arena, sizeof *p->more);
    if (p->more == NULL)
        return ST_NOMEM;
    p->more->pipe = p;
    p->more->commit = (struct state_commit){0}; /* the rest is set before its use */
    p->more->stored = (struct buf){0};
    return ST_OK;
}
