#include "barrier/seal.h"
#include "barrier/seal_record.h"

#include "base/mem.h"
#include "base/record.h"
#include "crypto/hmac.h"
#include "crypto/key_file.h"
#include "text/encode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TEXT_MAX = 128 }; /* longest text of a key file */

void seal_done(struct seal *seal)
{
    secret_done(&seal->key);
    *seal = (struct seal){0};
}

static bool key_parse(struct bytes given, uint8_t out[SEAL_KEY_BYTES])
{
    if (given.len == SEAL_KEY_BYTES) {
        memcpy(out, given.data, SEAL_KEY_BYTES);
        return true;
    }
    if (given.len > 0 && given.data[given.len - 1] == '\n')
        given.len--;
    if (given.len == TEXT_HEX_LEN(SEAL_KEY_BYTES))
        return text_hex_parse(given, out) == ST_OK;
    uint8_t raw[TEXT_BASE64_BYTES(TEXT_BASE64_LEN(SEAL_KEY_BYTES))];
    size_t n = 0;
    bool fits = given.len == TEXT_BASE64_LEN(SEAL_KEY_BYTES) &&
                text_base64_parse(given, raw, &n) == ST_OK && n == SEAL_KEY_BYTES;
    if (fits)
        memcpy(out, raw, SEAL_KEY_BYTES);
    mem_wipe(raw, sizeof raw);
    return fits;
}

