/* Rows that make no sense are refused at start. */
#include "support.h"

#include "router/table/route.h"

static enum status never(struct req *req)
{
    (void)req;
    return ST_INTERNAL;
}

static void never_waits(struct req *req, struct req_wait *wait)
{
    fail_msg("%p %p: no step runs here", (void *)req, (void *)wait);
}

static void assert_refused(const struct route *route, const char *words)
{
    struct reason why = {{0}};
    assert_status(route_check(route, &why), ST_INVALID);
    if (strstr(why.text, words) == NULL || strstr(why.text, route->path) == NULL)
        fail_msg("%s", why.text);
}

static void assert_fine(const struct route *route)
{
    struct reason why = {{0}};
    if (route_check(route, &why) != ST_OK)
        fail_msg("%s", why.text);
}

static const struct schema no_fields = {0};

static void rows_whose_columns_contradict_each_other_are_refused(void **ctx)
{
    (void)ctx;
    static const struct {
        struct route row;
        const char *words;
    } wrong[] = {
        {{.method = METHOD_GET, .who = WHO_ANYONE, .flags = ROUTE_SUDO}, "no capability"},
        {{.method = METHOD_GET, .who = WHO_ANYONE, .caps = CAP_READ}, "no capability"},
        {{.method = METHOD_GET, .who = WHO_ANY_TOKEN, .caps = CAP_READ}, "no capability"},
        {{.method = METHOD_GET, .who = WHO_OPTIONAL, .caps = CAP_READ}, "no capability"},
        {{.method = METHOD_GET, .who = WHO_ANYONE, .rule_path = never}, "no path for rules"},
        {{.method = METHOD_GET, .who = WHO_LISTENER}, "PLACE_NODE"},
        {{.method = METHOD_GET, .who = WHO_DR_TOKEN, .when = WHEN_SECONDARY}, "implies"},
        {{.method = METHOD_GET, .when = WHEN_UNINITIALIZED}, "PLACE_NODE"},
        {{.method = METHOD_GET, .place = PLACE_NODE, .when = WHEN_MAINTENANCE}, "implies"},
        {{.method = METHOD_POST, .place = PLACE_STAYS}, "reads"},
        {{.method = METHOD_GET, .input = INPUT_UPLOAD, .outside = never}, "a write"},
        {{.method = METHOD_POST, .input = INPUT_UPLOAD, .outside = never, .place = PLACE_NODE},
         "in the cluster"},
        {{.method = METHOD_POST, .input = INPUT_UPLOAD}, "takes the file"},
        {{.method = METHOD_POST, .input = INPUT_UPLOAD, .outside = never, .body = &no_fields},
         "no fields"},
        {{.method = METHOD_POST, .index = INDEX_BLOCKS}, "reads"},
        {{.method = METHOD_GET, .index = INDEX_VERSION}, "a write"},
        {{.method = METHOD_POST, .index = INDEX_VERSION, .flags = ROUTE_READS}, "a write"},
        {{.method = METHOD_POST, .form = FORM_TOKEN, .reply = &no_fields}, "no reply schema"},
        {{.method = METHOD_GET, .flags = ROUTE_READS}, "that write"},
        {{.method = METHOD_POST, .flags = ROUTE_HEAD}, "needs GET"},
        {{.method = METHOD_GET, .flags = ROUTE_SCANS}, "needs LIST"},
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct route row = wrong[i].row;
        row.path = "a/b";
        row.handler = never;
        assert_refused(&row, wrong[i].words);
    }
    assert_refused(&(struct route){.method = METHOD_GET, .path = "a"}, "handler");
}

static void steps_without_a_place_for_them_are_refused(void **ctx)
{
    (void)ctx;
    struct route row = {.method = METHOD_POST, .path = "a", .handler = never, .finish = never};
    assert_refused(&row, "finish needs outside");
    row.outside = never;
    assert_fine(&row);
    row.flags = ROUTE_READS;
    assert_refused(&row, "PLACE_ACTIVE");
    row.place = PLACE_ACTIVE;
    assert_fine(&row);
    row.place = PLACE_ACTIVE_OR_LOCAL;
    assert_refused(&row, "a commit");
    row = (struct route){.method = METHOD_POST, .path = "a", .handler = never, .prepare = never};
    row.place = PLACE_NODE;
    assert_refused(&row, "a transaction");
    row = (struct route){
        .method = METHOD_POST, .path = "a", .handler = never, .ends_with_client = true};
    assert_refused(&row, "outside");
    row = (struct route){.method = METHOD_POST, .path = "a", .handler = never, .waits = never_waits};
    assert_refused(&row, "waits needs outside");
    row.outside = never;
    assert_fine(&row);
    row = (struct route){.method = METHOD_PUT, .path = "a", .handler = never, .exists = never};
    assert_refused(&row, "POST");
}

static void a_pattern_that_can_match_nothing_is_refused(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *path, *words;
    } wrong[] = {
        {"/a", "at an end"},       {"a/", "at an end"},        {"a//b", "empty segment"},
        {"a/:", "empty segment"},  {"*", "empty segment"},     {"*a/*b", "after a rest"},
        {"*a/:b", "after a rest"}, {"+a/b", "ends a pattern"}, {":a/:b/:c/:d/:e", "too many"}};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        assert_refused(
            &(struct route){.method = METHOD_GET, .path = wrong[i].path, .handler = never},
            wrong[i].words);
    static const char *const right[] = {"", "a", "a/:b", "a/*b", "a/+b", "*a/b/c", ":a/:b/:c/*d"};
    for (size_t i = 0; i < ARRAY_LEN(right); i++)
        assert_fine(&(struct route){.method = METHOD_GET, .path = right[i], .handler = never});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_whose_columns_contradict_each_other_are_refused),
        cmocka_unit_test(steps_without_a_place_for_them_are_refused),
        cmocka_unit_test(a_pattern_that_can_match_nothing_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
