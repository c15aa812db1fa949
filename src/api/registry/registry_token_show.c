/* Tokens as replies show them. */
#include "api/registry/registry_token.h"
#include "auth/registry/registry_link.h"
#include "auth/registry/registry_policy.h"
#include "auth/registry/registry_settings.h"
#include "router/request/reply.h"
#include "router/router.h"
#include "text/encode.h"

#include <inttypes.h>

#define HIDDEN "<hidden>"

struct policy_link {
    const char *id, *name;
};
static const struct field policy_link_fields[] = {
    FIELD_NAMED("ID", struct policy_link, id, STRING),
    FIELD_NAMED("Name", struct policy_link, name, STRING),
};
static const struct schema policy_link = SCHEMA(struct policy_link, policy_link_fields);

struct service_link {
    const char *name;
    struct field_strings datacenters;
};
static const struct field service_link_fields[] = {
    FIELD_NAMED("ServiceName", struct service_link, name, STRING),
    FIELD_NAMED("Datacenters", struct service_link, datacenters, STRINGS, .omit = true),
};
static const struct schema service_link = SCHEMA(struct service_link, service_link_fields);

struct node_link {
    const char *name, *datacenter;
};
static const struct field node_link_fields[] = {
    FIELD_NAMED("NodeName", struct node_link, name, STRING),
    FIELD_NAMED("Datacenter", struct node_link, datacenter, STRING),
};
static const struct schema node_link = SCHEMA(struct node_link, node_link_fields);

struct whole_policy {
    const char *id, *name, *description, *rules, *hash;
    struct field_strings datacenters;
    uint64_t created, modified;
};
static const struct field whole_policy_fields[] = {
    FIELD_NAMED("ID", struct whole_policy, id, STRING),
    FIELD_NAMED("Name", struct whole_policy, name, STRING),
    FIELD_NAMED("Description", struct whole_policy, description, STRING),
    FIELD_NAMED("Rules", struct whole_policy, rules, STRING),
    FIELD_NAMED("Datacenters", struct whole_policy, datacenters, STRINGS, .omit = true),
    FIELD_NAMED("Hash", struct whole_policy, hash, STRING),
    FIELD_NAMED("CreateIndex", struct whole_policy, created, UINT),
    FIELD_NAMED("ModifyIndex", struct whole_policy, modified, UINT),
};
static const struct schema whole_policy = SCHEMA(struct whole_policy, whole_policy_fields);

struct token_out {
    const char *id, *accessor, *secret, *description, *hash, *created, *modified;
    struct field_list policies, services, nodes;
    struct field_list expanded;          /* with REGISTRY_SHOW_EXPANDED */
    const char *otherwise, *resolved_by; /* the same */
    int64_t expire_ms, created_ms;
    bool local;
};

static const struct field token_fields[] = {
    FIELD_NAMED("ID", struct token_out, id, STRING, .omit = true,
                .help = "The SecretID; only the reply of the bootstrap has it."),
    FIELD_NAMED("AccessorID", struct token_out, accessor, STRING),
    FIELD_NAMED("SecretID", struct token_out, secret, STRING, .help = HIDDEN " without acl:write."),
    FIELD_NAMED("Description", struct token_out, description, STRING),
    FIELD_NAMED("Policies", struct token_out, policies, LIST, .sub = &policy_link, .omit = true),
    FIELD_NAMED("ServiceIdentities", struct token_out, services, LIST, .sub = &service_link,
                .omit = true),
    FIELD_NAMED("NodeIdentities", struct token_out, nodes, LIST, .sub = &node_link, .omit = true),
    FIELD_NAMED("Local", struct token_out, local, BOOL),
    FIELD_NAMED("ExpirationTime", struct token_out, expire_ms, TIME, .omit = true),
    FIELD_NAMED("CreateTime", struct token_out, created_ms, TIME),
    FIELD_NAMED("Hash", struct token_out, hash, STRING,
                .help = "BLAKE2b-256 of description, scope and links, in base64."),
    FIELD_NAMED("CreateIndex", struct token_out, created, DIGITS),
    FIELD_NAMED("ModifyIndex", struct token_out, modified, DIGITS),
    FIELD_NAMED("ExpandedPolicies", struct token_out, expanded, LIST, .sub = &whole_policy,
                .omit = true, .help = "The policies whole; with ?expanded."),
    FIELD_NAMED("AgentACLDefaultPolicy", struct token_out, otherwise, STRING, .omit = true,
                .help = "What holds where no rule decides; with ?expanded."),
    FIELD_NAMED("ResolvedByAgent", struct token_out, resolved_by, STRING, .omit = true,
                .help = "The node that replied; with ?expanded."),
};
const struct schema registry_token_reply = SCHEMA(struct token_out, token_fields);

