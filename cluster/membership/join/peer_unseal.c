#include "cluster/membership/join/peer_unseal.h"

#include "base/mem.h"
#include "base/trace.h"
#include "text/encode.h"
#include "text/json.h"

#include <stdio.h>

enum {
    ASK_AGAIN_MS = 1000,
    ASK_AGAIN_MAX_MS = 30000,
    REQUEST_MS = 15000,
    REPLY_MAX = 64 * 1024,
    SEALED_TEXT_MAX = 1024
};

enum status peer_unseal_context(const char *cluster_id, const char *name, struct buf *out)
{
    buf_add_str(out, "holdfast peer unseal 1");
    buf_add_block(out, bytes_str(cluster_id));
    buf_add_block(out, bytes_str(name));
    return buf_status(out);
}

static void say_once(struct peer_unseal *p, const char *why)
{
    if (strcmp(p->said.text, why) == 0)
        return;
    reason_set(&p->said, "%s", why);
    trace(TRACE_WARN, "node", "is not unsealed by a peer: %s", p->said.text);
}

static struct bytes text_at(const struct text_value *v, const char *name)
{
    const struct text_value *m = text_get(v, name);
    return m != NULL && m->kind == TEXT_STRING ? m->text : (struct bytes){0};
}

/* Open the key that came, and unseal with it. */
static enum status take_key(struct peer_unseal *p, struct bytes text, struct reason *reason)
{
    CLEANUP(buf_done) struct buf context = {0};
    CLEANUP(secret_done) struct secret root = {0};
    uint8_t sealed[TEXT_BASE64_BYTES(SEALED_TEXT_MAX)];
    size_t n = 0;
    ASSERT(p->key.key != NULL);
    ASSERT(p->host->cluster_id[0] != '\0');
    if (text.len == 0 || text.len > SEALED_TEXT_MAX || text_base64_parse(text, sealed, &n) != ST_OK)
        return ST_CORRUPT;
    TRY(peer_unseal_context(p->host->cluster_id, p->host->options->name, &context));
    TRY(box_open(&p->key, buf_bytes(&context), bytes_of(sealed, n), &root));
    return p->seal.open(p->seal.ctx, &root, reason);
}

static void take_reply(struct peer_unseal *p)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct text_value *reply = NULL;
    struct reason why = {{0}};
    ASSERT(part_on_thread(p->host) && p->key.key != NULL);
    if (text_json_parse(&arena, buf_bytes(&p->request.reply), &reply, NULL) != ST_OK)
        reply = NULL;
    if (p->request.status != 200) {
        const struct text_value *errors = text_get(reply, "errors");
        const struct text_value *first = errors != NULL ? errors->first : NULL;
        reason_set(&why, "the active node replies %d: %.*s", p->request.status,
                   first != NULL ? (int)MIN(first->text.len, (size_t)160) : 0,
                   first != NULL ? (const char *)first->text.data : "");
        say_once(p, why.text);
        p->again_ms = MIN(2 * p->again_ms, (uint64_t)ASK_AGAIN_MAX_MS); /* each is on record */
        return;
    }
    const struct text_value *data = text_get(reply, "data");
    enum status st = take_key(p, text_at(data != NULL ? data : reply, "sealed_key"), &why);
    if (st == ST_OK) {
        p->said.text[0] = '\0';
        p->again_ms = ASK_AGAIN_MS;
        trace(TRACE_WARN, "node", "was unsealed by the active node (peer unseal)");
        return;
    }
    say_once(p, why.text[0] != '\0' ? why.text : status_text(st));
}

static void end_request(struct peer_unseal *p)
{
    box_key_done(&p->key);
    buf_done(&p->request.reply);
    buf_done(&p->body);
}

static void on_reply(struct http_client_request *request, enum status st)
{
    struct peer_unseal *p = CONTAINER_OF(request, struct peer_unseal, request);
    ASSERT(p->calling && !p->closing);
    ASSERT(part_on_thread(p->host));
    p->calling = false;
    if (!p->host->stopping && st == ST_OK)
        take_reply(p);
    else if (!p->host->stopping)
        say_once(p, request->reason.text[0] != '\0' ? request->reason.text : status_text(st));
    end_request(p);
}

