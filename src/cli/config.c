#include "cli/config.h"
#include "text/address.h"
#include "text/hcl.h"
#include "text/schema.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

enum { NODE_NAME_MAX = 63, CONFIG_BYTES_MAX = 1 << 20, DRAIN_DELAY_MAX_S = 3600 };

static const struct field root_fields[] = {
    FIELD(struct config, node_name, STRING, .required = true,
          .help = "Name of this node, stable for its lifetime."),
    FIELD(struct config, data_dir, STRING, .required = true,
          .help = "Folder of the log, the snapshots and the identity of this node."),
    FIELD(struct config, api_addr, STRING,
          .help = "URL at which clients reach this node; default: that of the first listener."),
    FIELD(struct config, log_level, STRING, .preset = "info",
          .help = "debug, info, warn, error or off."),
    FIELD(struct config, log_requests_level, STRING, .preset = "debug",
          .help = "Level of the lines about requests: debug, info, warn, error or off."),
    FIELD(struct config, enable_response_header_hostname, BOOL, .preset = "false",
          .help = "Tell clients the name of the machine in X-Secrets-Hostname."),
    FIELD(struct config, enable_response_header_raft_node_id, BOOL, .preset = "false",
          .help = "Tell clients the name of the node in X-Secrets-Raft-Node-ID."),
    FIELD(struct config, maintenance, BOOL, .preset = "false",
          .help = "Start in maintenance: 503 to all but health and operators."),
    FIELD(struct config, workers, INT, .preset = "0",
          .help = "Threads that serve requests; 0: one less than processors, at least 1."),
    FIELD(struct config, drain_delay_s, DURATION, .preset = "0s",
          .help =
              "From SIGTERM on, serve for so long with a health of 503, so that balancers see."),
    FIELD(struct config, segment_bytes, SIZE, .help = "Size of a file of the log."),
    FIELD(struct config, snapshot_bytes_max, SIZE, .preset = "16GiB",
          .help = "Largest archive that a restore takes."),
    FIELD(struct config, snapshot_log_bytes, SIZE,
          .help = "A snapshot is taken when the log is longer than this."),
    FIELD(struct config, state_bytes_max, SIZE, .help = "Writes are refused above; 0: never."),
    FIELD(struct config, reserve_bytes, SIZE,
          .help = "Writes are refused when the disk has less free space."),
    FIELD(struct config, default_kv, BOOL, .preset = "true",
          .help = "Mount the default secret engines at initialisation."),
    FIELD(struct config, performance_standby, BOOL, .preset = "true",
          .help = "Answer reads while standby; false forwards every request."),
};
static const struct schema root_schema = SCHEMA(struct config, root_fields);

static const struct field cluster_fields[] = {
    FIELD(struct config_cluster, id, STRING, .help = "UUID of the cluster."),
    FIELD(struct config_cluster, name, STRING, .preset = "holdfast", .help = "Shown by health."),
    FIELD(struct config_cluster, address, STRING, .required = true,
          .help = "host:port on which other nodes are heard."),
    FIELD(struct config_cluster, advertise, STRING,
          .help = "host:port at which other nodes reach this one; default: address."),
    FIELD(struct config_cluster, ca_file, STRING, .required = true,
          .help = "PEM file of the cluster's certificate authority."),
    FIELD(struct config_cluster, cert_file, STRING, .required = true,
          .help = "PEM file of this node's certificate."),
    FIELD(struct config_cluster, key_file, STRING, .required = true,
          .help = "PEM file of this node's key."),
    FIELD(struct config_cluster, join_token_file, STRING,
          .help = "File with a join token: where cert_file is missing, this node gets the three "
                  "files above from the cluster at its first start."),
    FIELD(struct config_cluster, join, STRING,
          .help =
              "\"api\": where cert_file is missing, wait for sys/storage/raft/join, and get the "
              "three files from the cluster it names."),
    FIELD(struct config_cluster, election_ms, INT, .help = "Election timeout."),
    FIELD(struct config_cluster, heartbeat_ms, INT, .help = "Time between heartbeats."),
};
static const struct schema cluster_schema = SCHEMA(struct config_cluster, cluster_fields);

static const struct field member_fields[] = {
    FIELD(struct config_member, address, STRING, .required = true,
          .help = "host:port of that node's cluster port."),
};
static const struct schema member_schema = SCHEMA(struct config_member, member_fields);

