/* Certificates and keys as operators and peers give them. The first byte says what the rest is: PEM
 * text, or bytes in DER that are put between the lines of a PEM form, so that a fuzzer gets past
 * the base64. Nothing fails badly; the readers agree whether a certificate can be read; a public
 * key that is taken gets a certificate for itself; and no certificate of an input is taken for one
 * that our authority signed. */
#include "crypto/cert.h"
#include "crypto/crypto.h"
#include "crypto/tls.h"
#include "text/encode.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NOW_S = 1730000000, DER_MAX = 8192 };

static const char *const kinds[] = {
    NULL,
    "CERTIFICATE",
    "PRIVATE KEY",
    "PUBLIC KEY",
    "EC PRIVATE KEY",
    "ENCRYPTED PRIVATE KEY",
    "RSA PRIVATE KEY",
    "TRUSTED CERTIFICATE",
};

static struct cert_pair authority;
static struct buf our_public;
static const struct cert_san names[] = {{CERT_SAN_DNS, "localhost"},
                                        {CERT_SAN_URI, "holdfast://c/node/n"}};
static const struct cert_request request = {.common_name = "node",
                                            .sans = names,
                                            .n_sans = ARRAY_LEN(names),
                                            .not_before_s = NOW_S,
                                            .not_after_s = NOW_S + 3600,
                                            .server = true};

static void set_up(void)
{
    const struct cert_request ca = {
        .common_name = "authority", .not_before_s = 0, .not_after_s = 4102444800, .ca = true};
    struct reason why;
    ASSERT(crypto_init(NULL) == ST_OK);
    ASSERT(cert_make(&ca, NULL, &authority, &why) == ST_OK);
    ASSERT(cert_key_public(buf_bytes(&authority.key), &our_public) == ST_OK);
    ASSERT(cert_check_ca(&authority, &why) == ST_OK);
}

/* Base64 lines between the marks of the kind. */
static void put_pem(struct buf *out, const char *kind, struct bytes der)
{
    enum { LINE = 48 };
    buf_add_format(out, "-----BEGIN %s-----\n", kind);
    for (size_t at = 0; at < der.len; at += LINE) {
        char line[TEXT_BASE64_LEN(LINE) + 1];
        size_t n = MIN(der.len - at, (size_t)LINE);
        (void)text_base64_put(bytes_of(der.data + at, n), TEXT_BASE64, line); /* length is known */
        buf_add_format(out, "%s\n", line);
    }
    buf_add_format(out, "-----END %s-----\n", kind);
}

static void as_certificate(struct bytes pem)
{
    uint8_t sha256[32];
    char uri[CERT_URI_MAX] = "";
    int64_t from_s = 0, to_s = 0;
    bool is = cert_fingerprint(pem, sha256) == ST_OK;
    enum status uri_st = cert_uri(pem, uri);
    enum status from_st = cert_not_before(pem, &from_s), to_st = cert_not_after(pem, &to_s);
    ASSERT(uri_st == ST_INVALID || (uri_st == ST_OK && is && uri[0] != '\0'));
    ASSERT(strnlen(uri, sizeof uri) < sizeof uri);
    ASSERT(from_st == ST_INVALID || (from_st == ST_OK && is));
    ASSERT(to_st == ST_INVALID || (to_st == ST_OK && is));
    ASSERT(cert_matches(pem, buf_bytes(&authority.cert), buf_bytes(&our_public)) == ST_INVALID);
    ASSERT(cert_matches(buf_bytes(&authority.cert), pem, buf_bytes(&our_public)) == ST_INVALID);
}

/* A key from outside is certified only if all its later readers can read it. */
static void as_public_key(struct bytes pem)
{
    CLEANUP(buf_done) struct buf cert = {0};
    struct reason why = {{0}};
    uint8_t sha256[32];
    char uri[CERT_URI_MAX];
    int64_t end_s;
    bool is = cert_public_fingerprint(pem, sha256) == ST_OK;
    enum status st = cert_sign(&request, &authority, pem, &cert, &why);
    if (st != ST_OK) {
        ASSERT(st == ST_INVALID && why.text[0] != '\0');
        return;
    }
    ASSERT(is && cert_matches(buf_bytes(&cert), buf_bytes(&authority.cert), pem) == ST_OK);
    ASSERT(cert_uri(buf_bytes(&cert), uri) == ST_OK && strcmp(uri, names[1].value) == 0);
    ASSERT(cert_not_after(buf_bytes(&cert), &end_s) == ST_OK && end_s == request.not_after_s);
}

static void as_private_key(struct bytes pem)
{
    CLEANUP(buf_done) struct buf public = {0};
    uint8_t sha256[32];
    enum status st = cert_key_public(pem, &public);
    ASSERT(st == ST_OK || st == ST_INVALID);
    if (st == ST_OK)
        ASSERT(cert_public_fingerprint(buf_bytes(&public), sha256) == ST_OK);
}

/* Certificate and key in one text, and the certificate of our authority with another's key. */
static void as_pair(struct bytes pem)
{
    CLEANUP(cert_pair_done) struct cert_pair both = {0};
    CLEANUP(cert_pair_done) struct cert_pair ours = {0};
    CLEANUP(cert_pair_done) struct cert_pair made = {0};
    struct reason why = {{0}};
    buf_add(&both.cert, pem);
    buf_add(&both.key, pem);
    buf_add(&ours.cert, buf_bytes(&authority.cert));
    buf_add(&ours.key, pem);
    enum status st = cert_check_ca(&both, &why);
    ASSERT(st == ST_OK || (st == ST_INVALID && why.text[0] != '\0'));
    ASSERT(cert_check_ca(&ours, &why) == ST_INVALID);
    ASSERT(cert_make(&request, &ours, &made, &why) == ST_INVALID);
}

static void as_options(struct bytes pem)
{
    struct reason why = {{0}};
    struct tls_ctx *ctx = NULL;
    const struct tls_pem text = {.text = pem}, cert = {.text = buf_bytes(&authority.cert)};
    const struct tls_options all[] = {
        {.server = true, .cert = text, .key = text},
        {.server = true, .cert = cert, .key = text},
        {.ca = text},
        {.server = true,
         .client_cert = TLS_CLIENT_CERT_REQUIRED,
         .cert = cert,
         .key = {.text = buf_bytes(&authority.key)},
         .ca = text},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        enum status st = tls_ctx_new(&all[i], &ctx, &why);
        ASSERT(st == ST_OK || (st == ST_INVALID && why.text[0] != '\0'));
        ASSERT(i != 1 || st == ST_INVALID); /* the key is another one */
        if (st == ST_OK)
            tls_ctx_unref(ctx);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(buf_done) struct buf text = {0};
    if (authority.cert.len == 0)
        set_up();
    if (size < 2 || size > DER_MAX)
        return 0;
    struct bytes rest = bytes_of(data + 1, size - 1);
    const char *kind = kinds[data[0] % ARRAY_LEN(kinds)];
    if (kind != NULL)
        put_pem(&text, kind, rest);
    else
        buf_add(&text, rest);
    as_certificate(buf_bytes(&text));
    as_public_key(buf_bytes(&text));
    as_private_key(buf_bytes(&text));
    as_pair(buf_bytes(&text));
    as_options(buf_bytes(&text));
    return 0;
}