static bool id_valid(const char *id)
{
    size_t n = strlen(id);
    if (n == 0 || n > SEAL_ID_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        if (id[i] < 0x21 || id[i] > 0x7E)
            return false;
    return true;
}

/* The id of a key: different for different keys, and without a hint to the key. */
static enum status derive_id(struct bytes key, char ret_id[SEAL_ID_MAX + 1])
{
    struct hmac *h = NULL;
    uint8_t mac[HMAC_BYTES];

    TRY(hmac_new(key, &h));
    enum status st = hmac_run(h, BYTES("holdfast static seal id"), mac);
    hmac_free(h);
    if (st != ST_OK)
        return st;
    int n = snprintf(ret_id, SEAL_ID_MAX + 1, "static-");
    for (size_t i = 0; i < 8; i++)
        n += snprintf(ret_id + n, (size_t)(SEAL_ID_MAX + 1 - n), "%02x", mac[i]);
    ASSERT(n == 7 + 16);
    return ST_OK;
}

const struct seal *seal_named(const struct seal *seal, const char *id)
{
    for (; seal != NULL; seal = seal->previous)
        if (strcmp(seal->id, id) == 0)
            return seal;
    return NULL;
}

enum status seal_mark(const struct seal *seal, uint8_t ret_mark[SEAL_MARK_BYTES])
{
    CLEANUP(buf_done) struct buf text = {0};
    struct hmac *h = NULL;
    uint8_t mac[HMAC_BYTES];

    ASSERT(seal->type == SEAL_STATIC && seal->key.len == SEAL_KEY_BYTES);
    buf_add_str(&text, "holdfast static seal mark");
    buf_add_block(&text, bytes_str(seal->id));
    TRY(buf_status(&text));
    TRY(hmac_new(secret_bytes(&seal->key), &h));
    enum status st = hmac_run(h, buf_bytes(&text), mac);
    hmac_free(h);
    if (st == ST_OK)
        memcpy(ret_mark, mac, SEAL_MARK_BYTES);
    return st;
}

static enum status key_set(struct bytes raw, const char *id, struct seal *ret_seal)
{
    struct seal seal = {.type = SEAL_STATIC};
    ASSERT(raw.len == SEAL_KEY_BYTES);
    ASSERT(id == NULL || id_valid(id));
    if (id != NULL)
        memcpy(seal.id, id, strlen(id));
    else
        TRY(derive_id(raw, seal.id));
    TRY(secret_dup(raw, &seal.key));
    *ret_seal = seal;
    return ST_OK;
}

enum status seal_shamir(struct bytes key, unsigned shares, unsigned threshold,
                        struct seal *ret_seal)
{
    ASSERT(key.len == SEAL_KEY_BYTES && threshold <= shares && shares <= UINT8_MAX);
    struct seal seal = {.type = SEAL_SHAMIR,
                        .id = "shamir",
                        .shares = (uint8_t)shares,
                        .threshold = (uint8_t)threshold};
    TRY(secret_dup(key, &seal.key));
    *ret_seal = seal;
    return ST_OK;
}

enum status seal_static(struct bytes key, const char *id, struct seal *ret_seal,
                        struct reason *reason)
{
    uint8_t raw[SEAL_KEY_BYTES];
    enum status st = ST_INVALID;

    if (id != NULL && !id_valid(id))
        reason_set(reason,
                   "the key id of a static seal is 1 to %d printable characters without "
                   "spaces",
                   SEAL_ID_MAX);
    else if (!key_parse(key, raw))
        reason_set(reason,
                   "a static seal key is 32 raw bytes, 64 hex digits or 44 characters of "
                   "base64; this one has %zu bytes of none of these forms",
                   key.len);
    else
        st = key_set(bytes_of(raw, sizeof raw), id, ret_seal);
    mem_wipe(raw, sizeof raw);
    return st;
}

/* Read at most `room` bytes. The caller sees from the length that a file is too long. */
static enum status read_text(int fd, const char *path, uint8_t *out, size_t room, size_t *ret_n,
                             struct reason *reason)
{
    size_t n = 0;
    while (n < room) {
        ssize_t got = read(fd, out + n, room - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            reason_set(reason, "%s: %s", path, strerrordesc_np(errno));
            return ST_IO;
        }
        if (got == 0)
            break;
        n += (size_t)got;
    }
    *ret_n = n;
    return ST_OK;
}

enum status seal_static_file(const char *path, const char *id, struct seal *ret_seal,
                             struct reason *reason)
{
    uint8_t text[TEXT_MAX];
    size_t n = 0;
    int fd = -1;

    TRY(key_file_open(path, &fd, reason));
    enum status st = read_text(fd, path, text, sizeof text, &n, reason);
    if (st == ST_OK) {
        struct reason why = {0};
        st = seal_static(bytes_of(text, n), id, ret_seal, &why);
        if (st != ST_OK)
            reason_set(reason, "%.100s: %.150s", path,
                       why.text[0] != '\0' ? why.text : status_text(st));
    }
    mem_wipe(text, sizeof text);
    (void)close(fd); /* the file was only read */
    return st;
}

/* For a node that is started without systemd: read the key file from the folder that the systemd
 * unit loads its credential from. */
static enum status from_folder(const char *name, const char *config_file, const char *id,
                               struct seal *ret_seal, struct reason *reason)
{
    char path[4096];
    struct reason why = {{0}};
    const char *slash = strrchr(config_file, '/');
    int folder = slash != NULL ? (int)(slash - config_file) + 1 : 0;
    if (snprintf(path, sizeof path, "%.*scredentials/%s", folder, config_file, name) >=
        (int)sizeof path) {
        reason_set(reason, "credential: the path of the configuration is too long");
        return ST_INVALID;
    }
    enum status st = seal_static_file(path, id, ret_seal, &why);
    if (st != ST_OK)
        reason_set(reason,
                   "credential: %.120s, and CREDENTIALS_DIRECTORY is not set; set it to the folder "
                   "with the key, or give key_file",
                   why.text);
    return st;
}

enum status seal_static_credential(const char *name, const char *config_file, const char *id,
                                   struct seal *ret_seal, struct reason *reason)
{
    char path[4096];
    const char *dir = getenv("CREDENTIALS_DIRECTORY");

    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL) {
        reason_set(reason, "not the name of a systemd credential: %.100s", name);
        return ST_INVALID;
    }
    if (dir == NULL || dir[0] != '/')
        return from_folder(name, config_file, id, ret_seal, reason);
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path) {
        reason_set(reason, "CREDENTIALS_DIRECTORY: the path is too long");
        return ST_INVALID;
    }
    return seal_static_file(path, id, ret_seal, reason);
}

enum { SEALED_BYTES = AEAD_NONCE_BYTES + SEAL_KEY_BYTES + AEAD_TAG_BYTES };

/* A stored seal. The fields before the nonce are authenticated. */
struct wrapped {
    struct seal_info info;
    uint8_t nonce[AEAD_NONCE_BYTES], cipher[SEAL_KEY_BYTES], tag[AEAD_TAG_BYTES];
};

static bool counts_valid(const void *from)
{
    const struct seal_info *info = &((const struct wrapped *)from)->info;
    if (info->threshold > info->shares || (info->shares > 1 && info->threshold < 2))
        return false;
    return info->type == SEAL_STATIC || info->threshold > 0;
}

