/* The fields of the configuration file: names, kinds, presets and help. */
#include "config/config_fields.h"

static const struct field root_fields[] = {
    FIELD(struct config, node_name, STRING, .required = true,
          .help = "Name of this node, stable for its lifetime."),
    FIELD(struct config, data_dir, STRING, .required = true,
          .help = "Folder of the log, the snapshots and the identity of this node."),
    FIELD(struct config, api_addr, STRING, .has = offsetof(struct config, api_addr_given),
          .help = "URL at which clients reach this node; default: that of the first listener."),
    FIELD(struct config, log_level, STRING, .preset = "info", .reloaded = true,
          .help = "debug, info, warn, error or off."),
    FIELD(struct config, log_format, STRING, .preset = "",
          .help = "json or text; default: text where standard error is a terminal, else json."),
    FIELD(struct config, log_requests_level, STRING, .preset = "debug",
          .help = "Level of the lines about requests: debug, info, warn, error or off."),
    FIELD(struct config, enable_response_header_hostname, BOOL, .preset = "false",
          .help = "Send clients the name of the machine in X-Secrets-Hostname."),
    FIELD(struct config, enable_response_header_raft_node_id, BOOL, .preset = "false",
          .help = "Send clients the name of the node in X-Secrets-Raft-Node-ID."),
    FIELD(struct config, maintenance, BOOL, .preset = "false",
          .help = "Start in maintenance: 503 to all but health and operators."),
    FIELD(struct config, datacenter, STRING, .preset = "dc1",
          .help = "Name of the datacenter, the same on every node, for clients of the registry."),
    FIELD(struct config, workers, INT, .preset = "0",
          .help =
              "Threads that serve requests; 0: one less than the usable processors, at least 1."),
    FIELD(struct config, max_blocking_queries, INT, .preset = "65536",
          .help = "Requests with `index` that wait for a change at once; more get 429."),
    FIELD(struct config, max_blocking_queries_per_address, INT, .preset = "0",
          .help = "The same of one client address; 0: half of max_blocking_queries."),
    FIELD(struct config, max_connections, INT, .preset = "16384",
          .help =
              "Connections of clients to all listeners; those of trusted proxies do not count."),
    FIELD(struct config, max_connections_per_address, INT, .preset = "1024",
          .help = "The same of one client address."),
    FIELD(struct config, unread_bytes_max, SIZE, .preset = "128MiB",
          .help = "Memory for replies that clients have not read: half of it for one client "
                  "address and for one token, a quarter for all clients without a token. As much "
                  "again for other nodes."),
    FIELD(struct config, drain_delay_s, DURATION, .preset = "0s",
          .help = "How long a node that gets SIGTERM still serves, with a health of 503 for load "
                  "balancers."),
    FIELD(struct config, segment_bytes, SIZE, .help = "Size of a file of the log."),
    FIELD(struct config, snapshot_bytes_max, SIZE, .preset = "16GiB",
          .help = "Largest archive that a restore takes."),
    FIELD(struct config, snapshot_log_bytes, SIZE,
          .help = "Log size above which the node makes a snapshot."),
    FIELD(struct config, state_bytes_max, SIZE,
          .help = "State size above which writes are refused; 0: no limit."),
    FIELD(struct config, reserve_bytes, SIZE,
          .help = "Free disk space below which writes are refused."),
    FIELD(struct config, default_kv, BOOL, .preset = "true",
          .help = "Mount the default secret engines at initialisation."),
    FIELD(struct config, fips, BOOL, .preset = "false",
          .help = "Refuse Ed25519 keys in the SSH engine, which FIPS 140-2 does not certify."),
    FIELD(struct config, ssh_sign_requires_create, BOOL, .preset = "false",
          .help = "Signing an SSH key needs create and update on its path; false: update."),
    FIELD(struct config, ssh_key_id_prefix, STRING, .preset = "",
          .help = "Key ids of SSH certificates become PREFIX-NAME-HASH, with the SHA-256 of the "
                  "key; by default they are the display name of the token alone."),
    FIELD(struct config, peer_unseal, BOOL, .preset = "false",
          .help = "After a start this node asks the active node to unseal it. An operator allows "
                  "that there (sys/storage/raft/peer-unseal), once for each start."),
    FIELD(struct config, performance_standby, BOOL, .preset = "true",
          .help = "Answer reads while standby; false forwards every request."),
};
const struct schema config_root_schema = SCHEMA(struct config, root_fields);