static enum status write_body(struct peer_unseal *p)
{
    char text[TEXT_BASE64_LEN(BOX_PUBLIC_BYTES) + 1];
    struct text_writer w = {.out = &p->body};
    ASSERT(p->body.len == 0);
    ASSERT(p->key.key == NULL);
    TRY(box_key_new(&p->key));
    /* the room suffices */
    (void)text_base64_put(bytes_of(p->key.public_key, BOX_PUBLIC_BYTES), TEXT_BASE64, text);
    text_open_object(&w);
    text_member_str(&w, "node_id", p->host->options->name);
    text_member_str(&w, "public_key", text);
    text_close(&w);
    return buf_status(&p->body);
}

static void ask(struct peer_unseal *p, const struct rlog_member *leader)
{
    struct mesh_identity identity = p->host->identity;
    char uri[MESH_URI_MAX];
    ASSERT(!p->calling && p->key.key == NULL);
    ASSERT(leader->id != p->host->id);
    if ((p->client == NULL && http_client_new(p->host->env, &p->client) != ST_OK) ||
        write_body(p) != ST_OK) {
        end_request(p); /* out of memory: the next tick tries again */
        return;
    }
    (void)snprintf(identity.name, sizeof identity.name, "%s", leader->name); /* names are bounded */
    mesh_uri(&identity, uri);
    p->headers[0] = (struct http_header){BYTES("content-type"), BYTES("application/json")};
    p->headers[1] = (struct http_header){BYTES(MESH_HEADER_OWN), BYTES("1")};
    p->request = (struct http_client_request){.method = METHOD_POST,
                                              .path = BYTES("/v1/" PEER_UNSEAL_PATH),
                                              .headers = p->headers,
                                              .n_headers = ARRAY_LEN(p->headers),
                                              .body = buf_bytes(&p->body),
                                              .timeout_ms = REQUEST_MS,
                                              .reply_bytes_max = REPLY_MAX,
                                              .done = on_reply};
    const struct http_target target = {
        .address = leader->address, .tls = mesh_tls_client(p->host->mesh), .uri = uri};
    p->calling = true;
    http_client_send(p->client, &target, &p->request);
}

static void peer_unseal_changed(void *self, const struct rlog_status *raft)
{
    struct peer_unseal *p = self;
    uint64_t now = env_mono_ms(p->host->env);
    ASSERT(part_on_thread(p->host));
    ASSERT(raft->n_members <= RLOG_MEMBERS_MAX);
    if (!p->enabled || p->calling || p->closing || p->host->removed || p->host->mesh == NULL ||
        p->host->phase != PHASE_MEMBER || raft->leader == 0 || raft->is_leader ||
        (p->asked_ms != 0 && now - p->asked_ms < p->again_ms) || !p->seal.wants(p->seal.ctx))
        return;
    p->asked_ms = now;
    for (unsigned i = 0; i < raft->n_members; i++)
        if (raft->members[i].id == raft->leader)
            ask(p, &raft->members[i]);
}

static enum status peer_unseal_start(void *self, struct part_host *host)
{
    struct peer_unseal *p = self;
    ASSERT(p->host == NULL && p->client == NULL);
    p->host = host;
    p->again_ms = ASK_AGAIN_MS;
    return ST_OK;
}

static void on_closed(void *ctx)
{
    struct peer_unseal *p = ctx;
    http_client_free(p->client);
    p->client = NULL;
    p->closing = false;
}

static bool peer_unseal_stop(void *self)
{
    struct peer_unseal *p = self;
    ASSERT(p->host->stopping);
    ASSERT(!p->calling || p->client != NULL);
    if (p->calling) {
        http_client_cancel(&p->request);
        p->calling = false;
        end_request(p);
    }
    if (p->client != NULL && !p->closing) {
        p->closing = true;
        http_client_close(p->client, on_closed, p);
    }
    return p->client == NULL;
}

const struct part peer_unseal_part = {.name = "peer unseal",
                                      .start = peer_unseal_start,
                                      .changed = peer_unseal_changed,
                                      .stop = peer_unseal_stop};
