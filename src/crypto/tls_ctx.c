#include "crypto/tls_ctx.h"
#include "base/mem.h"
#include "crypto/key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { CHAIN_MAX = 8, CA_MAX = 256, VERIFY_DEPTH_MAX = 4 };

struct tls_ctx {
    pthread_mutex_t lock; /* guards `setup` and all reference counts */
    struct tls_setup *setup;
    struct tls_ctx *branch; /* context for clients that offer its ALPN names; NULL: none */
    unsigned refs;
};

/* One lock for the reference counts of all set-ups: the counts change only once per connection. */
static pthread_mutex_t refs_lock = PTHREAD_MUTEX_INITIALIZER;

static void lock(pthread_mutex_t *mutex)
{
    int err = pthread_mutex_lock(mutex);
    ASSERT(err == 0);
}

static void unlock(pthread_mutex_t *mutex)
{
    int err = pthread_mutex_unlock(mutex);
    ASSERT(err == 0);
}

static enum status file_read(int fd, struct buf *out)
{
    while (out->len <= TLS_PEM_MAX) {
        TRY(buf_reserve(out, 4096));
        ssize_t n = read(fd, out->data + out->len, 4096);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return status_from_errno(errno);
        if (n == 0)
            return ST_OK;
        out->len += (size_t)n;
    }
    return ST_TOO_BIG;
}

enum status tls_pem_read(const char *path, struct buf *out, struct reason *reason)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum status st = fd >= 0 ? file_read(fd, out) : status_from_errno(errno);
    if (fd >= 0)
        (void)close(fd); /* the file was only read */
    if (st != ST_OK)
        reason_set(reason, "%s: %s", path, status_text(st));
    return st;
}

enum status tls_key_read(const char *path, struct buf *out, struct reason *reason)
{
    int fd = -1;
    ASSERT(out->len == 0);
    TRY(key_file_open(path, &fd, reason));
    ASSERT(fd >= 0);
    enum status st = file_read(fd, out);
    (void)close(fd); /* the file was only read */
    if (st != ST_OK)
        reason_set(reason, "%s: %s", path, status_text(st));
    return st;
}

/* How the file of a PEM text is read: tls_pem_read or, for a private key, tls_key_read. */
typedef enum status (*pem_reader)(const char *path, struct buf *out, struct reason *reason);

static enum status pem_load(const struct tls_pem *pem, pem_reader reader, struct buf *out,
                            struct reason *reason)
{
    if (pem->text.len == 0)
        return reader(pem->path, out, reason);
    buf_add(out, pem->text);
    return buf_status(out);
}

static bool pem_given(const struct tls_pem *pem)
{
    return pem->text.len != 0 || (pem->path != NULL && pem->path[0] != '\0');
}

static const char *pem_label(const struct tls_pem *pem)
{
    return pem->text.len != 0 ? "given PEM text" : pem->path;
}

static enum status invalid(struct reason *reason, const struct tls_pem *pem, const char *what)
{
    reason_set(reason, "%s: %s", pem_label(pem), what);
    return ST_INVALID;
}

/* An encrypted key must not make OpenSSL ask at the terminal. */
static int no_password(char *out, int room, int rw, void *ctx)
{
    (void)out, (void)room, (void)rw, (void)ctx; /* OpenSSL sets the parameters of this callback */
    return -1;
}

static void bio_done(BIO **bio)
{
    BIO_free(*bio);
}

/* Open the PEM text. The caller releases both results. */
static enum status pem_open(const struct tls_pem *pem, pem_reader reader, struct buf *ret_text,
                            BIO **ret_bio, struct reason *reason)
{
    TRY(pem_load(pem, reader, ret_text, reason));
    *ret_bio = BIO_new_mem_buf(ret_text->data, (int)ret_text->len); /* the length fits an int */
    return *ret_bio != NULL ? ST_OK : ST_NOMEM;
}

