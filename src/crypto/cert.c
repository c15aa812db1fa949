#include "crypto/cert.h"
#include "crypto/cert_x509.h"
#include "crypto/crypto.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <time.h>

enum { SERIAL_BYTES = 20, COMMON_NAME_MAX = 64, SAN_TEXT_MAX = 255, PEM_MAX = 64 * 1024 };

const struct record_field cert_pair_fields[2] = {
    RECORD_FIELD(struct cert_pair, cert, BLOCK, .help = "certificate, PEM"),
    RECORD_FIELD(struct cert_pair, key, BLOCK, .secret = true, .help = "private key, PEM"),
};

void cert_pair_done(struct cert_pair *pair)
{
    buf_done(&pair->cert);
    buf_done(&pair->key);
}

static enum status invalid(struct reason *reason, const char *field, const char *what)
{
    reason_set(reason, "certificate %s: %s", field, what);
    return ST_INVALID;
}

/* 159 random bits: positive, and at most the 20 bytes RFC 5280 4.1.2.2 allows. */
static enum status set_serial(X509 *cert)
{
    uint8_t raw[SERIAL_BYTES];
    TRY(crypto_random(raw, sizeof raw));
    raw[0] &= 0x7F;
    raw[0] |= 0x40; /* set a high bit, so that every serial has the same length */
    BIGNUM *number = BN_bin2bn(raw, sizeof raw, NULL);
    bool ok = number != NULL && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL;
    BN_free(number);
    return ok ? ST_OK : ST_NOMEM;
}

static enum status set_subject(X509 *cert, const char *common_name)
{
    X509_NAME *name = X509_get_subject_name(cert);
    return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)common_name,
                                      -1, -1, 0) == 1
               ? ST_OK
               : ST_NOMEM;
}

static enum status set_validity(X509 *cert, const struct cert_request *request)
{
    return ASN1_TIME_set(X509_getm_notBefore(cert), (time_t)request->not_before_s) != NULL &&
                   ASN1_TIME_set(X509_getm_notAfter(cert), (time_t)request->not_after_s) != NULL
               ? ST_OK
               : ST_NOMEM;
}

static enum status add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool ok = extension != NULL && X509_add_ext(cert, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return ok ? ST_OK : ST_CRYPTO;
}

