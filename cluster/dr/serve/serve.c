#include "cluster/dr/serve/serve_internal.h"

#include "base/mem.h"
#include "base/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Epochs are told to secondaries that this cluster knows: 0 says nothing. */
static bool refuse(struct dr_refuse *r, enum dr_refusal code, uint64_t epoch)
{
    *r = (struct dr_refuse){.code = (uint8_t)code, .epoch = epoch};
    return false;
}

/* The record of the secondary, which must be the one that its certificate was made for. ST_OK: it
 * may be served. ST_DENIED: a former secondary, which is believed and not served. ST_NOT_FOUND. */
static enum status find_record(struct dr_session *s, const struct store_pin *pin)
{
    CLEANUP(buf_done) struct buf record = {0};
    char key[sizeof DR_SECONDARY_PREFIX + DR_ID_MAX];
    struct dr_secondary secondary;
    int len = snprintf(key, sizeof key, "%s%s", DR_SECONDARY_PREFIX, s->peer.name.id);
    ASSERT(len > 0 && (size_t)len < sizeof key); /* ids are bounded */
    enum status st = dr_reader_read(&s->reader, pin, bytes_str(key), &record);
    if (st == ST_OK) {
        TRY(dr_secondary_decode(bytes_str(s->peer.name.id), buf_bytes(&record), &secondary));
        if (dr_secondary_has_key(&secondary, s->peer.key_sha256)) {
            s->renewed = memcmp(secondary.key_sha256, s->peer.key_sha256, 32) != 0;
            return ST_OK;
        }
        st = ST_NOT_FOUND;
    }
    if (st == ST_NOT_FOUND && dr_former_at(pin, s->peer.key_sha256))
        return ST_DENIED;
    return st;
}

/* Whether a claim of a higher epoch counts here: a primary, and a cluster that was demoted. */
static bool is_listening(const struct dr_role *role)
{
    return role->mode == DR_MODE_PRIMARY || dr_was_demoted(role);
}

static struct dr_heard claim_of(const struct dr_session *s)
{
    struct dr_heard heard = {.epoch = s->hello.epoch};
    memcpy(heard.set, s->role.set, sizeof heard.set);
    memcpy(heard.id, s->peer.name.id, sizeof heard.id);
    memcpy(heard.key_sha256, s->peer.key_sha256, sizeof heard.key_sha256);
    return heard;
}

/* A cluster that has a higher epoch was promoted meanwhile. Its claim counts, because it was not
 * revoked: the caller has found its record. Returns the highest epoch that is known. */
static uint64_t hear_epoch(struct dr_session *s)
{
    struct dr_heard heard = claim_of(s);
    if (dr_epoch_is_possible(&s->role, heard.epoch) && is_listening(&s->role))
        dr_epoch_note(&s->dr->epochs, &heard, (uint64_t)dr_conn_now_ms());
    return dr_epoch_known(&s->dr->epochs, &s->role, (uint64_t)dr_conn_now_ms());
}

/* Reply to the announcement of another primary. */
static bool judge_announcement(struct dr_session *s, uint64_t epoch, struct dr_refuse *ret_refuse)
{
    uint64_t theirs = s->hello.epoch;
    const struct dr_heard heard = claim_of(s);
    bool two = dr_epoch_announced(&s->dr->epochs, &heard, (uint64_t)dr_conn_now_ms());
    if (two && theirs == epoch) { /* two of our secondaries were promoted to one epoch */
        dr_note_conflict(s->dr, theirs, s->peer.name.id);
        return refuse(ret_refuse, DR_REFUSE_CONFLICT, epoch);
    }
    if (s->role.mode != DR_MODE_PRIMARY)
        return refuse(ret_refuse, DR_REFUSE_NOT_PRIMARY, epoch);
    if (s->role.phase == DR_PHASE_SUPERSEDED || theirs > s->role.epoch)
        return refuse(ret_refuse, DR_REFUSE_SUPERSEDED, epoch);
    if (theirs < s->role.epoch)
        return refuse(ret_refuse, DR_REFUSE_EPOCH, epoch);
    dr_note_conflict(s->dr, theirs, s->peer.name.id);
    return refuse(ret_refuse, DR_REFUSE_CONFLICT, epoch);
}

