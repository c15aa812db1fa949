/* The secondaries of a primary: a token for a new one, and the end of one. */
#include "api/replication/replication_internal.h"
#include "base/mem.h"
#include "cluster/dr/grant.h"
#include "cluster/dr/link/dr_cert.h"
#include "router/req_wrap.h"
#include "text/encode.h"

struct replication_order {
    const char *id, *secondary_public_key;
    int64_t ttl;
};
struct replication_revoked {
    const char *id;
};

static const struct field order_fields[] = {
    FIELD(struct replication_order, id, STRING, .required = true,
          .help = "A name for the secondary, which no other secondary has: letters, digits, '.', "
                  "'_', '-', at most 64."),
    FIELD(struct replication_order, ttl, DURATION, .preset = "30m",
          .help = "How long the token may be used; 30 days at most."),
    FIELD(struct replication_order, secondary_public_key, STRING, .preset = "",
          .help = "The key of secondary/generate-public-key on the cluster that shall become the "
                  "secondary: the token is then sealed for that cluster, and not wrapped."),
};
static const struct schema replication_order_schema =
    SCHEMA(struct replication_order, order_fields);

static const struct field revoked_fields[] = {
    FIELD(struct replication_revoked, id, STRING, .required = true,
          .help = "The id that the secondary's token was made for."),
};
static const struct schema replication_revoked_schema =
    SCHEMA(struct replication_revoked, revoked_fields);

struct token_out {
    struct bytes token;
};
static const struct field token_fields[] = {FIELD(struct token_out, token, BYTES)};
static const struct schema replication_token_reply = SCHEMA(struct token_out, token_fields);

/* Made on the pool: a new authority, in case there is none yet, and the text of the
 * authority of the cluster ports. In the arena. */
struct prepared {
    uint8_t set[DR_SET_BYTES];
    struct bytes ca_cert, ca_key, ports_ca;
};

enum status replication_name(struct req *req, const struct dr_role *role, const char *id,
                             struct dr_name *ret_name)
{
    struct node_status *node = req_node(req);
    if (node == NULL)
        return ST_NOMEM;
    ASSERT(strlen(id) < sizeof ret_name->id);
    *ret_name = (struct dr_name){.epoch = role->epoch};
    memcpy(ret_name->cluster, node->cluster, sizeof ret_name->cluster);
    memcpy(ret_name->set, role->set, sizeof ret_name->set);
    memcpy(ret_name->id, id, strlen(id) + 1);
    return ST_OK;
}

static enum status keep(struct req *req, const struct buf *from, struct bytes *ret)
{
    const uint8_t *copy = arena_dup(req->arena, buf_bytes(from));
    *ret = bytes_of(copy, from->len);
    return copy != NULL ? ST_OK : ST_NOMEM;
}

static enum status replication_token_prepare(struct req *req)
{
    CLEANUP(cert_pair_done) struct cert_pair ca = {0};
    CLEANUP(buf_done) struct buf ports_ca = {0};
    struct prepared *made = arena_zalloc(req->arena, sizeof *made);
    struct node_status *node = req_node(req);
    struct dr_name name;
    ASSERT(!req_in_txn(req));
    if (made == NULL || node == NULL)
        return ST_NOMEM;
    if (node->dr.mode != DR_MODE_PRIMARY)
        return ST_OK; /* the handler refuses that */
    TRY(replication_name(req, &node->dr, "", &name));
    TRY(dr_cert_ca_make(&name, req->now_ms / 1000, &ca, req_reason(req)));
    TRY(req->host->node_ops->authority(req->host->node, &ports_ca, req_reason(req)));
    TRY(keep(req, &ca.cert, &made->ca_cert));
    TRY(keep(req, &ca.key, &made->ca_key));
    TRY(keep(req, &ports_ca, &made->ports_ca));
    memcpy(made->set, name.set, sizeof made->set);
    req->prepared = made;
    return ST_OK;
}

