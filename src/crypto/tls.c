#include "crypto/tls.h"
#include "base/mem.h"
#include "crypto/cert_x509.h"
#include "crypto/tls_ctx.h"

#include <arpa/inet.h>
#include <assert.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>

enum { RECORD_EXTRA = 32 }; /* bytes that a record adds to the plaintext: 22 or 29 as a rule */

struct tls_conn {
    SSL *ssl;
    struct tls_setup *setup;
    struct tls_setup *branch; /* set-up for clients that offer its ALPN names; NULL: none */
    bool branched;            /* such a client came: `setup` is the branch's, and for good */
    struct buf in, out;       /* ciphertext received, and ciphertext to send */
    size_t in_at;             /* bytes of `in` that were consumed */
    struct bytes lent;        /* ciphertext in the caller's memory; `in` is empty meanwhile */
    enum tls_phase phase;
    bool input_ended, out_of_memory, cut, notified;
    enum tls_distrust distrust;
    char want_uri[TLS_NAME_MAX]; /* URI name that the peer must have; "": any */
    char alpn[TLS_NAME_MAX];
    struct reason error;
};

static pthread_once_t bio_once = PTHREAD_ONCE_INIT;
static BIO_METHOD *bio_method;

/* Ciphertext that OpenSSL has not taken yet. */
static struct bytes input(const struct tls_conn *conn)
{
    ASSERT(conn->lent.len == 0 || conn->in.len == 0);
    return conn->lent.len != 0 ? conn->lent : bytes_from(buf_bytes(&conn->in), conn->in_at);
}

static int bio_read(BIO *bio, char *out, int room)
{
    struct tls_conn *conn = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    struct bytes in = input(conn);
    size_t n = MIN(in.len, room > 0 ? (size_t)room : 0);
    if (n == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(out, in.data, n);
    if (conn->lent.len != 0) {
        conn->lent = bytes_from(conn->lent, n);
        return (int)n;
    }
    conn->in_at += n;
    ASSERT(conn->in_at <= conn->in.len);
    if (conn->in_at == conn->in.len) {
        buf_drop(&conn->in); /* ciphertext needs no wiping */
        conn->in_at = 0;
    }
    return (int)n;
}

static int bio_write(BIO *bio, const char *data, int n)
{
    struct tls_conn *conn = BIO_get_data(bio);
    ASSERT(n >= 0);
    BIO_clear_retry_flags(bio);
    buf_add(&conn->out, bytes_of(data, n > 0 ? (size_t)n : 0));
    if (buf_status(&conn->out) != ST_OK) {
        conn->out_of_memory = true;
        return -1;
    }
    return n;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer; /* OpenSSL sets the parameters of this callback */
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static void bio_make_method(void)
{
    BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tls_conn");
    if (made == NULL)
        return;
    if (BIO_meth_set_read(made, bio_read) == 1 && BIO_meth_set_write(made, bio_write) == 1 &&
        BIO_meth_set_ctrl(made, bio_ctrl) == 1)
        bio_method = made;
    else
        BIO_meth_free(made);
}

static enum status attach_bio(struct tls_conn *conn)
{
    if (pthread_once(&bio_once, bio_make_method) != 0 || bio_method == NULL)
        return ST_CRYPTO;
    BIO *bio = BIO_new(bio_method);
    if (bio == NULL)
        return ST_NOMEM;
    BIO_set_data(bio, conn);
    BIO_set_init(bio, 1);
    SSL_set_bio(conn->ssl, bio, bio); /* the connection owns the BIO from here on */
    return ST_OK;
}

/* Clear the error queue of this thread, which SSL_get_error reads. Clearing visits every place of
 * the queue, so do it only if the queue has an error. */
static void errors_forget(void)
{
    if (ERR_peek_error() != 0)
        ERR_clear_error();
}

/* The only URI name of a certificate; "" unless there is exactly one. */
static void peer_uri(const X509 *cert, char ret_uri[TLS_NAME_MAX])
{
    static_assert((int)TLS_NAME_MAX == (int)CERT_URI_MAX, "one bound for names");
    if (cert_x509_uri(cert, ret_uri) != ST_OK)
        ret_uri[0] = '\0';
}

bool tls_conn_accepts(SSL *ssl, X509 *cert)
{
    struct tls_conn *conn = SSL_get_app_data(ssl);
    const char *start = conn->setup->peer_uri_start;
    char uri[TLS_NAME_MAX];
    peer_uri(cert, uri);
    if (start[0] != '\0' && strncmp(uri, start, strlen(start)) != 0)
        reason_set(&conn->error, "the peer's certificate is not for %s", start);
    else if (conn->want_uri[0] != '\0' && strcmp(uri, conn->want_uri) != 0)
        reason_set(&conn->error, "the peer's certificate is not for %s", conn->want_uri);
    else
        return true;
    return false;
}

/* Take the next name, with a length of one byte in front; empty: no name is left. */
static struct bytes next_alpn(struct reader *r)
{
    uint8_t len = reader_left(r) != 0 ? reader_u8(r) : 0;
    return reader_take(r, len);
}

/* Whether the client offers one of the set-up's ALPN names. OpenSSL has not yet checked the form of
 * the client's names; later it refuses a malformed list. */
static bool offers(SSL *ssl, const struct tls_setup *setup)
{
    const unsigned char *data = NULL;
    size_t len = 0;
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &data,
                                  &len) != 1 ||
        len < 2)
        return false;
    struct reader offered = reader_of(bytes_of(data + 2, len - 2));
    for (struct bytes name; (name = next_alpn(&offered)).len != 0;) {
        struct reader ours = reader_of(bytes_of(setup->alpn, setup->alpn_len));
        for (struct bytes mine; (mine = next_alpn(&ours)).len != 0;)
            if (bytes_eq(mine, name))
                return true;
    }
    return false;
}

