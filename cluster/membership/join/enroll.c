/* A node that joins by a token: before anything else, its certificate. By join_token_file:
 *
 *   key (kept, or made and written) ─▶ ask each member in turn  ─▶ write CA and certificate ─▶ open
 *                                          ▲                 │ no reply: the next, after a while
 *                                          └─────────────────┘ a refusal (4xx): the node ends
 *
 * By request: enroll_request.c. The token's secret is sent over TLS, and only to a node whose
 * certificate comes from the authority with the token's hash or from one that the request names.
 * The key is on disk before a member sees its public half, so that a certificate that was issued
 * and lost can be asked for again. */
#include "cluster/membership/join/enroll_internal.h"

#include "cluster/membership/certificate/cert_files.h"

#include "base/mem.h"
#include "base/trace.h"
#include "loop/loop.h"

enum { ENROLL_AGAIN_MS = 1000, ENROLL_REQUEST_MS = 15000, ENROLL_COMPLAIN_MS = 10000 };
enum { ENROLL_REPLY_MAX = 64 * 1024 };

static void ask(struct env_timer *timer);

static void enroll_free(struct enroll_try *e)
{
    if (e == NULL)
        return;
    http_client_free(e->client);
    enroll_reset(e);
    mem_free(e);
}

void enroll_reset(struct enroll_try *e)
{
    ASSERT(!e->calling && e->lookup == NULL);
    tls_ctx_unref(e->tls);
    e->tls = NULL;
    buf_done(&e->token_text);
    buf_done(&e->key);
    buf_done(&e->public_key);
    buf_done(&e->body);
    buf_done(&e->challenge);
    buf_done(&e->seal);
    mem_wipe(&e->token, sizeof e->token);
}

static void on_stopped(void *ctx)
{
    struct enroll *all = ctx;
    ASSERT(all->host->stopping);
    enroll_free(all->try);
    all->try = NULL;
}

static void on_done_closed(void *ctx)
{
    struct enroll *all = ctx;
    struct reason reason = {{0}};
    enroll_free(all->try);
    all->try = NULL;
    enum status st = all->host->stopping ? ST_OK : bootstrap_open(all->bootstrap, &reason);
    if (st != ST_OK)
        all->host->calls->refuse(all->host, &reason);
}

struct bytes enroll_text(const struct text_value *v, const char *name)
{
    const struct text_value *m = text_get(v, name);
    return m != NULL && m->kind == TEXT_STRING ? m->text : (struct bytes){0};
}

/* Check a reply: the certificate must be of the expected authority, and for our name and key. */
static enum status check(struct enroll_try *e, const struct text_value *reply,
                         struct reason *reason)
{
    uint8_t hash[JOIN_HASH_BYTES];
    char uri[CERT_URI_MAX];
    struct mesh_identity identity;
    struct bytes ca = enroll_text(reply, "ca_certificate");
    struct bytes cert = enroll_text(reply, "certificate");
    ASSERT(e->step != ENROLL_CHALLENGE);
    ASSERT(e->public_key.len != 0);
    bool believed = e->step == ENROLL_ANSWER
                        ? enroll_proved(e, reply)
                        : cert_fingerprint(ca, hash) == ST_OK &&
                              memcmp(hash, e->token.ca_sha256, sizeof hash) == 0;
    bool good = believed && cert_matches(cert, ca, buf_bytes(&e->public_key)) == ST_OK &&
                cert_uri(cert, uri) == ST_OK && mesh_uri_parse(uri, &identity) == ST_OK &&
                strcmp(identity.name, e->all->host->options->name) == 0;
    if (good)
        return ST_OK;
    reason_set(reason, "joining: the certificate that came is not the one asked for");
    return ST_INVALID;
}

