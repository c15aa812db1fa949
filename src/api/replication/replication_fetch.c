/* Two ports of the primary are asked. The API port unwraps the token, under the authorities that
 * the operator names or those of the system. The cluster port activates, under the authority that
 * the bundle names: private, and its certificates name no hosts. The addresses are those of the
 * operator and of the primary, so only link-local ones are refused (out/out_rules.h). */
#include "api/replication/replication_fetch.h"
#include "auth/wrapping_jwt.h"
#include "out/out.h"

#include <errno.h>
#include <time.h>

#define UNWRAP_PATH "/v1/sys/wrapping/unwrap"
#define BOOTSTRAP_PATH "/v1/sys/replication/dr/primary/bootstrap"

enum {
    UNWRAP_MS = 20000,
    UNWRAP_BYTES_MAX = 64 * 1024,
    ASK_MS = 10000,
    ASK_CONNECT_MS = 3000,
    PAUSE_MS = 300, /* between two rounds over the addresses */
    SAID_MAX = 160, /* bytes of another server's error that are shown */
};

static bool is_leaving(void *ctx)
{
    const struct router_host *host = ctx;
    return atomic_load(&host->leaving);
}

static struct bytes keep(struct req *req, struct bytes from)
{
    const uint8_t *copy = arena_dup(req->arena, from);
    return bytes_of(copy, copy != NULL ? from.len : 0);
}

/* The first error that a server's reply tells, as printable characters; "": none. */
static void said_of(struct req *req, const struct buf *body, char ret[SAID_MAX])
{
    const struct text_value *parsed = NULL;
    size_t n = 0;
    ASSERT(req != NULL);
    if (text_json_parse(req->arena, buf_bytes(body), &parsed, NULL) != ST_OK)
        parsed = NULL;
    const struct text_value *errors = text_get(parsed, "errors");
    const struct text_value *first = errors != NULL ? errors->first : NULL;
    struct bytes text = first != NULL ? first->text : (struct bytes){0};
    for (; n < text.len && n < SAID_MAX - 1; n++)
        ret[n] = (char)(text.data[n] >= ' ' && text.data[n] <= '~' ? text.data[n] : '?');
    ret[n] = '\0';
}

/* Unwrapping */

/* The URL to unwrap at; NULL without memory. */
static enum status unwrap_url(struct req *req, const struct replication_wrapped *from,
                              const char **ret_url)
{
    struct wrapping_jwt jwt;
    enum status st = wrapping_jwt_read(req->arena, from->token, &jwt);
    ASSERT(req != NULL);
    if (st == ST_INVALID)
        return req_fail(req, st,
                        "token: neither an activation token of primary/secondary-token (a JWT) nor "
                        "one that was sealed for this cluster");
    TRY(st);
    const char *base = from->primary_api_addr[0] != '\0' ? from->primary_api_addr : jwt.addr;
    if (base[0] == '\0')
        return req_fail(req, ST_INVALID,
                        "primary_api_addr: the token does not name the primary's API, so this "
                        "address is needed");
    size_t n = strlen(base);
    while (n > 0 && base[n - 1] == '/')
        n--;
    *ret_url = arena_format(req->arena, "%.*s" UNWRAP_PATH, (int)n, base);
    return *ret_url != NULL ? ST_OK : ST_NOMEM;
}

/* Read the reply of unwrapping: the envelope of the reply that was wrapped. */
static enum status read_unwrapped(struct req *req, const struct out_reply *reply,
                                  struct dr_bundle *ret_bundle)
{
    CLEANUP(buf_done) struct buf object = {0};
    struct text_writer w = {.out = &object, .plain = true};
    const struct text_value *envelope = NULL;
    struct reason why = {{0}};
    char said[SAID_MAX];
    ASSERT(req != NULL);
    if (reply->status != 200) {
        said_of(req, &reply->body, said);
        return req_fail(req, ST_INVALID,
                        "error response unwrapping secondary token; status code is %d%s%s",
                        reply->status, said[0] != '\0' ? ": " : "", said);
    }
    enum status st = text_json_parse(req->arena, buf_bytes(&reply->body), &envelope, NULL);
    if (st == ST_NOMEM)
        return st;
    const struct text_value *data = st == ST_OK ? text_get(envelope, "data") : NULL;
    if (data == NULL || data->kind != TEXT_OBJECT)
        return req_fail(req, ST_INTERNAL,
                        "error unwrapping secondary token: the reply is not that of a primary");
    text_put_value(&w, data);
    TRY(buf_status(&object));
    st = dr_bundle_read(buf_bytes(&object), ret_bundle, &why);
    return st != ST_INVALID
               ? st
               : req_fail(req, ST_INTERNAL, "error unwrapping secondary token: %s", why.text);
}

/* The wrapping token goes where a client's token goes: in the body it would need a token beside it.
 */
static struct out_header token_header(struct bytes token)
{
    return (struct out_header){"X-Secrets-Token", token};
}

static const struct out_header json_header = {"Content-Type",
                                              {(const uint8_t *)"application/json", 16}};