/* Read the extensions of the certificate now: connections on all threads share the certificate, and
 * OpenSSL then need not change it. False: the extensions are malformed. */
static bool parse(X509 *cert)
{
    return X509_check_purpose(cert, -1, 0) == 1;
}

static enum status use_cert(SSL_CTX *ssl, const struct tls_pem *pem, struct reason *reason)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(bio_done) BIO *bio = NULL;
    TRY(pem_open(pem, tls_pem_read, &text, &bio, reason));
    unsigned n = 0;
    for (; n < CHAIN_MAX; n++) {
        X509 *cert = PEM_read_bio_X509(bio, NULL, no_password, NULL);
        if (cert == NULL)
            break;
        bool ok = parse(cert) && (n == 0 ? SSL_CTX_use_certificate(ssl, cert) == 1
                                         : SSL_CTX_add1_chain_cert(ssl, cert) == 1);
        X509_free(cert);
        if (!ok)
            return invalid(reason, pem, "the certificate cannot be used");
    }
    return n != 0 ? ST_OK : invalid(reason, pem, "no PEM certificate found");
}

static enum status use_key(SSL_CTX *ssl, const struct tls_pem *pem, struct reason *reason)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(bio_done) BIO *bio = NULL;
    TRY(pem_open(pem, tls_key_read, &text, &bio, reason));
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
    if (key == NULL)
        return invalid(reason, pem, "no unencrypted PEM private key found");
    int ok = SSL_CTX_use_PrivateKey(ssl, key);
    EVP_PKEY_free(key);
    if (ok != 1 || SSL_CTX_check_private_key(ssl) != 1)
        return invalid(reason, pem, "the key does not belong to the certificate");
    return ST_OK;
}

static enum status use_ca(SSL_CTX *ssl, const struct tls_options *options, struct reason *reason)
{
    const struct tls_pem *pem = &options->ca;
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(bio_done) BIO *bio = NULL;
    TRY(pem_open(pem, tls_pem_read, &text, &bio, reason));
    unsigned n = 0;
    for (; n < CA_MAX; n++) {
        X509 *cert = PEM_read_bio_X509(bio, NULL, no_password, NULL);
        if (cert == NULL)
            break;
        bool ok = parse(cert) && X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), cert) == 1 &&
                  (!options->server || SSL_CTX_add_client_CA(ssl, cert) == 1);
        X509_free(cert);
        if (!ok)
            return invalid(reason, pem, "the CA certificate cannot be used");
    }
    return n != 0 ? ST_OK : invalid(reason, pem, "no PEM certificate found");
}

static int verify_peer(int chain_ok, X509_STORE_CTX *store)
{
    if (chain_ok != 1 || X509_STORE_CTX_get_error_depth(store) != 0)
        return chain_ok;
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    if (tls_conn_accepts(ssl, X509_STORE_CTX_get_current_cert(store)))
        return 1;
    X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

/* Accept any client certificate, for a server where the certificate is optional and no CA is given:
 * the code that reads the certificate decides about it. */
static int accept_any(X509_STORE_CTX *store, void *ctx)
{
    (void)ctx; /* OpenSSL sets the parameters of this callback */
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_UNTRUSTED);
    return 1;
}

/* Trust only that certificate, among the certificates the server sends, whose hash is known.
 * OpenSSL verifies the rest of the chain as usual. */
static int verify_pinned(X509_STORE_CTX *store, void *ctx)
{
    const struct tls_setup *setup = ctx;
    STACK_OF(X509) *shown = X509_STORE_CTX_get0_untrusted(store);
    STACK_OF(X509) *trusted = sk_X509_new_null();
    uint8_t digest[TLS_FINGERPRINT_BYTES];
    unsigned len;
    for (int i = 0; trusted != NULL && i < sk_X509_num(shown); i++) {
        X509 *cert = sk_X509_value(shown, i);
        if (X509_digest(cert, EVP_sha256(), digest, &len) == 1 &&
            memcmp(digest, setup->ca_sha256, sizeof digest) == 0 && X509_check_ca(cert) == 1)
            (void)sk_X509_push(trusted, cert); /* on failure nothing is trusted */
    }
    int result = 0;
    if (trusted == NULL) {
        X509_STORE_CTX_set_error(store, X509_V_ERR_OUT_OF_MEM);
    } else {
        X509_STORE_CTX_set0_trusted_stack(store, trusted);
        result = X509_verify_cert(store);
    }
    sk_X509_free(trusted);
    return result > 0;
}