/* Write the certificate last: if it exists, all files exist. */
static enum status keep(struct enroll_try *e, struct reason *reason)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct text_value *reply;
    const struct member_options *o = e->all->host->options;
    ASSERT(!e->calling);
    if (text_json_parse(&arena, buf_bytes(&e->request.reply), &reply, NULL) != ST_OK) {
        reason_set(reason, "joining: the reply is not JSON");
        return ST_INVALID;
    }
    struct bytes ca = enroll_text(reply, "ca_certificate");
    struct bytes cert = enroll_text(reply, "certificate");
    TRY(check(e, reply, reason));
    TRY(cert_file_put(o->ca_file, ca, reason));
    TRY(cert_file_put(o->cert_file, cert, reason));
    trace(TRACE_INFO, "node", "has its certificate for the cluster: %s", o->cert_file);
    return ST_OK;
}

static void explain(const struct enroll_try *e, struct reason *reason)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct text_value *reply;
    ASSERT(e->request.status != 200);
    if (text_json_parse(&arena, buf_bytes(&e->request.reply), &reply, NULL) != ST_OK)
        reply = NULL;
    const struct text_value *errors = text_get(reply, "errors");
    const struct text_value *first = errors != NULL ? errors->first : NULL;
    reason_set(reason, "joining: the cluster refuses with %d: %.*s", e->request.status,
               first != NULL ? (int)MIN(first->text.len, (size_t)160) : 0,
               first != NULL ? (const char *)first->text.data : "");
}

static void enroll_again(struct enroll_try *e, const char *why)
{
    struct part_host *host = e->all->host;
    const struct member_options *o = host->options;
    const char *at = enroll_round_at(e);
    uint64_t now = env_mono_ms(host->env);
    ASSERT(!e->by_request);
    ASSERT(e->at < o->n_initial_members);
    if (e->complained_ms == 0 || now - e->complained_ms >= ENROLL_COMPLAIN_MS) {
        e->complained_ms = now;
        trace(TRACE_WARN, "node", "waits to join: %s at %s%s%s: %s",
              o->auto_join != NULL ? "auto_join" : o->initial_members[e->at].name,
              o->auto_join != NULL ? o->auto_join : o->initial_members[e->at].address,
              at != NULL ? " " : "", at != NULL ? at : "", why);
    }
    if (enroll_round_next(e)) {
        enroll_round_send(e);
        return;
    }
    e->at = (e->at + 1) % o->n_initial_members;
    env_timer_set(host->env, &e->timer, now + ENROLL_AGAIN_MS);
}

/* Judge a reply, or the reason why there is none. */
static enum enroll_end judge(struct enroll_try *e, enum status st, struct reason *reason)
{
    const struct http_client_request *request = &e->request;
    ASSERT(part_on_thread(e->all->host));
    if (st != ST_OK) {
        reason_set(reason, "%s",
                   request->reason.text[0] != '\0' ? request->reason.text : status_text(st));
        return ENROLL_AGAIN;
    }
    if (request->status == 200 && e->step == ENROLL_CHALLENGE)
        return enroll_challenged(e, reason);
    if (request->status == 200)
        return keep(e, reason) == ST_OK ? ENROLL_DONE : ENROLL_REFUSED;
    explain(e, reason);
    bool refused = request->status >= 400 && request->status < 500 && request->status != 429;
    return refused ? ENROLL_REFUSED : ENROLL_AGAIN;
}

void enroll_tried(struct enroll_try *e, enum enroll_end end, const struct reason *reason)
{
    struct part_host *host = e->all->host;
    ASSERT(end != ENROLL_DONE && !e->calling);
    if (e->by_request)
        enroll_request_tried(e, end, reason);
    else if (end == ENROLL_REFUSED)
        host->calls->refuse(host, reason);
    else
        enroll_again(e, reason->text);
}

