/* Snapshots by a schedule: what a configuration may be, and when the next snapshot is due. */
#include "api/api_world.h"

#include "api/members/members_autosnap.h"

#define CONFIG "/v1/sys/storage/raft/snapshot-auto/config/"
#define STATUS "/v1/sys/storage/raft/snapshot-auto/status/"

static const struct members_autosnap good = {.file_prefix = "a",
                                             .path_prefix = "/tmp",
                                             .storage_type = "local",
                                             .interval = 10,
                                             .retain = 1,
                                             .local_max_space = 1};

static void a_configuration_is_kept_and_changed_by_field(void **ctx)
{
    (void)ctx;
    (void)snprintf(w.node.cluster_id, sizeof w.node.cluster_id, "01234567-89ab");
    (void)request(METHOD_GET, CONFIG "daily", NULL, 404);
    (void)request(METHOD_PUT, CONFIG "daily",
                  "{\"interval\":\"24h\",\"path_prefix\":\"/tmp/\",\"storage_type\":\"local\","
                  "\"local_max_space\":\"1MiB\"}",
                  204);
    assert_body_has(request(METHOD_GET, CONFIG "daily", NULL, 200),
                    "{\"file_prefix\":\"holdfast-snapshot-01234567\",\"interval\":86400,"
                    "\"local_max_space\":1048576,\"path_prefix\":\"/tmp/\",\"retain\":1,"
                    "\"storage_type\":\"local\"}");
    /* what was configured stays, also the prefix of an earlier build */
    (void)request(METHOD_PUT, CONFIG "daily", "{\"file_prefix\":\"holdfast-snapshot\"}", 204);
    (void)request(METHOD_PUT, CONFIG "daily", "{\"retain\":7}", 204);
    assert_body_has(request(METHOD_GET, CONFIG "daily", NULL, 200),
                    "{\"file_prefix\":\"holdfast-snapshot\",");
    assert_body_has(request(METHOD_GET, CONFIG "daily", NULL, 200),
                    "\"path_prefix\":\"/tmp/\",\"retain\":7,");
    assert_body_has(request(METHOD_GET, STATUS "daily", NULL, 200),
                    "\"next_snapshot_start\":\"0001-01-01T00:00:00Z\"");
    (void)request(METHOD_DELETE, CONFIG "daily", NULL, 204);
    (void)request(METHOD_GET, STATUS "daily", NULL, 404);
}

/* The records are of this cluster alone: no snapshot has them. */
static void the_records_are_local(void **ctx)
{
    (void)ctx;
    assert_int_equal(strncmp(AUTOSNAP_CONFIGS, STATE_LOCAL, strlen(STATE_LOCAL)), 0);
    assert_int_equal(strncmp(AUTOSNAP_STATUSES, STATE_LOCAL, strlen(STATE_LOCAL)), 0);
    (void)request(METHOD_PUT, CONFIG "daily",
                  "{\"interval\":1,\"path_prefix\":\"/tmp\",\"storage_type\":\"local\","
                  "\"local_max_space\":1}",
                  204);
    world_put(AUTOSNAP_CONFIGS "daily", "of another key ring");
    (void)request(METHOD_GET, CONFIG "daily", NULL, 404); /* counts as absent */
    (void)request(METHOD_PUT, CONFIG "daily", "{\"retain\":7}", 400);
}

