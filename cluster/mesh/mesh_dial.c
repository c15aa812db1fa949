/* Keeps two links to each member, and notices that a member's process has ended.
 *
 *   WAITING ─retry─▶ resolving ─▶ connecting ─▶ TLS and hello ─▶ READY
 *      ▲                              │ refused or failed: the next endpoint, then the other
 * address └─ delay ◀── every endpoint has failed, or the link is lost
 *
 * dial_start begins a round, dial_address resolves, dial_endpoint connects, mesh_dial_ready and
 * mesh_dial_lost hear of the link, dial_failed waits for the next round. */
#include "base/mem.h"
#include "base/trace.h"
#include "cluster/mesh/mesh_internal.h"
#include "loop/loop.h"

#include <netinet/in.h>
#include <stdlib.h>

enum {
    RETRY_MS_MAX = 1000,
    BRIEF_MS_MAX = 10 * 1000, /* longest delay after links that were lost at once */
    REDIAL_AGAIN_MS = 500,    /* after two losses within this time, dial with a delay */
};

static void dial_start(struct mesh_dial *dial);
static void dial_address(struct mesh_dial *dial, const char *address);

struct mesh_peer *mesh_peer_find(struct mesh *mesh, uint64_t id)
{
    LIST_FOR (item, &mesh->peers) {
        struct mesh_peer *peer = CONTAINER_OF(item, struct mesh_peer, link);
        if (peer->member.id == id)
            return peer;
    }
    return NULL;
}

static void peer_free_if_idle(struct mesh_peer *peer)
{
    if (peer->leaving && !peer->dials[0].resolving && !peer->dials[1].resolving)
        mem_free(peer);
}

void mesh_peer_close(struct mesh_peer *peer)
{
    struct mesh *mesh = peer->mesh;
    ASSERT(!peer->leaving);
    peer->leaving = true;
    list_remove(&peer->link);
    for (size_t i = 0; i < ARRAY_LEN(peer->dials); i++) {
        struct mesh_dial *dial = &peer->dials[i];
        struct mesh_link *link = dial->link;
        env_timer_stop(mesh->env, &dial->retry);
        dial->link = NULL;
        if (link != NULL) {
            link->dial = NULL;
            mesh_link_close(link, "no longer a member");
        }
        if (dial->resolving)
            (void)uv_cancel((uv_req_t *)&dial->resolve); /* on_resolved is called in any case */
    }
    peer_free_if_idle(peer);
}

static void on_retry(struct env_timer *timer)
{
    dial_start(CONTAINER_OF(timer, struct mesh_dial, retry));
}

enum status mesh_peer_new(struct mesh *mesh, const struct mesh_member *member)
{
    ASSERT(member->id != 0);
    ASSERT(member->id != mesh->id);
    struct mesh_peer *peer = mem_zalloc(sizeof *peer);
    if (peer == NULL)
        return ST_NOMEM;
    peer->mesh = mesh;
    peer->member = *member;
    peer->row = mesh_peer_row(mesh, member->name);
    list_push(&mesh->peers, &peer->link);
    for (size_t i = 0; i < ARRAY_LEN(peer->dials); i++) {
        struct mesh_dial *dial = &peer->dials[i];
        dial->peer = peer;
        dial->bulk = i == 1;
        dial->retry.fire = on_retry;
        dial->resolve.data = dial;
        env_timer_set(mesh->env, &dial->retry, 0);
    }
    return ST_OK;
}

static bool is_flapping(const struct mesh_dial *dial)
{
    return dial->brief >= MESH_BRIEF_MAX;
}

void mesh_peer_dial_soon(struct mesh_peer *peer)
{
    for (size_t i = 0; i < ARRAY_LEN(peer->dials); i++)
        if (peer->dials[i].retry.slot != 0 && !is_flapping(&peer->dials[i]))
            env_timer_set(peer->mesh->env, &peer->dials[i].retry, 0);
}