static void enroll_on_reply(struct http_client_request *request, enum status st)
{
    struct enroll_try *e = CONTAINER_OF(request, struct enroll_try, request);
    struct part_host *host = e->all->host;
    struct reason reason = {{0}};
    ASSERT(e->calling);
    ASSERT(!e->closing);
    e->calling = false;
    if (host->stopping) {
        buf_done(&request->reply);
        return;
    }
    enum enroll_end end = judge(e, st, &reason);
    buf_done(&request->reply);
    if (end == ENROLL_DONE) {
        e->closing = true;
        http_client_close(e->client, on_done_closed, e->all);
    } else {
        enroll_tried(e, end, &reason);
    }
}

static struct bytes path_of(enum enroll_step step)
{
    switch (step) {
    case ENROLL_TOKEN: break;
    case ENROLL_CHALLENGE: return BYTES("/v1/sys/storage/raft/bootstrap/challenge");
    case ENROLL_ANSWER: return BYTES("/v1/sys/storage/raft/bootstrap/answer");
    }
    return BYTES("/v1/sys/storage/raft/bootstrap/join");
}

void enroll_send(struct enroll_try *e, const struct http_target *target)
{
    ASSERT(!e->calling && !e->closing);
    e->header = (struct http_header){BYTES("content-type"), BYTES("application/json")};
    e->request = (struct http_client_request){.method = METHOD_POST,
                                              .path = path_of(e->step),
                                              .headers = &e->header,
                                              .n_headers = 1,
                                              .body = buf_bytes(&e->body),
                                              .timeout_ms = ENROLL_REQUEST_MS,
                                              .reply_bytes_max = ENROLL_REPLY_MAX,
                                              .done = enroll_on_reply};
    e->calling = true;
    http_client_send(e->client, target, &e->request);
}

static void ask(struct env_timer *timer)
{
    struct enroll_try *e = CONTAINER_OF(timer, struct enroll_try, timer);
    const struct member_options *o = e->all->host->options;
    ASSERT(!e->by_request);
    ASSERT(e->at < o->n_initial_members);
    if (strcmp(o->initial_members[e->at].name, o->name) == 0)
        e->at = (e->at + 1) % o->n_initial_members;
    enroll_round(e, o->auto_join != NULL ? o->auto_join : o->initial_members[e->at].address, NULL);
}

/* Make the key, unless an earlier start has made it. */
static enum status make_key(struct enroll_try *e, struct reason *reason)
{
    const char *path = e->all->host->options->key_file;
    ASSERT(e->key.len == 0);
    ASSERT(e->public_key.len == 0);
    if (cert_file_exists(path)) {
        TRY(tls_key_read(path, &e->key, reason));
        enum status st = cert_key_public(buf_bytes(&e->key), &e->public_key);
        if (st != ST_OK)
            reason_set(reason, "%s: no unencrypted PEM private key found", path);
        return st;
    }
    TRY(cert_key_make(&e->key, &e->public_key));
    return cert_file_put(path, buf_bytes(&e->key), reason);
}

enum status enroll_write(struct enroll_try *e, struct bytes answer)
{
    struct text_writer w = {.out = &e->body};
    ASSERT(!e->calling);
    ASSERT(e->public_key.len != 0);
    buf_clear(&e->body);
    text_open_object(&w);
    if (e->token_text.len != 0) {
        text_key(&w, "join_token");
        text_put_bytes(&w, buf_bytes(&e->token_text));
    }
    if (answer.len != 0) {
        ASSERT(e->challenge.len != 0);
        text_key(&w, "challenge");
        text_put_bytes(&w, buf_bytes(&e->challenge));
        text_key(&w, "answer");
        text_put_bytes(&w, answer);
    }
    text_member_str(&w, "node_id", e->all->host->options->name);
    text_key(&w, "public_key");
    text_put_bytes(&w, buf_bytes(&e->public_key));
    text_close(&w);
    return buf_status(&e->body);
}

enum status enroll_prepare(struct enroll_try *e, struct bytes token, struct reason *reason)
{
    ASSERT(e->token_text.len == 0);
    buf_add(&e->token_text, token);
    TRY(buf_status(&e->token_text));
    e->step = token.len != 0 ? ENROLL_TOKEN : ENROLL_CHALLENGE;
    if (e->step == ENROLL_TOKEN && join_token_parse(token, &e->token) != ST_OK) {
        reason_set(reason, "join_token: not a join token, or mistyped");
        return ST_INVALID;
    }
    TRY(make_key(e, reason));
    return enroll_write(e, (struct bytes){0});
}

