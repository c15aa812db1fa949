#include "api/api_world.h"

#include <stdlib.h>

static struct test_request *patch(const char *target, const char *body, int http)
{
    static struct test_request t;
    test_request_done(&t);
    test_request_init(&t, METHOD_PATCH, target, body);
    test_request_header(&t, "x-secrets-token", w.token);
    test_request_header(&t, "content-type", "application/merge-patch+json");
    world_handle(&w, &t);
    if (t.http != http)
        fail_msg("%s: %d %s", target, t.http, (const char *)t.body.data);
    return &t;
}

static struct test_request *put(const char *path, const char *data)
{
    char target[200];
    char *body = NULL;
    (void)snprintf(target, sizeof target, "/v1/secret/data/%s", path);
    assert_true(asprintf(&body, "{\"data\":%s}", data) > 0);
    struct test_request *t = request(METHOD_PUT, target, body, 200);
    free(body);
    return t;
}

static struct test_request *get(const char *target, int http)
{
    return request(METHOD_GET, target, NULL, http);
}

static void assert_no_part(struct test_request *t, const char *part)
{
    if (strstr((const char *)t->body.data, part) != NULL)
        fail_msg("\"%s\" is in %s", part, (const char *)t->body.data);
}

static void each_write_makes_a_version(void **ctx)
{
    (void)ctx;
    struct test_request *t = put("a", "{\"n\":9007199254740993,\"f\":1.10,\"o\":{\"x\":[]}}");
    assert_body_has(t, "\"custom_metadata\":null,\"deletion_time\":\"\",\"destroyed\":false,"
                       "\"version\":1}");
    assert_body_has(put("a", "{\"b\":2}"), "\"version\":2}");
    t = get("/v1/secret/data/a", 200);
    assert_body_has(t, "\"data\":{\"data\":{\"b\":2},\"metadata\":{\"created_time\":\"20");
    t = get("/v1/secret/data/a?version=1", 200);
    assert_body_has(t, "\"data\":{\"data\":{\"n\":9007199254740993,\"f\":1.10,\"o\":{\"x\":[]}},");
    assert_body_has(get("/v1/secret/data/a?version=0", 200), "\"version\":2}");
    assert_body(get("/v1/secret/data/a?version=3", 404), "{\"errors\":[]}");
    assert_body(get("/v1/secret/data/none", 404), "{\"errors\":[]}");
    (void)get("/v1/secret/data/a?version=-1", 400);
    (void)get("/v1/secret/data/a?version=one", 400);
}

static void a_write_names_the_version_it_follows(void **ctx)
{
    (void)ctx;
    static const char absent[] = "{\"data\":{\"a\":1},\"options\":{\"cas\":0}}";
    static const char wrong[] = "check-and-set parameter did not match the current version";
    (void)request(METHOD_PUT, "/v1/secret/data/a", absent, 200);
    assert_body_has(request(METHOD_PUT, "/v1/secret/data/a", absent, 400), wrong);
    (void)request(METHOD_PUT, "/v1/secret/data/a", "{\"data\":{},\"options\":{\"cas\":\"1\"}}",
                  200);
    (void)request(METHOD_PUT, "/v1/secret/data/a", "{\"data\":{},\"options\":{\"cas\":1}}", 400);
    assert_body_has(
        request(METHOD_PUT, "/v1/secret/data/a", "{\"data\":{},\"options\":{\"cas\":3}}", 400),
        wrong);
    assert_body_has(
        request(METHOD_PUT, "/v1/secret/data/new", "{\"data\":{},\"options\":{\"cas\":1}}", 400),
        wrong);
    (void)request(METHOD_DELETE, "/v1/secret/data/a", NULL, 204);
    (void)request(METHOD_PUT, "/v1/secret/data/a", absent, 400);
    (void)request(METHOD_PUT, "/v1/secret/data/a", "{\"data\":{},\"options\":{\"cas\":2}}", 200);
    (void)request(METHOD_DELETE, "/v1/secret/metadata/a", NULL, 204);
    (void)request(METHOD_PUT, "/v1/secret/data/a", absent, 200);
    static const char *const bad[] = {
        "{\"data\":{},\"options\":{\"cas\":\"x\"}}", "{\"data\":{},\"options\":{\"cas\":-1}}",
        "{\"data\":{},\"options\":{\"cas\":1.5}}", "{\"data\":{},\"options\":{\"cas\":{}}}",
        "{\"data\":{},\"options\":[]}"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_no_part(request(METHOD_PUT, "/v1/secret/data/a", bad[i], 400), wrong);
}

static void a_required_version_must_be_named(void **ctx)
{
    (void)ctx;
    static const char text[] = "check-and-set parameter required for this call";
    (void)request(METHOD_POST, "/v1/secret/metadata/a", "{\"cas_required\":true}", 204);
    assert_body_has(request(METHOD_PUT, "/v1/secret/data/a", "{\"data\":{}}", 400), text);
    (void)request(METHOD_PUT, "/v1/secret/data/a", "{\"data\":{},\"options\":{\"cas\":0}}", 200);
    assert_body_has(patch("/v1/secret/data/a", "{\"data\":{}}", 400), text);
    (void)patch("/v1/secret/data/a", "{\"data\":{},\"options\":{\"cas\":1}}", 200);
    (void)request(METHOD_POST, "/v1/secret/config", "{\"cas_required\":true}", 204);
    (void)request(METHOD_PUT, "/v1/secret/data/b", "{\"data\":{}}", 400);
    assert_body_has(request(METHOD_POST, "/v1/secret/metadata/a", "{\"cas_required\":false}", 200),
                    "mandated by backend config");
    (void)request(METHOD_PUT, "/v1/secret/data/a", "{\"data\":{}}", 400);
}

static void data_must_be_an_object(void **ctx)
{
    (void)ctx;
    static const char *const bodies[] = {NULL, "{}", "{\"data\":null}"};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++)
        assert_body_has(request(METHOD_PUT, "/v1/secret/data/a", bodies[i], 400),
                        "no data provided");
    (void)request(METHOD_PUT, "/v1/secret/data/a", "{\"data\":\"x\"}", 400);
    (void)request(METHOD_PUT, "/v1/secret/data/a", "{\"data\":[1]}", 400);
    (void)put("a", "{}");
    assert_body_has(get("/v1/secret/data/a", 200), "\"data\":{\"data\":{},\"metadata\":");
}

