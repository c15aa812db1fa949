#include "auth/policy_list.h"
#include "router/request/req_entity.h"

#include <stdarg.h>
#include <stdio.h>

const char *req_param(const struct req *req, const char *name)
{
    for (unsigned i = 0; i < req->params.n; i++)
        if (text_is(req->params.items[i].name, name))
            return req->params.items[i].value;
    ASSERT(req->params.n > ROUTE_PARAMS_MAX); /* the pattern captures no such name */
    return "";
}

enum status req_query(struct req *req, const char *name, struct bytes *ret_text)
{
    const struct text_value *v = text_get(req->query, name);
    if (v != NULL && v->kind != TEXT_STRING)
        return req_fail(req, ST_INVALID, "%s: given more than once", name);
    *ret_text = v != NULL ? v->text : (struct bytes){0};
    return ST_OK;
}

struct auth_scope req_scope(const struct req *req)
{
    return (struct auth_scope){.txn = req->txn,
                               .cipher = req->cipher,
                               .cache = req->tokens,
                               .ns = req->ns,
                               .now_ms = req->now_ms,
                               .kind = req->token_kind,
                               .caller = req->caller};
}

struct held_acl {
    struct acl_ref *ref;
    struct req_cleanup cleanup;
};

static void drop_acl(struct req_cleanup *cleanup)
{
    acl_ref_drop(CONTAINER_OF(cleanup, struct held_acl, cleanup)->ref);
}

/* Add what the token has by its entity. A token of an entity that was deleted or is disabled allows
 * nothing. */
static enum status add_entity(struct req *req, const struct auth_token *token,
                              struct acl_names *names)
{
    const struct identity *identity = req->identity;
    ASSERT(token->entity_id[0] != '\0' && names->identity == NULL);
    if (policy_list_is_root(&token->policies))
        return ST_OK;
    enum status st = ST_OK;
    if (token != req->token || identity == NULL)
        st = req_entity(req, token, &identity);
    if (st == ST_DENIED) {
        *names = (struct acl_names){.now_ms = req->now_ms};
        return ST_OK;
    }
    TRY(st);
    return req_entity_names(req, identity, names);
}

enum status req_acl(struct req *req, const struct auth_token *token, const struct acl **ret_acl)
{
    ASSERT(req_in_txn(req));
    struct held_acl *held = arena_zalloc(req->arena, sizeof *held);
    if (held == NULL)
        return ST_NOMEM;
    struct acl_names names = {token->policies, token->policies_text, token->policies_hash,
                              req->now_ms, NULL};
    if (token->entity_id[0] != '\0')
        TRY(add_entity(req, token, &names));
    TRY(acl_cache_get(req->acls, req->txn, req->ns, &names, &held->ref));
    held->cleanup.run = drop_acl;
    req_defer(req, &held->cleanup);
    *ret_acl = acl_ref_get(held->ref);
    return ST_OK;
}

enum status req_key(const struct req *req, const char *path, struct bytes *ret_key)
{
    ASSERT(req->mount != NULL);
    return mount_key(req->arena, req->ns, req->mount, path, ret_key);
}

static enum status check_watched(const struct req *req, struct bytes key, bool prefix)
{
    ASSERT(req_in_txn(req));
    bool valid = prefix ? rlog_txn_prefix_valid(key) : rlog_txn_key_valid(key);
    return valid && bytes_has_prefix(key, BYTES(STATE_SHARED)) ? ST_OK : ST_INVALID;
}

static enum status note_watch(struct req *req, struct bytes key, bool prefix,
                              struct state_index found)
{
    if (req->block.index != 0) { /* the request may wait: say for what */
        struct req_watch *noted = arena_alloc(req->arena, sizeof *noted);
        uint8_t *copy = arena_dup(req->arena, key);
        if (noted == NULL || copy == NULL)
            return ST_NOMEM;
        *noted = (struct req_watch){req->watches, bytes_of(copy, key.len), prefix, found.present};
        req->watches = noted;
    }
    req->index = MAX(req->index, found.version);
    return ST_OK;
}

enum status req_watch_key(struct req *req, struct bytes key)
{
    TRY(check_watched(req, key, false));
    return note_watch(req, key, false, state_index_of(req->txn, key));
}

enum status req_watch_prefix(struct req *req, struct bytes prefix)
{
    TRY(check_watched(req, prefix, true));
    return note_watch(req, prefix, true, state_index_below(req->txn, prefix));
}

enum status req_watch_get(struct req *req, struct bytes key, struct state_value *ret_value)
{
    struct state_value value;
    TRY(check_watched(req, key, false));
    enum status st = state_get(req->txn, key, &value);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    struct state_index found = {.present = true};
    if (st == ST_OK && value.modified != 0) /* not staged: the index of state_index_of */
        found.version = MAX(value.modified, state_restored(req->txn));
    else
        found = state_index_of(req->txn, key);
    TRY(note_watch(req, key, false, found));
    if (st == ST_OK)
        *ret_value = value;
    return st;
}

