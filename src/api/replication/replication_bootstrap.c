/* The second step of an activation, on the primary: a cluster that has the secret of a token gets
 * its certificate and the root key. The request comes over the cluster port, from a peer without a
 * certificate; any node takes it, and the active node serves it. */
#include "api/replication/replication_internal.h"
#include "cluster/dr/activation.h"
#include "cluster/dr/grant.h"
#include "cluster/dr/link/dr_cert.h"
#include "state/state_core.h"
#include "text/encode.h"

#include <stdatomic.h>

struct replication_claim {
    const char *id, *secret, *public_key, *box_key;
    int64_t version, feature, protocol;
};

enum {
    EVERY_MS = 250, /* average time between requests */
    BURST = 40,     /* requests at once */
    ROOT_TEXT = TEXT_BASE64_LEN(BOX_OVERHEAD + DR_ROOT_BYTES_MAX) + 1,
};

static const struct field claim_fields[] = {
    FIELD(struct replication_claim, id, STRING, .required = true, .help = "Id of the secondary."),
    FIELD(struct replication_claim, secret, STRING, .required = true, .hidden = true,
          .help = "The one-time secret of its token."),
    FIELD(struct replication_claim, public_key, STRING, .required = true,
          .help = "The public half of the secondary's key, P-256 in PEM form."),
    FIELD(struct replication_claim, box_key, STRING, .required = true,
          .help = "The X25519 key to send the root key to, 32 bytes in base64."),
    FIELD(struct replication_claim, version, INT, .required = true,
          .help = "Version that the secondary's state may have when it begins to follow."),
    FIELD(struct replication_claim, feature, INT, .required = true,
          .help = "Feature level that all members of the secondary understand."),
    FIELD(struct replication_claim, protocol, INT, .required = true,
          .help = "Newest protocol of replication that the secondary speaks."),
};
static const struct schema replication_claim_schema =
    SCHEMA(struct replication_claim, claim_fields);

struct granted_out {
    struct bytes certificate;
    const char *root_key, *set, *cluster_id, *seal;
    uint64_t epoch, version, keys, bytes, feature, protocol;
    bool recovery;
    struct field_strings addresses;
};
static const struct field granted_fields[] = {
    FIELD(struct granted_out, certificate, BYTES), FIELD(struct granted_out, root_key, STRING),
    FIELD(struct granted_out, set, STRING),        FIELD(struct granted_out, cluster_id, STRING),
    FIELD(struct granted_out, epoch, UINT),        FIELD(struct granted_out, version, UINT),
    FIELD(struct granted_out, keys, UINT),         FIELD(struct granted_out, bytes, UINT),
    FIELD(struct granted_out, feature, UINT),      FIELD(struct granted_out, protocol, UINT),
    FIELD(struct granted_out, seal, STRING),       FIELD(struct granted_out, recovery, BOOL),
    FIELD(struct granted_out, addresses, STRINGS),
};
static const struct schema replication_granted_reply = SCHEMA(struct granted_out, granted_fields);

/* Limit how often all peers together may ask, as members_challenge.c does for nodes that join. */
static enum status limit_claims(struct req *req)
{
    ASSERT(req != NULL);
    _Atomic int64_t *asked_ms = &req->host->dr_asked_ms;
    int64_t now_ms = (int64_t)env_mono_ms(req->env);
    int64_t seen = atomic_load(asked_ms), next;
    do {
        next = MAX(seen, now_ms) + EVERY_MS;
        if (next - now_ms > (int64_t)EVERY_MS * BURST)
            return req_fail(req, ST_LIMITED,
                            "too many clusters ask to become secondaries; try again later");
    } while (!atomic_compare_exchange_weak(asked_ms, &seen, next));
    return ST_OK;
}

static enum status read_box_key(struct req *req, const char *text,
                                uint8_t ret_key[BOX_PUBLIC_BYTES])
{
    uint8_t key[TEXT_BASE64_BYTES(TEXT_BASE64_LEN(BOX_PUBLIC_BYTES))];
    size_t n = 0;
    ASSERT(text != NULL);
    ASSERT(req->txn != NULL);
    if (strlen(text) > TEXT_BASE64_LEN(BOX_PUBLIC_BYTES) ||
        text_base64_parse(bytes_str(text), key, &n) != ST_OK || n != BOX_PUBLIC_BYTES)
        return req_fail(req, ST_INVALID, "box_key: 32 bytes in base64 are expected");
    memcpy(ret_key, key, BOX_PUBLIC_BYTES);
    return ST_OK;
}

static enum status judge_claim(struct req *req, const struct replication_claim *in,
                               const uint8_t box_key[BOX_PUBLIC_BYTES])
{
    struct reason why = {{0}};
    const struct dr_claim claim = {
        .id = in->id,
        .secret = in->secret,
        .public_pem = bytes_str(in->public_key),
        .box_key = box_key,
        .version = in->version >= 0 ? (uint64_t)in->version : UINT64_MAX,
        .protocol = in->protocol >= 0 ? (uint64_t)in->protocol : 0,
        .feature = in->feature >= 0 ? (uint64_t)in->feature : 0,
    };
    ASSERT(req != NULL);
    return replication_result(req, dr_grant_use(req->txn, &claim, req->feature, req->now_ms, &why),
                              &why);
}

