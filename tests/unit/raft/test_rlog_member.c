/* Members are added, removed and change their role; leadership is transferred. */
#include "support.h"
#include "world.h"

static struct rlog_status status_of(struct wnode *n)
{
    struct rlog_status s;
    rlog_status(n->rlog, &s);
    return s;
}

static enum status add(struct wnode *leader, uint64_t id, enum rlog_role role, uint64_t replaces)
{
    struct wclient c = {
        .a = {.done = wclient_admin, .member = world_member(id, role), .replaces = replaces}};
    rlog_member_add(leader->rlog, &c.a);
    return wclient_wait(leader->e.world, &c);
}

static enum status remove_member(struct wnode *leader, uint64_t id)
{
    struct wclient c = {.a = {.done = wclient_admin, .member.id = id}};
    rlog_member_remove(leader->rlog, &c.a);
    return wclient_wait(leader->e.world, &c);
}

static enum status demote(struct wnode *leader, uint64_t id)
{
    struct wclient c = {.a = {.done = wclient_admin, .member.id = id}};
    rlog_member_demote(leader->rlog, &c.a);
    return wclient_wait(leader->e.world, &c);
}

static enum rlog_role role_of(struct wnode *n, uint64_t id)
{
    struct rlog_status s = status_of(n);
    for (unsigned i = 0; i < s.n_members; i++)
        if (s.members[i].id == id)
            return s.members[i].role;
    fail_msg("%llu is no member", (unsigned long long)id);
    return RLOG_SPARE;
}

static enum status transfer(struct wnode *leader, uint64_t id)
{
    struct wclient c = {.a = {.done = wclient_admin, .member.id = id}};
    rlog_transfer(leader->rlog, &c.a);
    return wclient_wait(leader->e.world, &c);
}

static struct wnode *newcomer(struct world *w, uint64_t id)
{
    struct reason reason;
    struct wnode *n = wnode_create(w, id);
    assert_status(wnode_start(n, &reason), ST_OK);
    return n;
}

static void a_cluster_grows_from_one_to_three(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(1, 1);
    struct wnode *leader = world_await_leader(w);
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    struct wnode *second = newcomer(w, 2), *third = newcomer(w, 3);
    assert_status(add(leader, 2, RLOG_VOTER, 0), ST_OK);
    assert_status(add(leader, 3, RLOG_VOTER, 0), ST_OK);
    assert_int_equal(status_of(leader).n_members, 3);
    assert_status(world_read(second), ST_OK);
    assert_status(world_read(third), ST_OK);
    assert_string_equal(world_get(third, "s/a"), "1");

    wnode_stop(leader);
    leader = world_await_leader(w);
    assert_non_null(leader);
    assert_status(world_put(leader, "s/a", "2"), ST_OK);
    world_free(w);
}

static void adding_again_is_not_an_error(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(2, 1);
    struct wnode *leader = world_await_leader(w);
    (void)newcomer(w, 2);
    assert_status(add(leader, 2, RLOG_STANDBY, 0), ST_OK);
    assert_status(add(leader, 2, RLOG_STANDBY, 0), ST_OK);
    assert_int_equal(status_of(leader).n_members, 2);
    assert_status(add(leader, 2, RLOG_VOTER, 0), ST_OK);
    assert_int_equal(status_of(leader).members[1].role, RLOG_VOTER);
    world_free(w);
}

static void a_member_is_replaced_under_its_name(void **ctx)
{
    (void)ctx;
    struct reason reason;
    struct rlog_identity old, fresh;
    struct world *w = world_new(3, 3);
    struct wnode *leader = world_await_leader(w), *lost = world_follower(w);
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    uint64_t lost_id = lost->id;
    wnode_stop(lost);
    struct rlog_options o = wnode_options(lost);
    assert_status(rlog_rejoin_prepare(&o, &old, &fresh, &reason), ST_OK);
    assert_int_equal(old.id, lost_id);
    assert_int_not_equal(fresh.id, lost_id);
    assert_string_equal(fresh.name, lost->identity.name);
    lost->id = lost->identity.id = fresh.id;
    assert_status(wnode_start(lost, &reason), ST_OK);

    struct wclient c = {.a = {.done = wclient_admin,
                              .member = world_member(lost_id, RLOG_VOTER),
                              .replaces = lost_id}};
    c.a.member.id = fresh.id;
    rlog_member_add(leader->rlog, &c.a);
    assert_status(wclient_wait(w, &c), ST_OK);
    assert_int_equal(status_of(leader).n_members, 3);
    assert_status(world_read(lost), ST_OK);
    assert_string_equal(world_get(lost, "s/a"), "1");
    world_free(w);
}

