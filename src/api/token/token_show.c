#include "api/token/token.h"

static const struct field bearer_fields[] = {
    FIELD(struct token_named, token, STRING, .preset = "", .hidden = true, .help = "The token."),
};
const struct schema token_bearer_schema = SCHEMA(struct token_named, bearer_fields);

static const struct field accessor_fields[] = {
    FIELD(struct token_named, accessor, STRING, .preset = "", .help = "The token's accessor."),
};
const struct schema token_accessor_schema = SCHEMA(struct token_named, accessor_fields);

static void put_strings(struct text_writer *w, const char *name, const struct field_strings *list)
{
    text_key(w, name);
    text_open_list(w);
    for (size_t i = 0; i < list->n; i++)
        text_put_str(w, list->items[i]);
    text_close(w);
}

static void put_map(struct text_writer *w, const char *name, const struct field_map *map)
{
    text_key(w, name);
    if (map->n == 0) {
        text_put_null(w);
        return;
    }
    text_open_object(w);
    for (size_t i = 0; i < map->n; i++)
        text_member_str(w, map->pairs[2 * i], map->pairs[2 * i + 1]);
    text_close(w);
}

/* Seconds until it ends; 0: never. */
static int64_t remaining_s(const struct auth_token *token, int64_t now_ms)
{
    return token->expire_ms == 0 ? 0 : MAX(token->expire_ms - now_ms, INT64_C(0)) / 1000;
}

static void put_times(struct text_writer *w, const struct auth_token *token, int64_t now_ms)
{
    text_member_int(w, "creation_time", token->created_ms / 1000);
    text_member_int(w, "creation_ttl", token->creation_ttl_s);
    if (token->expire_ms != 0) {
        text_member_time(w, "expire_time", token->expire_ms);
        text_member_time(w, "issue_time", token->created_ms);
    } else {
        text_member_null(w, "expire_time");
    }
    text_member_int(w, "ttl", remaining_s(token, now_ms));
    text_member_int(w, "explicit_max_ttl", token->explicit_max_ttl_s);
    if (token->period_s != 0)
        text_member_int(w, "period", token->period_s);
    if (token->renewed_ms == 0)
        return;
    text_member_time(w, "last_renewal", token->renewed_ms);
    text_member_int(w, "last_renewal_time", token->renewed_ms / 1000);
}

/* `bearer` is "" for those who only know the accessor. */
static enum status reply_lookup(struct req *req, struct bytes bearer,
                                const struct auth_token *token)
{
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_key(&w, "id");
    text_put_bytes(&w, bearer);
    text_member_str(&w, "accessor", token->accessor);
    put_strings(&w, "policies", &token->policies);
    text_member_str(&w, "path", token->path);
    put_map(&w, "meta", &token->meta);
    text_member_str(&w, "display_name", token->display_name);
    text_member_int(&w, "num_uses", token->num_uses);
    text_member_bool(&w, "orphan", token->orphan);
    text_member_bool(&w, "renewable", token->renewable);
    put_times(&w, token, req->now_ms);
    if (token->role[0] != '\0')
        text_member_str(&w, "role", token->role);
    text_member_str(&w, "entity_id", token->entity_id);
    text_member_str(&w, "type", token->type);
    if (token->bound_cidrs.n != 0)
        put_strings(&w, "bound_cidrs", &token->bound_cidrs);
    text_close(&w);
    return req_reply_end(req);
}

static enum status token_lookup_self(struct req *req)
{
    return reply_lookup(req, req->bearer, req->token);
}

static enum status token_lookup(struct req *req)
{
    const struct token_named *in = req_body(req);
    const struct auth_scope scope = req_scope(req);
    struct auth_token token;
    if (in->token[0] == '\0')
        return token_lookup_self(req);
    enum status st = auth_token_load(&scope, bytes_str(in->token), &token);
    if (st == ST_DENIED)
        return req_fail(req, ST_DENIED, "bad token");
    TRY(st);
    return reply_lookup(req, bytes_str(in->token), &token);
}

static enum status token_lookup_accessor(struct req *req)
{
    const struct token_named *in = req_body(req);
    const struct auth_scope scope = req_scope(req);
    struct auth_token token;
    enum status st = auth_token_find(&scope, in->accessor, &token);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "invalid accessor");
    TRY(st);
    return reply_lookup(req, BYTES(""), &token);
}

#define TOKEN_SHAPE                                                                         \
    "{id:str accessor:str policies:[str] path:str meta:map~ display_name:str num_uses:int " \
    "orphan:bool renewable:bool role?:str entity_id:str type:str creation_time:int "        \
    "creation_ttl:int expire_time:str~ ttl:int explicit_max_ttl:int period?:int "           \
    "issue_time?:str last_renewal?:str last_renewal_time?:int identity_policies?:[str] "    \
    "bound_cidrs?:[str]}"

static const struct route show_routes[] = {
    {.method = METHOD_GET,
     .path = "lookup-self",
     .handler = token_lookup_self,
     .shape = TOKEN_SHAPE,
     .help = "What this token is."},
    {.method = METHOD_POST,
     .path = "lookup-self",
     .handler = token_lookup_self,
     .flags = ROUTE_READS,
     .shape = TOKEN_SHAPE,
     .help = "What this token is."},
    {.method = METHOD_GET,
     .path = "lookup",
     .handler = token_lookup,
     .body = &token_bearer_schema,
     .shape = TOKEN_SHAPE,
     .help = "What a token is: the one that the query names, else the caller's."},
    {.method = METHOD_POST,
     .path = "lookup",
     .handler = token_lookup,
     .flags = ROUTE_READS,
     .body = &token_bearer_schema,
     .shape = TOKEN_SHAPE,
     .help = "What a token is."},
    {.method = METHOD_POST,
     .path = "lookup-accessor",
     .handler = token_lookup_accessor,
     .flags = ROUTE_READS,
     .body = &token_accessor_schema,
     .shape = TOKEN_SHAPE,
     .help = "What the token of an accessor is, without the token."},
};

const struct route_table token_show_table = {show_routes, ARRAY_LEN(show_routes)};