/* A demoted cluster still serves the writes that it made, and nothing else. */
static bool is_served(const struct dr_session *s)
{
    return s->role.mode == DR_MODE_PRIMARY ||
           (dr_was_demoted(&s->role) && s->hello.purpose == DR_STREAM);
}

/* Judge a secondary whose certificate counts. */
static bool judge_known(struct dr_session *s, bool former, struct dr_refuse *ret_refuse)
{
    const struct dr_hello *hello = &s->hello;
    uint64_t epoch = hear_epoch(s);
    if (hello->purpose == DR_ANNOUNCE)
        return judge_announcement(s, epoch, ret_refuse);
    if (!is_served(s))
        return refuse(ret_refuse, DR_REFUSE_NOT_PRIMARY, epoch);
    if (former)
        return refuse(ret_refuse, DR_REFUSE_ID, epoch);
    if (s->role.phase == DR_PHASE_SUPERSEDED || epoch > s->role.epoch)
        return refuse(ret_refuse, DR_REFUSE_SUPERSEDED, epoch);
    if (hello->epoch != s->role.epoch) /* lower, or higher than any that is believed */
        return refuse(ret_refuse, DR_REFUSE_EPOCH, epoch);
    uint16_t level = atomic_load_explicit(&s->dr->host->feature, memory_order_acquire);
    if (hello->feature < level)
        return refuse(ret_refuse, DR_REFUSE_FEATURE, epoch);
    return true;
}

bool dr_session_judge_at(struct dr_session *s, const struct store_pin *pin,
                         struct dr_refuse *ret_refuse)
{
    const struct dr_hello *hello = &s->hello;
    if (barrier_is_sealed(s->dr->host->barrier))
        return refuse(ret_refuse, DR_REFUSE_SEALED, 0);
    if (dr_role_at(pin, &s->role) != ST_OK || s->role.mode == DR_MODE_DISABLED)
        return refuse(ret_refuse, DR_REFUSE_NOT_PRIMARY, 0);
    if (memcmp(hello->set, s->role.set, sizeof hello->set) != 0)
        return refuse(ret_refuse, DR_REFUSE_SET, 0);
    if (strcmp(hello->id, s->peer.name.id) != 0 ||
        memcmp(s->peer.name.set, s->role.set, sizeof s->role.set) != 0)
        return refuse(ret_refuse, DR_REFUSE_ID, 0);
    enum status st = find_record(s, pin);
    if (st == ST_NOT_FOUND)
        return refuse(ret_refuse, DR_REFUSE_REVOKED, 0);
    if (st != ST_OK && st != ST_DENIED)
        return refuse(ret_refuse, st == ST_SEALED ? DR_REFUSE_SEALED : DR_REFUSE_BUSY, 0);
    return judge_known(s, st == ST_DENIED, ret_refuse);
}

bool dr_session_judge(struct dr_session *s, struct dr_refuse *ret_refuse)
{
    struct store_pin pin;
    s->role = (struct dr_role){.mode = DR_MODE_DISABLED};
    if (store_pin(rlog_store(s->dr->host->rlog), "dr session", DR_SEND_MS, &pin) != ST_OK)
        return refuse(ret_refuse, DR_REFUSE_BUSY, 0);
    bool served = dr_session_judge_at(s, &pin, ret_refuse);
    store_unpin(&pin);
    s->judged_ms = dr_conn_now_ms();
    return served;
}

