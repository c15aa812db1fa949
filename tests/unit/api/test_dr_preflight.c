/* What stands in the way of a promotion, and the drill: on a secondary whose link is made up. */
#include "api/api_world.h"

#include "cluster/dr/drill/drill.h"
#include "cluster/dr/role.h"
#include "cluster/dr/token.h"
#include "state/state_dr.h"

#include <string.h>

#define PROMOTE "sys/replication/dr/secondary/promote"
#define DRILL "sys/replication/dr/secondary/drill"

static struct dr_facts facts;
static struct part_host host;
static struct dr dr;
static struct dr_role role;
static char bearer[TOKEN_SERVICE_LEN + 1];
static unsigned asked_left; /* how often the drill asked whether to go on */

static void tell_facts(struct node *node, struct dr_facts *ret_facts)
{
    (void)node;
    *ret_facts = facts;
}

static enum status drill(struct node *node, const struct dr_drill_ask *ask,
                         struct dr_drill *ret_drill, struct reason *reason)
{
    (void)node;
    return dr_drill_store(&dr, w.m.store, ask, ret_drill, reason);
}

static unsigned no_peers(struct node *node, struct node_peer *ret_peers)
{
    (void)node;
    (void)ret_peers;
    return 0;
}

/* Store the role, and what belongs to a secondary: its own seal and a DR token. */
static void put_role(enum dr_phase phase)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder txn = {0};
    CLEANUP(buf_done) struct buf record = {0}, encoded = {0}, entry = {0};
    struct store_pin pin;
    struct store_item seal;
    role.phase = phase;
    assert_status(dr_role_encode(&role, &record), ST_OK);
    assert_status(store_pin(w.m.store, "test", 0, &pin), ST_OK);
    assert_status(store_get(&pin, BYTES(BARRIER_SEAL), &seal), ST_OK);
    rlog_txn_put(&txn, BYTES(DR_ROLE), buf_bytes(&record));
    rlog_txn_put(&txn, BYTES(DR_FOLLOWING), BYTES(""));
    rlog_txn_put(&txn, BYTES(STATE_DR_SEAL), seal.value);
    assert_status(rlog_txn_encode(&txn, &encoded), ST_OK);
    const struct bytes one = buf_bytes(&encoded);
    assert_status(rlog_entry_encode(RLOG_FEATURE_FIRST, 1000, &one, 1, &entry), ST_OK);
    rlog_machine_apply(&w.m, ++w.index, buf_bytes(&entry), NULL, NULL);
    store_unpin(&pin);
    w.node.dr = role;
}

static enum status committed;
static void on_commit(struct state_commit *c, enum status st)
{
    (void)c;
    committed = st;
}

static void make_token(void)
{
    struct arena arena = {0};
    struct state_txn txn;
    struct state_commit c = {.done = on_commit};
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    assert_status(dr_token_create(&txn, &w.env.env, 1, bearer), ST_OK);
    committed = ST_BUSY;
    assert_status(state_commit(&txn, &c), ST_OK);
    state_end(&txn);
    clock_run(&w.env);
    assert_status(committed, ST_OK);
    state_commit_done(&c);
    arena_done(&arena);
}

static void become_secondary(void)
{
    w.node_ops.dr_facts = tell_facts;
    w.node_ops.dr_drill = drill;
    w.node_ops.peers = no_peers;
    facts = (struct dr_facts){.verified = 7};
    host = (struct part_host){.barrier = w.barrier, .env = &w.env.env};
    dr = (struct dr){.host = &host};
    assert_status(dr_live_init(&dr.live), ST_OK);
    role = (struct dr_role){.mode = DR_MODE_SECONDARY, .epoch = 3, .id = "b", .set = {7}};
    put_role(DR_PHASE_STREAMING);
    make_token();
    asked_left = 0;
}

static int open_secondary(void **ctx)
{
    (void)open_world(ctx);
    become_secondary();
    return 0;
}

/* With two damaged values. The second key does not print. */
static int open_damaged(void **ctx)
{
    (void)open_world(ctx);
    world_put("s/ns/root/data/x", "not encrypted at all, and long enough to look like a value");
    world_put("s/ns/root/data/\\\n", "short");
    become_secondary();
    return 0;
}

static int close_secondary(void **ctx)
{
    dr_live_done(&dr.live);
    return close_world(ctx);
}

/* A request with the DR token in the body, and `more` behind it. */
static struct test_request *ask(const char *path, const char *more, int http, const char *part)
{
    char body[256];
    (void)snprintf(body, sizeof body, "{\"dr_operation_token\":\"%s\"%s}", bearer, more);
    return expect(as("", METHOD_POST, path, body), http, part);
}