struct text_writer req_reply_begin(struct req *req)
{
    ASSERT(req->reply.kind == REPLY_NONE);
    req->reply.kind = req->route->form == FORM_BARE ? REPLY_BARE : REPLY_DATA;
    return (struct text_writer){.out = &req->reply.data};
}

enum status req_reply_end(struct req *req)
{
    return buf_status(&req->reply.data);
}

enum status req_put_object(struct req *req, struct bytes key)
{
    ASSERT(req_in_txn(req));
    CLEANUP(buf_done) struct buf object = {0};
    struct text_writer w = {.out = &object, .plain = true};
    if (req->data->n == 0)
        return req_fail(req, ST_INVALID, "missing data fields");
    text_put_value(&w, req->data);
    TRY(buf_status(&object));
    if (object.len > STATE_VALUE_MAX)
        return req_fail(req, ST_TOO_BIG, "the value is longer than %d bytes", STATE_VALUE_MAX);
    return state_put(req->txn, key, buf_bytes(&object));
}

enum status req_reply(struct req *req, const void *out)
{
    ASSERT(req->route->reply != NULL);
    struct text_writer w = req_reply_begin(req);
    schema_encode(req->route->reply, out, &w);
    return req_reply_end(req);
}

struct text_writer req_reply_auth_begin(struct req *req)
{
    ASSERT(req->route->form != FORM_BARE && req->reply.auth.len == 0);
    req->reply.kind = REPLY_DATA;
    return (struct text_writer){.out = &req->reply.auth};
}

enum status req_reply_auth_end(struct req *req)
{
    return buf_status(&req->reply.auth);
}

enum status req_reply_keys(struct req *req, const char *const *keys, size_t n)
{
    if (n == 0)
        return ST_NOT_FOUND;
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_key(&w, "keys");
    text_open_list(&w);
    for (size_t i = 0; i < n; i++)
        text_put_str(&w, keys[i]);
    text_close(&w);
    text_close(&w);
    return req_reply_end(req);
}

void req_reply_json(struct req *req, struct bytes object)
{
    ASSERT(req->reply.kind == REPLY_NONE && req->route->form != FORM_BARE);
    req->reply.kind = REPLY_DATA;
    req->reply.borrowed = object;
}

enum status req_reply_raw(struct req *req, const char *content_type, struct bytes body)
{
    ASSERT(req->reply.kind == REPLY_NONE);
    req->reply.kind = REPLY_RAW;
    req->reply.content_type = content_type;
    buf_add(&req->reply.data, body);
    return req_reply_end(req);
}

static void add_warning(struct req *req, const char *format, va_list args)
{
    char text[400];
    struct req_reply *reply = &req->reply;
    ASSERT(reply->n_warnings <= REQ_WARNINGS_MAX);
    if (reply->n_warnings == REQ_WARNINGS_MAX)
        return;
    if (reply->warnings == NULL)
        reply->warnings = arena_alloc(req->arena, REQ_WARNINGS_MAX * sizeof reply->warnings[0]);
    (void)vsnprintf(text, sizeof text, format, args); /* a text that is too long is cut */
    const char *copy = arena_str(req->arena, bytes_str(text));
    if (copy != NULL && reply->warnings != NULL) /* without memory the warning is left out */
        reply->warnings[reply->n_warnings++] = copy;
}

void req_warn(struct req *req, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_warning(req, format, args);
    va_end(args);
    req->reply.insist = true;
}

void req_note(struct req *req, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_warning(req, format, args);
    va_end(args);
}

enum status req_fail(struct req *req, enum status st, const char *format, ...)
{
    va_list args;
    struct reason *why = req_reason(req);
    ASSERT(st != ST_OK);
    va_start(args, format);
    /* a text that is too long is cut */
    (void)vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return st;
}

struct reason *req_reason(struct req *req)
{
    static _Thread_local struct reason lost; /* without memory the error has no text */
    if (req->error == NULL)
        req->error = arena_zalloc(req->arena, sizeof *req->error);
    return req->error != NULL ? req->error : &lost;
}

const struct reason *req_error(const struct req *req)
{
    static const struct reason none;
    return req->error != NULL ? req->error : &none;
}

void req_forget_error(struct req *req)
{
    if (req->error != NULL)
        req->error->text[0] = '\0';
}

void req_defer(struct req *req, struct req_cleanup *cleanup)
{
    ASSERT(cleanup->run != NULL);
    cleanup->next = req->cleanups;
    req->cleanups = cleanup;
}

void req_skip_outside(struct req *req)
{
    ASSERT(req_in_txn(req) && req->route->outside != NULL);
    req->steps.skip_outside = true;
}

void req_keep(struct req *req)
{
    ASSERT(req_in_txn(req));
    req->steps.kept = state_mark(req->txn);
    req->steps.keeps = true;
}

void req_finish_again(struct req *req)
{
    ASSERT(req_in_txn(req) && req->route->finish != NULL);
    req->steps.again = true;
}
