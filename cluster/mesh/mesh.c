#include "cluster/mesh/mesh.h"
#include "base/mem.h"
#include "base/trace.h"
#include "cluster/mesh/mesh_internal.h"
#include "crypto/cert.h"
#include "loop/loop.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SMALL_QUEUE_BYTES = 1024 * 1024,
    BULK_QUEUE_BYTES = 24 * 1024 * 1024,
    GREETING_MS = 5000,
    EXPIRY_WARN_DAYS = 30,
};

enum status mesh_address_split(const char *address, char ret_host[MESH_ADDRESS_MAX],
                               char ret_port[8])
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || colon == address)
        return ST_INVALID;
    bool bracketed = address[0] == '[' && colon[-1] == ']';
    const char *host = address + (bracketed ? 1 : 0);
    size_t len = (size_t)(colon - host) - (bracketed ? 1 : 0);
    size_t digits = strspn(colon + 1, "0123456789");
    if (len == 0 || len >= MESH_ADDRESS_MAX || digits == 0 || digits > 5 ||
        colon[1 + digits] != '\0' || strtol(colon + 1, NULL, 10) > UINT16_MAX ||
        (!bracketed && memchr(host, ':', len) != NULL))
        return ST_INVALID;
    memcpy(ret_host, host, len);
    ret_host[len] = '\0';
    memcpy(ret_port, colon + 1, digits + 1);
    return ST_OK;
}

void mesh_endpoint_text(const struct sockaddr_storage *addr, char ret_text[MESH_ENDPOINT_MAX])
{
    char host[INET6_ADDRSTRLEN] = "";
    bool six = addr->ss_family == AF_INET6;
    uint16_t port = ntohs(six ? ((const struct sockaddr_in6 *)addr)->sin6_port
                              : ((const struct sockaddr_in *)addr)->sin_port);
    int err = six ? uv_ip6_name((const struct sockaddr_in6 *)addr, host, sizeof host)
                  : uv_ip4_name((const struct sockaddr_in *)addr, host, sizeof host);
    if (err != 0)
        host[0] = '\0';
    int n = snprintf(ret_text, MESH_ENDPOINT_MAX, six ? "[%s]:%u" : "%s:%u", host, (unsigned)port);
    ASSERT(n > 0 && n < MESH_ENDPOINT_MAX);
}

/* Opening the mesh */

static void node_tls(const struct mesh *mesh, bool server, struct tls_options *ret_options)
{
    *ret_options = (struct tls_options){
        .server = server,
        .tls13_only = true,
        .few = true,
        .no_tickets = true,
        .client_cert = !server                                ? TLS_CLIENT_CERT_NONE
                       : mesh->events.unauthenticated != NULL ? TLS_CLIENT_CERT_OPTIONAL
                                                              : TLS_CLIENT_CERT_REQUIRED,
        .cert.path = mesh->cert_path,
        .key.path = mesh->key_path,
        .ca.path = mesh->ca_path,
        .alpn = server ? "holdfast-raft/1,http/1.1" : MESH_ALPN_HTTP,
        .alpn_required = true,
    };
}

static void uri_start(const struct mesh *mesh, char ret_uri[MESH_URI_MAX])
{
    struct mesh_identity anyone = mesh->self;
    anyone.name[0] = '\0';
    mesh_uri(&anyone, ret_uri);
}

static enum status start_tls(struct mesh *mesh, struct reason *reason)
{
    struct tls_options options;
    char uri[MESH_URI_MAX];
    uri_start(mesh, uri);
    node_tls(mesh, true, &options);
    options.peer_uri_start = uri;
    TRY(tls_ctx_new(&options, &mesh->server_tls, reason));
    node_tls(mesh, false, &options);
    options.peer_uri_start = uri;
    return tls_ctx_new(&options, &mesh->client_tls, reason);
}

