/* How a node learns of its own removal: from a majority of the other voters, at one time. */
#include "support.h"

#include "cluster/membership/local.h"
#include "cluster/membership/removal/removed.h"
#include "router/clock_env.h"

#include <stdio.h>

static struct clock_env clock_env;
static struct part_host host;
static struct removed removed;
static struct rlog_status raft;
static unsigned left;    /* calls of bootstrap_removed */
static const char *gone; /* name of a removed node; NULL: none was removed */
static uint64_t linked;  /* raft id of the only peer with a link; 0: none has one */

void rlog_status(struct rlog *rlog, struct rlog_status *ret_status)
{
    (void)rlog;
    *ret_status = raft;
}

bool mesh_linked(const struct mesh *mesh, uint64_t id)
{
    (void)mesh;
    return id == linked;
}

void bootstrap_removed(struct bootstrap *b)
{
    (void)b;
    left++;
}

void bootstrap_superseded(struct bootstrap *b, const char *from)
{
    (void)b;
    (void)from;
}

bool local_has(const struct part_host *asked, const char *prefix, const char *name, bool unsure)
{
    (void)asked;
    (void)prefix;
    return gone != NULL ? strcmp(gone, name) == 0 : unsure;
}

void local_recovered_name(uint64_t id, char ret_name[RECOVERED_NAME_MAX])
{
    (void)id;
    ret_name[0] = '\0';
}

static void add_member(uint64_t id, const char *name)
{
    struct rlog_member *m = &host.members[host.n_members++];
    *m = (struct rlog_member){.id = id, .role = RLOG_VOTER};
    (void)snprintf(m->name, sizeof m->name, "%s", name);
}

static int set_up(void **ctx)
{
    static const struct member_options options = {.name = "n1"};
    static char mesh; /* only its address is used */
    (void)ctx;
    clock_env_init(&clock_env);
    host = (struct part_host){.env = &clock_env.env,
                              .options = &options,
                              .id = 1,
                              .phase = PHASE_MEMBER,
                              .mesh = (struct mesh *)&mesh,
                              .rlog = (struct rlog *)&mesh};
    add_member(1, "n1");
    add_member(2, "n2");
    add_member(3, "n3");
    removed = (struct removed){0};
    raft = (struct rlog_status){.leader = 1};
    left = 0;
    gone = NULL;
    linked = 0;
    assert_status(removed_part.start(&removed, &host), ST_OK);
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    timer_heap_done(&clock_env.timers);
    return 0;
}

static void a_voter_with_a_leader_refuses_a_removed_node(void **ctx)
{
    (void)ctx;
    gone = "n4";
    assert_true(removed_refuses(&host, "n4", 4));
    assert_false(removed_refuses(&host, "n5", 5));
    assert_false(removed_refuses(&host, "n3", 3)); /* a member, whatever the state says */
    gone = "n3";
    assert_false(removed_refuses(&host, "n3", 3));
}

static void a_node_that_may_lag_refuses_nobody_as_removed(void **ctx)
{
    (void)ctx;
    gone = "n4";
    raft.leader = 4;
    assert_false(removed_refuses(&host, "n4", 4)); /* the leader was let in again */
    assert_true(removed_refuses(&host, "n4", 5));  /* its former raft id was not */
    raft.leader = 0;
    assert_false(removed_refuses(&host, "n4", 4));
    raft.leader = 2;
    host.members[0].role = RLOG_STANDBY;
    assert_false(removed_refuses(&host, "n4", 4));
    host.n_members = 0;
    assert_false(removed_refuses(&host, "n4", 4));
}

static void a_majority_of_the_other_voters_is_believed(void **ctx)
{
    (void)ctx;
    removed_hear(&removed, "n2");
    removed_hear(&removed, "n2");
    removed_hear(&removed, "elsewhere");
    assert_int_equal(left, 0);
    removed_part.changed(&removed, &raft);
    removed_hear(&removed, "n3");
    assert_int_equal(left, 1);
}

static void peers_that_lag_one_after_the_other_are_no_majority(void **ctx)
{
    (void)ctx;
    removed_hear(&removed, "n3");
    linked = 3;
    removed_part.changed(&removed, &raft);
    linked = 0;
    removed_hear(&removed, "n2");
    assert_int_equal(left, 0);
    removed_hear(&removed, "n3");
    assert_int_equal(left, 1);
}

static void without_a_leader_peers_are_believed_over_their_links(void **ctx)
{
    (void)ctx;
    raft.leader = 0;
    linked = 3;
    removed_hear(&removed, "n3");
    removed_part.changed(&removed, &raft);
    removed_hear(&removed, "n2");
    assert_int_equal(left, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_voter_with_a_leader_refuses_a_removed_node, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_node_that_may_lag_refuses_nobody_as_removed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_majority_of_the_other_voters_is_believed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(peers_that_lag_one_after_the_other_are_no_majority, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(without_a_leader_peers_are_believed_over_their_links,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
