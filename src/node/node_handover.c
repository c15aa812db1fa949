/* To whom this node gives leadership: a voter that can be active (PROTOCOL R17).
 *
 * Every node tells the leader whether it is unsealed, at which address clients reach it and what
 * version it is: once a second, and when there is another leader. A sealed leader serves no
 * request, so it transfers leadership to a voter that is known to be unsealed. */
#include "node/node_internal.h"

#include "base/trace.h"
#include "text/utf8.h"

#include <stdio.h>

enum {
    SAY_EVERY_MS = 1000,
    HEARD_FOR_MS = 3000,
    RETRY_MIN_MS = 1000,        /* between two attempts of a sealed leader, doubled each time */
    RETRY_MAX_MS = 60000,       /* and at last */
    RETRY_REST_MS = 10 * 60000, /* without an attempt: the next is the first again */
};

/* To the leader, unless it is us. */
static void say_seal(struct node *n, const struct rlog_status *raft)
{
    uint64_t now = env_mono_ms(n->host.env);
    uint8_t unsealed = barrier_is_sealed(n->host.barrier) ? 0 : 1;
    bool news = raft->leader != n->told_leader || unsealed != n->told_unsealed;
    if (raft->leader == 0 || raft->is_leader || (!news && now - n->told_ms < SAY_EVERY_MS))
        return;
    CLEANUP(buf_done) struct buf said = {0};
    buf_add_u8(&said, REPORT_SEALED);
    buf_add_u8(&said, unsealed);
    buf_add_block(&said, bytes_str(n->options.api_addr));
    buf_add_block(&said, bytes_str(n->options.version));
    if (buf_status(&said) != ST_OK)
        return; /* the next tick tries again */
    n->told_leader = raft->leader;
    n->told_unsealed = unsealed;
    n->told_ms = now;
    node_send(n, raft->leader, FRAME_REPORT, buf_bytes(&said));
}

static void copy_block(char *to, size_t room, struct bytes from)
{
    size_t len = from.len < room && text_printable(from) ? from.len : 0;
    memcpy(to, from.data, len);
    to[len] = '\0';
}

void node_handover_hear(struct node *n, uint64_t from, const char *from_name, struct bytes content)
{
    struct reader r = reader_of(content);
    uint8_t format = reader_u8(&r), unsealed = reader_u8(&r);
    struct bytes api_addr = BYTES(""), version = BYTES("");
    if (format == REPORT_ADDRESS) {
        node_address_hear(n, from, from_name, content);
        return;
    }
    if (format == REPORT_SEALED) {
        api_addr = reader_block(&r);
        version = reader_block(&r);
    }
    if (reader_end(&r) != ST_OK || format == 0 || format > REPORT_SEALED)
        return; /* of a later version */
    struct node_heard *oldest = &n->heard[0];
    for (unsigned i = 0; i < RLOG_MEMBERS_MAX; i++) {
        struct node_heard *h = &n->heard[i];
        if (h->id == from) {
            oldest = h;
            break;
        }
        if (h->ms < oldest->ms)
            oldest = h;
    }
    uint64_t now = env_mono_ms(n->host.env);
    int64_t wall = env_wall_ms(n->host.env);
    bool steady = oldest->id == from && now - oldest->ms <= HEARD_FOR_MS;
    pthread_mutex_lock(&n->lock);
    *oldest = (struct node_heard){
        .id = from,
        .unsealed = unsealed == 1,
        .ms = now,
        .wall_ms = wall,
        .steady_ms = steady ? oldest->steady_ms : wall,
    };
    copy_block(oldest->api_addr, sizeof oldest->api_addr, api_addr);
    copy_block(oldest->version, sizeof oldest->version, version);
    pthread_mutex_unlock(&n->lock);
}

static void copy_text(char *to, size_t room, const char *from)
{
    (void)snprintf(to, room, "%s", from); /* both were bounded when they came in */
}

