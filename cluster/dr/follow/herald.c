/* The herald of a promoted cluster: it tells the former primary of the new epoch, so that a primary
 * that comes back writes no more (PROTOCOL R19). It uses the certificate that the former primary
 * gave to this cluster when it was its secondary: only a secondary that was not revoked is
 * believed.
 */
#include "cluster/dr/follow/follow_internal.h"

#include "base/trace.h"

#include <inttypes.h>

enum { HERALD_EVERY_MS = 2000, HERALD_REPLY_MS = 5000 };

void dr_herald_note(struct dr_herald_rest *rest, bool stands_apart, uint64_t now_ms)
{
    rest->pause_ms = !stands_apart         ? 0
                     : rest->pause_ms == 0 ? HERALD_EVERY_MS
                                           : MIN(2 * rest->pause_ms, (uint64_t)DR_HERALD_REST_MS);
    rest->due_ms = now_ms + rest->pause_ms;
}

enum reply { REPLY_NONE, REPLY_HEARD, REPLY_APART };

/* Announce the epoch to one node. REPLY_HEARD: *ret_reply is set. */
static enum reply announce(struct dr_follow *f, const char *address, struct dr_refuse *ret_reply)
{
    struct dr_frame frame = {.type = DR_HELLO};
    enum reply reply = REPLY_NONE;
    if (dr_conn_dial(f->conn, address, f->tls, dr_conn_now_ms() + FOLLOW_DIAL_MS) == ST_OK) {
        frame.hello = (struct dr_hello){.protocol = DR_PROTOCOL,
                                        .feature = RLOG_FEATURE,
                                        .purpose = DR_ANNOUNCE,
                                        .epoch = f->role.epoch};
        memcpy(frame.hello.set, f->role.set, sizeof frame.hello.set);
        memcpy(frame.hello.id, f->link_id, sizeof frame.hello.id);
        if (dr_conn_send(f->conn, &frame, dr_conn_now_ms() + FOLLOW_SEND_MS) == ST_OK &&
            dr_conn_receive(f->conn, dr_conn_now_ms() + HERALD_REPLY_MS, &frame) == ST_OK &&
            frame.type == DR_REFUSE)
            reply = REPLY_HEARD;
    } else if (strstr(dr_conn_error(f->conn), "no application protocol") != NULL) {
        reply = REPLY_APART;
    }
    dr_count(reply == REPLY_HEARD ? &f->dr->counts.heralded : &f->dr->counts.unheard, 1);
    if (reply == REPLY_HEARD)
        *ret_reply = (struct dr_refuse){.code = frame.refuse.code, .epoch = frame.refuse.epoch};
    dr_conn_close(f->conn);
    return reply;
}

/* The former primary is not believed. If it knows of a later epoch, or of another primary of this
 * one, people must decide; until then all go on. */
static void weigh(struct dr_follow *f, const char *address, const struct dr_refuse *reply)
{
    bool equal = reply->code == DR_REFUSE_CONFLICT && reply->epoch == f->role.epoch;
    if (equal || reply->epoch > f->role.epoch)
        dr_note_conflict(f->dr, reply->epoch, address);
    else if (reply->code == DR_REFUSE_SUPERSEDED || reply->code == DR_REFUSE_NOT_PRIMARY)
        dr_live_agree(&f->dr->live);
}

static void tell_one(struct dr_follow *f, const char *address, struct dr_herald_rest *rest)
{
    struct dr_refuse reply;
    uint64_t now_ms = (uint64_t)dr_conn_now_ms();
    if (strcmp(rest->address, address) != 0) {
        *rest = (struct dr_herald_rest){0};
        memcpy(rest->address, address, strlen(address) + 1); /* fits: both are addresses */
    }
    if (now_ms < rest->due_ms)
        return;
    enum reply told = announce(f, address, &reply);
    if (told == REPLY_APART && rest->pause_ms == 0)
        trace(TRACE_INFO, "dr",
              "%s is no node of a DR primary any more: it is told of epoch %" PRIu64 " less often",
              address, f->role.epoch);
    dr_herald_note(rest, told == REPLY_APART, now_ms);
    if (told != REPLY_HEARD)
        return;
    weigh(f, address, &reply);
    trace(TRACE_DEBUG, "dr", "%s was told epoch %" PRIu64 ": %s", address, f->role.epoch,
          dr_refusal_text(reply.code));
}

/* Tell every node: the active one acts, and this cluster does not know which that is. */
static void tell_all(struct dr_follow *f, struct dr_herald_rest rests[DR_ADDRESSES_MAX])
{
    for (unsigned i = 0; i < f->addresses.n && !f->thread->asked(f->thread->ctx); i++)
        tell_one(f, f->addresses.at[i], &rests[i]);
}

void dr_herald_run(const struct dr_thread *thread)
{
    struct dr_follow f = {
        .thread = thread, .dr = thread->host->dr, .reader = {.host = thread->host}};
    struct dr_herald_rest rests[DR_ADDRESSES_MAX] = {0};
    uint64_t version = 0;
    if (dr_conn_new(DR_SECONDARY, 0, &f.conn) != ST_OK)
        return; /* the next term tries again */
    while (thread->wait(thread->ctx, HERALD_EVERY_MS)) {
        if (follow_look(&f, &version) != ST_OK || f.role.mode != DR_MODE_PRIMARY ||
            follow_open_link(&f) != ST_OK)
            continue; /* no primary, or one that never followed another */
        tell_all(&f, rests);
    }
    follow_done(&f);
}
