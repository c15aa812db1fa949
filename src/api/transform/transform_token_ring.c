/* The stored keys of a transformation by tokenization: create, rotate, trim, and the rotation that
 * the active node makes by itself. */
#include "api/transform/transform.h"
#include "api/transform/transform_sql.h"
#include "api/transform/transform_token.h"
#include "base/mem.h"
#include "crypto/crypto.h"
#include "state/state_record.h"
#include "text/encode.h"

static const struct record_field ring_fields[] = {
    RECORD_FIELD(struct transform_ring, scope, FIXED, .help = "id of the transformation"),
    RECORD_FIELD(struct transform_ring, fixed, FIXED, .secret = true, .help = "never rotated"),
    RECORD_FIELD(struct transform_ring, latest, U32, .min = 1),
    RECORD_FIELD(struct transform_ring, min_available, U32, .help = "0: none was trimmed"),
    RECORD_FIELD(struct transform_ring, min_decryption, U32, .min = 1),
    RECORD_FIELD(struct transform_ring, auto_rotate_s, U64, .max = TEXT_DURATION_MAX_S),
    RECORD_FIELD(struct transform_ring, rotated_ms, U64, .max = TEXT_CLOCK_END - 1),
    RECORD_FIELD(struct transform_ring, imported, U8, .help = "clients bring the versions"),
    RECORD_FIELD(struct transform_ring, allow_rotation, U8,
                 .help = "the server may rotate a key that was brought"),
};

static bool ring_is_valid(const void *from)
{
    const struct transform_ring *ring = from;
    return ring->min_decryption <= ring->latest && ring->min_available <= ring->min_decryption;
}

static const struct record ring_record = {
    RECORD(struct transform_ring, ring_fields), .name = "transform/tokens",
    .where = "Key `tokens/NAME` of a mount of the transform engine", .newest = 1,
    .valid = ring_is_valid};
RECORD_LISTED(ring_record);

struct stored_key {
    uint8_t key[TRANSFORM_KEY_BYTES];
    int64_t created_ms;
};
static const struct record_field key_fields[] = {
    RECORD_FIELD(struct stored_key, key, FIXED, .secret = true, .help = "AES-256"),
    RECORD_FIELD(struct stored_key, created_ms, U64, .max = TEXT_CLOCK_END - 1),
};
static const struct record key_record = {
    RECORD(struct stored_key, key_fields), .name = "transform/token-key",
    .where = "Key `token-key/NAME/VERSION` of a mount of the transform engine", .newest = 1};
RECORD_LISTED(key_record);

/* Where the keys of a transformation lie: for a request, and for the duty of the active node. */
struct place {
    struct state_txn *txn;
    const char *ns, *uuid, *name;
    int64_t now_ms;
};

static struct place place_of(const struct req *req, const char *name)
{
    ASSERT(req->mount != NULL);
    return (struct place){req->txn, req->ns, req->mount->uuid, name, MAX(req->now_ms, INT64_C(0))};
}

static enum status place_key(const struct place *p, const char *path, struct bytes *ret_key)
{
    const struct mount mount = {.uuid = p->uuid};
    return path != NULL ? mount_key(p->txn->arena, p->ns, &mount, path, ret_key) : ST_NOMEM;
}

static enum status ring_key(const struct place *p, struct bytes *ret_key)
{
    return place_key(p, arena_format(p->txn->arena, "tokens/%s", p->name), ret_key);
}

static enum status version_key(const struct place *p, uint32_t version, struct bytes *ret_key)
{
    return place_key(p, arena_format(p->txn->arena, "token-key/%s/%08x", p->name, version),
                     ret_key);
}

static enum status load(const struct place *p, struct transform_ring *ret_ring)
{
    struct bytes key;
    TRY(ring_key(p, &key));
    return state_get_record(p->txn, key, &ring_record, ret_ring);
}

