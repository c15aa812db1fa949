/* Joining with a one-time token, and the certificates of the cluster port.
 *
 * The state keeps an HMAC of a token's secret. The use of a token binds the token to a name and a
 * key. The same transaction readmits a removed node of that name. A machine that lost the reply
 * gets its certificate when it repeats the request. */
#include "api/members/members_join.h"
#include "api/members/members.h"
#include "base/mem.h"
#include "base/plant.h"
#include "cluster/membership/certificate/authority.h"
#include "cluster/membership/join/join_token.h"
#include "text/address.h"
#include "text/discover.h"
#include "text/encode.h"

#include <stdio.h>
#include <strings.h>

struct members_authority {
    const char *certificate, *private_key;
};
struct members_join_token {
    int64_t ttl;
    const char *node_id;
};
struct members_bootstrap {
    const char *join_token, *node_id, *public_key;
};
struct members_join {
    const char *leader_api_addr, *join_token, *leader_tls_servername;
    const char *leader_ca_cert, *leader_client_cert, *leader_client_key;
    const char *auto_join, *auto_join_scheme;
    int64_t auto_join_port;
    bool retry, non_voter;
};

enum {
    TOKENS_MAX = 64, /* tokens that are neither used nor expired */
    API_PORT = 8200, /* default port of auto_join */
    TTL_DEFAULT_S = 3600,
    TTL_MAX_S = 30 * 86400,
    MAC_MESSAGE = 5 + JOIN_SECRET_BYTES,
    KEY_TEXT = sizeof AUTHORITY_JOIN_KEY + TEXT_HEX_LEN(BARRIER_MAC_BYTES),
};

#define ALREADY                                                                             \
    "this node is already joined or forms a cluster; a node waits for a join request with " \
    "cluster.join = \"api\" in its configuration, without certificates of a cluster"

static const struct field authority_fields[] = {
    FIELD(struct members_authority, certificate, STRING, .required = true,
          .help = "The cluster's ca.pem."),
    FIELD(struct members_authority, private_key, STRING, .required = true, .hidden = true,
          .help = "The cluster's ca-key.pem."),
};
static const struct schema members_authority_schema =
    SCHEMA(struct members_authority, authority_fields);

static const struct field join_token_fields[] = {
    FIELD(struct members_join_token, ttl, DURATION, .preset = "1h",
          .help = "How long the token may be used; 30 days at most."),
    FIELD(struct members_join_token, node_id, STRING,
          .help = "The name of the node that may use the token; none: any node that is no member."),
};
static const struct schema members_join_token_schema =
    SCHEMA(struct members_join_token, join_token_fields);

static const struct field bootstrap_fields[] = {
    FIELD(struct members_bootstrap, join_token, STRING, .required = true, .hidden = true,
          .help = "The token, from the reply of storage/raft/join-token."),
    FIELD(struct members_bootstrap, node_id, STRING, .required = true,
          .help = "Name of the new node."),
    FIELD(struct members_bootstrap, public_key, STRING, .required = true,
          .help = "The public half of the node's key, P-256 in PEM form."),
};
static const struct schema members_bootstrap_schema =
    SCHEMA(struct members_bootstrap, bootstrap_fields);

static const struct field join_fields[] = {
    FIELD(struct members_join, leader_api_addr, STRING,
          .help = "https://HOST:PORT of a member, which need not lead. Each address of a name is "
                  "tried. Required, unless auto_join is given."),
    FIELD(struct members_join, join_token, STRING, .hidden = true,
          .help = "The token, from the reply of storage/raft/join-token; none: the node has to "
                  "open the cluster's seal."),
    FIELD(struct members_join, leader_ca_cert, STRING,
          .help = "PEM of the authority that signed the certificate of leader_api_addr. Without "
                  "this field: with a token the address must be a cluster port, and the token's "
                  "hash checks its certificate; else the authorities of this system count."),
    FIELD(struct members_join, leader_tls_servername, STRING,
          .help = "The name that the member's certificate must have; default: HOST."),
    FIELD(struct members_join, leader_client_cert, STRING, .help = "PEM of a certificate to show."),
    FIELD(struct members_join, leader_client_key, STRING, .hidden = true,
          .help = "The private key of that certificate."),
    FIELD(struct members_join, retry, BOOL,
          .help = "If no member answers, reply false and keep trying."),
    FIELD(struct members_join, non_voter, BOOL,
          .help = "Follow and serve, without a vote; storage/raft/promote gives one."),
    FIELD(struct members_join, auto_join, STRING,
          .help = "Instead of leader_api_addr a DNS name of the members, or \"provider=dns "
                  "name=NAME\": each address of the name is tried, and each try looks the name up "
                  "anew. There is no other provider."),
    FIELD(struct members_join, auto_join_scheme, STRING, .preset = "https", .help = "https alone."),
    FIELD(struct members_join, auto_join_port, INT, .preset = "0",
          .help = "Port of the addresses that auto_join finds; 0: 8200."),
};
static const struct schema members_join_schema = SCHEMA(struct members_join, join_fields);