static void there_is_a_most_of_members(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(4, 1);
    struct wnode *leader = world_await_leader(w);
    for (uint64_t id = 2; id <= RLOG_MEMBERS_MAX; id++)
        assert_status(add(leader, id, RLOG_SPARE, 0), ST_OK);
    assert_int_equal(status_of(leader).n_members, RLOG_MEMBERS_MAX);
    assert_status(add(leader, RLOG_MEMBERS_MAX + 1, RLOG_SPARE, 0), ST_INVALID);
    assert_int_equal(status_of(leader).n_members, RLOG_MEMBERS_MAX);
    assert_status(remove_member(leader, 5), ST_OK);
    assert_status(add(leader, RLOG_MEMBERS_MAX + 1, RLOG_SPARE, 0), ST_OK);
    world_free(w);
}

static void a_second_member_of_a_name_is_refused(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(4, 3);
    struct wnode *leader = world_await_leader(w);
    struct wclient c = {.a = {.done = wclient_admin, .member = world_member(2, RLOG_VOTER)}};
    c.a.member.id = 77;
    rlog_member_add(leader->rlog, &c.a);
    assert_status(wclient_wait(w, &c), ST_INVALID);
    world_free(w);
}

static void a_member_is_removed(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(5, 3);
    struct wnode *leader = world_await_leader(w), *gone = world_follower(w);
    assert_status(remove_member(leader, gone->id), ST_OK);
    assert_int_equal(status_of(leader).n_members, 2);
    wnode_stop(gone);
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    world_free(w);
}

static void a_leader_moves_leadership_before_it_goes(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(6, 2);
    struct wnode *leader = world_await_leader(w);
    uint64_t id = leader->id;
    assert_status(remove_member(leader, id), ST_NOT_LEADER);
    struct wnode *next = world_await_leader(w);
    assert_non_null(next);
    assert_ptr_not_equal(next, leader);
    assert_status(remove_member(next, id), ST_OK);
    wnode_stop(leader);
    assert_status(world_put(next, "s/a", "1"), ST_OK);
    assert_int_equal(status_of(next).n_members, 1);
    world_free(w);
}

/* Without its vote it follows and answers reads, and no majority needs it; nor does it count as
 * one. */
static void a_member_loses_its_vote_and_gets_it_back(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(16, 3);
    struct wnode *leader = world_await_leader(w), *plain = world_follower(w);
    assert_status(demote(leader, plain->id), ST_OK);
    assert_status(demote(leader, plain->id), ST_OK);
    assert_int_equal(role_of(leader, plain->id), RLOG_STANDBY);
    assert_status(transfer(leader, plain->id), ST_INVALID);
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    assert_status(world_read(plain), ST_OK);
    assert_string_equal(world_get(plain, "s/a"), "1");

    assert_status(add(leader, plain->id, RLOG_VOTER, 0), ST_OK);
    assert_int_equal(role_of(leader, plain->id), RLOG_VOTER);
    assert_status(transfer(leader, plain->id), ST_OK);
    assert_ptr_equal(world_await_leader(w), plain);
    world_free(w);
}

static void two_voters_and_one_without_a_vote_stop_without_one_of_the_two(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(17, 3);
    struct wnode *leader = world_await_leader(w), *plain = world_follower(w);
    assert_status(demote(leader, plain->id), ST_OK);
    for (unsigned i = 0; i < w->n_nodes; i++)
        if (&w->nodes[i] != leader && &w->nodes[i] != plain)
            wnode_stop(&w->nodes[i]);
    world_run(w, 5000);
    assert_false(status_of(leader).is_leader);
    assert_false(status_of(plain).is_leader);
    world_free(w);
}

static void a_leader_moves_leadership_before_it_loses_its_vote(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(18, 3);
    struct wnode *leader = world_await_leader(w);
    uint64_t id = leader->id;
    assert_status(demote(leader, id), ST_NOT_LEADER);
    struct wnode *next = world_await_leader(w);
    assert_ptr_not_equal(next, leader);
    assert_status(demote(next, id), ST_OK);
    assert_int_equal(role_of(next, id), RLOG_STANDBY);
    assert_status(transfer(next, 0), ST_OK); /* what was asked before is forgotten */
    world_free(w);
}

static void the_last_voter_and_strangers_are_not_demoted(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(19, 1);
    struct wnode *leader = world_await_leader(w);
    assert_status(demote(leader, leader->id), ST_INVALID);
    assert_status(demote(leader, 77), ST_INVALID);
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    world_free(w);
}

static enum status set_address(struct wnode *leader, uint64_t id, const char *address)
{
    struct wclient c = {.a = {.done = wclient_admin, .member.id = id}};
    (void)snprintf(c.a.member.address, sizeof c.a.member.address, "%s", address);
    rlog_member_address(leader->rlog, &c.a);
    return wclient_wait(leader->e.world, &c);
}