static enum status set_usage(X509 *cert, X509 *issuer, const struct cert_request *request)
{
    const char *extended = request->server && request->client ? "serverAuth,clientAuth"
                           : request->server                  ? "serverAuth"
                                                              : "clientAuth";
    TRY(add_extension(cert, issuer, NID_basic_constraints,
                      request->ca ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE"));
    TRY(add_extension(cert, issuer, NID_key_usage,
                      request->ca ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature"));
    if (request->server || request->client)
        TRY(add_extension(cert, issuer, NID_ext_key_usage, extended));
    TRY(add_extension(cert, issuer, NID_subject_key_identifier, "hash"));
    return add_extension(cert, issuer, NID_authority_key_identifier, "keyid");
}

/* Add a new name that takes `value` to the end of `names`. */
static enum status san_add(GENERAL_NAMES *names, int type, ASN1_STRING *value)
{
    GENERAL_NAME *name = GENERAL_NAME_new();
    if (name == NULL || value == NULL) {
        GENERAL_NAME_free(name);
        ASN1_STRING_free(value);
        return ST_NOMEM;
    }
    GENERAL_NAME_set0_value(name, type, value);
    if (sk_GENERAL_NAME_push(names, name) > 0)
        return ST_OK;
    GENERAL_NAME_free(name);
    return ST_NOMEM;
}

static ASN1_STRING *san_string(int type, const void *data, size_t len)
{
    ASN1_STRING *s = ASN1_STRING_type_new(type);
    if (s != NULL && ASN1_STRING_set(s, data, (int)len) != 1) {
        ASN1_STRING_free(s);
        return NULL;
    }
    return s;
}

static enum status san_one(GENERAL_NAMES *names, const struct cert_san *san)
{
    uint8_t raw[sizeof(struct in6_addr)];
    size_t len = strlen(san->value);
    switch (san->kind) {
    case CERT_SAN_DNS:
        return san_add(names, GEN_DNS, san_string(V_ASN1_IA5STRING, san->value, len));
    case CERT_SAN_URI:
        return san_add(names, GEN_URI, san_string(V_ASN1_IA5STRING, san->value, len));
    case CERT_SAN_IP:
        len = inet_pton(AF_INET, san->value, raw) == 1    ? sizeof(struct in_addr)
              : inet_pton(AF_INET6, san->value, raw) == 1 ? sizeof(struct in6_addr)
                                                          : 0;
        ASSERT(len != 0); /* the caller has refused an empty text */
        return san_add(names, GEN_IPADD, san_string(V_ASN1_OCTET_STRING, raw, len));
    }
    ASSERT(false);
    return ST_INTERNAL;
}

static enum status set_sans(X509 *cert, const struct cert_request *request)
{
    if (request->n_sans == 0)
        return ST_OK;
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    enum status st = names != NULL ? ST_OK : ST_NOMEM;
    for (unsigned i = 0; i < request->n_sans && st == ST_OK; i++)
        st = san_one(names, &request->sans[i]);
    if (st == ST_OK && X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, 0) != 1)
        st = ST_NOMEM;
    GENERAL_NAMES_free(names);
    return st;
}

static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

static bool is_address(const char *text)
{
    uint8_t raw[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, text, raw) == 1 || inet_pton(AF_INET6, text, raw) == 1;
}

static enum status check_san(const struct cert_san *san, struct reason *reason)
{
    if (san->value == NULL || san->value[0] == '\0' || strlen(san->value) > SAN_TEXT_MAX ||
        !is_plain(san->value))
        return invalid(reason, "name", "1 to 255 printable ASCII characters without spaces");
    if (san->kind == CERT_SAN_IP && !is_address(san->value))
        return invalid(reason, "address", "not an IP address");
    return ST_OK;
}

static enum status cert_request_check(const struct cert_request *request, struct reason *reason)
{
    size_t len = request->common_name != NULL ? strlen(request->common_name) : 0;
    if (len == 0 || len > COMMON_NAME_MAX)
        return invalid(reason, "common name", "1 to 64 characters");
    if (request->not_after_s <= request->not_before_s)
        return invalid(reason, "validity", "ends before it begins");
    if (request->n_sans > CERT_SANS_MAX)
        return invalid(reason, "names", "too many");
    for (unsigned i = 0; i < request->n_sans; i++)
        TRY(check_san(&request->sans[i], reason));
    return ST_OK;
}

static enum status take_bio(BIO *bio, struct buf *out)
{
    char *data;
    long len = BIO_get_mem_data(bio, &data);
    ASSERT(len > 0);
    buf_add(out, bytes_of(data, (size_t)len));
    return buf_status(out);
}

static enum status write_cert(X509 *cert, struct buf *out)
{
    BIO *text = BIO_new(BIO_s_mem());
    enum status st = ST_NOMEM;
    if (text != NULL && PEM_write_bio_X509(text, cert) == 1)
        st = take_bio(text, out);
    BIO_free(text);
    return st;
}

static enum status write_key(EVP_PKEY *key, struct buf *out)
{
    BIO *secret = BIO_new(BIO_s_secmem());
    enum status st = ST_NOMEM;
    if (secret != NULL &&
        PEM_write_bio_PKCS8PrivateKey(secret, key, NULL, NULL, 0, NULL, NULL) == 1)
        st = take_bio(secret, out);
    BIO_free(secret); /* also wipes the memory */
    return st;
}

static enum status write_public(EVP_PKEY *key, struct buf *out)
{
    BIO *text = BIO_new(BIO_s_mem());
    enum status st = ST_NOMEM;
    if (text != NULL && PEM_write_bio_PUBKEY(text, key) == 1)
        st = take_bio(text, out);
    BIO_free(text);
    return st;
}

/* Give no password: OpenSSL must not ask for one at the terminal. */
static int no_password(char *out, int room, int rw, void *ctx)
{
    (void)out, (void)room, (void)rw, (void)ctx; /* OpenSSL sets the parameters of this callback */
    return -1;
}

static X509 *read_cert(struct bytes pem)
{
    BIO *bio = BIO_new_mem_buf(pem.data, (int)pem.len);
    X509 *cert = bio != NULL ? PEM_read_bio_X509(bio, NULL, no_password, NULL) : NULL;
    BIO_free(bio);
    return cert;
}

static EVP_PKEY *read_key(struct bytes pem)
{
    BIO *bio = BIO_new_mem_buf(pem.data, (int)pem.len);
    EVP_PKEY *key = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
    BIO_free(bio);
    return key;
}

static EVP_PKEY *read_public(struct bytes pem)
{
    BIO *bio = BIO_new_mem_buf(pem.data, (int)pem.len);
    EVP_PKEY *key = bio != NULL ? PEM_read_bio_PUBKEY(bio, NULL, no_password, NULL) : NULL;
    BIO_free(bio);
    return key;
}

struct making {
    X509 *cert, *issuer;    /* certificate and its issuer; the same if self-signed */
    EVP_PKEY *key, *signer; /* key and signing key; the same if self-signed */
};

static void making_done(struct making *m)
{
    if (m->issuer != m->cert)
        X509_free(m->issuer);
    if (m->signer != m->key)
        EVP_PKEY_free(m->signer);
    X509_free(m->cert);
    EVP_PKEY_free(m->key);
    ERR_clear_error(); /* the returned status tells the failure */
}

static enum status load_issuer(struct making *m, const struct cert_pair *issuer,
                               struct reason *reason)
{
    m->issuer = m->cert;
    m->signer = m->key;
    if (issuer == NULL)
        return ST_OK;
    m->issuer = read_cert(buf_bytes(&issuer->cert));
    m->signer = read_key(buf_bytes(&issuer->key));
    if (m->issuer == NULL || m->signer == NULL)
        return invalid(reason, "issuer", "not a certificate and key in PEM form");
    if (X509_check_private_key(m->issuer, m->signer) != 1 || X509_check_ca(m->issuer) != 1)
        return invalid(reason, "issuer", "not a CA with its own key");
    return ST_OK;
}

static enum status cert_fill(struct making *m, const struct cert_request *request)
{
    if (X509_set_version(m->cert, X509_VERSION_3) != 1 || X509_set_pubkey(m->cert, m->key) != 1)
        return ST_NOMEM;
    TRY(set_serial(m->cert));
    TRY(set_subject(m->cert, request->common_name));
    TRY(set_validity(m->cert, request));
    if (X509_set_issuer_name(m->cert, X509_get_subject_name(m->issuer)) != 1)
        return ST_NOMEM;
    TRY(set_usage(m->cert, m->issuer, request));
    TRY(set_sans(m->cert, request));
    return X509_sign(m->cert, m->signer, EVP_sha256()) > 0 ? ST_OK : ST_CRYPTO;
}

enum status cert_make(const struct cert_request *request, const struct cert_pair *issuer,
                      struct cert_pair *ret_pair, struct reason *reason)
{
    ASSERT(ret_pair->cert.data == NULL && ret_pair->key.data == NULL);
    CLEANUP(making_done) struct making m = {0};
    CLEANUP(cert_pair_done) struct cert_pair made = {0};
    TRY(cert_request_check(request, reason));
    m.cert = X509_new();
    m.key = EVP_EC_gen("P-256");
    if (m.cert == NULL || m.key == NULL)
        return ST_CRYPTO;
    TRY(load_issuer(&m, issuer, reason));
    TRY(cert_fill(&m, request));
    TRY(write_cert(m.cert, &made.cert));
    TRY(write_key(m.key, &made.key));
    *ret_pair = made;
    made = (struct cert_pair){0};
    return ST_OK;
}

enum status cert_sign(const struct cert_request *request, const struct cert_pair *issuer,
                      struct bytes public_pem, struct buf *ret_cert, struct reason *reason)
{
    ASSERT(issuer != NULL && ret_cert->len == 0);
    CLEANUP(making_done) struct making m = {0};
    TRY(cert_request_check(request, reason));
    if (public_pem.len > PEM_MAX)
        return invalid(reason, "public key", "too long");
    m.cert = X509_new();
    m.key = read_public(public_pem);
    if (m.cert == NULL)
        return ST_NOMEM;
    if (m.key == NULL || EVP_PKEY_is_a(m.key, "EC") != 1 || EVP_PKEY_get_bits(m.key) != 256)
        return invalid(reason, "public key", "not one of the curve P-256 in PEM form");
    TRY(load_issuer(&m, issuer, reason));
    TRY(cert_fill(&m, request));
    return write_cert(m.cert, ret_cert);
}

enum status cert_check_ca(const struct cert_pair *pair, struct reason *reason)
{
    CLEANUP(making_done) struct making m = {0};
    if (pair->cert.len > PEM_MAX || pair->key.len > PEM_MAX)
        return invalid(reason, "issuer", "too long");
    return load_issuer(&m, pair, reason);
}

enum status cert_key_make(struct buf *ret_key, struct buf *ret_public)
{
    ASSERT(ret_key->len == 0 && ret_public->len == 0);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    enum status st = key != NULL ? write_key(key, ret_key) : ST_CRYPTO;
    if (st == ST_OK)
        st = write_public(key, ret_public);
    EVP_PKEY_free(key);
    ERR_clear_error(); /* the returned status tells the failure */
    return st;
}

enum status cert_key_public(struct bytes key_pem, struct buf *ret_public)
{
    EVP_PKEY *key = key_pem.len <= PEM_MAX ? read_key(key_pem) : NULL;
    enum status st = key != NULL ? write_public(key, ret_public) : ST_INVALID;
    EVP_PKEY_free(key);
    ERR_clear_error(); /* the returned status tells the failure */
    return st;
}

enum status cert_public_fingerprint(struct bytes public_pem, uint8_t ret_sha256[32])
{
    uint8_t *der = NULL;
    unsigned len = 0;
    EVP_PKEY *key = public_pem.len <= PEM_MAX ? read_public(public_pem) : NULL;
    int n = key != NULL ? i2d_PUBKEY(key, &der) : 0;
    bool ok = n > 0 && EVP_Digest(der, (size_t)n, ret_sha256, &len, EVP_sha256(), NULL) == 1;
    OPENSSL_free(der);
    EVP_PKEY_free(key);
    ERR_clear_error(); /* the returned status tells the failure */
    return ok ? ST_OK : ST_INVALID;
}

enum status cert_matches(struct bytes cert_pem, struct bytes ca_pem, struct bytes public_pem)
{
    if (cert_pem.len > PEM_MAX || ca_pem.len > PEM_MAX || public_pem.len > PEM_MAX)
        return ST_INVALID;
    X509 *cert = read_cert(cert_pem), *ca = read_cert(ca_pem);
    EVP_PKEY *key = read_public(public_pem);
    bool ok = cert != NULL && ca != NULL && key != NULL &&
              X509_verify(cert, X509_get0_pubkey(ca)) == 1 &&
              EVP_PKEY_eq(X509_get0_pubkey(cert), key) == 1;
    X509_free(cert);
    X509_free(ca);
    EVP_PKEY_free(key);
    ERR_clear_error(); /* the returned status tells the failure */
    return ok ? ST_OK : ST_INVALID;
}

enum status cert_fingerprint(struct bytes pem, uint8_t ret_sha256[32])
{
    X509 *cert = read_cert(pem);
    unsigned len = 0;
    bool ok = cert != NULL && X509_digest(cert, EVP_sha256(), ret_sha256, &len) == 1;
    X509_free(cert);
    ERR_clear_error(); /* the returned status tells the failure */
    return ok ? ST_OK : ST_INVALID;
}

static enum status time_of(struct bytes pem, const ASN1_TIME *(*get)(const X509 *cert),
                           int64_t *ret_s)
{
    X509 *cert = read_cert(pem);
    struct tm tm;
    bool ok = cert != NULL && ASN1_TIME_to_tm(get(cert), &tm) == 1;
    X509_free(cert);
    ERR_clear_error(); /* the returned status tells the failure */
    if (!ok)
        return ST_INVALID;
    *ret_s = (int64_t)timegm(&tm);
    return ST_OK;
}

enum status cert_not_after(struct bytes pem, int64_t *ret_s)
{
    return time_of(pem, X509_get0_notAfter, ret_s);
}

enum status cert_not_before(struct bytes pem, int64_t *ret_s)
{
    return time_of(pem, X509_get0_notBefore, ret_s);
}

enum status cert_x509_uri(const X509 *cert, char ret_uri[CERT_URI_MAX])
{
    char found[CERT_URI_MAX] = "";
    unsigned n = 0;
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; names != NULL && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type != GEN_URI)
            continue;
        struct bytes text = bytes_of(ASN1_STRING_get0_data(name->d.uniformResourceIdentifier),
                                     (size_t)ASN1_STRING_length(name->d.uniformResourceIdentifier));
        n++;
        /* Refuse a zero byte inside a name: software that reads C strings would see another name.
         */
        if (text.len == 0 || text.len >= CERT_URI_MAX || memchr(text.data, 0, text.len) != NULL)
            n++;
        else
            (void)snprintf(found, sizeof found, "%.*s", (int)text.len, (const char *)text.data);
    }
    GENERAL_NAMES_free(names);
    if (n != 1)
        return ST_INVALID;
    memcpy(ret_uri, found, sizeof found);
    return ST_OK;
}

enum status cert_uri(struct bytes pem, char ret_uri[CERT_URI_MAX])
{
    X509 *cert = read_cert(pem);
    enum status st = cert != NULL ? cert_x509_uri(cert, ret_uri) : ST_INVALID;
    X509_free(cert);
    ERR_clear_error(); /* the returned status tells the failure */
    return st;
}
