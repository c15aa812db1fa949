#include "cluster/dr/epoch.h"
#include "cluster/dr/follow/follow_internal.h"

#include "base/trace.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

enum status follow_look(struct dr_follow *f, uint64_t *ret_version)
{
    struct store_pin pin;
    TRY(store_pin(rlog_store(f->thread->host->rlog), "dr follow", 0, &pin));
    enum status st = dr_role_at(&pin, &f->role);
    f->record_ms = dr_applied_ms(&pin);
    *ret_version = pin.version;
    store_unpin(&pin);
    return st;
}

bool follow_unchanged(const struct dr_follow *f, const struct dr_role *now)
{
    return now->mode == f->role.mode && now->phase == f->role.phase &&
           now->epoch == f->role.epoch && memcmp(now->set, f->role.set, sizeof now->set) == 0 &&
           strcmp(now->id, f->role.id) == 0;
}

void follow_tell(struct dr_follow *f, enum dr_connection state, const char *why)
{
    struct dr_facts *facts = dr_live_begin(&f->dr->live);
    facts->connection = state;
    if (why != NULL || state != DR_LINK_CONNECTING) /* until then the last failure is the reason */
        (void)snprintf(facts->why, sizeof facts->why, "%s",
                       why != NULL ? why : ""); /* may be cut */
    if (state != DR_LINK_READY)
        facts->connected_to[0] = '\0';
    dr_live_end(&f->dr->live);
}

enum status follow_open_link(struct dr_follow *f)
{
    CLEANUP(buf_done) struct buf record = {0};
    CLEANUP(buf_done) struct buf addresses = {0};
    struct store_pin pin;
    struct reason why = {{0}};
    TRY(store_pin(rlog_store(f->thread->host->rlog), "dr follow", 0, &pin));
    enum status st = dr_reader_read(&f->reader, &pin, BYTES(DR_LINK), &record);
    if (st == ST_OK)
        st = dr_reader_read(&f->reader, &pin, BYTES(DR_ADDRESSES), &addresses);
    if (st == ST_OK)
        f->link_version = store_newest(&pin, BYTES(DR_LINK));
    store_unpin(&pin);
    TRY(st);
    dr_link_record_done(&f->link);
    TRY(dr_link_decode(buf_bytes(&record), &f->link));
    TRY(dr_addresses_decode(buf_bytes(&addresses), &f->addresses));
    if (f->role.mode == DR_MODE_SECONDARY && f->role.address[0] != '\0' &&
        !dr_addresses_has(&f->addresses, f->role.address) &&
        dr_addresses_add(&f->addresses, bytes_str(f->role.address)) != ST_OK)
        trace(TRACE_DEBUG, "dr", "the address %s is left out", f->role.address);
    const struct dr_cert_own own = {.ca = buf_bytes(&f->link.ca),
                                    .cert = buf_bytes(&f->link.own.cert),
                                    .key = buf_bytes(&f->link.own.key)};
    struct dr_name name;
    TRY(dr_cert_name(own.cert, &name));
    memcpy(f->link_id, name.id, sizeof f->link_id);
    TRY(cert_not_after(own.cert, &f->cert_ends_s));
    dr_live_begin(&f->dr->live)->cert_ends_s = f->cert_ends_s;
    dr_live_end(&f->dr->live);
    tls_ctx_unref(f->tls);
    f->tls = NULL;
    st = dr_cert_tls(&own, &f->tls, &why);
    if (st != ST_OK)
        trace(TRACE_ERROR, "dr", "the certificate of this secondary cannot be used: %s",
              why.text[0] != '\0' ? why.text : status_text(st));
    return st;
}

/* Judge a WELCOME: the primary's set and epoch are ours. */
static enum status judge_welcome(struct dr_follow *f, const struct dr_welcome *w)
{
    if (memcmp(w->set, f->role.set, sizeof w->set) != 0 || w->epoch != f->role.epoch) {
        follow_tell(f, DR_LINK_FAILED, "the primary answers for another set or epoch");
        return ST_DENIED;
    }
    if (w->feature > RLOG_FEATURE) {
        follow_tell(f, DR_LINK_FAILED, "the primary has a later feature level than this build");
        return ST_DENIED;
    }
    f->told_record_ms = w->record_ms;
    struct dr_facts *facts = dr_live_begin(&f->dr->live);
    facts->primary_version = MAX(facts->primary_version, w->version);
    facts->primary_time_ms = w->time_ms;
    facts->primary_heard_ms = (uint64_t)dr_conn_now_ms();
    facts->halted = false;
    facts->started_wall_ms = env_wall_ms(f->thread->env);
    (void)snprintf(facts->connected_to, sizeof facts->connected_to, "%s",
                   dr_conn_address(f->conn)); /* addresses are bounded */
    dr_live_end(&f->dr->live);
    return ST_OK;
}

/* The primary knows of a higher epoch: another cluster was promoted. */
struct learn {
    uint8_t set[DR_SET_BYTES];
    uint64_t epoch;
};

