/* An engine that lends lamps. A lamp burns while its lease lives. The lease keeps the key of the
 * burning lamp, so the end of the lease needs no mount; the lamp keeps the id of the lease, so that
 * a reader asks whether the lease is still good. */
#include "router/req_lease.h"
#include "router/req_wrap.h"
#include "sample/sample.h"

enum { TAKE_MAX = 1000, GIFT_S = 1800 };

struct take {
    int64_t ttl, count, payload;
};
static const struct field take_fields[] = {
    FIELD(struct take, ttl, DURATION, .help = "How long the lamp burns; none: as the mount says."),
    FIELD(struct take, count, INT, .preset = "1",
          .help = "How many lamps, each with a lease: 1000 at most. More than one are called "
                  "NAME.0, NAME.1 and so on."),
    FIELD(struct take, payload, INT, .help = "Bytes that each lease keeps for nothing."),
};
static const struct schema take_schema = SCHEMA(struct take, take_fields);

struct lamp {
    const char *name;
};
static const struct field lamp_fields[] = {
    FIELD(struct lamp, name, STRING, .help = "Name of the lamp."),
};
static const struct schema lamp_schema = SCHEMA(struct lamp, lamp_fields);

struct taken {
    const char *name;
    struct field_strings leases;
};
static const struct field taken_fields[] = {
    FIELD(struct taken, name, STRING, .help = "Name of the lamp."),
    FIELD(struct taken, leases, STRINGS, .help = "The leases of all lamps."),
};
static const struct schema taken_schema = SCHEMA(struct taken, taken_fields);

static const struct field line_fields[] = {
    FIELD(struct sample_line, line, STRING, .help = "As it came back from outside."),
};
static const struct schema line_schema = SCHEMA(struct sample_line, line_fields);

static enum status lamp_key(struct req *req, const char *name, struct bytes *ret_key)
{
    const char *path = arena_format(req->arena, "burning/%s", name);
    return path != NULL ? req_key(req, path, ret_key) : ST_NOMEM;
}

/* The data of a lease: the key of its lamp, then the payload. */
static enum status lease_data(struct req *req, struct bytes key, int64_t payload,
                              struct bytes *ret_data)
{
    uint8_t *data = arena_zalloc(req->arena, key.len + 1 + (size_t)payload);
    if (data == NULL)
        return ST_NOMEM;
    memcpy(data, key.data, key.len);
    *ret_data = bytes_of(data, key.len + 1 + (size_t)payload);
    return ST_OK;
}

static enum status take_one(struct req *req, int64_t end_ms, int64_t payload, const char *name,
                            struct lease **ret_lease)
{
    struct lease *lease = arena_zalloc(req->arena, sizeof *lease);
    struct bytes key;

    if (lease == NULL || name == NULL)
        return ST_NOMEM;
    TRY(lamp_key(req, name, &key));
    *lease = (struct lease){.kind = &sample_lamp_kind, .expire_ms = end_ms, .renewable = true};
    TRY(lease_data(req, key, payload, &lease->data));
    TRY(req_lease_create(req, lease));
    *ret_lease = lease;
    return state_put(req->txn, key, bytes_str(lease->id));
}

static enum status lamp_take(struct req *req)
{
    const struct take *in = req_body(req);
    const char *name = req_param(req, "name");
    struct lease *lease = NULL;

    if (in->count < 1 || in->count > TAKE_MAX)
        return req_fail(req, ST_INVALID, "count: 1 to %d is expected", TAKE_MAX);
    if (in->payload < 0 || in->payload > 2 * LEASE_DATA_MAX)
        return req_fail(req, ST_INVALID, "payload: 0 to %d is expected", 2 * LEASE_DATA_MAX);
    const char **ids = arena_alloc(req->arena, (size_t)in->count * sizeof *ids);
    if (ids == NULL)
        return ST_NOMEM;
    int64_t end_ms = req_lease_end_ms(req, in->ttl, 0, 0);
    for (int64_t i = 0; i < in->count; i++) {
        const char *one =
            in->count == 1 ? name : arena_format(req->arena, "%s.%lld", name, (long long)i);
        TRY(take_one(req, end_ms, in->payload, one, &lease));
        ids[i] = lease->id;
    }
    const struct taken out = {name, {.items = ids, .n = (size_t)in->count, .given = true}};
    TRY(req_reply(req, &out));
    req_reply_lease(req, lease);
    return ST_OK;
}