static void describe(const struct node *n, unsigned at, struct node_peer *ret)
{
    const struct rlog_status *raft = &n->status.raft;
    const struct rlog_member *m = &raft->members[at];
    *ret = (struct node_peer){.active = n->status.active && m->id == n->host.id,
                              .reached = node_quorum_reaches(n, m->id),
                              .last_index = raft->match[at],
                              .last_term = raft->match_term[at]};
    copy_text(ret->name, sizeof ret->name, m->name);
    copy_text(ret->cluster_address, sizeof ret->cluster_address, m->address);
    if (m->id == n->host.id) {
        copy_text(ret->api_address, sizeof ret->api_address, n->options.api_addr);
        copy_text(ret->version, sizeof ret->version, n->options.version);
    }
    for (unsigned i = 0; m->id != n->host.id && i < RLOG_MEMBERS_MAX; i++)
        if (n->heard[i].id == m->id) {
            copy_text(ret->api_address, sizeof ret->api_address, n->heard[i].api_addr);
            copy_text(ret->version, sizeof ret->version, n->heard[i].version);
            ret->heard_ms = n->heard[i].wall_ms;
            ret->steady_ms = n->heard[i].steady_ms;
        }
}

unsigned node_peers(struct node *node, struct node_peer ret_peers[static RLOG_MEMBERS_MAX])
{
    pthread_mutex_lock(&node->lock);
    unsigned n = node->status.raft.n_members;
    ASSERT(n <= RLOG_MEMBERS_MAX);
    for (unsigned i = 0; i < n; i++)
        describe(node, i, &ret_peers[i]);
    pthread_mutex_unlock(&node->lock);
    return n;
}

static bool is_unsealed(struct node *n, uint64_t id)
{
    uint64_t now = env_mono_ms(n->host.env);
    for (unsigned i = 0; i < RLOG_MEMBERS_MAX; i++)
        if (n->heard[i].id == id)
            return n->heard[i].unsealed && now - n->heard[i].ms <= HEARD_FOR_MS;
    return false;
}

uint64_t node_handover_target(struct node *n)
{
    struct rlog_status raft;
    rlog_status(n->host.rlog, &raft);
    for (unsigned i = 0; i < raft.n_members; i++) {
        const struct rlog_member *m = &raft.members[i];
        if (m->id != n->host.id && m->role == RLOG_VOTER && is_unsealed(n, m->id))
            return m->id;
    }
    return 0;
}

static void on_transferred(struct rlog_admin *a, enum status st)
{
    struct node *n = CONTAINER_OF(a, struct node, transfer);
    n->transferring = false;
    if (st != ST_OK)
        trace(TRACE_WARN, "node", "leadership was not handed over: %s", status_text(st));
}

/* Bounded, so that nodes that lose their seal again and again do not keep the cluster busy. */
static bool is_due(struct node *n, uint64_t now)
{
    if (n->transferred_ms != 0 && now - n->transferred_ms < n->transfer_wait_ms)
        return false;
    bool rested = n->transferred_ms == 0 || now - n->transferred_ms > RETRY_REST_MS;
    n->transfer_wait_ms =
        rested ? RETRY_MIN_MS : (unsigned)MIN(2 * n->transfer_wait_ms, (unsigned)RETRY_MAX_MS);
    n->transferred_ms = now;
    return true;
}

static void hand_over_if_sealed(struct node *n, const struct rlog_status *raft)
{
    if (!raft->is_leader || !n->status.initialized || !barrier_is_sealed(n->host.barrier) ||
        n->transferring)
        return;
    uint64_t target = node_handover_target(n);
    if (target == 0 || !is_due(n, env_mono_ms(n->host.env)))
        return;
    trace(TRACE_WARN, "node", "leads, but is sealed: hands over to another node");
    n->transferring = true;
    n->transfer = (struct rlog_admin){.done = on_transferred, .member.id = target};
    rlog_transfer(n->host.rlog, &n->transfer);
}

void node_handover_look(struct node *n, const struct rlog_status *raft)
{
    ASSERT(n->host.rlog != NULL);
    say_seal(n, raft);
    hand_over_if_sealed(n, raft);
}
