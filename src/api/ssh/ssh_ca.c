/* The key that signs certificates: made here, or given by an operator. */
#include "api/ssh/ssh.h"
#include "base/record.h"

static const struct record_field ca_record_fields[] = {
    RECORD_FIELD(struct ssh_ca, public_key, BLOCK, .min = 1, .max = SSH_LINE_MAX,
                 .help = "public key as SSH sends it"),
    RECORD_FIELD(struct ssh_ca, private_key, BLOCK, .min = 1, .max = SSH_PRIVATE_MAX,
                 .secret = true, .help = "private key, PKCS #8 in the DER form"),
};
static const struct record ssh_ca_record = {
    RECORD(struct ssh_ca, ca_record_fields), .name = "ssh/ca",
    .where = "The key `ca` below the data of a mount of the type ssh", .newest = 1};
RECORD_LISTED(ssh_ca_record);

struct ca_in {
    const char *private_key, *public_key, *key_type;
    bool generate_signing_key, has_generate;
    int64_t key_bits;
};
static const struct field ca_in_fields[] = {
    FIELD(struct ca_in, private_key, STRING, .preset = "", .hidden = true,
          .help = "Private key in PEM form, without a passphrase: OpenSSH, PKCS #1, PKCS #8 or "
                  "SEC 1."),
    FIELD(struct ca_in, public_key, STRING, .preset = "", .help = "Its public half, a line."),
    FIELD(struct ca_in, generate_signing_key, BOOL, .preset = "true",
          .has = offsetof(struct ca_in, has_generate),
          .help = "Make a new key. Unset: true without keys, false with both keys."),
    FIELD(struct ca_in, key_type, STRING, .preset = "ssh-rsa",
          .help = "Type of a new key: ssh-rsa, ecdsa-sha2-nistp256, ecdsa-sha2-nistp384, "
                  "ecdsa-sha2-nistp521, ssh-ed25519; or rsa, ec, ed25519."),
    FIELD(struct ca_in, key_bits, INT, .preset = "0",
          .help = "Length of a new key. rsa: 2048, 3072 or 4096; ec: 256, 384 or 521. 0: 4096, "
                  "256."),
};
static const struct schema ca_in_schema = SCHEMA(struct ca_in, ca_in_fields);

struct ca_out {
    struct bytes public_key;
};
static const struct field ca_out_fields[] = {
    FIELD(struct ca_out, public_key, BYTES, .help = "The public key, for TrustedUserCAKeys."),
};
static const struct schema ca_public_schema = SCHEMA(struct ca_out, ca_out_fields);

static enum status ca_key(struct req *req, struct bytes *ret_key)
{
    return req_key(req, "ca", ret_key);
}

enum status ssh_ca_load(struct req *req, struct ssh_ca *ret_ca)
{
    struct bytes key;
    struct state_value stored;
    TRY(ca_key(req, &key));
    TRY(state_get(req->txn, key, &stored));
    return record_decode(&ssh_ca_record, stored.value, req->arena, ret_ca);
}

static enum status ca_exists(struct req *req)
{
    struct bytes key;
    TRY(ca_key(req, &key));
    return state_exists(req->txn, key);
}

/* The kind of a type's name where the name says it; `ec` needs the bits. */
static bool find_made_kind(const char *type, int64_t bits, enum ssh_kind *ret_kind)
{
    static const struct {
        const char *type;
        int64_t bits; /* 0: any */
        enum ssh_kind kind;
    } types[] = {
        {"ssh-rsa", 0, SSH_RSA},
        {"rsa", 0, SSH_RSA},
        {"ecdsa-sha2-nistp256", 0, SSH_ECDSA_256},
        {"ecdsa-sha2-nistp384", 0, SSH_ECDSA_384},
        {"ecdsa-sha2-nistp521", 0, SSH_ECDSA_521},
        {"ec", 256, SSH_ECDSA_256},
        {"ec", 384, SSH_ECDSA_384},
        {"ec", 521, SSH_ECDSA_521},
        {"ssh-ed25519", 0, SSH_ED25519},
        {"ed25519", 0, SSH_ED25519},
    };
    if (strcmp(type, "ec") == 0 && bits == 0)
        bits = 256;
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (strcmp(types[i].type, type) != 0 || (types[i].bits != 0 && types[i].bits != bits))
            continue;
        *ret_kind = types[i].kind;
        return true;
    }
    return false;
}