static const struct field listener_fields[] = {
    FIELD(struct config_listener, address, STRING, .required = true, .help = "host:port."),
    FIELD(struct config_listener, tls_cert_file, STRING, .help = "PEM file, leaf first."),
    FIELD(struct config_listener, tls_key_file, STRING, .help = "PEM file."),
    FIELD(struct config_listener, tls_disable, BOOL, .help = "Serve without TLS."),
    FIELD(struct config_listener, unauthenticated_metrics, BOOL,
          .help = "sys/metrics needs no token."),
    FIELD(struct config_listener, authenticated_ceremonies, BOOL,
          .help = "sys/generate-root and sys/rekey need a token that may use them."),
    FIELD(struct config_listener, proxy_protocol_behavior, STRING, .preset = "",
          .help = "Heed the PROXY protocol: use_always, allow_authorized or deny_unauthorized."),
    FIELD(struct config_listener, proxy_protocol_authorized_addrs, STRINGS,
          .help = "Addresses and blocks of the proxies that may say it."),
    FIELD(struct config_listener, x_forwarded_for_authorized_addrs, STRINGS,
          .help = "Addresses and blocks of proxies whose X-Forwarded-For is believed."),
    FIELD(struct config_listener, x_forwarded_for_hop_skips, INT, .preset = "0",
          .help = "How many addresses at the end of the header are of proxies too."),
    FIELD(struct config_listener, x_forwarded_for_reject_not_authorized, BOOL, .preset = "true",
          .help = "Refuse the header from elsewhere with 400, rather than ignore it."),
    FIELD(struct config_listener, x_forwarded_for_reject_not_present, BOOL, .preset = "true",
          .help = "Refuse requests without the header with 400."),
    FIELD(struct config_listener, require_request_header, BOOL,
          .help = "Refuse requests without \"X-Secrets-Request: true\" with 412."),
    FIELD(struct config_listener, max_request_bytes, SIZE, .preset = "32MiB",
          .help = "Longest body; above is answered 413."),
    FIELD(struct config_listener, max_header_bytes, SIZE, .preset = "64KiB",
          .help = "Longest header."),
    FIELD(struct config_listener, max_connections, INT, .preset = "0", .help = "0: unbounded."),
    FIELD(struct config_listener, header_timeout_s, DURATION, .preset = "10s",
          .help = "For a whole header to arrive."),
    FIELD(struct config_listener, request_timeout_s, DURATION, .preset = "90s",
          .help = "From the header to the answer."),
    FIELD(struct config_listener, idle_timeout_s, DURATION, .preset = "5m",
          .help = "Between two requests."),
};
static const struct schema listener_schema = SCHEMA(struct config_listener, listener_fields);

static const struct field seal_fields[] = {
    FIELD(struct config_seal, key_file, STRING,
          .help = "File with the 32 bytes that wrap the root key."),
    FIELD(struct config_seal, credential, STRING,
          .help = "The same from the systemd credential of this name."),
    FIELD(struct config_seal, key_id, STRING, .preset = "default",
          .help = "Name of that key, changed when the key is."),
};
static const struct schema seal_schema = SCHEMA(struct config_seal, seal_fields);
static const struct schema shamir_schema = {.size = sizeof(struct config_seal)};

struct compat {
    const char *reported_version;
};
static const struct field compat_fields[] = {
    FIELD(struct compat, reported_version, STRING,
          .help = "The version clients are told; some switch features by it."),
};
static const struct schema compat_schema = SCHEMA(struct compat, compat_fields);

/* What all readers of blocks share. */
struct loader {
    struct config *config;
    struct reason *reason;
};

__attribute__((format(printf, 3, 4))) static enum status refuse(struct loader *l, uint32_t line,
                                                                const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args); /* cut when too long */
    va_end(args);
    reason_set(l->reason, "%s:%u: %s", l->config->file, line, text);
    return ST_INVALID;
}

/* One of the names that stand for blocks rather than fields. */
static bool is_one_of(struct bytes name, const char *const *blocks)
{
    for (; blocks != NULL && *blocks != NULL; blocks++)
        if (text_is(name, *blocks))
            return true;
    return false;
}