static enum status prepare_by_file(struct enroll_try *e, struct reason *reason)
{
    CLEANUP(buf_done) struct buf token = {0};
    const struct member_options *o = e->all->host->options;
    struct tls_options tls = {.tls13_only = true,
                              .ca_sha256 = e->token.ca_sha256,
                              .alpn = "http/1.1",
                              .alpn_required = true,
                              .peer_uri_start = "holdfast://"};
    ASSERT(!e->by_request);
    TRY(tls_pem_read(o->join_token_file, &token, reason));
    TRY(enroll_prepare(e, buf_bytes(&token), reason));
    return tls_ctx_new(&tls, &e->tls, reason);
}

static enum status check_file(struct enroll_try *e, struct reason *reason)
{
    const struct member_options *o = e->all->host->options;
    struct reason why = {{0}};
    if (o->auto_join == NULL && o->n_initial_members == 1 &&
        strcmp(o->initial_members[0].name, o->name) == 0) {
        reason_set(reason, "join_token_file: the only member is this node itself");
        return ST_INVALID;
    }
    enum status st = prepare_by_file(e, &why);
    if (st != ST_OK) {
        reason_set(reason, "%s: %s", o->join_token_file,
                   why.text[0] != '\0' ? why.text : status_text(st));
        return st;
    }
    return ST_OK;
}

enum status enroll_open(struct enroll *all, bool *ret_enrolls, struct reason *reason)
{
    const struct member_options *o = all->host->options;
    bool by_file = o->join_token_file != NULL && o->n_initial_members != 0;
    ASSERT(all->try == NULL && all->host->phase == PHASE_NO_CERTIFICATE);
    *ret_enrolls = false;
    if ((!by_file && !o->join_by_request) || cert_file_exists(o->cert_file))
        return ST_OK;
    struct enroll_try *e = mem_zalloc(sizeof *e);
    if (e == NULL)
        return ST_NOMEM;
    e->all = all;
    e->by_request = !by_file;
    enum status st = by_file ? check_file(e, reason) : ST_OK;
    if (st == ST_OK)
        st = http_client_new(all->host->env, &e->client);
    if (st != ST_OK) {
        enroll_free(e);
        return st;
    }
    all->try = e;
    *ret_enrolls = true;
    if (!by_file) {
        enroll_request_start(e);
        return ST_OK;
    }
    trace(TRACE_INFO, "node", "asks the cluster for its certificate, with %s", o->join_token_file);
    e->timer.fire = ask;
    env_timer_set(all->host->env, &e->timer, 0);
    return ST_OK;
}

static enum status enroll_start(void *self, struct part_host *host)
{
    struct enroll *e = self;
    ASSERT(e->host == NULL && e->try == NULL);
    e->host = host;
    return ST_OK;
}

/* End the join request once the node is a member. */
static void enroll_tick(void *self)
{
    struct enroll *e = self;
    if (e->wait != NULL && e->host->phase == PHASE_MEMBER)
        enroll_request_end(e, ST_OK, NULL);
}

static bool enroll_stop(void *self)
{
    struct enroll *all = self;
    struct enroll_try *e = all->try;
    ASSERT(all->host->stopping);
    if (e == NULL || e->closing)
        return e == NULL && all->n_lookups == 0;
    enroll_round_drop(e);
    env_timer_stop(all->host->env, &e->timer);
    if (e->calling)
        http_client_cancel(&e->request);
    e->calling = false;
    e->closing = true;
    http_client_close(e->client, on_stopped, all);
    return false;
}

const struct part enroll_part = {
    .name = "enroll", .start = enroll_start, .tick = enroll_tick, .stop = enroll_stop};
