#include "audit/facts.h"
#include "audit/record_write.h"
#include "text/cidr.h"
#include "text/json.h"

enum { SHARED_BYTES = 1024, REQUEST_BYTES = 256, REPLY_BYTES = 512 };

/* A key as JSON text: the keys of records need no escapes. */
#define KEY(name) BYTES("\"" name "\":")

static void put_str(struct text_writer *w, struct bytes key, const char *text)
{
    text_key_raw(w, key);
    text_put_str(w, text);
}

/* `json` is a value as JSON text. */
static void put_raw(struct text_writer *w, struct bytes key, struct bytes json)
{
    text_key_raw(w, key);
    text_put_raw(w, json);
}

static void put_int(struct text_writer *w, struct bytes key, int64_t n)
{
    text_key_raw(w, key);
    text_put_int(w, n);
}

static void put_bool(struct text_writer *w, struct bytes key, bool truth)
{
    text_key_raw(w, key);
    text_put_bool(w, truth);
}

static void put_time(struct text_writer *w, struct bytes key, int64_t ms)
{
    text_key_raw(w, key);
    text_put_time(w, ms);
}

/* Upstream leaves out members that are empty. */
static void put_text(struct text_writer *w, struct bytes key, const char *text)
{
    if (text != NULL && text[0] != '\0')
        put_str(w, key, text);
}

/* In full seconds, as upstream. */
static void put_issue_time(struct text_writer *w, int64_t issued_ms)
{
    if (issued_ms != 0)
        put_time(w, KEY("token_issue_time"), issued_ms / 1000 * 1000);
}

static void put_number(struct text_writer *w, struct bytes key, int64_t n)
{
    if (n != 0)
        put_int(w, key, n);
}

static void put_list(struct text_writer *w, struct field_strings texts)
{
    ASSERT(texts.items != NULL);
    text_open_list(w);
    for (size_t i = 0; i < texts.n; i++)
        text_put_str(w, texts.items[i]);
    text_close(w);
}

static void put_texts(struct text_writer *w, struct bytes key, struct field_strings texts)
{
    if (texts.n == 0)
        return;
    text_key_raw(w, key);
    put_list(w, texts);
}

/* Put a value that stands in the text already. */
static void put_again(struct text_writer *w, size_t at, size_t len)
{
    ASSERT(at + len <= w->out->len);
    if (buf_reserve(w->out, len + 1) == ST_OK) /* the text stays where it is meanwhile */
        text_put_raw(w, bytes_of(w->out->data + at, len));
}

/* Upstream has the policies of a token twice. */
static void put_policy_names(struct text_writer *w, const struct audit_auth *auth)
{
    if (auth->all_policies.n != 0)
        put_texts(w, KEY("policies"), auth->all_policies);
    if (auth->identity_policies.n != 0)
        put_texts(w, KEY("identity_policies"), auth->identity_policies);
    if (auth->policies.n == 0)
        return;
    bool alone = auth->all_policies.n == 0;
    text_key_raw(w, alone ? KEY("policies") : KEY("token_policies"));
    size_t at = w->out->len;
    put_list(w, auth->policies);
    size_t len = w->out->len - at;
    if (!alone)
        return;
    text_key_raw(w, KEY("token_policies"));
    put_again(w, at, len);
}

static void put_pairs(struct text_writer *w, struct bytes key, struct field_map map)
{
    if (map.n == 0)
        return;
    ASSERT(map.pairs != NULL);
    text_key_raw(w, key);
    text_open_object(w);
    for (size_t i = 0; i < map.n; i++)
        text_member_str(w, map.pairs[2 * i], map.pairs[2 * i + 1]);
    text_close(w);
}

static struct bytes text_or_nothing(const char *text)
{
    return text != NULL ? bytes_str(text) : (struct bytes){0};
}

static void put_policies(struct text_writer *w, struct field_strings names, const char *ns)
{
    text_key_raw(w, KEY("granting_policies"));
    text_open_list(w);
    for (size_t i = 0; i < names.n; i++) {
        ASSERT(names.items[i] != NULL);
        text_open_object(w);
        put_str(w, KEY("name"), names.items[i]);
        put_text(w, KEY("namespace_id"), ns);
        put_raw(w, KEY("type"), BYTES("\"acl\""));
        text_close(w);
    }
    text_close(w);
}

