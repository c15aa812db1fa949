/* Names and certificates of a cluster.
 *
 * A cluster is 16 random bytes. Its CA's certificate carries the URI name holdfast://ID, each
 * node's certificate holdfast://ID/node/NAME, ID being 32 hexadecimal digits in lower case. A
 * second CA signs what nodes show to clients, so that trusting the one is not trusting the other.
 */
#ifndef HOLDFAST_MESH_PKI_H
#define HOLDFAST_MESH_PKI_H

#include "base/bytes.h"
#include "base/status.h"

struct buf;
struct cert_pair;
struct fs;

enum {
    MESH_NAME_MAX = 64, /* with its zero */
    MESH_CLUSTER_ID_BYTES = 16,
    MESH_CLUSTER_ID_TEXT = 33, /* with its zero */
    MESH_URI_MAX = 128,
};

struct mesh_identity {
    uint8_t cluster[MESH_CLUSTER_ID_BYTES];
    char name[MESH_NAME_MAX];
};

/* 1..63 of a-z A-Z 0-9 '.' '_' '-', beginning with a letter or digit. */
bool mesh_name_valid(const char *name);
void mesh_cluster_text(const uint8_t cluster[MESH_CLUSTER_ID_BYTES],
                       char ret_text[MESH_CLUSTER_ID_TEXT]);
/* "holdfast://ID/node/NAME"; with NAME "" it is the start of every node's. */
void mesh_uri(const struct mesh_identity *identity, char ret_uri[MESH_URI_MAX]);
/* ST_INVALID: not the URI of a node. */
NODISCARD enum status mesh_uri_parse(const char *uri, struct mesh_identity *ret_identity);
/* Name of the node whose certificate the file is. Blocks. ST_NOT_FOUND, ST_DENIED, ST_IO;
 * ST_INVALID: no node's. All with a reason. */
NODISCARD enum status mesh_identity_read(const char *path, struct mesh_identity *ret_identity,
                                         struct reason *reason);

enum {
    MESH_CERT_DAYS = 365,  /* of those that mesh_certify makes */
    MESH_BACKDATE_DAYS = 1 /* of all: a node whose clock is behind accepts it at once */
};
/* Whether this is the authority of that cluster, with its own key. ST_INVALID with a reason. */
NODISCARD enum status mesh_authority_check(const struct cert_pair *ca,
                                           const uint8_t cluster[MESH_CLUSTER_ID_BYTES],
                                           struct reason *reason);
/* A node's certificate for the cluster port, for a key of which the public half is known (PEM).
 * `now_s` since 1970. ST_INVALID with a reason; ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status mesh_certify(const struct cert_pair *ca, const char *name,
                                   struct bytes public_pem, int64_t now_s, struct buf *ret_cert,
                                   struct reason *reason);

/* A node to make certificates for. Clients reach it as localhost, 127.0.0.1, ::1, its name and
 * these hosts (names or addresses). */
struct mesh_node_names {
    const char *name;
    const char *const *hosts;
    unsigned n_hosts; /* at most 16 */
};

/* Where the files are made: the directory `dir` of `fs`, "" being its root; and the time. */
struct mesh_pki {
    struct fs *fs;
    const char *dir;
    int64_t now_s; /* since 1970 */
};

/* Make a new cluster's certificates; the directory is made if absent:
 *   ca.pem ca-key.pem NAME.pem NAME-key.pem                    between nodes
 *   tls-ca.pem tls-ca-key.pem tls-NAME.pem tls-NAME-key.pem    to clients
 * The two CA keys belong off the nodes. No file is replaced. ST_EXISTS, ST_INVALID, ST_IO,
 * ST_NO_SPACE, ST_CRYPTO, ST_NOMEM, with a reason. Blocks. */
NODISCARD enum status mesh_bootstrap(const struct mesh_pki *pki,
                                     const struct mesh_node_names *nodes, unsigned n_nodes,
                                     struct reason *reason);
/* Make the four files of one more node, signed by the CAs found there. Statuses of mesh_bootstrap;
 * ST_NOT_FOUND: no CA there. Blocks. */
NODISCARD enum status mesh_bootstrap_node(const struct mesh_pki *pki,
                                          const struct mesh_node_names *node,
                                          struct reason *reason);

#endif