static void a_deleted_version_is_404_with_its_metadata(void **ctx)
{
    (void)ctx;
    (void)put("a", "{\"x\":1}");
    (void)put("a", "{\"x\":2}");
    (void)request(METHOD_DELETE, "/v1/secret/data/a", NULL, 204);
    struct test_request *t = get("/v1/secret/data/a", 404);
    assert_body_has(t, "\"data\":{\"data\":null,\"metadata\":{\"created_time\":\"20");
    assert_body_has(t, "{\"errors\":[],\"request_id\":");
    assert_body_has(t, "\"deletion_time\":\"20");
    assert_body_has(t, "\"destroyed\":false,\"version\":2}");
    (void)get("/v1/secret/data/a?version=1", 200);
    assert_body_has(get("/v1/secret/subkeys/a", 404), "\"subkeys\":null");
    assert_body_has(patch("/v1/secret/data/a", "{\"data\":{\"y\":1}}", 404), "\"version\":2}");
    (void)request(METHOD_PUT, "/v1/secret/undelete/a", "{\"versions\":[2]}", 204);
    assert_body_has(get("/v1/secret/data/a", 200), "\"data\":{\"x\":2}");
    (void)request(METHOD_POST, "/v1/secret/delete/a", "{\"versions\":\"1,2,9\"}", 204);
    (void)get("/v1/secret/data/a?version=1", 404);
    (void)get("/v1/secret/data/a?version=2", 404);
}

/* The time of a new leader may be a little behind that of the one before. */
static void a_deletion_by_request_does_not_wait_for_the_clock(void **ctx)
{
    (void)ctx;
    (void)put("a", "{\"x\":1}");
    w.later_ms += 1000;
    (void)request(METHOD_DELETE, "/v1/secret/data/a", NULL, 204);
    w.later_ms -= 500;
    (void)get("/v1/secret/data/a", 404);
    (void)put("a", "{\"x\":2}"); /* nor do the times of versions fall */
    (void)request(METHOD_POST, "/v1/secret/undelete/a", "{\"versions\":[1]}", 204);
    (void)get("/v1/secret/data/a?version=1", 200);
}

/* One number of a time: "2023-11-14T22:13:20Z" later by so many milliseconds. */
static const char *at_ms(const char *name, int64_t ms)
{
    static char member[100];
    CLEANUP(buf_done) struct buf time = {0};
    struct text_writer writer = {.out = &time};
    text_open_object(&writer);
    text_member_time(&writer, name, 1700000000000 + ms);
    (void)snprintf(member, sizeof member, "%.*s", (int)time.len - 1, (const char *)time.data + 1);
    return member;
}

static void a_version_that_would_end_by_age_is_deleted_now(void **ctx)
{
    (void)ctx;
    (void)request(METHOD_POST, "/v1/secret/metadata/a", "{\"delete_version_after\":\"1h\"}", 204);
    (void)put("a", "{\"x\":1}");
    (void)put("a", "{\"x\":2}");
    assert_body_has(get("/v1/secret/data/a", 200), at_ms("deletion_time", 3600000));
    w.later_ms = 5000;
    (void)request(METHOD_DELETE, "/v1/secret/data/a", NULL, 204);
    assert_body_has(get("/v1/secret/data/a", 404), at_ms("deletion_time", 5000));
    (void)request(METHOD_POST, "/v1/secret/delete/a", "{\"versions\":[1]}", 204);
    assert_body_has(get("/v1/secret/data/a?version=1", 404), at_ms("deletion_time", 5000));
}

/* Once deleted, a version was deleted then; once destroyed, it stays as it was. */
static void what_was_done_is_not_done_again(void **ctx)
{
    (void)ctx;
    (void)put("a", "{\"x\":1}");
    w.later_ms = 5000;
    (void)request(METHOD_DELETE, "/v1/secret/data/a", NULL, 204);
    w.later_ms = 9000;
    (void)request(METHOD_DELETE, "/v1/secret/data/a", NULL, 204);
    assert_body_has(get("/v1/secret/metadata/a", 200), at_ms("updated_time", 5000));
    (void)request(METHOD_POST, "/v1/secret/destroy/a", "{\"versions\":[1]}", 204);
    (void)request(METHOD_POST, "/v1/secret/undelete/a", "{\"versions\":[1]}", 204);
    assert_body_has(get("/v1/secret/data/a", 404), at_ms("deletion_time", 5000));
}