/* Fill a struct from a block; `blocks` (NULL-terminated, or NULL) may stand in it beside fields. */
static enum status load_fields(struct loader *l, const struct schema *schema,
                               const struct text_value *object, const char *const *blocks,
                               void *ret_struct)
{
    struct schema_fault fault;
    const struct text_value *unknown = NULL;

    while ((unknown = schema_unknown(schema, object, unknown)) != NULL)
        if (!is_one_of(unknown->name, blocks))
            return refuse(l, unknown->line, "unknown field \"%.*s\"",
                          (int)MIN(unknown->name.len, 64), (const char *)unknown->name.data);
    enum status st = schema_decode(schema, object, &l->config->arena, ret_struct, &fault);
    if (st == ST_INVALID)
        return refuse(l, fault.line, "%s: %s", fault.field, fault.why.text);
    return st;
}

typedef enum status (*block_loader)(struct loader *l, const char *label,
                                    const struct text_value *body);

/* A body, or a list of bodies as JSON writes several. */
static enum status load_bodies(struct loader *l, const char *label, const struct text_value *v,
                               block_loader load)
{
    if (v->kind == TEXT_OBJECT)
        return load(l, label, v);
    if (v->kind != TEXT_LIST)
        return refuse(l, v->line, "%s: a block is expected", label);
    TEXT_FOR (item, v) {
        if (item->kind != TEXT_OBJECT)
            return refuse(l, item->line, "%s: a block is expected", label);
        TRY(load(l, label, item));
    }
    return ST_OK;
}