static const struct record_field wrapped_fields[] = {
    RECORD_NAMED("type", struct wrapped, info.type, U8, .min = SEAL_STATIC, .max = SEAL_SHAMIR,
                 .help = "1 static, 2 key shares"),
    RECORD_NAMED("id", struct wrapped, info.id, TEXT, .help = "id of the seal's key"),
    RECORD_NAMED("shares", struct wrapped, info.shares, U8, .since = 2),
    RECORD_NAMED("threshold", struct wrapped, info.threshold, U8, .since = 2),
    RECORD_FIELD(struct wrapped, nonce, FIXED),
    RECORD_FIELD(struct wrapped, cipher, FIXED, .secret = true, .help = "the root key, encrypted"),
    RECORD_FIELD(struct wrapped, tag, FIXED),
};
static const struct record wrapped_record = {RECORD(struct wrapped, wrapped_fields),
                                             .name = "seal/root-key",
                                             .key = BARRIER_SEAL,
                                             .oldest = SEAL_RECORD_STATIC_ONLY,
                                             .least = SEAL_RECORD_VERSION,
                                             .newest = SEAL_RECORD_VERSION,
                                             .raw = true,
                                             .valid = counts_valid};
RECORD_LISTED(wrapped_record);

enum status seal_wrap(const struct seal *seal, struct env *env, const struct secret *root,
                      struct buf *out)
{
    struct aead *a = NULL;
    size_t start = out->len;
    struct wrapped wrapped = {
        .info = {.type = seal->type, .shares = seal->shares, .threshold = seal->threshold}};

    ASSERT(root->len == SEAL_KEY_BYTES && seal->key.len == SEAL_KEY_BYTES);
    ASSERT(seal->type == SEAL_STATIC || seal->type == SEAL_SHAMIR);
    ASSERT(id_valid(seal->id));
    ASSERT(seal->threshold <= seal->shares);
    memcpy(wrapped.info.id, seal->id, strlen(seal->id));
    TRY(record_encode(&wrapped_record, &wrapped, out)); /* the sealed part is filled in below */
    size_t header = out->len - start - SEALED_BYTES;
    uint8_t *at = out->data + start + header;
    env_random(env, at, AEAD_NONCE_BYTES);
    TRY(aead_new(secret_bytes(&seal->key), &a));
    enum status st = aead_seal(a, at, bytes_of(out->data + start, header), secret_bytes(root),
                               at + AEAD_NONCE_BYTES, at + AEAD_NONCE_BYTES + SEAL_KEY_BYTES);
    aead_free(a);
    return st;
}

static enum status root_open(const struct seal *seal, struct bytes header,
                             const struct wrapped *wrapped, struct secret *ret_root)
{
    struct aead *a = NULL;
    struct secret root = {0};

    TRY(aead_new(secret_bytes(&seal->key), &a));
    enum status st = secret_new(SEAL_KEY_BYTES, &root);
    if (st == ST_OK)
        st = aead_open(a, wrapped->nonce, header, bytes_of(wrapped->cipher, SEAL_KEY_BYTES),
                       wrapped->tag, root.data);
    aead_free(a);
    if (st == ST_OK)
        *ret_root = root;
    else
        secret_done(&root);
    return st;
}

enum status seal_info_read(struct bytes stored, struct seal_info *ret_info)
{
    struct wrapped wrapped = {0};
    TRY(record_decode(&wrapped_record, stored, NULL, &wrapped));
    *ret_info = wrapped.info;
    /* the hash is unique: the record has a random nonce and a tag */
    ret_info->stamp = bytes_hash(stored);
    return ST_OK;
}

enum status seal_unwrap(const struct seal *seal, struct bytes stored, struct secret *ret_root,
                        struct reason *reason)
{
    struct wrapped wrapped = {0};

    if (record_decode(&wrapped_record, stored, NULL, &wrapped) != ST_OK) {
        reason_set(reason, "the stored seal is damaged, or of a newer version of the program");
        return ST_CORRUPT;
    }
    if (wrapped.info.type != seal->type) {
        reason_set(reason, wrapped.info.type == SEAL_SHAMIR
                               ? "the root key is wrapped by key shares, not by a seal key"
                               : "the root key is wrapped by a seal key, not by key shares");
        return ST_INVALID;
    }
    const struct seal *key = seal_named(seal, wrapped.info.id);
    if (key == NULL) {
        reason_set(reason, "the root key is wrapped by the seal key '%s', this node has '%s'",
                   wrapped.info.id, seal->id);
        return ST_INVALID;
    }
    const struct bytes header = bytes_of(stored.data, stored.len - SEALED_BYTES);
    enum status st = root_open(key, header, &wrapped, ret_root);
    if (st == ST_CORRUPT) {
        reason_set(reason, "the %s '%s' does not open the stored root key",
                   key->type == SEAL_STATIC ? "configured seal key" : "key of the shares for",
                   key->id);
        return ST_INVALID;
    }
    return st;
}

enum status seal_check(const struct seal *seal, struct bytes record, struct reason *reason)
{
    struct secret root = {0};
    TRY(seal_unwrap(seal, record, &root, reason));
    secret_done(&root);
    return ST_OK;
}