/* Upstream says only that a request was denied; a record here also has the rule that denied it, or
 * null if no rule fits the path. */
static void put_denying_rule(struct text_writer *w, const struct audit_rule *rule)
{
    text_key_raw(w, KEY("denying_rule"));
    if (rule->path == NULL) {
        text_put_null(w);
        return;
    }
    text_open_object(w);
    put_str(w, KEY("path"), rule->path);
    put_texts(w, KEY("policies"), rule->policies);
    put_texts(w, KEY("capabilities"), rule->caps);
    text_close(w);
}

static void put_results(struct text_writer *w, const struct audit_facts *facts)
{
    const struct audit_auth *auth = &facts->auth;
    if (!auth->judged)
        return;
    ASSERT(facts->ns != NULL); /* a sender with rights has a namespace */
    text_key_raw(w, KEY("policy_results"));
    text_open_object(w);
    put_bool(w, KEY("allowed"), auth->allowed);
    if (!auth->allowed)
        put_denying_rule(w, &auth->rule);
    else if (auth->rule.policies.n != 0)
        put_policies(w, auth->rule.policies, facts->ns);
    text_close(w);
}

static void put_auth(struct audit_writer *a, const struct audit_facts *facts)
{
    const struct audit_auth *auth = &facts->auth;
    struct text_writer *w = &a->w;
    ASSERT(!auth->judged || auth->accessor != NULL); /* only a token has rights */
    text_key_raw(w, KEY("auth"));
    text_open_object(w);
    audit_member_hole(a, KEY("client_token"), AUDIT_SECRET, auth->client_token);
    audit_member_hole(a, KEY("accessor"), AUDIT_ACCESSOR, text_or_nothing(auth->accessor));
    put_text(w, KEY("display_name"), auth->display_name);
    put_policy_names(w, auth);
    if (auth->no_default_policy)
        put_bool(w, KEY("no_default_policy"), true);
    put_results(w, facts);
    put_pairs(w, KEY("metadata"), auth->metadata);
    put_number(w, KEY("remaining_uses"), auth->remaining_uses);
    put_text(w, KEY("entity_id"), auth->entity_id);
    put_text(w, KEY("token_type"), auth->token_type);
    put_number(w, KEY("token_ttl"), auth->ttl_s);
    put_issue_time(w, auth->issued_ms);
    text_close(w);
}

static void put_mount(struct text_writer *w, const struct audit_mount *mount)
{
    put_text(w, KEY("mount_point"), mount->point);
    put_text(w, KEY("mount_type"), mount->type);
    put_text(w, KEY("mount_accessor"), mount->accessor);
    put_text(w, KEY("mount_class"), mount->class);
}

/* The address of a client as upstream splits it: host and port. */
static void put_peer(struct text_writer *w, const char *peer)
{
    const char *colon = peer != NULL ? strrchr(peer, ':') : NULL;
    int64_t port = 0;
    struct bytes host = text_or_nothing(peer);
    ASSERT(colon == NULL || colon >= peer);
    if (colon != NULL && text_int_parse(bytes_str(colon + 1), &port) == ST_OK) {
        host.len = (size_t)(colon - peer);
        if (host.len > 2 && host.data[0] == '[' && host.data[host.len - 1] == ']')
            host = bytes_of(host.data + 1, host.len - 2);
    }
    if (host.len == 0)
        return;
    text_key_raw(w, KEY("remote_address"));
    text_put_bytes(w, host);
    put_number(w, KEY("remote_port"), port);
}