/* Whether the authority is the authority that this node trusts. Every other node then trusts it
 * too. */
static bool is_trusted(const struct node_status *node, const struct cert_pair *ca)
{
    uint8_t hash[JOIN_HASH_BYTES];
    return cert_fingerprint(buf_bytes(&ca->cert), hash) == ST_OK &&
           memcmp(hash, node->ca_sha256, sizeof hash) == 0;
}

enum status members_join_authority(struct req *req, struct cert_pair *ret_pair)
{
    struct state_value stored;
    struct node_status *node = req_node(req);
    ASSERT(ret_pair->cert.len == 0 && ret_pair->key.len == 0);
    if (node == NULL)
        return ST_NOMEM;
    enum status st = state_get(req->txn, BYTES(AUTHORITY_KEY), &stored);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID,
                        "the cluster does not have the key of its certificate authority yet: see "
                        "sys/storage/raft/certificates/authority");
    TRY(st);
    TRY(authority_decode(stored.value, ret_pair));
    if (is_trusted(node, ret_pair))
        return ST_OK;
    return req_fail(req, ST_INVALID,
                    "the certificate authority in the state is not the one that the nodes trust: "
                    "give theirs to sys/storage/raft/certificates/authority");
}

/* Make the record of an authority that this node trusts. The check of the key pair takes long, so
 * it runs on the pool. */
static enum status members_authority_prepare(struct req *req)
{
    const struct members_authority *in = req_body(req);
    CLEANUP(cert_pair_done) struct cert_pair pair = {0};
    CLEANUP(buf_done) struct buf record = {0};
    struct node_status *node = req_node(req);
    ASSERT(!req_in_txn(req));
    if (node == NULL)
        return ST_NOMEM;
    buf_add_str(&pair.cert, in->certificate);
    buf_add_str(&pair.key, in->private_key);
    TRY(buf_status(&pair.cert));
    TRY(buf_status(&pair.key));
    TRY(mesh_authority_check(&pair, node->cluster, req_reason(req)));
    if (!is_trusted(node, &pair))
        return req_fail(req, ST_INVALID,
                        "certificate: this is not the authority that this node trusts (ca_file)");
    TRY(authority_encode(&pair, &record));
    ASSERT(record.len > 0);
    struct bytes *kept = arena_alloc(req->arena, sizeof *kept);
    const uint8_t *copy = arena_dup(req->arena, buf_bytes(&record));
    if (kept == NULL || copy == NULL)
        return ST_NOMEM;
    *kept = bytes_of(copy, record.len);
    req->prepared = kept;
    return ST_OK;
}

static enum status members_authority(struct req *req)
{
    const struct bytes *record = req->prepared;
    ASSERT(record != NULL);
    ASSERT(req_in_txn(req) && record->len > 0);
    return state_put(req->txn, BYTES(AUTHORITY_KEY), *record);
}

/* The key of the state at which the token with this secret is stored. */
static enum status token_key(struct req *req, const uint8_t secret[JOIN_SECRET_BYTES],
                             char ret_key[KEY_TEXT])
{
    uint8_t message[MAC_MESSAGE], mac[BARRIER_MAC_BYTES];
    memcpy(message, "join ", MAC_MESSAGE - JOIN_SECRET_BYTES);
    memcpy(message + MAC_MESSAGE - JOIN_SECRET_BYTES, secret, JOIN_SECRET_BYTES);
    enum status st = barrier_mac(req->cipher, bytes_of(message, sizeof message), mac);
    mem_wipe(message, sizeof message);
    TRY(st);
    memcpy(ret_key, AUTHORITY_JOIN_KEY, sizeof AUTHORITY_JOIN_KEY - 1);
    text_hex_put(bytes_of(mac, sizeof mac), ret_key + sizeof AUTHORITY_JOIN_KEY - 1);
    ASSERT(strlen(ret_key) == KEY_TEXT - 1);
    return ST_OK;
}