/* A rotation must also succeed in a full state. */
static enum status put(const struct place *p, struct bytes key, const struct record *record,
                       const void *from)
{
    CLEANUP(buf_done) struct buf encoded = {0};
    TRY(record_encode(record, from, &encoded));
    return state_put_exempt(p->txn, key, buf_bytes(&encoded));
}

static enum status save(const struct place *p, const struct transform_ring *ring)
{
    struct bytes key;
    ASSERT(ring_is_valid(ring));
    TRY(ring_key(p, &key));
    return put(p, key, &ring_record, ring);
}

enum status transform_ring_load(struct req *req, const char *name, struct transform_ring *ret_ring)
{
    const struct place p = place_of(req, name);
    return transform_is_name(bytes_str(name)) ? load(&p, ret_ring) : ST_NOT_FOUND;
}

enum status transform_ring_save(struct req *req, const char *name,
                                const struct transform_ring *ring)
{
    const struct place p = place_of(req, name);
    return save(&p, ring);
}

/* `given` NULL: a random key. */
static enum status put_key_version(const struct place *p, uint32_t version, const uint8_t *given)
{
    struct stored_key stored = {.created_ms = p->now_ms};
    struct bytes key;
    TRY(version_key(p, version, &key));
    enum status st = ST_OK;
    if (given != NULL)
        memcpy(stored.key, given, sizeof stored.key);
    else
        st = crypto_random(stored.key, sizeof stored.key);
    if (st == ST_OK)
        st = put(p, key, &key_record, &stored);
    mem_wipe(&stored, sizeof stored);
    return st;
}

enum status transform_ring_create(struct req *req, const char *name, const uint8_t *key)
{
    const struct place p = place_of(req, name);
    struct transform_ring ring = {
        .latest = 1, .min_decryption = 1, .rotated_ms = p.now_ms, .imported = key != NULL};
    TRY(crypto_random(ring.scope, sizeof ring.scope));
    enum status st = crypto_random(ring.fixed, sizeof ring.fixed);
    if (st == ST_OK)
        st = put_key_version(&p, ring.latest, key);
    if (st == ST_OK)
        st = save(&p, &ring);
    mem_wipe(&ring, sizeof ring);
    return st;
}

/* The entry of the next rotation: its id is "UUID.NAME". A UUID has no '.'. */
static enum status entry_of(const struct place *p, const char **ret_id)
{
    *ret_id = arena_format(p->txn->arena, "%s.%s", p->uuid, p->name);
    return *ret_id != NULL ? ST_OK : ST_NOMEM;
}

static int64_t next_rotation(const struct transform_ring *ring)
{
    int64_t at = ring->rotated_ms + 1000 * ring->auto_rotate_s;
    return ring->auto_rotate_s == 0 ? 0 : MIN(MAX(at, INT64_C(1)), TEXT_EXPIRY_END - 1);
}

static enum status move_entry(const struct place *p, int64_t from_ms, int64_t to_ms)
{
    const char *id;
    TRY(entry_of(p, &id));
    if (from_ms == to_ms)
        return ST_OK;
    if (from_ms != 0)
        TRY(expiry_drop_new(p->txn, &transform_rotation, p->ns, from_ms, id));
    return to_ms != 0 ? expiry_put(p->txn, &transform_rotation, p->ns, to_ms, id) : ST_OK;
}

/* Add a version; `given` as in put_key_version. */
static enum status add_version(const struct place *p, struct transform_ring *ring,
                               const uint8_t *given)
{
    int64_t before_ms = next_rotation(ring);
    ASSERT(ring->latest < UINT32_MAX);
    ring->latest++;
    ring->rotated_ms = p->now_ms;
    ring->imported = given != NULL; /* a rotation by the server ends imports */
    TRY(put_key_version(p, ring->latest, given));
    TRY(move_entry(p, before_ms, next_rotation(ring)));
    return save(p, ring);
}

