/* The phases of a request: a table, and the loop that runs them.
 *
 *   ARRIVED ─▶ CHOOSING ──┬──▶ STATELESS ─▶ ○ ─▶ STATELESS_OUTSIDE ────────────────────┐
 *               ▲    ▲    ├──▶ FORWARDING, to the active node ─────────────────────────┤
 *               │    │    └──▶ PRECHECKING ◀─▶ PRECHECK_READING     for unread bodies  │
 *            WAITING │              ▼                                                  │
 *               ▲    └───────── COLLECTING                                             │
 *               │                                                                      │
 *   from phases │    CHOOSING ─▶ READING ─▶ ADMITTING ─▶ PARSING ─▶ AUTHORISING        │
 *   that ask    │                   ▲           ▲           │            ▼             │
 *   other nodes ┘                   └── again ──┴───────────┼──── PREPARING ◀─ ○       │
 *                                                           │            ▼             │
 *                      PARKING (the end of this pipe) ◀─────┼─────── HANDLING          │
 *                                                           │            ▼             │
 *                                                     COMMITTING ◀─ ○    │             │
 *                                                     CONFIRMING ◀───────┘             │
 *                                                           ▼                          │
 *                              FINISHING ◀─ OUTSIDE ◀─ RECEIVING ◀─ ○                  │
 *                               ▲     ▼                                                │
 *                  FINISH_COMMITTING, FINISH_CONFIRMING                                │
 *                                  ▼                                                   ▼
 *       to the active node ◀─ RECORDING_REPLY ──────────────────────────────────────▶ DONE
 *
 *   ○ RECORDING_REQUEST, once, where an audit device is enabled: in front of the first phase that
 *     has an effect (pipe_owes_record). A request without such a phase is recorded together with
 *     its reply, in RECORDING_REPLY: both records cost one wait. A standby whose devices take no
 *     record gives a request without an effect to the active node (pipe_pass).
 *
 *   WAITING, besides: a read whose reply has no room, because replies that clients have not read
 *   fill their budget, goes there from HANDLING or FORWARDING (pipe_await_room).
 *
 *   FINISH_WAITING stands between two runs of FINISHING: this node was too busy for the first one
 *   (pipe_finish.c).
 *
 *   HOLDING stands before the two ends where this node committed something and the cluster is a DR
 *   primary in sync mode (pipe_hold.c).
 *
 * 1. A phase that has nothing to wait for returns the next one at once.
 * 2. A transaction runs again, from READING or ADMITTING on, after a long body was parsed, after
 *    `prepare`, and when another request changed data that the transaction had read.
 * 3. Any phase can fail: the request goes on to RECORDING_REPLY, or to DONE where it is not
 *    recorded (pipe_is_recorded).
 *    PARKING ends the pipe without a reply: a later pipe of the same request replies (parking.h).
 * 4. In a phase outside of transactions no transaction is open: `txn_closed`.
 * 5. When router_give_up has told a client that its request changed nothing, no phase begins that
 *    may change something: `touching`.
 * 6. No phase of `touching`, PREPARING and RECEIVING begins before a device has the record of the
 *    request (PROTOCOL R20). */
#include "base/plant.h"
#include "router/pipeline/pipe_phases.h"

static_assert(PIPE_PHASES <= 32, "a set of phases is a word");

#define BIT(phase) (UINT32_C(1) << PIPE_##phase)
#define ENDS (BIT(RECORDING_REPLY) | BIT(DONE))
#define BEGINS (BIT(READING) | BIT(ADMITTING) | BIT(PRECHECKING) | BIT(PRECHECK_READING))
#define ELSEWHERE (BIT(WAITING) | BIT(FORWARDING)) /* next phases that pipe_forward returns */
#define RECORDS BIT(RECORDING_REQUEST) /* next phase of a request that must be recorded first */
#define HELD BIT(HOLDING)              /* next phase of pipe_end, after a commit */
#define RUNS (BIT(HANDLING) | BIT(READING) | BIT(PREPARING) | RECORDS)
/* next phases that pipe_go_outside returns */
#define AFTER (BIT(RECEIVING) | BIT(OUTSIDE) | RECORDS)

/* Phases inside a transaction. Requests are recorded both inside and outside of transactions. */
#define EITHER (ENDS | RECORDS)
static const uint32_t txn_open = BIT(PARSING) | BIT(AUTHORISING) | BIT(HANDLING) | BIT(PARKING) |
                                 BIT(COMMITTING) | BIT(CONFIRMING) | BIT(FINISH_COMMITTING) |
                                 BIT(FINISH_CONFIRMING) | EITHER;
static const uint32_t txn_closed = ~(txn_open & ~EITHER);
/* Phases in which the request may change something. A forwarded read may change the count of its
 * token's uses, which is not reported to the client. */
