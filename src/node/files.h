/* Certificates: their files, and new ones in time. Inside src/node. */
#ifndef HOLDFAST_NODE_FILES_H
#define HOLDFAST_NODE_FILES_H

#include "node/node.h"

/* node_files.c: of the cluster port. They block; all say why. */
/* Finish what a crash left half replaced. */
NODISCARD enum status node_files_settle(struct node *n, struct reason *reason);
/* Learn the hash of the authority. */
NODISCARD enum status node_files_authority(struct node *n, struct reason *reason);
/* Write a file whole: it is the old one or the new one, whatever happens. */
NODISCARD enum status node_file_put(const char *path, struct bytes content, struct reason *reason);
/* Replace key and certificate, so that after a crash they still belong together. */
NODISCARD enum status node_files_replace(struct node *n, struct bytes key, struct bytes cert,
                                         struct reason *reason);
bool node_file_exists(const char *path);

/* node_renew.c */
/* A value of the local state, decrypted. ST_NOT_FOUND; ST_SEALED; ST_BUSY, ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status node_read_value(struct node *n, struct bytes key, struct buf *out);
void node_renew_learn(struct node *n); /* learn the period of our certificate */
void node_renew_tick(struct node *n);
void node_renew_done(struct node *n);

#endif