static enum status check_room(struct req *req, const struct transform_ring *ring)
{
    if (ring->latest == UINT32_MAX)
        return req_fail(req, ST_INVALID, "the transformation has had all versions of its key");
    return ST_OK;
}

enum status transform_ring_rotate(struct req *req, const char *name, struct transform_ring *ring)
{
    const struct place p = place_of(req, name);
    if (ring->imported && !ring->allow_rotation)
        return req_fail(req, ST_INVALID,
                        "allow_rotation: it is false for this key, which a client brought: use "
                        "import_version");
    TRY(check_room(req, ring));
    return add_version(&p, ring, NULL);
}

enum status transform_ring_add(struct req *req, const char *name, struct transform_ring *ring,
                               const uint8_t key[TRANSFORM_KEY_BYTES])
{
    const struct place p = place_of(req, name);
    ASSERT(ring->imported);
    TRY(check_room(req, ring));
    return add_version(&p, ring, key);
}

enum status transform_ring_schedule(struct req *req, const char *name, struct transform_ring *ring,
                                    int64_t auto_rotate_s)
{
    const struct place p = place_of(req, name);
    int64_t before_ms = next_rotation(ring);
    ring->auto_rotate_s = auto_rotate_s;
    return move_entry(&p, before_ms, next_rotation(ring));
}

enum status transform_ring_trim(struct req *req, const char *name, struct transform_ring *ring,
                                uint32_t least)
{
    const struct place p = place_of(req, name);
    ASSERT(least <= ring->min_decryption);
    for (uint32_t v = MAX(ring->min_available, UINT32_C(1)); v < least; v++) {
        struct bytes key;
        TRY(version_key(&p, v, &key));
        TRY(state_delete(p.txn, key));
    }
    ring->min_available = least;
    return save(&p, ring);
}

enum status transform_ring_delete(struct req *req, const char *name)
{
    const struct place p = place_of(req, name);
    static const char *const folders[] = {"token", "fingerprint"};
    char scope[TEXT_BASE64_LEN(TRANSFORM_SCOPE) + 1];
    struct transform_ring ring;
    struct bytes key;
    enum status st = load(&p, &ring);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    mem_wipe(ring.fixed, sizeof ring.fixed);
    (void)text_base64_put(bytes_of(ring.scope, sizeof ring.scope), TEXT_BASE64_URL, scope);
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        TRY(place_key(&p, arena_format(req->arena, "%s/%s/", folders[i], scope), &key));
        TRY(state_delete_prefix(req->txn, key));
    }
    TRY(place_key(&p, arena_format(req->arena, "token-key/%s/", name), &key));
    TRY(state_delete_prefix(req->txn, key));
    TRY(move_entry(&p, next_rotation(&ring), 0));
    TRY(ring_key(&p, &key));
    return state_delete(req->txn, key);
}

/* The time of a rotation has come. However late it is, one new version is enough. */
static enum status rotation_is_due(const struct expiry_task *task)
{
    const char *dot = strchr(task->id, '.');
    struct transform_ring ring;
    if (dot == NULL)
        return ST_NOT_FOUND;
    const char *uuid = arena_str(task->txn->arena, bytes_of(task->id, (size_t)(dot - task->id)));
    const struct place p = {task->txn, task->ns, uuid, dot + 1, task->now_ms};
    if (uuid == NULL)
        return ST_NOMEM;
    TRY(load(&p, &ring));
    int64_t due_ms = next_rotation(&ring);
    if (due_ms == 0 || due_ms > task->now_ms || ring.latest == UINT32_MAX)
        return ST_NOT_FOUND;
    return add_version(&p, &ring, NULL);
}

const struct expiry_kind transform_rotation = {
    .name = "transform-rotation", .former_end = "transform-rotation", .end = rotation_is_due};

