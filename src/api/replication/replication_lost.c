/* Writes that only a former primary had: read from the file that a difference sync made of them. */
#include "api/replication/replication_internal.h"
#include "cluster/dr/follow/follow.h"
#include "text/encode.h"

enum { LOST_MAX = 256, LOST_BYTES_MAX = 4 * 1024 * 1024 };

struct replication_lost {
    const char *dr_operation_token, *file;
    int64_t from;
};
static const struct field lost_fields[] = {
    REQ_DR_TOKEN_FIELD(struct replication_lost),
    FIELD(struct replication_lost, file, STRING, .required = true,
          .help = "Name of the file, lost_writes_file of the status."),
    FIELD(struct replication_lost, from, INT, .preset = "0",
          .help = "Number of the first write to give, from 0 on."),
};
static const struct schema replication_lost_schema = SCHEMA(struct replication_lost, lost_fields);

struct lost_write_out {
    const char *key, *value;
    uint64_t created, modified;
    bool decrypted;
};
static const struct field lost_write_fields[] = {
    FIELD(struct lost_write_out, key, STRING),     FIELD(struct lost_write_out, value, STRING),
    FIELD(struct lost_write_out, created, UINT),   FIELD(struct lost_write_out, modified, UINT),
    FIELD(struct lost_write_out, decrypted, BOOL),
};
static const struct schema lost_write_schema = SCHEMA(struct lost_write_out, lost_write_fields);
struct lost_out {
    struct field_list writes;
    bool more;
};
static const struct field lost_out_fields[] = {
    FIELD(struct lost_out, writes, LIST, .sub = &lost_write_schema),
    FIELD(struct lost_out, more, BOOL),
};
static const struct schema replication_lost_reply = SCHEMA(struct lost_out, lost_out_fields);

struct collect {
    struct req *req;
    struct lost_write_out *writes;
    unsigned n;
    size_t bytes;
    bool more;
    enum status st;
};

static const char *base64_of(struct collect *c, struct bytes bytes)
{
    char *text = arena_alloc(c->req->arena, TEXT_BASE64_LEN(bytes.len) + 1);
    ASSERT(c->n < LOST_MAX);
    if (text != NULL)
        (void)text_base64_put(bytes, TEXT_BASE64, text);
    else
        c->st = ST_NOMEM;
    return text;
}

static bool take_write(void *ctx, const struct dr_lost_write *write)
{
    struct collect *c = ctx;
    if (c->n == LOST_MAX || c->bytes > LOST_BYTES_MAX) {
        c->more = true;
        return false;
    }
    struct lost_write_out *out = &c->writes[c->n];
    *out = (struct lost_write_out){.key = base64_of(c, write->key),
                                   .value = base64_of(c, write->value),
                                   .created = write->created,
                                   .modified = write->modified,
                                   .decrypted = write->opened};
    c->bytes += write->key.len + write->value.len;
    c->n++;
    return c->st == ST_OK;
}

static enum status lost_outside(struct req *req)
{
    const struct replication_lost *in = req_body(req);
    struct collect c = {.req = req, .writes = arena_alloc(req->arena, LOST_MAX * sizeof *c.writes)};
    ASSERT(!req_in_txn(req));
    if (c.writes == NULL)
        return ST_NOMEM;
    if (in->from < 0)
        return req_fail(req, ST_INVALID, "from: not a number from 0 on");
    enum status st =
        req->host->node_ops->dr_lost(req->host->node, in->file, (uint64_t)in->from, take_write, &c);
    if (st == ST_NOT_FOUND)
        return req_fail(
            req, ST_NOT_FOUND,
            "the active node has no such file: the log of the node that synced names it");
    TRY(st);
    TRY(c.st);
    return req_reply(req, &(struct lost_out){{c.writes, c.n}, c.more});
}

static enum status replication_lost(struct req *req)
{
    ASSERT(req_in_txn(req));
    return replication_in_root(req);
}

static enum status replication_lost_secondary(struct req *req)
{
    struct dr_role role;
    return replication_need_secondary(req, &role);
}

#define LOST_HELP                                                                                  \
    "Writes of this cluster, while it was a primary, that its successor never got: from the file " \
    "that the active node made of them when it followed the successor. Keys and values are "       \
    "base64, "                                                                                     \
    "keys as the state has them."

static const struct route lost_routes[] = {
    {.method = METHOD_POST,
     .path = "replication/dr/lost-writes",
     .handler = replication_lost,
     .outside = lost_outside,
     .place = PLACE_ACTIVE,
     .flags = ROUTE_SUDO,
     .body = &replication_lost_schema,
     .reply = &replication_lost_reply,
     .help = LOST_HELP},
    {.method = METHOD_POST,
     .path = "replication/dr/secondary/lost-writes",
     .handler = replication_lost_secondary,
     .outside = lost_outside,
     .place = PLACE_ACTIVE,
     .who = WHO_DR_TOKEN,
     .body = &replication_lost_schema,
     .reply = &replication_lost_reply,
     .help = LOST_HELP},
};

const struct route_table replication_lost_table = {lost_routes, ARRAY_LEN(lost_routes)};
