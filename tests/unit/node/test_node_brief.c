#include "support.h"

#include "base/mem.h"
#include "node/node_internal.h"

#include <stdio.h>

enum { FACTS = 6 };

static void what_is_published_is_what_the_status_says(void **ctx)
{
    (void)ctx;
    struct node *n = mem_zalloc(sizeof *n);
    assert_non_null(n);
    for (unsigned bits = 0; bits < 1u << FACTS; bits++) {
        struct node_status *s = &n->status;
        (void)snprintf(s->name, sizeof s->name, "node1"); /* fits, as below */
        (void)snprintf(s->leader_name, sizeof s->leader_name, (bits & 1) != 0 ? "node1" : "node2");
        s->initialized = (bits & 2) != 0;
        s->sealed = (bits & 4) != 0;
        s->active = (bits & 8) != 0;
        s->perf_standby = (bits & 16) != 0;
        s->removed = (bits & 32) != 0;
        node_brief_publish(n);
        struct node_brief b = node_brief_get(n);
        assert_int_equal(b.leads, (bits & 1) != 0);
        assert_int_equal(b.initialized, s->initialized);
        assert_int_equal(b.sealed, s->sealed);
        assert_int_equal(b.active, s->active);
        assert_int_equal(b.perf_standby, s->perf_standby);
        assert_int_equal(b.removed, s->removed);
    }
    mem_free(n);
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