bool tls_conn_hello(SSL *ssl)
{
    struct tls_conn *conn = SSL_get_app_data(ssl);
    struct tls_setup *other = conn->branch;
    if (other == NULL || conn->branched || !offers(ssl, other))
        return true;
    ASSERT(conn->phase == TLS_HANDSHAKE);
    if (SSL_set_SSL_CTX(ssl, other->ssl) == NULL)
        return false;
    /* OpenSSL copies these when a connection is made, and does not change them with the context. */
    SSL_set_verify(ssl, SSL_CTX_get_verify_mode(other->ssl),
                   SSL_CTX_get_verify_callback(other->ssl));
    conn->branch = conn->setup;
    conn->setup = other;
    conn->branched = true;
    return true;
}

static bool is_address(const char *host)
{
    uint8_t raw[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, raw) == 1 || inet_pton(AF_INET6, host, raw) == 1;
}

static enum status set_host(SSL *ssl, const char *host)
{
    if (is_address(host))
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1 ? ST_OK : ST_NOMEM;
    if (host[0] == '\0' || strlen(host) >= TLS_NAME_MAX)
        return ST_INVALID;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1 ? ST_OK
                                                                                     : ST_NOMEM;
}

static enum status set_target(struct tls_conn *conn, const struct tls_target *target)
{
    if (target->host != NULL)
        TRY(set_host(conn->ssl, target->host));
    if (target->uri != NULL) {
        size_t len = strlen(target->uri);
        if (len == 0 || len >= TLS_NAME_MAX)
            return ST_INVALID;
        memcpy(conn->want_uri, target->uri, len);
    }
    if (target->alpn != NULL) {
        uint8_t wire[TLS_ALPN_WIRE_MAX];
        unsigned len;
        TRY(tls_alpn_encode(target->alpn, wire, &len));
        if (SSL_set_alpn_protos(conn->ssl, wire, len) != 0)
            return ST_NOMEM;
    }
    return ST_OK;
}

static void handshake_step(struct tls_conn *conn);

static enum status conn_init(struct tls_conn *conn, const struct tls_target *target)
{
    conn->ssl = SSL_new(conn->setup->ssl);
    if (conn->ssl == NULL)
        return ST_NOMEM;
    (void)SSL_set_app_data(conn->ssl, conn); /* cannot fail: slot 0 always exists */
    TRY(attach_bio(conn));
    if (target != NULL)
        TRY(set_target(conn, target));
    if (conn->setup->server) {
        SSL_set_accept_state(conn->ssl);
        return ST_OK;
    }
    SSL_set_connect_state(conn->ssl);
    handshake_step(conn);
    if (conn->phase == TLS_FAILED)
        return conn->out_of_memory ? ST_NOMEM : ST_CRYPTO;
    return ST_OK;
}

enum status tls_conn_new(struct tls_ctx *ctx, const struct tls_target *target,
                         struct tls_conn **ret_conn)
{
    ASSERT(ctx != NULL && ret_conn != NULL);
    struct tls_conn *conn = mem_zalloc(sizeof *conn);
    if (conn == NULL)
        return ST_NOMEM;
    conn->setup = tls_ctx_setup(ctx);
    conn->branch = tls_ctx_branch_setup(ctx);
    ASSERT(target == NULL || !conn->setup->server);
    enum status st = conn_init(conn, target);
    ERR_clear_error(); /* the returned status tells the failure */
    if (st == ST_OK)
        *ret_conn = conn;
    else
        tls_conn_free(conn);
    return st;
}

