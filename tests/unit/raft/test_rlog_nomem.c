/* A replica's whole life with each allocation failed in turn, libraft's own included: a clean
 * error, a fatal one that is reported, or a deliberate abort with its message. Never a leak, a
 * crash or a lost acknowledged write.
 *
 * The cases run in a child: one that aborts is looked at, and another child goes on behind it. */
#include "slice.h"
#include "support.h"
#include "world.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WRITES = 64, TRIES = 60, BIG = 100 * 1024 };

/* One life, under way. */
struct life {
    struct world *w;
    struct buf txns[WRITES], contended;
    bool acknowledged[WRITES];
    unsigned wrote;
};

/* Shared by the child and its parent. */
struct progress {
    uint64_t n;
    unsigned cases, fatal, refused_starts, refused;
    bool ended, installed;
};

static struct progress *progress;

int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

/* Steps of a life, each repeated until it succeeds. What ended fatally is started again, as the
 * process would be. */

static void start(struct wnode *n)
{
    enum status st = ST_NOMEM;
    for (int i = 0; i < 3 && st != ST_OK; i++) {
        struct reason reason = {{0}};
        st = wnode_start(n, &reason);
        ASSERT(st == ST_OK || st == ST_NOMEM);
        progress->refused_starts += st != ST_OK;
    }
    ASSERT(st == ST_OK);
}

static void revive(struct life *l)
{
    for (unsigned i = 0; i < l->w->n_nodes; i++) {
        struct wnode *n = &l->w->nodes[i];
        if (!n->failed)
            continue;
        ASSERT(strstr(n->fatal, "memory") != NULL);
        wnode_stop(n);
        n->failed = false;
        progress->fatal++;
        start(n);
    }
}

static bool any_failed(const struct life *l)
{
    for (unsigned i = 0; i < l->w->n_nodes; i++)
        if (l->w->nodes[i].failed)
            return true;
    return false;
}

static struct wnode *leader_of(struct life *l)
{
    for (int i = 0; i < TRIES; i++) {
        revive(l);
        struct wnode *leader = world_await_leader(l->w);
        if (leader != NULL)
            return leader;
    }
    ASSERT(l->w == NULL); /* there is a leader in the end */
    return NULL;
}

/* Whatever becomes of it, it is answered once. */
static enum status finish(struct life *l, struct wclient *c)
{
    for (int i = 0; i < 100000 && !c->done; i++) {
        world_run(l->w, 1);
        if (any_failed(l))
            revive(l); /* closing answers it */
    }
    ASSERT(c->done);
    progress->refused += c->status != ST_OK;
    return c->status;
}

static bool refusal(enum status st)
{
    return st == ST_NOMEM || st == ST_NOT_LEADER || st == ST_NO_LEADER || st == ST_BUSY ||
           st == ST_UNKNOWN_OUTCOME || st == ST_CLOSED || st == ST_TIMEOUT;
}

static void proposed(struct rlog_propose *p, enum status st)
{
    struct wclient *c = CONTAINER_OF(p, struct wclient, p);
    ASSERT(!c->done);
    c->done = true;
    c->status = st;
}

static void write_one(struct life *l)
{
    unsigned i = l->wrote++;
    ASSERT(i < WRITES);
    for (int tries = 0; !l->acknowledged[i]; tries++) {
        struct wclient c = {.p = {.done = proposed, .txn = buf_bytes(&l->txns[i])}};
        ASSERT(tries < TRIES);
        rlog_propose(leader_of(l)->rlog, &c.p);
        enum status st = finish(l, &c);
        ASSERT(st == ST_OK || refusal(st));
        l->acknowledged[i] = st == ST_OK;
    }
}

static void write_many(struct life *l, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        write_one(l);
}

static void read_from(struct life *l, struct wnode *n)
{
    enum status st = ST_TIMEOUT;
    for (int tries = 0; st != ST_OK; tries++) {
        struct wclient c = {.r = {.done = wclient_read}};
        ASSERT(tries < TRIES);
        (void)leader_of(l);
        rlog_read(n->rlog, &c.r);
        st = finish(l, &c);
        ASSERT(st == ST_OK || refusal(st));
    }
}

