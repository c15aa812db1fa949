#include "config/config_fields.h"
#include "text/address.h"
#include "text/discover.h"
#include "text/hcl.h"
#include "text/path.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    CLUSTER_PORT = 8201,
    NODE_NAME_MAX = 63,
    CONFIG_BYTES_MAX = 1 << 20,
    DRAIN_DELAY_MAX_S = 3600
};

/* State that all readers of blocks share. */
struct loader {
    struct config *config;
    struct reason *reason;
    bool has_audit_rules;
};

__attribute__((format(printf, 3, 4))) static enum status
loader_refuse(struct loader *l, uint32_t line, const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args); /* a long text is cut */
    va_end(args);
    reason_set(l->reason, "%s:%u: %s", l->config->file, line, text);
    return ST_INVALID;
}

/* Whether a name is in a NULL-terminated list; NULL is an empty list. */
static bool is_one_of(struct bytes name, const char *const *blocks)
{
    for (; blocks != NULL && *blocks != NULL; blocks++)
        if (text_is(name, *blocks))
            return true;
    return false;
}

/* Fill a struct from the fields of a block. `blocks` (NULL-terminated, or NULL) are names of blocks
 * that the block may hold besides fields. */
static enum status load_fields(struct loader *l, const struct schema *schema,
                               const struct text_value *object, const char *const *blocks,
                               void *ret_struct)
{
    struct schema_fault fault;
    const struct text_value *unknown = NULL;

    while ((unknown = schema_unknown(schema, object, unknown)) != NULL)
        if (!is_one_of(unknown->name, blocks))
            return loader_refuse(l, unknown->line, "unknown field \"%.*s\"",
                                 (int)MIN(unknown->name.len, 64), (const char *)unknown->name.data);
    enum status st = schema_decode(schema, object, &l->config->arena, ret_struct, &fault);
    if (st == ST_INVALID)
        return loader_refuse(l, fault.line, "%s: %s", fault.field, fault.why.text);
    return st;
}

typedef enum status (*block_loader)(struct loader *l, const char *label,
                                    const struct text_value *body);

/* Load a body, or a list of bodies, which is how JSON writes several blocks. */
static enum status load_bodies(struct loader *l, const char *label, const struct text_value *v,
                               block_loader load)
{
    if (v->kind == TEXT_OBJECT)
        return load(l, label, v);
    if (v->kind != TEXT_LIST)
        return loader_refuse(l, v->line, "%s: a block is expected", label);
    TEXT_FOR (item, v) {
        if (item->kind != TEXT_OBJECT)
            return loader_refuse(l, item->line, "%s: a block is expected", label);
        TRY(load(l, label, item));
    }
    return ST_OK;
}

/* Load labelled blocks: `object` holds labels, each with its body or bodies. */
static enum status load_labels(struct loader *l, const char *name, const struct text_value *object,
                               block_loader load)
{
    if (object->kind != TEXT_OBJECT)
        return loader_refuse(l, object->line, "%s: a block with a label is expected", name);
    TEXT_FOR (labelled, object) {
        if (labelled->kind != TEXT_OBJECT && labelled->kind != TEXT_LIST)
            return loader_refuse(l, object->line, "%s: a label is missing: %s \"…\" { … }", name,
                                 name);
        TRY(load_bodies(l, (const char *)labelled->name.data, labelled, load));
    }
    return ST_OK;
}

/* Call `load` for every block `name "label" { … }` in `parent`. */
static enum status load_labelled(struct loader *l, const struct text_value *parent,
                                 const char *name, block_loader load)
{
    TEXT_FOR (v, parent) {
        if (!text_is(v->name, name))
            continue;
        if (v->kind != TEXT_LIST)
            TRY(load_labels(l, name, v, load));
        else
            TEXT_FOR (item, v)
                TRY(load_labels(l, name, item, load));
    }
    return ST_OK;
}

