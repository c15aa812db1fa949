/* Operations on a DR secondary. No token of a client counts there: a DR operation token
 * comes in the body (router/req_dr.h). */
#include "api/replication/replication_preflight.h"
#include "cluster/dr/token.h"

struct replication_promote {
    const char *dr_operation_token, *primary_cluster_addr;
    bool force, preflight;
};

static const struct field promote_fields[] = {
    REQ_DR_TOKEN_FIELD(struct replication_promote),
    FIELD(struct replication_promote, primary_cluster_addr, STRING, .preset = "",
          .help = "host:port of the cluster port at which secondaries will reach this cluster; "
                  "none: the active node's."),
    FIELD(struct replication_promote, force, BOOL, .preset = "false",
          .help = "Promote although the former primary was heard lately or this secondary lags. "
                  "Writes that did not arrive here are lost."),
    FIELD(struct replication_promote, preflight, BOOL, .preset = "false",
          .help = "Promote nothing: list what stands in the way of a promotion. The query may say "
                  "so too."),
};
static const struct schema replication_promote_schema =
    SCHEMA(struct replication_promote, promote_fields);

struct promote_out {
    int64_t progress, required;
    bool complete, checked, ready;
    struct field_list checks;
};
#define OF_PREFLIGHT(member, kind, ...)                   \
    FIELD(struct promote_out, member, kind, .omit = true, \
          .has = offsetof(struct promote_out, checked), __VA_ARGS__)
static const struct field promote_out_fields[] = {
    FIELD(struct promote_out, progress, INT),
    FIELD(struct promote_out, required, INT),
    FIELD(struct promote_out, complete, BOOL),
    OF_PREFLIGHT(ready, BOOL),
    OF_PREFLIGHT(checks, LIST, .sub = &replication_check_schema),
};
static const struct schema replication_promote_reply =
    SCHEMA(struct promote_out, promote_out_fields);

enum status replication_need_secondary(struct req *req, struct dr_role *ret_role)
{
    TRY(replication_in_root(req));
    TRY(dr_role_read(req->txn, ret_role));
    return dr_is_secondary(ret_role) ? ST_OK
                                     : req_fail(req, ST_INVALID, "this cluster is no DR secondary");
}

static enum status reply_preflight(struct req *req, const struct dr_role *role)
{
    const struct replication_promote *in = req_body(req);
    struct replication_preflight found;
    ASSERT(dr_is_secondary(role));
    TRY(replication_preflight(req, role, bytes_str(in->dr_operation_token), &found));
    return req_reply(req, &(struct promote_out){.required = 1,
                                                .checked = true,
                                                .ready = found.ready,
                                                .checks = {found.items, found.n}});
}

static enum status replication_promote(struct req *req)
{
    const struct replication_promote *in = req_body(req);
    char address[DR_ROLE_ADDRESS_MAX];
    struct reason why = {{0}};
    struct dr_role role;
    ASSERT(req_in_txn(req));
    ASSERT(in != NULL && req->route != NULL);
    bool preflight;
    TRY(replication_need_secondary(req, &role));
    TRY(replication_preflight_asked(req, in->preflight, &preflight));
    if (preflight)
        return reply_preflight(req, &role);
    TRY(replication_own_address(req, in->primary_cluster_addr, address));
    if (role.phase == DR_PHASE_SYNCING)
        return req_fail(req, ST_BUSY,
                        "this secondary still syncs, so its state is not whole: it cannot be "
                        "promoted, with or without force; try again later");
    if (!in->force)
        TRY(replication_caught_up(req));
    TRY(replication_result(req, dr_role_promote(req->txn, address, req->now_ms, &why), &why));
    req->told = "this DR secondary was promoted to primary";
    TRY(req_reply(req, &(struct promote_out){.progress = 0, .required = 1, .complete = true}));
    return replication_warn(req, "promoted to a replication primary");
}

/* Either authority: the token of a client, which the router has judged, or the body's. */
static enum status replication_secondary_disable(struct req *req)
{
    const struct req_dr_authority *in = req_body(req);
    struct reason why = {{0}};
    struct dr_role role;
    ASSERT(req_in_txn(req));
    ASSERT(in != NULL && req->route != NULL);
    TRY(replication_need_secondary(req, &role));
    if (req->token == NULL)
        TRY(req_dr_authorise_by(req, bytes_str(in->dr_operation_token)));
    TRY(replication_result(req, dr_role_disable(req->txn, &why), &why));
    req->told = "this cluster ended as a DR secondary";
    return replication_warn(req, "having replication disabled");
}

static enum status replication_token_delete(struct req *req)
{
    const struct req_dr_authority *in = req_body(req);
    struct dr_role role;
    TRY(replication_need_secondary(req, &role));
    enum status st = dr_token_delete(req->txn, bytes_str(in->dr_operation_token));
    if (st == ST_DENIED)
        return req_fail(req, ST_INVALID, REQ_DR_TOKEN ": a batch token ends by itself");
    req->told = "a DR operation token was deleted";
    return st;
}

static const struct route secondary_routes[] = {
    {.method = METHOD_POST,
     .path = "replication/dr/secondary/promote",
     .handler = replication_promote,
     .who = WHO_DR_TOKEN,
     .form = FORM_TOP_LEVEL,
     .feature = SYS_DR_FEATURE,
     .body = &replication_promote_schema,
     .reply = &replication_promote_reply,
     .help = "Make this secondary the primary of its set, under the next epoch. 503 while it "
             "syncs or lags: try again later. With preflight, the list of what stands in the way."},
    {.method = METHOD_POST,
     .path = "replication/dr/secondary/disable",
     .handler = replication_secondary_disable,
     .who = WHO_OPTIONAL_RIGHT,
     .when = WHEN_SECONDARY,
     .flags = ROUTE_SUDO,
     .feature = SYS_DR_FEATURE,
     .body = &req_dr_authority_schema,
     .help = "End the replication of this secondary and keep its data. Needs the DR operation "
             "token in the body, or a token that may do this in the header."},
    {.method = METHOD_POST,
     .path = "replication/dr/secondary/operation-token/delete",
     .handler = replication_token_delete,
     .who = WHO_DR_TOKEN,
     .feature = SYS_DR_FEATURE,
     .body = &req_dr_authority_schema,
     .help = "End a DR operation token."},
};

const struct route_table replication_secondary_table = {secondary_routes,
                                                        ARRAY_LEN(secondary_routes)};
