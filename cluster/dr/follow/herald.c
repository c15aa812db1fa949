/* The herald of a promoted cluster: it tells the former primary of the new epoch, so that a primary
 * that comes back writes no more (PROTOCOL R19). It uses the certificate that the former primary
 * gave to this cluster when it was its secondary: only a secondary that was not revoked is
 * believed.
 */
#include "cluster/dr/follow/follow_internal.h"

#include "base/trace.h"

#include <inttypes.h>

enum { HERALD_EVERY_MS = 2000, HERALD_REPLY_MS = 5000 };

/* Announce the epoch to one node. False: it does not reply. */
static bool announce(struct dr_follow *f, const char *address, struct dr_refuse *ret_reply)
{
    struct dr_frame frame = {.type = DR_HELLO};
    bool heard = false;
    if (dr_conn_dial(f->conn, address, f->tls, dr_conn_now_ms() + FOLLOW_DIAL_MS) == ST_OK) {
        frame.hello = (struct dr_hello){.protocol = DR_PROTOCOL,
                                        .feature = RLOG_FEATURE,
                                        .purpose = DR_ANNOUNCE,
                                        .epoch = f->role.epoch};
        memcpy(frame.hello.set, f->role.set, sizeof frame.hello.set);
        memcpy(frame.hello.id, f->link_id, sizeof frame.hello.id);
        heard = dr_conn_send(f->conn, &frame, dr_conn_now_ms() + FOLLOW_SEND_MS) == ST_OK &&
                dr_conn_receive(f->conn, dr_conn_now_ms() + HERALD_REPLY_MS, &frame) == ST_OK &&
                frame.type == DR_REFUSE;
    }
    if (heard)
        *ret_reply = (struct dr_refuse){.code = frame.refuse.code, .epoch = frame.refuse.epoch};
    dr_conn_close(f->conn);
    return heard;
}

/* The former primary is not believed. If it knows of a later epoch, or of another primary of this
 * one, people must decide; until then all go on. */
static void weigh(struct dr_follow *f, const char *address, const struct dr_refuse *reply)
{
    bool equal = reply->code == DR_REFUSE_CONFLICT && reply->epoch == f->role.epoch;
    if (equal || reply->epoch > f->role.epoch)
        dr_live_conflict(&f->dr->live, reply->epoch, address);
    else if (reply->code == DR_REFUSE_SUPERSEDED || reply->code == DR_REFUSE_NOT_PRIMARY)
        dr_live_agree(&f->dr->live);
}

/* Tell every node: the active one acts, and this cluster does not know which that is. */
static void tell_all(struct dr_follow *f)
{
    struct dr_refuse reply;
    for (unsigned i = 0; i < f->addresses.n && !f->thread->asked(f->thread->ctx); i++)
        if (announce(f, f->addresses.at[i], &reply)) {
            weigh(f, f->addresses.at[i], &reply);
            trace(TRACE_DEBUG, "dr", "%s was told epoch %" PRIu64 ": %s", f->addresses.at[i],
                  f->role.epoch, dr_refusal_text(reply.code));
        }
}

void dr_herald_run(const struct dr_thread *thread)
{
    struct dr_follow f = {
        .thread = thread, .dr = thread->host->dr, .reader = {.host = thread->host}};
    uint64_t version = 0;
    if (dr_conn_new(DR_SECONDARY, 0, &f.conn) != ST_OK)
        return; /* the next term tries again */
    while (thread->wait(thread->ctx, HERALD_EVERY_MS)) {
        if (follow_look(&f, &version) != ST_OK || f.role.mode != DR_MODE_PRIMARY ||
            follow_open_link(&f) != ST_OK)
            continue; /* no primary, or one that never followed another */
        tell_all(&f);
    }
    follow_done(&f);
}