static int64_t bits_of_kind(enum ssh_kind kind)
{
    return kind == SSH_ECDSA_384 ? 384 : kind == SSH_ECDSA_521 ? 521 : 256;
}

enum status ssh_make_parse(struct req *req, const char *type, int64_t bits, unsigned rsa_bits,
                           struct ssh_make *ret_make)
{
    enum ssh_kind kind;
    if (!find_made_kind(type, 256, &kind))
        return req_fail(req, ST_INVALID, "key_type: \"%.80s\" is no type of a key that is made",
                        type);
    if (!find_made_kind(type, bits, &kind))
        return req_fail(req, ST_INVALID, "key_bits: 256, 384 or 521 are expected for ec");
    if (kind == SSH_ED25519 && ssh_settings()->fips)
        return req_fail(req, ST_INVALID, "key_type: ed25519 is not allowed in FIPS mode");
    if (kind == SSH_RSA) {
        bits = bits != 0 ? bits : rsa_bits;
        if (bits != 2048 && bits != 3072 && bits != 4096)
            return req_fail(req, ST_INVALID, "key_bits: 2048, 3072 or 4096 are expected for rsa");
        *ret_make = (struct ssh_make){kind, (unsigned)bits};
        return ST_OK;
    }
    if (bits != 0 && bits != bits_of_kind(kind))
        return req_fail(req, ST_INVALID, "key_bits: %lld does not fit the type %s", (long long)bits,
                        ssh_kind_name(kind));
    *ret_make = (struct ssh_make){kind, (unsigned)bits_of_kind(kind)};
    return ST_OK;
}

/* Read a pair that an operator gave, and check that its halves fit. */
static enum status import_pair(struct req *req, const struct ca_in *in, struct ssh_private *key)
{
    CLEANUP(buf_done) struct buf blob = {0};
    struct ssh_public public_key;
    struct reason why;
    enum status st = ssh_public_parse(req->arena, bytes_str(in->public_key), &public_key, &why);
    if (st == ST_INVALID)
        return req_fail(req, st, "public_key: %s", why.text);
    TRY(st);
    st = ssh_private_parse(bytes_str(in->private_key), key, &why);
    if (st == ST_INVALID)
        return req_fail(req, st, "private_key: %s", why.text);
    TRY(st);
    if (key->kind == SSH_ED25519 && ssh_settings()->fips)
        return req_fail(req, ST_INVALID, "private_key: ed25519 is not allowed in FIPS mode");
    TRY(ssh_private_public(key, &blob));
    if (!bytes_eq(buf_bytes(&blob), public_key.blob))
        return req_fail(req, ST_INVALID, "public_key: it is not the public half of private_key");
    return ST_OK;
}

static bool ca_generates(const struct ca_in *in)
{
    bool given = in->private_key[0] != '\0' || in->public_key[0] != '\0';
    return in->has_generate ? in->generate_signing_key : !given;
}

static enum status keep_pair(struct req *req, const struct ssh_private *key)
{
    CLEANUP(buf_done) struct buf blob = {0};
    CLEANUP(buf_done) struct buf saved = {0};
    TRY(ssh_private_public(key, &blob));
    TRY(ssh_private_save(key, &saved));
    struct ssh_ca *ca = arena_alloc(req->arena, sizeof *ca);
    if (ca == NULL)
        return ST_NOMEM;
    *ca = (struct ssh_ca){.public_key = bytes_of(arena_dup(req->arena, buf_bytes(&blob)), blob.len),
                          .private_key =
                              bytes_of(arena_dup(req->arena, buf_bytes(&saved)), saved.len)};
    req->prepared = ca;
    return ca->public_key.data != NULL && ca->private_key.data != NULL ? ST_OK : ST_NOMEM;
}

