/* The audit records of a request: what they say, and which devices get them (PROTOCOL R20). */
#include "audit/facts.h"
#include "auth/wrapping.h"
#include "router/pipeline/pipe_phases.h"
#include "router/request/req_entity.h"
#include "text/json.h"

enum status pipe_find_devices(struct pipe *p)
{
    struct audit_set *set;
    struct req *req = &p->req;
    ASSERT(req->host->audit != NULL);
    p->once |= PIPE_ONCE_DEVICES;
    if ((p->once & PIPE_ONCE_RECORDED) != 0) /* the reply goes to the devices of the request */
        return ST_OK;
    /* no key reads the devices of the state: those of the configuration file are left */
    bool keyless = p->node.sealed || !p->node.initialized;
    enum status st =
        audit_find(&p->worker->audit, req->host->audit, keyless ? NULL : req->txn, &set);
    if (st != ST_OK) {
        p->once &= ~(unsigned)PIPE_ONCE_DEVICES;
        return req_fail(req, st, "the settings of the audit devices cannot be read");
    }
    if (set->n_uses == 0)
        set = NULL;
    if (set == p->devices)
        return ST_OK;
    pipe_forget_facts(p);
    p->devices = set != NULL ? audit_set_ref(set) : NULL;
    return ST_OK;
}

bool pipe_is_recorded(const struct pipe *p)
{
    bool open = pipe_has_who(p, WHO_LISTENER) && p->request->open_metrics;
    return p->devices != NULL && !p->unrecorded && !open && !pipe_has_flag(p, ROUTE_UNRECORDED);
}

bool pipe_owes_record(const struct pipe *p)
{
    return p->devices != NULL && (p->once & (PIPE_ONCE_RECORDED | PIPE_ONCE_MUTE)) == 0 &&
           pipe_is_recorded(p);
}

/* The rule that decided, with the names of its policies; of a rule that allowed no more than these
 * names. Without memory the record lacks them. */
static struct audit_rule deciding_rule(struct pipe *p, bool allowed)
{
    struct req *req = &p->req;
    const struct policy_rule *rule = req->rule;
    struct audit_rule out = {.path = NULL};
    static const char *const root[] = {AUTH_POLICY_ROOT};
    ASSERT(req->acl != NULL);
    if (acl_is_root(req->acl)) {
        out.policies = (struct field_strings){root, 1, true};
        return out;
    }
    if (rule == NULL)
        return out;
    if (acl_rule_policies(req->acl, rule, req->arena, &out.policies.items, &out.policies.n) !=
        ST_OK)
        out.policies = (struct field_strings){0};
    if (allowed)
        return out;
    out.path = arena_format(req->arena, "%.*s%s", (int)rule->stem.len,
                            rule->stem.len != 0 ? (const char *)rule->stem.data : "",
                            rule->star ? "*" : "");
    const char **caps = arena_alloc(req->arena, CAP_KINDS * sizeof *caps);
    for (unsigned i = 0, bit; caps != NULL && i < CAP_KINDS; i++) {
        const char *word = cap_word(i, &bit);
        if ((rule->caps & bit) != 0)
            caps[out.caps.n++] = word;
    }
    out.caps.items = caps;
    return out;
}

static bool names_default(const struct field_strings *policies)
{
    for (size_t i = 0; i < policies->n; i++)
        if (strcmp(policies->items[i], POLICY_DEFAULT) == 0)
            return true;
    return false;
}

/* Add the policies that the token has by its entity; without memory the record lacks them. */
static void add_identity(struct pipe *p, struct audit_auth *auth)
{
    struct field_strings all = auth->policies;
    ASSERT(p->req.identity != NULL && auth->identity_policies.n == 0);
    auth->identity_policies = p->req.identity->policies;
    if (req_unite_policies(&p->req, &auth->identity_policies, &all) == ST_OK)
        auth->all_policies = all;
}

