/* Shared by dr_conn.c and dr_socket.c only. */
#ifndef HOLDFAST_CLUSTER_DR_LINK_DR_CONN_INTERNAL_H
#define HOLDFAST_CLUSTER_DR_LINK_DR_CONN_INTERNAL_H

#include "cluster/dr/link/dr_conn.h"

#include <stdatomic.h>

enum {
    DR_CIPHER_BYTES = 64 * 1024, /* most ciphertext read at once */
    DR_SLICE_BYTES = 128 * 1024, /* most plaintext encrypted at once, below TLS_OUTPUT_MAX */
};

/* The frame that is coming. */
struct dr_incoming {
    uint8_t header[DR_HEADER_BYTES];
    size_t got; /* bytes of header and payload that came */
    bool whole; /* `payload` is complete and waits for dr_conn_receive */
    enum dr_type type;
    uint32_t bytes; /* length of the payload, once the header is there */
    struct buf payload;
    int64_t waited_ms; /* time that this side waited while the frame was incomplete */
};

struct dr_conn {
    enum dr_side side;
    int64_t frame_ms;
    int fd;      /* -1: closed */
    int wake_fd; /* eventfd that dr_conn_wake and dr_conn_cancel write to */
    _Atomic bool cancelled;
    bool woken; /* dr_conn_wake was called, and no dr_conn_receive has returned since */
    struct tls_conn *tls;
    struct buf early; /* plaintext that came before the connection was adopted */
    size_t early_at;
    struct buf out; /* ciphertext being sent */
    size_t out_at;
    struct dr_incoming in;
    struct buf given; /* payload of the frame that dr_conn_receive returned last */
    struct buf head;  /* frame being sent, without its data */
    uint8_t *room;    /* DR_RAW_MAX bytes for compressed content; NULL: not used yet */
    unsigned n_plain; /* pieces of a sync to send uncompressed before the next attempt */
    enum status in_status, out_status; /* how the direction failed; ST_OK: it has not */
    struct reason error;
    char address[DR_ADDRESS_MAX];
    struct dr_conn_stats stats;
    uint8_t cipher[DR_CIPHER_BYTES];
};

/* Note why the connection failed, unless an earlier reason is noted. Returns `st`. */
enum status dr_conn_note(struct dr_conn *conn, enum status st, const char *why);

/* dr_socket.c: the socket, without TLS. */

/* Connect to one of the addresses of "host:port", and set conn->fd. Statuses as dr_conn_dial. */
NODISCARD enum status dr_socket_connect(struct dr_conn *conn, const char *address,
                                        int64_t until_ms);
/* Wait until the socket may be ready for `events`. ST_OK: look; also after dr_conn_wake.
 * ST_TIMEOUT: the deadline passed. ST_CLOSED: cancelled. */
NODISCARD enum status dr_socket_wait(struct dr_conn *conn, short events, int64_t until_ms);

#endif
