/* A new certificate for the cluster port, before the old one expires or when an operator rotates.
 *
 * A node makes a new key and sends the public key to the leader over their link. The link proves
 * the node's name; a removed node has no link. The leader signs with the authority in the state,
 * for that name only. The node checks the certificate, replaces its files, and uses them for new
 * connections. Open connections keep the old certificate, which stays valid until it expires.
 *
 * Times are cluster time. Without the authority's key in the state no certificate is renewed: the
 * warnings before a certificate expires (mesh.c) then ask the operator to act. */
#include "cluster/membership/certificate/renew.h"

#include "cluster/membership/certificate/authority.h"
#include "cluster/membership/certificate/cert_files.h"

#include "base/mem.h"
#include "base/trace.h"
#include "crypto/tls.h"

enum {
    RENEW_LOOK_MS = 1000,
    RENEW_ASK_MS = 5000,           /* time between two requests for a certificate */
    RENEW_FAILED_MS = 3600 * 1000, /* pause after an unusable certificate, and between warnings */
    RENEW_PART = 3,                /* renew in the last third of the certificate's validity */
    DAY_S = 86400,
};

void renew_learn(struct renew *r)
{
    CLEANUP(buf_done) struct buf pem = {0};
    int64_t since_s, until_s;
    ASSERT(part_on_thread(r->host));
    if (tls_pem_read(r->host->options->cert_file, &pem, NULL) != ST_OK ||
        cert_not_before(buf_bytes(&pem), &since_s) != ST_OK ||
        cert_not_after(buf_bytes(&pem), &until_s) != ST_OK)
        return; /* keep the old values; the file was readable when the port was opened */
    r->cert_issued_s = since_s + (int64_t)MESH_BACKDATE_DAYS * DAY_S;
    r->cert_until_s = until_s;
}

static uint64_t rotate_changed(struct renew *r)
{
    struct store_pin pin;
    if (store_pin(rlog_store(r->host->rlog), "certificates", 0, &pin) != ST_OK)
        return r->rotate_version; /* every pin is in use: the next tick looks again */
    uint64_t version = store_newest(&pin, BYTES(AUTHORITY_ROTATE_KEY));
    store_unpin(&pin);
    return version;
}

static void follow_rotate(struct renew *r)
{
    CLEANUP(buf_done) struct buf plain = {0};
    ASSERT(part_on_thread(r->host));
    uint64_t version = rotate_changed(r);
    if (version == r->rotate_version)
        return;
    enum status st = local_read(r->local, BYTES(AUTHORITY_ROTATE_KEY), &plain);
    if (st == ST_OK)
        st = authority_rotate_decode(buf_bytes(&plain), &r->rotate_since_s);
    if (st == ST_OK || st == ST_NOT_FOUND)
        r->rotate_version = version;
}

static bool renew_is_due(const struct renew *r, int64_t now_s)
{
    int64_t life_s = r->cert_until_s - r->cert_issued_s;
    return r->cert_until_s != 0 &&
           (r->cert_issued_s < r->rotate_since_s || now_s >= r->cert_until_s - life_s / RENEW_PART);
}

static enum status sign_certificate(struct renew *r, const char *name, struct bytes public_pem,
                                    struct buf *ret_cert)
{
    CLEANUP(buf_done) struct buf record = {0};
    CLEANUP(cert_pair_done) struct cert_pair ca = {0};
    struct reason reason = {{0}};
    ASSERT(part_on_thread(r->host));
    ASSERT(!r->host->removed);
    TRY(local_read(r->local, BYTES(AUTHORITY_KEY), &record));
    TRY(authority_decode(buf_bytes(&record), &ca));
    enum status st =
        mesh_certify(&ca, name, public_pem, rlog_time_ms(r->host->rlog) / 1000, ret_cert, &reason);
    if (st != ST_OK)
        trace(TRACE_WARN, "node", "a certificate for %s is not made: %s", name, reason.text);
    return st;
}

/* Check authority, key, cluster and name before a new certificate replaces one that works. */
static enum status check_renewed(const struct renew *r, struct bytes cert)
{
    CLEANUP(buf_done) struct buf ca = {0};
    char uri[CERT_URI_MAX];
    struct mesh_identity identity;
    ASSERT(r->new_public.len != 0);
    TRY(tls_pem_read(r->host->options->ca_file, &ca, NULL));
    TRY(cert_matches(cert, buf_bytes(&ca), buf_bytes(&r->new_public)));
    TRY(cert_uri(cert, uri));
    TRY(mesh_uri_parse(uri, &identity));
    return memcmp(&identity, &r->host->identity, sizeof identity) == 0 ? ST_OK : ST_INVALID;
}