static const char *address_of(const struct wnode *n, uint64_t id)
{
    for (unsigned i = 0; i < n->n_members; i++)
        if (n->members[i].id == id)
            return n->members[i].address;
    return "none";
}

static void a_new_address_of_a_member_reaches_every_member(void **ctx)
{
    (void)ctx;
    struct reason reason;
    struct world *w = world_new(20, 3);
    struct wnode *leader = world_await_leader(w), *moved = world_follower(w);
    assert_status(demote(leader, moved->id), ST_OK);
    assert_status(set_address(leader, moved->id, "elsewhere:1"), ST_OK);
    assert_status(set_address(leader, leader->id, "[::1]:2"), ST_OK);
    assert_status(set_address(leader, leader->id, "[::1]:2"), ST_OK);
    assert_status(world_read(moved), ST_OK);
    for (unsigned i = 0; i < w->n_nodes; i++) {
        assert_string_equal(address_of(&w->nodes[i], moved->id), "elsewhere:1");
        assert_string_equal(address_of(&w->nodes[i], leader->id), "[::1]:2");
    }
    assert_int_equal(role_of(leader, moved->id), RLOG_STANDBY);
    assert_int_equal(status_of(leader).n_members, 3);

    wnode_stop(moved); /* it finds the addresses in its log again */
    assert_status(wnode_start(moved, &reason), ST_OK);
    assert_string_equal(address_of(moved, leader->id), "[::1]:2");
    world_free(w);
}

static void an_address_that_cannot_be_stored_is_refused(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(21, 1);
    struct wnode *leader = world_await_leader(w);
    assert_status(set_address(leader, leader->id, "two words:1"), ST_INVALID);
    assert_status(set_address(leader, leader->id, ""), ST_INVALID);
    assert_status(set_address(leader, 77, "host:1"), ST_INVALID);
    assert_string_equal(address_of(leader, leader->id), "host1:8201");
    world_free(w);
}

static void a_new_address_does_not_wait_for_a_dead_server_being_added(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(22, 3);
    struct wnode *leader = world_await_leader(w);
    struct wclient dead = {.a = {.done = wclient_admin, .member = world_member(9, RLOG_VOTER)}};
    rlog_member_add(leader->rlog, &dead.a);
    world_run(w, 1000);
    assert_status(set_address(leader, leader->id, "host:1"), ST_OK);
    assert_status(wclient_wait(w, &dead), ST_BUSY);
    world_free(w);
}

static void leadership_moves_under_load(void **ctx)
{
    (void)ctx;
    enum { WRITERS = 8 };
    static struct wclient writers[WRITERS];
    struct world *w = world_new(7, 3);
    for (unsigned round = 0; round < 6; round++) {
        struct wnode *leader = world_await_leader(w);
        assert_non_null(leader);
        struct wclient move = {.a = {.done = wclient_admin}};
        for (unsigned i = 0; i < WRITERS; i++)
            wclient_put(leader, &writers[i], "s/a", "1");
        rlog_transfer(leader->rlog, &move.a);
        assert_status(wclient_wait(w, &move), ST_OK);
        for (unsigned i = 0; i < WRITERS; i++) {
            enum status st = wclient_wait(w, &writers[i]);
            assert_true(st == ST_OK || st == ST_NOT_LEADER);
        }
        assert_ptr_not_equal(world_await_leader(w), leader);
    }
    for (unsigned i = 0; i < WRITERS; i++)
        buf_done(&writers[i].txn);
    world_free(w);
}

static void a_transfer_to_a_dead_server_fails_and_writes_go_on(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(8, 3);
    struct wnode *leader = world_await_leader(w), *dead = world_follower(w);
    wnode_stop(dead);
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    assert_status(transfer(leader, dead->id), ST_TIMEOUT);
    assert_status(world_put(leader, "s/a", "2"), ST_OK);
    world_free(w);
}

static void one_change_at_a_time(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(9, 3);
    struct wnode *leader = world_await_leader(w);
    struct wclient first = {.a = {.done = wclient_admin, .member = world_member(9, RLOG_VOTER)}};
    first.a.deadline_ms = w->now_ns / 1000000 + 3000;
    rlog_member_add(leader->rlog, &first.a); /* there is no such server */
    assert_status(add(leader, 8, RLOG_VOTER, 0), ST_BUSY);
    assert_status(wclient_wait(w, &first), ST_TIMEOUT);
    assert_status(remove_member(leader, 9), ST_OK);
    world_free(w);
}

static uint64_t now_ms(const struct world *w)
{
    return w->now_ns / 1000000;
}