static int pick_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                     const unsigned char *in, unsigned in_len, void *ctx)
{
    const struct tls_setup *setup = ctx;
    unsigned char *picked = NULL;
    (void)ssl; /* OpenSSL sets the parameters of this callback */
    int result = SSL_select_next_proto(&picked, out_len, setup->alpn, setup->alpn_len, in, in_len);
    *out = picked;
    return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* Let the connection look at the client's first message before anything is chosen. */
static int on_client_hello(SSL *ssl, int *alert, void *ctx)
{
    (void)ctx; /* OpenSSL sets the parameters of this callback */
    if (tls_conn_hello(ssl))
        return SSL_CLIENT_HELLO_SUCCESS;
    *alert = SSL_AD_INTERNAL_ERROR;
    return SSL_CLIENT_HELLO_ERROR;
}

enum status tls_alpn_encode(const char *names, uint8_t wire[TLS_ALPN_WIRE_MAX], unsigned *ret_len)
{
    unsigned len = 0;
    for (const char *at = names;; at++) {
        size_t n = strcspn(at, ",");
        if (n == 0 || n > 255 || len + 1 + n > TLS_ALPN_WIRE_MAX)
            return ST_INVALID;
        wire[len] = (uint8_t)n;
        memcpy(wire + len + 1, at, n);
        len += 1 + (unsigned)n;
        at += n;
        if (*at == '\0')
            break;
    }
    ASSERT(len <= TLS_ALPN_WIRE_MAX);
    *ret_len = len;
    return ST_OK;
}

static bool set_protocol(SSL_CTX *ssl, const struct tls_options *options)
{
    if (!options->server && !options->few) /* keep memory low: a server has many idle connections */
        SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(ssl, 1); /* read head and body of a record at once */
    SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_CLEANSE_PLAINTEXT);
    if (options->no_tickets || !options->server) {
        SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET);
        (void)SSL_CTX_set_num_tickets(ssl, 0); /* always succeeds */
    }
    /* Use session tickets: a session cache in this process would be shared by all workers and grow
     * with the number of clients. */
    (void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF); /* returns the old mode */
    return SSL_CTX_set_min_proto_version(ssl, options->tls13_only ? TLS1_3_VERSION
                                                                  : TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(ssl, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1 &&
           SSL_CTX_set_session_id_context(ssl, (const unsigned char *)"holdfast", 8) == 1;
}

static void set_verify(struct tls_setup *setup, const struct tls_options *options)
{
    int mode = SSL_VERIFY_PEER;
    if (options->server ? options->client_cert == TLS_CLIENT_CERT_NONE : options->insecure)
        mode = SSL_VERIFY_NONE;
    else if (options->client_cert == TLS_CLIENT_CERT_REQUIRED)
        mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    SSL_CTX_set_verify(setup->ssl, mode, verify_peer);
    SSL_CTX_set_verify_depth(setup->ssl, VERIFY_DEPTH_MAX);
    if (options->server && mode == SSL_VERIFY_PEER && !setup->has_ca)
        SSL_CTX_set_cert_verify_callback(setup->ssl, accept_any, NULL);
    if (setup->pinned)
        SSL_CTX_set_cert_verify_callback(setup->ssl, verify_pinned, setup);
}

static enum status set_alpn(struct tls_setup *setup, const char *names, struct reason *reason)
{
    if (names == NULL)
        return ST_OK;
    if (tls_alpn_encode(names, setup->alpn, &setup->alpn_len) != ST_OK) {
        reason_set(reason, "bad list of ALPN names");
        return ST_INVALID;
    }
    if (setup->server)
        SSL_CTX_set_alpn_select_cb(setup->ssl, pick_alpn, setup);
    else if (SSL_CTX_set_alpn_protos(setup->ssl, setup->alpn, setup->alpn_len) != 0)
        return ST_NOMEM;
    return ST_OK;
}

static enum status options_check(const struct tls_options *options, struct reason *reason)
{
    const char *wrong = NULL;
    if (options->server && (!pem_given(&options->cert) || !pem_given(&options->key)))
        wrong = "a TLS server needs a certificate and a key";
    else if (pem_given(&options->cert) != pem_given(&options->key))
        wrong = "a certificate and its key go together";
    else if (options->server && options->client_cert == TLS_CLIENT_CERT_REQUIRED &&
             !pem_given(&options->ca))
        wrong = "requiring client certificates needs a CA";
    else if (options->cert.text.len > TLS_PEM_MAX || options->key.text.len > TLS_PEM_MAX ||
             options->ca.text.len > TLS_PEM_MAX)
        wrong = "PEM text is too long";
    else if (options->peer_uri_start != NULL && strlen(options->peer_uri_start) >= TLS_NAME_MAX)
        wrong = "the required URI name is too long";
    if (wrong == NULL)
        return ST_OK;
    reason_set(reason, "%s", wrong);
    return ST_INVALID;
}

static enum status setup_fill(struct tls_setup *setup, const struct tls_options *options,
                              struct reason *reason)
{
    if (!set_protocol(setup->ssl, options)) {
        reason_set(reason, "OpenSSL refuses the TLS settings");
        return ST_CRYPTO;
    }
    if (pem_given(&options->cert)) {
        TRY(use_cert(setup->ssl, &options->cert, reason));
        TRY(use_key(setup->ssl, &options->key, reason));
    }
    setup->has_ca = pem_given(&options->ca);
    if (setup->has_ca)
        TRY(use_ca(setup->ssl, options, reason));
    else if (!options->server && !setup->pinned &&
             SSL_CTX_set_default_verify_paths(setup->ssl) != 1)
        return ST_CRYPTO;
    set_verify(setup, options);
    if (options->server)
        SSL_CTX_set_client_hello_cb(setup->ssl, on_client_hello, NULL);
    return set_alpn(setup, options->alpn, reason);
}

static enum status setup_new(const struct tls_options *options, struct tls_setup **ret_setup,
                             struct reason *reason)
{
    TRY(options_check(options, reason));
    struct tls_setup *setup = mem_zalloc(sizeof *setup);
    if (setup == NULL)
        return ST_NOMEM;
    setup->refs = 1;
    setup->server = options->server;
    setup->insecure = options->insecure && !options->server;
    setup->alpn_required = options->alpn_required;
    setup->pinned = options->ca_sha256 != NULL && !options->server;
    if (setup->pinned)
        memcpy(setup->ca_sha256, options->ca_sha256, sizeof setup->ca_sha256);
    if (options->peer_uri_start != NULL)
        memcpy(setup->peer_uri_start, options->peer_uri_start, strlen(options->peer_uri_start));
    setup->ssl = SSL_CTX_new(options->server ? TLS_server_method() : TLS_client_method());
    enum status st = setup->ssl != NULL ? setup_fill(setup, options, reason) : ST_NOMEM;
    ERR_clear_error(); /* the failure is in `reason`: leave no error in the queue for a later
                          function */
    if (st == ST_OK)
        *ret_setup = setup;
    else
        tls_setup_unref(setup);
    return st;
}

void tls_setup_unref(struct tls_setup *setup)
{
    if (setup == NULL)
        return;
    lock(&refs_lock);
    ASSERT(setup->refs > 0);
    bool last = --setup->refs == 0;
    unlock(&refs_lock);
    if (last) {
        SSL_CTX_free(setup->ssl);
        mem_free(setup);
    }
}

struct tls_setup *tls_ctx_setup(struct tls_ctx *ctx)
{
    lock(&ctx->lock);
    lock(&refs_lock);
    struct tls_setup *setup = ctx->setup;
    setup->refs++;
    unlock(&refs_lock);
    unlock(&ctx->lock);
    return setup;
}

struct tls_setup *tls_ctx_branch_setup(struct tls_ctx *ctx)
{
    lock(&ctx->lock);
    struct tls_setup *setup = ctx->branch != NULL ? tls_ctx_setup(ctx->branch) : NULL;
    unlock(&ctx->lock);
    return setup;
}

void tls_ctx_branch(struct tls_ctx *ctx, struct tls_ctx *other)
{
    ASSERT(other != ctx);
    ASSERT(other == NULL || (other->branch == NULL && other->setup->alpn_len != 0));
    if (other != NULL)
        other = tls_ctx_ref(other);
    lock(&ctx->lock);
    struct tls_ctx *old = ctx->branch;
    ctx->branch = other;
    unlock(&ctx->lock);
    tls_ctx_unref(old);
}

enum status tls_ctx_new(const struct tls_options *options, struct tls_ctx **ret_ctx,
                        struct reason *reason)
{
    ASSERT(options != NULL && ret_ctx != NULL);
    struct tls_setup *setup;
    TRY(setup_new(options, &setup, reason));
    struct tls_ctx *ctx = mem_zalloc(sizeof *ctx);
    if (ctx == NULL || pthread_mutex_init(&ctx->lock, NULL) != 0) {
        mem_free(ctx);
        tls_setup_unref(setup);
        return ST_NOMEM;
    }
    ctx->setup = setup;
    ctx->refs = 1;
    *ret_ctx = ctx;
    return ST_OK;
}

enum status tls_ctx_reload(struct tls_ctx *ctx, const struct tls_options *options,
                           struct reason *reason)
{
    struct tls_setup *setup;
    ASSERT(ctx != NULL && options != NULL);
    TRY(setup_new(options, &setup, reason));
    lock(&ctx->lock);
    struct tls_setup *old = ctx->setup;
    ASSERT(old->server == setup->server);
    ctx->setup = setup;
    unlock(&ctx->lock);
    tls_setup_unref(old);
    return ST_OK;
}

enum status tls_ctx_not_after(struct tls_ctx *ctx, int64_t *ret_s)
{
    struct tls_setup *setup = tls_ctx_setup(ctx);
    const X509 *cert = SSL_CTX_get0_certificate(setup->ssl);
    struct tm tm;
    enum status st = cert == NULL                                          ? ST_NOT_FOUND
                     : ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) == 1 ? ST_OK
                                                                           : ST_INVALID;
    if (st == ST_OK)
        *ret_s = (int64_t)timegm(&tm);
    ERR_clear_error(); /* the returned status tells the failure */
    tls_setup_unref(setup);
    return st;
}

struct tls_ctx *tls_ctx_ref(struct tls_ctx *ctx)
{
    lock(&ctx->lock);
    ASSERT(ctx->refs > 0);
    ctx->refs++;
    unlock(&ctx->lock);
    return ctx;
}

void tls_ctx_unref(struct tls_ctx *ctx)
{
    if (ctx == NULL)
        return;
    lock(&ctx->lock);
    ASSERT(ctx->refs > 0);
    bool last = --ctx->refs == 0;
    unlock(&ctx->lock);
    if (!last)
        return;
    int err = pthread_mutex_destroy(&ctx->lock);
    ASSERT(err == 0);
    tls_ctx_unref(ctx->branch);
    tls_setup_unref(ctx->setup);
    mem_free(ctx);
}
