/* Renewal of this secondary's certificate. The primary says in a PONG that it is due: one thread of
 * the heartbeats makes a key and asks (renew_ask); the thread that follows stores key and
 * certificate at once (follow_renew) and connects anew. The old certificate counts until the new
 * one was used, so nothing is lost if either side ends in between. */
#include "cluster/dr/follow/follow_internal.h"

#include "base/trace.h"

enum { RENEW_REPLY_MS = 15000 };

enum status renew_ask(struct dr_conn *conn, struct cert_pair *ret_pair)
{
    CLEANUP(buf_done) struct buf public_pem = {0};
    CLEANUP(cert_pair_done) struct cert_pair made = {0};
    struct dr_frame frame = {.type = DR_CERT_REQUEST};
    TRY(cert_key_make(&made.key, &public_pem));
    frame.cert_request.public_pem = buf_bytes(&public_pem);
    TRY(dr_conn_send(conn, &frame, dr_conn_now_ms() + FOLLOW_SEND_MS));
    TRY(dr_conn_receive(conn, dr_conn_now_ms() + RENEW_REPLY_MS, &frame));
    if (frame.type != DR_CERT)
        return frame.type == DR_REFUSE ? ST_DENIED : ST_INVALID;
    buf_add(&made.cert, frame.cert.pem);
    TRY(buf_status(&made.cert));
    *ret_pair = made;
    made = (struct cert_pair){0};
    return ST_OK;
}

/* Whether the certificate is one for this secondary and the new key. */
static enum status check_pair(const struct dr_follow *f, const struct cert_pair *pair)
{
    struct dr_name was, is;
    struct tls_ctx *tls = NULL;
    struct reason why = {{0}};
    const struct dr_cert_own own = {
        .ca = buf_bytes(&f->link.ca), .cert = buf_bytes(&pair->cert), .key = buf_bytes(&pair->key)};
    TRY(dr_cert_name(buf_bytes(&f->link.own.cert), &was));
    TRY(dr_cert_name(own.cert, &is));
    if (memcmp(was.cluster, is.cluster, sizeof is.cluster) != 0 ||
        memcmp(was.set, is.set, sizeof is.set) != 0 || strcmp(was.id, is.id) != 0)
        return ST_INVALID;
    enum status st = dr_cert_tls(&own, &tls, &why); /* checks that key and certificate match */
    tls_ctx_unref(tls);
    return st;
}

struct renewed {
    struct dr_follow *f;
    struct cert_pair *pair;
};

static enum status stage_renewed(struct state_txn *txn, void *arg, int64_t now_ms)
{
    CLEANUP(dr_link_record_done) struct dr_link_record link = {0};
    const struct renewed *r = arg;
    struct dr_role now;
    (void)now_ms;
    TRY(dr_role_read(txn, &now));
    TRY(dr_link_get(txn, &link));
    if (!follow_unchanged(r->f, &now) ||
        !bytes_eq(buf_bytes(&link.own.cert), buf_bytes(&r->f->link.own.cert)))
        return ST_DENIED; /* an operator changed the link meanwhile */
    buf_clear(&link.own.cert);
    buf_clear(&link.own.key);
    buf_add(&link.own.cert, buf_bytes(&r->pair->cert));
    buf_add(&link.own.key, buf_bytes(&r->pair->key));
    TRY(buf_status(&link.own.cert));
    TRY(buf_status(&link.own.key));
    return dr_link_put(txn, &link);
}

enum status follow_renew(struct dr_follow *f)
{
    CLEANUP(cert_pair_done) struct cert_pair pair = {0};
    if (!pulses_renewed(f->pulses, &pair))
        return ST_NOT_FOUND;
    struct renewed r = {f, &pair};
    enum status st = check_pair(f, &pair);
    if (st == ST_OK)
        st = f->thread->transact(f->thread->ctx, stage_renewed, &r);
    trace(st == ST_OK ? TRACE_INFO : TRACE_WARN, "dr",
          "the new certificate of this secondary is %s%s",
          st == ST_OK ? "stored" : "not stored: ", st == ST_OK ? "" : status_text(st));
    return st;
}