static enum status certify(struct req *req, const struct dr_name *name, const char *public_key,
                           struct buf *ret_cert)
{
    CLEANUP(cert_pair_done) struct cert_pair ca = {0};
    /* nodes check certificates by their clocks: the certificate must be valid by both times */
    const struct dr_cert_order order = {.name = name,
                                        .public_pem = bytes_str(public_key),
                                        .now_s = MAX(req->now_ms, env_wall_ms(req->env)) / 1000};
    TRY(dr_ca_get(req->txn, &ca));
    return dr_cert_sign(&ca, &order, ret_cert, req_reason(req));
}

/* The root key for the owner of the box key. */
static enum status give_root(struct req *req, const struct dr_name *name, const char *public_key,
                             const uint8_t box_key[BOX_PUBLIC_BYTES], char ret_text[ROOT_TEXT])
{
    CLEANUP(buf_done) struct buf context = {0};
    CLEANUP(buf_done) struct buf box = {0};
    ASSERT(public_key != NULL);
    dr_activation_context(name, bytes_str(public_key), &context);
    TRY(buf_status(&context));
    enum status st = barrier_hand_over(barrier_of(req->cipher), box_key, buf_bytes(&context), &box);
    if (st == ST_INVALID)
        return req_fail(req, st, "box_key: this is no usable public key");
    TRY(st);
    ASSERT(TEXT_BASE64_LEN(box.len) < ROOT_TEXT);
    (void)text_base64_put(buf_bytes(&box), TEXT_BASE64, ret_text); /* the text is terminated */
    return ST_OK;
}

static enum status fill_facts(struct req *req, struct granted_out *out)
{
    struct store_stats stats;
    struct seal_info seal;
    ASSERT(req != NULL);
    TRY(state_seal_read(req->txn, &seal));
    store_stats(req->txn->pin.store, &stats);
    out->keys = stats.keys;
    out->bytes = stats.bytes;
    out->feature = req->feature;
    out->protocol = DR_PROTOCOL;
    out->seal = seal.type == SEAL_STATIC ? "static" : "shamir";
    out->recovery = seal.shares != 0;
    return ST_OK;
}

static enum status reply_grant(struct req *req, const struct dr_role *role,
                               const struct dr_name *name, struct granted_out *out)
{
    char set[MESH_CLUSTER_ID_TEXT], cluster[MESH_CLUSTER_ID_TEXT];
    const char *texts[DR_ADDRESSES_MAX];
    struct dr_addresses addresses;
    ASSERT(req != NULL);
    TRY(replication_addresses(req, role, &addresses));
    for (unsigned i = 0; i < addresses.n; i++)
        texts[i] = addresses.at[i];
    TRY(fill_facts(req, out));
    mesh_cluster_text(name->set, set);
    mesh_cluster_text(name->cluster, cluster);
    out->set = set;
    out->cluster_id = cluster;
    out->epoch = name->epoch;
    out->addresses = (struct field_strings){.items = texts, .n = addresses.n, .given = true};
    return req_reply(req, out);
}

static enum status replication_bootstrap(struct req *req)
{
    const struct replication_claim *in = req_body(req);
    CLEANUP(buf_done) struct buf cert = {0};
    struct granted_out out = {0};
    uint8_t box_key[BOX_PUBLIC_BYTES];
    char root[ROOT_TEXT];
    struct dr_role role;
    struct dr_name name;
    ASSERT(req_in_txn(req));
    ASSERT(in != NULL && req->route != NULL);
    TRY(limit_claims(req));
    TRY(read_box_key(req, in->box_key, box_key));
    TRY(judge_claim(req, in, box_key));
    TRY(dr_role_read(req->txn, &role));
    TRY(replication_name(req, &role, in->id, &name));
    TRY(certify(req, &name, in->public_key, &cert));
    TRY(give_root(req, &name, in->public_key, box_key, root));
    out.certificate = buf_bytes(&cert);
    out.root_key = root;
    out.version = MAX(state_version(req->txn), (uint64_t)in->version);
    req->told = "a DR secondary was activated";
    return reply_grant(req, &role, &name, &out);
}

static const struct route bootstrap_routes[] = {
    {.method = METHOD_POST,
     .path = "replication/dr/primary/bootstrap",
     .handler = replication_bootstrap,
     .who = WHO_ANYONE,
     .place = PLACE_ACTIVE,
     .when = WHEN_SECONDARY,
     .form = FORM_BARE,
     .body = &replication_claim_schema,
     .reply = &replication_granted_reply,
     .help = "For a cluster that becomes a secondary, with the secret of its token: its "
             "certificate, and the root key for the owner of box_key. Clusters ask this at the "
             "cluster port. A repeated request gets the same for ten minutes."},
};

const struct route_table replication_bootstrap_table = {bootstrap_routes,
                                                        ARRAY_LEN(bootstrap_routes)};
