#include "api/sys/sys.h"
#include "text/time.h"

static void put_strings(struct text_writer *w, const char *name, const struct field_strings *list)
{
    text_key(w, name);
    text_open_list(w);
    for (size_t i = 0; i < list->n; i++)
        text_put_str(w, list->items[i]);
    text_close(w);
}

static void put_meta(struct text_writer *w, const struct field_map *meta)
{
    text_key(w, "meta");
    if (meta->n == 0) {
        text_put_null(w);
        return;
    }
    text_open_object(w);
    for (size_t i = 0; i < meta->n; i++)
        text_member_str(w, meta->pairs[2 * i], meta->pairs[2 * i + 1]);
    text_close(w);
}

static enum status put_expiry(struct text_writer *w, const struct auth_token *token, int64_t now_s)
{
    CLEANUP(buf_done) struct buf time = {0};
    text_key(w, "expire_time");
    if (token->expire_time_s == 0) {
        text_put_null(w);
        text_member_int(w, "ttl", 0);
        return ST_OK;
    }
    text_time_put(&time, token->expire_time_s * 1000);
    TRY(buf_status(&time));
    text_put_bytes(w, buf_bytes(&time));
    text_member_int(w, "ttl", MAX(token->expire_time_s - now_s, INT64_C(0)));
    return ST_OK;
}

static enum status token_lookup_self(struct req *req)
{
    const struct auth_token *token = req->token;
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_key(&w, "id");
    text_put_bytes(&w, req->bearer);
    text_member_str(&w, "accessor", token->accessor);
    put_strings(&w, "policies", &token->policies);
    text_member_str(&w, "path", token->path);
    put_meta(&w, &token->meta);
    text_member_str(&w, "display_name", token->display_name);
    text_member_int(&w, "num_uses", token->num_uses);
    text_member_bool(&w, "orphan", token->orphan);
    text_member_bool(&w, "renewable", token->renewable);
    text_member_int(&w, "creation_time", token->creation_time_s);
    text_member_int(&w, "creation_ttl", token->creation_ttl_s);
    TRY(put_expiry(&w, token, req->now_ms / 1000));
    text_member_int(&w, "explicit_max_ttl", token->explicit_max_ttl_s);
    text_member_str(&w, "entity_id", token->entity_id);
    text_member_str(&w, "type", token->type);
    text_close(&w);
    return req_reply_end(req);
}

static const struct route token_routes[] = {
    {.method = METHOD_GET,
     .path = "lookup-self",
     .handler = token_lookup_self,
     .help = "What this token is."},
    {.method = METHOD_POST,
     .path = "lookup-self",
     .handler = token_lookup_self,
     .flags = ROUTE_READS,
     .help = "What this token is."},
};

const struct route_api token_api = {
    .prefix = "auth/token/", .type = "token", .routes = token_routes, .n = ARRAY_LEN(token_routes)};
