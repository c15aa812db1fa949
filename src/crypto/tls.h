/* TLS between memory buffers, for any transport.
 *
 * A connection takes ciphertext in (tls_feed), gives plaintext out (tls_read), takes plaintext
 * (tls_write) and leaves ciphertext to be sent (tls_take_out). It opens no socket and never waits.
 *
 *     socket -> tls_feed -> tls_read -> application
 *     socket <- tls_take_out <- tls_write <- application
 *
 * After every tls_feed, call tls_read until no plaintext is left, then send the output of
 * tls_take_out. This output may also be a part of the handshake, an alert or a key update.
 *
 * Invariants: (1) no plaintext is given before the peer passed every check of the context; (2) an
 * idle connection holds no buffer; (3) no text here contains key or application bytes. A context
 * may be used from any thread, a connection by one thread at a time. */
#ifndef HOLDFAST_CRYPTO_TLS_H
#define HOLDFAST_CRYPTO_TLS_H

#include "base/buf.h"
#include "base/status.h"

struct tls_ctx;
struct tls_conn;

enum {
    TLS_INPUT_MAX = 256 * 1024,  /* most bytes of ciphertext fed and not yet read */
    TLS_OUTPUT_MAX = 256 * 1024, /* bytes of waiting output above which tls_write refuses */
    TLS_PEM_MAX = 1024 * 1024,   /* most bytes of a file with certificates or a key */
    TLS_RECORD_MAX = 16 * 1024,  /* most bytes of plaintext in one record */
};

/* Append a PEM file of at most TLS_PEM_MAX bytes. Blocks. ST_NOT_FOUND, ST_DENIED, ST_TOO_BIG,
 * ST_IO, ST_NOMEM, with a reason that names the file. */
NODISCARD enum status tls_pem_read(const char *path, struct buf *out, struct reason *reason);
/* The same for the file of a private key, under the rule of key_file.h. */
NODISCARD enum status tls_key_read(const char *path, struct buf *out, struct reason *reason);

/* Whether a server asks clients for a certificate. */
enum tls_client_cert {
    TLS_CLIENT_CERT_NONE,
    TLS_CLIENT_CERT_OPTIONAL, /* ask; verify if the options have a CA, else accept unverified */
    TLS_CLIENT_CERT_REQUIRED, /* require and verify; the options must have a CA */
};

/* PEM text, or the path of a file with it; both empty: absent. */
struct tls_pem {
    const char *path;
    struct bytes text;
};

struct tls_options {
    bool server;
    bool tls13_only; /* allow TLS 1.3 only; false: 1.2 or 1.3 */
    bool no_tickets; /* for a server: no session resumption */
    bool few;        /* client: few, busy connections, which keep their buffers between uses */
    bool insecure;   /* for a client: do not verify the server, as the operator asked */
    enum tls_client_cert client_cert;
    struct tls_pem cert; /* own certificate and its chain; required for a server */
    struct tls_pem key;
    struct tls_pem ca; /* trusted authorities; absent: a client trusts the system's authorities */
    /* Client, instead of `ca`: trust the certificate with this SHA-256 of its DER form, among the
     * certificates that the server sends. A server with a CA sends the CA's certificate behind its
     * own. NULL: use `ca`. */
    const uint8_t *ca_sha256;
    const char *alpn;   /* ALPN names, preferred first, "h2,http/1.1"; NULL: no ALPN */
    bool alpn_required; /* refuse a peer that agrees on no ALPN name */
    /* the peer's certificate needs one URI name, which begins with this text */
    const char *peer_uri_start;
};

/* Make a context; reads the files of the options. ST_INVALID, ST_NOT_FOUND, ST_DENIED, ST_IO with a
 * reason that names the file; ST_NOMEM. The caller owns one reference. */
NODISCARD enum status tls_ctx_new(const struct tls_options *options, struct tls_ctx **ret_ctx,
                                  struct reason *reason);
/* New connections use the new options; existing ones keep theirs. On failure nothing changes. */
NODISCARD enum status tls_ctx_reload(struct tls_ctx *ctx, const struct tls_options *options,
                                     struct reason *reason);
/* When the certificate of the context expires, in seconds since 1970. Any thread. ST_NOT_FOUND: the
 * context has no certificate. ST_INVALID: the time in the certificate is malformed. */
NODISCARD enum status tls_ctx_not_after(struct tls_ctx *ctx, int64_t *ret_s);
/* For a server: a client that offers an ALPN name of `other` is served by `other`, with its own
 * certificate, trust and requirements; nothing of `ctx` counts for that client. `other` is a server
 * that has ALPN names and no such context itself; NULL: none any more. For new connections. `ctx`
 * keeps a reference. Any thread. */
void tls_ctx_branch(struct tls_ctx *ctx, struct tls_ctx *other);
struct tls_ctx *tls_ctx_ref(struct tls_ctx *ctx);
void tls_ctx_unref(struct tls_ctx *ctx); /* NULL is allowed */

/* Requirements of a client for one connection. */
struct tls_target {
    const char
        *host; /* DNS name or address that the certificate must have; also the SNI; NULL: any */
    const char *uri;  /* URI name that the certificate must have; NULL: any */
    const char *alpn; /* ALPN names in place of the context's; NULL: those of the context */
};