static enum status check_address(struct loader *l, const struct text_value *object,
                                 const char *name, const char *address)
{
    char host[256];
    uint16_t port;
    const struct text_value *v = text_get(object, name);
    if (address != NULL && strlen(address) > CONFIG_ADDRESS_MAX)
        return loader_refuse(l, v->line, "%s: at most %d characters are expected", name,
                             CONFIG_ADDRESS_MAX);
    if (address == NULL || text_address_split(address, host, &port) == ST_OK)
        return ST_OK;
    return loader_refuse(l, v != NULL ? v->line : object->line,
                         "%s: \"%.64s\" is not host:port with a port of 1 to 65535", name, address);
}

/* Names appear in certificates, file names and logs. */
static bool is_node_name(const char *name)
{
    size_t len = strlen(name);
    return len >= 1 && len <= NODE_NAME_MAX && name[0] != '-' && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == len;
}

static enum status load_member(struct loader *l, const char *label, const struct text_value *body)
{
    struct config_cluster *cluster = &l->config->cluster;
    struct config_member member;

    if (cluster->n_members == CONFIG_MEMBERS_MAX)
        return loader_refuse(l, body->line, "member: more than %d", CONFIG_MEMBERS_MAX);
    if (!is_node_name(label))
        return loader_refuse(l, body->line, "member: \"%.64s\" is not a name of a node", label);
    TRY(load_fields(l, &config_member_schema, body, NULL, &member));
    TRY(check_address(l, body, "address", member.address));
    for (unsigned i = 0; i < cluster->n_members; i++) {
        if (strcmp(cluster->members[i].name, label) == 0)
            return loader_refuse(l, body->line, "member: \"%s\" is repeated", label);
        if (strcmp(cluster->members[i].address, member.address) == 0)
            return loader_refuse(l, body->line, "address: \"%s\" and \"%s\" have the same one",
                                 cluster->members[i].name, label);
    }
    member.name = label;
    cluster->members[cluster->n_members++] = member;
    return ST_OK;
}

static bool is_uuid(const char *text)
{
    for (int i = 0; i < 36; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text[i] != '-' : text_hex_digit((uint8_t)text[i]) == 16)
            return false;
    }
    return text[36] == '\0';
}

enum { ELECTION_MS = 1000, HEARTBEAT_MS = 100 }; /* default times of the raft log */

static enum status check_times(struct loader *l, const struct text_value *body)
{
    const struct config_cluster *c = &l->config->cluster;
    int64_t election_ms = c->election_ms != 0 ? c->election_ms : ELECTION_MS;
    int64_t heartbeat_ms = c->heartbeat_ms != 0 ? c->heartbeat_ms : HEARTBEAT_MS;
    if (c->heartbeat_ms >= 0 && election_ms <= 60000 && heartbeat_ms <= election_ms / 2)
        return ST_OK;
    const struct text_value *v = text_get(body, "election_ms");
    return loader_refuse(
        l, v != NULL ? v->line : body->line,
        "election_ms: at most 60000, and at least twice heartbeat_ms, are expected; they "
        "are %lld and %lld",
        (long long)election_ms, (long long)heartbeat_ms);
}

/* Replace auto_join by host:port. */
static enum status load_auto_join(struct loader *l, const struct text_value *body)
{
    struct config_cluster *cluster = &l->config->cluster;
    const struct text_value *v = text_get(body, "auto_join");
    struct text_discover found;
    struct reason why = {{0}};
    if (cluster->auto_join == NULL)
        return ST_OK;
    if (cluster->join_token_file == NULL)
        return loader_refuse(l, v->line, "auto_join: join_token_file is required with it");
    if (text_discover_parse(cluster->auto_join, &found, &why) != ST_OK)
        return loader_refuse(l, v->line, "auto_join: %s", why.text);
    ASSERT(found.name[0] != '\0');
    bool brackets = strchr(found.name, ':') != NULL;
    cluster->auto_join = arena_format(&l->config->arena, brackets ? "[%s]:%u" : "%s:%u", found.name,
                                      found.port != 0 ? (unsigned)found.port : CLUSTER_PORT);
    return cluster->auto_join != NULL ? ST_OK : ST_NOMEM;
}

