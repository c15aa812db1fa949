/* Where the members are: each tells its own address to the leader, who stores it.
 *
 *   own record differs from what is configured ─▶ tell the leader, every second until it agrees
 *   leader: the certificate's name and the raft id are that member's ─▶ change its record
 *
 * A member's record is its entry in the replica's configuration, so every node, and every later
 * start, dials the newest address. Addresses decide nothing else: who a node is, its certificate
 * says. A cluster whose members all moved at once finds together by the addresses that are
 * configured (node_mesh_link), and stores the new ones then.
 *
 * A record that cannot be changed now is tried again with the next announcement. */
#include "node/node_internal.h"

#include "base/trace.h"
#include "text/address.h"

#include <stdio.h>

enum { ADDRESS_SAY_MS = 1000 };

/* One that another node could dial: not "listen everywhere". */
static bool is_reachable(const char *address)
{
    char host[TEXT_HOST_MAX];
    uint16_t port;
    return text_address_split(address, host, &port) == ST_OK && strcmp(host, "0.0.0.0") != 0 &&
           strcmp(host, "::") != 0 && strlen(address) < sizeof((struct rlog_member *)0)->address;
}

static const struct rlog_member *find_member(const struct rlog_status *raft, uint64_t id)
{
    for (unsigned i = 0; i < raft->n_members; i++)
        if (raft->members[i].id == id)
            return &raft->members[i];
    return NULL;
}

static void on_stored(struct rlog_admin *a, enum status st)
{
    struct node *n = CONTAINER_OF(a, struct node, address);
    n->storing_address = false;
    if (st == ST_OK)
        trace(TRACE_INFO, "node", "%s is at %s now", a->member.name, a->member.address);
    else
        trace(TRACE_WARN, "node", "the address %s of %s was not stored: %s %s", a->member.address,
              a->member.name, status_text(st), a->reason.text);
}

static void store(struct node *n, const struct rlog_status *raft, const struct rlog_member *member,
                  const char *address)
{
    if (n->storing_address || n->host.stopping || !raft->ready || !raft->members_committed)
        return;
    n->storing_address = true;
    n->address = (struct rlog_admin){.done = on_stored, .member = *member};
    (void)snprintf(n->address.member.address, sizeof n->address.member.address, "%s",
                   address); /* bounded: is_reachable */
    rlog_member_address(n->host.rlog, &n->address);
}

void node_address_look(struct node *n, const struct rlog_status *raft)
{
    const struct rlog_member *self = find_member(raft, n->host.id);
    const char *address = n->options.cluster_addr;
    uint64_t now = env_mono_ms(n->host.env);
    if (self == NULL || raft->leader == 0 || n->host.removed ||
        strcmp(self->address, address) == 0 || !is_reachable(address) ||
        now - n->address_said_ms < ADDRESS_SAY_MS)
        return;
    n->address_said_ms = now;
    if (raft->is_leader) {
        store(n, raft, self, address);
        return;
    }
    CLEANUP(buf_done) struct buf said = {0};
    buf_add_u8(&said, REPORT_ADDRESS);
    buf_add_block(&said, bytes_str(address));
    if (buf_status(&said) == ST_OK)
        node_send(n, raft->leader, FRAME_REPORT, buf_bytes(&said));
}

void node_address_hear(struct node *n, uint64_t from, const char *from_name, struct bytes content)
{
    char address[sizeof((struct rlog_member *)0)->address];
    struct reader r = reader_of(content);
    struct rlog_status raft;
    (void)reader_u8(&r); /* REPORT_ADDRESS */
    struct bytes said = reader_block(&r);
    if (reader_end(&r) != ST_OK || said.len >= sizeof address || n->host.rlog == NULL ||
        n->host.replica_closed)
        return;
    memcpy(address, said.data, said.len);
    address[said.len] = '\0';
    if (strlen(address) != said.len || !is_reachable(address))
        return;
    rlog_status(n->host.rlog, &raft);
    const struct rlog_member *member = find_member(&raft, from);
    if (raft.is_leader && member != NULL && strcmp(member->name, from_name) == 0 &&
        strcmp(member->address, address) != 0)
        store(n, &raft, member, address);
}
