/* Heartbeats: the secondary tells its version, and hears the primary's. */
#include "cluster/dr/serve/serve_internal.h"

#include "raft/txn/rlog_wal.h"

enum { PULSE_WAIT_MS = 500, PULSE_SILENCE_MS = 15000 };

static enum status send_pong(struct dr_session *s, const struct dr_ping *ping)
{
    struct rlog_wal_stats wal;
    struct dr_frame frame = {.type = DR_PONG};
    rlog_wal_stats(rlog_wal(s->dr->host->rlog), &wal);
    frame.pong = (struct dr_pong){
        .stamp = ping->stamp,
        .version = wal.last,
        .time_ms = s->dr->host->calls->time_ms(s->dr->host),
    };
    dr_session_addresses(s, &frame.pong.addresses);
    return dr_conn_send(s->conn, &frame, dr_conn_now_ms() + DR_SEND_MS);
}

static void gone(struct dr_session *s)
{
    struct dr_facts *facts = dr_live_begin(&s->dr->live);
    struct dr_peer *peer = dr_live_peer(facts, s->peer.name.id, "");
    if (peer != NULL)
        peer->connected = false;
    dr_live_end(&s->dr->live);
}

static enum status pulse(struct dr_session *s)
{
    struct dr_frame frame;
    int64_t heard_ms = dr_conn_now_ms();
    for (;;) {
        TRY(dr_session_check(s));
        enum status st = dr_conn_receive(s->conn, dr_conn_now_ms() + PULSE_WAIT_MS, &frame);
        if (st == ST_TIMEOUT && dr_conn_now_ms() - heard_ms < PULSE_SILENCE_MS)
            continue;
        TRY(st);
        if (frame.type != DR_PING)
            return ST_INVALID;
        heard_ms = dr_conn_now_ms();
        dr_session_heard(s, &frame.ping);
        TRY(send_pong(s, &frame.ping));
    }
}

enum status dr_session_pulse(struct dr_session *s)
{
    enum status st = pulse(s);
    gone(s);
    return st;
}