static const uint32_t touching = BIT(COMMITTING) | BIT(OUTSIDE) | BIT(STATELESS_OUTSIDE) |
                                 BIT(FINISHING) | BIT(FINISH_WAITING) | BIT(FINISH_COMMITTING) |
                                 BIT(FINISH_CONFIRMING);
static const uint32_t touching_if_write = BIT(FORWARDING);

/* The phases that may follow each phase. */
static const uint32_t followers[PIPE_PHASES] = {
    [PIPE_ARRIVED] = BIT(CHOOSING) | ENDS,
    [PIPE_CHOOSING] = BIT(STATELESS) | BEGINS | ELSEWHERE | ENDS,
    [PIPE_WAITING] = BIT(CHOOSING) | BIT(WAITING) | ENDS, /* WAITING: until replies are read */
    [PIPE_STATELESS] = BIT(STATELESS_OUTSIDE) | BIT(WAITING) | RECORDS | ENDS,
    [PIPE_STATELESS_OUTSIDE] = ENDS,
    [PIPE_FORWARDING] = BIT(WAITING) | ENDS,
    [PIPE_PRECHECKING] = BIT(PRECHECK_READING) | BIT(COLLECTING) | BIT(HANDLING) | ELSEWHERE | ENDS,
    [PIPE_PRECHECK_READING] = BIT(PRECHECKING) | BIT(WAITING) | ENDS,
    [PIPE_COLLECTING] = BIT(CHOOSING) | ENDS,
    [PIPE_READING] = BIT(ADMITTING) | BIT(WAITING) | ENDS,
    [PIPE_ADMITTING] = BIT(ADMITTING) | BIT(PARSING) | BIT(AUTHORISING) | BIT(HANDLING) | ENDS,
    [PIPE_PARSING] = BIT(AUTHORISING) | BEGINS | ENDS,
    [PIPE_AUTHORISING] = RUNS | ELSEWHERE | ENDS,
    [PIPE_PREPARING] = BEGINS | ENDS,
    [PIPE_PARKING] = ENDS,
    [PIPE_HANDLING] = BIT(PARKING) | BIT(ADMITTING) | BIT(COMMITTING) | BIT(CONFIRMING) | AFTER |
                      ELSEWHERE | ENDS,
    [PIPE_RECORDING_REQUEST] = BIT(PREPARING) | BIT(COMMITTING) | BIT(RECEIVING) | BIT(OUTSIDE) |
                               BIT(STATELESS) | BIT(STATELESS_OUTSIDE) | ELSEWHERE |
                               BIT(ADMITTING) | HELD | ENDS,
    [PIPE_COMMITTING] = BEGINS | AFTER | BIT(WAITING) | HELD | ENDS,
    [PIPE_CONFIRMING] = BEGINS | AFTER | BIT(WAITING) | ENDS,
    [PIPE_RECEIVING] = BIT(OUTSIDE) | HELD | ENDS,
    [PIPE_OUTSIDE] = BIT(FINISHING) | BIT(WAITING) | HELD | ENDS,
    [PIPE_FINISHING] =
        BIT(FINISH_COMMITTING) | BIT(FINISH_CONFIRMING) | BIT(FINISH_WAITING) | HELD | ENDS,
    [PIPE_FINISH_WAITING] = BIT(FINISHING),
    [PIPE_FINISH_COMMITTING] = BIT(FINISHING) | BIT(FINISH_WAITING) | HELD | ENDS,
    [PIPE_FINISH_CONFIRMING] = BIT(FINISHING) | BIT(FINISH_WAITING) | HELD | ENDS,
    [PIPE_HOLDING] = ENDS,
    [PIPE_RECORDING_REPLY] = ELSEWHERE | ENDS,
    [PIPE_DONE] = 0,
};

/* The function that goes on with a phase that waited. */
static enum pipe_phase (*const resume[PIPE_PHASES])(struct pipe *p) = {
    [PIPE_WAITING] = pipe_wait_done,
    [PIPE_STATELESS_OUTSIDE] = pipe_stateless_done,
    [PIPE_FORWARDING] = pipe_send_done,
    [PIPE_PRECHECK_READING] = pipe_read_done,
    [PIPE_COLLECTING] = pipe_collect_done,
    [PIPE_READING] = pipe_read_done,
    [PIPE_PARSING] = pipe_parse_done,
    [PIPE_RECORDING_REQUEST] = pipe_record_request_done,
    [PIPE_PREPARING] = pipe_prepare_done,
    [PIPE_COMMITTING] = pipe_commit_done,
    [PIPE_CONFIRMING] = pipe_confirm_done,
    [PIPE_RECEIVING] = pipe_receive_done,
    [PIPE_OUTSIDE] = pipe_outside_done,
    [PIPE_FINISH_WAITING] = pipe_finish_wait_done,
    [PIPE_FINISH_COMMITTING] = pipe_finish_commit_done,
    [PIPE_FINISH_CONFIRMING] = pipe_finish_confirm_done,
    [PIPE_HOLDING] = pipe_hold_done,
    [PIPE_RECORDING_REPLY] = pipe_record_reply_done,
};

