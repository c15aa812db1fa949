/* A link between the TLS handshake and the first message: the peer's name, the hellos of both
 * sides, and the handover of other connections.
 *
 *   SHAKING ─▶ GREETING ─hello accepted─▶ READY
 *      │          └─ refused, or a hello that does not fit ─▶ CLOSING
 *      └─ HTTP, a secondary ─▶ LEAVING ─last bytes written─▶ handed over
 *
 * mesh_greet_open leaves SHAKING; mesh_greet_frame takes a hello or a refusal; ready ends the
 * greeting; mesh_greet_leave hands the connection over. */
#include "base/mem.h"
#include "base/trace.h"
#include "cluster/mesh/mesh_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static void send_hello(struct mesh_link *link, uint64_t wanted)
{
    struct mesh *mesh = link->mesh;
    struct mesh_hello hello = {
        .protocol = MESH_PROTOCOL,
        .identity = mesh->self,
        .id = mesh->id,
        .wanted = wanted,
        .bulk = link->bulk,
        .feature = mesh->feature,
    };
    CLEANUP(buf_done) struct buf payload = {0};
    ASSERT(link->phase == LINK_GREETING);
    mesh_hello_encode(&hello, &payload);
    struct bytes part = buf_bytes(&payload);
    enum status st = buf_status(&payload);
    if (st == ST_OK)
        st = mesh_link_send(link, MESH_HELLO, &part, 1);
    if (st != ST_OK)
        mesh_link_close(link, status_text(st));
}

/* A peer of the oldest protocol does not know the refusal because of the feature level by name. */
static void refuse(struct mesh_link *link, enum mesh_refusal refusal, uint16_t peer_protocol)
{
    bool unknown = refusal == MESH_REFUSE_FEATURE && peer_protocol == MESH_PROTOCOL_OLDEST;
    uint8_t code = unknown ? MESH_REFUSE_VERSION : (uint8_t)refusal;
    struct bytes part = bytes_of(&code, 1);
    if (mesh_link_send(link, MESH_REFUSE, &part, 1) == ST_OK)
        mesh_link_flush(link); /* no write is running: the frame leaves at once or not at all */
    mesh_link_close(link, mesh_refusal_text(refusal));
}

void mesh_greet_open(struct mesh_link *link)
{
    struct tls_peer peer;
    struct mesh_identity identity;
    ASSERT(link->phase == LINK_SHAKING);
    bool http = strcmp(tls_alpn(link->tls), MESH_ALPN_HTTP) == 0;
    if (link->accepted && strcmp(tls_alpn(link->tls), MESH_ALPN_DR) == 0) {
        mesh_dr_open(link);
        return;
    }
    if (link->accepted && http && link->mesh->events.unauthenticated != NULL &&
        tls_conn_peer(link->tls, &peer) == ST_NOT_FOUND) {
        link->phase = LINK_LEAVING;
        (void)uv_read_stop((uv_stream_t *)&link->tcp); /* libuv's stop always succeeds */
        return;
    }
    /* The context let only nodes of this cluster through; their names are checked here. */
    if (tls_conn_peer(link->tls, &peer) != ST_OK || !peer.verified ||
        mesh_uri_parse(peer.uri, &identity) != ST_OK) {
        mesh_link_close(link, "the certificate names no node");
        return;
    }
    ASSERT(memcmp(identity.cluster, link->mesh->self.cluster, MESH_CLUSTER_ID_BYTES) == 0);
    memcpy(link->peer_name, identity.name, sizeof link->peer_name);
    link->row = mesh_peer_row(link->mesh, link->peer_name);
    if (http && link->accepted && link->mesh->events.http != NULL) {
        link->phase = LINK_LEAVING;
        (void)uv_read_stop((uv_stream_t *)&link->tcp); /* libuv's stop always succeeds */
    } else if (http) {
        mesh_link_close(link, "HTTP is not served here");
    } else {
        link->phase = LINK_GREETING;
        if (!link->accepted)
            send_hello(link, mesh_dial_wanted(link->dial));
    }
}

static void ready(struct mesh_link *link)
{
    struct mesh *mesh = link->mesh;
    ASSERT(link->phase == LINK_GREETING);
    ASSERT(link->peer_id != 0);
    link->phase = LINK_READY;
    link->ready_ms = env_mono_ms(mesh->env);
    if (link->accepted)
        mesh_accept_known(link);
    link->frames.payload_max = MESH_FRAME_MAX;
    env_timer_stop(mesh->env, &link->deadline);
    mesh_count(link->accepted ? &mesh->count.links_in : &mesh->count.links_out, 1);
    mesh_count(&link->row->links, 1);
}

/* Whether the peer may use the raft id `id`: not our id, not the id of another linked node, not the
 * id of a member with another name. */
static bool may_speak_as(const struct mesh_link *link, uint64_t id)
{
    struct mesh *mesh = link->mesh;
    const struct mesh_link *other = mesh_link_find(mesh, id, link->bulk, true);
    if (id == 0 || id == mesh->id)
        return false;
    if (other != NULL && strcmp(other->peer_name, link->peer_name) != 0)
        return false;
    return mesh->events.id_allowed == NULL ||
           mesh->events.id_allowed(mesh->events.ctx, id, link->peer_name);
}