/* Delete tokens a day after they expired. Until then the error says that the token has expired. */
static enum status sweep(struct req *req)
{
    struct state_iter iter;
    unsigned left = 0;
    TRY(state_scan(req->txn, BYTES(AUTHORITY_JOIN_KEY), (struct bytes){0}, &iter));
    while (state_iter_next(&iter)) {
        struct join_record record;
        struct bytes stored;
        TRY(state_iter_value(&iter, &stored));
        TRY(join_record_decode(stored, &record));
        if (record.expires_ms + INT64_C(86400000) < req->now_ms)
            TRY(state_delete(req->txn, iter.key));
        else
            left += record.expires_ms > req->now_ms && !record.used;
    }
    if (left >= TOKENS_MAX)
        return req_fail(req, ST_LIMITED,
                        "%d join tokens are not used yet; use them or let them expire first",
                        TOKENS_MAX);
    return ST_OK;
}

static enum status store_token(struct req *req, const struct join_token *token,
                               const struct join_record *record)
{
    CLEANUP(buf_done) struct buf out = {0};
    char key[KEY_TEXT];
    ASSERT(record->expires_ms > 0);
    TRY(token_key(req, token->secret, key));
    TRY(join_record_encode(record, &out));
    return state_put(req->txn, bytes_str(key), buf_bytes(&out));
}

struct join_token_out {
    const char *token, *node_id;
    int64_t expire_time;
};
static const struct field join_token_out_fields[] = {
    FIELD(struct join_token_out, token, STRING),
    FIELD(struct join_token_out, node_id, STRING),
    FIELD(struct join_token_out, expire_time, TIME),
};
static const struct schema members_join_token_reply =
    SCHEMA(struct join_token_out, join_token_out_fields);

static enum status reply_token(struct req *req, const struct join_token *token,
                               const struct join_record *record)
{
    char text[JOIN_TOKEN_TEXT];
    join_token_put(token, text);
    enum status st =
        req_reply(req, &(struct join_token_out){text, record->node, record->expires_ms});
    mem_wipe(text, sizeof text);
    return st;
}

static enum status members_join_token(struct req *req)
{
    const struct members_join_token *in = req_body(req);
    CLEANUP(cert_pair_done) struct cert_pair ca = {0};
    struct join_token token;
    struct join_record record = {0};
    if (in->ttl < 1 || in->ttl > TTL_MAX_S)
        return req_fail(req, ST_INVALID, "ttl: 1 second to 30 days is expected");
    if (in->node_id != NULL && in->node_id[0] != '\0' && !mesh_name_valid(in->node_id))
        return req_fail(req, ST_INVALID, "node_id: the name of a node is expected");
    TRY(members_join_authority(req, &ca));
    TRY(sweep(req));
    if (in->node_id != NULL)
        (void)snprintf(record.node, sizeof record.node, "%s", in->node_id); /* valid, so it fits */
    ASSERT(req_in_txn(req));
    record.expires_ms = req->now_ms + in->ttl * 1000;
    if (cert_fingerprint(buf_bytes(&ca.cert), token.ca_sha256) != ST_OK)
        return ST_CORRUPT;
    env_random(req->env, token.secret, sizeof token.secret);
    enum status st = store_token(req, &token, &record);
    if (st == ST_OK)
        st = reply_token(req, &token, &record);
    mem_wipe(&token, sizeof token);
    return st;
}

/* The first use of a token readmits a removed node of the token's name. If that node is removed
 * again later, it needs a new token. */
static enum status readmit(struct req *req, const char *name, bool again)
{
    const char *key = arena_format(req->arena, MEMBER_REMOVED_KEY "%s", name);
    if (key == NULL)
        return ST_NOMEM;
    enum status st = state_exists(req->txn, bytes_str(key));
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    if (again)
        return req_fail(req, ST_DENIED, "join_token: was used already");
    return state_delete(req->txn, bytes_str(key));
}