/* Warn an operator in time: peers refuse an expired certificate. */
static void note_expiry(struct mesh *mesh)
{
    CLEANUP(buf_done) struct buf pem = {0};
    int64_t until_s = 0, left_s;
    if (tls_pem_read(mesh->cert_path, &pem, NULL) != ST_OK ||
        cert_not_after(buf_bytes(&pem), &until_s) != ST_OK)
        return; /* the file was readable a moment ago; the next reload looks again */
    atomic_store_explicit(&mesh->count.cert_not_after_s, until_s, memory_order_relaxed);
    left_s = until_s - env_wall_ms(mesh->env) / 1000;
    if (left_s < 0)
        trace(TRACE_ERROR, "mesh", "%s has expired: other nodes will refuse it", mesh->cert_path);
    else if (left_s < EXPIRY_WARN_DAYS * 86400)
        trace(TRACE_WARN, "mesh", "%s expires in %d days", mesh->cert_path, (int)(left_s / 86400));
}

enum status mesh_reload(struct mesh *mesh, struct reason *reason)
{
    struct mesh_identity identity;
    struct tls_options options;
    char uri[MESH_URI_MAX];
    TRY(mesh_identity_read(mesh->cert_path, &identity, reason));
    if (memcmp(&identity, &mesh->self, sizeof identity) != 0) {
        reason_set(reason, "%s: the certificate of another node", mesh->cert_path);
        return ST_INVALID;
    }
    uri_start(mesh, uri);
    node_tls(mesh, true, &options);
    options.peer_uri_start = uri;
    TRY(tls_ctx_reload(mesh->server_tls, &options, reason));
    node_tls(mesh, false, &options);
    options.peer_uri_start = uri;
    TRY(tls_ctx_reload(mesh->client_tls, &options, reason));
    TRY(mesh_dr_reload(mesh, reason));
    note_expiry(mesh);
    return ST_OK;
}

static void mesh_free(struct mesh *mesh)
{
    ASSERT(mesh->handles == 0);
    mesh_dr_done(mesh);
    tls_ctx_unref(mesh->server_tls);
    tls_ctx_unref(mesh->client_tls);
    mem_free(mesh->ca_path);
    mem_free(mesh->cert_path);
    mem_free(mesh->key_path);
    mem_wipe(mesh->plain, sizeof mesh->plain);
    mem_free(mesh);
}

static enum status init(struct mesh *mesh, const struct mesh_options *options,
                        struct reason *reason)
{
    mesh->env = options->env;
    mesh->events = options->events;
    mesh->id = options->id;
    mesh->feature = options->feature != 0 ? options->feature : 1;
    mesh->queue_bytes_max[0] =
        options->small_queue_bytes != 0 ? options->small_queue_bytes : SMALL_QUEUE_BYTES;
    mesh->queue_bytes_max[1] =
        options->bulk_queue_bytes != 0 ? options->bulk_queue_bytes : BULK_QUEUE_BYTES;
    mesh->greeting_ms = options->greeting_ms != 0 ? options->greeting_ms : GREETING_MS;
    mesh->ca_path = mem_strdup(options->ca_path);
    mesh->cert_path = mem_strdup(options->cert_path);
    mesh->key_path = mem_strdup(options->key_path);
    list_init(&mesh->links);
    list_init(&mesh->dirty);
    list_init(&mesh->unknown);
    list_init(&mesh->peers);
    if (mesh->ca_path == NULL || mesh->cert_path == NULL || mesh->key_path == NULL)
        return ST_NOMEM;
    TRY(mesh_identity_read(mesh->cert_path, &mesh->self, reason));
    return start_tls(mesh, reason);
}

void mesh_flush(struct mesh *mesh)
{
    for (struct list *item; (item = list_pop(&mesh->dirty)) != NULL;)
        mesh_link_flush(CONTAINER_OF(item, struct mesh_link, dirty));
}

/* Frames that were queued since the loop last waited leave together. */
static void on_flush(uv_prepare_t *prepare)
{
    mesh_flush(prepare->data);
}

static void on_listener_failed(uv_handle_t *handle)
{
    mesh_free(handle->data);
}

