/* The world of the API tests, with policies and tokens that have them. */
#ifndef HOLDFAST_TESTS_UNIT_API_POLICY_WORLD_H
#define HOLDFAST_TESTS_UNIT_API_POLICY_WORLD_H

#include "api/api_world.h"

/* Quotes are written as '. */
static inline void set_policy(const char *name, const char *text)
{
    char path[100], body[1000];
    (void)snprintf(path, sizeof path, "sys/policies/acl/%s", name);
    (void)snprintf(body, sizeof body, "{\"policy\":\"%s\"}", text);
    for (char *c = body; *c != '\0'; c++)
        if (*c == '\'')
            memmove(c + 1, c, strlen(c) + 1), *c++ = '\\', *c = '"';
    expect(as(root, METHOD_POST, path, body), 204, NULL);
}

/* A token with those policies and "default". */
static inline const char *make_token(const char *policies)
{
    static char tokens[4][64];
    static unsigned n;
    char *token = tokens[n++ % 4], body[200];
    (void)snprintf(body, sizeof body, "{\"policies\":\"%s\",\"ttl\":\"1h\"}", policies);
    struct test_request *t = as(root, METHOD_POST, "auth/token/create", body);
    const char *at = strstr((const char *)t->body.data, "\"client_token\":\"");
    if (at == NULL)
        fail_msg("%d %s", t->http, (const char *)t->body.data);
    else
        (void)snprintf(token, 64, "%.*s", (int)strcspn(at + 16, "\""), at + 16);
    return token;
}

/* A change by another request, applied at once. */
static inline void apply(struct world *world, const char *key, const char *value)
{
    struct rlog_txn_builder b = {0};
    CLEANUP(buf_done) struct buf encoded = {0};
    CLEANUP(buf_done) struct buf entry = {0};
    uint8_t sealed[1000];
    size_t len = strlen(value);
    assert_true(len + BARRIER_OVERHEAD <= sizeof sealed);
    assert_status(
        barrier_encrypt(state_cipher(world->state), bytes_str(key), bytes_of(value, len), sealed),
        ST_OK);
    rlog_txn_put(&b, bytes_str(key), bytes_of(sealed, len + BARRIER_OVERHEAD));
    assert_status(rlog_txn_encode(&b, &encoded), ST_OK);
    struct bytes one = buf_bytes(&encoded);
    assert_status(rlog_entry_encode(RLOG_FEATURE_FIRST, 1000, &one, 1, &entry), ST_OK);
    rlog_machine_apply(&world->m, ++world->index, buf_bytes(&entry), NULL, NULL);
    rlog_txn_done(&b);
}

#endif