/* Stage the use of a token for a certificate of this name and key. ST_DENIED: not allowed. */
static enum status use_token(struct req *req, const struct members_bootstrap *in,
                             const struct join_token *token)
{
    char key[KEY_TEXT];
    uint8_t key_mac[BARRIER_MAC_BYTES];
    struct state_value stored;
    struct join_record record;
    TRY(token_key(req, token->secret, key));
    TRY(barrier_mac(req->cipher, bytes_str(in->public_key), key_mac));
    enum status st = state_get(req->txn, bytes_str(key), &stored);
    if (st == ST_NOT_FOUND) {
        TRY(state_need_keys(req->txn));
        return req_fail(req, ST_DENIED, "join_token: not one of this cluster, or expired long ago");
    }
    TRY(st);
    TRY(join_record_decode(stored.value, &record));
    if (req->now_ms >= record.expires_ms)
        return req_fail(req, ST_DENIED, "join_token: expired");
    if (record.node[0] != '\0' && strcmp(record.node, in->node_id) != 0)
        return req_fail(req, ST_DENIED, "join_token: made for another node");
    record.used = record.used && !planted(PLANT_JOIN_TWICE);
    if (record.used && (strcmp(record.used_by, in->node_id) != 0 ||
                        memcmp(record.key_mac, key_mac, sizeof key_mac) != 0))
        return req_fail(req, ST_DENIED, "join_token: was used already");
    TRY(readmit(req, in->node_id, record.used));
    if (record.used)
        return ST_OK;
    record.used = true;
    (void)snprintf(record.used_by, sizeof record.used_by, "%s", in->node_id); /* valid: it fits */
    memcpy(record.key_mac, key_mac, sizeof key_mac);
    return store_token(req, token, &record);
}

enum status members_join_check_name(struct req *req, const char *name)
{
    struct node_status *node = req_node(req);
    if (node == NULL)
        return ST_NOMEM;
    if (!mesh_name_valid(name))
        return req_fail(req, ST_INVALID, "node_id: the name of a node is expected");
    ASSERT(node->raft.n_members <= RLOG_MEMBERS_MAX);
    for (unsigned i = 0; i < node->raft.n_members; i++)
        if (strcmp(node->raft.members[i].name, name) == 0)
            return req_fail(req, ST_INVALID,
                            "node_id: \"%s\" is a member; remove it first, if it is to be replaced",
                            name);
    return ST_OK;
}

struct certificate_out {
    struct bytes certificate, ca_certificate;
};
static const struct field certificate_fields[] = {
    FIELD(struct certificate_out, certificate, BYTES),
    FIELD(struct certificate_out, ca_certificate, BYTES),
};
static const struct schema members_certificate_reply =
    SCHEMA(struct certificate_out, certificate_fields);

static enum status bootstrap(struct req *req, const struct members_bootstrap *in,
                             const struct join_token *token)
{
    CLEANUP(cert_pair_done) struct cert_pair ca = {0};
    CLEANUP(buf_done) struct buf cert = {0};
    uint8_t hash[JOIN_HASH_BYTES];
    ASSERT(req_in_txn(req));
    TRY(members_join_authority(req, &ca));
    if (cert_fingerprint(buf_bytes(&ca.cert), hash) != ST_OK)
        return ST_CORRUPT;
    if (memcmp(hash, token->ca_sha256, sizeof hash) != 0)
        return req_fail(req, ST_INVALID, "join_token: of another cluster");
    TRY(use_token(req, in, token));
    TRY(members_join_check_name(req, in->node_id));
    TRY(mesh_certify(&ca, in->node_id, bytes_str(in->public_key), req->now_ms / 1000, &cert,
                     req_reason(req)));
    ASSERT(cert.len > 0 && ca.cert.len > 0);
    return req_reply(req, &(struct certificate_out){buf_bytes(&cert), buf_bytes(&ca.cert)});
}