/* `object` holds labels, each with its body or bodies. */
static enum status load_labels(struct loader *l, const char *name, const struct text_value *object,
                               block_loader load)
{
    if (object->kind != TEXT_OBJECT)
        return refuse(l, object->line, "%s: a block with a label is expected", name);
    TEXT_FOR (labelled, object) {
        if (labelled->kind != TEXT_OBJECT && labelled->kind != TEXT_LIST)
            return refuse(l, object->line, "%s: a label is missing: %s \"…\" { … }", name, name);
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
    if (address == NULL || text_address_split(address, host, &port) == ST_OK)
        return ST_OK;
    return refuse(l, v != NULL ? v->line : object->line,
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
        return refuse(l, body->line, "member: more than %d", CONFIG_MEMBERS_MAX);
    if (!is_node_name(label))
        return refuse(l, body->line, "member: \"%.64s\" is not a name of a node", label);
    TRY(load_fields(l, &member_schema, body, NULL, &member));
    TRY(check_address(l, body, "address", member.address));
    for (unsigned i = 0; i < cluster->n_members; i++) {
        if (strcmp(cluster->members[i].name, label) == 0)
            return refuse(l, body->line, "member: \"%s\" is repeated", label);
        if (strcmp(cluster->members[i].address, member.address) == 0)
            return refuse(l, body->line, "address: \"%s\" and \"%s\" have the same one",
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

enum { ELECTION_MS = 1000, HEARTBEAT_MS = 100 }; /* the defaults of the log */

static enum status check_times(struct loader *l, const struct text_value *body)
{
    const struct config_cluster *c = &l->config->cluster;
    int64_t election_ms = c->election_ms != 0 ? c->election_ms : ELECTION_MS;
    int64_t heartbeat_ms = c->heartbeat_ms != 0 ? c->heartbeat_ms : HEARTBEAT_MS;
    if (c->heartbeat_ms >= 0 && election_ms <= 60000 && heartbeat_ms <= election_ms / 2)
        return ST_OK;
    const struct text_value *v = text_get(body, "election_ms");
    return refuse(l, v != NULL ? v->line : body->line,
                  "election_ms: at most 60000, and at least twice heartbeat_ms, are expected; they "
                  "are %lld and %lld",
                  (long long)election_ms, (long long)heartbeat_ms);
}

static enum status load_cluster(struct loader *l, const char *label, const struct text_value *body)
{
    static const char *const blocks[] = {"member", NULL};
    struct config_cluster *cluster = &l->config->cluster;
    (void)label;

    if (cluster->address != NULL)
        return refuse(l, body->line, "cluster: is repeated");
    TRY(load_fields(l, &cluster_schema, body, blocks, cluster));
    TRY(check_address(l, body, "address", cluster->address));
    TRY(check_address(l, body, "advertise", cluster->advertise));
    if (cluster->advertise == NULL)
        cluster->advertise = cluster->address;
    if (cluster->id != NULL && !is_uuid(cluster->id))
        return refuse(l, text_get(body, "id")->line, "id: a UUID is expected");
    if (cluster->join != NULL && strcmp(cluster->join, "api") != 0)
        return refuse(l, text_get(body, "join")->line, "join: \"api\" is expected");
    if (cluster->join != NULL && cluster->join_token_file != NULL)
        return refuse(l, text_get(body, "join")->line,
                      "join: there is join_token_file already; one of the two is expected");
    TRY(check_times(l, body));
    TRY(load_labelled(l, body, "member", load_member));
    if (cluster->n_members == 0)
        return refuse(l, body->line, "member: at least one is required: the founders");
    return ST_OK;
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
            return refuse(l, text_get(body, name)->line,
                          "%s: \"%.64s\" is not an address or a block such as 10.0.0.0/8", name,
                          texts->items[i]);
    *ret_blocks = blocks;
    return ST_OK;
}

/* Who is believed about the client. */
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
        return refuse(l, text_get(body, "proxy_protocol_behavior")->line,
                      "proxy_protocol_behavior: use_always, allow_authorized or deny_unauthorized "
                      "is expected");
    bool needs = mode[0] != '\0' && strcmp(mode, "use_always") != 0;
    if (needs && listener->proxies == NULL)
        return refuse(l, text_get(body, "proxy_protocol_behavior")->line,
                      "proxy_protocol_authorized_addrs: is required with %s", mode);
    if (listener->x_forwarded_for_hop_skips < 0)
        return refuse(l, text_get(body, "x_forwarded_for_hop_skips")->line,
                      "x_forwarded_for_hop_skips: 0 or more is expected");
    return ST_OK;
}

static enum status load_listener(struct loader *l, const char *label, const struct text_value *body)
{
    struct config *config = l->config;
    struct config_listener *listener = &config->listeners[config->n_listeners];

    if (strcmp(label, "tcp") != 0)
        return refuse(l, body->line, "listener: \"%.64s\" is not a kind of listener, only \"tcp\"",
                      label);
    if (config->n_listeners == CONFIG_LISTENERS_MAX)
        return refuse(l, body->line, "listener: more than %d", CONFIG_LISTENERS_MAX);
    TRY(load_fields(l, &listener_schema, body, NULL, listener));
    TRY(check_address(l, body, "address", listener->address));
    TRY(check_proxies(l, body, listener));
    bool has_tls = listener->tls_cert_file != NULL && listener->tls_key_file != NULL;
    if (!has_tls && !listener->tls_disable)
        return refuse(
            l, body->line,
            "listener: tls_cert_file and tls_key_file are required, or tls_disable = true");
    if (listener->max_request_bytes == 0 || listener->max_header_bytes < 1024)
        return refuse(l, body->line,
                      "listener: max_request_bytes above 0 and max_header_bytes of at least 1024 "
                      "are required");
    if (listener->max_connections < 0)
        return refuse(l, body->line, "max_connections: 0 or more is expected");
    config->n_listeners++;
    return ST_OK;
}

static enum status load_seal(struct loader *l, const char *label, const struct text_value *body)
{
    if (l->config->seal.type != NULL)
        return refuse(l, body->line, "seal: is repeated");
    if (strcmp(label, "shamir") == 0) {
        TRY(load_fields(l, &shamir_schema, body, NULL, &l->config->seal));
        l->config->seal.type = "shamir";
        return ST_OK;
    }
    if (strcmp(label, "static") != 0)
        return refuse(l, body->line,
                      "seal: \"%.64s\" is not a kind of seal, only \"shamir\" and \"static\"",
                      label);
    struct config_seal *seal = &l->config->seal;
    TRY(load_fields(l, &seal_schema, body, NULL, seal));
    if (seal->key_file == NULL && seal->credential == NULL)
        return refuse(l, body->line, "key_file: is required, or credential");
    if (seal->key_file != NULL && seal->credential != NULL)
        return refuse(l, text_get(body, "credential")->line,
                      "credential: there is key_file already; one of the two is expected");
    seal->type = "static";
    return ST_OK;
}

static enum status load_compat(struct loader *l, const char *label, const struct text_value *body)
{
    struct compat compat;
    (void)label;
    TRY(load_fields(l, &compat_schema, body, NULL, &compat));
    l->config->reported_version = compat.reported_version;
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

enum { API_ADDR_MAX = 159 };

/* It is sent to clients as it stands, in a header. */
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
    (void)snprintf(with_port, sizeof with_port, "%s:1", at); /* fits */
    return text_address_split(with_port, host, &port) == ST_OK;
}

/* That of the first listener; where it listens everywhere, at the host the other nodes use. */
static enum status default_api_addr(struct config *config)
{
    const struct config_listener *first = &config->listeners[0];
    char host[256], other[256];
    uint16_t port, other_port;
    if (text_address_split(first->address, host, &port) != ST_OK ||
        text_address_split(config->cluster.advertise, other, &other_port) != ST_OK)
        return ST_INTERNAL; /* both were checked */
    bool any = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
    const char *use = any ? other : host;
    bool bracketed = strchr(use, ':') != NULL;
    config->api_addr =
        arena_format(&config->arena, "http%s://%s%s%s:%u", first->tls_disable ? "" : "s",
                     bracketed ? "[" : "", use, bracketed ? "]" : "", port);
    return config->api_addr != NULL ? ST_OK : ST_NOMEM;
}

static enum status check_root(struct loader *l, const struct text_value *root)
{
    static const char *const levels[] = {"debug", "info", "warn", "error", "off", NULL};
    struct config *config = l->config;

    if (!is_node_name(config->node_name))
        return refuse(l, text_get(root, "node_name")->line,
                      "node_name: 1 to %d letters, digits, '-', '_' and '.' are expected",
                      NODE_NAME_MAX);
    if (!is_one_of(bytes_str(config->log_level), levels))
        return refuse(l, text_get(root, "log_level")->line,
                      "log_level: debug, info, warn, error or off is expected");
    if (!is_one_of(bytes_str(config->log_requests_level), levels))
        return refuse(l, text_get(root, "log_requests_level")->line,
                      "log_requests_level: debug, info, warn, error or off is expected");
    if (config->workers < 0 || config->workers > 256)
        return refuse(l, text_get(root, "workers")->line, "workers: 0 to 256 is expected");
    if (config->drain_delay_s > DRAIN_DELAY_MAX_S)
        return refuse(l, text_get(root, "drain_delay_s")->line,
                      "drain_delay_s: at most %d seconds are expected", DRAIN_DELAY_MAX_S);
    if (config->data_dir[0] == '\0')
        return refuse(l, text_get(root, "data_dir")->line, "data_dir: is empty");
    if (config->n_listeners == 0)
        return refuse(l, root->line, "listener: at least one is required");
    if (config->cluster.address == NULL)
        return refuse(l, root->line, "cluster: is required");
    if (config->seal.type == NULL)
        config->seal.type = "shamir"; /* as upstream: people hold the key */
    if (config->api_addr == NULL)
        return default_api_addr(config);
    if (!is_api_addr(config->api_addr))
        return refuse(l, text_get(root, "api_addr")->line,
                      "api_addr: a URL such as https://node1.example:8200 is expected");
    return ST_OK;
}

static enum status load_root(struct loader *l, struct bytes text)
{
    static const char *const blocks[] = {"cluster", "listener", "seal", "compat", NULL};
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

    struct config fields;
    TRY(load_fields(l, &root_schema, root, blocks, &fields));
    fields.arena = config->arena;
    fields.file = config->file;
    *config = fields;
    TRY(load_plain(l, root, "cluster", load_cluster));
    TRY(load_plain(l, root, "compat", load_compat));
    TRY(load_labelled(l, root, "listener", load_listener));
    TRY(load_labelled(l, root, "seal", load_seal));
    return check_root(l, root);
}

enum status config_parse(struct bytes text, const char *file, struct config *ret_config,
                         struct reason *reason)
{
    struct config config = {0};
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

enum status config_load(const char *file, struct config *ret_config, struct reason *reason)
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
    (void)fclose(f); /* only read from */
    TRY(buf_status(&text));
    if (failed) {
        reason_set(reason, "%s: cannot be read", file);
        return ST_IO;
    }
    if (n > CONFIG_BYTES_MAX) {
        reason_set(reason, "%s: longer than %d bytes", file, CONFIG_BYTES_MAX);
        return ST_TOO_BIG;
    }
    return config_parse(bytes_of(text.data, n), file, ret_config, reason);
}

void config_done(struct config *config)
{
    arena_done(&config->arena);
    memset(config, 0, sizeof *config);
}