enum change { ADD, REMOVE, MOVE };

static void change(struct life *l, enum change what, uint64_t id)
{
    enum status st = ST_TIMEOUT;
    for (int tries = 0; st != ST_OK; tries++) {
        struct wclient c = {.a = {.done = wclient_admin, .member = world_member(id, RLOG_VOTER)}};
        struct wnode *leader = leader_of(l);
        ASSERT(tries < TRIES);
        if (what == MOVE && leader->id == id)
            return;
        if (what == ADD)
            rlog_member_add(leader->rlog, &c.a);
        else if (what == REMOVE)
            rlog_member_remove(leader->rlog, &c.a);
        else
            rlog_transfer(leader->rlog, &c.a);
        st = finish(l, &c);
        ASSERT(st == ST_OK || refusal(st));
    }
}

static void restart(struct wnode *n)
{
    wnode_stop(n);
    n->failed = false;
    start(n);
}

/* Lives. */

/* Two that need the same key absent: one comes too late, and has a ticket for its next try. */
static void contend(struct life *l)
{
    struct wclient clients[2];
    memset(clients, 0, sizeof clients);
    struct wnode *leader = leader_of(l);
    for (unsigned i = 0; i < 2; i++) {
        clients[i].p = (struct rlog_propose){.done = proposed, .txn = buf_bytes(&l->contended)};
        rlog_propose(leader->rlog, &clients[i].p);
    }
    for (unsigned i = 0; i < 2; i++) {
        enum status st = finish(l, &clients[i]);
        ASSERT(st == ST_OK || st == ST_CONFLICT || refusal(st));
        if (clients[i].p.ticket != 0 && leader->up)
            rlog_ticket_drop(leader->rlog, clients[i].p.ticket);
    }
}

static void alone(struct life *l)
{
    struct rlog_status s;
    start(wnode_create(l->w, 1));
    write_many(l, 4); /* the first one is large */
    contend(l);
    read_from(l, &l->w->nodes[0]);
    do {
        rlog_snapshot_now(leader_of(l)->rlog);
        world_run(l->w, 100);
        revive(l);
        rlog_status(l->w->nodes[0].rlog, &s);
    } while (s.snapshot_index == 0);
    write_many(l, 2);
    restart(&l->w->nodes[0]);
    write_many(l, 2);
    read_from(l, &l->w->nodes[0]);
}

static void together(struct life *l)
{
    struct rlog_status s;
    for (unsigned i = 0; i < 3; i++)
        start(wnode_create(l->w, i + 1));
    write_many(l, 2);
    (void)leader_of(l);
    struct wnode *behind = world_follower(l->w);
    read_from(l, behind);
    wnode_stop(behind);
    behind->failed = false;
    write_many(l, 40); /* the log is cut: `behind` gets a snapshot */
    world_run(l->w, 500);
    revive(l);
    start(behind);
    read_from(l, behind);
    rlog_status(behind->rlog, &s);
    progress->installed |= s.snapshots_installed > 0;
    write_many(l, 2);
}

static void changing(struct life *l)
{
    for (unsigned i = 0; i < 2; i++)
        start(wnode_create(l->w, i + 1));
    write_many(l, 2);
    start(wnode_create(l->w, 3));
    change(l, ADD, 3);
    change(l, MOVE, 3);
    change(l, REMOVE, 1);
    wnode_stop(&l->w->nodes[0]);
    l->w->nodes[0].failed = false;
    write_many(l, 2);
    read_from(l, &l->w->nodes[1]);
}