/* Store the prepared authority, unless this set has one. */
static enum status need_authority(struct req *req, const struct dr_role *role)
{
    CLEANUP(cert_pair_done) struct cert_pair ca = {0};
    const struct prepared *made = req->prepared;
    enum status st = dr_ca_get(req->txn, &ca);
    ASSERT(req != NULL);
    if (st != ST_NOT_FOUND)
        return st;
    if (made == NULL || memcmp(made->set, role->set, sizeof made->set) != 0)
        return req_fail(req, ST_BUSY, "the role of this cluster is changing; try again");
    buf_add(&ca.cert, made->ca_cert);
    buf_add(&ca.key, made->ca_key);
    TRY(buf_status(&ca.cert));
    TRY(buf_status(&ca.key));
    return dr_ca_put(req->txn, &ca);
}

static enum status need_running(struct req *req, struct dr_role *ret_role)
{
    TRY(replication_need_primary(req, ret_role));
    if (ret_role->phase != DR_PHASE_RUNNING)
        return req_fail(req, ST_INVALID, "this DR primary is not running: %s", ret_role->reason);
    return ST_OK;
}

static void add_address(struct dr_addresses *all, const char *address)
{
    if (address[0] == '\0' || dr_addresses_has(all, address))
        return;
    if (dr_addresses_add(all, bytes_str(address)) != ST_OK)
        return; /* more than enough addresses, or one that cannot be used */
}

enum status replication_addresses(struct req *req, const struct dr_role *role,
                                  struct dr_addresses *ret)
{
    struct node_peer *peers = arena_alloc(req->arena, RLOG_MEMBERS_MAX * sizeof *peers);
    struct node_status *node = req_node(req);
    ASSERT(req != NULL);
    *ret = (struct dr_addresses){0};
    if (peers == NULL || node == NULL)
        return ST_NOMEM;
    unsigned n = req->host->node_ops->peers(req->host->node, peers);
    add_address(ret, role->address);
    add_address(ret, node->leader_cluster);
    for (unsigned i = 0; i < n; i++)
        add_address(ret, peers[i].cluster_address);
    if (ret->n == 0)
        return req_fail(req, ST_BUSY, "no node knows the address of its cluster port yet");
    return ST_OK;
}

/* Read the key that the token shall be sealed for. */
static enum status read_receiver(struct req *req, const char *text,
                                 uint8_t ret_key[BOX_PUBLIC_BYTES])
{
    uint8_t key[TEXT_BASE64_BYTES(TEXT_BASE64_LEN(BOX_PUBLIC_BYTES))];
    size_t n = 0;
    ASSERT(req != NULL);
    if (strlen(text) > TEXT_BASE64_LEN(BOX_PUBLIC_BYTES) ||
        text_base64_parse(bytes_str(text), key, &n) != ST_OK || n != BOX_PUBLIC_BYTES)
        return req_fail(req, ST_INVALID,
                        "secondary_public_key: the key of secondary/generate-public-key is "
                        "expected, %d bytes in base64",
                        (int)BOX_PUBLIC_BYTES);
    memcpy(ret_key, key, BOX_PUBLIC_BYTES);
    return ST_OK;
}

static enum status reply_sealed(struct req *req, const struct dr_bundle *bundle,
                                const uint8_t receiver[BOX_PUBLIC_BYTES])
{
    CLEANUP(buf_done) struct buf token = {0};
    enum status st = dr_bundle_seal(bundle, receiver, &token);
    if (st == ST_INVALID)
        return req_fail(req, st, "secondary_public_key: this is no usable public key");
    TRY(st);
    return req_reply(req, &(struct token_out){buf_bytes(&token)});
}

static enum status reply_wrapped(struct req *req, const struct dr_bundle *bundle, int64_t ttl_s)
{
    CLEANUP(buf_done) struct buf object = {0};
    struct bytes kept;
    TRY(dr_bundle_put(bundle, &object));
    TRY(keep(req, &object, &kept));
    req_wrap(req, ttl_s, WRAP_JWT);
    req_reply_json(req, kept);
    return ST_OK;
}

