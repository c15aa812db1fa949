/* Operations on the primary of a replication set, and on a cluster that shall become
 * one. Each change of the role is one transaction (cluster/dr/role.h). */
#include "api/replication/replication_internal.h"
#include "auth/namespace.h"
#include "state/state_dr.h"

#include <strings.h>

struct replication_enable {
    const char *primary_cluster_addr;
};

static const struct field enable_fields[] = {
    FIELD(struct replication_enable, primary_cluster_addr, STRING, .preset = "",
          .help = "host:port of the cluster port at which secondaries reach this cluster, such as "
                  "that of a load balancer that passes TLS through; none: the active node's."),
};
static const struct schema replication_enable_schema =
    SCHEMA(struct replication_enable, enable_fields);

enum status replication_in_root(struct req *req)
{
    return auth_namespace_name(req->ns)[0] == '\0' ? ST_OK : ST_NOT_FOUND;
}

enum status replication_address(const char *text, char ret[DR_ROLE_ADDRESS_MAX])
{
    static const char scheme[] = "https://";
    struct dr_addresses checked = {0};
    const char *plain = text;
    if (strncasecmp(text, scheme, sizeof scheme - 1) == 0)
        plain += sizeof scheme - 1;
    if (strlen(plain) >= DR_ROLE_ADDRESS_MAX || strpbrk(plain, "/?#@\\%") != NULL)
        return ST_INVALID;
    if (plain[0] != '\0')
        TRY(dr_addresses_add(&checked, bytes_str(plain)));
    memcpy(ret, plain, strlen(plain) + 1);
    return ST_OK;
}

enum status replication_own_address(struct req *req, const char *text,
                                    char ret[DR_ROLE_ADDRESS_MAX])
{
    return replication_address(text, ret) == ST_OK
               ? ST_OK
               : req_fail(req, ST_INVALID, "primary_cluster_addr: host:port is expected");
}

enum status replication_warn(struct req *req, const char *is)
{
    req_warn(req,
             "This cluster is being %s. The service will be unavailable for a brief period and "
             "will resume shortly.",
             is);
    return ST_OK;
}

enum status replication_result(struct req *req, enum status st, const struct reason *why)
{
    return st == ST_OK || why->text[0] == '\0' ? st : req_fail(req, st, "%s", why->text);
}

enum status replication_need_primary(struct req *req, struct dr_role *ret_role)
{
    ASSERT(req_in_txn(req));
    TRY(replication_in_root(req));
    TRY(dr_role_read(req->txn, ret_role));
    return ret_role->mode == DR_MODE_PRIMARY
               ? ST_OK
               : req_fail(req, ST_INVALID, "this cluster is no DR primary");
}

static enum status replication_primary_enable(struct req *req)
{
    const struct replication_enable *in = req_body(req);
    uint8_t set[DR_SET_BYTES];
    char address[DR_ROLE_ADDRESS_MAX];
    struct reason why = {{0}};
    ASSERT(req_in_txn(req));
    ASSERT(in != NULL && req->route != NULL);
    TRY(replication_in_root(req));
    TRY(replication_own_address(req, in->primary_cluster_addr, address));
    env_random(req->env, set, sizeof set);
    TRY(replication_result(req, dr_role_enable(req->txn, set, address, req->now_ms, &why), &why));
    req->told = "this cluster became a DR primary";
    return replication_warn(req, "enabled as a primary for replication");
}

static enum status replication_primary_demote(struct req *req)
{
    struct reason why = {{0}};
    TRY(replication_in_root(req));
    TRY(replication_result(req, dr_role_demote(req->txn, req->now_ms, &why), &why));
    TRY(state_dr_demote(req->txn));
    req->told = "this cluster was demoted to a DR secondary";
    return replication_warn(req, "demoted to a replication secondary");
}

static enum status replication_primary_disable(struct req *req)
{
    struct reason why = {{0}};
    struct dr_role role;
    TRY(replication_need_primary(req, &role));
    TRY(replication_result(req, dr_role_disable(req->txn, &why), &why));
    req->told = "this cluster ended as a DR primary";
    return replication_warn(req, "having replication disabled");
}

static const struct route primary_routes[] = {
    {.method = METHOD_POST,
     .path = "replication/dr/primary/enable",
     .handler = replication_primary_enable,
     .flags = ROUTE_SUDO,
     .feature = SYS_DR_FEATURE,
     .body = &replication_enable_schema,
     .help = "Make this cluster the primary of a new replication set. Secondaries join by a token "
             "of secondary-token."},
    {.method = METHOD_POST,
     .path = "replication/dr/primary/demote",
     .handler = replication_primary_demote,
     .when = WHEN_SECONDARY,
     .flags = ROUTE_SUDO,
     .feature = SYS_DR_FEATURE,
     .help =
         "Make this primary a secondary of its set that follows no primary yet, so that another "
         "cluster can take over without a loss. Clients are refused from then on."},
    {.method = METHOD_POST,
     .path = "replication/dr/primary/disable",
     .handler = replication_primary_disable,
     .when = WHEN_SECONDARY,
     .flags = ROUTE_SUDO,
     .feature = SYS_DR_FEATURE,
     .help = "End the replication of this primary. Its data stays; its secondaries follow it no "
             "more."},
};

const struct route_table replication_primary_table = {primary_routes, ARRAY_LEN(primary_routes)};
