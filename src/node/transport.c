/* The replica's transport: the cluster port, links to the members, frames, and the replica itself.
 */
#include "node/mark.h"
#include "node/node_internal.h"

#include "base/mem.h"

#include <stdatomic.h>
#include <stdio.h>

static struct node *node_of(struct part_host *host)
{
    return CONTAINER_OF(host, struct node, host);
}

/* The cluster port */

void transport_send(struct part_host *host, uint64_t to, enum frame_kind kind, struct bytes content)
{
    uint8_t head = (uint8_t)kind;
    struct bytes parts[] = {bytes_of(&head, 1), content};
    if (host->mesh != NULL)
        mesh_send(host->mesh, to, parts, ARRAY_LEN(parts), false);
}

static void on_receive(void *ctx, uint64_t from, const char *from_name, struct bytes frame)
{
    struct node *n = ctx;
    struct reader r = reader_of(frame);
    uint8_t kind = reader_u8(&r);
    ASSERT(part_on_thread(&n->host));
    if (r.failed || n->host.stopping)
        return;
    quorum_heard(&n->quorum, from);
    if (kind != FRAME_RAFT) {
        struct part_frame f = {from, from_name, kind, bytes_from(frame, 1)};
        node_parts_receive(n, &f);
        return;
    }
    uint64_t to = reader_u64(&r);
    if (r.failed || to != n->host.id || n->host.rlog == NULL)
        return; /* the frame is for an earlier incarnation of this node */
    rlog_receive(n->host.rlog, from, from_name, bytes_of(r.at, reader_left(&r)));
}

static void on_gone(void *ctx, uint64_t id)
{
    struct node *n = ctx;
    if (n->host.rlog != NULL && !n->host.stopping)
        rlog_peer_gone(n->host.rlog, id);
}

/* The certificate of a removed node is still valid, but its requests are refused. */
static void on_http(void *ctx, struct mesh_http connection)
{
    struct node *n = ctx;
    bool member = false;
    ASSERT(part_on_thread(&n->host));
    for (unsigned i = 0; i < n->host.n_members; i++)
        member = member || strcmp(n->host.members[i].name, connection.peer_name) == 0;
    if (member && !n->host.stopping)
        n->options.accept_http(n->options.ctx, connection);
    else
        mesh_http_drop(&connection);
}

/* A raft id in the configuration belongs to the name there. An unknown id may join. */
static bool id_allowed(void *ctx, uint64_t id, const char *name)
{
    struct node *n = ctx;
    for (unsigned i = 0; i < n->host.n_members; i++)
        if (n->host.members[i].id == id)
            return strcmp(n->host.members[i].name, name) == 0;
    return id != n->host.id;
}

static uint16_t feature_level(void *ctx)
{
    struct node *n = ctx;
    return atomic_load_explicit(&n->host.feature, memory_order_acquire);
}

static void on_unauthenticated(void *ctx, struct mesh_http connection)
{
    struct node *n = ctx;
    if (n->host.stopping || n->host.removed)
        mesh_http_drop(&connection);
    else
        n->options.accept_unauthenticated(n->options.ctx, connection);
}

static void on_dr(void *ctx, struct mesh_http connection, const char *peer_uri)
{
    struct node *n = ctx;
    (void)peer_uri; /* the session reads and checks the certificate */
    dr_serve_accept(&n->dr, &connection);
}

static bool on_ask_removed(void *ctx, const char *name, uint64_t id)
{
    return removed_refuses(&((struct node *)ctx)->host, name, id);
}

static void on_refused_as_removed(void *ctx, const char *name)
{
    removed_hear(&((struct node *)ctx)->removed, name);
}

static bool on_ask_superseded(void *ctx, uint64_t id)
{
    return removed_is_superseded(&((struct node *)ctx)->host, id);
}

static void on_refused_as_superseded(void *ctx, const char *name)
{
    removed_hear_superseded(&((struct node *)ctx)->removed, name);
}

enum status transport_open(struct part_host *host, struct reason *reason)
{
    struct node *n = node_of(host);
    const struct member_options *m = &n->options.member;
    ASSERT(host->mesh == NULL);
    struct mesh_options o = {
        .env = host->env,
        .address = n->options.listen_addr,
        .ca_path = m->ca_file,
        .cert_path = m->cert_file,
        .key_path = m->key_file,
        .id = host->id,
        .feature = RLOG_FEATURE,
        .events = {.receive = on_receive,
                   .gone = on_gone,
                   .http = on_http,
                   .unauthenticated =
                       n->options.accept_unauthenticated != NULL ? on_unauthenticated : NULL,
                   .dr = on_dr,
                   .removed = on_ask_removed,
                   .refused_as_removed = on_refused_as_removed,
                   .superseded = on_ask_superseded,
                   .refused_as_superseded = on_refused_as_superseded,
                   .id_allowed = id_allowed,
                   .feature = feature_level,
                   .ctx = n},
    };
    return mesh_start(&o, &host->mesh, reason);
}

static const char *configured_address(const struct part_host *host, const char *name)
{
    for (unsigned i = 0; i < host->options->n_initial_members; i++)
        if (strcmp(host->options->initial_members[i].name, name) == 0)
            return host->options->initial_members[i].address;
    return "";
}

/* The configuration may know a newer address than the member's record. */
static void add_link(const struct part_host *host, struct mesh_member *links, unsigned *count,
                     uint64_t id, const char *name, const char *address)
{
    ASSERT(id != 0);
    ASSERT(*count < MESH_MEMBERS_MAX);
    struct mesh_member *m = &links[(*count)++];
    const char *other = configured_address(host, name);
    m->id = id;
    /* cannot be cut: the name is bounded */
    (void)snprintf(m->name, sizeof m->name, "%s", name);
    /* cannot be cut: the address is bounded */
    (void)snprintf(m->address, sizeof m->address, "%s", address);
    if (strcmp(other, address) != 0)
        /* cannot be cut: the address is bounded */
        (void)snprintf(m->other, sizeof m->other, "%s", other);
}