static enum status members_bootstrap(struct req *req)
{
    const struct members_bootstrap *in = req_body(req);
    struct join_token token;
    if (join_token_parse(bytes_str(in->join_token), &token) != ST_OK)
        return req_fail(req, ST_INVALID, "join_token: not a join token, or mistyped");
    enum status st = bootstrap(req, in, &token);
    mem_wipe(&token, sizeof token);
    return st;
}

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static struct bytes text_of(const char *text)
{
    return text != NULL ? bytes_str(text) : (struct bytes){0};
}

static enum status check_auto_join(struct req *req, const struct members_join *in)
{
    struct text_discover found;
    struct reason why = {{0}};
    if (!is_given(in->auto_join))
        return ST_OK;
    if (is_given(in->leader_api_addr))
        return req_fail(req, ST_INVALID, "leader_api_addr and auto_join: give one of the two");
    if (text_discover_parse(in->auto_join, &found, &why) != ST_OK)
        return req_fail(req, ST_INVALID, "auto_join: %s", why.text);
    if (strcmp(in->auto_join_scheme, "https") != 0)
        return req_fail(req, ST_INVALID, "auto_join_scheme: https is expected");
    if (in->auto_join_port < 0 || in->auto_join_port > UINT16_MAX)
        return req_fail(req, ST_INVALID, "auto_join_port: 0 to 65535 is expected");
    return ST_OK;
}

static enum status check_join(struct req *req, const struct members_join *in)
{
    TRY(check_auto_join(req, in));
    if (!is_given(in->leader_api_addr) && !is_given(in->auto_join))
        return req_fail(req, ST_INVALID, "leader_api_addr: missing; or give auto_join");
    if (is_given(in->leader_client_cert) != is_given(in->leader_client_key))
        return req_fail(req, ST_INVALID, "leader_client_cert and leader_client_key go together");
    return ST_OK;
}

/* The address and the host name of auto_join, in the arena. members_join checked the field. */
static enum status read_auto_join(struct req *req, const struct members_join *in,
                                  const char **ret_address, const char **ret_host)
{
    struct text_discover found;
    struct reason why = {{0}};
    TRY(text_discover_parse(in->auto_join, &found, &why));
    unsigned port = in->auto_join_port != 0 ? (unsigned)in->auto_join_port
                    : found.port != 0       ? found.port
                                            : API_PORT;
    bool brackets = strchr(found.name, ':') != NULL;
    *ret_address = arena_format(req->arena, brackets ? "[%s]:%u" : "%s:%u", found.name, port);
    *ret_host = arena_str(req->arena, bytes_str(found.name));
    return *ret_address != NULL && *ret_host != NULL ? ST_OK : ST_NOMEM;
}

/* Split a URL "https://HOST[:PORT][/]" into "HOST:PORT" and HOST without its brackets, in the
 * arena. */
static enum status read_leader(struct req *req, const char *url, const char **ret_address,
                               const char **ret_host)
{
    static const char scheme[] = "https://";
    size_t start = sizeof scheme - 1;
    if (strncasecmp(url, scheme, start) != 0)
        return req_fail(req, ST_INVALID, "leader_api_addr: https://HOST:PORT is expected");
    struct bytes rest = bytes_from(bytes_str(url), start);
    if (rest.len != 0 && rest.data[rest.len - 1] == '/')
        rest.len--;
    char *address = arena_str(req->arena, rest), *host = arena_alloc(req->arena, TEXT_HOST_MAX);
    uint16_t port;
    if (address == NULL || host == NULL)
        return ST_NOMEM;
    if (text_address_split(address, host, &port) != ST_OK)
        address = arena_format(req->arena, "%s:443", address);
    if (address == NULL)
        return ST_NOMEM;
    bool plain = strpbrk(address, "/?#@\\\" \t\r\n") == NULL;
    if (!plain || text_address_split(address, host, &port) != ST_OK)
        return req_fail(req, ST_INVALID, "leader_api_addr: https://HOST:PORT is expected");
    ASSERT(strlen(host) < TEXT_HOST_MAX);
    *ret_address = address;
    *ret_host = host;
    return ST_OK;
}

/* Check the request. members_join_outside joins, because joining waits for the network. */
static enum status members_join(struct req *req)
{
    struct node_status *node = req_node(req);
    ASSERT(!req_in_txn(req)); /* the node has no state yet */
    if (node == NULL)
        return ST_NOMEM;
    if (!node->waits)
        return req_fail(req, ST_INVALID, ALREADY);
    return check_join(req, req_body(req));
}