static struct audit_auth auth_of(struct pipe *p)
{
    const struct req *req = &p->req;
    const struct auth_token *token = req->token;
    ASSERT(req->acl == NULL || token != NULL);
    struct audit_auth auth = {.client_token = stage_bearer(req, p->request)};
    if (token == NULL)
        return auth;
    auth.accessor = token->accessor;
    auth.display_name = token->display_name;
    auth.entity_id = token->entity_id;
    auth.token_type = token->type;
    auth.policies = token->policies;
    if (req->identity != NULL && req->identity->policies.n != 0)
        add_identity(p, &auth);
    auth.metadata = token->meta;
    auth.no_default_policy =
        !names_default(&token->policies) && req->acl != NULL && !acl_is_root(req->acl);
    auth.remaining_uses = token->num_uses;
    auth.ttl_s = auth_token_granted_s(token);
    auth.issued_ms = token->created_ms;
    if (req->acl == NULL)
        return auth;
    auth.judged = true;
    auth.allowed = p->verdict != ST_DENIED;
    auth.rule = deciding_rule(p, auth.allowed);
    return auth;
}

static struct audit_mount mount_of(const struct req *req)
{
    const struct mount *mount = req->mount;
    struct audit_mount out = {0};
    if (req->api == NULL)
        return out;
    ASSERT(mount == NULL || req_in_txn(req)); /* the transaction holds the mount */
    out.point = mount != NULL ? mount->path : req->api->prefix;
    out.type = mount != NULL ? mount->type : req->api->type;
    out.accessor = mount != NULL ? mount->accessor : NULL;
    if (out.point != NULL)
        out.class = bytes_has_prefix(bytes_str(out.point), BYTES("auth/")) ? "auth" : "secret";
    return out;
}

/* All values of a header: a client may send it several times. */
static enum status values_of(struct pipe *p, struct audit_header_fact *fact)
{
    const struct router_request *request = p->request;
    struct bytes value, *values;
    size_t at = 0, n = 0;
    ASSERT(fact->name != NULL && fact->n_values == 0);
    while (request->header_next(request, fact->name, &at, &value))
        n++;
    if (n == 0)
        return ST_OK;
    values = arena_alloc(p->req.arena, n * sizeof *values);
    if (values == NULL)
        return ST_NOMEM;
    at = 0;
    for (size_t i = 0; i < n; i++)
        ASSERT(request->header_next(request, fact->name, &at, &values[i]));
    fact->values = values;
    fact->n_values = n;
    return ST_OK;
}

static enum status show_headers(struct pipe *p, struct audit_facts *facts)
{
    const struct audit_set *set = p->devices;
    ASSERT(set != NULL && facts->n_headers == 0);
    ASSERT(set->n_headers <= AUDIT_SHOWN_HEADERS_MAX);
    if (set->n_headers == 0)
        return ST_OK;
    struct audit_header_fact *shown = arena_alloc(p->req.arena, set->n_headers * sizeof *shown);
    if (shown == NULL)
        return ST_NOMEM;
    facts->headers = shown;
    for (unsigned i = 0; i < set->n_headers; i++) {
        struct audit_header_fact fact = {.name = set->headers[i].name,
                                         .hmac = set->headers[i].hmac};
        TRY(values_of(p, &fact));
        if (fact.n_values != 0)
            shown[facts->n_headers++] = fact;
    }
    return ST_OK;
}

/* The path below the root of the API. Outside of every API: the whole path, with its first '/'. A
 * malformed one: as the client sent it. */
static struct bytes path_of(const struct pipe *p)
{
    const struct path_target *target = &p->request->target;
    if (p->req.path.data != NULL)
        return p->req.path;
    if (target->path.data != NULL)
        return target->path;
    return target->full.data != NULL ? target->full : target->malformed;
}

static enum status write_facts(struct pipe *p)
{
    const struct req *req = &p->req;
    ASSERT(p->more->facts == NULL && p->devices != NULL);
    struct audit_facts facts = {
        .request_id = req->request_id,
        .operation = req->creates ? "create" : stage_operation(req->method),
        .ns = req->ns,
        .peer = p->request->peer,
        .path = path_of(p),
        .auth = auth_of(p),
        .mount = mount_of(req),
        .data = req->data,
        .declared = req->route != NULL ? req->route->body : NULL,
        .wrap_ttl_s = req->wrap_ttl_s,
        .spare = &p->worker->audit.spare,
    };
    if (req->mount != NULL)
        facts.exempt = req->mount->audit_non_hmac_request_keys;
    TRY(show_headers(p, &facts));
    return audit_facts_write(&facts, &p->more->facts);
}

