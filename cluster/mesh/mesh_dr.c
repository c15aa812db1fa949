/* Connections of secondary clusters to the cluster port.
 *
 * TLS picks the context for a client that offers holdfast-dr/1 by tls_ctx_branch: that context
 * shows our certificate, demands one of the replication authority, and agrees on no other protocol.
 * The context for nodes does not know holdfast-dr/1. So no certificate passes in the other's place.
 */
#include "cluster/mesh/mesh_internal.h"
#include "crypto/cert.h"

#include <stdio.h>

static const char DR_PART[] = "/dr/";

/* Write how the URI of each secondary begins: the authority's own URI and a '/'. */
static enum status secondary_start(const struct mesh *mesh, struct bytes ca_pem,
                                   char ret_start[CERT_URI_MAX], struct reason *reason)
{
    char uri[CERT_URI_MAX];
    uint8_t cluster[MESH_CLUSTER_ID_BYTES], set[MESH_CLUSTER_ID_BYTES];
    const char *end = NULL;
    if (ca_pem.len <= TLS_PEM_MAX && cert_uri(ca_pem, uri) == ST_OK)
        end = mesh_cluster_parse(uri, cluster);
    if (end != NULL && memcmp(cluster, mesh->self.cluster, sizeof cluster) == 0 &&
        strncmp(end, DR_PART, sizeof DR_PART - 1) == 0)
        end = mesh_id_parse(end + sizeof DR_PART - 1, set);
    else
        end = NULL;
    if (end == NULL || *end != '\0') {
        reason_set(reason, "this is not a replication authority of this cluster");
        return ST_INVALID;
    }
    int n = snprintf(ret_start, CERT_URI_MAX, "%s/", uri);
    ASSERT(n > 0 && n < CERT_URI_MAX);
    return ST_OK;
}

/* Make the context anew, or for the first time. */
static enum status mesh_dr_set_up(struct mesh *mesh, struct bytes ca_pem, struct reason *reason)
{
    char start[CERT_URI_MAX];
    TRY(secondary_start(mesh, ca_pem, start, reason));
    const struct tls_options options = {
        .server = true,
        .tls13_only = true,
        .few = true,
        .no_tickets = true,
        .client_cert = TLS_CLIENT_CERT_REQUIRED,
        .cert.path = mesh->cert_path,
        .key.path = mesh->key_path,
        .ca.text = ca_pem,
        .alpn = MESH_ALPN_DR,
        .alpn_required = true,
        .peer_uri_start = start,
    };
    return mesh->dr_tls != NULL ? tls_ctx_reload(mesh->dr_tls, &options, reason)
                                : tls_ctx_new(&options, &mesh->dr_tls, reason);
}

void mesh_dr_done(struct mesh *mesh)
{
    if (mesh->server_tls != NULL)
        tls_ctx_branch(mesh->server_tls, NULL);
    tls_ctx_unref(mesh->dr_tls);
    mesh->dr_tls = NULL;
    buf_drop(&mesh->dr_ca); /* a certificate is no secret */
}

enum status mesh_dr_trust(struct mesh *mesh, struct bytes ca_pem, struct reason *reason)
{
    CLEANUP(buf_drop) struct buf copy = {0};
    if (ca_pem.len == 0) {
        mesh_dr_done(mesh);
        mesh->dr_trust++;
        return ST_OK;
    }
    buf_add(&copy, ca_pem);
    TRY(buf_status(&copy));
    TRY(mesh_dr_set_up(mesh, ca_pem, reason));
    tls_ctx_branch(mesh->server_tls, mesh->dr_tls);
    buf_drop(&mesh->dr_ca);
    mesh->dr_ca = copy;
    copy = (struct buf){0};
    mesh->dr_trust++;
    return ST_OK;
}

enum status mesh_dr_reload(struct mesh *mesh, struct reason *reason)
{
    ASSERT((mesh->dr_tls == NULL) == (mesh->dr_ca.len == 0));
    return mesh->dr_tls != NULL ? mesh_dr_set_up(mesh, buf_bytes(&mesh->dr_ca), reason) : ST_OK;
}

void mesh_dr_open(struct mesh_link *link)
{
    const struct mesh *mesh = link->mesh;
    ASSERT(link->phase == LINK_SHAKING);
    ASSERT(link->accepted);
    if (mesh->events.dr == NULL || link->dr_trust != mesh->dr_trust) {
        mesh_link_close(link, "secondary clusters are not served here");
        return;
    }
    link->dr = true;
    link->phase = LINK_LEAVING;
    (void)uv_read_stop((uv_stream_t *)&link->tcp); /* libuv's stop always succeeds */
}

void mesh_dr_leave(struct mesh_link *link, struct mesh_http http)
{
    struct tls_peer peer;
    struct mesh *mesh = link->mesh;
    ASSERT(link->dr && link->peer_name[0] == '\0');
    enum status st = tls_conn_peer(http.tls, &peer);
    ASSERT(st == ST_OK && peer.verified); /* the context demands a certificate */
    mesh->events.dr(mesh->events.ctx, http, peer.uri);
}