void tls_conn_free(struct tls_conn *conn)
{
    if (conn == NULL)
        return;
    SSL_free(conn->ssl);
    tls_setup_unref(conn->setup);
    tls_setup_unref(conn->branch);
    buf_done(&conn->in);
    buf_done(&conn->out);
    mem_wipe(conn, sizeof *conn);
    mem_free(conn);
}

static void fail(struct tls_conn *conn, const char *text)
{
    if (conn->error.text[0] == '\0')
        reason_set(&conn->error, "%s", text);
    conn->phase = TLS_FAILED;
    ERR_clear_error(); /* conn->error keeps the reason */
}

static enum status failed(const struct tls_conn *conn)
{
    ASSERT(conn->phase == TLS_FAILED);
    if (conn->out_of_memory)
        return ST_NOMEM;
    return conn->cut ? ST_IO : ST_CRYPTO;
}

/* Only fixed texts of OpenSSL: nothing the peer wrote and nothing secret. */
static void fail_openssl(struct tls_conn *conn, unsigned long code)
{
    long verify = SSL_get_verify_result(conn->ssl);
    const char *text = NULL;
    if (conn->out_of_memory)
        text = "out of memory";
    else if (ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED && verify != X509_V_OK)
        text = X509_verify_cert_error_string(verify);
    else
        text = ERR_reason_error_string(code);
    if (verify == X509_V_ERR_HOSTNAME_MISMATCH || verify == X509_V_ERR_IP_ADDRESS_MISMATCH)
        conn->distrust = TLS_OTHER_HOST;
    else if (verify == X509_V_ERR_CERT_HAS_EXPIRED || verify == X509_V_ERR_CERT_NOT_YET_VALID)
        conn->distrust = TLS_NOT_NOW;
    else if (verify != X509_V_OK)
        conn->distrust = TLS_UNKNOWN_ISSUER;
    fail(conn, text != NULL ? text : "TLS failed");
}