/* A damaged replica makes room for a blank one; half done, it can be done again. */
static void anew(struct life *l)
{
    struct rlog_identity old, fresh;
    struct wnode *n = wnode_create(l->w, 1);
    enum status st = ST_NOMEM;
    start(n);
    write_many(l, 2);
    wnode_stop(n);
    for (int i = 0; i < 3 && st != ST_OK; i++) {
        struct rlog_options o = wnode_options(n);
        struct reason reason = {{0}};
        st = rlog_rejoin_prepare(&o, &old, &fresh, &reason);
        ASSERT(st == ST_OK || st == ST_NOMEM);
    }
    ASSERT(st == ST_OK && fresh.id != n->id);
    n->id = n->identity.id = fresh.id;
    n->failed = false;
    l->wrote = 0; /* gone, as was asked for */
    start(n);
    wnode_stop(n);
    n->failed = false;
}

/* Running them. */

static void encode(struct rlog_txn_builder *b, struct buf *txn)
{
    enum status st = rlog_txn_encode(b, txn);
    ASSERT(st == ST_OK);
    rlog_txn_done(b);
}

static void life_open(struct life *l, unsigned n_initial_members)
{
    static const char big[BIG];
    struct rlog_txn_builder b = {0};
    for (unsigned i = 0; i < WRITES; i++) {
        char key[16], value[200];
        (void)snprintf(key, sizeof key, "s/k%u", i);
        (void)snprintf(value, sizeof value, "%0199u", i);
        struct bytes v = i == 0 ? bytes_of((const uint8_t *)big, sizeof big) : bytes_str(value);
        b = (struct rlog_txn_builder){0};
        rlog_txn_put(&b, bytes_str(key), v);
        encode(&b, &l->txns[i]);
    }
    b = (struct rlog_txn_builder){0};
    rlog_txn_need_key(&b, BYTES("s/contended"), 0);
    rlog_txn_put(&b, BYTES("s/contended"), BYTES("1"));
    encode(&b, &l->contended);
    l->w = world_make(1, n_initial_members);
    l->w->options.snapshot_log_bytes = 6000;
    l->w->options.snapshot_trailing = 16;
}

/* With memory again, everything acknowledged is on every node. */
static void life_check(struct life *l)
{
    revive(l);
    for (unsigned n = 0; n < l->w->n_nodes; n++) {
        struct wnode *node = &l->w->nodes[n];
        if (!node->up)
            continue;
        read_from(l, node);
        for (unsigned i = 1; i < l->wrote; i++) {
            char key[16], value[200];
            (void)snprintf(key, sizeof key, "s/k%u", i);
            (void)snprintf(value, sizeof value, "%0199u", i);
            ASSERT(!l->acknowledged[i] || strcmp(world_get(node, key), value) == 0);
        }
    }
}

static void life_close(struct life *l)
{
    world_free(l->w);
    for (unsigned i = 0; i < WRITES; i++)
        buf_done(&l->txns[i]);
    buf_done(&l->contended);
}

struct plan {
    void (*live)(struct life *l);
    unsigned n_initial_members;
    bool (*fail_nth)(uint64_t n);
    uint64_t step; /* every so many-th allocation */
    uint64_t first; /* allocations before the first one that fails */
};

/* Returns whether an allocation was left to fail. */
static bool run_case(const struct plan *plan, uint64_t n)
{
    struct life l = {0};
    life_open(&l, plan->n_initial_members);
    plan->fail_nth(n);
    plan->live(&l);
    bool failed = plan->fail_nth(0);
    life_check(&l);
    life_close(&l);
    return failed;
}

static void run_child(const struct plan *plan)
{
    bool failed = true;
    trace(TRACE_ERROR, "test", "begins"); /* what the C library keeps for times is allocated now */
    for (; failed; progress->n += plan->step) {
        size_t before = world_heap_bytes();
        failed = run_case(plan, progress->n);
        bool exact = __lsan_do_recoverable_leak_check != NULL;
        if (exact && world_heap_bytes() != before)
            (void)__lsan_do_recoverable_leak_check(); /* says where; the next line, that */
        ASSERT(!exact || world_heap_bytes() == before);
        progress->cases++;
    }
    progress->ended = true;
}