static enum status send_refusal(struct dr_session *s, const struct dr_refuse *why)
{
    struct dr_frame frame = {.type = DR_REFUSE, .refuse = *why};
    trace(s->hello.purpose == DR_ANNOUNCE ? TRACE_DEBUG : TRACE_INFO, "dr",
          "secondary %s at %s is refused: %s", s->peer.name.id, dr_conn_address(s->conn),
          dr_refusal_text(why->code));
    if (s->hello.purpose != DR_ANNOUNCE) /* a refusal is the reply to an announcement */
        dr_count(&s->dr->counts.refused[why->code < DR_COUNTS_REFUSALS ? why->code : 0], 1);
    enum status st = dr_conn_send(s->conn, &frame, dr_conn_now_ms() + DR_HELLO_MS);
    return st == ST_OK ? ST_DENIED : st;
}

enum status dr_session_check(struct dr_session *s)
{
    struct dr_refuse why;
    if (s->stop)
        return ST_CLOSED;
    if (dr_conn_now_ms() - s->judged_ms < DR_JUDGE_MS)
        return ST_OK;
    dr_session_count(s);
    if (dr_session_judge(s, &why))
        return ST_OK;
    return send_refusal(s, &why);
}

void dr_session_addresses(struct dr_session *s, struct dr_addresses *ret)
{
    dr_addresses_of(s->dr, ret);
    if (s->role.address[0] != '\0' && dr_addresses_add(ret, bytes_str(s->role.address)) != ST_OK)
        trace(TRACE_WARN, "dr", "the configured address %s is left out", s->role.address);
}

void dr_session_heard(struct dr_session *s, uint64_t position)
{
    struct dr_facts *facts = dr_live_begin(&s->dr->live);
    struct dr_peer *peer = dr_live_peer(facts, s->peer.name.id, "");
    if (peer != NULL) {
        (void)snprintf(peer->connected_from, sizeof peer->connected_from, "%s",
                       dr_conn_address(s->conn)); /* addresses are bounded */
        peer->connected = true;
        peer->heard_ms = (uint64_t)dr_conn_now_ms();
        peer->heard_wall_ms = env_wall_ms(s->dr->host->env);
        peer->position = MAX(peer->position, position);
    }
    dr_live_end(&s->dr->live);
}

void dr_session_confirmed(struct dr_session *s, uint64_t version)
{
    s->position = MAX(s->position, version);
    dr_session_heard(s, s->position);
    if (s->role.mode == DR_MODE_PRIMARY)
        dr_hold_confirm(&s->dr->holds, version, (uint64_t)dr_conn_now_ms());
}

static enum status welcome(struct dr_session *s)
{
    struct rlog_wal_stats wal;
    struct dr_frame frame = {.type = DR_WELCOME};
    rlog_wal_stats(rlog_wal(s->dr->host->rlog), &wal);
    frame.welcome = (struct dr_welcome){
        .protocol = MIN(s->hello.protocol, (uint16_t)DR_PROTOCOL),
        .feature = atomic_load_explicit(&s->dr->host->feature, memory_order_acquire),
        .epoch = s->role.epoch,
        .version = wal.last,
        .time_ms = s->dr->host->calls->time_ms(s->dr->host),
        .record_ms = s->record_ms,
    };
    memcpy(frame.welcome.set, s->role.set, sizeof frame.welcome.set);
    dr_session_addresses(s, &frame.welcome.addresses);
    return dr_conn_send(s->conn, &frame, dr_conn_now_ms() + DR_HELLO_MS);
}

static enum status receive_hello(struct dr_session *s)
{
    struct dr_frame frame;
    struct dr_refuse why;
    TRY(dr_conn_peer(s->conn, &s->peer));
    TRY(dr_conn_receive(s->conn, dr_conn_now_ms() + DR_HELLO_MS, &frame));
    if (frame.type != DR_HELLO)
        return ST_INVALID;
    s->hello = frame.hello;
    s->position = frame.hello.position;
    if (!dr_session_judge(s, &why) || !dr_session_place(s, &why))
        return send_refusal(s, &why);
    return welcome(s);
}

