/* Links and expiry as the body of a token asks for them. */
#include "api/registry/registry_token.h"
#include "auth/registry/registry_link.h"
#include "auth/registry/registry_policy.h"
#include "router/request/dialect.h"
#include "text/duration.h"
#include "text/random.h"
#include "text/time.h"

#include <inttypes.h>

enum { EXPIRY_MIN_MS = 60 * 1000, EXPIRY_MAX_MS = 24 * 3600 * 1000 };

/* Links as clients write them */

struct policy_in {
    const char *id, *name;
};
static const struct field policy_in_fields[] = {
    FIELD_NAMED("ID", struct policy_in, id, STRING, .preset = ""),
    FIELD_NAMED("Name", struct policy_in, name, STRING, .preset = ""),
};
static const struct schema policy_in = {.fields = policy_in_fields,
                                        .n = ARRAY_LEN(policy_in_fields),
                                        .size = sizeof(struct policy_in),
                                        .fold_case = true,
                                        .typed = true};

struct service_in {
    const char *name;
    struct field_strings datacenters;
};
static const struct field service_in_fields[] = {
    FIELD_NAMED("ServiceName", struct service_in, name, STRING, .preset = ""),
    FIELD_NAMED("Datacenters", struct service_in, datacenters, STRINGS),
};
static const struct schema service_in = {.fields = service_in_fields,
                                         .n = ARRAY_LEN(service_in_fields),
                                         .size = sizeof(struct service_in),
                                         .fold_case = true,
                                         .typed = true};

struct node_in {
    const char *name, *datacenter;
};
static const struct field node_in_fields[] = {
    FIELD_NAMED("NodeName", struct node_in, name, STRING, .preset = ""),
    FIELD_NAMED("Datacenter", struct node_in, datacenter, STRING, .preset = ""),
};
static const struct schema node_in = {.fields = node_in_fields,
                                      .n = ARRAY_LEN(node_in_fields),
                                      .size = sizeof(struct node_in),
                                      .fold_case = true,
                                      .typed = true};

/* The links of a token under construction. */
struct links {
    struct req *req;
    bool local;
    const char *items[REGISTRY_TOKEN_LINKS_MAX];
    size_t n;
};

/* Add a link unless the token has it. */
static enum status take_link(struct links *links, const char *link)
{
    for (size_t i = 0; i < links->n; i++)
        if (strcmp(links->items[i], link) == 0)
            return ST_OK;
    if (links->n == REGISTRY_TOKEN_LINKS_MAX)
        return req_fail(links->req, ST_REFUSED,
                        "Invalid Token: more than %d policies and identities",
                        REGISTRY_TOKEN_LINKS_MAX);
    links->items[links->n++] = link;
    return ST_OK;
}

/* The id of the policy that a link means: by its id, else by its name. */
static enum status take_policy(struct links *links, const void *item)
{
    const struct policy_in *in = item;
    struct req *req = links->req;
    struct registry_policy policy;
    bool named = in->id[0] == '\0';
    const char *id = NULL;
    char *lower = arena_zalloc(req->arena, TEXT_UUID_LEN + 1);
    enum status st = ST_NOT_FOUND;
    if (lower == NULL)
        return ST_NOMEM;
    if (named) {
        st = registry_policy_find(req->txn, req->ns, bytes_str(in->name), &id);
    } else if (text_uuid_parse(bytes_str(in->id), lower) == ST_OK) {
        id = lower;
        st = registry_policy_load(req->txn, req->ns, id, &policy);
    }
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_REFUSED, "No such ACL policy with %s \"%.128s\"",
                        named ? "name" : "ID", named ? in->name : in->id);
    TRY(st);
    return take_link(links, id);
}

