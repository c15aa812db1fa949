#include "cluster/dr/link/dr_cert.h"
#include "cluster/dr/link/dr_frame.h"

#include <stdio.h>

enum { DAY_S = 86400 };

enum status dr_cert_ca_make(const struct dr_name *of, int64_t now_s, struct cert_pair *ret_ca,
                            struct reason *reason)
{
    char uri[DR_URI_MAX], set[MESH_CLUSTER_ID_TEXT], name[MESH_NAME_MAX];
    ASSERT(now_s >= 0);
    dr_name_authority_uri(of, uri);
    mesh_cluster_text(of->set, set);
    int n = snprintf(name, sizeof name, "holdfast replication %.8s", set);
    ASSERT(n > 0 && (size_t)n < sizeof name);
    const struct cert_san san = {CERT_SAN_URI, uri};
    const struct cert_request request = {
        .common_name = name,
        .sans = &san,
        .n_sans = 1,
        .not_before_s = now_s - (int64_t)MESH_BACKDATE_DAYS * DAY_S,
        .not_after_s = now_s + (int64_t)DR_CERT_CA_DAYS * DAY_S,
        .ca = true,
    };
    return cert_make(&request, NULL, ret_ca, reason);
}

enum status dr_cert_ca_check(const struct cert_pair *ca, const struct dr_name *of,
                             struct reason *reason)
{
    char uri[CERT_URI_MAX], wanted[DR_URI_MAX];
    TRY(cert_check_ca(ca, reason));
    dr_name_authority_uri(of, wanted);
    if (cert_uri(buf_bytes(&ca->cert), uri) == ST_OK && strcmp(uri, wanted) == 0)
        return ST_OK;
    reason_set(reason, "this is not the replication authority of this set");
    return ST_INVALID;
}

enum status dr_cert_sign(const struct cert_pair *ca, const struct dr_cert_order *order,
                         struct buf *ret_cert, struct reason *reason)
{
    char uri[DR_URI_MAX];
    ASSERT(order->now_s >= 0);
    TRY(dr_cert_ca_check(ca, order->name, reason));
    dr_name_uri(order->name, uri);
    const struct cert_san san = {CERT_SAN_URI, uri};
    const struct cert_request request = {
        .common_name = order->name->id,
        .sans = &san,
        .n_sans = 1,
        .not_before_s = order->now_s - (int64_t)MESH_BACKDATE_DAYS * DAY_S,
        .not_after_s = order->now_s + (int64_t)DR_CERT_DAYS * DAY_S,
        .client = true,
    };
    return cert_sign(&request, ca, order->public_pem, ret_cert, reason);
}

enum status dr_cert_name(struct bytes cert_pem, struct dr_name *ret_name)
{
    char uri[CERT_URI_MAX];
    TRY(cert_uri(cert_pem, uri));
    return dr_name_parse(uri, ret_name);
}

bool dr_cert_due(int64_t not_after_s, int64_t now_s)
{
    return not_after_s - now_s < (int64_t)DR_CERT_DAYS * DAY_S / 2;
}

enum status dr_cert_read_peer(const struct tls_conn *conn, struct dr_cert_peer *ret_peer)
{
    struct tls_peer peer;
    struct dr_cert_peer found = {0};
    if (tls_conn_peer(conn, &peer) != ST_OK || !peer.verified ||
        dr_name_parse(peer.uri, &found.name) != ST_OK)
        return ST_DENIED;
    memcpy(found.fingerprint, peer.fingerprint, sizeof found.fingerprint);
    memcpy(found.key_sha256, peer.key_sha256, sizeof found.key_sha256);
    found.not_after_s = peer.not_after_s;
    *ret_peer = found;
    return ST_OK;
}

/* The cluster in the authority's certificate, which must be the cluster in the secondary's. */
static enum status cluster_of(const struct dr_cert_own *own,
                              uint8_t ret_cluster[MESH_CLUSTER_ID_BYTES], struct reason *reason)
{
    char uri[CERT_URI_MAX];
    struct dr_name name;
    const char *end = NULL;
    if (cert_uri(own->ca, uri) == ST_OK)
        end = mesh_cluster_parse(uri, ret_cluster);
    if (end == NULL || *end != '\0') {
        reason_set(reason, "the primary's authority is not one of a cluster");
        return ST_INVALID;
    }
    if (dr_cert_name(own->cert, &name) == ST_OK &&
        memcmp(name.cluster, ret_cluster, sizeof name.cluster) == 0)
        return ST_OK;
    reason_set(reason, "the certificate is not one of a secondary of this primary");
    return ST_INVALID;
}

enum status dr_cert_tls(const struct dr_cert_own *own, struct tls_ctx **ret_ctx,
                        struct reason *reason)
{
    struct mesh_identity any = {0};
    char start[MESH_URI_MAX];
    if (own->ca.len > TLS_PEM_MAX || own->cert.len > TLS_PEM_MAX || own->key.len == 0) {
        reason_set(reason, "PEM text is too long or absent");
        return ST_INVALID;
    }
    TRY(cluster_of(own, any.cluster, reason));
    mesh_uri(&any, start); /* without a name: how the URI of every node begins */
    const struct tls_options options = {
        .tls13_only = true,
        .no_tickets = true,
        .few = true,
        .cert.text = own->cert,
        .key.text = own->key,
        .ca.text = own->ca,
        .alpn = DR_ALPN,
        .alpn_required = true,
        .peer_uri_start = start,
    };
    return tls_ctx_new(&options, ret_ctx, reason);
}