enum status mesh_start(const struct mesh_options *options, struct mesh **ret_mesh,
                       struct reason *reason)
{
    ASSERT(options->env != NULL);
    ASSERT(options->id != 0);
    ASSERT(options->events.receive != NULL && options->events.gone != NULL);
    uv_loop_t *uv = loop_uv(options->env);
    struct mesh *mesh = mem_zalloc(sizeof *mesh);
    if (mesh == NULL)
        return ST_NOMEM;
    enum status st = init(mesh, options, reason);
    if (st == ST_OK && uv_tcp_init(uv, &mesh->listener) != 0)
        st = ST_NOMEM;
    if (st != ST_OK) {
        mesh_free(mesh);
        return st;
    }
    mesh->listener.data = mesh->flush.data = mesh;
    st = mesh_listen(mesh, options->address, reason);
    if (st != ST_OK) {
        uv_close((uv_handle_t *)&mesh->listener, on_listener_failed);
        return st;
    }
    (void)uv_prepare_init(uv, &mesh->flush); /* neither initialisation can fail */
    (void)uv_prepare_start(&mesh->flush, on_flush);
    mesh->handles = 2;
    note_expiry(mesh);
    *ret_mesh = mesh;
    return ST_OK;
}

/* Closing the mesh */

void mesh_handle_gone(struct mesh *mesh)
{
    ASSERT(mesh->handles > 0);
    if (--mesh->handles != 0)
        return;
    ASSERT(mesh->closing);
    ASSERT(list_empty(&mesh->links));
    ASSERT(list_empty(&mesh->peers));
    void (*closed)(void *) = mesh->closed;
    void *ctx = mesh->closed_ctx;
    mesh_free(mesh);
    closed(ctx);
}

static void on_flush_closed(uv_handle_t *handle)
{
    mesh_handle_gone(handle->data);
}

void mesh_close(struct mesh *mesh, void (*closed)(void *ctx), void *ctx)
{
    ASSERT(!mesh->closing && closed != NULL);
    mesh->closing = true;
    mesh->closed = closed;
    mesh->closed_ctx = ctx;
    mesh_listen_close(mesh);
    uv_close((uv_handle_t *)&mesh->flush, on_flush_closed);
    LIST_FOR_SAFE (item, after, &mesh->peers)
        mesh_peer_close(CONTAINER_OF(item, struct mesh_peer, link));
    LIST_FOR_SAFE (item, after, &mesh->links)
        mesh_link_close(CONTAINER_OF(item, struct mesh_link, all), "shutting down");
}

/* Members and frames */

/* Whether two entries are the same member; their addresses may differ. */
static bool same_member(const struct mesh_member *a, const struct mesh_member *b)
{
    return a->any_id == b->any_id && a->id == b->id && strcmp(a->name, b->name) == 0;
}

static bool listed(const struct mesh_member *member, const struct mesh_member *members, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (same_member(member, &members[i]))
            return true;
    return false;
}

bool mesh_is_removed(const struct mesh *mesh, const char *name, uint64_t id)
{
    return mesh->events.removed != NULL && mesh->events.removed(mesh->events.ctx, name, id);
}

bool mesh_is_superseded(const struct mesh *mesh, uint64_t id)
{
    return mesh->events.superseded != NULL && mesh->events.superseded(mesh->events.ctx, id);
}

bool mesh_is_recent(const struct mesh *mesh, uint16_t feature)
{
    return mesh->events.feature == NULL || feature >= mesh->events.feature(mesh->events.ctx);
}

/* Close links to peers of an older build than the cluster's feature level, and accepted links whose
 * raft id the members now give to another name. */
static void check_links(struct mesh *mesh)
{
    ASSERT(!mesh->closing);
    ASSERT(mesh->n_accepted <= MESH_ACCEPTED_MAX);
    LIST_FOR_SAFE (item, after, &mesh->links) {
        struct mesh_link *link = CONTAINER_OF(item, struct mesh_link, all);
        if (link->phase == LINK_READY && !mesh_is_recent(mesh, link->feature))
            mesh_link_close(link, mesh_refusal_text(MESH_REFUSE_FEATURE));
        else if (link->accepted && link->phase == LINK_READY && mesh->events.id_allowed != NULL &&
                 !mesh->events.id_allowed(mesh->events.ctx, link->peer_id, link->peer_name))
            mesh_link_close(link, "no longer a member");
        else if (link->accepted && link->phase == LINK_READY &&
                 mesh_is_removed(mesh, link->peer_name, link->peer_id))
            mesh_link_close(link, "removed from the cluster");
    }
}

