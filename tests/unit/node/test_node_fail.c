#include "support.h"

#include "node/node_internal.h"

static void on_failed(void *ctx, enum node_failure failure, const struct reason *reason)
{
    assert_string_equal(reason->text, "why");
    *(enum node_failure *)ctx = failure;
}

static enum node_failure failure_of(enum status why)
{
    enum node_failure told = NODE_NOT_STARTED;
    struct node n = {.options = {.failed = on_failed, .ctx = &told}};
    node_fail(&n, why, &(struct reason){"why"});
    return told;
}

static void only_a_failed_write_or_sync_is_the_disks_failure(void **ctx)
{
    (void)ctx;
    assert_int_equal(failure_of(ST_IO), NODE_DISK_FAILED);
    assert_int_equal(failure_of(ST_NO_SPACE), NODE_DISK_FAILED);
    assert_int_equal(failure_of(ST_UNSUPPORTED), NODE_FAILED); /* an entry of a later format */
    assert_int_equal(failure_of(ST_CORRUPT), NODE_FAILED);
    assert_int_equal(failure_of(ST_NOMEM), NODE_FAILED);
    assert_int_equal(failure_of(ST_INTERNAL), NODE_FAILED);
}

static void a_refused_start_is_not_the_disks_failure(void **ctx)
{
    (void)ctx;
    enum node_failure told = NODE_DISK_FAILED;
    struct node n = {.options = {.failed = on_failed, .ctx = &told}};
    node_refuse(&n, &(struct reason){"why"});
    assert_int_equal(told, NODE_NOT_STARTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_failed_write_or_sync_is_the_disks_failure),
        cmocka_unit_test(a_refused_start_is_not_the_disks_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