static const struct field cluster_fields[] = {
    FIELD(struct config_cluster, id, STRING, .help = "UUID of the cluster."),
    FIELD(struct config_cluster, name, STRING, .preset = "holdfast", .help = "Shown by health."),
    FIELD(struct config_cluster, address, STRING, .required = true,
          .help = "host:port of this node's cluster port."),
    FIELD(struct config_cluster, advertise, STRING,
          .has = offsetof(struct config_cluster, advertise_given),
          .help = "host:port at which other nodes reach this one; default: the address of its own "
                  "member block, else address. A new one replaces the stored one at a restart."),
    FIELD(struct config_cluster, ca_file, STRING, .required = true,
          .help = "PEM file of the cluster's certificate authority."),
    FIELD(struct config_cluster, cert_file, STRING, .required = true,
          .help = "PEM file of this node's certificate."),
    FIELD(struct config_cluster, key_file, STRING, .required = true,
          .help = "PEM file of this node's key."),
    FIELD(struct config_cluster, join_token_file, STRING,
          .help = "File with a join token: where cert_file is missing, this node gets the three "
                  "files above from the cluster at its first start."),
    FIELD(struct config_cluster, auto_join, STRING,
          .help = "A DNS name, or \"provider=dns name=NAME port=PORT\", of the members' cluster "
                  "ports: with join_token_file this node asks each address of the name, port 8201 "
                  "by default, and not the members below."),
    FIELD(struct config_cluster, join, STRING,
          .help =
              "\"api\": where cert_file is missing, wait for sys/storage/raft/join, and get the "
              "three files from the cluster it names."),
    FIELD(struct config_cluster, election_ms, INT, .help = "Election timeout."),
    FIELD(struct config_cluster, heartbeat_ms, INT, .help = "Time between heartbeats."),
};
const struct schema config_cluster_schema = SCHEMA(struct config_cluster, cluster_fields);

static const struct field member_fields[] = {
    FIELD(struct config_member, address, STRING, .required = true,
          .help = "host:port of that node's cluster port."),
};
const struct schema config_member_schema = SCHEMA(struct config_member, member_fields);

static const struct field listener_fields[] = {
    FIELD(struct config_listener, address, STRING, .required = true, .help = "host:port."),
    FIELD(struct config_listener, apis, STRINGS,
          .help = "The APIs that it serves, of secrets and registry; default: all."),
    FIELD(struct config_listener, tls_cert_file, STRING, .help = "PEM file, leaf first."),
    FIELD(struct config_listener, tls_key_file, STRING, .help = "PEM file."),
    FIELD(struct config_listener, tls_disable, BOOL, .help = "Serve without TLS."),
    FIELD(struct config_listener, unauthenticated_metrics, BOOL,
          .help = "sys/metrics needs no token."),
    FIELD(struct config_listener, authenticated_ceremonies, BOOL,
          .help = "sys/generate-root and sys/rekey need a token that may use them, and sys/unseal "
                  "takes key shares but no reset."),
    FIELD(struct config_listener, proxy_protocol_behavior, STRING, .preset = "",
          .help = "Read the PROXY protocol: use_always, allow_authorized or deny_unauthorized."),
    FIELD(struct config_listener, proxy_protocol_authorized_addrs, STRINGS,
          .help = "Addresses and blocks of the proxies that may use the PROXY protocol."),
    FIELD(struct config_listener, x_forwarded_for_authorized_addrs, STRINGS,
          .help = "Addresses and blocks of the proxies whose X-Forwarded-For is trusted."),
    FIELD(struct config_listener, x_forwarded_for_hop_skips, INT, .preset = "0",
          .help = "How many addresses at the end of X-Forwarded-For belong to proxies too."),
    FIELD(struct config_listener, x_forwarded_for_reject_not_authorized, BOOL, .preset = "true",
          .help = "Refuse X-Forwarded-For from other addresses with 400; false: ignore it."),
    FIELD(struct config_listener, x_forwarded_for_reject_not_present, BOOL, .preset = "true",
          .help =
              "Refuse requests without X-Forwarded-For with 400, where such proxies are given."),
    FIELD(struct config_listener, require_request_header, BOOL,
          .help = "Refuse requests without \"X-Secrets-Request: true\" with 412."),
    FIELD(struct config_listener, max_request_bytes, SIZE, .preset = "32MiB",
          .help = "Longest body; a longer one is answered with 413."),
    FIELD(struct config_listener, max_header_bytes, SIZE, .preset = "64KiB",
          .help = "Longest header."),
    FIELD(struct config_listener, max_connections, INT, .preset = "0",
          .help = "Connections that each worker accepts; 0: 16384."),
    FIELD(struct config_listener, max_connections_per_address, INT, .preset = "0",
          .help = "Connections of one client address to each worker; addresses of trusted proxies "
                  "are exempt. 0: half of max_connections; the node's bound holds too."),
    FIELD(struct config_listener, header_timeout_s, DURATION, .preset = "10s",
          .help = "Longest time for a whole header to arrive."),
    FIELD(struct config_listener, request_timeout_s, DURATION, .preset = "90s",
          .help = "Longest time from the header to the reply."),
    FIELD(struct config_listener, idle_timeout_s, DURATION, .preset = "5m",
          .help = "Longest time between two requests."),
};
const struct schema config_listener_schema = SCHEMA(struct config_listener, listener_fields);

