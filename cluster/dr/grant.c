#include "cluster/dr/grant.h"
#include "cluster/dr/role.h"

#include "base/mem.h"
#include "text/random.h"

#define SECRET_LABEL "dr secret "
#define KEYS_LABEL "dr keys "

enum {
    LABEL_LEN = sizeof SECRET_LABEL - 1,
    KEYS_LABEL_LEN = sizeof KEYS_LABEL - 1,
    HALF = (DR_SECRET_NAME - 1) / 2, /* of a name: 128 bits */
};

static enum status refuse(struct reason *reason, const char *text)
{
    reason_set(reason, "%s", text);
    return ST_INVALID;
}

/* The name of a secret. The label keeps it apart from the names of tokens. */
static enum status secret_name(struct state_txn *txn, const char secret[DR_SECRET_LEN + 1],
                               char ret_name[DR_SECRET_NAME])
{
    char labelled[LABEL_LEN + DR_SECRET_LEN];
    memcpy(labelled, SECRET_LABEL, LABEL_LEN);
    memcpy(labelled + LABEL_LEN, secret, DR_SECRET_LEN);
    enum status st = token_name(txn->cipher, bytes_of(labelled, sizeof labelled), ret_name);
    mem_wipe(labelled, sizeof labelled);
    return st;
}

/* The name of a secret and of the keys that used it. */
static enum status keys_name(struct state_txn *txn, const struct dr_claim *claim,
                             const uint8_t key_sha256[32], char ret_name[DR_SECRET_NAME])
{
    uint8_t labelled[KEYS_LABEL_LEN + DR_SECRET_LEN + 32 + BOX_PUBLIC_BYTES], *at = labelled;
    ASSERT(claim->box_key != NULL && strlen(claim->secret) == DR_SECRET_LEN);
    at = mempcpy(at, KEYS_LABEL, KEYS_LABEL_LEN);
    at = mempcpy(at, claim->secret, DR_SECRET_LEN);
    at = mempcpy(at, key_sha256, 32);
    at = mempcpy(at, claim->box_key, BOX_PUBLIC_BYTES);
    ASSERT(at == labelled + sizeof labelled);
    enum status st = token_name(txn->cipher, bytes_of(labelled, sizeof labelled), ret_name);
    mem_wipe(labelled, sizeof labelled);
    return st;
}

/* Delete the records of tokens that expired without use, and count the others. */
static enum status sweep_expired(struct state_txn *txn, const struct dr_grant_order *order,
                                 unsigned *ret_lives, struct reason *reason)
{
    struct state_iter iter;
    struct bytes value;
    unsigned lives = 0;
    TRY(state_scan(txn, BYTES(DR_SECONDARY_PREFIX), (struct bytes){0}, &iter));
    while (state_iter_next(&iter)) {
        struct dr_secondary next;
        struct bytes id = bytes_from(iter.key, sizeof DR_SECONDARY_PREFIX - 1);
        TRY(state_iter_value(&iter, &value));
        TRY(dr_secondary_decode(id, value, &next));
        if (!dr_secondary_lives(&next, order->now_ms)) {
            TRY(state_delete(txn, iter.key));
            continue;
        }
        lives++;
        if (strcmp(next.id, order->id) == 0) {
            reason_set(reason, "id: a secondary \"%s\" %s; revoke it first, or choose another id",
                       next.id,
                       next.activated_ms != 0 ? "is activated already"
                                              : "has a token that was not used yet");
            return ST_INVALID;
        }
    }
    *ret_lives = lives;
    return txn->status;
}

enum status dr_grant_make(struct state_txn *txn, struct env *env,
                          const struct dr_grant_order *order, char ret_secret[DR_SECRET_LEN + 1],
                          struct reason *reason)
{
    struct dr_secondary secondary = {.created_ms = MAX(order->now_ms, 0)};
    unsigned lives;
    ASSERT(dr_name_id_valid(order->id));
    ASSERT(order->ttl_s > 0 && order->ttl_s <= DR_GRANT_TTL_MAX_S);
    TRY(sweep_expired(txn, order, &lives, reason));
    if (lives >= DR_SECONDARIES_MAX) {
        reason_set(reason, "this primary has %u secondaries, unused tokens included: revoke one",
                   lives);
        return ST_INVALID;
    }
    memcpy(secondary.id, order->id, strlen(order->id) + 1);
    secondary.expire_ms = secondary.created_ms + order->ttl_s * 1000;
    text_random(env, ret_secret, DR_SECRET_LEN);
    enum status st = secret_name(txn, ret_secret, secondary.secret);
    if (st == ST_OK)
        st = dr_secondary_put(txn, &secondary);
    if (st != ST_OK)
        mem_wipe(ret_secret, DR_SECRET_LEN + 1);
    return st;
}