/* Who is told that there is no room can make some, and take back what he did. */
static void a_full_state_takes_deletions(void **ctx)
{
    (void)ctx;
    for (int i = 0; i < 3; i++)
        (void)put("a", "{\"x\":1}");
    set_full(true);
    (void)request(METHOD_PUT, "/v1/secret/data/a", "{\"data\":{\"x\":2}}", 507);
    (void)request(METHOD_POST, "/v1/secret/metadata/a", "{\"max_versions\":2}", 507);
    (void)request(METHOD_DELETE, "/v1/secret/data/a", NULL, 204);
    (void)request(METHOD_POST, "/v1/secret/delete/a", "{\"versions\":[1]}", 204);
    (void)request(METHOD_POST, "/v1/secret/undelete/a", "{\"versions\":[3]}", 204);
    (void)request(METHOD_POST, "/v1/secret/destroy/a", "{\"versions\":[1,2]}", 204);
    (void)get("/v1/secret/data/a", 200);
    (void)get("/v1/secret/data/a?version=2", 404);
    (void)request(METHOD_DELETE, "/v1/secret/metadata/a", NULL, 204);
    set_full(false);
}

/* The time of a new leader may be a little behind that of the one before. */
static void times_do_not_fall(void **ctx)
{
    (void)ctx;
    (void)put("a", "{\"x\":1}");
    w.later_ms = 5000;
    (void)put("a", "{\"x\":2}");
    w.later_ms = 4000;
    assert_body_has(put("a", "{\"x\":3}"), at_ms("created_time", 5000));
    assert_body_has(get("/v1/secret/metadata/a", 200), at_ms("updated_time", 5000));
}

static void a_destroyed_version_does_not_come_back(void **ctx)
{
    (void)ctx;
    (void)put("a", "{\"planted\":\"gone\"}");
    (void)put("a", "{\"x\":2}");
    (void)request(METHOD_POST, "/v1/secret/destroy/a", "{\"versions\":[1]}", 204);
    (void)request(METHOD_POST, "/v1/secret/undelete/a", "{\"versions\":[1]}", 204);
    struct test_request *t = get("/v1/secret/data/a?version=1", 404);
    assert_body_has(t, "\"destroyed\":true,\"version\":1}");
    assert_no_part(t, "gone");
    (void)get("/v1/secret/data/a", 200);
    static const char *const bad[] = {"{}", "{\"versions\":[]}", "{\"versions\":[\"x\"]}",
                                      "{\"versions\":[-1]}", "{\"versions\":{}}"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        (void)request(METHOD_POST, "/v1/secret/delete/a", bad[i], 400);
        (void)request(METHOD_POST, "/v1/secret/undelete/a", bad[i], 400);
        (void)request(METHOD_POST, "/v1/secret/destroy/a", bad[i], 400);
    }
    (void)request(METHOD_POST, "/v1/secret/destroy/none", "{\"versions\":[1]}", 204);
}

static void old_versions_are_dropped(void **ctx)
{
    (void)ctx;
    char data[900] = "";
    for (int i = 1; i <= 12; i++) {
        (void)snprintf(data, sizeof data, "{\"n\":%d,\"pad\":\"%0*d\"}", i, 60 * i, 0);
        (void)put("a", data);
    }
    (void)get("/v1/secret/data/a?version=2", 404);
    for (int i = 3; i <= 12; i++) {
        char target[64], part[64];
        (void)snprintf(target, sizeof target, "/v1/secret/data/a?version=%d", i);
        (void)snprintf(part, sizeof part, "\"data\":{\"n\":%d,", i);
        assert_body_has(get(target, 200), part);
    }
    assert_body_has(get("/v1/secret/metadata/a", 200), "\"oldest_version\":3,");
    (void)request(METHOD_POST, "/v1/secret/config", "{\"max_versions\":2}", 204);
    (void)put("a", "{\"n\":13}");
    (void)get("/v1/secret/data/a?version=11", 404);
    (void)get("/v1/secret/data/a?version=12", 200);
    (void)request(METHOD_POST, "/v1/secret/metadata/a", "{\"max_versions\":3}", 204);
    (void)put("a", "{\"n\":14}");
    (void)get("/v1/secret/data/a?version=12", 200);
    (void)request(METHOD_POST, "/v1/secret/metadata/a", "{\"max_versions\":1}", 204);
    (void)put("a", "{\"n\":15}"); /* the larger limit of both */
    (void)get("/v1/secret/data/a?version=14", 200);
    (void)get("/v1/secret/data/a?version=13", 404);
    (void)request(METHOD_POST, "/v1/secret/metadata/a", "{\"max_versions\":-1}", 400);
    (void)request(METHOD_POST, "/v1/secret/metadata/a", "{\"max_versions\":65537}", 400);
    (void)request(METHOD_POST, "/v1/secret/config", "{\"max_versions\":-1}", 400);
}