static enum status take_service(struct links *links, const void *item)
{
    const struct service_in *in = item;
    struct req *req = links->req;
    const char *link;
    if (in->name[0] == '\0')
        return req_fail(req, ST_REFUSED,
                        "Service identity is missing the service name field on this token");
    if (links->local && in->datacenters.n != 0)
        return req_fail(req, ST_REFUSED,
                        "Service identity \"%.256s\" cannot specify a list of datacenters on a "
                        "local token",
                        in->name);
    if (!registry_link_is_name(in->name))
        return req_fail(req, ST_REFUSED,
                        "Service identity \"%.256s\" has an invalid name. Only lowercase "
                        "alphanumeric characters, '-' and '_' are allowed",
                        in->name);
    for (size_t i = 0; i < in->datacenters.n; i++)
        if (!registry_link_is_datacenter(in->datacenters.items[i]))
            return req_fail(req, ST_REFUSED,
                            "Service identity \"%.256s\" has an invalid datacenter", in->name);
    enum status st =
        registry_link_of(req->arena, REGISTRY_LINK_SERVICE, in->name, &in->datacenters, &link);
    if (st == ST_TOO_BIG)
        return req_fail(req, ST_REFUSED, "Service identity \"%.256s\" has too many datacenters",
                        in->name);
    TRY(st);
    return take_link(links, link);
}

static enum status take_node(struct links *links, const void *item)
{
    const struct node_in *in = item;
    struct req *req = links->req;
    const struct field_strings dcs = {&in->datacenter, 1, true};
    const char *link;
    if (in->name[0] == '\0')
        return req_fail(req, ST_REFUSED,
                        "Node identity is missing the node name field on this token");
    if (in->datacenter[0] == '\0')
        return req_fail(req, ST_REFUSED,
                        "Node identity is missing the datacenter field on this token");
    if (!registry_link_is_name(in->name))
        return req_fail(req, ST_REFUSED,
                        "Node identity \"%.256s\" has an invalid name. Only lowercase alphanumeric "
                        "characters, '-' and '_' are allowed",
                        in->name);
    if (!registry_link_is_datacenter(in->datacenter))
        return req_fail(req, ST_REFUSED, "Node identity \"%.256s\" has an invalid datacenter",
                        in->name);
    TRY(registry_link_of(req->arena, REGISTRY_LINK_NODE, in->name, &dcs, &link));
    return take_link(links, link);
}

/* Whether a list is absent or empty. */
static bool is_empty(const struct text_value *list)
{
    return list == NULL || list->kind == TEXT_NULL || (list->kind == TEXT_LIST && list->n == 0);
}

static enum status each_of(struct links *links, const char *field, const struct text_value *list,
                           const struct schema *schema,
                           enum status (*add)(struct links *links, const void *item))
{
    struct req *req = links->req;
    if (is_empty(list))
        return ST_OK;
    if (list->kind != TEXT_LIST)
        return req->dialect->refuse_field(req, field, "a list of objects is expected");
    TEXT_FOR (v, list) {
        struct schema_fault fault = {.line = 0};
        if (v->kind != TEXT_OBJECT)
            return req->dialect->refuse_field(req, field, "a list of objects is expected");
        const struct text_value *unknown = schema_unknown(schema, v, NULL);
        if (unknown != NULL)
            return req->dialect->unknown_field(req, unknown->name);
        void *item = arena_alloc(req->arena, schema->size);
        if (item == NULL)
            return ST_NOMEM;
        enum status st = schema_decode(schema, v, req->arena, item, &fault);
        if (st == ST_INVALID)
            return req->dialect->refuse_field(req, fault.field, fault.why.text);
        TRY(st);
        TRY(add(links, item));
    }
    return ST_OK;
}

/* There are no roles, as there are no auth methods. */
static enum status refuse_role(struct links *links, const void *item)
{
    const struct policy_in *in = item;
    bool named = in->id[0] == '\0';
    return req_fail(links->req, ST_REFUSED, "No such ACL role with %s \"%.128s\"",
                    named ? "name" : "ID", named ? in->name : in->id);
}

enum status registry_token_links(struct req *req, const struct registry_token_in *in,
                                 struct field_strings *ret_links)
{
    struct links *links = arena_alloc(req->arena, sizeof *links);
    if (links == NULL)
        return ST_NOMEM;
    links->req = req;
    links->local = in->local;
    links->n = 0;
    TRY(each_of(links, "Policies", in->policies, &policy_in, take_policy));
    TRY(each_of(links, "Roles", in->roles, &policy_in, refuse_role));
    TRY(each_of(links, "ServiceIdentities", in->services, &service_in, take_service));
    TRY(each_of(links, "NodeIdentities", in->nodes, &node_in, take_node));
    if (!is_empty(in->templates))
        return req_fail(req, ST_REFUSED, "TemplatedPolicies cannot be specified for this token");
    *ret_links = (struct field_strings){links->items, links->n, true};
    return ST_OK;
}

