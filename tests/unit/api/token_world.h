/* Shared by tests of tokens: create tokens, and name tokens in bodies of requests. */
#ifndef HOLDFAST_TESTS_UNIT_API_TOKEN_WORLD_H
#define HOLDFAST_TESTS_UNIT_API_TOKEN_WORLD_H

#include "api/api_world.h"

static inline struct test_request *post(const char *token, const char *path, const char *body)
{
    return as(token, METHOD_POST, path, body);
}

/* A string member of the last reply. */
static inline void copy_member(const struct test_request *t, const char *name, char *out,
                               size_t room)
{
    char key[64];
    (void)snprintf(key, sizeof key, "\"%s\":\"", name);
    const char *at = strstr(text(t), key);
    if (at == NULL)
        fail_msg("no %s in %d %s", name, t->http, text(t));
    else
        (void)snprintf(out, room, "%.*s", (int)strcspn(at + strlen(key), "\""), at + strlen(key));
}

struct made {
    char token[AUTH_TOKEN_MAX + 1], accessor[64];
};

static inline struct made make_at(const char *by, const char *path, const char *body)
{
    struct made m;
    struct test_request *t = post(by, path, body);
    if (t->http != 200)
        fail_msg("%s %s: %d %s", path, body, t->http, text(t));
    copy_member(t, "client_token", m.token, sizeof m.token);
    copy_member(t, "accessor", m.accessor, sizeof m.accessor);
    return m;
}

static inline struct made make(const char *by, const char *body)
{
    return make_at(by, "auth/token/create", body);
}

static inline int status_of(const char *token)
{
    return as(token, METHOD_GET, "auth/token/lookup-self", NULL)->http;
}

static inline const char *about(const char *name, const char *value)
{
    static char body[AUTH_TOKEN_MAX + 64];
    (void)snprintf(body, sizeof body, "{\"%s\":\"%s\"}", name, value);
    return body;
}

static inline const char *about_client(const char *token)
{
    static char member[AUTH_TOKEN_MAX + 64];
    (void)snprintf(member, sizeof member, "\"client_token\":\"%s\"", token);
    return member;
}

static inline unsigned clean_up(void)
{
    unsigned rounds = 0;
    while (upkeep())
        assert_true(++rounds < 1000);
    return rounds;
}

static inline void write_policy(const char *name, const char *rules)
{
    char path[64], body[1000];
    (void)snprintf(path, sizeof path, "sys/policies/acl/%s", name);
    (void)snprintf(body, sizeof body, "{\"policy\":\"%s\"}", rules);
    expect(as(root, METHOD_PUT, path, body), 204, NULL);
}

#define MAY_CREATE(more)                                                            \
    "path \\\"auth/token/create\\\" { capabilities = [\\\"update\\\"" more "] }\\n" \
    "path \\\"auth/token/create-orphan\\\" { capabilities = [\\\"update\\\"] }\\n"  \
    "path \\\"auth/token/revoke-orphan\\\" { capabilities = [\\\"update\\\"] }"

static inline void write_role(const char *body)
{
    expect(as(root, METHOD_DELETE, "auth/token/roles/r", NULL), 204, NULL);
    expect(post(root, "auth/token/roles/r", body), 204, NULL);
}

#endif
