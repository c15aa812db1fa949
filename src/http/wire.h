/* Bytes to and from one TCP connection, in clear or through TLS, with a queue of output.
 *
 * After http_wire_close the wire stays valid until ops->closed, which the loop calls later.
 * Callbacks may call any function of the wire. */
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
    WIRE_DIRECT_FROM = 4096,       /* if a body has so many bytes left, read into its own memory */
    WIRE_DIRECT_STEP = 256 * 1024, /* most bytes of one read into a body's own memory */
    WIRE_TURN_BYTES = 256 * 1024,  /* bytes read from one wire before other wires have their turn */
    /* For timers that judge a peer. The loop runs timers before it reads sockets. */
    WIRE_STILL_MS = 50, /* a timer this late shows that the loop was held up */
    /* after a late timer, wait this long so that the loop reads the peer's bytes first */
    WIRE_LOOK_MS = 10,
    /* Most bytes of output that the kernel keeps unsent for one client: what a client does not read
     * waits here, where it is counted. */
    WIRE_UNSENT_BYTES = 64 * 1024,
};

/* The memory into which all wires of one thread read; wiped after each use. */
struct http_scratch {
    uint8_t plain[WIRE_SCRATCH], cipher[WIRE_SCRATCH];
    struct list waiting; /* wires with decrypted input that wait until the scratch is free */
    struct buf spare;    /* an empty buffer for the next encrypted output */
    bool busy;
};

/* Make a scratch that no wire uses yet. */
void http_scratch_init(struct http_scratch *scratch);
/* call after all wires of the scratch are closed */
void http_scratch_done(struct http_scratch *scratch);

struct http_room {
    uint8_t *data;
    size_t len;
};

struct http_wire_ops {
    /* The memory into which the next input is read without a copy; {0}: the scratch. */
    struct http_room (*room)(struct http_wire *wire);
    /* plaintext arrived; `plain` is borrowed for the call */
    void (*data)(struct http_wire *wire, struct bytes plain);
    /* For wires that wait for a proxy's header: the header was read, or is absent. Unless the
     * function closes the wire, `data` then gets the input behind the header. */
    void (*preamble)(struct http_wire *wire, const struct proxy *said, enum proxy_result result);
    void (*secured)(struct http_wire *wire); /* the TLS handshake is over */
    void (*not_tls)(struct http_wire *wire); /* servers only: the client does not speak TLS */
    /* ST_CLOSED, at most once and first: the peer ended its side, output is still possible. Another
     * status, at most once: the connection is broken; ST_CRYPTO: TLS failed. */
    void (*ended)(struct http_wire *wire, enum status st);
    void (*drained)(struct http_wire *wire); /* all output that had to wait has been written */
    void (*closed)(struct http_wire *wire);  /* the wire is closed; last touch of the wire */
};

/* Output. The parts stay valid until `sent`, which is called once: ST_OK, or ST_CLOSED. */
struct http_out {
    struct list link;
    struct bytes parts[WIRE_PARTS];
    void *owner; /* of the sender */
    void (*sent)(struct http_out *out, enum status st);
};

/* A piece of a streamed body. */
struct http_piece {
    struct http_out out;
    char line[24]; /* the line with the size of a chunk */
};
/* Frame a part of a body, which must not be empty: an empty chunk would end the body. */
void http_piece_frame(struct http_piece *piece, struct bytes body, bool chunked,
                      void (*sent)(struct http_out *out, enum status st));

struct http_wire {
    uv_tcp_t tcp;
    uv_write_t write;
    uv_shutdown_t shutdown;
    const struct http_wire_ops *ops;
    struct http_scratch *scratch;
    struct tls_conn *tls;
    struct proxy *proxy; /* parser of the proxy's header; NULL: no header is awaited */
    struct list waiting; /* link in the scratch's list */
    struct list out;
    size_t out_off;    /* bytes of the first output that are written already */
    struct buf cipher; /* encrypted output that is being written */
    size_t cipher_off;
    size_t submitted;     /* bytes given to the last uv_write */
    size_t turn_bytes;    /* bytes read in this turn of the loop */
    uint64_t bytes_in;    /* bytes of plaintext received */
    uint64_t bytes_out;   /* bytes of plaintext taken from the queue */
    uint64_t bytes_wrote; /* bytes given to the socket, TLS included */
    bool server, secured, seen, reading, want_read, pumping, flushing, writing;
    bool eof, ended, broken, finishing, finished, closing;
    bool rests;   /* http_wire_rest was called while input was being read */
    bool discard; /* set by the owner: the input is read and discarded */
};

/* Any status but ST_OK is the status of libuv's error; the wire is then unused. */
NODISCARD enum status http_wire_init(struct http_wire *wire, uv_loop_t *loop,
                                     const struct http_wire_ops *ops, struct http_scratch *scratch,
                                     bool server);
/* Start to read from the connection, which is established.
 *
 * tls      owned by the wire from here on; NULL: plain text
 * secured  the TLS handshake was made elsewhere
 *
 * After a failure the wire still has to be closed. */
NODISCARD enum status http_wire_start(struct http_wire *wire, struct tls_conn *tls, bool secured);

/* Call before http_wire_start: the input may begin with the header of a proxy. ST_NOMEM. */
NODISCARD enum status http_wire_await_proxy(struct http_wire *wire);

/* Switch reading of input on or off. */
void http_wire_read(struct http_wire *wire, bool on);

/* Queue output; http_wire_flush writes it. */
void http_wire_send(struct http_wire *wire, struct http_out *out);
void http_wire_flush(struct http_wire *wire);
/* Whether output waits until the peer reads. */
bool http_wire_pending(const struct http_wire *wire);
/* How much the peer's side of the socket has taken, for measuring progress. */
uint64_t http_wire_progress(const struct http_wire *wire);

/* The wire is idle: release memory that it can spare until its next use. */
void http_wire_rest(struct http_wire *wire);

/* End our side of the connection once all queued output is written. Reading goes on. */
void http_wire_finish(struct http_wire *wire);
/* Close at once: queued output fails. May be called again. */
void http_wire_close(struct http_wire *wire);
/* Close at once with a reset, which the peer cannot mistake for an orderly end. */
void http_wire_reset(struct http_wire *wire);

#endif