/* Do the work of a phase. A switch rather than a table: the compiler can then put the
 * phases of a read into one function. */
static inline enum pipe_phase run_phase(struct pipe *p, enum pipe_phase phase)
{
    switch (phase) {
    case PIPE_CHOOSING: return pipe_choose(p);
    case PIPE_WAITING:
    case PIPE_FINISH_WAITING: return pipe_wait_begin(p);
    case PIPE_STATELESS: return pipe_stateless(p);
    case PIPE_FORWARDING: return pipe_send(p);
    case PIPE_PRECHECKING: return pipe_precheck(p);
    case PIPE_PRECHECK_READING:
    case PIPE_READING: return pipe_read(p);
    case PIPE_COLLECTING: return pipe_collect(p);
    case PIPE_ADMITTING: return pipe_admit(p);
    case PIPE_PARSING: return pipe_parse(p);
    case PIPE_AUTHORISING: return pipe_authorise(p);
    case PIPE_RECORDING_REQUEST: return pipe_record_request(p);
    case PIPE_PREPARING: return pipe_prepare(p);
    case PIPE_HANDLING: return pipe_handle(p);
    case PIPE_PARKING: return pipe_park(p);
    case PIPE_COMMITTING: return pipe_commit(p);
    case PIPE_CONFIRMING: return pipe_confirm(p);
    case PIPE_RECEIVING: return pipe_receive(p);
    case PIPE_STATELESS_OUTSIDE:
    case PIPE_OUTSIDE: return pipe_outside(p);
    case PIPE_FINISHING: return pipe_finish(p);
    case PIPE_FINISH_COMMITTING: return pipe_finish_commit(p);
    case PIPE_FINISH_CONFIRMING: return pipe_finish_confirm(p);
    case PIPE_HOLDING: return pipe_hold(p);
    case PIPE_RECORDING_REPLY: return pipe_record_reply(p);
    case PIPE_DONE: return pipe_respond(p);
    case PIPE_ARRIVED:
    case PIPE_PHASES: break; /* `followers` lets no phase lead here */
    }
    return PIPE_PENDING;
}

/* Record for router_give_up whether the request has changed something, or may change something from
 * now on. */
__attribute__((noinline)) static void settle(struct pipe *p, uint32_t to)
{
    bool writes = p->effect == PIPE_UNKNOWN || (to & touching_if_write) != 0;
    bool unsettled =
        p->effect == PIPE_CHANGED || (to & touching) != 0 || (writes && !stage_reads(&p->req));
    ASSERT(planted(PLANT_AUDIT_AFTER) || (to & touching) == 0 || !pipe_owes_record(p));
    ASSERT(!p->request->given_up || p->request->unsettled ||
           !unsettled); /* after router_give_up no request becomes unsettled */
    p->request->unsettled = unsettled;
}

static inline void move(struct pipe *p, enum pipe_phase next)
{
    uint32_t to = UINT32_C(1) << next, from = UINT32_C(1) << p->phase;
    uint32_t fitting = p->req.txn != NULL ? txn_open : txn_closed;
    ASSERT((followers[p->phase] & to) != 0);
    ASSERT((fitting & to) != 0);
    if (((from | to) & (touching | touching_if_write)) != 0)
        settle(p, to);
    p->phase = next;
}

void pipe_go(struct pipe *p, enum pipe_phase next)
{
    while (next != PIPE_PENDING) {
        move(p, next);
        next = run_phase(p, next); /* PIPE_DONE is the last touch of the pipe */
    }
}

void pipe_step(struct pipe *p)
{
    ASSERT(p->phase < PIPE_PHASES);
    ASSERT(resume[p->phase] != NULL); /* the phase waited, so a function must go on with it */
    pipe_go(p, resume[p->phase](p));
}

enum status pipe_need_run(struct pipe *p)
{
    if (p->run != NULL)
        return ST_OK;
    ASSERT(p->req.txn == NULL);
    p->run = arena_alloc(p->req.arena, sizeof *p->run);
    if (p->run == NULL)
        return ST_NOMEM;
    p->run->pipe = p;
    p->run->read = (struct state_read){0}; /* the other members are set before their use */
    return ST_OK;
}

enum status pipe_need_more(struct pipe *p)
{
    if (p->more != NULL)
        return ST_OK;
    p->more = arena_alloc(p->req.arena, sizeof *p->more);
    if (p->more == NULL)
        return ST_NOMEM;
    p->more->pipe = p;
    p->more->commit = (struct state_commit){0}; /* the other members are set before their use */
    p->more->stored = (struct buf){0};
    p->more->facts = NULL;
    p->more->stale = false;
    p->more->answer = NULL;
    return ST_OK;
}
