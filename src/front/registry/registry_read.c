#include "front/registry/registry_read.h"

#include "router/header.h"
#include "text/duration.h"

enum { WAIT_MS_DEFAULT = 300 * 1000, WAIT_MS_MAX = 600 * 1000 };

struct bytes registry_parameter(const struct req *req, const char *name)
{
    const struct text_value *v = text_get(req->query, name);
    if (v != NULL && v->kind == TEXT_LIST)
        v = v->first;
    return v != NULL ? v->text : (struct bytes){0};
}

static bool is_given(const struct req *req, const char *name)
{
    return text_get(req->query, name) != NULL;
}

/* A duration as Go writes it: a number needs a unit, unless it is 0. Rounded up: only 0 gives 0. */
static enum status read_duration(struct bytes text, uint64_t *ret_ms)
{
    int64_t ns;
    uint8_t last = text.data[text.len - 1];
    bool unit = last == 's' || last == 'm' || last == 'h';
    if ((!unit && !text_is(text, "0")) || text_duration_parse(text, &ns) != ST_OK)
        return ST_INVALID;
    *ret_ms = ((uint64_t)ns + 999999) / 1000000;
    return ST_OK;
}

static enum status read_consistency(struct req *req)
{
    bool stale = is_given(req, "stale"), consistent = is_given(req, "consistent");
    struct bytes max = registry_parameter(req, "max_stale");
    uint64_t max_ms = 0;
    if (max.len != 0 && read_duration(max, &max_ms) != ST_OK)
        return req_fail(req, ST_INVALID, "Invalid max_stale value \"%.*s\"",
                        (int)MIN(max.len, (size_t)64), (const char *)max.data);
    stale = stale || max_ms != 0;
    if (stale && consistent)
        return req_fail(req, ST_INVALID,
                        "Cannot specify ?stale with ?consistent, conflicting semantics.");
    req->mode = consistent                          ? REQ_CONSISTENT
                : stale && !is_given(req, "leader") ? REQ_STALE
                                                    : REQ_DEFAULT;
    req->max_stale_ms = (uint32_t)MIN(max_ms, (uint64_t)UINT32_MAX);
    return ST_OK;
}

/* Decimal digits of 64 bits. */
static enum status read_index(struct bytes text, uint64_t *ret_index)
{
    uint64_t index = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned)text.data[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(index, UINT64_C(10), &index) ||
            __builtin_add_overflow(index, (uint64_t)digit, &index))
            return ST_INVALID;
    }
    *ret_index = index;
    return ST_OK;
}

static enum status read_wait(struct req *req)
{
    struct bytes index = registry_parameter(req, "index"), wait = registry_parameter(req, "wait");
    uint64_t wait_ms = 0;
    if (wait.len != 0 && read_duration(wait, &wait_ms) != ST_OK)
        return req_fail(req, ST_INVALID, "Invalid wait time");
    if (read_index(index, &req->block.index) != ST_OK)
        return req_fail(req, ST_INVALID, "Invalid index");
    wait_ms = wait_ms == 0 ? WAIT_MS_DEFAULT : MIN(wait_ms, (uint64_t)WAIT_MS_MAX);
    req->block.wait_ms = (uint32_t)wait_ms;
    return ST_OK;
}

enum status registry_read_query(struct req *req)
{
    ASSERT(req->method == METHOD_GET);
    if (req->query->n == 0)
        return ST_OK;
    TRY(read_wait(req));
    return read_consistency(req);
}

static struct bytes number(struct arena *arena, uint64_t n)
{
    const char *text = arena_number(arena, n);
    return bytes_str(text != NULL ? text : "1");
}

static bool knows_leader(const struct req *req)
{
    struct node_status node;
    if (req->mode != REQ_STALE)
        return true; /* a leader has confirmed the read */
    req->host->node_ops->status(req->host->node, &node);
    return node.has_leader;
}

void registry_read_tell(const struct req *req, struct router_reply *reply)
{
    static const struct bytes modes[] = {
        [REQ_DEFAULT] = {(const uint8_t *)"leader", sizeof("leader") - 1},
        [REQ_CONSISTENT] = {(const uint8_t *)"consistent", sizeof("consistent") - 1},
        [REQ_STALE] = {(const uint8_t *)"stale", sizeof("stale") - 1},
    };
    struct arena *arena = req->arena;
    uint64_t contact_ms = req->mode == REQ_STALE ? req_contact_ms(req) : 0;
    header_tell(reply, arena, "X-Registry-Index", "X-Consul-Index",
                number(arena, MAX(req->index, (uint64_t)1)));
    header_tell(reply, arena, "X-Registry-KnownLeader", "X-Consul-KnownLeader",
                knows_leader(req) ? BYTES("true") : BYTES("false"));
    header_tell(reply, arena, "X-Registry-LastContact", "X-Consul-LastContact",
                number(arena, contact_ms));
    header_tell(reply, arena, "X-Registry-Effective-Consistency", "X-Consul-Effective-Consistency",
                modes[req->mode]);
}
