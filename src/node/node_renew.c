/* A new certificate for the cluster port, in time or when asked for.
 *
 * A node makes a new key and sends its public half to the leader over their link, which proves its
 * name: a removed node has none. The leader signs with the authority in the state, for that name
 * alone. The node checks what comes, replaces its files, and takes them for new connections; those
 * that are up keep the old certificate, which stays good until it expires.
 *
 * Times are cluster time. Nothing is done while the cluster does not have its authority's key: the
 * warnings before a certificate expires (mesh.c) then ask for somebody to act. */
#include "cluster/membership/authority.h"
#include "node/node_internal.h"

#include "base/mem.h"
#include "base/trace.h"
#include "crypto/tls.h"

enum {
    RENEW_LOOK_MS = 1000,
    RENEW_ASK_MS = 5000,           /* between two tries */
    RENEW_FAILED_MS = 3600 * 1000, /* after one that could not be taken; and between complaints */
    RENEW_PART = 3,                /* this part of its time before the end */
    DAY_S = 86400,
};

void node_renew_learn(struct node *n)
{
    CLEANUP(buf_done) struct buf pem = {0};
    int64_t since_s, until_s;
    if (tls_pem_read(n->options.cert_file, &pem, NULL) != ST_OK ||
        cert_not_before(buf_bytes(&pem), &since_s) != ST_OK ||
        cert_not_after(buf_bytes(&pem), &until_s) != ST_OK)
        return; /* the file was readable when the port was opened */
    n->cert_issued_s = since_s + (int64_t)MESH_BACKDATE_DAYS * DAY_S;
    n->cert_until_s = until_s;
}

void node_renew_done(struct node *n)
{
    buf_done(&n->new_key);
    buf_done(&n->new_public);
    barrier_seat_free(n->seat);
    n->seat = NULL;
}

enum status node_read_value(struct node *n, struct bytes key, struct buf *out)
{
    struct store_item item;
    struct store_pin pin;
    size_t len = 0;
    if (n->seat == NULL)
        TRY(barrier_seat_new(n->host.barrier, n->host.env, &n->seat));
    TRY(store_pin(rlog_store(n->host.rlog), "certificates", 0, &pin));
    enum status st = store_get(&pin, key, &item);
    uint8_t *to = st == ST_OK ? buf_extend(out, item.value.len) : NULL;
    if (st == ST_OK)
        st = to != NULL ? barrier_decrypt(n->seat, key, item.value, to, &len) : ST_NOMEM;
    if (to != NULL && st == ST_NOT_FOUND)
        st = ST_BUSY; /* of a key ring's term that is still to come */
    out->len = st == ST_OK ? len : 0;
    store_unpin(&pin);
    return st;
}

static uint64_t rotate_changed(struct node *n)
{
    struct store_pin pin;
    if (store_pin(rlog_store(n->host.rlog), "certificates", 0, &pin) != ST_OK)
        return n->rotate_version; /* the next tick looks again */
    uint64_t version = store_newest(&pin, BYTES(AUTHORITY_ROTATE_KEY));
    store_unpin(&pin);
    return version;
}

static void follow_rotate(struct node *n)
{
    CLEANUP(buf_done) struct buf plain = {0};
    uint64_t version = rotate_changed(n);
    if (version == n->rotate_version)
        return;
    enum status st = node_read_value(n, BYTES(AUTHORITY_ROTATE_KEY), &plain);
    if (st == ST_OK)
        st = authority_rotate_decode(buf_bytes(&plain), &n->rotate_since_s);
    if (st == ST_OK || st == ST_NOT_FOUND)
        n->rotate_version = version;
}

static bool is_due(const struct node *n, int64_t now_s)
{
    int64_t life_s = n->cert_until_s - n->cert_issued_s;
    return n->cert_until_s != 0 &&
           (n->cert_issued_s < n->rotate_since_s || now_s >= n->cert_until_s - life_s / RENEW_PART);
}

static enum status sign(struct node *n, const char *name, struct bytes public_pem,
                        struct buf *ret_cert)
{
    CLEANUP(buf_done) struct buf record = {0};
    CLEANUP(cert_pair_done) struct cert_pair ca = {0};
    struct reason reason = {{0}};
    TRY(node_read_value(n, BYTES(AUTHORITY_KEY), &record));
    TRY(authority_decode(buf_bytes(&record), &ca));
    enum status st =
        mesh_certify(&ca, name, public_pem, rlog_time_ms(n->host.rlog) / 1000, ret_cert, &reason);
    if (st != ST_OK)
        trace(TRACE_WARN, "node", "a certificate for %s is not made: %s", name, reason.text);
    return st;
}