static enum status load_cluster(struct loader *l, const char *label, const struct text_value *body)
{
    static const char *const blocks[] = {"member", NULL};
    struct config_cluster *cluster = &l->config->cluster;
    (void)label;

    if (cluster->address != NULL)
        return loader_refuse(l, body->line, "cluster: is repeated");
    TRY(load_fields(l, &config_cluster_schema, body, blocks, cluster));
    TRY(check_address(l, body, "address", cluster->address));
    TRY(check_address(l, body, "advertise", cluster->advertise));
    if (cluster->id != NULL && !is_uuid(cluster->id))
        return loader_refuse(l, text_get(body, "id")->line, "id: a UUID is expected");
    if (cluster->join != NULL && strcmp(cluster->join, "api") != 0)
        return loader_refuse(l, text_get(body, "join")->line, "join: \"api\" is expected");
    if (cluster->join != NULL && cluster->join_token_file != NULL)
        return loader_refuse(l, text_get(body, "join")->line,
                             "join: there is join_token_file already; one of the two is expected");
    TRY(load_auto_join(l, body));
    TRY(check_times(l, body));
    TRY(load_labelled(l, body, "member", load_member));
    if (cluster->n_members == 0)
        return loader_refuse(l, body->line,
                             "member: at least one is required: the initial members");
    return ST_OK;
}

/* Default of `advertise`: the address of this node's member block, else the listen address. */
static void default_advertise(struct config *config)
{
    struct config_cluster *c = &config->cluster;
    for (unsigned i = 0; c->advertise == NULL && i < c->n_members; i++)
        if (strcmp(c->members[i].name, config->node_name) == 0)
            c->advertise = c->members[i].address;
    if (c->advertise == NULL)
        c->advertise = c->address;
}

static enum status load_blocks(struct loader *l, const struct text_value *body, const char *name,
                               const struct field_strings *texts, struct cidr **ret_blocks)
{
    *ret_blocks = NULL;
    if (texts->n == 0)
        return ST_OK;

    struct cidr *blocks = arena_alloc(&l->config->arena, texts->n * sizeof *blocks);
    if (blocks == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < texts->n; i++)
        if (cidr_parse(bytes_str(texts->items[i]), &blocks[i]) != ST_OK)
            return loader_refuse(l, text_get(body, name)->line,
                                 "%s: \"%.64s\" is not an address or a block such as 10.0.0.0/8",
                                 name, texts->items[i]);
    *ret_blocks = blocks;
    return ST_OK;
}

/* Check which proxies may name the client. */
static enum status check_proxies(struct loader *l, const struct text_value *body,
                                 struct config_listener *listener)
{
    static const char *const modes[] = {"", "use_always", "allow_authorized", "deny_unauthorized",
                                        NULL};
    const char *mode = listener->proxy_protocol_behavior;
    TRY(load_blocks(l, body, "proxy_protocol_authorized_addrs",
                    &listener->proxy_protocol_authorized_addrs, &listener->proxies));
    TRY(load_blocks(l, body, "x_forwarded_for_authorized_addrs",
                    &listener->x_forwarded_for_authorized_addrs, &listener->forwarders));
    if (!is_one_of(bytes_str(mode), modes))
        return loader_refuse(
            l, text_get(body, "proxy_protocol_behavior")->line,
            "proxy_protocol_behavior: use_always, allow_authorized or deny_unauthorized "
            "is expected");
    bool needs = mode[0] != '\0' && strcmp(mode, "use_always") != 0;
    if (needs && listener->proxies == NULL)
        return loader_refuse(l, text_get(body, "proxy_protocol_behavior")->line,
                             "proxy_protocol_authorized_addrs: is required with %s", mode);
    if (listener->x_forwarded_for_hop_skips < 0)
        return loader_refuse(l, text_get(body, "x_forwarded_for_hop_skips")->line,
                             "x_forwarded_for_hop_skips: 0 or more is expected");
    return ST_OK;
}

static enum status load_listener(struct loader *l, const char *label, const struct text_value *body)
{
    struct config *config = l->config;
    struct config_listener *listener = &config->listeners[config->n_listeners];