static enum status check_running(struct state_txn *txn, struct reason *reason)
{
    struct dr_role role;
    TRY(dr_role_read(txn, &role));
    if (role.mode == DR_MODE_SECONDARY)
        return refuse(reason, "this cluster is no DR primary but a secondary");
    if (role.mode != DR_MODE_PRIMARY)
        return refuse(reason, "this cluster is no DR primary: replication is disabled");
    if (role.phase != DR_PHASE_RUNNING) {
        reason_set(reason, "this DR primary is not running: %s", role.reason);
        return ST_INVALID;
    }
    return ST_OK;
}

/* The same text for an unknown id and a wrong secret: the id alone tells nothing. */
static enum status check_secret(struct state_txn *txn, const struct dr_claim *claim,
                                struct dr_secondary *ret, struct reason *reason)
{
    static const char unknown[] = "this primary knows no such activation token: it was revoked, "
                                  "has expired, or is another primary's";
    char name[DR_SECRET_NAME];
    if (!dr_name_id_valid(claim->id) || strlen(claim->secret) != DR_SECRET_LEN)
        return refuse(reason, unknown);
    TRY(secret_name(txn, claim->secret, name));
    enum status st = dr_secondary_get(txn, claim->id, ret);
    if (st == ST_NOT_FOUND)
        return refuse(reason, unknown);
    TRY(st);
    size_t n = ret->activated_ms != 0 ? HALF : DR_SECRET_NAME - 1;
    bool same = strlen(ret->secret) == DR_SECRET_NAME - 1 &&
                bytes_eq_secret(bytes_of(name, n), bytes_of(ret->secret, n));
    if (same)
        return ST_OK;
    TRY(state_need_keys(txn));
    return refuse(reason, unknown);
}

/* Whether the secret still counts for the keys of this name. */
static enum status check_use(const struct dr_secondary *s, const char keys[DR_SECRET_NAME],
                             int64_t now_ms, struct reason *reason)
{
    if (s->activated_ms == 0)
        return s->expire_ms > now_ms
                   ? ST_OK
                   : refuse(reason, "the activation token has expired: make another one with "
                                    "primary/secondary-token");
    if (bytes_eq_secret(bytes_of(s->secret + HALF, HALF), bytes_of(keys, HALF)) &&
        now_ms - s->activated_ms < DR_GRANT_AGAIN_MS)
        return ST_OK;
    return refuse(reason, "the activation token was used already: revoke the secondary, and make "
                          "another token");
}

static enum status check_build(const struct state_txn *txn, const struct dr_claim *claim,
                               uint16_t feature, struct reason *reason)
{
    if (claim->protocol < 1)
        return refuse(reason, "protocol: 1 or more is expected");
    if (claim->feature < feature) {
        reason_set(reason,
                   "the secondary understands feature level %llu, and this primary is at level "
                   "%u: upgrade every node of the secondary first",
                   (unsigned long long)claim->feature, (unsigned)feature);
        return ST_INVALID;
    }
    if (claim->version > state_version(txn) + DR_VERSION_AHEAD || claim->version > DR_VERSION_MAX)
        return refuse(reason,
                      "version: impossible: it is further above this primary's version than "
                      "a cluster's writes can bring it; begin the secondary with an empty "
                      "data directory");
    return ST_OK;
}

/* Raises the version of the state, so that the version of the secondary never falls. */
struct raise {
    struct state_more more;
    uint64_t version;
};

static void add_raise(const struct state_more *more, struct rlog_txn_builder *b)
{
    rlog_txn_raise(b, CONTAINER_OF(more, struct raise, more)->version);
}

static enum status grant_raise(struct state_txn *txn, uint64_t version)
{
    if (version <= state_version(txn))
        return ST_OK;
    struct raise *raise = arena_alloc(txn->arena, sizeof *raise);
    if (raise == NULL)
        return ST_NOMEM;
    *raise = (struct raise){{add_raise}, version};
    state_stage_more(txn, &raise->more);
    return ST_OK;
}

enum status dr_grant_use(struct state_txn *txn, const struct dr_claim *claim, uint16_t feature,
                         int64_t now_ms, struct reason *reason)
{
    struct dr_secondary secondary;
    uint8_t key_sha256[32];
    char keys[DR_SECRET_NAME];
    TRY(check_running(txn, reason));
    TRY(check_secret(txn, claim, &secondary, reason));
    if (cert_public_fingerprint(claim->public_pem, key_sha256) != ST_OK)
        return refuse(reason, "public_key: a public key in PEM form is expected");
    TRY(keys_name(txn, claim, key_sha256, keys));
    TRY(check_use(&secondary, keys, now_ms, reason));
    TRY(check_build(txn, claim, feature, reason));
    TRY(grant_raise(txn, claim->version));
    if (secondary.activated_ms != 0)
        return ST_OK;
    secondary.activated_ms = MAX(now_ms, 1);
    memcpy(secondary.key_sha256, key_sha256, sizeof secondary.key_sha256);
    memcpy(secondary.secret + HALF, keys, HALF);
    return dr_secondary_put(txn, &secondary);
}