static bool address_is_current(const struct mesh_dial *dial)
{
    const struct mesh_member *m = &dial->peer->member;
    return strcmp(dial->address, m->address) == 0 ||
           (m->other[0] != '\0' && strcmp(dial->address, m->other) == 0);
}

void mesh_peer_readdress(struct mesh_peer *peer, const struct mesh_member *member)
{
    ASSERT(peer->member.id == member->id);
    if (strcmp(peer->member.address, member->address) == 0 &&
        strcmp(peer->member.other, member->other) == 0)
        return;
    peer->member = *member;
    for (size_t i = 0; i < ARRAY_LEN(peer->dials); i++) {
        struct mesh_dial *dial = &peer->dials[i];
        if (dial->link == NULL || dial->link->phase != LINK_READY || address_is_current(dial))
            continue;
        peer->alive = false; /* a refusal at a new address does not say that the process ended */
        mesh_link_close(dial->link, "the peer has another address");
    }
    for (size_t i = 0; i < ARRAY_LEN(peer->dials); i++)
        peer->dials[i].brief = 0;
    mesh_peer_dial_soon(peer);
}

void mesh_peer_heard(struct mesh_peer *peer)
{
    peer->alive = true;
    mesh_peer_dial_soon(peer);
}

/* 10 ms, then 50 ms doubling to a second; after links that were lost at once, doubling further. A
 * random part of up to half is subtracted, so that the
 * nodes of a cluster do not dial at the same time. */
static uint64_t retry_delay_ms(const struct mesh_dial *dial)
{
    uint32_t random;
    unsigned shift = MIN(dial->failures, 6U);
    uint64_t ms = shift == 0 ? 10 : MIN((uint64_t)25 << shift, (uint64_t)RETRY_MS_MAX);
    if (is_flapping(dial))
        ms = MIN((uint64_t)25 << MIN(dial->brief, 10U), (uint64_t)BRIEF_MS_MAX);
    env_random(dial->peer->mesh->env, &random, sizeof random);
    return ms - random % (ms / 2 + 1);
}

/* Call events.gone if every address has refused, and the peer was connected before: its process has
 * ended. */
static void tell_gone(struct mesh_dial *dial)
{
    struct mesh_peer *peer = dial->peer;
    struct mesh *mesh = peer->mesh;
    ASSERT(dial->refusals <= dial->tried);
    if (dial->tried == 0 || dial->refusals != dial->tried || !peer->alive)
        return;
    peer->alive = false;
    mesh_count(&mesh->count.peers_gone, 1);
    trace(TRACE_INFO, "mesh", "%s refuses connections: it is not running", peer->member.name);
    uint64_t id = peer->answered != 0 ? peer->answered : peer->member.id;
    mesh->events.gone(mesh->events.ctx, id); /* call this last: it may change the members */
}

static void dial_failed(struct mesh_dial *dial, const char *why)
{
    struct mesh *mesh = dial->peer->mesh;
    uint64_t delay_ms = retry_delay_ms(dial);
    ASSERT(!dial->peer->leaving);
    ASSERT(!dial->resolving);
    mesh_count(&mesh->count.connects_failed, 1);
    mesh_count(&dial->peer->row->connects_failed, 1);
    uint64_t logged = bytes_hash(bytes_str(why)) | 1;
    const struct mesh_link *small = dial->peer->dials[0].link;
    bool alone = !dial->bulk || (small != NULL && small->phase == LINK_READY);
    if (logged != dial->logged) /* log the same failure once */
        trace(alone ? TRACE_WARN : TRACE_DEBUG, "mesh",
              "cannot connect to %s at %s: %s; trying again", dial->peer->member.name,
              dial->address, why);
    dial->logged = logged;
    dial->failures++;
    env_timer_set(mesh->env, &dial->retry, env_mono_ms(mesh->env) + delay_ms);
    tell_gone(dial);
}

/* No endpoint of this address led to the peer. Try the member's other address, if this round has
 * not tried it. */