enum status replication_unwrap(struct req *req, const struct replication_wrapped *from,
                               struct dr_bundle *ret_bundle)
{
    CLEANUP(out_reply_done) struct out_reply reply = {0};
    struct reason why = {{0}};
    const char *url = NULL;
    ASSERT(req != NULL);
    *ret_bundle = (struct dr_bundle){0};
    TRY(unwrap_url(req, from, &url));
    const struct out_header header = token_header(from->token);
    const struct out_request request = {
        .method = "POST",
        .url = url,
        .headers = &header,
        .n_headers = 1,
        .total_ms = UNWRAP_MS,
        .reply_bytes_max = UNWRAP_BYTES_MAX,
        .tls = {.ca_file = from->ca_file, .ca_path = from->ca_path},
        .is_cancelled = is_leaving,
        .cancel_ctx = req->host,
    };
    enum status st = out_request(&request, &reply, NULL, &why);
    if (st == ST_NOMEM)
        return st;
    if (st != ST_OK)
        return req_fail(req, st == ST_INVALID || st == ST_REFUSED ? ST_INVALID : ST_INTERNAL,
                        "error unwrapping secondary token: %s",
                        why.text[0] != '\0' ? why.text : status_text(st));
    return read_unwrapped(req, &reply, ret_bundle);
}

/* Cluster ports */

/* Whether an address has no character that would make another URL of it. */
static bool is_plain(const char *address)
{
    return strpbrk(address, "/?#@\\%") == NULL;
}

/* Send to one cluster port of the primary. ST_OK: it replied, with any status. */
static enum status send(struct req *req, struct bytes ca, const char *address, struct bytes body,
                        struct out_reply *ret_reply, struct reason *why)
{
    const char *url = arena_format(req->arena, "https://%s" BOOTSTRAP_PATH, address);
    ASSERT(req != NULL);
    if (url == NULL)
        return ST_NOMEM;
    if (!is_plain(address)) {
        reason_set(why, "\"%.100s\" is no address", address);
        return ST_INVALID;
    }
    const struct out_request request = {
        .method = "POST",
        .url = url,
        .headers = &json_header,
        .n_headers = 1,
        .body = body,
        .connect_ms = ASK_CONNECT_MS,
        .total_ms = ASK_MS,
        .reply_bytes_max = DR_ANSWER_BYTES_MAX,
        .tls = {.ca_pem = ca, .any_name = true},
        .is_cancelled = is_leaving,
        .cancel_ctx = req->host,
    };
    return out_request(&request, ret_reply, NULL, why);
}

/* Ask one cluster port. ST_OK; ST_INVALID with the request's error: the primary refuses;
 * ST_BAD_GATEWAY with `why`: ask another one, or again later. */
static enum status ask_one(struct req *req, const struct dr_pending *pending, const char *address,
                           struct bytes body, struct bytes *ret_answer, struct reason *why)
{
    CLEANUP(out_reply_done) struct out_reply reply = {0};
    char said[SAID_MAX];
    enum status st = send(req, buf_bytes(&pending->bundle.ca), address, body, &reply, why);
    ASSERT(req != NULL);
    if (st == ST_NOMEM || st == ST_CLOSED)
        return st;
    if (st != ST_OK)
        return ST_BAD_GATEWAY;
    if (reply.status == 200) {
        *ret_answer = keep(req, buf_bytes(&reply.body));
        return ret_answer->data != NULL ? ST_OK : ST_NOMEM;
    }
    said_of(req, &reply.body, said);
    if (reply.status >= 400 && reply.status < 500 && reply.status != 429)
        return req_fail(req, ST_INVALID, "the primary at %s refuses: %s", address,
                        said[0] != '\0' ? said : "it does not say why");
    reason_set(why, "%s replies %d%s%s", address, reply.status, said[0] != '\0' ? ": " : "", said);
    return ST_BAD_GATEWAY;
}

static void pause_ms(uint32_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

enum status replication_ask(struct req *req, const struct dr_pending *pending, struct bytes body,
                            struct bytes *ret_answer, const char **ret_address)
{
    const struct dr_addresses *all = &pending->bundle.addresses;
    uint64_t begun_ms = env_mono_ms(req->env);
    struct reason why = {{0}};
    ASSERT(all->n > 0);
    for (;;) {
        for (unsigned i = 0; i < all->n; i++) {
            enum status st = ask_one(req, pending, all->at[i], body, ret_answer, &why);
            if (st == ST_OK) {
                *ret_address = arena_str(req->arena, bytes_str(all->at[i]));
                return *ret_address != NULL ? ST_OK : ST_NOMEM;
            }
            if (st != ST_BAD_GATEWAY)
                return st;
            if (env_mono_ms(req->env) - begun_ms >= SYS_DR_PATIENCE_MS)
                break;
        }
        if (env_mono_ms(req->env) - begun_ms >= SYS_DR_PATIENCE_MS)
            return req_fail(req, ST_BAD_GATEWAY,
                            "no node of the primary gives the activation: %s. Repeat the request "
                            "with the same token",
                            why.text);
        pause_ms(PAUSE_MS);
    }
}

enum status replication_find(struct req *req, struct bytes ca, const struct dr_addresses *addresses,
                             unsigned *ret_at)
{
    struct reason why = {{0}};
    ASSERT(req != NULL);
    for (unsigned i = 0; i < addresses->n; i++) {
        CLEANUP(out_reply_done) struct out_reply reply = {0};
        /* any reply will do: the handshake has proved whose port it is */
        enum status st = send(req, ca, addresses->at[i], BYTES("{}"), &reply, &why);
        if (st == ST_NOMEM || st == ST_CLOSED)
            return st;
        if (st == ST_OK) {
            *ret_at = i;
            return ST_OK;
        }
    }
    return req_fail(req, ST_BAD_GATEWAY,
                    "update_primary_addrs: no address is a cluster port of the primary: %s",
                    why.text);
}