static void put_headers(struct audit_writer *a, const struct audit_facts *facts)
{
    if (facts->n_headers == 0)
        return;
    ASSERT(facts->n_headers <= AUDIT_SHOWN_HEADERS_MAX);
    text_key_raw(&a->w, KEY("headers"));
    text_open_object(&a->w);
    for (unsigned i = 0; i < facts->n_headers; i++) {
        const struct audit_header_fact *header = &facts->headers[i];
        text_key(&a->w, header->name);
        text_open_list(&a->w);
        for (size_t k = 0; k < header->n_values; k++) {
            if (header->hmac)
                audit_put_hole(a, AUDIT_STRING, header->values[k]);
            else
                text_put_bytes(&a->w, header->values[k]);
        }
        text_close(&a->w);
    }
    text_close(&a->w);
}

static struct audit_exempt exempt_of(struct field_strings keys)
{
    return (struct audit_exempt){keys.items, keys.n};
}

/* *ret_mount: the members about the mount, in the text of the writer. */
static void put_request(struct audit_writer *a, const struct audit_facts *facts,
                        struct audit_span *ret_mount)
{
    struct text_writer *w = &a->w;
    ASSERT(w->depth == 1);
    text_key_raw(w, KEY("request"));
    text_open_object(w);
    put_text(w, KEY("id"), facts->request_id);
    put_text(w, KEY("client_id"), facts->auth.entity_id);
    put_text(w, KEY("operation"), facts->operation);
    ASSERT(w->separate);
    ret_mount->at = a->text.len + 1; /* behind a comma */
    put_mount(w, &facts->mount);
    ret_mount->len = MAX(a->text.len, ret_mount->at) - ret_mount->at;
    audit_member_hole(a, KEY("client_token"), AUDIT_SECRET, facts->auth.client_token);
    audit_member_hole(a, KEY("client_token_accessor"), AUDIT_ACCESSOR,
                      text_or_nothing(facts->auth.accessor));
    text_key_raw(w, KEY("namespace"));
    text_open_object(w);
    put_text(w, KEY("id"), facts->ns);
    text_close(w);
    text_key_raw(w, KEY("path"));
    text_put_bytes(w, facts->path);
    ASSERT(facts->data == NULL || facts->data->kind == TEXT_OBJECT);
    if (facts->data != NULL && facts->data->n != 0) {
        text_key_raw(w, KEY("data"));
        audit_put_tree(a, facts->data,
                       (struct audit_clear){exempt_of(facts->exempt), facts->declared});
    }
    put_peer(w, facts->peer);
    put_number(w, KEY("wrap_ttl"), facts->wrap_ttl_s);
    put_headers(a, facts);
    text_close(w);
}

static enum status end(struct audit_writer *a, struct audit_record **ret_record)
{
    enum status st = audit_writer_end(a, ret_record);
    audit_writer_done(a);
    return st;
}

enum status audit_facts_write(const struct audit_facts *facts, struct audit_record **ret_part)
{
    struct audit_writer a;
    struct audit_span mount;
    ASSERT(facts->request_id != NULL && facts->operation != NULL);
    ASSERT(facts->n_headers <= AUDIT_SHOWN_HEADERS_MAX);
    audit_writer_begin(&a, facts->spare, SHARED_BYTES);
    text_open_object(&a.w);
    put_auth(&a, facts);
    put_request(&a, facts, &mount);
    text_close(&a.w);
    ASSERT(a.w.depth == 0);
    TRY(end(&a, ret_part));
    ASSERT(mount.at + mount.len <= (*ret_part)->text.len);
    (*ret_part)->mount = mount;
    return ST_OK;
}

static void begin_record(struct audit_writer *a, struct audit_record *part, size_t bytes,
                         int64_t time_ms, struct bytes type)
{
    audit_writer_begin(a, part->spare, bytes);
    text_open_object(&a->w);
    put_time(&a->w, KEY("time"), time_ms);
    put_raw(&a->w, KEY("type"), type);
    audit_put_part(a, part);
}

enum status audit_facts_request(struct audit_record *part, int64_t time_ms, const char *error,
                                struct audit_record **ret_record)
{
    struct audit_writer a;
    begin_record(&a, part, REQUEST_BYTES, time_ms, BYTES("\"request\""));
    put_text(&a.w, KEY("error"), error);
    text_close(&a.w);
    return end(&a, ret_record);
}