static void a_dead_server_that_is_being_added_holds_nobody_up(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(9, 3);
    struct wnode *leader = world_await_leader(w), *follower = world_follower(w);
    struct wclient dead = {.a = {.done = wclient_admin, .member = world_member(9, RLOG_VOTER)}};
    rlog_member_add(leader->rlog, &dead.a);
    world_run(w, 1000);
    uint64_t before = now_ms(w);
    struct wclient other = {.a = {.done = wclient_admin, .member.id = follower->id}};
    rlog_member_remove(leader->rlog, &other.a);
    assert_status(wclient_wait(w, &dead), ST_BUSY);
    assert_status(wclient_wait(w, &other), ST_OK);
    assert_true(now_ms(w) - before < 7000);
    world_free(w);
}

static void a_dead_server_is_not_waited_for_to_be_added(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(10, 3);
    struct wnode *leader = world_await_leader(w), *third;
    struct wclient dead = {.a = {.done = wclient_admin, .member = world_member(9, RLOG_VOTER)}};
    uint64_t before = now_ms(w);
    rlog_member_add(leader->rlog, &dead.a);
    assert_status(wclient_wait(w, &dead), ST_TIMEOUT);
    third = newcomer(w, 4);
    assert_status(add(leader, 4, RLOG_VOTER, 0), ST_OK);
    assert_true(now_ms(w) - before < 15000);
    assert_status(world_read(third), ST_OK);
    world_free(w);
}

static void a_dead_leader_is_replaced_at_once(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(10, 3);
    uint64_t total = 0, worst = 0;
    for (unsigned round = 0; round < 10; round++) {
        struct reason reason;
        struct wnode *leader = world_await_leader(w);
        world_run(w, 1000 + round * 37);
        wnode_stop(leader);
        uint64_t from = w->now_ns / 1000000;
        for (unsigned i = 0; i < 3; i++)
            if (w->nodes[i].up)
                rlog_peer_gone(w->nodes[i].rlog, leader->id);
        assert_non_null(world_await_leader(w));
        uint64_t took = w->now_ns / 1000000 - from;
        total += took;
        worst = MAX(worst, took);
        assert_status(wnode_start(leader, &reason), ST_OK);
        world_run(w, 3000);
    }
    assert_true(total / 10 < 150);
    assert_true(worst < 500);
    world_free(w);
}

/* In virtual time. The second election, of nodes that know a leader, takes as long as ever. */
static void the_first_leader_is_elected_at_once(void **ctx)
{
    (void)ctx;
    enum { ROUNDS = 10, ELECTION_MS = 1000 };
    uint64_t total = 0, second = UINT64_MAX;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct world *w = world_new(20 + round, 3);
        uint64_t from = now_ms(w);
        struct wnode *leader = world_await_leader(w);
        assert_non_null(leader);
        total += now_ms(w) - from;
        world_run(w, 3000);
        leader = world_await_leader(w);
        wnode_stop(leader);
        from = now_ms(w);
        assert_non_null(world_await_leader(w));
        second = MIN(second, now_ms(w) - from);
        world_free(w);
    }
    assert_true(total / ROUNDS < ELECTION_MS / 4);
    assert_true(second > ELECTION_MS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cluster_grows_from_one_to_three),
        cmocka_unit_test(adding_again_is_not_an_error),
        cmocka_unit_test(a_member_is_replaced_under_its_name),
        cmocka_unit_test(there_is_a_most_of_members),
        cmocka_unit_test(a_second_member_of_a_name_is_refused),
        cmocka_unit_test(a_member_is_removed),
        cmocka_unit_test(a_leader_moves_leadership_before_it_goes),
        cmocka_unit_test(a_member_loses_its_vote_and_gets_it_back),
        cmocka_unit_test(two_voters_and_one_without_a_vote_stop_without_one_of_the_two),
        cmocka_unit_test(a_leader_moves_leadership_before_it_loses_its_vote),
        cmocka_unit_test(the_last_voter_and_strangers_are_not_demoted),
        cmocka_unit_test(a_new_address_of_a_member_reaches_every_member),
        cmocka_unit_test(an_address_that_cannot_be_stored_is_refused),
        cmocka_unit_test(a_new_address_does_not_wait_for_a_dead_server_being_added),
        cmocka_unit_test(leadership_moves_under_load),
        cmocka_unit_test(a_transfer_to_a_dead_server_fails_and_writes_go_on),
        cmocka_unit_test(one_change_at_a_time),
        cmocka_unit_test(a_dead_server_that_is_being_added_holds_nobody_up),
        cmocka_unit_test(a_dead_server_is_not_waited_for_to_be_added),
        cmocka_unit_test(a_dead_leader_is_replaced_at_once),
        cmocka_unit_test(the_first_leader_is_elected_at_once),
    };
    trace_set_level(getenv("V") != NULL ? TRACE_DEBUG : TRACE_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