static void dial_address_failed(struct mesh_dial *dial, const char *why)
{
    const struct mesh_member *m = &dial->peer->member;
    bool first = strcmp(dial->address, m->address) == 0;
    if (!dial->redial && first && m->other[0] != '\0' && strcmp(m->other, m->address) != 0)
        dial_address(dial, m->other);
    else
        dial_failed(dial, why);
}

static void dial_without_endpoint(struct mesh_dial *dial, const char *why)
{
    dial->tried++; /* count a failure that was no refusal: the peer may still run */
    dial_address_failed(dial, why);
}

static void on_connect(uv_connect_t *request, int status)
{
    struct mesh_link *link = request->data;
    struct mesh_dial *dial = link->dial;
    struct mesh_identity identity = link->mesh->self;
    char uri[MESH_URI_MAX];
    if (link->phase == LINK_CLOSING)
        return;
    ASSERT(dial != NULL && dial->link == link);
    if (status != 0) {
        dial->refusals += status == UV_ECONNREFUSED;
        mesh_link_close(link, uv_strerror(status));
        return;
    }
    memcpy(identity.name, dial->peer->member.name, sizeof identity.name);
    mesh_uri(&identity, uri);
    mesh_link_begin(link, &(struct tls_target){.uri = uri, .alpn = MESH_ALPN_RAFT});
}

/* Dial the endpoint at the index `at`. */
static void dial_endpoint(struct mesh_dial *dial)
{
    struct mesh *mesh = dial->peer->mesh;
    struct mesh_link *link = mesh_link_new(mesh);
    ASSERT(dial->at < dial->n_endpoints);
    ASSERT(dial->link == NULL);
    if (link == NULL) {
        dial_failed(dial, status_text(ST_NOMEM));
        return;
    }
    mesh_count(&mesh->count.connects, 1);
    dial->tried++;
    dial->link = link;
    link->dial = dial;
    link->bulk = dial->bulk;
    link->peer_id = dial->peer->member.id;
    mesh_link_set_deadline(link, MESH_CONNECT_MS);
    int err = uv_tcp_connect(&link->connect, &link->tcp,
                             (const struct sockaddr *)&dial->endpoints[dial->at], on_connect);
    if (err != 0) {
        mesh_link_close(link, uv_strerror(err));
    }
}

uint64_t mesh_dial_wanted(const struct mesh_dial *dial)
{
    return dial->peer->member.any_id ? 0 : dial->peer->member.id;
}

void mesh_dial_ready(struct mesh_dial *dial)
{
    struct mesh_peer *peer = dial->peer;
    ASSERT(dial->link != NULL);
    ASSERT(dial->link->phase == LINK_READY);
    trace(dial->bulk || is_flapping(dial) ? TRACE_DEBUG : TRACE_INFO, "mesh",
          "connected to %s at %s", peer->member.name, dial->link->endpoint);
    if (dial->last_loss_ms != 0)
        mesh_count(&peer->row->reconnects, 1);
    dial->failures = 0;
    if (!is_flapping(dial))
        dial->logged = 0;
    mesh_peer_heard(peer);
}

/* Count a lost link that did not last. The first ones are dialled again at once: a process that
 * ended must be noticed. */
static void note_life(struct mesh_dial *dial, const struct mesh_link *link, uint64_t now_ms)
{
    dial->brief = now_ms - link->ready_ms < MESH_STEADY_MS ? dial->brief + 1 : 0;
    if (dial->brief == MESH_BRIEF_MAX && !dial->bulk)
        trace(TRACE_WARN, "mesh",
              "links to %s at %s end soon after they are made, again and again: dialling less "
              "often. If its log says that two processes use the identity of this node, stop one",
              dial->peer->member.name, link->endpoint);
}