static void assert_check(const char *check, const char *result)
{
    char part[96];
    (void)snprintf(part, sizeof part, "{\"check\":\"%s\",\"result\":\"%s\"", check, result);
    (void)ask(PROMOTE, ",\"preflight\":true", 200, part);
}

static void heard(uint64_t ms_ago)
{
    w.env.now_ms += 100000;
    facts.primary_heard_ms = w.env.now_ms - ms_ago;
    facts.settled_ms = facts.primary_heard_ms;
}

static void a_silent_primary_that_was_caught_up_with_leaves_nothing_in_the_way(void **ctx)
{
    (void)ctx;
    heard(5000);
    assert_check("primary", "ok");
    assert_check("lag", "ok");
    assert_check("roots", "ok");
    assert_check("change", "ok");
    (void)ask(PROMOTE, ",\"preflight\":true", 200, "\"ready\":true");
    (void)ask(PROMOTE "?preflight", "", 200, "\"ready\":true");
    (void)ask(PROMOTE "?preflight=1", ",\"force\":true", 200, "\"complete\":false");
    (void)ask(PROMOTE "?preflight=0", "", 200, "\"complete\":true");
}

/* Each is refused without force, and named by the checks. */
static void a_primary_that_was_heard_lately_needs_force(void **ctx)
{
    (void)ctx;
    heard(4999);
    assert_check("primary", "forceable");
    (void)ask(PROMOTE, "", 503, "the primary was heard 4999 ms ago: demote it first");
    (void)ask(PROMOTE, ",\"force\":true", 200, "\"complete\":true");
}

static void missing_writes_need_force(void **ctx)
{
    (void)ctx;
    heard(60000);
    facts.primary_version = w.node.version + 3;
    assert_check("lag", "forceable");
    (void)ask(PROMOTE, ",\"preflight\":true", 200, "3 writes are missing here");
    (void)ask(PROMOTE, "", 503, "lacks 3 writes");
    (void)ask(PROMOTE, ",\"force\":true", 200, "\"complete\":true");
}

static void roots_that_were_compared_before_the_last_write_are_a_warning(void **ctx)
{
    (void)ctx;
    heard(60000);
    facts.verified = w.node.version = 9;
    assert_check("roots", "ok");
    w.node.version++;
    assert_check("roots", "warning");
    (void)ask(PROMOTE, ",\"preflight\":true", 200, "not compared yet at version");
    (void)ask(PROMOTE, "", 200, "\"complete\":true");
}

static void roots_that_differ_need_force(void **ctx)
{
    (void)ctx;
    heard(60000);
    facts.differs = true;
    assert_check("roots", "forceable");
    (void)ask(PROMOTE, "", 503, "the Merkle roots of both clusters differed");
    (void)ask(PROMOTE, ",\"force\":true", 200, "\"complete\":true");
}

static void a_primary_that_was_never_heard_is_a_warning(void **ctx)
{
    (void)ctx;
    facts.verified = 0;
    assert_check("primary", "warning");
    assert_check("roots", "warning");
    (void)ask(PROMOTE, "", 200, "\"complete\":true");
}

static void a_sync_cannot_be_forced(void **ctx)
{
    (void)ctx;
    put_role(DR_PHASE_SYNCING);
    assert_check("state", "blocked");
    (void)ask(PROMOTE, ",\"force\":true", 503, "with or without force");
    (void)ask(DRILL, "", 400, "still syncs");
}

/* The keys are of another seal: the writes of a promotion cannot be made. */
static void a_node_with_another_seal_is_told_beforehand(void **ctx)
{
    (void)ctx;
    w.host.seal = NULL;
    heard(60000);
    assert_check("change", "blocked");
    (void)ask(PROMOTE, ",\"preflight\":true", 200, "this cluster is sealed by the key 'k'");
}

static void a_drill_writes_nothing(void **ctx)
{
    (void)ctx;
    heard(60000);
    unsigned before = w.proposals;
    (void)ask(DRILL, "", 200, "\"passed\":true,\"complete\":true");
    (void)ask(DRILL, "", 200, "\"epoch\":3,\"epoch_after\":4,");
    assert_int_equal(w.proposals, before);
    assert_false(dr.drills);
}

static void a_drill_names_the_values_that_do_not_open(void **ctx)
{
    (void)ctx;
    (void)ask(DRILL, "", 200, "\"unreadable\":2,\"damage\":[");
    (void)ask(DRILL, "", 200,
              "{\"key\":\"s/ns/root/data/x\",\"problem\":\"the value does not decrypt\"}");
    (void)ask(DRILL, "", 200, "{\"key\":\"s/ns/root/data/\\\\x5c\\\\x0a\",");
    (void)ask(DRILL, "", 200, "\"passed\":false,\"complete\":true");
}