static void versions_end_by_age(void **ctx)
{
    (void)ctx;
    (void)request(METHOD_POST, "/v1/secret/metadata/a", "{\"delete_version_after\":\"60s\"}", 204);
    (void)put("a", "{\"x\":1}");
    assert_body_has(get("/v1/secret/data/a", 200), "\"deletion_time\":\"20");
    w.later_ms += 59000;
    (void)get("/v1/secret/data/a", 200);
    w.later_ms += 1100;
    (void)get("/v1/secret/data/a", 404);
    (void)request(METHOD_POST, "/v1/secret/undelete/a", "{\"versions\":[1]}", 204);
    w.later_ms += 59000; /* the time started anew */
    assert_body_has(get("/v1/secret/data/a", 200), "\"deletion_time\":\"20");
    w.later_ms += 1100;
    (void)get("/v1/secret/data/a", 404);
    (void)request(METHOD_POST, "/v1/secret/config", "{\"delete_version_after\":\"-1s\"}", 204);
    (void)request(METHOD_POST, "/v1/secret/undelete/a", "{\"versions\":[1]}", 204);
    assert_body_has(get("/v1/secret/data/a", 200), "\"deletion_time\":\"\"");
    (void)request(METHOD_POST, "/v1/secret/config", "{\"delete_version_after\":\"10s\"}", 204);
    assert_body_has(get("/v1/secret/config", 200), "\"delete_version_after\":\"10s\"");
    (void)put("a", "{\"x\":2}");
    w.later_ms += 11000;
    (void)get("/v1/secret/data/a", 404);
    (void)request(METHOD_POST, "/v1/secret/config", "{\"delete_version_after\":\"-1s\"}", 204);
    assert_body_has(get("/v1/secret/config", 200), "\"delete_version_after\":\"-1s\"");
    (void)put("a", "{\"x\":3}");
    assert_body_has(get("/v1/secret/data/a", 200), "\"deletion_time\":\"\"");
    (void)request(METHOD_POST, "/v1/secret/config", "{\"delete_version_after\":\"-0s\"}", 204);
    assert_body_has(get("/v1/secret/config", 200), "\"delete_version_after\":\"0s\"");
    (void)request(METHOD_POST, "/v1/secret/config", "{\"delete_version_after\":\"soon\"}", 400);
    (void)request(METHOD_POST, "/v1/secret/metadata/a", "{\"delete_version_after\":\"-1s\"}", 400);
}

static void a_patch_merges(void **ctx)
{
    (void)ctx;
    (void)patch("/v1/secret/data/a", "{\"data\":{\"a\":1}}", 404);
    (void)put("a", "{\"big\":9007199254740993,\"o\":{\"x\":1,\"y\":2},\"gone\":1}");
    assert_body_has(patch("/v1/secret/data/a",
                          "{\"data\":{\"o\":{\"y\":null,\"z\":18446744073709551617},\"gone\":null,"
                          "\"new\":[null]}}",
                          200),
                    "\"version\":2}");
    assert_body_has(get("/v1/secret/data/a", 200),
                    "\"data\":{\"big\":9007199254740993,\"o\":{\"x\":1,\"z\":18446744073709551617},"
                    "\"new\":[null]}");
    (void)patch("/v1/secret/data/a", "{\"data\":1}", 400);
    (void)patch("/v1/secret/data/a", "{}", 400);
    (void)patch("/v1/secret/data/a", "{\"data\":{},\"options\":{\"cas\":1}}", 400);
}

static void subkeys_show_names_alone(void **ctx)
{
    (void)ctx;
    (void)put("a",
              "{\"s\":\"planted\",\"o\":{\"p\":{\"q\":\"planted\"},\"e\":{}},\"l\":[{\"x\":1}]}");
    struct test_request *t = get("/v1/secret/subkeys/a", 200);
    assert_body_has(t, "\"subkeys\":{\"s\":null,\"o\":{\"p\":{\"q\":null},\"e\":null},\"l\":null}");
    assert_no_part(t, "planted");
    assert_body_has(get("/v1/secret/subkeys/a?depth=1", 200),
                    "\"subkeys\":{\"s\":null,\"o\":null,\"l\":null}");
    assert_body_has(get("/v1/secret/subkeys/a?depth=2", 200), "\"o\":{\"p\":null,\"e\":null}");
    (void)get("/v1/secret/subkeys/a?depth=-1", 400);
    (void)get("/v1/secret/subkeys/a?version=2", 404);
    (void)get("/v1/secret/subkeys/none", 404);
}