struct tokens_out {
    struct field_list tokens;
};
static const struct field tokens_fields[] = {
    FIELD_ITSELF(struct tokens_out, tokens, LIST, .sub = &registry_token_reply)};
const struct schema registry_tokens_reply = SCHEMA_ITSELF(struct tokens_out, tokens_fields);

/* The policies that a reply has named so far: many tokens share few policies. */
struct named_policy {
    struct registry_policy policy;
    bool exists;
    struct named_policy *next;
};

/* The policy of a link; *ret_policy NULL: it was deleted. */
static enum status linked_policy(struct req *req, struct named_policy **known, struct bytes id,
                                 const struct registry_policy **ret_policy)
{
    struct named_policy *found = *known;
    while (found != NULL && !text_is(id, found->policy.id))
        found = found->next;
    if (found == NULL) {
        found = arena_zalloc(req->arena, sizeof *found);
        const char *text = arena_str(req->arena, id);
        if (found == NULL || text == NULL)
            return ST_NOMEM;
        enum status st = registry_policy_load(req->txn, req->ns, text, &found->policy);
        if (st != ST_NOT_FOUND)
            TRY(st);
        found->exists = st == ST_OK;
        found->policy.id = text;
        found->next = *known;
        *known = found;
    }
    *ret_policy = found->exists ? &found->policy : NULL;
    return ST_OK;
}

static const char *hash_text(struct arena *arena, const uint8_t hash[CRYPTO_BLAKE2B256_BYTES])
{
    char *text = arena_alloc(arena, TEXT_BASE64_LEN(CRYPTO_BLAKE2B256_BYTES) + 1);
    if (text != NULL)
        (void)text_base64_put(bytes_of(hash, CRYPTO_BLAKE2B256_BYTES), TEXT_BASE64, text);
    return text;
}

/* The lists of a token under construction; each has room for all links. */
struct links_out {
    struct policy_link *policies;
    struct service_link *services;
    struct node_link *nodes;
    struct whole_policy *whole; /* NULL: not wanted */
    size_t n_policies, n_services, n_nodes;
};

static enum status show_policy(struct req *req, const struct registry_policy *policy,
                               struct links_out *out)
{
    if (policy == NULL)
        return ST_OK;
    size_t i = out->n_policies++;
    out->policies[i] = (struct policy_link){policy->id, policy->name};
    if (out->whole == NULL)
        return ST_OK;
    out->whole[i] = (struct whole_policy){.id = policy->id,
                                          .name = policy->name,
                                          .description = policy->description,
                                          .rules = policy->rules,
                                          .hash = hash_text(req->arena, policy->hash),
                                          .datacenters = policy->datacenters,
                                          .created = policy->created,
                                          .modified = policy->modified};
    return out->whole[i].hash != NULL ? ST_OK : ST_NOMEM;
}

static enum status show_service(struct arena *arena, const struct registry_link *link,
                                struct links_out *out)
{
    struct bytes rest = link->datacenters, dc;
    const char **items = arena_alloc(arena, (rest.len + 1) * sizeof *items);
    struct service_link *service = &out->services[out->n_services++];
    *service = (struct service_link){.name = arena_str(arena, link->name)};
    if (items == NULL || service->name == NULL)
        return ST_NOMEM;
    while (registry_link_next_datacenter(&rest, &dc)) {
        const char *text = arena_str(arena, dc);
        if (text == NULL)
            return ST_NOMEM;
        items[service->datacenters.n++] = text;
    }
    service->datacenters.items = items;
    return ST_OK;
}

