/* Shared by tests of snapshots: a state over a log that applies at once, and a disk in memory. */
#ifndef HOLDFAST_TESTS_SNAPSHOT_WORLD_H
#define HOLDFAST_TESTS_SNAPSHOT_WORLD_H

#include "base/mem.h"
#include "raft/memfs.h"
#include "raft/memfs_calls.h"
#include "router/world.h"

#include "cluster/membership/part.h"
#include "snapshot/snapshot_folder.h"

#define OLD "{\"v\":\"old\"}"
#define NEW "{\"v\":\"new\"}"

enum { LARGE_BYTES = 400 * 1024, LARGE_VALUES = 4 };

static struct world w;
static struct part_host host;
static struct snapshot part;
static struct memfs *disk;
static struct env raft;
static struct reason why;

/* What the replica does instead of its work, at the k-th proposal; 0: nothing. */
static unsigned proposals, fail_at, writes;
static enum status fail_with;
static bool applied_anyway, stage_taken;

/* Stand in for the replica: the raft thread is this one. */

static inline void post_now(struct env *env, struct env_task *task)
{
    (void)env;
    task->run(task);
}

void rlog_status(struct rlog *rlog, struct rlog_status *ret_status)
{
    (void)rlog;
    *ret_status = (struct rlog_status){.applied_index = w.index,
                                       .term = 2,
                                       .is_leader = true,
                                       .ready = true,
                                       .stage = w.m.staging ? w.m.stage : 0};
}

struct store *rlog_store(struct rlog *rlog)
{
    (void)rlog;
    return w.m.store;
}

/* The part of disaster recovery, which is linked and does not run, has no ring here. */
struct rlog_wal *rlog_wal(struct rlog *rlog)
{
    (void)rlog;
    return NULL;
}

enum status rlog_dump_begin(struct rlog *rlog, struct rlog_machine_dump *ret_dump)
{
    (void)rlog;
    return rlog_machine_dump_begin(&w.m, ret_dump);
}

static inline void apply(struct bytes txn, struct rlog_propose *p)
{
    CLEANUP(buf_done) struct buf entry = {0};
    struct rlog_propose ignored = {0};
    (void)mem_fail_nth(0); /* what the replica needs is not counted */
    assert_status(rlog_entry_encode(RLOG_FEATURE_FIRST, 1000, &txn, 1, &entry), ST_OK);
    rlog_machine_apply(&w.m, ++w.index, buf_bytes(&entry), p != NULL ? world_each : NULL,
                       p != NULL ? p : &ignored);
}

static inline void take_stage(void)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder b = {0};
    CLEANUP(buf_done) struct buf txn = {0};
    rlog_txn_stage_begin(&b);
    assert_status(rlog_txn_encode(&b, &txn), ST_OK);
    apply(buf_bytes(&txn), NULL);
}

static inline void ignore(struct rlog_propose *p, enum status st)
{
    (void)p;
    (void)st;
}

void rlog_propose(struct rlog *rlog, struct rlog_propose *p)
{
    (void)rlog;
    assert_true(p->upkeep); /* a full state takes it */
    if (++proposals != fail_at) {
        apply(p->txn, p);
        return;
    }
    if (stage_taken) {
        take_stage();
        apply(p->txn, p);
        return;
    }
    if (applied_anyway) {
        struct rlog_propose lost = {.txn = p->txn, .done = ignore};
        apply(p->txn, &lost);
    }
    p->done(p, fail_with);
}

static inline void write_now(struct part_host *from, struct rlog_txn_builder *builder,
                             uint64_t *mark)
{
    CLEANUP(buf_done) struct buf txn = {0};
    assert_ptr_equal(from, &host);
    assert_ptr_equal(mark, &part.dropped_stage);
    writes++;
    assert_status(rlog_txn_encode(builder, &txn), ST_OK);
    apply(buf_bytes(&txn), NULL);
}

static const struct part_calls part_calls = {.write = write_now};

/* The state */

static inline void put(const char *path, const char *body)
{
    assert_int_equal(world_request(&w, METHOD_PUT, path, body)->http, 204);
}

static inline void expect(const char *path, const char *body)
{
    struct test_request *t = world_request(&w, METHOD_GET, path, NULL);
    if (body == NULL)
        assert_int_equal(t->http, 404);
    else
        assert_body_has(t, body);
}

static inline void hash(uint8_t ret_hash[STORE_HASH_BYTES])
{
    struct store_pin pin;
    assert_status(store_pin(w.m.store, "test", 0, &pin), ST_OK);
    store_hash(&pin, BYTES("s/"), ret_hash);
    store_unpin(&pin);
}

static inline bool has(const char *key)
{
    struct store_pin pin;
    struct store_item item;
    assert_status(store_pin(w.m.store, "test", 0, &pin), ST_OK);
    bool found = store_get(&pin, bytes_str(key), &item) == ST_OK;
    store_unpin(&pin);
    return found;
}

static inline void open_as(uint64_t seed)
{
    static const struct module *const modules[] = {&token_module, &cubbyhole_module, SYS_MODULES,
                                                   &kv_module};
    static struct env_ops ops;
    world_open(&w, modules, ARRAY_LEN(modules));
    w.env.seed = seed; /* of every key that is made */
    world_init(&w);
    ops = *w.env.env.ops;
    ops.post = post_now;
    raft = (struct env){.ops = &ops};
    host.env = &raft;
    host.barrier = w.barrier;
    part.seal = &w.seal;
}

static inline int open_all(void **ctx)
{
    (void)ctx;
    host = (struct part_host){.calls = &part_calls, .active_term = 1};
    part = (struct snapshot){0};
    assert_status(snapshot_part.start(&part, &host), ST_OK);
    disk = memfs_new();
    disk->room = UINT64_MAX;
    host.fs = &disk->fs;
    proposals = fail_at = writes = 0;
    applied_anyway = stage_taken = false;
    open_as(42);
    return 0;
}

static inline int close_all(void **ctx)
{
    (void)ctx;
    world_close(&w);
    memfs_free(disk);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_all, close_all)

#endif
