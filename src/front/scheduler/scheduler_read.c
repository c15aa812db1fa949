#include "front/scheduler/scheduler_read.h"

#include "front/scheduler/scheduler.h"
#include "router/header.h"
#include "text/duration.h"

enum { WAIT_MS_DEFAULT = 300 * 1000, WAIT_MS_MAX = 300 * 1000 };

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

static enum status scheduler_read_read_consistency(struct req *req)
{
    struct bytes stale = scheduler_parameter(req, "stale");
    bool is_stale = text_get(req->query, "stale") != NULL;
    ASSERT(req->method == METHOD_GET);
    if (stale.len != 0 && text_bool_parse(stale, &is_stale) != ST_OK)
        return req_fail(req, ST_INVALID,
                        "Expect `true` or `false` for `stale` query string "
                        "parameter");
    req->mode = is_stale ? REQ_STALE : REQ_DEFAULT;
    return ST_OK;
}

/* Decimal digits of 64 bits. */
static enum status scheduler_read_read_index(struct bytes text, uint64_t *ret_index)
{
    uint64_t index = 0;
    ASSERT(text.len == 0 || text.data != NULL);
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned)text.data[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(index, UINT64_C(10), &index) ||
            __builtin_add_overflow(index, (uint64_t)digit, &index))
            return ST_INVALID;
    }
    *ret_index = index;
    return ST_OK;
}

static enum status scheduler_read_read_wait(struct req *req)
{
    struct bytes index = scheduler_parameter(req, "index"), wait = scheduler_parameter(req, "wait");
    uint64_t wait_ms = 0;
    if (wait.len != 0 && read_duration(wait, &wait_ms) != ST_OK)
        return req_fail(req, ST_INVALID, "Invalid wait time");
    if (scheduler_read_read_index(index, &req->block.index) != ST_OK)
        return req_fail(req, ST_INVALID, "Invalid index");
    wait_ms = wait_ms == 0 ? WAIT_MS_DEFAULT : MIN(wait_ms, (uint64_t)WAIT_MS_MAX);
    req->block.wait_ms = (uint32_t)wait_ms;
    return ST_OK;
}

enum status scheduler_read_query(struct req *req)
{
    ASSERT(req->method == METHOD_GET);
    if (req->query->n == 0)
        return ST_OK;
    TRY(scheduler_read_read_wait(req));
    return scheduler_read_read_consistency(req);
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

void scheduler_index_header(const struct req *req, struct router_reply *reply)
{
    header_tell(reply, req->arena, "X-Scheduler-Index", "X-Nomad-Index",
                number(req->arena, MAX(req->index, (uint64_t)1)));
}

void scheduler_read_headers(const struct req *req, struct router_reply *reply)
{
    struct arena *arena = req->arena;
    ASSERT(req->route != NULL && reply->http != 0);
    uint64_t contact_ms = req->mode == REQ_STALE ? req_contact_ms(req) : 0;
    scheduler_index_header(req, reply);
    header_tell(reply, arena, "X-Scheduler-KnownLeader", "X-Nomad-KnownLeader",
                knows_leader(req) ? BYTES("true") : BYTES("false"));
    header_tell(reply, arena, "X-Scheduler-LastContact", "X-Nomad-LastContact",
                number(arena, contact_ms));
    if (req->reply.next_page != NULL)
        header_tell(reply, arena, "X-Scheduler-NextToken", "X-Nomad-NextToken",
                    bytes_str(req->reply.next_page));
}