static void metadata_is_read_and_changed(void **ctx)
{
    (void)ctx;
    (void)get("/v1/secret/metadata/a", 404);
    (void)patch("/v1/secret/metadata/a", "{\"max_versions\":3}", 404);
    (void)request(METHOD_POST, "/v1/secret/metadata/a", "{}", 204); /* nothing is said of it */
    (void)get("/v1/secret/metadata/a", 404);
    (void)request(METHOD_POST, "/v1/secret/metadata/a",
                  "{\"max_versions\":3,\"custom_metadata\":{\"owner\":\"me\",\"n\":7}}", 204);
    struct test_request *t = get("/v1/secret/metadata/a", 200);
    assert_body_has(t, "\"current_version\":0,\"custom_metadata\":{\"owner\":\"me\",\"n\":\"7\"},"
                       "\"delete_version_after\":\"0s\",\"max_versions\":3,"
                       "\"metadata_cas_required\":false,\"oldest_version\":0,");
    assert_body_has(t, "\"versions\":{}");
    (void)get("/v1/secret/data/a", 404);
    (void)put("a", "{}");
    assert_body_has(get("/v1/secret/data/a", 200), "\"custom_metadata\":{\"owner\":\"me\"");
    (void)patch("/v1/secret/metadata/a",
                "{\"custom_metadata\":{\"n\":null,\"team\":\"x\"},\"max_versions\":null,"
                "\"delete_version_after\":\"1h\"}",
                204);
    t = get("/v1/secret/metadata/a", 200);
    assert_body_has(t, "\"custom_metadata\":{\"owner\":\"me\",\"team\":\"x\"},"
                       "\"delete_version_after\":\"1h0m0s\",\"max_versions\":0,");
    assert_body_has(t, "\"versions\":{\"1\":{\"created_time\":\"20");
    (void)patch("/v1/secret/metadata/a", "{\"cas_required\":true,\"delete_version_after\":null}",
                204);
    t = get("/v1/secret/metadata/a", 200);
    assert_body_has(t, "\"delete_version_after\":\"0s\"");
    assert_body_has(t, "\"cas_required\":true");
    (void)patch("/v1/secret/metadata/a", "{\"cas_required\":null}", 204);
    assert_body_has(get("/v1/secret/metadata/a", 200), "\"cas_required\":false");
    (void)patch("/v1/secret/metadata/a", "{\"custom_metadata\":null}", 204);
    assert_body_has(get("/v1/secret/metadata/a", 200), "\"custom_metadata\":null");
    (void)request(METHOD_DELETE, "/v1/secret/metadata/a", NULL, 204);
    (void)request(METHOD_DELETE, "/v1/secret/metadata/a", NULL, 204);
    (void)get("/v1/secret/metadata/a", 404);
    (void)get("/v1/secret/data/a", 404);
}

static struct test_request *says(struct test_request *t, const char *part)
{
    assert_body_has(t, part);
    return t;
}

static void settings_that_somebody_else_wrote_are_not_overwritten(void **ctx)
{
    (void)ctx;
    static const char at[] = "/v1/secret/metadata/a";
    static const char late[] = "metadata check-and-set parameter does not match";
    static const char missing[] = "metadata check-and-set parameter required for this call";
    (void)says(request(METHOD_POST, at, "{\"max_versions\":1,\"metadata_cas\":1}", 400),
               "metadata_cas must be 0 when creating new metadata");
    (void)request(METHOD_POST, at, "{\"max_versions\":1,\"metadata_cas\":0}", 204);
    (void)put("a", "{}"); /* a version changes no setting */
    (void)says(get(at, 200), "\"current_metadata_version\":1,");
    (void)says(request(METHOD_POST, at, "{\"max_versions\":2,\"metadata_cas\":0}", 400), late);
    (void)says(patch(at, "{\"max_versions\":2,\"metadata_cas\":2}", 400), late);
    (void)says(patch(at, "{\"max_versions\":2,\"metadata_cas\":-1}", 400), late);
    (void)patch(at, "{\"max_versions\":2,\"metadata_cas\":1}", 204);
    (void)patch(at, "{\"metadata_cas\":1}", 204); /* no setting is written */
    (void)request(METHOD_POST, at, "{\"metadata_cas\":1}", 204);
    (void)says(get(at, 200), "\"current_metadata_version\":2,");
    (void)request(METHOD_POST, at, "{\"metadata_cas_required\":true}", 204);
    (void)says(request(METHOD_POST, at, "{\"max_versions\":3}", 400), missing);
    (void)says(patch(at, "{\"custom_metadata\":{\"a\":\"b\"}}", 400), missing);
    (void)says(patch(at, "{\"metadata_cas_required\":null}", 400), missing);
    (void)says(get(at, 200), "\"max_versions\":2,\"metadata_cas_required\":true,");
    (void)patch(at, "{\"metadata_cas_required\":null,\"metadata_cas\":3}", 204);
    (void)request(METHOD_POST, at, "{\"max_versions\":4}", 204);
    (void)put("b", "{}"); /* settings of what a version made have version 0 */
    (void)request(METHOD_POST, "/v1/secret/metadata/b", "{\"max_versions\":4,\"metadata_cas\":0}",
                  204);
    (void)request(METHOD_POST, "/v1/secret/config", "{\"metadata_cas_required\":true}", 204);
    (void)says(get("/v1/secret/config", 200), "\"metadata_cas_required\":true");
    (void)request(METHOD_POST, "/v1/secret/config", "{\"cas_required\":false}", 204);
    (void)says(request(METHOD_POST, "/v1/secret/metadata/c", "{\"max_versions\":3}", 400), missing);
    (void)says(
        request(METHOD_POST, at, "{\"metadata_cas_required\":false,\"metadata_cas\":5}", 200),
        "is mandated by backend config");
}

static void a_detailed_listing_shows_metadata(void **ctx)
{
    (void)ctx;
    (void)put("d/a", "{\"x\":1}");
    (void)put("d/a", "{\"x\":2}");
    (void)put("d/b", "{}");
    (void)put("d/e/f", "{}");
    (void)request(METHOD_POST, "/v1/secret/metadata/d/b", "{\"custom_metadata\":{\"k\":\"v\"}}",
                  204);
    struct test_request *t = request(METHOD_LIST, "/v1/secret/detailed-metadata/d", NULL, 200);
    (void)says(t, "\"keys\":[\"a\",\"b\",\"e/\"],\"key_info\":{\"a\":{\"cas_required\":false,");
    (void)says(t, "\"current_version\":2,");
    (void)says(t, "\"custom_metadata\":{\"k\":\"v\"}");
    (void)says(t, "\"e/\":{}}");
    t = request(METHOD_SCAN, "/v1/secret/detailed-metadata/d", NULL, 200);
    (void)says(t, "\"keys\":[\"a\",\"b\",\"e/f\"]");
    (void)says(t, "\"e/f\":{\"cas_required\":false,");
    t = request(METHOD_LIST, "/v1/secret/detailed-metadata/d?after=a&limit=1", NULL, 200);
    (void)says(t, "\"keys\":[\"b\"],\"key_info\":{\"b\":{");
    (void)says(request(METHOD_LIST, "/v1/secret/detailed-metadata", NULL, 200),
               "\"keys\":[\"d/\"]");
    (void)request(METHOD_LIST, "/v1/secret/detailed-metadata/none", NULL, 404);
}