    if (strcmp(label, "tcp") != 0)
        return loader_refuse(l, body->line,
                             "listener: \"%.64s\" is not a kind of listener, only \"tcp\"", label);
    if (config->n_listeners == CONFIG_LISTENERS_MAX)
        return loader_refuse(l, body->line, "listener: more than %d", CONFIG_LISTENERS_MAX);
    TRY(load_fields(l, &config_listener_schema, body, NULL, listener));
    TRY(check_address(l, body, "address", listener->address));
    TRY(check_proxies(l, body, listener));
    if (listener->apis.given && listener->apis.n == 0)
        return loader_refuse(l, text_get(body, "apis")->line, "apis: at least one is required");
    bool has_tls = listener->tls_cert_file != NULL && listener->tls_key_file != NULL;
    if (!has_tls && !listener->tls_disable)
        return loader_refuse(
            l, body->line,
            "listener: tls_cert_file and tls_key_file are required, or tls_disable = true");
    if (listener->max_request_bytes == 0 || listener->max_header_bytes < 1024)
        return loader_refuse(
            l, body->line,
            "listener: max_request_bytes above 0 and max_header_bytes of at least 1024 "
            "are required");
    if (listener->max_connections < 0 || listener->max_connections > CONFIG_CONNECTIONS_MAX)
        return loader_refuse(l, body->line, "max_connections: 0 to %d is expected",
                             CONFIG_CONNECTIONS_MAX);
    if (listener->max_connections_per_address < 0)
        return loader_refuse(l, body->line, "max_connections_per_address: 0 or more is expected");
    ASSERT(listener == &config->listeners[config->n_listeners]);
    config->n_listeners++;
    return ST_OK;
}

static bool has_previous(const struct config_seal *seal)
{
    return seal->previous_key_file != NULL || seal->previous_credential != NULL;
}

/* One block is the seal in use or the seal to move to; the other one, disabled, is the seal to
 * move away from. */
static enum status keep_seal(struct loader *l, const struct text_value *body,
                             const struct config_seal *seal)
{
    struct config *c = l->config;
    struct config_seal *place = seal->disabled ? &c->former_seal : &c->seal;
    if (place->type != NULL)
        return loader_refuse(l, body->line,
                             seal->disabled
                                 ? "seal: is repeated; at most one may be disabled"
                                 : "seal: is repeated; at most one may lack disabled = true");
    *place = *seal;
    if (c->seal.type == NULL || c->former_seal.type == NULL ||
        strcmp(c->seal.type, c->former_seal.type) != 0)
        return ST_OK;
    if (strcmp(seal->type, "shamir") == 0)
        return loader_refuse(l, body->line, "seal: \"shamir\" is repeated");
    if (strcmp(c->seal.key_id, c->former_seal.key_id) == 0)
        return loader_refuse(l, body->line, "key_id: both seals are named \"%.64s\"", seal->key_id);
    if (has_previous(&c->seal) && strcmp(c->seal.previous_key_id, c->former_seal.key_id) == 0)
        return loader_refuse(l, body->line,
                             "previous_key_id: \"%.64s\" is the disabled seal's too: give one of "
                             "both",
                             c->seal.previous_key_id);
    return ST_OK;
}

/* The key that was in use before. */
static enum status check_previous(struct loader *l, const struct text_value *body,
                                  const struct config_seal *seal)
{
    const struct text_value *id = text_get(body, "previous_key_id");
    if (!has_previous(seal))
        return id == NULL
                   ? ST_OK
                   : loader_refuse(l, id->line, "previous_key_id: there is no previous_key_file");
    if (seal->previous_key_file != NULL && seal->previous_credential != NULL)
        return loader_refuse(l, text_get(body, "previous_credential")->line,
                             "previous_credential: there is previous_key_file already; one of the "
                             "two is expected");
    if (seal->disabled)
        return loader_refuse(l, body->line, "previous_key_file: a disabled seal takes none");
    if (strcmp(seal->key_id, seal->previous_key_id) == 0)
        return loader_refuse(l, body->line,
                             "key_id: the key and the previous key are both named \"%.64s\": give "
                             "the new key another name",
                             seal->key_id);
    return ST_OK;
}

