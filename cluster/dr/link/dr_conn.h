/* One connection between a primary and a secondary, for a thread that may block.
 *
 *   CLOSED ──dr_conn_dial, dr_conn_adopt──▶ OPEN ──dr_conn_close──▶ CLOSED
 *
 * 1. One thread at a time uses a connection, never a loop's. dr_conn_wake and dr_conn_cancel are
 * for any thread while the connection exists.
 * 2. Every call ends at its deadline, or at once when another thread cancels. Deadlines are times
 * of dr_conn_now_ms.
 * 3. A frame is received whole or not at all. A frame that began must be whole within a limit of
 *    its own, which counts the time that this side waited for it.
 * 4. A call that sends also takes what the peer sends, up to one whole frame, so two sides that
 * send a large frame at the same time do not wait for each other.
 * 5. Memory: two frames that came, one piece of ciphertext each way. Plaintext is wiped.
 * 6. After a failure the other direction stays usable for what the peer sent before: a refusal is
 *    received although the peer closed behind it.
 *
 * Happy path: dr_conn_new, dr_conn_dial, send HELLO, receive WELCOME, frames, dr_conn_free.
 * Failures: dr_conn_error says why. Only dr_conn_close or dr_conn_free are of use then, and
 * dr_conn_dial after a dial that failed. */
#ifndef HOLDFAST_CLUSTER_DR_LINK_DR_CONN_H
#define HOLDFAST_CLUSTER_DR_LINK_DR_CONN_H

#include "cluster/dr/link/dr_cert.h"
#include "cluster/dr/link/dr_frame.h"

struct dr_conn;
struct mesh_http;

enum {
    DR_CONN_FRAME_MS = 60000, /* limit for one frame as a rule */
    /* After this time without an acknowledgement the kernel ends the connection. A secondary that
     * is busy takes nothing for a while and is not gone; heartbeats show who is. */
    DR_CONN_STUCK_MS = 60000,
};

/* Make a closed connection. `side` is this side. `frame_ms`: limit for a frame that began; 0:
 * DR_CONN_FRAME_MS. ST_NOMEM; ST_IO: out of descriptors. */
NODISCARD enum status dr_conn_new(enum dr_side side, unsigned frame_ms, struct dr_conn **ret_conn);
/* Close and release; NULL is allowed. No other thread may use the connection any more. */
void dr_conn_free(struct dr_conn *conn);

/* Milliseconds of the clock of all deadlines. */
int64_t dr_conn_now_ms(void);

/* Connect to "host:port" and shake hands. `tls` is a context by dr_cert_tls. Looking up a host name
 * may take longer than the deadline, by the resolver's own limits. ST_INVALID: no address. ST_IO:
 * no connection, or cut. ST_CRYPTO: TLS failed. ST_TIMEOUT, ST_CLOSED (cancelled), ST_NOMEM. */
NODISCARD enum status dr_conn_dial(struct dr_conn *conn, const char *address, struct tls_ctx *tls,
                                   int64_t until_ms);
/* Take over an accepted connection, whose handshake is over; `http` is empty afterwards. */
void dr_conn_adopt(struct dr_conn *conn, struct mesh_http *http);
/* Say goodbye, if the socket takes it at once, and close. */
void dr_conn_close(struct dr_conn *conn);

/* Send one frame of this side. ST_OK: the kernel has all of it. ST_TIMEOUT: the peer does not read;
 * the connection has failed. ST_CLOSED: cancelled, or the peer closed. ST_IO, ST_CRYPTO,
 * ST_INVALID, ST_TOO_BIG: the connection failed. ST_NOMEM: nothing was sent, or the connection
 * failed. */
NODISCARD enum status dr_conn_send(struct dr_conn *conn, const struct dr_frame *frame,
                                   int64_t until_ms);
/* Send a run of WAL records of the versions `first` to `last`, in as many frames as it needs. */
NODISCARD enum status dr_conn_send_run(struct dr_conn *conn, const struct dr_wal *versions,
                                       struct bytes records, int64_t until_ms);
/* Send 1 to DR_RAW_MAX bytes of a sync's content, whose place in the whole is `offset`. */
NODISCARD enum status dr_conn_send_data(struct dr_conn *conn, uint64_t offset, struct bytes raw,
                                        int64_t until_ms);

/* Send a list of a difference sync, of 1 to DR_RAW_MAX bytes. */
NODISCARD enum status dr_conn_send_list(struct dr_conn *conn, enum dr_type type, struct bytes raw,
                                        bool flag, int64_t until_ms);

/* Receive the next frame. ST_OK: the frame, borrowed until the next dr_conn_receive. ST_TIMEOUT: no
 * whole frame until the deadline, or dr_conn_wake was called; nothing is lost, receive again.
 * ST_CLOSED: the peer closed between two frames, or cancelled. ST_IO: cut, closed within a frame,
 * or the limit for a frame passed. ST_INVALID, ST_TOO_BIG: the peer breaks the protocol. ST_CRYPTO,
 * ST_NOMEM. */
NODISCARD enum status dr_conn_receive(struct dr_conn *conn, int64_t until_ms,
                                      struct dr_frame *ret_frame);

/* End the wait of a dr_conn_receive, or of the next one, with ST_TIMEOUT. Any thread. */
void dr_conn_wake(struct dr_conn *conn);
/* End every call with ST_CLOSED, now and from now on. Any thread. */
void dr_conn_cancel(struct dr_conn *conn);

/* Why a call failed, for a log; "": none has failed since the connection was opened. */
const char *dr_conn_error(const struct dr_conn *conn);
/* Address of the peer, "host:port", as it was dialled or accepted. */
const char *dr_conn_address(const struct dr_conn *conn);
/* The secondary at the other end of an open connection. Statuses as dr_cert_read_peer. */
NODISCARD enum status dr_conn_peer(const struct dr_conn *conn, struct dr_cert_peer *ret_peer);

/* Counters since the connection was made. `data` counts the data of content, as CREDIT does. */
struct dr_conn_stats {
    uint64_t frames_sent, frames_received;
    uint64_t data_sent, data_received;
    uint64_t wire_sent, wire_received; /* bytes of ciphertext */
};
void dr_conn_stats(const struct dr_conn *conn, struct dr_conn_stats *ret_stats);

#endif