static void take_certificate(struct renew *r, struct bytes cert)
{
    struct reason reason = {{0}};
    ASSERT(r->host->mesh != NULL && r->new_public.len != 0);
    enum status st = check_renewed(r, cert);
    if (st != ST_OK) {
        trace(TRACE_WARN, "node", "a certificate came that is not the one asked for");
        return;
    }
    st = cert_files_replace(r->host->options, buf_bytes(&r->new_key), cert, &reason);
    if (st == ST_OK)
        st = mesh_reload(r->host->mesh, &reason);
    if (st == ST_OK)
        trace(TRACE_INFO, "node", "has a new certificate for the cluster port");
    else
        trace(TRACE_ERROR, "node", "the new certificate is not in use: %s",
              reason.text[0] != '\0' ? reason.text : status_text(st));
    r->wait_ms = st == ST_OK ? RENEW_ASK_MS : RENEW_FAILED_MS;
    renew_learn(r);
    buf_done(&r->new_key);
    buf_done(&r->new_public);
}

static void renew_complain(struct renew *r, const char *why)
{
    uint64_t now_ms = env_mono_ms(r->host->env);
    if (r->complained_ms != 0 && now_ms - r->complained_ms < RENEW_FAILED_MS)
        return;
    r->complained_ms = now_ms;
    trace(TRACE_WARN, "node", "the certificate of the cluster port is due, and not renewed: %s",
          why);
}

static void ask_leader(struct renew *r, const struct rlog_status *raft)
{
    CLEANUP(buf_done) struct buf cert = {0};
    ASSERT(raft->leader != 0 && !r->host->stopping);
    if (r->new_public.len == 0 && cert_key_make(&r->new_key, &r->new_public) != ST_OK)
        return; /* the next attempt makes the key */
    ASSERT(r->new_key.len != 0);
    if (!raft->is_leader) {
        r->host->calls->send(r->host, raft->leader, FRAME_RENEW, buf_bytes(&r->new_public));
        return;
    }
    enum status st = sign_certificate(r, r->host->options->name, buf_bytes(&r->new_public), &cert);
    if (st == ST_OK)
        take_certificate(r, buf_bytes(&cert));
    else
        renew_complain(r, st == ST_NOT_FOUND ? "the cluster does not have the key of its authority"
                                             : status_text(st));
}

static void renew_tick(void *self)
{
    struct renew *r = self;
    struct part_host *host = r->host;
    uint64_t now_ms = env_mono_ms(host->env);
    struct rlog_status raft;
    ASSERT(part_on_thread(host));
    ASSERT(!host->stopping);
    if (host->mesh == NULL || host->rlog == NULL || host->removed || host->phase != PHASE_MEMBER ||
        now_ms - r->looked_ms < RENEW_LOOK_MS)
        return;
    r->looked_ms = now_ms;
    if (r->cert_until_s == 0)
        renew_learn(r);
    follow_rotate(r);
    rlog_status(host->rlog, &raft);
    if (raft.leader == 0 || !renew_is_due(r, host->calls->time_ms(host) / 1000) ||
        (r->asked_ms != 0 && now_ms - r->asked_ms < MAX(r->wait_ms, (uint64_t)RENEW_ASK_MS)))
        return;
    r->asked_ms = now_ms;
    ask_leader(r, &raft);
}

static bool has_member(const struct part_host *host, uint64_t id, const char *name)
{
    for (unsigned i = 0; i < host->n_members; i++)
        if (host->members[i].id == id)
            return strcmp(host->members[i].name, name) == 0;
    return false;
}

static bool renew_receive(void *self, const struct part_frame *frame)
{
    CLEANUP(buf_done) struct buf cert = {0};
    struct renew *r = self;
    struct part_host *host = r->host;
    struct rlog_status raft;
    ASSERT(part_on_thread(host));
    if (frame->kind != FRAME_RENEW && frame->kind != FRAME_RENEWED)
        return false;
    if (host->rlog == NULL || host->replica_closed || host->removed ||
        !has_member(host, frame->from, frame->from_name))
        return true;
    if (frame->kind == FRAME_RENEWED) {
        if (r->new_public.len != 0 && host->mesh != NULL)
            take_certificate(r, frame->content);
        return true;
    }
    rlog_status(host->rlog, &raft);
    if (raft.is_leader && raft.ready && /* if the leader is not ready, the node asks again */
        sign_certificate(r, frame->from_name, frame->content, &cert) == ST_OK)
        host->calls->send(host, frame->from, FRAME_RENEWED, buf_bytes(&cert));
    return true;
}

static enum status renew_start(void *self, struct part_host *host)
{
    struct renew *r = self;
    ASSERT(r->host == NULL && r->cert_until_s == 0);
    r->host = host;
    return ST_OK;
}

static bool renew_stop(void *self)
{
    struct renew *r = self;
    ASSERT(r->host->stopping);
    buf_done(&r->new_key);
    buf_done(&r->new_public);
    return true;
}

const struct part renew_part = {.name = "renew",
                                .start = renew_start,
                                .tick = renew_tick,
                                .receive = renew_receive,
                                .stop = renew_stop};
