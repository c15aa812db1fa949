/* Bytes to and from one TCP connection, in clear or through TLS, with a queue of output.
 *
 * Nothing is freed under a caller: after http_wire_close the wire stays until ops->closed, which
 * comes from the loop. Callbacks may call any function of the wire. */
#ifndef HOLDFAST_HTTP_WIRE_H
#define HOLDFAST_HTTP_WIRE_H

#include "base/buf.h"
#include "base/list.h"
#include "base/status.h"
#include "http/proxy.h"

#include <uv.h>

struct http_wire;
struct tls_conn;

enum {
    WIRE_SCRATCH = 64 * 1024,
    WIRE_PARTS = 3,
    WIRE_DIRECT_FROM = 4096,       /* a body with as much left is read to its place */
    WIRE_DIRECT_STEP = 256 * 1024, /* room offered to one read of it */
    WIRE_TURN_BYTES = 256 * 1024,  /* read from one wire before the others have their turn */
    /* Of who judges a peer by a timer: timers come before sockets. */
    WIRE_STILL_MS = 50, /* one as late as this: the loop was held up */
    WIRE_LOOK_MS = 10,  /* for what the peer did meanwhile to be seen */
};

/* Where all wires of one thread read to; wiped behind each use. */
struct http_scratch {
    uint8_t plain[WIRE_SCRATCH], cipher[WIRE_SCRATCH];
    struct list waiting; /* wires with decrypted input, until it is free */
    struct buf spare;    /* empty: room for the next encrypted output */
    bool busy;
};

/* Without wires. */
void http_scratch_init(struct http_scratch *scratch);
void http_scratch_done(struct http_scratch *scratch); /* when its wires are closed */

struct http_room {
    uint8_t *data;
    size_t len;
};

struct http_wire_ops {
    /* Where the next input should go, so that it need not be copied; {0}: the scratch. */
    struct http_room (*room)(struct http_wire *wire);
    void (*data)(struct http_wire *wire, struct bytes plain); /* borrowed for the call */
    /* The proxy's header was read, or is absent; then input is told as ever, if the wire
     * was not closed. Of wires that wait for it only. */
    void (*preamble)(struct http_wire *wire, const struct proxy *said, enum proxy_result result);
    void (*secured)(struct http_wire *wire); /* the TLS handshake is over */
    void (*not_tls)(struct http_wire *wire); /* a client speaks in clear; of servers only */
    /* ST_CLOSED, first and once: the peer ended its side, output is still possible. Else once:
     * ST_CRYPTO, TLS failed; broken. */
    void (*ended)(struct http_wire *wire, enum status st);
    void (*drained)(struct http_wire *wire); /* output that had to wait is out */
    void (*closed)(struct http_wire *wire);  /* last touch */
};

/* Output. The parts stay valid until `sent`, which is called once: ST_OK, or ST_CLOSED. */
struct http_out {
    struct list link;
    struct bytes parts[WIRE_PARTS];
    void (*sent)(struct http_out *out, enum status st);
};

/* A piece of a streamed body. */
struct http_piece {
    struct http_out out;
    char line[24]; /* of a chunk */
};
/* `body` is not empty: that would end it. */
void http_piece_frame(struct http_piece *piece, struct bytes body, bool chunked,
                      void (*sent)(struct http_out *out, enum status st));

struct http_wire {
    uv_tcp_t tcp;
    uv_write_t write;
    uv_shutdown_t shutdown;
    const struct http_wire_ops *ops;
    struct http_scratch *scratch;
    struct tls_conn *tls;
    struct proxy *proxy; /* while its words are awaited */
    struct list waiting; /* in the scratch's */
    struct list out;
    size_t out_off;    /* of the first output, what is gone already */
    struct buf cipher; /* encrypted output that is being written */
    size_t cipher_off;
    size_t submitted;     /* bytes given to uv_write */
    size_t turn_bytes;    /* read in this turn of the loop */
    uint64_t bytes_in;    /* plaintext */
    uint64_t bytes_out;   /* plaintext, taken from the queue */
    uint64_t bytes_wrote; /* as given to the socket */
    bool server, secured, seen, reading, want_read, pumping, flushing, writing;
    bool eof, ended, broken, finishing, finished, closing;
    bool discard; /* the owner's: read on, and throw away */
};

/* ST_OK, or what libuv says; then the wire is unused. */
NODISCARD enum status http_wire_init(struct http_wire *wire, uv_loop_t *loop,
                                     const struct http_wire_ops *ops, struct http_scratch *scratch,
                                     bool server);
/* The connection stands: read. `tls` is taken, NULL for clear text; `secured`: its handshake was
 * made elsewhere. On failure the wire still has to be closed. */
NODISCARD enum status http_wire_start(struct http_wire *wire, struct tls_conn *tls, bool secured);

/* Before it is started: what comes first may be words of a proxy. ST_NOMEM. */
NODISCARD enum status http_wire_await_proxy(struct http_wire *wire);

/* Ask for input, or for none. */
void http_wire_read(struct http_wire *wire, bool on);

/* Queue output; it goes with the next flush. */
void http_wire_send(struct http_wire *wire, struct http_out *out);
void http_wire_flush(struct http_wire *wire);
/* Output waits for the peer. */
bool http_wire_pending(const struct http_wire *wire);
/* How much the peer's side of the socket has taken, for measuring progress. */
uint64_t http_wire_progress(const struct http_wire *wire);

/* The wire is idle: release memory that it can spare until its next use. */
void http_wire_rest(struct http_wire *wire);

/* When all queued output is out: say so to the peer and end our side. Reading goes on. */
void http_wire_finish(struct http_wire *wire);
/* Give up at once: queued output fails. May be called again. */
void http_wire_close(struct http_wire *wire);
/* The same, so that the peer cannot take it for an orderly end. */
void http_wire_reset(struct http_wire *wire);

#endif