void mesh_dial_lost(struct mesh_dial *dial, bool was_ready, const char *why)
{
    struct mesh *mesh = dial->peer->mesh;
    uint64_t now_ms = env_mono_ms(mesh->env);
    struct mesh_link *link = dial->link;
    bool connecting = link->tls == NULL;
    ASSERT(link->phase == LINK_CLOSING);
    ASSERT(!dial->peer->leaving);
    dial->link = NULL;
    if (mesh->closing)
        return;
    if (!was_ready && connecting && dial->at + 1 < dial->n_endpoints) {
        dial->at++;
        dial_endpoint(dial);
        return;
    }
    if (!was_ready) {
        dial_address_failed(dial, why);
        return;
    }
    note_life(dial, link, now_ms);
    bool again = now_ms - dial->last_loss_ms < REDIAL_AGAIN_MS;
    dial->last_loss_ms = now_ms;
    if (again || is_flapping(dial)) {
        dial_failed(dial, why);
        return;
    }
    trace(dial->bulk ? TRACE_DEBUG : TRACE_INFO, "mesh", "lost the link to %s: %s",
          dial->peer->member.name, why);
    dial->logged =
        bytes_hash(bytes_str(uv_strerror(UV_ECONNREFUSED))) | 1; /* tell_gone logs a refusal */
    env_timer_set(mesh->env, &dial->retry, 0); /* find out at once whether the peer still runs */
}

static bool parse_numeric(const char *host, int port, struct sockaddr_storage *ret_addr)
{
    return uv_ip4_addr(host, port, (struct sockaddr_in *)ret_addr) == 0 ||
           uv_ip6_addr(host, port, (struct sockaddr_in6 *)ret_addr) == 0;
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *info)
{
    struct mesh_dial *dial = request->data;
    struct mesh_peer *peer = dial->peer;
    struct mesh *mesh = peer->mesh;
    ASSERT(dial->resolving);
    ASSERT(dial->n_endpoints == 0);
    dial->resolving = false;
    for (struct addrinfo *at = info; at != NULL && dial->n_endpoints < MESH_ENDPOINTS_MAX;
         at = at->ai_next)
        if (at->ai_addrlen <= sizeof dial->endpoints[0])
            memcpy(&dial->endpoints[dial->n_endpoints++], at->ai_addr, at->ai_addrlen);
    uv_freeaddrinfo(info);
    if (peer->leaving)
        peer_free_if_idle(peer);
    else if (dial->n_endpoints != 0)
        dial_endpoint(dial);
    else
        dial_without_endpoint(dial, status != 0 ? uv_strerror(status) : "no address");
    mesh_handle_gone(mesh);
}

/* Resolve one address of the member, and dial its endpoints. */
static void dial_address(struct mesh_dial *dial, const char *address)
{
    struct mesh *mesh = dial->peer->mesh;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    char host[MESH_ADDRESS_MAX], port[8];
    size_t len = strlen(address);
    ASSERT(len < sizeof dial->address);
    ASSERT(!dial->resolving);
    memcpy(dial->address, address, len + 1);
    dial->at = 0;
    dial->n_endpoints = 0;
    if (mesh_address_split(address, host, port) != ST_OK) {
        dial_without_endpoint(dial, "not of the form host:port");
        return;
    }
    if (parse_numeric(host, (int)strtol(port, NULL, 10), &dial->endpoints[0])) {
        dial->n_endpoints = 1;
        dial_endpoint(dial);
        return;
    }
    int err = uv_getaddrinfo(loop_uv(mesh->env), &dial->resolve, on_resolved, host, port, &hints);
    if (err != 0) {
        dial_without_endpoint(dial, uv_strerror(err));
        return;
    }
    dial->resolving = true;
    mesh->handles++;
}

/* Begin a round. After a lost link, dial the same endpoint first, so that an ended process is
 * noticed at once. After a failure, or if the peer has a new address, resolve and try its addresses
 * in turn. */
static void dial_start(struct mesh_dial *dial)
{
    ASSERT(dial->link == NULL);
    ASSERT(!dial->resolving);
    ASSERT(!dial->peer->mesh->closing);
    dial->tried = 0;
    dial->refusals = 0;
    dial->redial = dial->failures == 0 && dial->n_endpoints != 0 && address_is_current(dial);
    if (dial->redial) {
        dial->at = 0;
        dial_endpoint(dial);
    } else {
        dial_address(dial, dial->peer->member.address);
    }
}
