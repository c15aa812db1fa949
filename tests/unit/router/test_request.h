/* A request with a transport that stores the reply. */
#ifndef HOLDFAST_TESTS_UNIT_ROUTER_TEST_REQUEST_H
#define HOLDFAST_TESTS_UNIT_ROUTER_TEST_REQUEST_H

#include "support.h"

#include "router/router.h"

#include <stdio.h>

struct world;

struct test_request {
    struct router_request request;
    struct world *world; /* that the request was handed to */
    struct arena arena;
    const char *headers[8][2];
    unsigned n_headers, replies;
    const char *forwarded_api; /* the name with which another node forwards it; NULL: a client */
    bool known_api;
    /* A streamed body: what comes of reading it, when the test lets it come. */
    const char *late_body;
    enum status late_status;
    struct router_collect *collect; /* being read */
    unsigned collects;
    /* A parked request keeps its target, as text. */
    bool may_park;
    void (*take)(struct test_request *t); /* hands it in again */
    const char *raw;
    struct router_parked *parked;
    unsigned parks;
    /* The reply. */
    enum status retry;
    int http;
    bool has_id; /* of the request, which is random */
    char type[64], allow[64], location[256];
    char told[2048]; /* "Name: value\n" for each header, but for the request's random id */
    struct buf body; /* zero-terminated */
};

static inline bool test_header_next(const struct router_request *request, const char *name,
                                    size_t *at, struct bytes *ret_value)
{
    const struct test_request *t = CONTAINER_OF(request, struct test_request, request);
    while (*at < t->n_headers) {
        const char *const *header = t->headers[(*at)++];
        if (strcmp(header[0], name) != 0)
            continue;
        *ret_value = bytes_str(header[1]);
        return true;
    }
    return false;
}

static inline void test_collect(struct router_request *request, struct router_collect *collect)
{
    struct test_request *t = CONTAINER_OF(request, struct test_request, request);
    assert_true(request->streamed && t->collect == NULL);
    t->collect = collect;
    t->collects++;
}

static inline void test_collected(struct test_request *t)
{
    struct router_collect *collect = t->collect;
    if (collect == NULL)
        return;
    t->collect = NULL;
    if (t->late_status == ST_OK) {
        t->request.streamed = false;
        t->request.body = bytes_str(t->late_body);
    }
    collect->done(collect, t->late_status);
}

static inline void test_respond(struct router_request *request, struct router_reply *reply)
{
    struct test_request *t = CONTAINER_OF(request, struct test_request, request);
    t->replies++;
    t->retry = reply->retry;
    t->http = reply->http;
    (void)snprintf(t->type, sizeof t->type, "%s",
                   reply->content_type != NULL ? reply->content_type : "");
    for (size_t i = 0; i < reply->n_headers; i++) {
        struct http_header h = reply->headers[i];
        bool allow = bytes_eq(h.name, BYTES("Allow"));
        bool location = bytes_eq(h.name, BYTES("Location"));
        bool id = bytes_eq(h.name, BYTES("X-Secrets-Request-ID")) ||
                  bytes_eq(h.name, BYTES("X-Vault-Request-ID"));
        t->has_id = t->has_id || id;
        if (id)
            continue;
        size_t used = strlen(t->told);
        (void)snprintf(t->told + used, sizeof t->told - used, "%.*s: %.*s\n", (int)h.name.len,
                       (const char *)h.name.data, (int)h.value.len, (const char *)h.value.data);
        if (allow || location)
            (void)snprintf(allow ? t->allow : t->location,
                           allow ? sizeof t->allow : sizeof t->location, "%.*s", (int)h.value.len,
                           (const char *)h.value.data);
    }
    buf_add(&t->body, reply_bytes(reply));
    buf_add_u8(&t->body, 0);
    arena_done(&t->arena); /* as a transport may: the request is over */
}

static inline bool test_may_park(const struct router_request *request)
{
    return CONTAINER_OF(request, struct test_request, request)->may_park;
}

/* As a transport does: the arena goes, the head stays. */
static inline void test_park(struct router_request *request, struct router_parked *parked);

static inline void test_request_done(struct test_request *t)
{
    buf_done(&t->body);
    arena_done(&t->arena);
}

static inline void test_request_init(struct test_request *t, enum http_method method,
                                     const char *target, const char *body)
{
    const char *mark = strchr(target, '?');
    *t = (struct test_request){0};
    t->request = (struct router_request){
        .method = method,
        .query = mark != NULL ? bytes_str(mark + 1) : (struct bytes){0},
        .body = body != NULL ? bytes_str(body) : (struct bytes){0},
        .arena = &t->arena,
        .peer = "192.0.2.1:4711",
        .header_next = test_header_next,
        .collect = test_collect,
        .may_park = test_may_park,
        .park = test_park,
        .respond = test_respond,
    };
    t->raw = target;
    t->may_park = true;
    struct bytes raw = mark != NULL ? bytes_of(target, (size_t)(mark - target)) : bytes_str(target);
    assert_status(path_canonical(&t->arena, raw, &t->request.target), ST_OK);
}

static inline void test_resume(struct router_parked *parked)
{
    struct test_request *t = parked->request;
    const char *mark = strchr(t->raw, '?');
    size_t len = mark != NULL ? (size_t)(mark - t->raw) : strlen(t->raw);
    t->parked = NULL;
    t->request.resumed = parked;
    t->request.dialect = NULL;
    t->request.verdict = NULL;
    assert_status(path_canonical(&t->arena, bytes_of(t->raw, len), &t->request.target), ST_OK);
    t->take(t);
}

static inline void test_park(struct router_request *request, struct router_parked *parked)
{
    struct test_request *t = CONTAINER_OF(request, struct test_request, request);
    assert_null(t->parked);
    *parked = (struct router_parked){.resume = test_resume, .request = t};
    t->parked = parked;
    t->parks++;
    arena_done(&t->arena);
}

static inline void test_request_header(struct test_request *t, const char *name, const char *value)
{
    assert_true(t->n_headers < ARRAY_LEN(t->headers));
    t->headers[t->n_headers][0] = name;
    t->headers[t->n_headers++][1] = value;
}

#define assert_body_has(t, part)                                                                 \
    do {                                                                                         \
        if (strstr((const char *)(t)->body.data, (part)) == NULL)                                \
            fail_msg("\"%s\" is not in %d %s", (part), (t)->http, (const char *)(t)->body.data); \
    } while (0)
#define assert_body(t, wanted) assert_string_equal((const char *)(t)->body.data, (wanted))

#endif