static enum status load_seal(struct loader *l, const char *label, const struct text_value *body)
{
    struct config_seal seal = {0};
    if (strcmp(label, "shamir") == 0) {
        TRY(load_fields(l, &config_shamir_schema, body, NULL, &seal));
        seal.type = "shamir";
        return keep_seal(l, body, &seal);
    }
    if (strcmp(label, "static") != 0)
        return loader_refuse(
            l, body->line, "seal: \"%.64s\" is not a kind of seal, only \"shamir\" and \"static\"",
            label);
    TRY(load_fields(l, &config_seal_schema, body, NULL, &seal));
    if (seal.key_file == NULL && seal.credential == NULL)
        return loader_refuse(l, body->line, "key_file: is required, or credential");
    if (seal.key_file != NULL && seal.credential != NULL)
        return loader_refuse(l, text_get(body, "credential")->line,
                             "credential: there is key_file already; one of the two is expected");
    TRY(check_previous(l, body, &seal));
    seal.type = "static";
    return keep_seal(l, body, &seal);
}

/* Without a seal block, people hold the key shares, as upstream. */
static enum status default_seal(struct loader *l, const struct text_value *root)
{
    struct config *c = l->config;
    if (c->seal.type != NULL)
        return ST_OK;
    if (c->former_seal.type != NULL && strcmp(c->former_seal.type, "shamir") == 0)
        return loader_refuse(l, text_get(root, "seal")->line,
                             "seal: \"shamir\" is disabled, and there is no seal to move to");
    c->seal.type = "shamir";
    return ST_OK;
}

static enum status load_plain(struct loader *l, const struct text_value *root, const char *name,
                              block_loader load)
{
    TEXT_FOR (v, root)
        if (text_is(v->name, name))
            TRY(load_bodies(l, name, v, load));
    return ST_OK;
}

static enum status load_audit_device(struct loader *l, const char *type, const char *path,
                                     const struct text_value *body)
{
    struct config *config = l->config;
    ASSERT(config->n_audits <= CONFIG_AUDITS_MAX && body->kind == TEXT_OBJECT);
    if (config->n_audits == CONFIG_AUDITS_MAX)
        return loader_refuse(l, body->line, "audit: more than %d", CONFIG_AUDITS_MAX);
    struct config_audit *audit = &config->audits[config->n_audits];
    TRY(load_fields(l, &config_audit_schema, body, NULL, audit));
    for (unsigned i = 0; i < config->n_audits; i++)
        if (strcmp(config->audits[i].path, path) == 0)
            return loader_refuse(l, body->line, "audit: \"%.64s\" is repeated", path);
    audit->type = type;
    audit->path = path;
    config->n_audits++;
    return ST_OK;
}

/* Load the blocks of a type: `body` holds paths, each with its fields. */
static enum status load_audit(struct loader *l, const char *label, const struct text_value *body)
{
    TEXT_FOR (v, body) {
        if (v->kind != TEXT_OBJECT)
            return loader_refuse(l, body->line,
                                 "audit: one block is expected: audit \"%.64s\" \"PATH\" { … }",
                                 label);
        TRY(load_audit_device(l, label, (const char *)v->name.data, v));
    }
    return ST_OK;
}

/* `audit { directories = […] }`: the fields stand where the blocks of devices have their types. */
static bool is_audit_rule(const struct text_value *v)
{
    for (size_t i = 0; i < config_audit_rules_schema.n; i++)
        if (text_is(v->name, config_audit_rules_schema.fields[i].name))
            return true;
    return false;
}