/* The reason to refuse a caller's hello; 0: accept it. */
static unsigned judge_caller(const struct mesh_link *link, const struct mesh_hello *hello)
{
    const struct mesh *mesh = link->mesh;
    ASSERT(link->accepted);
    if (memcmp(hello->identity.cluster, mesh->self.cluster, MESH_CLUSTER_ID_BYTES) != 0)
        return MESH_REFUSE_CLUSTER;
    if (strcmp(hello->identity.name, link->peer_name) != 0 ||
        strcmp(hello->identity.name, mesh->self.name) == 0)
        return MESH_REFUSE_NAME;
    if (mesh_is_removed(mesh, link->peer_name, hello->id))
        return MESH_REFUSE_REMOVED;
    /* A node that looks for any raft id has no replica yet: an initial member on its first start
     * calls with an id that the former cluster had. */
    if (hello->wanted != 0 && mesh_is_superseded(mesh, hello->id))
        return MESH_REFUSE_SUPERSEDED;
    if (hello->wanted != 0 && hello->wanted != mesh->id)
        return MESH_REFUSE_WANTED;
    if (!mesh_is_recent(mesh, hello->feature))
        return MESH_REFUSE_FEATURE;
    return may_speak_as(link, hello->id) ? 0 : MESH_REFUSE_ID;
}

static void caller_hello(struct mesh_link *link, const struct mesh_hello *hello)
{
    ASSERT(link->accepted);
    ASSERT(link->phase == LINK_GREETING);
    link->bulk = hello->bulk;
    unsigned refusal = judge_caller(link, hello);
    if (link->phase == LINK_CLOSING)
        return;
    if (refusal != 0) {
        refuse(link, refusal, hello->protocol);
        return;
    }
    link->peer_id = hello->id;
    link->feature = hello->feature;
    if (!mesh_accept_room(link)) {
        refuse(link, MESH_REFUSE_BUSY, hello->protocol);
        return;
    }
    send_hello(link, 0);
    if (link->phase == LINK_CLOSING)
        return;
    ready(link);
    trace(TRACE_DEBUG, "mesh", "%s link from %s (%s)", link->bulk ? "bulk" : "small",
          link->peer_name, link->endpoint);
    struct mesh_peer *peer = mesh_peer_find(link->mesh, link->peer_id);
    if (peer != NULL)
        mesh_peer_heard(peer);
}

/* Check the reply to our hello: the peer must be the node that we dialled, by name at least. */
static void answer_hello(struct mesh_link *link, const struct mesh_hello *hello)
{
    uint64_t wanted = mesh_dial_wanted(link->dial);
    ASSERT(!link->accepted);
    ASSERT(link->phase == LINK_GREETING);
    if (memcmp(hello->identity.cluster, link->mesh->self.cluster, MESH_CLUSTER_ID_BYTES) != 0 ||
        strcmp(hello->identity.name, link->peer_name) != 0 ||
        (wanted != 0 ? hello->id != wanted : !may_speak_as(link, hello->id))) {
        mesh_link_close(link, "another node answered");
        return;
    }
    if (!mesh_is_recent(link->mesh, hello->feature)) {
        mesh_link_close(link, mesh_refusal_text(MESH_REFUSE_FEATURE));
        return;
    }
    link->peer_id = link->dial->peer->answered = hello->id;
    link->feature = hello->feature;
    ready(link);
    mesh_dial_ready(link->dial);
}

void mesh_greet_frame(struct mesh_link *link, const struct mesh_frame *frame)
{
    struct mesh_hello hello;
    ASSERT(link->phase == LINK_GREETING);
    if (frame->kind == MESH_REFUSE && !link->accepted && frame->payload.len >= 1) {
        char why[128];
        const struct mesh_events *events = &link->mesh->events;
        if (frame->payload.data[0] == MESH_REFUSE_REMOVED && events->refused_as_removed != NULL)
            events->refused_as_removed(events->ctx, link->peer_name);
        if (frame->payload.data[0] == MESH_REFUSE_SUPERSEDED &&
            events->refused_as_superseded != NULL)
            events->refused_as_superseded(events->ctx, link->peer_name);
        if (link->phase == LINK_CLOSING)
            return;
        (void)snprintf(why, sizeof why, "the peer refuses us: %s",
                       /* cannot be cut: the texts are our own */
                       mesh_refusal_text(frame->payload.data[0]));
        mesh_link_close(link, why);
    } else if (frame->kind != MESH_HELLO || mesh_hello_decode(frame->payload, &hello) != ST_OK) {
        mesh_link_close(link, "the first frame is not a hello");
    } else if (link->accepted) {
        caller_hello(link, &hello);
    } else {
        answer_hello(link, &hello);
    }
}

void mesh_http_drop(struct mesh_http *http)
{
    if (http->fd >= 0)
        (void)close(http->fd); /* nothing was written to the socket */
    tls_conn_free(http->tls);
    buf_done(&http->early);
    *http = (struct mesh_http){.fd = -1};
}

void mesh_greet_leave(struct mesh_link *link)
{
    struct mesh *mesh = link->mesh;
    struct mesh_http http = {.early = link->early, .tls = link->tls};
    uv_os_fd_t fd = -1;
    ASSERT(link->phase == LINK_LEAVING);
    ASSERT(link->accepted);
    ASSERT(!link->writing);
    int err = uv_fileno((uv_handle_t *)&link->tcp, &fd);
    http.fd = err == 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (http.fd < 0) {
        mesh_link_close(link, "out of descriptors");
        return;
    }
    memcpy(http.peer_name, link->peer_name, sizeof http.peer_name);
    memcpy(http.peer_address, link->endpoint, sizeof http.peer_address);
    link->tls = NULL;
    link->early = (struct buf){0};
    mesh_count(&mesh->count.http_accepted, link->dr ? 0 : 1);
    mesh_link_close(link, "handed over");
    if (link->dr)
        mesh_dr_leave(link, http);
    else if (http.peer_name[0] == '\0')
        mesh->events.unauthenticated(mesh->events.ctx, http);
    else
        mesh->events.http(mesh->events.ctx, http);
}
