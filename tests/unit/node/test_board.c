#include "support.h"

#include "node/board.h"

#include <stdio.h>

enum { FACTS = 6 };

static void what_is_published_is_what_the_status_says(void **ctx)
{
    (void)ctx;
    struct board board = {0};
    assert_status(board_init(&board, "node1", "c"), ST_OK);
    for (unsigned bits = 0; bits < 1u << FACTS; bits++) {
        struct node_status *s = board_begin(&board);
        (void)snprintf(s->leader_name, sizeof s->leader_name, (bits & 1) != 0 ? "node1" : "node2"); /* fits */
        s->initialized = (bits & 2) != 0;
        s->sealed = (bits & 4) != 0;
        s->active = (bits & 8) != 0;
        s->perf_standby = (bits & 16) != 0;
        s->removed = (bits & 32) != 0;
        board_end(&board);
        struct node_brief b = board_brief(&board);
        assert_int_equal(b.leads, (bits & 1) != 0);
        assert_int_equal(b.initialized, s->initialized);
        assert_int_equal(b.sealed, s->sealed);
        assert_int_equal(b.active, s->active);
        assert_int_equal(b.perf_standby, s->perf_standby);
        assert_int_equal(b.removed, s->removed);
    }
    board_done(&board);
}

static void who_knows_no_leader_does_not_lead(void **ctx)
{
    (void)ctx;
    const struct node_status s = {.name = "", .leader_name = ""};
    assert_false(node_brief_of(&s).leads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_published_is_what_the_status_says),
        cmocka_unit_test(who_knows_no_leader_does_not_lead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