/* The keys of a reply that its mount exempts, kept beyond the end of the transaction. */
static enum status keep_exempt(struct pipe *p)
{
    const struct mount *mount = p->req.mount;
    ASSERT(p->more->facts == NULL);
    p->more->exempt = (struct field_strings){0};
    if (mount == NULL || mount->audit_non_hmac_response_keys.n == 0)
        return ST_OK;
    struct arena *arena = p->req.arena;
    const struct field_strings *keys = &mount->audit_non_hmac_response_keys;
    const char **copies = arena_alloc(arena, keys->n * sizeof *copies);
    if (copies == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < keys->n; i++) {
        copies[i] = arena_str(arena, bytes_str(keys->items[i]));
        if (copies[i] == NULL)
            return ST_NOMEM;
    }
    p->more->exempt = (struct field_strings){copies, keys->n, true};
    return ST_OK;
}

/* Facts of an earlier run are written again while a transaction has those of the present run. */
static enum status need_facts(struct pipe *p)
{
    TRY(pipe_need_more(p));
    struct pipe_more *more = p->more;
    ASSERT(more->pipe == p && p->devices != NULL);
    if (more->facts != NULL && !(more->stale && req_in_txn(&p->req)))
        return ST_OK;
    audit_record_unref(more->facts);
    more->facts = NULL;
    more->stale = false;
    TRY(keep_exempt(p));
    return write_facts(p);
}

void pipe_keep_facts(struct pipe *p)
{
    if (p->devices != NULL && pipe_is_recorded(p) && need_facts(p) != ST_OK)
        return; /* the record of the reply reports the failure */
}

void pipe_forget_facts(struct pipe *p)
{
    if (p->more != NULL) {
        audit_record_unref(p->more->facts);
        p->more->facts = NULL;
    }
    audit_set_unref(p->devices);
    p->devices = NULL;
}

static void on_recorded(struct audit_op *op, enum status st)
{
    struct pipe *p = CONTAINER_OF(op, struct pipe_more, audit)->pipe;
    p->result = st;
    pipe_step(p);
}

static enum status offer(struct pipe *p, struct audit_record *const records[], unsigned n)
{
    p->more->audit = (struct audit_op){.done = on_recorded};
    return audit_offer(&p->worker->audit, p->devices, records, n, &p->more->audit);
}

static const char *error_text(const struct pipe *p, enum status st)
{
    return st != ST_OK ? reply_error_text(p->req.dialect, st, req_error(&p->req)) : NULL;
}

static enum status make_request(struct pipe *p, struct audit_record **ret_record)
{
    enum status refusal = p->verdict;
    ASSERT((p->once & PIPE_ONCE_RECORDED) == 0);
    TRY(need_facts(p));
    if (refusal == ST_OK && (p->once & PIPE_ONCE_HANDLED) == 0)
        refusal = p->failure; /* refused before the rights of the sender were known */
    return audit_facts_request(p->more->facts, env_wall_ms(p->worker->env), error_text(p, refusal),
                               ret_record);
}

enum status pipe_offer_request(struct pipe *p)
{
    struct audit_record *record;
    TRY(make_request(p, &record));
    enum status st = offer(p, &record, 1);
    audit_record_unref(record);
    return st;
}

static bool is_json(const char *type)
{
    return type != NULL && strcmp(type, "application/json") == 0;
}

/* Describe the body of the reply. A body that is no JSON is not recorded, only its type and
 * length; nor is a document that every client gets. The stored reply of an earlier try is recorded
 * whole, with its envelope: its parts are not stored one by one, and the strings of the envelope
 * are hashed like those of the data. */
static void describe_body(const struct pipe *p, struct audit_reply *out)
{
    const struct req_reply *reply = &p->req.reply;
    bool whole = p->repeated || reply->kind == REPLY_BARE || reply->kind == REPLY_RAW;
    ASSERT(out->data.len == 0 && out->raw_type == NULL);
    if (out->wrapping != NULL || p->failure != ST_OK)
        return;
    if (p->reply.file.file != NULL) {
        out->raw_type = p->reply.content_type;
        out->raw_bytes = p->reply.file.bytes;
    } else if (p->reply.log.tail != NULL) {
        out->raw_type = p->reply.content_type; /* the length is not known yet */
    } else if (whole && is_json(p->reply.content_type) && reply->encoding == NULL &&
               p->reply.shared == NULL) {
        out->data = buf_bytes(&p->reply.body);
    } else if (whole && p->reply.content_type != NULL) {
        out->raw_type = p->reply.content_type;
        out->raw_bytes = reply_bytes(&p->reply).len;
    } else if (reply->kind == REPLY_DATA) {
        out->data = reply->borrowed.len != 0 ? reply->borrowed : buf_bytes(&reply->data);
    }
}