/* Begin a connection; `target` is NULL for a server. tls_take_out then has a client's first
 * message. ST_NOMEM, ST_CRYPTO, ST_INVALID (an unusable target). */
NODISCARD enum status tls_conn_new(struct tls_ctx *ctx, const struct tls_target *target,
                                   struct tls_conn **ret_conn);
void tls_conn_free(struct tls_conn *conn); /* NULL is allowed */

enum tls_phase {
    TLS_HANDSHAKE,
    TLS_OPEN,
    TLS_ENDED,  /* the peer sent close_notify: no more to read, writing is still possible */
    TLS_FAILED, /* tls_error returns the reason */
};
enum tls_phase tls_conn_phase(const struct tls_conn *conn);

/* Give the connection ciphertext of the peer, which is copied. ST_TOO_BIG above TLS_INPUT_MAX (read
 * first), ST_NOMEM. */
NODISCARD enum status tls_feed(struct tls_conn *conn, struct bytes cipher);
/* tls_feed without a copy: `cipher` must stay valid until tls_keep, which copies the part that was
 * not yet read. Call tls_keep before the next tls_feed or tls_lend. If tls_lend fails, the
 * connection keeps no pointer to `cipher`. */
NODISCARD enum status tls_lend(struct tls_conn *conn, struct bytes cipher);
NODISCARD enum status tls_keep(struct tls_conn *conn);
/* Tell the connection that the transport ended. If no close_notify came before, tls_read then fails
 * with ST_IO. */
void tls_feed_end(struct tls_conn *conn);

/* Up to `room` bytes of plaintext. ST_OK with *ret_n 0: nothing yet, feed more. ST_CLOSED: the
 * peer's close_notify. ST_CRYPTO: failed, see tls_error; send what tls_take_out gives (the alert),
 * then drop the connection. ST_IO: cut off without a close_notify, the data may be incomplete.
 * ST_NOMEM. ST_BUSY: take the output first. */
NODISCARD enum status tls_read(struct tls_conn *conn, void *out, size_t room, size_t *ret_n);

/* Encrypt all parts, packed into as few records as possible. ST_OK: all accepted. ST_BUSY: nothing
 * accepted, the handshake is not over or TLS_OUTPUT_MAX waits. ST_CRYPTO, ST_IO, ST_NOMEM: failed.
 */
NODISCARD enum status tls_write(struct tls_conn *conn, const struct bytes *parts, unsigned n);
/* Queue our close_notify, once; no tls_write after it. */
void tls_close_notify(struct tls_conn *conn);

/* Release the 34 KiB of buffers of a connection that is idle; the next input or output allocates
 * them again. False: a record or a handshake is incomplete, nothing was released. */
bool tls_rest(struct tls_conn *conn);

/* Bytes of ciphertext that wait to be sent. */
size_t tls_out_len(const struct tls_conn *conn);
/* Give the connection memory for output: if no output waits, the connection takes the memory of the
 * empty buffer `spare`. */
void tls_lend_out(struct tls_conn *conn, struct buf *spare);
/* Move the waiting ciphertext to `ret_out`, which must be empty; release it with buf_done. If
 * nothing waits, `ret_out` stays empty, but may get the memory that was lent. */
void tls_take_out(struct tls_conn *conn, struct buf *ret_out);

/* Why the connection failed, for a log; "": it has not failed. */
const char *tls_error(const struct tls_conn *conn);

/* Why the peer's certificate failed verification; TLS_TRUSTED: it did not fail. */
enum tls_distrust { TLS_TRUSTED, TLS_UNKNOWN_ISSUER, TLS_OTHER_HOST, TLS_NOT_NOW };
enum tls_distrust tls_distrust(const struct tls_conn *conn);

/* The agreed ALPN name, "" for none; valid after the handshake. */
const char *tls_alpn(const struct tls_conn *conn);
/* The version of TLS, as "TLSv1.3". */
const char *tls_version(const struct tls_conn *conn);

enum { TLS_NAME_MAX = 256, TLS_FINGERPRINT_BYTES = 32 };
struct tls_peer {
    bool verified; /* a trusted authority signed the certificate */
    /* the only URI name of the certificate; "": none or several */
    char uri[TLS_NAME_MAX];
    char common_name[TLS_NAME_MAX];             /* common name of the certificate; "": none */
    uint8_t fingerprint[TLS_FINGERPRINT_BYTES]; /* SHA-256 of the certificate */
    uint8_t key_sha256[TLS_FINGERPRINT_BYTES];  /* of its public key: cert_public_fingerprint */
    int64_t not_after_s;                        /* expiry of the certificate, seconds since 1970 */
};
/* The peer's certificate, after the handshake. ST_NOT_FOUND: the peer sent none. */
NODISCARD enum status tls_conn_peer(const struct tls_conn *conn, struct tls_peer *ret_peer);
/* Append the DER form of the peer's certificate. ST_NOT_FOUND, ST_NOMEM. */
NODISCARD enum status tls_conn_peer_der(const struct tls_conn *conn, struct buf *out);

#endif