static void custom_metadata_is_bounded(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf many = {0};
    char long_key[200], long_value[600];
    (void)snprintf(long_key, sizeof long_key, "{\"custom_metadata\":{\"%0129d\":\"x\"}}", 0);
    (void)snprintf(long_value, sizeof long_value, "{\"custom_metadata\":{\"x\":\"%0513d\"}}", 0);
    buf_add_str(&many, "{\"custom_metadata\":{");
    for (int i = 0; i < 65; i++)
        buf_add_format(&many, "%s\"k%d\":\"v\"", i > 0 ? "," : "", i);
    buf_add(&many, bytes_of("}}", 3));
    const char *const bad[] = {(const char *)many.data,
                               long_key,
                               long_value,
                               "{\"custom_metadata\":{\"\":\"x\"}}",
                               "{\"custom_metadata\":{\"x\":\"\"}}",
                               "{\"custom_metadata\":{\"x\":{}}}",
                               "{\"custom_metadata\":{\"x\":\"\\u0000\"}}",
                               "{\"custom_metadata\":[]}"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_body_has(request(METHOD_POST, "/v1/secret/metadata/a", bad[i], 400),
                        "custom_metadata validation failed");
    (void)get("/v1/secret/metadata/a", 404);
}

static void a_listing_shows_secrets_not_versions(void **ctx)
{
    (void)ctx;
    for (int i = 0; i < 3; i++) {
        (void)put("l/a", "{}");
        (void)put("l/a/b", "{}");
        (void)put("l/z", "{}");
    }
    static const char all[] = "\"data\":{\"keys\":[\"a\",\"a/\",\"z\"]}";
    assert_body_has(request(METHOD_LIST, "/v1/secret/metadata/l", NULL, 200), all);
    assert_body_has(get("/v1/secret/metadata/l/?list=true", 200), all);
    assert_body_has(request(METHOD_LIST, "/v1/secret/metadata", NULL, 200), "{\"keys\":[\"l/\"]}");
    assert_body_has(get("/v1/secret/metadata/l?list=true&after=a", 200), "[\"a/\",\"z\"]");
    assert_body_has(get("/v1/secret/metadata/l?list=true&after=a/", 200), "[\"z\"]");
    assert_body_has(get("/v1/secret/metadata/l?list=true&limit=2", 200), "[\"a\",\"a/\"]");
    assert_body_has(get("/v1/secret/metadata/l?list=true&limit=1&after=b", 200), "[\"z\"]");
    (void)get("/v1/secret/metadata/l?list=true&limit=x", 400);
    (void)get("/v1/secret/metadata/l?list=true&after=z", 404);
    (void)request(METHOD_LIST, "/v1/secret/metadata/none", NULL, 404);
}

static void a_parameter_given_twice_is_refused_where_it_counts(void **ctx)
{
    (void)ctx;
    static const char *const targets[] = {
        "metadata/l?list=true&limit=1&limit=2",
        "metadata/l?list=true&after=a&after=a",
        "metadata/l?list=true&list=true",
        "metadata/l?list=true&scan=false&scan=false",
        "metadata/l?help=1&help=1",
        "data/l/a?version=1&version=1",
        "subkeys/l/a?depth=1&depth=2",
        "data/l/a?%76ersion=1&version=0",
    };
    (void)put("l/a", "{}");
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        char target[120];
        (void)snprintf(target, sizeof target, "/v1/secret/%s", targets[i]);
        (void)get(target, 400);
    }
    (void)get("/v1/secret/data/l/a?limit=1&limit=2", 200); /* no meaning here */
    (void)request(METHOD_PUT, "/v1/secret/data/l/a", "{\"data\":{},\"data\":{\"a\":1}}", 400);
    (void)request(METHOD_PUT, "/v1/secret/data/l/a", "{\"data\":{\"a\":1,\"a\":2}}", 400);
}

static void a_wrong_prefix_is_told_the_right_one(void **ctx)
{
    (void)ctx;
    struct test_request *t = get("/v1/secret/foo", 404);
    assert_body_has(t, "\"warnings\":[\"Invalid path for a versioned K/V secrets engine: use "
                       "\\\"secret/data/foo\\\"");
    assert_body_has(t, "\"data\":null");
    assert_body_has(t, "{\"errors\":[],\"request_id\":");
    assert_body_has(request(METHOD_PUT, "/v1/secret/foo", "{\"a\":1}", 404), "secret/data/foo");
    assert_body_has(request(METHOD_LIST, "/v1/secret/foo", NULL, 404), "secret/metadata/foo/");
    (void)request(METHOD_DELETE, "/v1/secret/foo", NULL, 404);
}