/* Its end, and what it said. */
static int await_child(const struct plan *plan, char *said, size_t room)
{
    int status, out = memfd_create("said", 0);
    const struct rlimit none = {0, 0};
    assert_true(out >= 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (dup2(out, STDERR_FILENO) < 0 || setrlimit(RLIMIT_CORE, &none) != 0)
            _exit(2);
        run_child(plan);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    off_t end = lseek(out, 0, SEEK_END), from = end > (off_t)room - 1 ? end - (off_t)room + 1 : 0;
    ssize_t n = pread(out, said, room - 1, from);
    assert_true(n >= 0);
    said[n] = '\0';
    (void)close(out);
    return status;
}

/* Applying what is committed may not fail: then the process ends, and says why. */
static bool deliberate(int status, const char *said)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
           strstr(said, "Assertion failed") == NULL &&
           (strstr(said, "there is no memory to unpack it") != NULL ||
            strstr(said, "bytes where failure has no answer") != NULL);
}


/* Returns how many cases ended in an abort. */
static unsigned run_all(const struct plan *all, uint64_t quick)
{
    const struct slice slice = slice_of_run();
    struct plan one = *all, *plan = &one;
    plan->step = (getenv("HOLDFAST_LONG") != NULL ? 1 : quick) * slice.count;
    plan->first = plan->step / slice.count * slice.number;
    static char said[16384];
    unsigned aborts = 0;
    size_t size = sizeof *progress;
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    progress = shared;
    progress->n = 1 + plan->first;
    while (!progress->ended) {
        int status = await_child(plan, said, sizeof said);
        if (progress->ended && status == 0)
            break;
        if (!deliberate(status, said)) {
            (void)fprintf(stderr, "%s", said); /* longer than a message of cmocka's */
            fail_msg("allocation %llu, status %x", (unsigned long long)progress->n, status);
        }
        aborts++;
        progress->n += plan->step;
    }
    if (getenv("V") != NULL)
        print_message("%llu allocations, %u lives to the end, %u aborts, %u fatal, %u starts and "
                      "%u calls refused\n",
                      (unsigned long long)progress->n, progress->cases, aborts, progress->fatal,
                      progress->refused_starts, progress->refused);
    assert_true((progress->cases + aborts) * slice.count > 20);
    return aborts;
}

static void a_node_alone_survives_each_failed_allocation(void **ctx)
{
    (void)ctx;
    (void)run_all(&(struct plan){.live = alone, .n_initial_members = 1, .fail_nth = mem_fail_nth}, 1);
    assert_true(progress->refused_starts > 0 && progress->refused > 0);
}

static void three_nodes_survive_each_failed_allocation(void **ctx)
{
    (void)ctx;
    (void)run_all(&(struct plan){.live = together, .n_initial_members = 3, .fail_nth = mem_fail_nth}, 4);
    assert_true(progress->fatal > 0 && progress->installed);
}

static void changes_of_members_survive_each_failed_allocation(void **ctx)
{
    (void)ctx;
    (void)run_all(&(struct plan){.live = changing, .n_initial_members = 2, .fail_nth = mem_fail_nth}, 1);
}

static void a_rejoin_survives_each_failed_allocation(void **ctx)
{
    (void)ctx;
    (void)run_all(&(struct plan){.live = anew, .n_initial_members = 1, .fail_nth = mem_fail_nth}, 1);
}

static void what_may_not_fail_ends_the_process_and_says_so(void **ctx)
{
    (void)ctx;
    assert_true(run_all(&(struct plan){.live = alone, .n_initial_members = 1, .fail_nth = mem_fail_must_nth}, 1) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_alone_survives_each_failed_allocation),
        cmocka_unit_test(three_nodes_survive_each_failed_allocation),
        cmocka_unit_test(changes_of_members_survive_each_failed_allocation),
        cmocka_unit_test(a_rejoin_survives_each_failed_allocation),
        cmocka_unit_test(what_may_not_fail_ends_the_process_and_says_so),
    };
    trace_set_level(TRACE_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