static void a_drill_does_not_pass_where_a_promotion_is_blocked(void **ctx)
{
    (void)ctx;
    w.host.seal = NULL; /* the drill then opens the keys by the root key */
    (void)ask(DRILL, "", 200, "\"passed\":false,\"complete\":true");
    (void)ask(DRILL, "", 200, "\"own_seal\":false");
}

static void one_drill_runs_at_a_time(void **ctx)
{
    (void)ctx;
    dr.drills = true;
    (void)ask(DRILL, "", 503, "another drill runs");
    dr.drills = false;
    (void)ask(DRILL, "", 200, "\"passed\":true");
}

/* Asked for the n-th time, the client has gone. */
static bool until(void *ctx)
{
    return ++asked_left < *(unsigned *)ctx;
}

static void a_drill_ends_when_nobody_waits_for_it(void **ctx)
{
    unsigned n = 1;
    struct dr_drill out;
    struct dr_drill_ask question = {
        .seal = &w.seal, .env = &w.env.env, .limit_ms = 1000, .goes_on = until, .ctx = &n};
    struct reason why = {{0}};
    (void)ctx;
    assert_status(dr_drill_store(&dr, w.m.store, &question, &out, &why), ST_CLOSED);
    assert_int_equal(asked_left, 1);
    assert_false(dr.drills);
    n = UINT32_MAX;
    assert_status(dr_drill_store(&dr, w.m.store, &question, &out, &why), ST_OK);
    assert_true(out.complete);
    host.stopping = true;
    assert_status(dr_drill_store(&dr, w.m.store, &question, &out, &why), ST_CLOSED);
}

static bool an_hour_passes(void *ctx)
{
    (void)ctx;
    w.env.now_ms += 3600000;
    return true;
}

static void a_drill_whose_time_is_over_tells_how_far_it_came(void **ctx)
{
    struct dr_drill out;
    const struct dr_drill_ask question = {
        .seal = &w.seal, .env = &w.env.env, .limit_ms = 1000, .goes_on = an_hour_passes};
    struct reason why = {{0}};
    (void)ctx;
    assert_status(dr_drill_store(&dr, w.m.store, &question, &out, &why), ST_OK);
    assert_false(out.complete);
    assert_true(out.keys < out.total);
    assert_int_equal(out.unreadable, 0);
}

static void a_key_that_is_another_seals_ends_the_drill(void **ctx)
{
    static const uint8_t key[32] = {1};
    struct dr_drill out;
    struct seal other = {0};
    struct reason why = {{0}};
    (void)ctx;
    assert_status(seal_static(bytes_of(key, 32), "k", &other, NULL), ST_OK);
    const struct dr_drill_ask question = {
        .seal = &other, .env = &w.env.env, .limit_ms = 1000, .goes_on = an_hour_passes};
    assert_status(dr_drill_store(&dr, w.m.store, &question, &out, &why), ST_INVALID);
    assert_non_null(strstr(why.text, "the keys of this version do not open"));
    seal_done(&other);
}

#define ON_SECONDARY(f) cmocka_unit_test_setup_teardown(f, open_secondary, close_secondary)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SECONDARY(a_silent_primary_that_was_caught_up_with_leaves_nothing_in_the_way),
        ON_SECONDARY(a_primary_that_was_heard_lately_needs_force),
        ON_SECONDARY(missing_writes_need_force),
        ON_SECONDARY(roots_that_were_compared_before_the_last_write_are_a_warning),
        ON_SECONDARY(roots_that_differ_need_force),
        ON_SECONDARY(a_primary_that_was_never_heard_is_a_warning),
        ON_SECONDARY(a_sync_cannot_be_forced),
        ON_SECONDARY(a_node_with_another_seal_is_told_beforehand),
        ON_SECONDARY(a_drill_writes_nothing),
        cmocka_unit_test_setup_teardown(a_drill_names_the_values_that_do_not_open, open_damaged,
                                        close_secondary),
        ON_SECONDARY(a_drill_does_not_pass_where_a_promotion_is_blocked),
        ON_SECONDARY(one_drill_runs_at_a_time),
        ON_SECONDARY(a_drill_ends_when_nobody_waits_for_it),
        ON_SECONDARY(a_drill_whose_time_is_over_tells_how_far_it_came),
        ON_SECONDARY(a_key_that_is_another_seals_ends_the_drill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
