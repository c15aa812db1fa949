/* Addresses of the members: each node sends its own address to the leader, which stores the
 * address.
 *
 *   own record differs from the configuration ─▶ send the address, every second until it is stored
 *   leader: name and raft id of the sender are those of a member ─▶ change the member's record
 *
 * A member's record is its entry in the replica's configuration, so every node dials the newest
 * address, also after a restart. Addresses only say where to dial; the certificate says which node
 * answers. If all members moved at once, they find each other by the configured addresses
 * (part_calls.link) and store the new addresses then.
 *
 * If the leader cannot change a record now, it tries again when the node sends its address again.
 */
#include "cluster/membership/members/address.h"

#include "base/record.h"
#include "base/trace.h"
#include "text/address.h"

#include <stdio.h>

enum { ADDRESS_SAY_MS = 1000 };

struct report {
    char address[sizeof((struct rlog_member *)0)->address];
};
static const struct record_field report_fields[] = {
    RECORD_FIELD(struct report, address, TEXT, .help = "host:port of the sender's cluster port"),
};
static const struct record report_record = {
    RECORD(struct report, report_fields), .name = "member/report-address",
    .where = "A frame FRAME_REPORT", .oldest = REPORT_ADDRESS, .newest = REPORT_ADDRESS};
RECORD_LISTED(report_record);

/* Whether another node can dial the address: a wildcard such as 0.0.0.0 cannot be dialled. */
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

static void on_address_stored(struct rlog_admin *a, enum status st)
{
    struct address *s = CONTAINER_OF(a, struct address, change);
    ASSERT(s->storing);
    s->storing = false;
    if (st == ST_OK)
        trace(TRACE_INFO, "node", "%s is at %s now", a->member.name, a->member.address);
    else
        trace(TRACE_WARN, "node", "the address %s of %s was not stored: %s %s", a->member.address,
              a->member.name, status_text(st), a->reason.text);
}

static void store_address(struct address *s, const struct rlog_status *raft,
                          const struct rlog_member *member, const char *address)
{
    ASSERT(raft->is_leader);
    ASSERT(strlen(address) < sizeof member->address);
    if (s->storing || s->host->stopping || !raft->ready || !raft->members_committed)
        return;
    s->storing = true;
    s->change = (struct rlog_admin){.done = on_address_stored, .member = *member};
    (void)snprintf(s->change.member.address, sizeof s->change.member.address, "%s",
                   address); /* cannot be cut: is_reachable bounds the address */
    rlog_member_address(s->host->rlog, &s->change);
}

static void address_changed(void *self, const struct rlog_status *raft)
{
    struct address *s = self;
    const struct rlog_member *own = find_member(raft, s->host->id);
    const char *address = s->host->options->cluster_addr;
    uint64_t now = env_mono_ms(s->host->env);
    ASSERT(part_on_thread(s->host));
    ASSERT(raft->n_members <= RLOG_MEMBERS_MAX);
    if (own == NULL || raft->leader == 0 || s->host->removed ||
        strcmp(own->address, address) == 0 || !is_reachable(address) ||
        now - s->said_ms < ADDRESS_SAY_MS)
        return;
    s->said_ms = now;
    if (raft->is_leader) {
        store_address(s, raft, own, address);
        return;
    }
    CLEANUP(buf_done) struct buf said = {0};
    struct report report;
    (void)snprintf(report.address, sizeof report.address, "%s",
                   address); /* cannot be cut: is_reachable bounds the address */
    if (record_encode(&report_record, &report, &said) == ST_OK)
        s->host->calls->send(s->host, raft->leader, FRAME_REPORT, buf_bytes(&said));
}

static bool address_receive(void *self, const struct part_frame *frame)
{
    struct address *s = self;
    struct report report = {{0}};
    struct rlog_status raft;
    ASSERT(part_on_thread(s->host));
    if (frame->kind != FRAME_REPORT || frame->content.len == 0 ||
        frame->content.data[0] != REPORT_ADDRESS)
        return false;
    if (record_decode(&report_record, frame->content, NULL, &report) != ST_OK ||
        s->host->rlog == NULL || s->host->replica_closed || !is_reachable(report.address))
        return true;
    rlog_status(s->host->rlog, &raft);
    const struct rlog_member *member = find_member(&raft, frame->from);
    if (raft.is_leader && member != NULL && strcmp(member->name, frame->from_name) == 0 &&
        strcmp(member->address, report.address) != 0)
        store_address(s, &raft, member, report.address);
    return true;
}

static enum status address_start(void *self, struct part_host *host)
{
    struct address *s = self;
    ASSERT(s->host == NULL && !s->storing);
    s->host = host;
    return ST_OK;
}

const struct part address_part = {.name = "address",
                                  .start = address_start,
                                  .changed = address_changed,
                                  .receive = address_receive};
