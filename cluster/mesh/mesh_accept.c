/* The port, and its limits against unauthenticated peers: handshakes a second, links without an
 * accepted hello, accepted links, log lines. */
#include "base/trace.h"
#include "cluster/mesh/mesh_internal.h"
#include "loop/loop.h"

#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>

enum {
    BACKLOG = 128,
    LOG_WINDOW_MS = 10000,
    LOG_LINES_MAX = 10,
    TWINS_LINKS = 6,         /* fresh links replaced in a row: three times both links of a node */
    TWINS_MS = 30 * 1000,    /* a longer pause begins a new row */
    TWINS_LOG_MS = 60 * 1000 /* between two log lines about one node */
};

void mesh_accept_refused(struct mesh_link *link, const char *why)
{
    ASSERT(link->accepted);
    mesh_count(&link->mesh->count.accepts_refused, 1);
    mesh_log_hostile(link, why);
}

void mesh_log_hostile(const struct mesh_link *link, const char *why)
{
    struct mesh *mesh = link->mesh;
    uint64_t now_ms = env_mono_ms(mesh->env);
    if (mesh->log_window_ms == 0 || now_ms - mesh->log_window_ms >= LOG_WINDOW_MS) {
        if (mesh->log_hidden != 0)
            trace(TRACE_WARN, "mesh", "%u more connections were refused", mesh->log_hidden);
        mesh->log_window_ms = now_ms;
        mesh->log_lines = mesh->log_hidden = 0;
    }
    ASSERT(mesh->log_lines <= LOG_LINES_MAX);
    if (mesh->log_lines == LOG_LINES_MAX) {
        mesh->log_hidden++;
        return;
    }
    mesh->log_lines++;
    trace(TRACE_WARN, "mesh", "refused a connection from %s%s%s: %s", link->endpoint,
          link->peer_name[0] != '\0' ? ", node " : "", link->peer_name, why);
}

/* A token for one handshake; the clock refills them. Handshakes take time on this thread, and ready
 * links come first. */
static bool take_token(struct mesh *mesh)
{
    uint64_t now_ms = env_mono_ms(mesh->env);
    uint64_t more = (now_ms - mesh->accept_filled_ms) * MESH_ACCEPTS_PER_S / 1000;
    if (more != 0) {
        mesh->accept_tokens = MIN(mesh->accept_tokens + more, MESH_ACCEPTS_PER_S);
        mesh->accept_filled_ms = now_ms;
    }
    ASSERT(mesh->accept_tokens <= MESH_ACCEPTS_PER_S);
    if (mesh->accept_tokens == 0)
        return false;
    mesh->accept_tokens--;
    return true;
}

/* Whether another unknown link fits. When all places are taken, a link keeps its place for a
 * second: without that time a flood would keep every peer from finishing its hello. */
static bool room_for_unknown(const struct mesh *mesh)
{
    if (mesh->n_unknown < MESH_UNKNOWN_MAX)
        return true;
    const struct mesh_link *oldest = CONTAINER_OF(mesh->unknown.next, struct mesh_link, unknown);
    return env_mono_ms(mesh->env) - oldest->accepted_ms >= MESH_UNKNOWN_MS;
}

/* libuv reports no further connection until the waiting one is accepted. */
static void accept_after(struct mesh *mesh, uint64_t ms)
{
    env_timer_set(mesh->env, &mesh->accept_later, env_mono_ms(mesh->env) + ms);
}

static void accept_one(struct mesh *mesh)
{
    struct mesh_link *link = mesh_link_new(mesh);
    if (link == NULL) {
        accept_after(mesh, 100);
        return;
    }
    ASSERT(mesh->n_unknown <= MESH_UNKNOWN_MAX);
    link->accepted = true;
    link->accepted_ms = env_mono_ms(mesh->env);
    int err = uv_accept((uv_stream_t *)&mesh->listener, (uv_stream_t *)&link->tcp);
    mesh_count(&mesh->count.accepts, 1);
    list_push(&mesh->unknown, &link->unknown);
    mesh->n_unknown++;
    if (err != 0) {
        mesh_link_close(link, uv_strerror(err));
        return;
    }
    if (mesh->n_unknown > MESH_UNKNOWN_MAX) {
        struct list *oldest = mesh->unknown.next;
        mesh_link_close(CONTAINER_OF(oldest, struct mesh_link, unknown),
                        "too many unknown connections");
    }
    mesh_link_begin(link, NULL);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct mesh *mesh = listener->data;
    if (status < 0 || mesh->closing)
        return; /* out of descriptors, or the peer has closed again */
    if (room_for_unknown(mesh) && take_token(mesh))
        accept_one(mesh);
    else
        accept_after(mesh, 10);
}

