/* Heartbeats: the secondary tells its version, and hears the primary's. In sync mode it sends its
 * acknowledgements here too: the stream may come from another node than the active one, where the
 * replies wait (hold.h). */
#include "cluster/dr/serve/serve_internal.h"

#include "raft/txn/rlog_wal.h"

#include <time.h>

enum { PULSE_WAIT_MS = 500, PULSE_SILENCE_MS = 15000, RENEW_MS = 10000, RENEW_STEP_MS = 20 };

/* The echo of our own stamp tells how old the newest version is that the secondary has, whatever
 * the clock of its node says. Adds to the reply what this node found about the roots. */
static void note_ping(struct dr_session *s, const struct dr_ping *ping, struct dr_pong *pong)
{
    uint64_t now_ms = (uint64_t)dr_conn_now_ms();
    bool sane = ping->echo != 0 && ping->echo <= now_ms && ping->held_ms <= now_ms - ping->echo;
    dr_session_heard(s, ping->position);
    struct dr_facts *facts = dr_live_begin(&s->dr->live);
    struct dr_peer *peer = dr_live_peer(facts, s->peer.name.id, "");
    if (peer != NULL) {
        peer->lag_ms = sane ? (int64_t)(now_ms - ping->echo - ping->held_ms) : -1;
        peer->behind_bytes = pong->behind;
        peer->settled = MAX(peer->settled, ping->settled);
        dr_live_set_place(peer, ping->api, ping->cluster);
        pong->verified = peer->verified;
        pong->differs = peer->differs;
        peer->round_trip_us = MIN(ping->trip_us, (uint64_t)PULSE_SILENCE_MS * 1000);
        peer->skew_ms =
            ping->wall_ms + (int64_t)(peer->round_trip_us / 2000) - env_wall_ms(s->dr->host->env);
    }
    dr_live_end(&s->dr->live);
}

/* Bytes of records that this node has and the secondary lacks. */
static uint64_t bytes_behind(const struct dr_session *s, uint64_t position)
{
    struct rlog_wal_place place;
    enum status st = rlog_wal_find(rlog_wal(s->dr->host->rlog), position, &place);
    return st == ST_OK || st == ST_CONFLICT ? place.behind : 0;
}

/* The active node renews: a new certificate needs a write. Certificates are judged by wall clocks.
 */
static bool is_due(const struct dr_session *s)
{
    return atomic_load(&s->dr->kept) && s->role.phase == DR_PHASE_RUNNING &&
           dr_cert_due(s->peer.not_after_s, env_wall_ms(s->dr->host->env) / 1000);
}

/* Let the active node's service make a certificate, and send it. */
static enum status session_renew(struct dr_session *s, const struct dr_cert_request *request)
{
    CLEANUP(buf_done) struct buf pem = {0};
    int64_t until_ms = dr_conn_now_ms() + RENEW_MS;
    enum status st = ST_NOT_FOUND;
    TRY(dr_renewal_ask(&s->dr->renewal, s, &s->peer, request->public_pem));
    while (st == ST_NOT_FOUND && !s->stop && dr_conn_now_ms() < until_ms) {
        const struct timespec step = {.tv_nsec = RENEW_STEP_MS * 1000000L};
        (void)nanosleep(&step, NULL); /* a signal ends one step early */
        st = dr_renewal_take(&s->dr->renewal, s, &pem);
    }
    dr_renewal_drop(&s->dr->renewal, s);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_TIMEOUT : st;
    struct dr_frame frame = {.type = DR_CERT, .cert = {buf_bytes(&pem)}};
    return dr_conn_send(s->conn, &frame, dr_conn_now_ms() + DR_SEND_MS);
}

static enum status send_pong(struct dr_session *s, const struct dr_ping *ping)
{
    struct rlog_wal_stats wal;
    struct dr_frame frame = {.type = DR_PONG};
    uint64_t own = (uint64_t)dr_conn_now_ms(); /* before the version: the age is never too low */
    rlog_wal_stats(rlog_wal(s->dr->host->rlog), &wal);
    frame.pong = (struct dr_pong){
        .stamp = ping->stamp,
        .version = wal.last,
        .time_ms = s->dr->host->calls->time_ms(s->dr->host),
        .own = MAX(own, 1U),
        .wall_ms = env_wall_ms(s->dr->host->env),
        .behind = bytes_behind(s, ping->position),
    };
    frame.pong.api = dr_url(s->dr->host->options->api_addr);
    frame.pong.renew = is_due(s);
    frame.pong.confirm = atomic_load(&s->dr->holds.on);
    note_ping(s, ping, &frame.pong);
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
        heard_ms = dr_conn_now_ms();
        if (s->renewed && atomic_load(&s->dr->kept))
            dr_renewal_used(&s->dr->renewal, &s->peer);
        switch (frame.type) {
        case DR_PING: TRY(send_pong(s, &frame.ping)); break;
        case DR_ACK: dr_session_confirmed(s, frame.ack.version); break;
        case DR_CERT_REQUEST: TRY(session_renew(s, &frame.cert_request)); break;
        default: return ST_INVALID;
        }
    }
}

enum status dr_session_pulse(struct dr_session *s)
{
    enum status st = pulse(s);
    gone(s);
    return st;
}