static enum status session_run(struct dr_session *s)
{
    TRY(receive_hello(s));
    ASSERT(s->hello.purpose < DR_COUNTS_PURPOSES);
    dr_count(&s->dr->counts.served[s->hello.purpose], 1);
    switch (s->hello.purpose) {
    case DR_STREAM: return dr_session_stream(s);
    case DR_SYNC: return dr_session_sync(s);
    case DR_DIFF: return dr_session_diff(s);
    case DR_HEARTBEAT: return dr_session_pulse(s);
    default: return ST_INVALID;
    }
}

void dr_session_count(struct dr_session *s)
{
    struct dr_counts *counts = &s->dr->counts;
    struct dr_conn_stats stats;
    dr_conn_stats(s->conn, &stats);
    uint64_t sent = stats.wire_sent - s->counted;
    s->counted = stats.wire_sent;
    if (s->hello.purpose == DR_STREAM)
        dr_count(&counts->stream_bytes, sent);
    else if (s->hello.purpose == DR_SYNC || s->hello.purpose == DR_DIFF)
        dr_count(&counts->sync_bytes, sent);
}

static void *session_main(void *arg)
{
    struct dr_session *s = arg;
    enum status st;
    dr_conn_adopt(s->conn, &s->http);
    st = session_run(s);
    if (st != ST_DENIED && st != ST_CLOSED && !s->stop)
        trace(TRACE_INFO, "dr", "the connection of secondary %s from %s ended: %s%s%s",
              s->peer.name.id, dr_conn_address(s->conn), status_text(st),
              dr_conn_error(s->conn)[0] != '\0' ? ": " : "", dr_conn_error(s->conn));
    dr_session_count(s);
    dr_reader_done(&s->reader);
    dr_conn_close(s->conn);
    atomic_store(&s->ended, true);
    return NULL;
}

static void session_free(struct dr_session *s)
{
    dr_conn_free(s->conn);
    mem_free(s);
}

void dr_serve_accept(struct dr *dr, struct mesh_http *connection)
{
    struct dr_session *s = NULL;
    ASSERT(part_on_thread(dr->host));
    if (dr->host->stopping || dr->host->replica_closed || dr->host->rlog == NULL ||
        dr->n_sessions >= DR_SESSIONS_MAX || (s = mem_zalloc(sizeof *s)) == NULL ||
        dr_conn_new(DR_PRIMARY, 0, &s->conn) != ST_OK) {
        mem_free(s);
        mesh_http_drop(connection);
        return;
    }
    s->dr = dr;
    s->reader.host = dr->host;
    s->http = *connection;
    if (pthread_create(&s->thread, NULL, session_main, s) != 0) {
        mesh_http_drop(&s->http);
        session_free(s);
        return;
    }
    list_push(&dr->sessions, &s->link);
    dr->n_sessions++;
}

void dr_serve_reap(struct dr *dr)
{
    LIST_FOR_SAFE (link, next, &dr->sessions) {
        struct dr_session *s = CONTAINER_OF(link, struct dr_session, link);
        if (!atomic_load(&s->ended))
            continue;
        if (pthread_join(s->thread, NULL) != 0)
            abort(); /* the thread was started and is joined once */
        list_remove(&s->link);
        ASSERT(dr->n_sessions > 0);
        dr->n_sessions--;
        session_free(s);
    }
}

void dr_serve_cancel(struct dr *dr)
{
    LIST_FOR_SAFE (link, next, &dr->sessions) {
        struct dr_session *s = CONTAINER_OF(link, struct dr_session, link);
        atomic_store(&s->stop, true);
        dr_conn_cancel(s->conn);
    }
    if (dr->host->rlog != NULL && !dr->host->replica_closed)
        rlog_wal_wake(rlog_wal(dr->host->rlog));
}

bool dr_serve_rests(const struct dr *dr)
{
    return dr->n_sessions == 0;
}