static void a_405_names_the_methods_that_there_are(void **ctx)
{
    (void)ctx;
    assert_string_equal(request(METHOD_DELETE, "/v1/secret/config", NULL, 405)->allow,
                        "GET, POST, PUT");
    assert_string_equal(request(METHOD_LIST, "/v1/secret/data/x", NULL, 405)->allow,
                        "GET, POST, PUT, PATCH, DELETE");
    assert_string_equal(get("/v1/secret/delete/x", 405)->allow, "POST, PUT");
    assert_string_equal(get("/v1/secret/metadata", 405)->allow, "LIST, SCAN");
    assert_string_equal(get("/v1/secret/data", 405)->allow, "");
    assert_string_equal(request(METHOD_DELETE, "/v1/sys/mounts", NULL, 405)->allow, "GET");
    assert_string_equal(get("/v1/sys/policies/acl", 405)->allow, "LIST");
}

static void long_data_stands_apart(void **ctx)
{
    (void)ctx;
    enum { MIB = 1 << 20 };
    CLEANUP(buf_done) struct buf body = {0};
    buf_add_str(&body, "{\"data\":{\"x\":\"");
    memset(buf_extend(&body, MIB), '<', MIB);
    buf_add(&body, bytes_of("\"}}", 4));
    (void)request(METHOD_PUT, "/v1/secret/data/a", (const char *)body.data, 413);
    memcpy(body.data + MIB - 8, "\"}}", 4);
    (void)request(METHOD_PUT, "/v1/secret/data/a", (const char *)body.data, 200);
    (void)request(METHOD_POST, "/v1/secret/metadata/a", "{\"custom_metadata\":{\"x\":\"y\"}}", 204);
    assert_true(get("/v1/secret/data/a", 200)->body.len > MIB - 100);
    (void)request(METHOD_POST, "/v1/secret/destroy/a", "{\"versions\":[1]}", 204);
    assert_true(get("/v1/secret/data/a", 404)->body.len < 1000);
}

/* What the last write added to the log. */
static size_t logged(void)
{
    return w.last_txn_bytes;
}

static void assert_version(unsigned version, unsigned data)
{
    char target[64], text[100];
    (void)snprintf(target, sizeof target, "/v1/secret/data/a?version=%u", version);
    (void)snprintf(text, sizeof text, "\"data\":{\"n\":\"%060u\"}", data);
    assert_body_has(get(target, 200), text);
}

static void put_numbered(unsigned n)
{
    char data[80];
    (void)snprintf(data, sizeof data, "{\"n\":\"%060u\"}", n);
    (void)put("a", data);
}

static void a_write_logs_its_own_version_alone(void **ctx)
{
    (void)ctx;
    size_t first = 0;
    for (unsigned i = 1; i <= 30; i++) {
        put_numbered(i);
        if (i == 1)
            first = logged();
        assert_true(logged() < first + 80);
        for (unsigned j = i > 10 ? i - 9 : 1; j <= i; j++)
            assert_version(j, j);
    }
    (void)get("/v1/secret/data/a?version=20", 404);
}

static void what_lies_behind_the_newest_version_is_changed_apart(void **ctx)
{
    (void)ctx;
    for (unsigned i = 1; i <= 8; i++)
        put_numbered(i);
    (void)request(METHOD_POST, "/v1/secret/metadata/a", "{\"custom_metadata\":{\"k\":\"v\"}}", 204);
    (void)request(METHOD_PUT, "/v1/secret/destroy/a", "{\"versions\":[3,5,6]}", 204);
    (void)request(METHOD_POST, "/v1/secret/delete/a", "{\"versions\":[2,7]}", 204);
    (void)request(METHOD_POST, "/v1/secret/undelete/a", "{\"versions\":[7]}", 204);
    for (unsigned i = 9; i <= 11; i++) {
        put_numbered(i);
        (void)get("/v1/secret/data/a?version=3", 404);
        (void)get("/v1/secret/data/a?version=5", 404);
        assert_version(4, 4);
        assert_version(7, 7);
        assert_version(8, 8);
        assert_version(i, i);
    }
    (void)request(METHOD_PUT, "/v1/secret/destroy/a", "{\"versions\":[11]}", 204);
    put_numbered(12);
    (void)get("/v1/secret/data/a?version=11", 404);
    assert_version(10, 10);
    assert_version(12, 12);
    (void)request(METHOD_POST, "/v1/secret/metadata/a", "{\"max_versions\":2}", 204);
    put_numbered(13);
    assert_version(12, 12);
    (void)get("/v1/secret/data/a?version=10", 404);
}

/* Destroyed and dropped versions, and those of a removed secret, leave no data anywhere. */
static void long_versions_leave_nothing(void **ctx)
{
    (void)ctx;
    char data[2100];
    (void)snprintf(data, sizeof data, "{\"n\":\"%02000u\"}", 1);
    unsigned keys = count_keys();
    (void)put("a", data);
    (void)put("a", data);
    assert_int_equal(count_keys(), keys + 3);
    (void)request(METHOD_PUT, "/v1/secret/destroy/a", "{\"versions\":[1]}", 204);
    assert_int_equal(count_keys(), keys + 2);
    (void)request(METHOD_POST, "/v1/secret/metadata/a", "{\"max_versions\":1}", 204);
    (void)request(METHOD_POST, "/v1/secret/config", "{\"max_versions\":1}", 204);
    (void)put("a", data);
    assert_int_equal(count_keys(), keys + 3); /* the record, its version, the settings */
    (void)put("b", data);
    (void)put("b", "{}");
    (void)request(METHOD_DELETE, "/v1/secret/metadata/a", NULL, 204);
    (void)request(METHOD_DELETE, "/v1/secret/metadata/b", NULL, 204);
    assert_int_equal(count_keys(), keys + 1);
}