struct joined_out {
    bool joined;
};
static const struct field joined_fields[] = {FIELD(struct joined_out, joined, BOOL)};
static const struct schema members_joined_reply = SCHEMA(struct joined_out, joined_fields);

static enum status members_join_outside(struct req *req)
{
    const struct members_join *in = req_body(req);
    const char *address = NULL, *host = NULL;
    ASSERT(!req_in_txn(req));
    ASSERT(is_given(in->leader_api_addr) !=
           is_given(in->auto_join)); /* members_join checked them */
    ASSERT(is_given(in->leader_client_cert) == is_given(in->leader_client_key));
    TRY(is_given(in->auto_join) ? read_auto_join(req, in, &address, &host)
                                : read_leader(req, in->leader_api_addr, &address, &host));
    bool named = is_given(in->leader_tls_servername);
    /* The address is a cluster port: its certificate names no host. */
    bool pinned = is_given(in->join_token) && !is_given(in->leader_ca_cert);
    struct join_request how = {.address = address,
                               .server_name = named    ? in->leader_tls_servername
                                              : pinned ? NULL
                                                       : host,
                               .ca = text_of(in->leader_ca_cert),
                               .client_cert = text_of(in->leader_client_cert),
                               .client_key = text_of(in->leader_client_key),
                               .token = text_of(in->join_token),
                               .retry = in->retry,
                               .non_voter = in->non_voter};
    enum status st = req->host->node_ops->join(req->host->node, &how, req_reason(req));
    if (st == ST_EXISTS)
        return req_fail(req, ST_INVALID, ALREADY);
    if (st != ST_OK && st != ST_TIMEOUT)
        return st;
    return req_reply(req, &(struct joined_out){.joined = st == ST_OK});
}

static enum status members_certificates_rotate(struct req *req)
{
    CLEANUP(cert_pair_done) struct cert_pair ca = {0};
    CLEANUP(buf_done) struct buf out = {0};
    TRY(members_join_authority(req, &ca));
    TRY(authority_rotate_encode(req->now_ms / 1000 + 1, &out)); /* of this second too */
    return state_put(req->txn, BYTES(AUTHORITY_ROTATE_KEY), buf_bytes(&out));
}

static const struct route join_routes[] = {
    {.method = METHOD_POST,
     .path = "storage/raft/join-token",
     .handler = members_join_token,
     .flags = ROUTE_SUDO,
     .body = &members_join_token_schema,
     .reply = &members_join_token_reply,
     .help = "Create a token with which one new node may join, once. The token carries the hash of "
             "the cluster's certificate authority, by which the node recognises the cluster."},
    {.method = METHOD_POST,
     .path = "storage/raft/join",
     .handler = members_join,
     .outside = members_join_outside,
     .who = WHO_ANYONE,
     .place = PLACE_NODE,
     .form = FORM_BARE,
     .body = &members_join_schema,
     .reply = &members_joined_reply,
     .help =
         "Let this node join a cluster. The node must wait for this request (cluster.join in its "
         "configuration). Reply true: the node is a member; false: it keeps trying. Without a "
         "token the node must open the cluster's seal: where people hold key shares, true "
         "means that the node waits for the shares at its sys/unseal."},
    {.method = METHOD_POST,
     .path = "storage/raft/bootstrap/join",
     .handler = members_bootstrap,
     .who = WHO_ANYONE,
     .form = FORM_BARE,
     .body = &members_bootstrap_schema,
     .reply = &members_certificate_reply,
     .help = "For a new node with a join token: its certificate for the cluster port."},
    {.method = METHOD_POST,
     .path = "storage/raft/certificates/authority",
     .handler = members_authority,
     .prepare = members_authority_prepare,
     .flags = ROUTE_SUDO,
     .body = &members_authority_schema,
     .help = "Give the cluster the key of its certificate authority, so that the cluster can sign "
             "certificates of its nodes. The key is stored encrypted."},
    {.method = METHOD_POST,
     .path = "storage/raft/certificates/rotate",
     .handler = members_certificates_rotate,
     .flags = ROUTE_SUDO,
     .help = "Let every node fetch a new certificate for its cluster port now."},
};

const struct route_table members_join_table = {join_routes, ARRAY_LEN(join_routes)};