/* A new certificate must be ours in every way before it replaces one that works. */
static enum status check(const struct node *n, struct bytes cert)
{
    CLEANUP(buf_done) struct buf ca = {0};
    char uri[CERT_URI_MAX];
    struct mesh_identity identity;
    TRY(tls_pem_read(n->options.ca_file, &ca, NULL));
    TRY(cert_matches(cert, buf_bytes(&ca), buf_bytes(&n->new_public)));
    TRY(cert_uri(cert, uri));
    TRY(mesh_uri_parse(uri, &identity));
    return memcmp(&identity, &n->host.identity, sizeof identity) == 0 ? ST_OK : ST_INVALID;
}

static void take(struct node *n, struct bytes cert)
{
    struct reason reason = {{0}};
    enum status st = check(n, cert);
    if (st != ST_OK) {
        trace(TRACE_WARN, "node", "a certificate came that is not the one asked for");
        return;
    }
    st = node_files_replace(n, buf_bytes(&n->new_key), cert, &reason);
    if (st == ST_OK)
        st = mesh_reload(n->host.mesh, &reason);
    if (st == ST_OK)
        trace(TRACE_INFO, "node", "has a new certificate for the cluster port");
    else
        trace(TRACE_ERROR, "node", "the new certificate is not in use: %s",
              reason.text[0] != '\0' ? reason.text : status_text(st));
    n->renew_wait_ms = st == ST_OK ? RENEW_ASK_MS : RENEW_FAILED_MS;
    node_renew_learn(n);
    buf_done(&n->new_key);
    buf_done(&n->new_public);
}

static void complain(struct node *n, const char *why)
{
    uint64_t now_ms = env_mono_ms(n->host.env);
    if (n->renew_complained_ms != 0 && now_ms - n->renew_complained_ms < RENEW_FAILED_MS)
        return;
    n->renew_complained_ms = now_ms;
    trace(TRACE_WARN, "node", "the certificate of the cluster port is due, and not renewed: %s",
          why);
}

static void ask(struct node *n, const struct rlog_status *raft)
{
    CLEANUP(buf_done) struct buf cert = {0};
    if (n->new_public.len == 0 && cert_key_make(&n->new_key, &n->new_public) != ST_OK)
        return; /* the next try */
    if (!raft->is_leader) {
        node_send(n, raft->leader, FRAME_RENEW, buf_bytes(&n->new_public));
        return;
    }
    enum status st = sign(n, n->options.name, buf_bytes(&n->new_public), &cert);
    if (st == ST_OK)
        take(n, buf_bytes(&cert));
    else
        complain(n, st == ST_NOT_FOUND ? "the cluster does not have the key of its authority"
                                       : status_text(st));
}

void node_renew_tick(struct node *n)
{
    uint64_t now_ms = env_mono_ms(n->host.env);
    struct rlog_status raft;
    if (n->host.mesh == NULL || n->host.removed || n->phase != NODE_MEMBER ||
        now_ms - n->renew_looked_ms < RENEW_LOOK_MS)
        return;
    n->renew_looked_ms = now_ms;
    if (n->cert_until_s == 0)
        node_renew_learn(n);
    follow_rotate(n);
    rlog_status(n->host.rlog, &raft);
    if (raft.leader == 0 || !is_due(n, node_time_ms(n) / 1000) ||
        (n->renew_asked_ms != 0 &&
         now_ms - n->renew_asked_ms < MAX(n->renew_wait_ms, (uint64_t)RENEW_ASK_MS)))
        return;
    n->renew_asked_ms = now_ms;
    ask(n, &raft);
}

static bool is_member(const struct node *n, uint64_t id, const char *name)
{
    for (unsigned i = 0; i < n->host.n_members; i++)
        if (n->host.members[i].id == id)
            return strcmp(n->host.members[i].name, name) == 0;
    return false;
}

void node_renew_hear(struct node *n, uint64_t from, const char *from_name, enum frame_kind kind,
                     struct bytes content)
{
    CLEANUP(buf_done) struct buf cert = {0};
    struct rlog_status raft;
    if (n->host.rlog == NULL || n->host.replica_closed || n->host.removed ||
        !is_member(n, from, from_name))
        return;
    if (kind == FRAME_RENEWED) {
        if (n->new_public.len != 0 && n->host.mesh != NULL)
            take(n, content);
        return;
    }
    rlog_status(n->host.rlog, &raft);
    if (!raft.is_leader || !raft.ready)
        return; /* the node asks again */
    if (sign(n, from_name, content, &cert) == ST_OK)
        node_send(n, from, FRAME_RENEWED, buf_bytes(&cert));
}