static const struct field seal_fields[] = {
    FIELD(struct config_seal, key_file, STRING,
          .help = "File with the 32 bytes that wrap the root key."),
    FIELD(struct config_seal, credential, STRING,
          .help =
              "The same from the systemd credential of this name; where CREDENTIALS_DIRECTORY is "
              "not set, from the file credentials/NAME beside this configuration."),
    FIELD(struct config_seal, key_id, STRING, .preset = "default",
          .help = "Name of that key, changed when the key is."),
    FIELD(struct config_seal, previous_key_file, STRING,
          .help = "File with the key that was in use before key_file. It opens the cluster too. "
                  "When every member is configured for key_file, the active node changes the "
                  "cluster to that key."),
    FIELD(struct config_seal, previous_credential, STRING,
          .help = "The same from a systemd credential, as `credential`."),
    FIELD(struct config_seal, previous_key_id, STRING, .preset = "default",
          .help = "Name of the previous key."),
    FIELD(struct config_seal, disabled, BOOL, .preset = "false",
          .help = "The cluster moves away from this seal, to the other `seal` block; without "
                  "another block, to key shares."),
};
const struct schema config_seal_schema = SCHEMA(struct config_seal, seal_fields);

static const struct field shamir_fields[] = {
    FIELD(struct config_seal, disabled, BOOL, .preset = "false",
          .help = "The cluster moves away from key shares, to the other `seal` block."),
};
const struct schema config_shamir_schema = SCHEMA(struct config_seal, shamir_fields);

static const struct field audit_rules_fields[] = {
    FIELD(struct config_audit_rules, directories, STRINGS, .preset = CONFIG_AUDIT_DIRECTORY,
          .help = "Directories below which audit devices may write files."),
    FIELD(struct config_audit_rules, allow_prefix, BOOL, .preset = "false",
          .help = "Audit devices may write text before each line: their option prefix."),
};
const struct schema config_audit_rules_schema =
    SCHEMA(struct config_audit_rules, audit_rules_fields);

static const struct field audit_fields[] = {
    FIELD(struct config_audit, description, STRING, .preset = "", .help = "For people."),
    FIELD(struct config_audit, options, MAP,
          .help = "Options of the type, such as file_path, as a block or an object; audit.md has "
                  "all."),
};
const struct schema config_audit_schema = SCHEMA(struct config_audit, audit_fields);

static const struct field compat_fields[] = {
    FIELD(struct config_compat, reported_version, STRING,
          .help = "Version that clients are told; some clients choose features by it."),
};
const struct schema config_compat_schema = SCHEMA(struct config_compat, compat_fields);
