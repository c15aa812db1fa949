/* The service that saves snapshots by a schedule: what the next active node does with a snapshot
 * whose end was not recorded. */
#include "snapshot/snapshot_world.h"

#include "api/members/members_autosnap.h"
#include "loop/loop_fs.h"
#include "node/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FIRST_MS = 1000000 };

static char folder[32];
static unsigned rounds;       /* that the service may still wait for */
static unsigned transactions; /* of the service */
static unsigned unknown_at; /* the transaction whose outcome the service does not learn; 0: none */
static bool arrives;        /* that transaction is applied */
static int64_t now_ms;
static struct member_options options = {.name = "n1"};

/* Stand in for the node's side of a service. */

bool service_wait(struct service *service, uint64_t ms)
{
    (void)service;
    (void)ms;
    now_ms += 1000;
    return rounds-- > 0;
}

static void settled(struct state_commit *c, enum status st)
{
    (void)c;
    assert_status(st, ST_OK);
}

enum status service_transact(struct service *service, service_stage stage, void *ctx)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct state_commit commit = {.done = settled};
    struct state_txn txn;
    (void)service;
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    assert_status(stage(&txn, ctx, now_ms), ST_OK);
    bool unknown = state_staged(&txn) && ++transactions == unknown_at;
    if (state_staged(&txn) && (!unknown || arrives))
        assert_status(state_commit(&txn, &commit), ST_OK);
    state_end(&txn);
    clock_run(&w.env);
    state_commit_done(&commit);
    return unknown ? ST_UNKNOWN_OUTCOME : ST_OK;
}

bool service_asked(const struct service *service)
{
    (void)service;
    return false;
}

struct snapshot *service_snapshot(const struct service *service)
{
    (void)service;
    return &part;
}

const struct member_options *service_options(const struct service *service)
{
    (void)service;
    return &options;
}

/* The service of one active node, for so many rounds. */
static void be_active(unsigned n)
{
    rounds = n;
    members_autosnap_run(NULL);
}

static enum status note_name(void *ctx, const char *name)
{
    (void)snprintf(ctx, SNAPSHOT_NAME_MAX + 1, "%s", name);
    return ST_OK;
}

static enum status count_name(void *ctx, const char *name)
{
    (void)name;
    ++*(unsigned *)ctx;
    return ST_OK;
}

/* How many snapshots the folder has; the name of the last one. */
static unsigned kept(char ret_newest[SNAPSHOT_NAME_MAX + 1])
{
    struct fs *fs = NULL;
    unsigned n = 0;
    assert_status(loop_fs_new(folder, &fs, &why), ST_OK);
    assert_status(fs_list(fs, "", count_name, &n), ST_OK);
    assert_status(fs_list(fs, "", note_name, ret_newest), ST_OK);
    loop_fs_free(fs);
    return n;
}

static int open_schedule(void **ctx)
{
    char body[256];
    (void)open_all(ctx);
    (void)snprintf(folder, sizeof folder, "/tmp/autosnap.XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(body, sizeof body,
                   "{\"interval\":\"24h\",\"path_prefix\":\"%s\",\"storage_type\":\"local\","
                   "\"local_max_space\":\"9MiB\",\"retain\":9}",
                   folder);
    put("/v1/sys/storage/raft/snapshot-auto/config/daily", body);
    transactions = unknown_at = 0;
    arrives = false;
    now_ms = FIRST_MS;
    return 0;
}

static int close_schedule(void **ctx)
{
    char command[64];
    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0); /* NOLINT: fixed words */
    return close_all(ctx);
}

static void a_slot_has_one_snapshot(void **ctx)
{
    (void)ctx;
    char name[SNAPSHOT_NAME_MAX + 1], same[SNAPSHOT_NAME_MAX + 1];
    be_active(2);
    assert_int_equal(kept(name), 1);
    be_active(2);
    assert_int_equal(kept(same), 1);
    assert_string_equal(same, name);
}

static void a_snapshot_whose_end_was_lost_is_replaced(void **ctx)
{
    (void)ctx;
    char first[SNAPSHOT_NAME_MAX + 1], next[SNAPSHOT_NAME_MAX + 1];
    unknown_at = 2; /* the end of the first snapshot */
    be_active(1);
    assert_int_equal(kept(first), 1);
    be_active(2);
    assert_int_equal(transactions, 4);
    assert_int_equal(kept(next), 1);
    assert_string_not_equal(next, first);
}

static void a_snapshot_whose_end_was_recorded_after_all_stays(void **ctx)
{
    (void)ctx;
    char first[SNAPSHOT_NAME_MAX + 1], next[SNAPSHOT_NAME_MAX + 1];
    unknown_at = 2;
    arrives = true;
    be_active(1);
    assert_int_equal(kept(first), 1);
    be_active(2);
    assert_int_equal(transactions, 2);
    assert_int_equal(kept(next), 1);
    assert_string_equal(next, first);
}

#define RUN(f) cmocka_unit_test_setup_teardown(f, open_schedule, close_schedule)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUN(a_slot_has_one_snapshot),
        RUN(a_snapshot_whose_end_was_lost_is_replaced),
        RUN(a_snapshot_whose_end_was_recorded_after_all_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
