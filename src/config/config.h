/* The configuration file of a node, HCL or JSON. Every error names file, line and field; a field
 * that is not known is an error. README.md has an example. */
#ifndef HOLDFAST_CONFIG_CONFIG_H
#define HOLDFAST_CONFIG_CONFIG_H

#include "base/arena.h"
#include "text/cidr.h"
#include "text/config_block.h"

enum {
    CONFIG_LISTENERS_MAX = 16,
    CONFIG_MEMBERS_MAX = 16,
    CONFIG_AUDITS_MAX = 8,
    CONFIG_AUDIT_DIRECTORIES_MAX = 16,
    CONFIG_ADDRESS_MAX = 127,
    CONFIG_CONNECTIONS_MAX = 1000000,
    CONFIG_UNREAD_BYTES_MIN = 1024 * 1024,
};

#define CONFIG_AUDIT_DIRECTORY "/var/log/holdfast"

struct config_member {
    const char *name;
    const char *address; /* host:port of the cluster port */
};

struct config_cluster {
    const char *id;        /* UUID of the cluster; NULL: made at the first start */
    const char *name;      /* name of the cluster, shown by health */
    const char *address;   /* host:port to listen on */
    const char *advertise; /* host:port at which other nodes reach this node */
    bool advertise_given;  /* false: `advertise` was derived from other fields */
    const char *ca_file, *cert_file, *key_file;
    const char *join_token_file;       /* NULL: the certificate files exist already */
    const char *auto_join;             /* host:port where the token is shown; NULL: to members */
    const char *join;                  /* "api": wait for a join request; NULL: do not wait */
    int64_t election_ms, heartbeat_ms; /* 0: default */
    struct config_member members[CONFIG_MEMBERS_MAX]; /* the initial members */
    unsigned n_members;
};

struct config_listener {
    const char *address; /* host:port */
    const char *tls_cert_file, *tls_key_file;
    bool tls_disable;
    struct field_strings apis;    /* names of the APIs that it serves; not given: all */
    bool unauthenticated_metrics; /* sys/metrics needs no token */
    /* without a token, generate-root, rekey and the reset of unseal are refused */
    bool authenticated_ceremonies;
    const char *proxy_protocol_behavior; /* "use_always" and the like; "": PROXY protocol is off */
    struct field_strings proxy_protocol_authorized_addrs, x_forwarded_for_authorized_addrs;
    int64_t x_forwarded_for_hop_skips;
    bool x_forwarded_for_reject_not_authorized, x_forwarded_for_reject_not_present;
    struct cidr *proxies, *forwarders; /* the two lists of addresses above, parsed */
    bool require_request_header;       /* 412 without the header "X-Secrets-Request: true" */
    uint64_t max_request_bytes;        /* a longer body is refused with 413 */
    uint64_t max_header_bytes;
    int64_t max_connections;             /* 0: default */
    int64_t max_connections_per_address; /* 0: half of max_connections */
    int64_t header_timeout_s;  /* from the first byte of a request to the end of its header */
    int64_t request_timeout_s; /* from the end of a request's header to the reply */
    int64_t idle_timeout_s;    /* from a reply to the next request of the connection */
};

struct config_seal {
    const char *type;                  /* "shamir" or "static"; NULL: there is no such block */
    bool disabled;                     /* the cluster moves, or has moved, away from this seal */
    const char *key_file, *credential; /* static: one of the two is set */
    const char *key_id;
    /* static: the key that was in use before, if it shall change; at most one of the two is set */
    const char *previous_key_file, *previous_credential;
    const char *previous_key_id;
};

/* Limits for the audit devices of this node, those of the state too: `audit { … }`. */
struct config_audit_rules {
    struct field_strings directories; /* canonical; not given: CONFIG_AUDIT_DIRECTORY */
    bool allow_prefix;
};

/* An audit device of this node alone: `audit "TYPE" "PATH" { … }`. The server checks the options.
 */
struct config_audit {
    const char *type, *path;
    const char *description;
    struct field_map options;
};

enum { CONFIG_BLOCKS_MAX = 16 };

/* The blocks of modules that a file may contain, in addition to the blocks of struct config.
 * Static. */
struct config_blocks {
    const struct config_block *items[CONFIG_BLOCKS_MAX];
    size_t n;
};

struct config {
    struct arena arena; /* owns every text and list of this struct */
    const char *file;
    const char *node_name, *data_dir, *log_level, *log_format;
    const char *api_addr;         /* URL of this node for clients */
    bool api_addr_given;          /* false: api_addr was derived from the first listener */
    const char *datacenter;       /* name of the datacenter, for APIs that tell it */
    const char *reported_version; /* the version that clients are shown; NULL: the program's */
    int64_t workers;              /* worker threads; 0: one less than processors */
    int64_t max_blocking_queries; /* most requests that wait for a change at once */
    int64_t max_blocking_queries_per_address;             /* 0: half of max_blocking_queries */
    int64_t max_connections, max_connections_per_address; /* of clients to all listeners */
    uint64_t unread_bytes_max; /* memory for replies that clients have not read */
    int64_t drain_delay_s;     /* how long the node serves after SIGTERM; meanwhile health is 503 */
    uint64_t segment_bytes, snapshot_log_bytes, state_bytes_max, reserve_bytes; /* 0: default */
    uint64_t snapshot_bytes_max;
    const char *log_requests_level; /* write a log line for each request, at this level */
    bool enable_response_header_hostname, enable_response_header_raft_node_id;
    bool default_kv, performance_standby, maintenance, peer_unseal;
    bool fips, ssh_sign_requires_create;
    const char *ssh_key_id_prefix; /* "": key ids are display names */
    struct config_cluster cluster;
    struct config_listener listeners[CONFIG_LISTENERS_MAX];
    unsigned n_listeners;
    struct config_seal seal;        /* the seal in use, or the seal to move to */
    struct config_seal former_seal; /* the disabled seal */
    struct config_audit_rules audit_rules;
    struct config_audit audits[CONFIG_AUDITS_MAX];
    unsigned n_audits;
    const struct config_blocks *blocks; /* the blocks of modules; NULL: none */
    const void
        *block_data[CONFIG_BLOCKS_MAX]; /* the struct of each block, in the order of `blocks` */
};

/* Read and check the text of `file`, whose name is used in messages only. `blocks` outlives the
 * configuration; NULL: none. ST_INVALID, ST_TOO_BIG with a reason "FILE:LINE: …"; ST_NOMEM. */
NODISCARD enum status config_parse(struct bytes text, const char *file,
                                   const struct config_blocks *blocks, struct config *ret_config,
                                   struct reason *reason);
/* Read the file `file` and check it, as config_parse does. Also ST_NOT_FOUND, ST_IO with a reason.
 */
NODISCARD enum status config_load(const char *file, const struct config_blocks *blocks,
                                  struct config *ret_config, struct reason *reason);
void config_done(struct config *config);

/* Write the names of the fields whose values differ and that a reload does not apply, into an empty
 * buffer: "listener[0].address, cluster.election_ms". Names that would make the text longer than
 * CONFIG_CHANGES_BYTES are counted at its end. Values are not shown. ST_NOMEM. */
enum { CONFIG_CHANGES_BYTES = 800 };
NODISCARD enum status config_changes(const struct config *in_use, const struct config *loaded,
                                     struct buf *names);

/* Append the configuration as one JSON object, with the names that upstream uses. The object
 * contains no secret, and no place where a secret is kept. */
void config_show(const struct config *config, struct buf *out);

#endif
