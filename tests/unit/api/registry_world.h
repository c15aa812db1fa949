/* For tests of the registry's tokens: a world with the registry's paths, requests with a token of
 * the registry, and their replies. */
#ifndef HOLDFAST_TESTS_UNIT_API_REGISTRY_WORLD_H
#define HOLDFAST_TESTS_UNIT_API_REGISTRY_WORLD_H

#include "api/api_world.h"

#include "api/registry/registry.h"
#include "api/registry/registry_token.h"
#include "auth/registry/registry_settings.h"

#include <stdlib.h>

#define A1 "11111111-1111-4111-8111-111111111111"
#define A2 "22222222-2222-4222-8222-222222222222"
#define S1 "aaaaaaaa-1111-4111-8111-111111111111"
#define S2 "bbbbbbbb-2222-4222-8222-222222222222"
#define MANAGEMENT_ID "00000000-0000-0000-0000-000000000001"
#define MISSING "token does not exist: ACL not found"
#define NOW_TEXT "2023-11-14T22:13:20Z" /* the time of the world's cluster */

static inline int open_registry(void **ctx)
{
    static const struct module *const modules[] = {&token_module, &cubbyhole_module, SYS_MODULES,
                                                   &registry_module, &kv_module};
    (void)ctx;
    registry_settings_set(&(struct registry_settings){.acl = true, .datacenter = "dc1"});
    world_open(&w, modules, ARRAY_LEN(modules));
    world_init(&w);
    w.node.raft.feature = RLOG_FEATURE;
    world_raise();
    assert_true(round_of(registry_builtins_make));
    (void)snprintf(root, sizeof root, "%s", w.token);
    return 0;
}

/* One request; the reply's body is kept until the next one. `token` NULL: none. */
static inline struct test_request *ask_as(const char *token, enum http_method method,
                                          const char *path, const char *body)
{
    static struct test_request t;
    static char target[2048];
    (void)snprintf(target, sizeof target, "/v1/%s", path);
    test_request_done(&t);
    test_request_init(&t, method, target, body);
    if (token != NULL)
        test_request_header(&t, "x-consul-token", token);
    world_handle(&w, &t);
    return &t;
}

static inline struct test_request *ask(enum http_method method, const char *path, const char *body)
{
    return ask_as(w.token, method, path, body);
}

/* Read again and again, each time without one more piece of memory, until the reply is 200. */
static inline void ask_without_memory(const char *target)
{
    int http = 0;
    for (uint64_t n = 1; http != 200; n++) {
        struct test_request t;
        assert_true(n < 5000);
        test_request_init(&t, METHOD_GET, target, NULL);
        test_request_header(&t, "x-consul-token", w.token);
        (void)mem_fail_nth(n);
        world_handle(&w, &t);
        (void)mem_fail_nth(0);
        http = t.http;
        if (http != 200 && http < 500)
            fail_msg("%s: %d %s", target, http, text(&t));
        test_request_done(&t);
    }
}

/* The status, and the whole text. */
static inline void assert_reply(const struct test_request *t, int http, const char *whole)
{
    if (t->http != http || strcmp(text(t), whole) != 0)
        fail_msg("%d %s, not %d %s", t->http, text(t), http, whole);
}

/* The status, and a part of the text. */
static inline void assert_has(const struct test_request *t, int http, const char *part)
{
    if (t->http != http || strstr(text(t), part) == NULL)
        fail_msg("%d %s, not %d with %s", t->http, text(t), http, part);
}

static inline void assert_lacks(const struct test_request *t, const char *part)
{
    if (strstr(text(t), part) != NULL)
        fail_msg("%s has %s", text(t), part);
}

/* A member of the reply that is a string; "": there is none. Lives as long as `room`. */
static inline const char *member_of(const struct test_request *t, const char *name, char room[64])
{
    char key[64];
    (void)snprintf(key, sizeof key, "\"%s\":\"", name);
    const char *at = strstr(text(t), key);
    room[0] = '\0';
    if (at != NULL)
        (void)snprintf(room, 64, "%.*s", (int)strcspn(at + strlen(key), "\""), at + strlen(key));
    return room;
}

static inline long number_of(const struct test_request *t, const char *name)
{
    char key[64];
    (void)snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(text(t), key);
    if (at == NULL)
        fail_msg("%s has no %s", text(t), name);
    return at != NULL ? strtol(at + strlen(key), NULL, 10) : 0;
}

/* Create a policy with these rules; its id lies in `room`. */
static inline const char *policy_of(const char *name, const char *rules, char room[64])
{
    char body[512];
    (void)snprintf(body, sizeof body, "{\"Name\":\"%s\",\"Rules\":\"%s\"}", name, rules);
    struct test_request *t = ask(METHOD_PUT, "acl/policy", body);
    assert_has(t, 200, "\"ID\":\"");
    return member_of(t, "ID", room);
}

/* Create a token with the accessor A1 and the secret S1, and more fields. */
static inline struct test_request *create_first(const char *more)
{
    char body[1024];
    (void)snprintf(body, sizeof body, "{\"AccessorID\":\"" A1 "\",\"SecretID\":\"" S1 "\"%s%s}",
                   more[0] != '\0' ? "," : "", more);
    struct test_request *t = ask(METHOD_PUT, "acl/token", body);
    assert_has(t, 200, "\"AccessorID\":\"" A1 "\"");
    return t;
}

#define REGISTRY_TEST(f) cmocka_unit_test_setup_teardown(f, open_registry, close_world)

#endif