/* The pair is made or read on the pool: RSA takes long. */
static enum status ca_prepare(struct req *req)
{
    CLEANUP(ssh_private_done) struct ssh_private key = {0};
    const struct ca_in *in = req_body(req);
    struct ssh_make make;
    bool has_private = in->private_key[0] != '\0', has_public = in->public_key[0] != '\0';
    if (ca_generates(in) && (has_private || has_public))
        return req_fail(req, ST_INVALID,
                        "public_key and private_key must not be set when generate_signing_key is "
                        "true");
    if (ca_generates(in)) {
        TRY(ssh_make_parse(req, in->key_type, in->key_bits, 4096, &make));
        TRY(ssh_private_make(make.kind, make.bits, &key));
        return keep_pair(req, &key);
    }
    if (!has_private || !has_public)
        return req_fail(req, ST_INVALID,
                        "%s: missing; public_key and private_key are needed "
                        "when generate_signing_key is false",
                        has_private ? "public_key" : "private_key");
    TRY(import_pair(req, in, &key));
    return keep_pair(req, &key);
}

static enum status reply_public(struct req *req, const struct ssh_ca *ca)
{
    CLEANUP(buf_done) struct buf line = {0};
    TRY(ssh_public_line(ca->public_key, &line));
    buf_add_u8(&line, '\n');
    TRY(buf_status(&line));
    const struct ca_out out = {buf_bytes(&line)};
    return req_reply(req, &out);
}

static enum status ca_write(struct req *req)
{
    CLEANUP(buf_done) struct buf record = {0};
    const struct ssh_ca *ca = req->prepared;
    struct bytes key;
    ASSERT(ca != NULL);
    TRY(ca_key(req, &key));
    TRY(record_encode(&ssh_ca_record, ca, &record));
    TRY(state_put(req->txn, key, buf_bytes(&record)));
    return ca_generates(req_body(req)) ? reply_public(req, ca) : ST_OK;
}

static enum status ca_read(struct req *req)
{
    struct ssh_ca ca;
    enum status st = ssh_ca_load(req, &ca);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "keys haven't been configured yet");
    TRY(st);
    return reply_public(req, &ca);
}

static enum status ca_delete(struct req *req)
{
    struct bytes key;
    TRY(ca_key(req, &key));
    return state_delete(req->txn, key);
}

static enum status public_read(struct req *req)
{
    CLEANUP(buf_done) struct buf line = {0};
    struct ssh_ca ca;
    TRY(ssh_ca_load(req, &ca));
    TRY(ssh_public_line(ca.public_key, &line));
    buf_add_u8(&line, '\n');
    TRY(buf_status(&line));
    return req_reply_raw(req, "text/plain", buf_bytes(&line));
}

static const struct route ca_routes[] = {
    {.method = METHOD_POST,
     .path = "config/ca",
     .handler = ca_write,
     .exists = ca_exists,
     .prepare = ca_prepare,
     .is_slow = true,
     .body = &ca_in_schema,
     .reply = &ca_public_schema,
     .statuses = "200 204",
     .help = "Set the key that signs certificates, which replaces the former one: a new key, whose "
             "public half is the reply, or the given pair, with status 204."},
    {.method = METHOD_GET,
     .path = "config/ca",
     .handler = ca_read,
     .reply = &ca_public_schema,
     .help = "The public half of the key that signs certificates."},
    {.method = METHOD_DELETE,
     .path = "config/ca",
     .handler = ca_delete,
     .help = "Delete the key that signs certificates. Certificates that it signed stay valid."},
    {.method = METHOD_GET,
     .path = "public_key",
     .handler = public_read,
     .who = WHO_ANYONE,
     .shape = "text", /* no JSON: one line */
     .help = "The public half of the key that signs certificates, as a line for TrustedUserCAKeys. "
             "Needs no token."},
};
const struct route_table ssh_ca_table = {ca_routes, ARRAY_LEN(ca_routes)};