static void tokens_drop(struct req_cleanup *cleanup)
{
    struct transform_tokens *t = CONTAINER_OF(cleanup, struct transform_tokens, cleanup);
    for (struct transform_token_key *key = t->keys; key != NULL; key = key->next)
        transform_token_key_done(key);
    hmac_free(t->print);
    hmac_free(t->ids);
    t->keys = NULL;
    t->print = t->ids = NULL;
    mem_wipe(&t->ring, sizeof t->ring);
}

enum status transform_tokens_load(struct req *req, const char *name,
                                  const struct transform_transformation *transformation,
                                  struct transform_tokens **ret_tokens)
{
    struct transform_tokens *t = arena_zalloc(req->arena, sizeof *t);
    if (t == NULL)
        return ST_NOMEM;
    *t = (struct transform_tokens){
        .req = req,
        .name = name,
        .convergent = transformation->convergent,
        .exportable = strcmp(transformation->mapping_mode, TRANSFORM_EXPORTABLE) == 0,
        .max_ttl_s = transformation->max_ttl,
        .cleanup = {.run = tokens_drop}};
    req_defer(req, &t->cleanup);
    enum status st = transform_ring_load(req, name, &t->ring);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_CORRUPT : st; /* made with the transformation */
    (void)text_base64_put(bytes_of(t->ring.scope, TRANSFORM_SCOPE), TEXT_BASE64_URL, t->scope);
    *ret_tokens = t;
    return transform_sql_open(t, &transformation->stores);
}

static enum status load_key_bytes(struct transform_tokens *t, uint32_t version,
                                  struct transform_token_key *key)
{
    struct stored_key stored;
    struct bytes at;
    if (version == 0) {
        memcpy(key->key, t->ring.fixed, sizeof key->key);
        return ST_OK;
    }
    if (version < t->ring.min_available || version > t->ring.latest)
        return ST_NOT_FOUND;
    if (t->outside)
        return transform_sql_key(t->sql, version, key->key);
    const struct place p = place_of(t->req, t->name);
    TRY(version_key(&p, version, &at));
    enum status st = state_get_record(p.txn, at, &key_record, &stored);
    if (st == ST_OK)
        memcpy(key->key, stored.key, sizeof key->key);
    mem_wipe(&stored, sizeof stored);
    return st == ST_NOT_FOUND ? ST_CORRUPT : st;
}

enum status transform_tokens_key(struct transform_tokens *t, uint32_t version,
                                 struct transform_token_key **ret_key)
{
    struct transform_token_key *key = t->keys;
    while (key != NULL && key->version != version)
        key = key->next;
    if (key == NULL) {
        key = arena_zalloc(t->req->arena, sizeof *key);
        if (key == NULL)
            return ST_NOMEM;
        key->version = version;
        memcpy(key->scope, t->ring.scope, sizeof key->scope);
        TRY(load_key_bytes(t, version, key));
        key->next = t->keys;
        t->keys = key; /* from now on tokens_drop wipes it */
        TRY(transform_token_key_init(key));
    }
    *ret_key = key;
    return ST_OK;
}

static enum status fixed_hmac(struct transform_tokens *t, const char *label, struct hmac **hmac)
{
    return *hmac != NULL ? ST_OK : transform_token_hmac(t->ring.fixed, t->ring.scope, label, hmac);
}

enum status transform_tokens_print(struct transform_tokens *t, struct bytes value,
                                   uint8_t ret_print[TRANSFORM_DIGEST])
{
    TRY(fixed_hmac(t, "fingerprint", &t->print));
    return hmac_run(t->print, value, ret_print);
}

enum status transform_tokens_id(struct transform_tokens *t, struct bytes value, int64_t expire_ms,
                                uint8_t ret_id[TRANSFORM_DIGEST])
{
    ASSERT(t->convergent);
    TRY(fixed_hmac(t, "convergent", &t->ids));
    return transform_token_converge(t->ids, value, expire_ms, ret_id);
}

bool transform_tokens_decodes(const struct transform_tokens *t, uint32_t key_version)
{
    return key_version >= t->ring.min_decryption && key_version <= t->ring.latest;
}