static enum status stage_learn(struct state_txn *txn, void *arg, int64_t now_ms)
{
    const struct learn *l = arg;
    struct reason why = {{0}};
    (void)now_ms;
    enum status st = dr_epoch_learn(txn, l->set, l->epoch, &why);
    return st == ST_INVALID ? ST_OK : st; /* the role has changed, or has the epoch already */
}

static enum status learn_epoch(struct dr_follow *f, uint64_t epoch)
{
    struct learn l = {.epoch = epoch};
    memcpy(l.set, f->role.set, sizeof l.set);
    trace(TRACE_WARN, "dr", "%s knows of epoch %" PRIu64 ", above this cluster's %" PRIu64,
          dr_conn_address(f->conn), epoch, f->role.epoch);
    return f->thread->transact(f->thread->ctx, stage_learn, &l);
}

/* Following has ended until people act: this state cannot follow the primary's, or the primary
 * revoked this secondary. */
static void halt(struct dr_follow *f, const char *why, bool revoked)
{
    struct dr_facts *facts = dr_live_begin(&f->dr->live);
    bool before = facts->halted;
    facts->halted = true;
    dr_live_end(&f->dr->live);
    if (!before)
        trace(TRACE_ERROR, "dr",
              "%s. This cluster does not follow. Promote it, or make it follow by update-primary "
              "with a %stoken of the primary%s",
              why, revoked ? "new " : "",
              revoked ? "" : ", which discards what only this cluster has");
}

static enum status note_why(struct dr_follow *f, const struct dr_refuse *r)
{
    char text[DR_TEXT_MAX + 1];
    uint8_t code = r->code; /* the frame is gone after the next call on the connection */
    uint64_t epoch = r->epoch;
    (void)snprintf(text, sizeof text, "%s refuses: %s", dr_conn_address(f->conn),
                   dr_refusal_text(code)); /* may be cut */
    follow_tell(f, DR_LINK_FAILED, text);
    f->verdict = code == DR_REFUSE_AHEAD      ? FOLLOW_AHEAD
                 : code == DR_REFUSE_DIVERGED ? FOLLOW_DIVERGED
                                              : FOLLOW_FITS;
    bool revoked = code == DR_REFUSE_REVOKED || code == DR_REFUSE_ID;
    if (f->verdict != FOLLOW_FITS || revoked)
        halt(f, text, revoked);
    if (f->role.mode == DR_MODE_SECONDARY && dr_epoch_is_possible(&f->role, epoch))
        TRY(learn_epoch(f, epoch));
    return ST_DENIED;
}

enum status follow_receive(struct dr_follow *f, struct dr_frame *ret_frame)
{
    enum status st = ST_TIMEOUT;
    while (st == ST_TIMEOUT) {
        if (f->thread->asked(f->thread->ctx))
            return ST_CLOSED;
        st = dr_conn_receive(f->conn, dr_conn_now_ms() + FOLLOW_LOOK_MS, ret_frame);
    }
    return st;
}

/* Tell why a connection failed, and how an expired certificate is mended: no heartbeat renews it.
 */
static void tell_failure(struct dr_follow *f, const char *address)
{
    char text[DR_TEXT_MAX + 1];
    const char *error = dr_conn_error(f->conn), *advice = "";
    if (f->cert_ends_s <= env_wall_ms(f->thread->env) / 1000)
        advice = ". The certificate of this secondary has expired: update-primary with a new token "
                 "of the primary gives it another one";
    else if (strstr(error, "expired") != NULL)
        advice = ". A certificate has expired by the clock of the other side: compare the clocks, "
                 "and the certificates of both cluster ports; update-primary with a new token of "
                 "the primary gives this secondary another one";
    (void)snprintf(text, sizeof text, "%s: %s%s", address,
                   error[0] != '\0' ? error : "the primary closed the connection",
                   advice); /* may be cut */
    follow_tell(f, DR_LINK_FAILED, text);
}

enum status follow_greet(struct dr_follow *f, enum dr_purpose purpose, uint64_t position)
{
    struct dr_frame frame = {.type = DR_HELLO};
    if (f->addresses.n == 0)
        return ST_NOT_FOUND;
    const char *address = f->addresses.at[f->next++ % f->addresses.n];
    follow_tell(f, DR_LINK_CONNECTING, NULL);
    enum status st = dr_conn_dial(f->conn, address, f->tls, dr_conn_now_ms() + FOLLOW_DIAL_MS);
    if (st != ST_OK) {
        tell_failure(f, address);
        return st;
    }
    frame.hello = (struct dr_hello){.protocol = DR_PROTOCOL,
                                    .feature = RLOG_FEATURE,
                                    .purpose = (uint8_t)purpose,
                                    .epoch = f->role.epoch,
                                    .position = position,
                                    .record_ms = f->record_ms};
    memcpy(frame.hello.set, f->role.set, sizeof frame.hello.set);
    memcpy(frame.hello.id, f->role.id, sizeof frame.hello.id);
    st = dr_conn_send(f->conn, &frame, dr_conn_now_ms() + FOLLOW_SEND_MS);
    if (st == ST_OK)
        st = follow_receive(f, &frame);
    if (st != ST_OK) {
        tell_failure(f,
                     address); /* TLS 1.3: the primary judges our certificate after the handshake */
        return st;
    }
    if (frame.type == DR_REFUSE)
        return note_why(f, &frame.refuse);
    return frame.type == DR_WELCOME ? judge_welcome(f, &frame.welcome) : ST_INVALID;
}