/* Find out whether the connection ended or waits; `result` is the result of the SSL_ function. */
static void result_judge(struct tls_conn *conn, int result)
{
    switch (SSL_get_error(conn->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        if (conn->input_ended) {
            conn->cut = true;
            fail(conn, "the connection was cut");
        }
        break;
    case SSL_ERROR_ZERO_RETURN: conn->phase = TLS_ENDED; break;
    default: fail_openssl(conn, ERR_peek_error());
    }
}

static void handshake_done(struct tls_conn *conn)
{
    const unsigned char *name;
    unsigned len;
    SSL_get0_alpn_selected(conn->ssl, &name, &len);
    ASSERT(len < sizeof conn->alpn);
    if (len != 0)
        memcpy(conn->alpn, name, len);
    conn->alpn[len] = '\0';
    conn->phase = TLS_OPEN;
    if (len == 0 && conn->setup->alpn_required)
        fail(conn, "the peer agreed on no protocol (ALPN)");
}

static void handshake_step(struct tls_conn *conn)
{
    ASSERT(conn->phase == TLS_HANDSHAKE);
    errors_forget();
    int result = SSL_do_handshake(conn->ssl);
    if (result == 1)
        handshake_done(conn);
    else
        result_judge(conn, result);
}

enum tls_phase tls_conn_phase(const struct tls_conn *conn)
{
    return conn->phase;
}

enum status tls_feed(struct tls_conn *conn, struct bytes cipher)
{
    ASSERT((!conn->input_ended && conn->lent.len == 0) || cipher.len == 0);
    size_t waiting = conn->in.len - conn->in_at;
    if (cipher.len > TLS_INPUT_MAX - MIN(waiting, TLS_INPUT_MAX))
        return ST_TOO_BIG;
    if (conn->in_at != 0) {
        buf_consume(&conn->in, conn->in_at);
        conn->in_at = 0;
    }
    buf_add(&conn->in, cipher);
    enum status st = buf_status(&conn->in);
    conn->in.failed = false; /* the caller may free memory and feed again */
    return st;
}

enum status tls_lend(struct tls_conn *conn, struct bytes cipher)
{
    if (conn->in.len != 0)
        return tls_feed(conn, cipher);
    ASSERT(!conn->input_ended && conn->lent.len == 0);
    if (cipher.len > TLS_INPUT_MAX)
        return ST_TOO_BIG;
    conn->lent = cipher;
    return ST_OK;
}

enum status tls_keep(struct tls_conn *conn)
{
    struct bytes rest = conn->lent;
    conn->lent = (struct bytes){0};
    return rest.len != 0 ? tls_feed(conn, rest) : ST_OK;
}

void tls_feed_end(struct tls_conn *conn)
{
    conn->input_ended = true;
}

/* Whether a read could give plaintext or the end of the input: input is waiting to be decrypted, or
 * the input has ended. */
static bool has_input(const struct tls_conn *conn)
{
    return input(conn).len != 0 || conn->input_ended || SSL_has_pending(conn->ssl) == 1;
}

enum status tls_read(struct tls_conn *conn, void *out, size_t room, size_t *ret_n)
{
    ASSERT(room > 0 && ret_n != NULL);
    if (conn->phase == TLS_HANDSHAKE)
        handshake_step(conn);
    if (conn->phase == TLS_FAILED)
        return failed(conn);
    if (conn->phase == TLS_ENDED)
        return ST_CLOSED;
    if (conn->phase == TLS_OPEN && conn->out.len >= TLS_OUTPUT_MAX)
        return ST_BUSY; /* reading may produce output: the peer must not make much output wait */
    size_t n = 0;
    if (conn->phase == TLS_OPEN && has_input(conn)) {
        errors_forget();
        int result = SSL_read(conn->ssl, out, (int)MIN(room, INT_MAX));
        if (result > 0)
            n = (size_t)result;
        else
            result_judge(conn, result);
    }
    if (conn->phase == TLS_FAILED)
        return failed(conn);
    if (conn->phase == TLS_ENDED)
        return ST_CLOSED;
    *ret_n = n;
    return ST_OK;
}

static enum status run_write(struct tls_conn *conn, struct bytes run)
{
    while (run.len != 0) {
        size_t written = 0;
        if (SSL_write_ex(conn->ssl, run.data, MIN(run.len, TLS_RECORD_MAX), &written) != 1) {
            /* The BIO accepts all output, so the write never has to wait, and errors in the queue
             * that other code left do not matter. */
            fail_openssl(conn, ERR_peek_last_error());
            return failed(conn);
        }
        ASSERT(written > 0 && written <= run.len);
        run = bytes_from(run, written);
    }
    return ST_OK;
}

/* Encrypt parts: small parts are first copied together, large parts are encrypted without a
 * copy. */
static enum status write_parts(struct tls_conn *conn, const struct bytes *parts, unsigned n,
                               uint8_t gather[TLS_RECORD_MAX])
{
    size_t held = 0;
    for (unsigned i = 0; i < n; i++) {
        struct bytes rest = parts[i];
        while (rest.len != 0) {
            if (held == 0 && rest.len >= TLS_RECORD_MAX) {
                size_t whole = rest.len - rest.len % TLS_RECORD_MAX;
                TRY(run_write(conn, bytes_of(rest.data, whole)));
                rest = bytes_from(rest, whole);
                continue;
            }
            ASSERT(held < TLS_RECORD_MAX);
            size_t take = MIN(rest.len, TLS_RECORD_MAX - held);
            memcpy(gather + held, rest.data, take);
            held += take;
            rest = bytes_from(rest, take);
            if (held < TLS_RECORD_MAX)
                continue;
            TRY(run_write(conn, bytes_of(gather, held)));
            held = 0;
        }
    }
    return run_write(conn, bytes_of(gather, held));
}

enum status tls_write(struct tls_conn *conn, const struct bytes *parts, unsigned n)
{
    ASSERT(!conn->notified);
    if (conn->phase == TLS_FAILED)
        return failed(conn);
    if (conn->phase == TLS_HANDSHAKE || conn->out.len >= TLS_OUTPUT_MAX)
        return ST_BUSY;
    size_t total = 0;
    for (unsigned i = 0; i < n; i++)
        total += parts[i].len;
    if (total == 0)
        return ST_OK;
    size_t records = total / TLS_RECORD_MAX + 1;
    if (buf_reserve(&conn->out, total + records * RECORD_EXTRA) != ST_OK) {
        conn->out_of_memory = true;
        fail(conn, "out of memory");
        return failed(conn);
    }
    if (n == 1)
        return run_write(conn, parts[0]);
    uint8_t gather[TLS_RECORD_MAX];
    enum status st = write_parts(conn, parts, n, gather);
    mem_wipe(gather, MIN(total, sizeof gather)); /* no more than `total` bytes were used */
    return st;
}

void tls_close_notify(struct tls_conn *conn)
{
    if (conn->notified || conn->phase == TLS_FAILED || conn->phase == TLS_HANDSHAKE)
        return;
    conn->notified = true;
    ERR_clear_error();             /* SSL_shutdown looks at this thread's error queue */
    (void)SSL_shutdown(conn->ssl); /* queued or out of memory: the connection ends in both cases */
    ERR_clear_error();
}

bool tls_rest(struct tls_conn *conn)
{
    /* OpenSSL before the fix of CVE-2024-4741 frees a record of which only the head was read. */
    bool half_read = strcmp(SSL_rstate_string(conn->ssl), "RH") != 0;
    if (conn->phase != TLS_OPEN || half_read)
        return false;
    /* OpenSSL 3.2 and later keep the length of a freed read buffer. Freeing the buffer a second
     * time would wipe so many bytes at NULL, so allocate the buffer first. */
    errors_forget();
    bool rests = SSL_alloc_buffers(conn->ssl) == 1 && SSL_free_buffers(conn->ssl) == 1;
    errors_forget(); /* errors of an allocation that failed */
    return rests;
}

size_t tls_out_len(const struct tls_conn *conn)
{
    return conn->out.len;
}

void tls_lend_out(struct tls_conn *conn, struct buf *spare)
{
    ASSERT(spare->len == 0 && !spare->failed);
    if (conn->out.data != NULL)
        return;
    conn->out.data = spare->data;
    conn->out.cap = spare->cap;
    *spare = (struct buf){0};
}

void tls_take_out(struct tls_conn *conn, struct buf *ret_out)
{
    ASSERT(ret_out->data == NULL);
    *ret_out = conn->out;
    ret_out->failed = false; /* the output is whole; the failure stays with the connection */
    conn->out = (struct buf){0};
}

const char *tls_error(const struct tls_conn *conn)
{
    return conn->phase == TLS_FAILED ? conn->error.text : "";
}

enum tls_distrust tls_distrust(const struct tls_conn *conn)
{
    return conn->distrust;
}

const char *tls_alpn(const struct tls_conn *conn)
{
    return conn->alpn;
}

const char *tls_version(const struct tls_conn *conn)
{
    return SSL_get_version(conn->ssl);
}

static int64_t time_of(const ASN1_TIME *when)
{
    struct tm tm;
    return ASN1_TIME_to_tm(when, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

/* As cert_public_fingerprint. */
static enum status key_fingerprint(X509 *cert, uint8_t ret_sha256[TLS_FINGERPRINT_BYTES])
{
    unsigned char *der = NULL;
    unsigned len = 0;
    int n = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(cert), &der);
    if (n <= 0)
        return ST_NOMEM;
    bool made = EVP_Digest(der, (size_t)n, ret_sha256, &len, EVP_sha256(), NULL) == 1;
    OPENSSL_free(der);
    return made && len == TLS_FINGERPRINT_BYTES ? ST_OK : ST_CRYPTO;
}

enum status tls_conn_peer(const struct tls_conn *conn, struct tls_peer *ret_peer)
{
    ASSERT(conn->phase != TLS_HANDSHAKE);
    X509 *cert = SSL_get0_peer_certificate(conn->ssl);
    if (cert == NULL)
        return ST_NOT_FOUND;
    struct tls_peer peer = {0};
    unsigned len = 0;
    if (X509_digest(cert, EVP_sha256(), peer.fingerprint, &len) != 1)
        return ST_CRYPTO;
    ASSERT(len == TLS_FINGERPRINT_BYTES);
    TRY(key_fingerprint(cert, peer.key_sha256));
    peer.verified = SSL_get_verify_result(conn->ssl) == X509_V_OK && !conn->setup->insecure;
    peer_uri(cert, peer.uri);
    /* The function returns -1 and leaves "" if the certificate has no common name. */
    (void)X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, peer.common_name,
                                    sizeof peer.common_name);
    peer.not_after_s = time_of(X509_get0_notAfter(cert));
    *ret_peer = peer;
    return ST_OK;
}

enum status tls_conn_peer_der(const struct tls_conn *conn, struct buf *out)
{
    X509 *cert = SSL_get0_peer_certificate(conn->ssl);
    ASSERT(out != NULL);
    if (cert == NULL)
        return ST_NOT_FOUND;
    unsigned char *der = NULL;
    int len = i2d_X509(cert, &der);
    if (len < 0)
        return ST_NOMEM;
    buf_add(out, bytes_of(der, (size_t)len));
    OPENSSL_free(der);
    return buf_status(out);
}
