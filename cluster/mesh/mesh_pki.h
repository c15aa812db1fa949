/* Names and certificates of a cluster.
 *
 * A cluster is 16 random bytes. Its CA's certificate carries the URI name holdfast://ID, each
 * node's certificate holdfast://ID/node/NAME; ID is 32 hexadecimal digits in lower case. A second
 * CA signs the certificates that nodes show to clients, so a client that trusts one CA does not
 * trust the other. */
#ifndef HOLDFAST_MESH_PKI_H
#define HOLDFAST_MESH_PKI_H

#include "base/bytes.h"
#include "base/status.h"

struct buf;
struct cert_pair;
struct fs;

enum {
    MESH_NAME_MAX = 64, /* longest name with its zero */
    MESH_CLUSTER_ID_BYTES = 16,
    MESH_CLUSTER_ID_TEXT = 33, /* length of the text with its zero */
    MESH_URI_MAX = 128,
    MESH_CLUSTER_URI_MAX = 48, /* the URI of a cluster with its zero, and more */
};

struct mesh_identity {
    uint8_t cluster[MESH_CLUSTER_ID_BYTES];
    char name[MESH_NAME_MAX];
};

/* 1..63 of a-z A-Z 0-9 '.' '_' '-', beginning with a letter or digit. */
bool mesh_name_valid(const char *name);
void mesh_cluster_text(const uint8_t cluster[MESH_CLUSTER_ID_BYTES],
                       char ret_text[MESH_CLUSTER_ID_TEXT]);
/* Read 32 hexadecimal digits in lower case. Returns the text behind them; NULL: malformed. */
const char *mesh_id_parse(const char *text, uint8_t ret_id[MESH_CLUSTER_ID_BYTES]);
/* Write "holdfast://ID": the URI of the cluster's authority, and how every other URI begins. */
void mesh_cluster_uri(const uint8_t cluster[MESH_CLUSTER_ID_BYTES],
                      char ret_uri[MESH_CLUSTER_URI_MAX]);
/* Read "holdfast://ID". Returns the text behind it; NULL: malformed. */
const char *mesh_cluster_parse(const char *uri, uint8_t ret_cluster[MESH_CLUSTER_ID_BYTES]);
/* Write "holdfast://ID/node/NAME". With an empty name: the prefix of every node's URI. */
void mesh_uri(const struct mesh_identity *identity, char ret_uri[MESH_URI_MAX]);
/* Parse a node's URI. ST_INVALID: it is not the URI of a node. */
NODISCARD enum status mesh_uri_parse(const char *uri, struct mesh_identity *ret_identity);
/* Read name and cluster from a certificate file. Blocks. ST_NOT_FOUND, ST_DENIED, ST_IO;
 * ST_INVALID: not the certificate of a node. All with a reason. */
NODISCARD enum status mesh_identity_read(const char *path, struct mesh_identity *ret_identity,
                                         struct reason *reason);

enum {
    MESH_CERT_DAYS = 365,  /* validity of a certificate by mesh_certify */
    MESH_BACKDATE_DAYS = 1 /* every certificate begins so early, for nodes with a slow clock */
};
/* Check that `ca` is the authority of `cluster` and has the right key. ST_INVALID with a reason. */
NODISCARD enum status mesh_authority_check(const struct cert_pair *ca,
                                           const uint8_t cluster[MESH_CLUSTER_ID_BYTES],
                                           struct reason *reason);
/* Make a node's certificate for the cluster port. `public_pem`: the node's public key.
 * `now_s` since 1970. ST_INVALID with a reason; ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status mesh_certify(const struct cert_pair *ca, const char *name,
                                   struct bytes public_pem, int64_t now_s, struct buf *ret_cert,
                                   struct reason *reason);

/* A node to make certificates for. Clients reach it as localhost, 127.0.0.1, ::1, its name and
 * these hosts (names or addresses). */
struct mesh_node_names {
    const char *name;
    const char *const *hosts;
    unsigned n_hosts; /* number of hosts, at most 16 */
};

/* Where and when to make the files: the directory `dir` of `fs` ("": its root). */
struct mesh_pki {
    struct fs *fs;
    const char *dir;
    int64_t now_s; /* seconds since 1970 */
};

/* Make the certificates of a new cluster; makes the directory if it is absent:
 *   ca.pem ca-key.pem NAME.pem NAME-key.pem                    between nodes
 *   tls-ca.pem tls-ca-key.pem tls-NAME.pem tls-NAME-key.pem    to clients
 * Keep the two CA keys off the nodes. No file is replaced. ST_EXISTS, ST_INVALID, ST_IO,
 * ST_NO_SPACE, ST_CRYPTO, ST_NOMEM, with a reason. Blocks. */
NODISCARD enum status mesh_bootstrap(const struct mesh_pki *pki,
                                     const struct mesh_node_names *nodes, unsigned n_nodes,
                                     struct reason *reason);
/* Make the four files of one more node, signed by the CAs in the directory. Statuses as
 * mesh_bootstrap; ST_NOT_FOUND: the directory has no CA. Blocks. */
NODISCARD enum status mesh_bootstrap_node(const struct mesh_pki *pki,
                                          const struct mesh_node_names *node,
                                          struct reason *reason);

#endif