static enum status load_audit_rules(struct loader *l, const struct text_value *body)
{
    struct schema_fault fault;
    const struct field_strings *list = &l->config->audit_rules.directories;
    const struct text_value *v = text_get(body, "directories");
    uint32_t line = v != NULL ? v->line : body->line;
    ASSERT(body->kind == TEXT_OBJECT);
    enum status st = schema_decode(&config_audit_rules_schema, body, &l->config->arena,
                                   &l->config->audit_rules, &fault);
    if (st == ST_INVALID)
        return loader_refuse(l, fault.line, "%s: %s", fault.field, fault.why.text);
    TRY(st);
    if (list->n > CONFIG_AUDIT_DIRECTORIES_MAX)
        return loader_refuse(l, line, "directories: at most %d are expected",
                             CONFIG_AUDIT_DIRECTORIES_MAX);
    for (size_t i = 0; i < list->n; i++)
        if (!text_path_is_canonical(list->items[i]) || strlen(list->items[i]) >= PATH_MAX)
            return loader_refuse(l, line,
                                 "directories: \"%.64s\": an absolute path is expected, without "
                                 "empty parts, \".\", \"..\" and '/' at its end",
                                 list->items[i]);
    return ST_OK;
}

/* Load `audit { … }`, `audit "TYPE" "PATH" { … }`, or an object of JSON with both. */
static enum status load_audit_body(struct loader *l, const char *label,
                                   const struct text_value *body)
{
    bool has_rule = false;
    TEXT_FOR (v, body) {
        if (is_audit_rule(v)) {
            has_rule = true;
            continue;
        }
        if (v->kind != TEXT_OBJECT && v->kind != TEXT_LIST)
            return loader_refuse(l, v->line, "unknown field \"%.*s\"", (int)MIN(v->name.len, 64),
                                 (const char *)v->name.data);
        TRY(load_bodies(l, (const char *)v->name.data, v, load_audit));
    }
    if (has_rule && l->has_audit_rules)
        return loader_refuse(l, body->line, "%s: one block without labels is expected", label);
    l->has_audit_rules = l->has_audit_rules || has_rule;
    return has_rule ? load_audit_rules(l, body) : ST_OK;
}

static enum status load_audits(struct loader *l, const struct text_value *root)
{
    static const struct text_value absent = {.kind = TEXT_OBJECT};
    TRY(load_plain(l, root, "audit", load_audit_body));
    return l->has_audit_rules ? ST_OK : load_audit_rules(l, &absent);
}

static enum status load_compat(struct loader *l, const char *label, const struct text_value *body)
{
    struct config_compat compat;
    (void)label;
    TRY(load_fields(l, &config_compat_schema, body, NULL, &compat));
    l->config->reported_version = compat.reported_version;
    return ST_OK;
}

enum { API_ADDR_MAX = 159 };

/* The address is sent to clients unchanged, in a header. */
static bool is_api_addr(const char *text)
{
    size_t scheme = strncmp(text, "https://", 8) == 0  ? 8
                    : strncmp(text, "http://", 7) == 0 ? 7
                                                       : 0;
    const char *at = text + scheme;
    char host[256], with_port[API_ADDR_MAX + 5];
    uint16_t port;
    if (scheme == 0 || strlen(text) > API_ADDR_MAX)
        return false;
    for (const char *c = at; *c != '\0'; c++)
        if (*c <= ' ' || *c >= 0x7F || strchr("/?#@\\\"", *c) != NULL)
            return false;
    if (text_address_split(at, host, &port) == ST_OK)
        return true;
    (void)snprintf(with_port, sizeof with_port, "%s:1", at); /* the text fits */
    return text_address_split(with_port, host, &port) == ST_OK;
}

/* Default of `api_addr`: the address of the first listener; if that is a wildcard address, the host
 * of `advertise`. */
static enum status default_api_addr(struct config *config)
{
    ASSERT(config->n_listeners > 0);
    const struct config_listener *first = &config->listeners[0];
    char host[256], other[256];
    uint16_t port, other_port;
    if (text_address_split(first->address, host, &port) != ST_OK ||
        text_address_split(config->cluster.advertise, other, &other_port) != ST_OK)
        return ST_INTERNAL; /* both addresses were checked */
    bool any = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
    const char *use = any ? other : host;
    bool bracketed = strchr(use, ':') != NULL;
    config->api_addr =
        arena_format(&config->arena, "http%s://%s%s%s:%u", first->tls_disable ? "" : "s",
                     bracketed ? "[" : "", use, bracketed ? "]" : "", port);
    return config->api_addr != NULL ? ST_OK : ST_NOMEM;
}