static enum status check_order(struct req *req, const struct replication_order *in)
{
    if (!dr_name_id_valid(in->id))
        return req_fail(req, ST_INVALID,
                        "id: 1 to 64 letters, digits, '.', '_' or '-' are expected, beginning with "
                        "a letter or digit");
    if (in->ttl < 1 || in->ttl > DR_GRANT_TTL_MAX_S)
        return req_fail(req, ST_INVALID, "ttl: 1 second to 30 days is expected");
    return ST_OK;
}

static enum status fill_bundle(struct req *req, const struct dr_role *role,
                               struct dr_bundle *bundle)
{
    const struct replication_order *in = req_body(req);
    const struct prepared *made = req->prepared;
    struct reason why = {{0}};
    const struct dr_grant_order order = {.id = in->id, .now_ms = req->now_ms, .ttl_s = in->ttl};
    ASSERT(req != NULL);
    TRY(replication_name(req, role, in->id, &bundle->name));
    TRY(replication_addresses(req, role, &bundle->addresses));
    buf_add(&bundle->ca, made->ports_ca);
    TRY(buf_status(&bundle->ca));
    return replication_result(req, dr_grant_make(req->txn, req->env, &order, bundle->secret, &why),
                              &why);
}

static enum status replication_token(struct req *req)
{
    const struct replication_order *in = req_body(req);
    CLEANUP(dr_bundle_done) struct dr_bundle bundle = {0};
    uint8_t receiver[BOX_PUBLIC_BYTES];
    bool sealed = in->secondary_public_key[0] != '\0';
    struct dr_role role;
    ASSERT(req_in_txn(req));
    ASSERT(in != NULL && req->route != NULL);
    TRY(need_running(req, &role));
    TRY(check_order(req, in));
    if (sealed)
        TRY(read_receiver(req, in->secondary_public_key, receiver));
    TRY(need_authority(req, &role));
    TRY(fill_bundle(req, &role, &bundle));
    req->told = "a token for a DR secondary was made";
    return sealed ? reply_sealed(req, &bundle, receiver) : reply_wrapped(req, &bundle, in->ttl);
}

/* A mistyped id is an error: else its sender would believe that the secondary is cut off. */
static enum status replication_revoke(struct req *req)
{
    const struct replication_revoked *in = req_body(req);
    struct dr_secondary secondary;
    struct dr_role role;
    ASSERT(req_in_txn(req));
    ASSERT(in != NULL && req->route != NULL);
    TRY(replication_need_primary(req, &role));
    enum status st =
        dr_name_id_valid(in->id) ? dr_secondary_get(req->txn, in->id, &secondary) : ST_NOT_FOUND;
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID,
                        "id: this primary has no secondary of this id, and no token for one");
    TRY(st);
    req->told = "a DR secondary was revoked";
    return dr_secondary_delete(req->txn, in->id);
}

static const struct route secondaries_routes[] = {
    {.method = METHOD_POST,
     .path = "replication/dr/primary/secondary-token",
     .handler = replication_token,
     .prepare = replication_token_prepare,
     .place = PLACE_ACTIVE,
     .flags = ROUTE_SUDO,
     .feature = SYS_DR_FEATURE,
     .body = &replication_order_schema,
     .reply = &replication_token_reply,
     .help = "Make a token by which one cluster can become a secondary of this primary, once. The "
             "reply is wrapped: the token is a JWT, for secondary/enable. With "
             "secondary_public_key the token is in the reply, sealed for that cluster."},
    {.method = METHOD_POST,
     .path = "replication/dr/primary/revoke-secondary",
     .handler = replication_revoke,
     .flags = ROUTE_SUDO,
     .feature = SYS_DR_FEATURE,
     .body = &replication_revoked_schema,
     .help = "End a secondary: its token and its certificate count no more, and its connections "
             "are closed. An unknown id is an error."},
};

const struct route_table replication_secondaries_table = {secondaries_routes,
                                                          ARRAY_LEN(secondaries_routes)};