/* The reply of an unwrap is the envelope of another reply. `data` keeps the text of its data. */
static enum status describe_unwrapped(const struct pipe *p, struct buf *data,
                                      struct audit_reply *out)
{
    bool unwraps = p->req.route != NULL && p->req.route->who == WHO_WRAPPING &&
                   p->req.reply.kind == REPLY_RAW && !p->repeated;
    ASSERT(data->len == 0 && out->auth == NULL);
    if (!unwraps || out->data.len == 0)
        return ST_OK;
    ASSERT(out->wrapping == NULL && p->failure == ST_OK);
    return audit_facts_open(p->req.arena, data, out);
}

/* Describe the token that the reply gives. A body that cannot be parsed is our mistake: then the
 * record fails, and so does the request. */
static enum status describe_token(const struct pipe *p, struct audit_reply *out)
{
    const struct req_reply *reply = &p->req.reply;
    if (out->wrapping != NULL || p->failure != ST_OK || p->repeated || reply->auth.len == 0)
        return ST_OK;
    out->display_name = reply->display_name;
    out->issued_ms = reply->issued_ms;
    return text_json_parse(p->req.arena, buf_bytes(&reply->auth), &out->auth, NULL);
}

static void describe_headers(const struct pipe *p, struct audit_reply_header *headers,
                             struct audit_reply *out)
{
    for (size_t i = 0; i < p->reply.n_headers; i++)
        headers[i] =
            (struct audit_reply_header){p->reply.headers[i].name, p->reply.headers[i].value};
    out->headers = headers;
    out->n_headers = p->reply.n_headers;
}

static enum status make_reply(struct pipe *p, struct audit_record **ret_record)
{
    const struct req_reply *reply = &p->req.reply;
    const struct wrapping *wrapping = p->repeated ? NULL : reply->wrapping;
    CLEANUP(buf_done) struct buf unwrapped = {0};
    struct audit_reply_header headers[REPLY_HEADERS_MAX];
    struct audit_wrapping told;
    ASSERT(p->more->facts != NULL && p->reply.http != 0);
    struct audit_reply out = {
        .http = p->reply.http,
        .listing = stage_lists(&p->req),
        .exempt = p->more->exempt,
        .forwarded = p->request->forwarded,
    };
    if (wrapping != NULL && p->failure == ST_OK) {
        told = (struct audit_wrapping){
            .token = bytes_str(wrapping->bearer),
            .accessor = wrapping->token.accessor,
            .wrapped_accessor = wrapping->wrapped_accessor,
            .creation_path = wrapping->creation_path,
            .ttl_s = wrapping->creation_ttl_s,
            .creation_time_ms = wrapping->creation_time_ms,
        };
        out.wrapping = &told;
    }
    if (p->failure == ST_OK && !p->repeated) {
        out.lease_id = reply->lease_id;
        out.warnings = reply->warnings;
        out.n_warnings = reply->n_warnings;
    }
    describe_body(p, &out);
    TRY(describe_unwrapped(p, &unwrapped, &out));
    TRY(describe_token(p, &out));
    describe_headers(p, headers, &out);
    return audit_facts_reply(p->more->facts, env_wall_ms(p->worker->env), &out,
                             error_text(p, p->failure), ret_record);
}

enum status pipe_offer_reply(struct pipe *p)
{
    struct audit_record *records[AUDIT_TOGETHER];
    unsigned n = 0;
    ASSERT(p->phase == PIPE_RECORDING_REPLY);
    enum status st = need_facts(p);
    if (st == ST_OK && (p->once & PIPE_ONCE_RECORDED) == 0)
        st = make_request(p, &records[n++]);
    if (st != ST_OK)
        return st;
    st = make_reply(p, &records[n]);
    if (st == ST_OK)
        st = offer(p, records, ++n);
    while (n > 0)
        audit_record_unref(records[--n]);
    return st;
}
