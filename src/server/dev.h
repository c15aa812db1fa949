/* "holdfast dev": nodes to try things on, as children of one process.
 *
 *   server/dev.c        options, start, the first requests, what is printed, the end
 *   server/dev_dir.c    the folder: certificates, the seal's key, configurations, the root token
 *   server/dev_nodes.c  the children: started, watched, started again, ended */
#ifndef HOLDFAST_SERVER_DEV_H
#define HOLDFAST_SERVER_DEV_H

#include "cli/client.h"

#include <limits.h>
#include <signal.h>
#include <sys/types.h>

enum {
    DEV_NODES_MAX = 7,
    DEV_PORTS_APART = 10, /* distance between the client ports of two nodes; the cluster port is the
                             client port + 1 */
};

struct dev_node {
    pid_t pid;           /* 0: the node does not run */
    uint64_t restart_ms; /* when the node is started again */
};

struct dev {
    struct cli *cli;
    char dir[PATH_MAX];
    bool keep; /* -data: the folder stays */
    struct fs *fs;
    struct fs_file *lock;
    char host[256]; /* address that the nodes listen on */
    uint16_t port;  /* client port of the first node */
    unsigned n_nodes;
    struct dev_node nodes[DEV_NODES_MAX];
    sigset_t signals; /* signals that the parent waits for */
    const char *ca_file, *token;
};

/* The URL of a node for clients, in the arena; NULL when out of memory. */
char *dev_url(const struct dev *dev, unsigned node);

/* server/dev_dir.c. Functions that return bool print the cause of a failure. */

/* Make or open the folder, and lock it. *ret_nodes is the number of nodes for which an existing
 * folder was made; 0 for a new folder. */
NODISCARD bool dev_dir_open(struct dev *dev, const char *data, unsigned *ret_nodes);
/* Make what is missing: certificates, the seal's key. Write the configurations. */
NODISCARD bool dev_dir_fill(struct dev *dev);
/* Store the reply of sys/init in the folder for the next start. */
NODISCARD bool dev_dir_keep_init(struct dev *dev, struct bytes reply);
/* The root token of the stored reply of sys/init, in the arena; NULL: there is none. */
const char *dev_dir_token(struct dev *dev);
/* Unlock the folder, and remove it unless it is to be kept. */
void dev_dir_close(struct dev *dev);

/* server/dev_nodes.c */

/* Whether every port of the nodes is free; prints the ports that are taken. */
NODISCARD bool dev_ports_free(const struct dev *dev);
/* Block the signals that dev_nodes_watch waits for. */
void dev_nodes_prepare(struct dev *dev);
NODISCARD bool dev_nodes_start(struct dev *dev);
/* Wait for the given time, and handle children that ended. False: a signal asks the program to end,
 * or the only node has ended; *ret_failed is true in the second case. */
bool dev_nodes_watch(struct dev *dev, uint64_t wait_ms, bool *ret_failed);
/* Ask all nodes to end, and wait until they have. */
void dev_nodes_stop(struct dev *dev);

#define DEV_FLAGS                                                                               \
    {"listen", CLI_TEXT,                                                                        \
     "ADDRESS:PORT for clients (127.0.0.1:8200); each further node has PORT+10"},               \
        {"nodes", CLI_INT, "how many nodes; default 1"},                                        \
        {"data", CLI_FILE, "folder to keep and to start again from; default: one thrown away"}, \
        {"root-token-id", CLI_TEXT, "the root token, in place of a random one"},                \
    {                                                                                           \
        "dev-tls", CLI_BOOL, "accepted: TLS is always on"                                       \
    }

/* The function of the command, with DEV_FLAGS. */
int dev_run(struct cli *cli);

#endif