void mesh_members(struct mesh *mesh, const struct mesh_member *members, unsigned n)
{
    ASSERT(n <= MESH_MEMBERS_MAX);
    if (mesh->closing)
        return;
    LIST_FOR_SAFE (item, after, &mesh->peers) {
        struct mesh_peer *peer = CONTAINER_OF(item, struct mesh_peer, link);
        if (!listed(&peer->member, members, n))
            mesh_peer_close(peer);
    }
    for (unsigned i = 0; i < n; i++) {
        const struct mesh_member *member = &members[i];
        struct mesh_peer *peer = mesh_peer_find(mesh, member->id);
        if (member->id == 0 || member->id == mesh->id)
            continue;
        if (peer != NULL)
            mesh_peer_readdress(peer, member);
        else if (mesh_peer_new(mesh, member) != ST_OK)
            trace(TRACE_ERROR, "mesh", "out of memory: not connecting to %s", member->name);
    }
    check_links(mesh);
}

/* The link for frames to a peer. Both nodes send small frames on the link that the lower raft id
 * dialled: requests and replies on one connection carry each other's TCP acknowledgements. */
static struct mesh_link *link_to(struct mesh *mesh, uint64_t to, bool bulk)
{
    struct mesh_peer *peer = mesh_peer_find(mesh, to);
    struct mesh_link *link = !bulk && to < mesh->id ? mesh_link_find(mesh, to, false, true) : NULL;
    if (link != NULL)
        return link;
    link = peer != NULL ? peer->dials[bulk ? 1 : 0].link : NULL;
    if (link != NULL && link->phase == LINK_READY)
        return link;
    /* The peer was dialled by another id, cannot be dialled, or is no member yet. */
    link = mesh_link_find(mesh, to, bulk, false);
    return link != NULL ? link : mesh_link_find(mesh, to, bulk, true);
}

bool mesh_linked(const struct mesh *mesh, uint64_t id)
{
    LIST_FOR (item, &mesh->links) {
        const struct mesh_link *link = CONTAINER_OF(item, struct mesh_link, all);
        if (link->phase == LINK_READY && link->peer_id == id)
            return true;
    }
    return false;
}

uint16_t mesh_feature(const struct mesh *mesh, uint64_t id)
{
    uint16_t least = 0;
    LIST_FOR (item, &mesh->links) {
        const struct mesh_link *link = CONTAINER_OF(item, struct mesh_link, all);
        if (link->phase == LINK_READY && link->peer_id == id)
            least = least == 0 ? link->feature : MIN(least, link->feature);
    }
    return least;
}

void mesh_send(struct mesh *mesh, uint64_t to, const struct bytes *parts, unsigned n, bool bulk)
{
    struct mesh_link *link = mesh->closing ? NULL : link_to(mesh, to, bulk);
    size_t bytes = 0;
    ASSERT(to != mesh->id);
    for (unsigned i = 0; i < n; i++)
        bytes += parts[i].len;
    if (link == NULL) {
        const struct mesh_peer *peer = mesh_peer_find(mesh, to);
        mesh_count(&mesh->count.dropped_unconnected, 1);
        if (peer != NULL)
            mesh_count(&peer->row->frames_dropped, 1);
        return;
    }
    if (mesh_link_send(link, MESH_DATA, parts, n) != ST_OK) {
        mesh_count(&mesh->count.dropped_full, 1);
        mesh_count(&link->row->frames_dropped, 1);
        return;
    }
    mesh_count(&mesh->count.frames_sent, 1);
    mesh_count(&mesh->count.bytes_sent, bytes);
    mesh_count(&link->row->frames_sent, 1);
    mesh_count(&link->row->bytes_sent, bytes);
}

struct tls_ctx *mesh_tls_client(struct mesh *mesh)
{
    return mesh->client_tls;
}

const struct mesh_identity *mesh_identity(const struct mesh *mesh)
{
    return &mesh->self;
}

uint16_t mesh_port(const struct mesh *mesh)
{
    return mesh->port;
}