void transport_link(struct part_host *host)
{
    ASSERT(part_on_thread(host));
    static_assert((int)RLOG_MEMBERS_MAX <= (int)MESH_MEMBERS_MAX, "members fit");
    struct mesh_member links[MESH_MEMBERS_MAX] = {0};
    unsigned count = 0;
    if (host->mesh == NULL)
        return;
    for (unsigned i = 0; i < host->n_members; i++)
        add_link(host, links, &count, host->members[i].id, host->members[i].name,
                 host->members[i].address);
    for (unsigned i = 0; host->n_members == 0 && i < host->options->n_initial_members; i++) {
        if (strcmp(host->options->initial_members[i].name, host->options->name) == 0)
            continue; /* the row is this node itself, perhaps under another id */
        add_link(host, links, &count, i + 1, host->options->initial_members[i].name,
                 host->options->initial_members[i].address);
        links[count - 1].any_id = true; /* a replaced node has another raft id */
    }
    mesh_members(host->mesh, links, count);
}

/* Callbacks of the replica */

static void on_send(void *ctx, uint64_t to, const struct bytes *parts, unsigned n_parts, bool bulk)
{
    struct node *n = ctx;
    uint8_t head[9] = {FRAME_RAFT};
    struct bytes few[16], *all = few;
    if (n_parts >= ARRAY_LEN(few))
        all = mem_alloc((n_parts + 1) * sizeof *all);
    if (all == NULL)
        return;             /* drop the frame: the network may lose any frame */
    le64_put(head + 1, to); /* another incarnation at that address refuses a frame with this id */
    all[0] = bytes_of(head, sizeof head);
    memcpy(all + 1, parts, n_parts * sizeof *parts);
    mesh_send(n->host.mesh, to, all, n_parts + 1, bulk);
    if (all != few)
        mem_free(all);
}

static void on_flush(void *ctx)
{
    struct node *n = ctx;
    mesh_flush(n->host.mesh);
}

static void on_members(void *ctx, const struct rlog_member *members, unsigned count)
{
    struct node *n = ctx;
    ASSERT(count <= ARRAY_LEN(n->host.members));
    n->host.n_members = count;
    if (count != 0)
        memcpy(n->host.members, members, count * sizeof members[0]);
    transport_link(&n->host);
}

static void on_changed(void *ctx)
{
    node_changed(ctx);
}

static void on_applied(void *ctx, uint64_t index, uint64_t version)
{
    struct node *n = ctx;
    if (n->options.published != NULL)
        n->options.published(n->options.ctx);
    if (!role_applied(&n->role, index, version))
        return;
    unseal_follow(&n->unseal);
    transport_link(&n->host); /* a member may have been removed */
    node_changed(n);
}

static void on_fatal(void *ctx, enum status why, const struct reason *reason)
{
    node_fail(ctx, why, reason);
}

/* Start and stop of the replica */

enum status transport_start_replica(struct part_host *host, bool initial, struct reason *reason)
{
    struct node *n = node_of(host);
    struct rlog_member initial_members[INITIAL_MEMBERS_MAX];
    struct rlog_options o = {
        .env = host->env,
        .dir = host->raft_dir,
        .net = {.send = on_send, .flush = on_flush, .members = on_members, .ctx = n},
        .events = {.changed = on_changed, .fatal = on_fatal, .applied = on_applied, .ctx = n},
        .initial_members = initial_members,
        .n_initial_members = initial ? bootstrap_members(host->options, initial_members) : 0,
        .election_ms = n->options.election_ms,
        .heartbeat_ms = n->options.heartbeat_ms,
        .segment_bytes = n->options.segment_bytes,
        .snapshot_log_bytes = n->options.snapshot_log_bytes,
        .state_bytes_max = n->options.state_bytes_max,
        .reserve_bytes = n->options.reserve_bytes,
        .wal_bytes_max = RLOG_WAL_BYTES,
    };
    bootstrap_identity(host, &o.identity);
    ASSERT(host->rlog == NULL);
    mark_read(host, !initial);
    if (host->mesh == NULL)
        TRY(transport_open(host, reason));
    TRY(rlog_start(&o, &host->rlog, reason));
    host->running = true;
    host->waits = false;
    host->phase = initial ? PHASE_MEMBER : PHASE_JOINING;
    host->calls->publish(host);
    quorum_await(&n->quorum);
    transport_link(host);
    node_changed(n);
    n->options.ready(n->options.ctx);
    return ST_OK;
}

static void on_port_closed(void *ctx)
{
    struct node *n = ctx;
    struct reason reason = {{0}};
    ASSERT(n->reopening);
    n->reopening = false;
    n->host.mesh = NULL;
    if (n->host.stopping)
        return; /* node.c waits until this close is done */
    enum status st = transport_start_replica(&n->host, false, &reason);
    if (st != ST_OK)
        n->host.calls->refuse(&n->host, &reason);
}

/* Close the cluster port, which uses the old raft id; then start the replica. */
enum status transport_restart_replica(struct part_host *host, struct reason *reason)
{
    ASSERT(part_on_thread(host));
    ASSERT(!host->running);
    if (host->mesh == NULL)
        return transport_start_replica(host, false, reason);
    ASSERT(!node_of(host)->reopening);
    node_of(host)->reopening = true;
    mesh_close(host->mesh, on_port_closed, node_of(host));
    return ST_OK;
}