static enum status show_node(struct arena *arena, const struct registry_link *link,
                             struct links_out *out)
{
    struct node_link *node = &out->nodes[out->n_nodes++];
    node->name = arena_str(arena, link->name);
    node->datacenter = arena_str(arena, link->datacenters);
    return node->name != NULL && node->datacenter != NULL ? ST_OK : ST_NOMEM;
}

static enum status add_links(struct req *req, const struct registry_token *token,
                             struct named_policy **known, struct links_out *out)
{
    for (size_t i = 0; i < token->links.n; i++) {
        const struct registry_link link = registry_link_read(bytes_str(token->links.items[i]));
        const struct registry_policy *policy;
        switch (link.kind) {
        case REGISTRY_LINK_POLICY:
            TRY(linked_policy(req, known, link.name, &policy));
            TRY(show_policy(req, policy, out));
            break;
        case REGISTRY_LINK_SERVICE: TRY(show_service(req->arena, &link, out)); break;
        case REGISTRY_LINK_NODE: TRY(show_node(req->arena, &link, out)); break;
        }
    }
    return ST_OK;
}

/* A version, or the place of the commit's version for what this transaction stages. */
static const char *version_text(struct arena *arena, uint64_t version)
{
    return version != 0 ? arena_format(arena, "%" PRIu64, version) : REPLY_VERSION;
}

static enum status make_out(struct req *req, const struct registry_token *token, unsigned flags,
                            struct named_policy **known, struct token_out *ret_out)
{
    struct arena *arena = req->arena;
    size_t room = token->links.n + 1;
    struct links_out links = {.policies = arena_alloc(arena, room * sizeof *links.policies),
                              .services = arena_alloc(arena, room * sizeof *links.services),
                              .nodes = arena_alloc(arena, room * sizeof *links.nodes)};
    bool expanded = (flags & REGISTRY_SHOW_EXPANDED) != 0;
    if (expanded)
        links.whole = arena_alloc(arena, room * sizeof *links.whole);
    if (links.policies == NULL || links.services == NULL || links.nodes == NULL ||
        (expanded && links.whole == NULL))
        return ST_NOMEM;
    TRY(add_links(req, token, known, &links));
    *ret_out = (struct token_out){
        .id = (flags & REGISTRY_SHOW_ID) != 0 ? token->secret : NULL,
        .accessor = token->accessor,
        .secret = (flags & REGISTRY_SHOW_SECRET) != 0 ? token->secret : HIDDEN,
        .description = token->description,
        .hash = hash_text(arena, token->hash),
        .created = version_text(arena, token->created),
        .modified = version_text(arena, token->modified),
        .policies = {links.policies, links.n_policies},
        .services = {links.services, links.n_services},
        .nodes = {links.nodes, links.n_nodes},
        .expanded = {links.whole, expanded ? links.n_policies : 0},
        .expire_ms = token->expire_ms,
        .created_ms = token->created_ms,
        .local = token->local,
    };
    if (expanded) {
        ret_out->otherwise = registry_settings()->default_allow ? "allow" : "deny";
        ret_out->resolved_by = req->host->node_id;
    }
    bool complete = ret_out->hash != NULL && ret_out->created != NULL && ret_out->modified != NULL;
    return complete ? ST_OK : ST_NOMEM;
}

enum status registry_token_show(struct req *req, const struct registry_token *token, unsigned flags)
{
    struct named_policy *known = NULL;
    struct token_out out;
    TRY(make_out(req, token, flags, &known, &out));
    return req_reply(req, &out);
}

enum status registry_token_show_all(struct req *req, const struct registry_token *tokens, size_t n,
                                    unsigned flags)
{
    struct named_policy *known = NULL;
    struct token_out out;
    ASSERT((flags & REGISTRY_SHOW_EXPANDED) == 0);
    struct text_writer w = req_reply_begin(req);
    text_open_list(&w);
    for (size_t i = 0; i < n; i++) {
        TRY(make_out(req, &tokens[i], flags, &known, &out));
        schema_encode(&registry_token_reply, &out, &w);
    }
    text_close(&w);
    return req_reply_end(req);
}