/* A lamp burns only while its lease is good: the record stays until the lease was swept. */
static enum status lamp_read(struct req *req)
{
    struct lamp out = {.name = req_param(req, "name")};
    struct lease_scope scope;
    struct state_value stored;
    struct lease lease;
    struct bytes key;
    TRY(lamp_key(req, out.name, &key));
    TRY(state_get(req->txn, key, &stored));
    const char *id = arena_str(req->arena, stored.value);
    if (id == NULL)
        return ST_NOMEM;
    TRY(req_lease_scope(req, &scope));
    TRY(lease_find(&scope, id, &lease));
    return req_reply(req, &out);
}

static enum status lamp_describe(struct req *req)
{
    const struct lamp out = {.name = req_param(req, "name")};
    return req_reply(req, &out);
}

/* A row that says it reads, and stages something after all: the active node runs it again. */
static enum status lamp_count(struct req *req)
{
    struct bytes key;
    TRY(req_key(req, "count", &key));
    TRY(state_put(req->txn, key, BYTES("1")));
    return lamp_describe(req);
}

/* A gift is for whoever gets the wrapping token, once: the giver does not see it. */
static enum status lamp_give(struct req *req)
{
    const struct lamp out = {.name = req_param(req, "name")};
    req_wrap(req, GIFT_S, WRAP_JWT);
    return req_reply(req, &out);
}

static enum status lamp_renew(const struct lease_scope *s, struct lease *lease,
                              struct lease_ttl *ttl, struct reason *why)
{
    (void)s;
    (void)lease;
    (void)why;
    ttl->own_s = 3600;
    return ST_OK;
}

static enum status lamp_end(const struct lease_scope *s, const struct lease *lease)
{
    return state_delete(s->txn, bytes_of(lease->data.data,
                                         strnlen((const char *)lease->data.data, lease->data.len)));
}

const struct lease_kind sample_lamp_kind = {.name = "lamp", .renew = lamp_renew, .end = lamp_end};

static const struct route lamp_routes[] = {
    {.method = METHOD_POST,
     .path = "take/:name",
     .handler = lamp_take,
     .place = PLACE_ACTIVE,
     .body = &take_schema,
     .reply = &taken_schema,
     .help = "Borrow a lamp."},
    {.method = METHOD_GET,
     .path = "take/:name",
     .handler = lamp_read,
     .reply = &lamp_schema,
     .help = "A lamp that burns."},
    {.method = METHOD_POST,
     .path = "give/:name",
     .handler = lamp_give,
     .place = PLACE_ACTIVE,
     .reply = &lamp_schema,
     .help = "A lamp for whoever unwraps the reply, which is always wrapped as a JWT."},
    {.method = METHOD_POST,
     .path = "describe/:name",
     .handler = lamp_describe,
     .flags = ROUTE_READS,
     .reply = &lamp_schema,
     .help = "A POST that only reads: every node that answers reads serves it."},
    {.method = METHOD_POST,
     .path = "count/:name",
     .handler = lamp_count,
     .flags = ROUTE_READS,
     .reply = &lamp_schema,
     .help = "A POST that stages although its row says that it reads."},
    {.method = METHOD_GET,
     .path = "said",
     .handler = sample_said,
     .reply = &line_schema,
     .help = "The line that the service stored last."},
};

const struct route_api sample_lamp_api = {
    .type = "lamp", .routes = lamp_routes, .n = ARRAY_LEN(lamp_routes)};