static enum status root_check(struct loader *l, const struct text_value *root)
{
    static const char *const levels[] = {"debug", "info", "warn", "error", "off", NULL};
    static const char *const formats[] = {"", "json", "text", NULL};
    struct config *config = l->config;

    if (!is_node_name(config->node_name))
        return loader_refuse(l, text_get(root, "node_name")->line,
                             "node_name: 1 to %d letters, digits, '-', '_' and '.' are expected",
                             NODE_NAME_MAX);
    if (!is_one_of(bytes_str(config->log_level), levels))
        return loader_refuse(l, text_get(root, "log_level")->line,
                             "log_level: debug, info, warn, error or off is expected");
    if (!is_one_of(bytes_str(config->log_format), formats))
        return loader_refuse(l, text_get(root, "log_format")->line,
                             "log_format: json or text is expected");
    if (!is_one_of(bytes_str(config->log_requests_level), levels))
        return loader_refuse(l, text_get(root, "log_requests_level")->line,
                             "log_requests_level: debug, info, warn, error or off is expected");
    if (config->workers < 0 || config->workers > 256)
        return loader_refuse(l, text_get(root, "workers")->line, "workers: 0 to 256 is expected");
    if (config->max_blocking_queries < 1 || config->max_blocking_queries > CONFIG_CONNECTIONS_MAX)
        return loader_refuse(l, text_get(root, "max_blocking_queries")->line,
                             "max_blocking_queries: 1 to %d is expected", CONFIG_CONNECTIONS_MAX);
    if (config->max_blocking_queries_per_address < 0 ||
        config->max_blocking_queries_per_address > config->max_blocking_queries)
        return loader_refuse(l, text_get(root, "max_blocking_queries_per_address")->line,
                             "max_blocking_queries_per_address: 0 to %lld is expected",
                             (long long)config->max_blocking_queries);
    if (config->max_connections < 1 || config->max_connections > CONFIG_CONNECTIONS_MAX)
        return loader_refuse(l, text_get(root, "max_connections")->line,
                             "max_connections: 1 to %d is expected", CONFIG_CONNECTIONS_MAX);
    if (config->max_connections_per_address < 1)
        return loader_refuse(l, text_get(root, "max_connections_per_address")->line,
                             "max_connections_per_address: 1 or more is expected");
    if (config->unread_bytes_max < CONFIG_UNREAD_BYTES_MIN)
        return loader_refuse(l, text_get(root, "unread_bytes_max")->line,
                             "unread_bytes_max: 1MiB or more is expected");
    if (config->drain_delay_s > DRAIN_DELAY_MAX_S)
        return loader_refuse(l, text_get(root, "drain_delay_s")->line,
                             "drain_delay_s: at most %d seconds are expected", DRAIN_DELAY_MAX_S);
    if (config->data_dir[0] == '\0')
        return loader_refuse(l, text_get(root, "data_dir")->line, "data_dir: is empty");
    if (config->n_listeners == 0)
        return loader_refuse(l, root->line, "listener: at least one is required");
    if (config->cluster.address == NULL)
        return loader_refuse(l, root->line, "cluster: is required");
    default_advertise(config);
    TRY(default_seal(l, root));
    if (config->api_addr == NULL)
        return default_api_addr(config);
    if (!is_api_addr(config->api_addr))
        return loader_refuse(l, text_get(root, "api_addr")->line,
                             "api_addr: a URL such as https://node1.example:8200 is expected");
    return ST_OK;
}

/* Load the block of a module. If the file does not have the block, its fields have their
 * defaults. */