static void on_accept_later(struct env_timer *timer)
{
    struct mesh *mesh = CONTAINER_OF(timer, struct mesh, accept_later);
    on_connection((uv_stream_t *)&mesh->listener, 0);
}

static void on_listener_closed(uv_handle_t *handle)
{
    mesh_handle_gone(handle->data);
}

void mesh_listen_close(struct mesh *mesh)
{
    env_timer_stop(mesh->env, &mesh->accept_later);
    uv_close((uv_handle_t *)&mesh->listener, on_listener_closed);
}

static enum status resolve(const char *address, struct addrinfo **ret_info, struct reason *reason)
{
    char host[MESH_ADDRESS_MAX], port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    if (mesh_address_split(address, host, port) != ST_OK) {
        reason_set(reason, "cluster address \"%.64s\": not of the form host:port", address);
        return ST_INVALID;
    }
    int err = getaddrinfo(host, port, &hints, ret_info);
    if (err == 0)
        return ST_OK;
    reason_set(reason, "cluster address \"%.64s\": %s", address, gai_strerror(err));
    return ST_INVALID;
}

static void learn_port(struct mesh *mesh)
{
    struct sockaddr_storage addr = {0};
    int len = sizeof addr;
    if (uv_tcp_getsockname(&mesh->listener, (struct sockaddr *)&addr, &len) != 0)
        return;
    mesh->port = ntohs(addr.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&addr)->sin6_port
                                                  : ((struct sockaddr_in *)&addr)->sin_port);
}

enum status mesh_listen(struct mesh *mesh, const char *address, struct reason *reason)
{
    struct addrinfo *info = NULL;
    ASSERT(mesh->port == 0);
    ASSERT(!mesh->closing);
    mesh->accept_later.fire = on_accept_later;
    mesh->accept_tokens = MESH_ACCEPTS_PER_S;
    mesh->accept_filled_ms = env_mono_ms(mesh->env);
    TRY(resolve(address, &info, reason));
    int err = uv_tcp_bind(&mesh->listener, info->ai_addr, 0);
    freeaddrinfo(info);
    if (err == 0)
        err = uv_listen((uv_stream_t *)&mesh->listener, BACKLOG, on_connection);
    if (err != 0) {
        reason_set(reason, "cluster address \"%.64s\": %s", address, uv_strerror(err));
        return loop_status(err);
    }
    learn_port(mesh);
    return ST_OK;
}

struct mesh_link *mesh_link_find(struct mesh *mesh, uint64_t id, bool bulk, bool accepted)
{
    LIST_FOR (item, &mesh->links) {
        struct mesh_link *link = CONTAINER_OF(item, struct mesh_link, all);
        if (link->accepted == accepted && link->phase == LINK_READY && link->peer_id == id &&
            link->bulk == bulk)
            return link;
    }
    return NULL;
}

/* A peer dials again only when its link is lost. If fresh links of one node replace each other
 * again and again, two processes use the identity of that node, as after the copy of a data
 * directory. */
static void look_for_twins(const struct mesh_link *link, const struct mesh_link *old)
{
    struct mesh_peer_row *row = link->row;
    uint64_t now_ms = env_mono_ms(link->mesh->env);
    ASSERT(old->phase == LINK_READY && old->peer_id == link->peer_id);
    if (now_ms - row->replaced_ms >= TWINS_MS)
        row->replaced = 0;
    row->replaced_ms = now_ms;
    if (now_ms - old->ready_ms >= MESH_STEADY_MS || ++row->replaced < TWINS_LINKS ||
        (row->told_ms != 0 && now_ms - row->told_ms < TWINS_LOG_MS))
        return;
    row->told_ms = now_ms;
    trace(TRACE_WARN, "mesh",
          "two processes use the identity of node %s (raft id %016" PRIx64
          "), at %s and at %s: stop "
          "one of them, and give it a data directory of its own",
          link->peer_name, link->peer_id, old->endpoint, link->endpoint);
}

bool mesh_accept_room(struct mesh_link *link)
{
    struct mesh *mesh = link->mesh;
    struct mesh_link *old = mesh_link_find(mesh, link->peer_id, link->bulk, true);
    ASSERT(link->accepted);
    ASSERT(link->phase == LINK_GREETING);
    if (old != NULL) { /* the peer no longer uses the old link */
        look_for_twins(link, old);
        mesh_link_close(old, "a newer link took its place");
    }
    return mesh->n_accepted < MESH_ACCEPTED_MAX;
}

void mesh_accept_known(struct mesh_link *link)
{
    struct mesh *mesh = link->mesh;
    ASSERT(link->accepted);
    ASSERT(link->phase == LINK_READY);
    ASSERT(mesh->n_unknown > 0);
    ASSERT(mesh->n_accepted < MESH_ACCEPTED_MAX);
    list_remove(&link->unknown);
    mesh->n_unknown--;
    mesh->n_accepted++;
}