/* A lower limit must not make one write take very many along. */
static void many_old_versions_go_by_and_by(void **ctx)
{
    (void)ctx;
    (void)request(METHOD_POST, "/v1/secret/metadata/a", "{\"max_versions\":400}", 204);
    (void)request(METHOD_POST, "/v1/secret/config", "{\"max_versions\":1}", 204);
    for (unsigned i = 1; i <= 300; i++)
        (void)put("a", "{}");
    (void)request(METHOD_POST, "/v1/secret/metadata/a", "{\"max_versions\":0}", 204);
    (void)put("a", "{}");
    assert_body_has(get("/v1/secret/metadata/a", 200), "\"oldest_version\":257,");
    (void)put("a", "{}");
    assert_body_has(get("/v1/secret/metadata/a", 200), "\"oldest_version\":302,");
}

/* Beyond some two thousand bytes versions are moved to keys of their own, and read from there. */
static void many_versions_do_not_make_the_record_long(void **ctx)
{
    (void)ctx;
    (void)request(METHOD_POST, "/v1/secret/metadata/a", "{\"max_versions\":40}", 204);
    for (unsigned i = 1; i <= 45; i++)
        put_numbered(i);
    assert_true(logged() < 2500);
    for (unsigned i = 6; i <= 45; i++)
        assert_version(i, i);
    (void)get("/v1/secret/data/a?version=5", 404);
    (void)request(METHOD_DELETE, "/v1/secret/metadata/a", NULL, 204);
    (void)get("/v1/secret/data/a", 404);
    put_numbered(1);
    assert_version(1, 1);
}

static void version_1_becomes_version_2_at_once(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf body = {0};
    buf_add_str(&body, "{\"x\":\"");
    memset(buf_extend(&body, 5000), 'y', 5000);
    buf_add(&body, bytes_of("\"}", 3));
    (void)request(METHOD_PUT, "/v1/kv/old", "{\"n\":9007199254740993}", 204);
    (void)request(METHOD_PUT, "/v1/kv/long", (const char *)body.data, 204);
    static const char second[] = "{\"options\":{\"version\":\"2\"}}";
    w.later_ms = 5000;
    assert_body_has(request(METHOD_POST, "/v1/sys/mounts/kv/tune", second, 200),
                    "\"warnings\":[\"");
    struct test_request *t = get("/v1/kv/data/old", 200);
    assert_body_has(t, "\"data\":{\"data\":{\"n\":9007199254740993},\"metadata\":");
    assert_body_has(t, "\"version\":1}");
    w.later_ms = 9000;
    assert_body_has(get("/v1/kv/data/old", 200), at_ms("created_time", 5000));
    (void)get("/v1/kv/old", 404);
    (void)request(METHOD_PUT, "/v1/kv/data/long", "{\"data\":{\"n\":2},\"options\":{\"cas\":1}}",
                  200);
    assert_body_has(get("/v1/kv/data/long?version=1", 200), "\"yyyy");
    assert_body_has(get("/v1/kv/data/long", 200), "\"data\":{\"n\":2}");
    assert_body_has(request(METHOD_LIST, "/v1/kv/metadata", NULL, 200), "[\"long\",\"old\"]");
    (void)request(METHOD_POST, "/v1/sys/mounts/kv/tune", "{\"options\":{\"version\":\"1\"}}", 400);
    (void)request(METHOD_POST, "/v1/sys/mounts/kv/tune", second, 204);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_write_makes_a_version),
        TEST(a_write_names_the_version_it_follows),
        TEST(a_required_version_must_be_named),
        TEST(data_must_be_an_object),
        TEST(a_deleted_version_is_404_with_its_metadata),
        TEST(a_deletion_by_request_does_not_wait_for_the_clock),
        TEST(a_version_that_would_end_by_age_is_deleted_now),
        TEST(what_was_done_is_not_done_again),
        TEST(a_full_state_takes_deletions),
        TEST(times_do_not_fall),
        TEST(long_versions_leave_nothing),
        TEST(many_old_versions_go_by_and_by),
        TEST(a_destroyed_version_does_not_come_back),
        TEST(old_versions_are_dropped),
        TEST(versions_end_by_age),
        TEST(a_patch_merges),
        TEST(subkeys_show_names_alone),
        TEST(metadata_is_read_and_changed),
        TEST(settings_that_somebody_else_wrote_are_not_overwritten),
        TEST(a_detailed_listing_shows_metadata),
        TEST(custom_metadata_is_bounded),
        TEST(a_listing_shows_secrets_not_versions),
        TEST(a_parameter_given_twice_is_refused_where_it_counts),
        TEST(a_wrong_prefix_is_told_the_right_one),
        TEST(a_405_names_the_methods_that_there_are),
        TEST(long_data_stands_apart),
        TEST(a_write_logs_its_own_version_alone),
        TEST(what_lies_behind_the_newest_version_is_changed_apart),
        TEST(many_versions_do_not_make_the_record_long),
        TEST(version_1_becomes_version_2_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