static void put_member(struct audit_writer *a, const struct text_value *object, const char *name,
                       struct bytes key)
{
    const struct text_value *v = text_get(object, name);
    ASSERT(object->kind == TEXT_OBJECT);
    bool empty = v == NULL || v->kind == TEXT_NULL ||
                 (v->kind == TEXT_STRING && v->text.len == 0) ||
                 ((v->kind == TEXT_LIST || v->kind == TEXT_OBJECT) && v->n == 0);
    if (empty || (v->kind == TEXT_NUMBER && text_is(v->text, "0")))
        return;
    text_key_raw(&a->w, key);
    text_put_value(&a->w, v);
}

static void put_secret_member(struct audit_writer *a, const struct text_value *object,
                              const char *name, struct bytes key, enum audit_hole_kind kind)
{
    const struct text_value *v = text_get(object, name);
    if (v != NULL && v->kind == TEXT_STRING)
        audit_member_hole(a, key, kind, v->text);
}

/* The new token of a login or of auth/token. */
static void put_new_token(struct audit_writer *a, const struct audit_reply *reply)
{
    const struct text_value *auth = reply->auth;
    if (auth == NULL || auth->kind != TEXT_OBJECT)
        return;
    ASSERT(a->w.depth == 2);
    text_key_raw(&a->w, KEY("auth"));
    text_open_object(&a->w);
    put_secret_member(a, auth, "client_token", KEY("client_token"), AUDIT_SECRET);
    put_secret_member(a, auth, "accessor", KEY("accessor"), AUDIT_ACCESSOR);
    put_text(&a->w, KEY("display_name"), reply->display_name);
    put_member(a, auth, "policies", KEY("policies"));
    put_member(a, auth, "token_policies", KEY("token_policies"));
    put_member(a, auth, "identity_policies", KEY("identity_policies"));
    put_member(a, auth, "metadata", KEY("metadata"));
    put_member(a, auth, "num_uses", KEY("num_uses"));
    put_member(a, auth, "entity_id", KEY("entity_id"));
    put_member(a, auth, "token_type", KEY("token_type"));
    put_member(a, auth, "lease_duration", KEY("token_ttl"));
    put_issue_time(&a->w, reply->issued_ms);
    text_close(&a->w);
}

static void put_wrapping(struct audit_writer *a, const struct audit_wrapping *wrapping)
{
    struct text_writer *w = &a->w;
    if (wrapping == NULL)
        return;
    ASSERT(wrapping->token.len != 0);
    text_key_raw(w, KEY("wrap_info"));
    text_open_object(w);
    put_number(w, KEY("ttl"), wrapping->ttl_s);
    audit_member_hole(a, KEY("token"), AUDIT_SECRET, wrapping->token);
    audit_member_hole(a, KEY("accessor"), AUDIT_ACCESSOR, text_or_nothing(wrapping->accessor));
    put_time(w, KEY("creation_time"), wrapping->creation_time_ms);
    put_text(w, KEY("creation_path"), wrapping->creation_path);
    audit_member_hole(a, KEY("wrapped_accessor"), AUDIT_ACCESSOR,
                      text_or_nothing(wrapping->wrapped_accessor));
    text_close(w);
}

/* The data of a reply, or what can be said about a body of another type than JSON. */
static void put_data(struct audit_writer *a, const struct audit_reply *reply)
{
    struct text_writer *w = &a->w;
    if (reply->data.len > sizeof "{}" - 1) {
        text_key_raw(w, KEY("data"));
        audit_put_json(a, reply->data, exempt_of(reply->exempt), reply->listing);
        return;
    }
    if (reply->raw_type == NULL)
        return;
    ASSERT(reply->http != 0);
    text_key_raw(w, KEY("data"));
    text_open_object(w);
    put_str(w, KEY("http_content_type"), reply->raw_type);
    put_int(w, KEY("http_status_code"), reply->http);
    text_key_raw(w, KEY("http_raw_body_bytes"));
    text_put_uint(w, reply->raw_bytes);
    text_close(w);
}