static void each_field_has_bounds(void **ctx)
{
    (void)ctx;
    struct reason why;
    struct members_autosnap c = good;
    char prefix[SNAPSHOT_PREFIX_MAX + 2] = {0};
    char path[AUTOSNAP_PATH_MAX + 2] = {0};
    memset(prefix, 'p', SNAPSHOT_PREFIX_MAX);
    memset(path, 'p', AUTOSNAP_PATH_MAX);
    path[0] = '/';
    c.file_prefix = prefix;
    c.path_prefix = path;
    c.interval = AUTOSNAP_INTERVAL_MAX_S;
    c.retain = AUTOSNAP_RETAIN_MAX;
    c.local_max_space = INT64_MAX;
    assert_status(members_autosnap_check(&c, &why), ST_OK);
    prefix[SNAPSHOT_PREFIX_MAX] = 'p';
    path[AUTOSNAP_PATH_MAX] = 'p';
    struct members_autosnap bad[] = {good, good, good, good, good, good, good, good, good, good};
    static const char *const fields[] = {
        "file_prefix", "file_prefix", "file_prefix",  "path_prefix", "path_prefix",
        "path_prefix", "interval",    "storage_type", "retain",      "local_max_space"};
    static_assert(ARRAY_LEN(bad) == ARRAY_LEN(fields), "one each");
    bad[0].file_prefix = prefix;
    bad[1].file_prefix = "..";
    bad[2].file_prefix = "a/b";
    bad[3].path_prefix = path;
    bad[4].path_prefix = "tmp";
    bad[5].path_prefix = "/t\x01";
    bad[6].interval = AUTOSNAP_INTERVAL_MAX_S + 1;
    bad[7].storage_type = "Local";
    bad[8].retain = AUTOSNAP_RETAIN_MAX + 1;
    bad[9].local_max_space = 0;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_status(members_autosnap_check(&bad[i], &why), ST_INVALID);
        assert_int_equal(strncmp(why.text, fields[i], strlen(fields[i])), 0);
    }
}

static void two_configurations_do_not_share_files(void **ctx)
{
    (void)ctx;
    struct members_autosnap other = good;
    assert_true(members_autosnap_collide(&good, &other));
    other.path_prefix = "/tmp//";
    assert_true(members_autosnap_collide(&good, &other));
    other.path_prefix = "/tmp/a";
    assert_false(members_autosnap_collide(&good, &other));
    other = good;
    other.file_prefix = "b";
    assert_false(members_autosnap_collide(&good, &other));
}

static struct members_autosnap_status begun_at(struct members_autosnap_status s, int64_t ms)
{
    s.running = true;
    s.begun_ms = ms;
    s.begun_node = "n1";
    return s;
}

static void slots_keep_their_distance(void **ctx)
{
    (void)ctx;
    struct members_autosnap_status s = {0};
    assert_int_equal(members_autosnap_due_ms(&good, &s), 0); /* the first one at once */
    s = begun_at(s, 100000);
    members_autosnap_succeed(&s, &good, "file:///1", 100500);
    assert_int_equal(members_autosnap_due_ms(&good, &s), 110000);
    s = begun_at(s, 113000); /* late: a failover */
    members_autosnap_succeed(&s, &good, "file:///2", 113100);
    assert_int_equal(members_autosnap_due_ms(&good, &s), 120000);
    s = begun_at(s, 160000); /* after a long pause: one snapshot, not four */
    members_autosnap_succeed(&s, &good, "file:///3", 160100);
    assert_int_equal(members_autosnap_due_ms(&good, &s), 170000);
    assert_int_equal(s.good_ms, 160000);
    assert_string_equal(s.good_url, "file:///3");
}

static void a_failure_is_tried_again_soon_and_told(void **ctx)
{
    (void)ctx;
    struct members_autosnap rare = good;
    struct members_autosnap_status s = begun_at((struct members_autosnap_status){0}, 100000);
    rare.interval = 86400;
    members_autosnap_succeed(&s, &rare, "file:///1", 100500);
    s = begun_at(s, 86500000);
    members_autosnap_fail(&s, &rare, "no space left", 86501000);
    assert_int_equal(members_autosnap_due_ms(&rare, &s), 86501000 + AUTOSNAP_RETRY_MS);
    assert_int_equal(s.failures, 1);
    assert_string_equal(s.error, "no space left");
    assert_string_equal(s.url, "");
    assert_string_equal(s.good_url, "file:///1");
    s = begun_at(s, 86600000);
    members_autosnap_succeed(&s, &rare, "file:///2", 86600100);
    assert_int_equal(s.failures, 0);
    assert_string_equal(s.error, "");
    assert_int_equal(members_autosnap_due_ms(&rare, &s), 100000 + 2 * 86400 * INT64_C(1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_configuration_is_kept_and_changed_by_field),
        TEST(the_records_are_local),
        cmocka_unit_test(each_field_has_bounds),
        cmocka_unit_test(two_configurations_do_not_share_files),
        cmocka_unit_test(slots_keep_their_distance),
        cmocka_unit_test(a_failure_is_tried_again_soon_and_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