/* A sync is needed: the records behind our version are gone, or the primary replaced its state. */
static enum status stage_resync(struct state_txn *txn, void *arg, int64_t now_ms)
{
    struct dr_follow *f = arg;
    struct reason why = {{0}};
    struct dr_role now;
    (void)now_ms;
    TRY(dr_role_read(txn, &now));
    if (!follow_unchanged(f, &now))
        return ST_OK; /* an operator was faster */
    const struct dr_primary same = {
        .epoch = now.epoch, .id = f->role.id, .address = f->role.address};
    struct dr_primary primary = same;
    memcpy(primary.set, now.set, sizeof primary.set);
    enum status st = dr_role_resync(txn, &primary, &why);
    if (st != ST_OK)
        trace(TRACE_WARN, "dr", "no sync can begin: %s", why.text);
    return st;
}

/* A state that is whole needs only what differs. Where the comparison fails again and again, as it
 * does if too much differs, the whole state comes. */
static enum status sync_some(struct dr_follow *f, uint64_t version)
{
    bool whole = f->role.whole && f->diffs_failed < FOLLOW_DIFFS;
    struct dr_counts *counts = &f->dr->counts;
    struct dr_conn_stats before, after;
    dr_conn_stats(f->conn, &before);
    _Atomic bool *staging = &f->thread->host->staging;
    atomic_store(staging, true); /* the staged tree has an owner, however slow the line is */
    enum status st = whole ? follow_diff(f, version) : follow_sync(f, version);
    atomic_store(staging, false);
    dr_conn_stats(f->conn, &after);
    dr_count(&counts->received_bytes, after.wire_received - before.wire_received);
    if (st == ST_OK && !whole)
        dr_count(&counts->syncs_whole, 1);
    else if (st != ST_OK)
        dr_count(&counts->syncs_failed, 1);
    if (st == ST_OK)
        f->because = FOLLOW_APART;
    if (!whole && st != ST_OK)
        return st;
    if (st == ST_TOO_BIG || st == ST_CORRUPT || st == ST_UNSUPPORTED)
        f->diffs_failed = FOLLOW_DIFFS;
    else if (st == ST_OK)
        f->diffs_failed = 0;
    else if (st != ST_DENIED && st != ST_CLOSED && st != ST_IO)
        f->diffs_failed++;
    return st;
}

/* End the heartbeats: the nodes that they go to are no longer those of this cluster's primary. */
static void end_pulses(struct dr_follow *f)
{
    if (f->pulses == NULL)
        return;
    pulses_stop(f->pulses);
    f->pulses = NULL;
    dr_live_forget_primary(&f->dr->live);
}

static enum status follow_once(struct dr_follow *f)
{
    uint64_t version = 0;
    TRY(follow_look(f, &version));
    if (f->role.mode != DR_MODE_SECONDARY || f->role.phase == DR_PHASE_IDLE) {
        follow_tell(f, DR_LINK_IDLE, NULL);
        end_pulses(f);
        f->pause_ms = FOLLOW_PAUSE_MS;
        return ST_NOT_FOUND;
    }
    TRY(follow_open_link(f));
    if (f->pulses != NULL && !pulses_fit(f->pulses, f))
        end_pulses(f);
    if (f->pulses == NULL)
        TRY(pulses_start(f, &f->pulses));
    f->verdict = FOLLOW_FITS;
    enum status st =
        f->role.phase == DR_PHASE_SYNCING ? sync_some(f, version) : follow_stream(f, version);
    dr_conn_close(f->conn);
    if (st == ST_CONFLICT && f->role.phase == DR_PHASE_STREAMING)
        st = f->thread->transact(f->thread->ctx, stage_resync, f);
    return st;
}

void follow_done(struct dr_follow *f)
{
    pulses_stop(f->pulses);
    dr_conn_free(f->conn);
    tls_ctx_unref(f->tls);
    dr_link_record_done(&f->link);
    dr_reader_done(&f->reader);
}

void dr_follow_run(const struct dr_thread *thread)
{
    struct dr_follow f = {.thread = thread,
                          .dr = thread->host->dr,
                          .reader = {.host = thread->host},
                          .pause_ms = FOLLOW_PAUSE_MS};
    if (dr_conn_new(DR_SECONDARY, 0, &f.conn) != ST_OK) {
        trace(TRACE_ERROR, "dr", "out of memory: this term does not follow the primary");
        return;
    }
    do {
        enum status st = follow_once(&f);
        f.pause_ms = st == ST_OK || st == ST_NOT_FOUND
                         ? FOLLOW_PAUSE_MS
                         : MIN(2 * f.pause_ms, (uint64_t)FOLLOW_PAUSE_MAX_MS);
    } while (thread->wait(thread->ctx, f.pause_ms));
    follow_tell(&f, DR_LINK_ENDED, NULL);
    follow_done(&f);
}