/* Expiry */

/* A number of nanoseconds, or a duration as Go writes it: with a unit, unless it is 0. An empty
 * string is refused: it would make a token without an end. */
static enum status read_token_ttl(const struct text_value *v, int64_t *ret_ns)
{
    struct bytes text = v->text;
    if (v->kind == TEXT_NUMBER)
        return text_to_int(v, ret_ns);
    if (v->kind != TEXT_STRING)
        return ST_INVALID;
    bool negative = text.len != 0 && text.data[0] == '-';
    if (negative)
        text = bytes_from(text, 1);
    uint8_t last = text.len != 0 ? text.data[text.len - 1] : 0;
    bool unit = last == 's' || last == 'm' || last == 'h';
    if (!unit && !text_is(text, "0"))
        return ST_INVALID;
    TRY(text_duration_parse(text, ret_ns));
    *ret_ns = negative ? -*ret_ns : *ret_ns;
    return ST_OK;
}

/* A duration as errors show it, in the arena; "" without memory. */
static const char *duration_text(struct arena *arena, int64_t ms)
{
    CLEANUP(buf_done) struct buf text = {0};
    int64_t most_ms = INT64_MAX / 1000000;
    text_duration_put(&text, MIN(ms, most_ms) * 1000000);
    const char *copy = arena_str(arena, buf_bytes(&text));
    return copy != NULL ? copy : "";
}

enum status registry_token_check_expiry(struct req *req, int64_t expire_ms)
{
    int64_t left_ms = expire_ms - req->now_ms;
    if (expire_ms == 0)
        return ST_OK;
    if (req->now_ms <= 0)
        return req_fail(req, ST_BUSY, "this node does not know the time of the cluster yet");
    if (left_ms < 0)
        return req_fail(req, ST_REFUSED, "ExpirationTime cannot be before CreateTime");
    if (left_ms >= EXPIRY_MIN_MS && left_ms <= EXPIRY_MAX_MS)
        return ST_OK;
    bool late = left_ms > EXPIRY_MAX_MS;
    return req_fail(req, ST_REFUSED, "ExpirationTime cannot be %s in the future (was %s)",
                    late ? "more than 24h0m0s" : "less than 1m0s",
                    duration_text(req->arena, left_ms));
}

enum status registry_token_expiry(struct req *req, const struct registry_token_in *in,
                                  int64_t *ret_expire_ms)
{
    int64_t ttl_ns = 0, time_ms = TEXT_TIME_FIRST;
    bool timed = in->expires != NULL;
    if (in->ttl != NULL && in->ttl->kind != TEXT_NULL && read_token_ttl(in->ttl, &ttl_ns) != ST_OK)
        return req->dialect->refuse_field(req, "ExpirationTTL",
                                          "a duration such as \"5m\" is expected, or nanoseconds");
    if (timed && text_time_parse(bytes_str(in->expires), &time_ms) != ST_OK)
        return req->dialect->refuse_field(req, "ExpirationTime",
                                          "a time such as \"2024-02-29T12:00:00Z\" is expected");
    timed = time_ms != TEXT_TIME_FIRST; /* Go's zero time: not given */
    if (ttl_ns < 0)
        return req_fail(req, ST_REFUSED, "Token Expiration TTL '-%s' should be > 0",
                        duration_text(req->arena, -(ttl_ns / 1000000)));
    if (ttl_ns != 0 && timed)
        return req_fail(req, ST_REFUSED,
                        "Token Expiration TTL and Expiration Time cannot both be set");
    /* 0 means none: the first moment of 1970 is long over, and so is the next */
    *ret_expire_ms = timed         ? time_ms + (time_ms == 0)
                     : ttl_ns != 0 ? req->now_ms + ttl_ns / 1000000
                                   : 0;
    return ST_OK;
}