static enum status load_module_block(struct loader *l, const struct text_value *root, size_t at)
{
    static const struct text_value absent = {.kind = TEXT_OBJECT};
    ASSERT(at < l->config->blocks->n);
    const struct config_block *block = l->config->blocks->items[at];
    const struct text_value *body = &absent;
    void *data = arena_zalloc(&l->config->arena, block->schema->size);
    if (data == NULL)
        return ST_NOMEM;
    TEXT_FOR (v, root) {
        if (!text_is(v->name, block->name))
            continue;
        if (body != &absent || v->kind != TEXT_OBJECT)
            return loader_refuse(l, v->line, "%s: one block is expected", block->name);
        body = v;
    }
    TRY(load_fields(l, block->schema, body, NULL, data));
    const char *fault = block->check != NULL ? block->check(data) : NULL;
    if (fault != NULL)
        return loader_refuse(l, body->line, "%s: %s", block->name, fault);
    l->config->block_data[at] = data;
    return ST_OK;
}

static enum status load_root(struct loader *l, struct bytes text)
{
    enum { OWN = 5 };
    const char *blocks[OWN + CONFIG_BLOCKS_MAX + 1] = {"cluster", "listener", "seal", "audit",
                                                       "compat"};
    const struct config_blocks *more = l->config->blocks;
    const struct text_value *root;
    struct reason why = {0};
    struct config *config = l->config;

    enum status st = text_hcl_parse(&config->arena, text, &root, &why);
    if (st == ST_INVALID || st == ST_TOO_BIG) {
        bool has_line = strncmp(why.text, "line ", 5) == 0;
        reason_set(l->reason, has_line ? "%s:%s" : "%s: %s", config->file,
                   why.text + (has_line ? 5 : 0));
    }
    TRY(st);
    ASSERT(root->kind == TEXT_OBJECT);

    ASSERT(more == NULL || more->n <= CONFIG_BLOCKS_MAX);
    for (size_t i = 0; more != NULL && i < more->n; i++)
        blocks[OWN + i] = more->items[i]->name;
    struct config fields;
    TRY(load_fields(l, &config_root_schema, root, blocks, &fields));
    fields.arena = config->arena;
    fields.file = config->file;
    fields.blocks = more;
    *config = fields;
    TRY(load_plain(l, root, "cluster", load_cluster));
    TRY(load_plain(l, root, "compat", load_compat));
    TRY(load_labelled(l, root, "listener", load_listener));
    TRY(load_labelled(l, root, "seal", load_seal));
    TRY(load_audits(l, root));
    for (size_t i = 0; more != NULL && i < more->n; i++)
        TRY(load_module_block(l, root, i));
    return root_check(l, root);
}

enum status config_parse(struct bytes text, const char *file, const struct config_blocks *blocks,
                         struct config *ret_config, struct reason *reason)
{
    struct config config = {.blocks = blocks};
    struct loader l = {.config = &config, .reason = reason};

    config.file = arena_str(&config.arena, bytes_str(file));
    if (config.file == NULL)
        return ST_NOMEM;
    enum status st = load_root(&l, text);
    if (st != ST_OK) {
        config_done(&config);
        return st;
    }
    *ret_config = config;
    return ST_OK;
}

enum status config_load(const char *file, const struct config_blocks *blocks,
                        struct config *ret_config, struct reason *reason)
{
    CLEANUP(buf_done) struct buf text = {0};
    FILE *f = fopen(file, "rbe");
    if (f == NULL) {
        enum status st = status_from_errno(errno);
        reason_set(reason, "%s: %s", file, strerror(errno));
        return st;
    }
    uint8_t *room = buf_extend(&text, CONFIG_BYTES_MAX + 1);
    size_t n = room != NULL ? fread(room, 1, CONFIG_BYTES_MAX + 1, f) : 0;
    bool failed = ferror(f) != 0;
    (void)fclose(f); /* the file was only read */
    TRY(buf_status(&text));
    if (failed) {
        reason_set(reason, "%s: cannot be read", file);
        return ST_IO;
    }
    if (n > CONFIG_BYTES_MAX) {
        reason_set(reason, "%s: longer than %d bytes", file, CONFIG_BYTES_MAX);
        return ST_TOO_BIG;
    }
    return config_parse(bytes_of(text.data, n), file, blocks, ret_config, reason);
}

void config_done(struct config *config)
{
    arena_done(&config->arena);
    memset(config, 0, sizeof *config);
}