static void put_reply_headers(struct text_writer *w, const struct audit_reply *reply)
{
    if (reply->n_headers == 0)
        return;
    ASSERT(reply->headers != NULL);
    text_key_raw(w, KEY("headers"));
    text_open_object(w);
    for (size_t i = 0; i < reply->n_headers; i++) {
        text_key_bytes(w, reply->headers[i].name);
        text_open_list(w);
        text_put_bytes(w, reply->headers[i].value);
        text_close(w);
    }
    text_close(w);
}

/* The mount is that of the request. */
static void put_reply(struct audit_writer *a, const struct audit_record *part,
                      const struct audit_reply *reply)
{
    const struct field_strings warnings = {reply->warnings, reply->n_warnings, true};
    struct text_writer *w = &a->w;
    ASSERT(w->depth == 1);
    ASSERT(reply->wrapping == NULL || reply->data.len == 0);
    text_key_raw(w, KEY("response"));
    text_open_object(w);
    put_int(w, KEY("http_status"), reply->http);
    put_new_token(a, reply);
    if (part->mount.len != 0)
        text_put_raw(w, bytes_of(part->text.data + part->mount.at, part->mount.len));
    if (reply->lease_id != NULL) {
        text_key_raw(w, KEY("secret"));
        text_open_object(w);
        put_text(w, KEY("lease_id"), reply->lease_id);
        text_close(w);
    }
    put_data(a, reply);
    put_texts(w, KEY("warnings"), warnings);
    put_wrapping(a, reply->wrapping);
    put_reply_headers(w, reply);
    text_close(w);
}

static enum status open_warnings(struct arena *arena, const struct text_value *list,
                                 struct audit_reply *reply)
{
    size_t n = 0;
    if (list == NULL || list->kind != TEXT_LIST)
        return ST_OK;
    TEXT_FOR (v, list)
        n += v->kind == TEXT_STRING;
    const char **texts = arena_alloc(arena, (n + 1) * sizeof *texts);
    if (texts == NULL)
        return ST_NOMEM;
    reply->warnings = texts;
    reply->n_warnings = 0;
    TEXT_FOR (v, list)
        if (v->kind == TEXT_STRING)
            texts[reply->n_warnings++] = (const char *)v->text.data;
    ASSERT(reply->n_warnings == n);
    return ST_OK;
}

enum status audit_facts_open(struct arena *arena, struct buf *text, struct audit_reply *reply)
{
    const struct text_value *envelope = NULL;
    struct text_writer w = {.out = text, .plain = true};
    ASSERT(reply->data.len != 0 && text->len == 0);
    enum status st = text_json_parse(arena, reply->data, &envelope, NULL);
    if (st == ST_NOMEM)
        return st;
    if (st != ST_OK || envelope->kind != TEXT_OBJECT || text_get(envelope, "request_id") == NULL)
        return ST_OK;
    const struct text_value *auth = text_get(envelope, "auth"), *data = text_get(envelope, "data");
    const struct text_value *lease = text_get(envelope, "lease_id");
    if (auth == NULL || data == NULL)
        return ST_OK;
    TRY(open_warnings(arena, text_get(envelope, "warnings"), reply));
    reply->auth = auth->kind == TEXT_OBJECT ? auth : NULL;
    if (lease != NULL && lease->kind == TEXT_STRING && lease->text.len != 0)
        reply->lease_id = (const char *)lease->text.data;
    reply->data = (struct bytes){0};
    if (data->kind == TEXT_NULL)
        return ST_OK;
    text_put_value(&w, data);
    reply->data = buf_bytes(text);
    return buf_status(text);
}

enum status audit_facts_reply(struct audit_record *part, int64_t time_ms,
                              const struct audit_reply *reply, const char *error,
                              struct audit_record **ret_record)
{
    struct audit_writer a;
    ASSERT(reply->http != 0);
    ASSERT(reply->data.len == 0 || reply->raw_type == NULL);
    begin_record(&a, part, REPLY_BYTES + reply->data.len, time_ms, BYTES("\"response\""));
    put_reply(&a, part, reply);
    put_text(&a.w, KEY("error"), error);
    if (reply->forwarded)
        put_bool(&a.w, KEY("forwarded"), true);
    text_close(&a.w);
    return end(&a, ret_record);
}
