#include "state/state_dr.h"

#include "base/mem.h"
#include "base/plant.h"
#include "state/following.h"
#include "state/superseded.h"

#include <inttypes.h>
#include <stdio.h>

/* The records that decide how a secondary's own seal wraps the root key. */
struct wrap {
    struct barrier *barrier; /* has the root key */
    struct env *env;
    const struct seal *own; /* configured seal; NULL: key shares */
    struct bytes shared;    /* the primary's seal */
    struct bytes recovery;  /* the primary's recovery record, in the clear; empty: none */
};

/* How the own seal is made: by a seal, or as a copy of a seal that exists. */
struct wrap_by {
    struct seal seal;   /* type 0: none */
    struct seal shares; /* owner of the key of `seal`, if that is of key shares */
    struct bytes copy;
};

static void wrap_by_done(struct wrap_by *by)
{
    seal_done(&by->shares);
    *by = (struct wrap_by){0};
}

static enum status by_recovery(const struct wrap *w, const struct seal_info *info,
                               struct wrap_by *ret, struct reason *reason)
{
    if (info->shares == 0 || w->recovery.len == 0) {
        reason_set(reason,
                   "the primary has no recovery key, whose shares would unseal this cluster: "
                   "give this cluster a static seal");
        return ST_INVALID;
    }
    if (w->recovery.len != STATE_RECOVERY_BYTES) {
        ret->copy = w->recovery; /* a seal of key shares stands for the recovery key */
        return ST_OK;
    }
    TRY(seal_shamir(w->recovery, info->shares, info->threshold, &ret->shares));
    ret->seal = ret->shares;
    return ST_OK;
}

static enum status wrap_choose(const struct wrap *w, struct wrap_by *ret, struct reason *reason)
{
    struct seal_info info;
    ASSERT(w->own == NULL || w->own->type == SEAL_STATIC);
    TRY(seal_info_read(w->shared, &info));
    if (w->own != NULL) {
        ret->seal = *w->own; /* the caller keeps the key */
        ret->seal.shares = (uint8_t)info.shares;
        ret->seal.threshold = (uint8_t)info.threshold;
        return ST_OK;
    }
    if (info.type == SEAL_STATIC)
        return by_recovery(w, &info, ret, reason);
    ret->copy = w->shared;
    return ST_OK;
}

/* Append the own seal. ST_INVALID with a reason: the primary has no recovery key. */
static enum status wrap_make(const struct wrap *w, struct buf *out, struct reason *reason)
{
    CLEANUP(wrap_by_done) struct wrap_by by = {0};
    TRY(wrap_choose(w, &by, reason));
    if (by.seal.type != 0)
        return barrier_reseal(w->barrier, w->env, &by.seal, out);
    buf_add(out, by.copy);
    return buf_status(out);
}

/* Whether a stored own seal is as wrap_make would make it now. */
static enum status wrap_is_fresh(const struct wrap *w, struct bytes record, bool *ret_fresh,
                                 struct reason *reason)
{
    CLEANUP(wrap_by_done) struct wrap_by by = {0};
    struct seal_info info;
    TRY(wrap_choose(w, &by, reason));
    ASSERT((by.seal.type == 0) == (by.copy.len != 0));
    if (by.seal.type == 0) {
        *ret_fresh = bytes_eq(record, by.copy);
        return ST_OK;
    }
    TRY(seal_info_read(record, &info));
    enum status st = barrier_check_seal(w->barrier, &by.seal, record, NULL);
    if (st != ST_OK && st != ST_INVALID)
        return st;
    *ret_fresh =
        st == ST_OK && info.shares == by.seal.shares && info.threshold == by.seal.threshold;
    return ST_OK;
}

/* The primary's state */

static struct buf *place_of(struct state_dr_source *s, struct bytes key)
{
    static const char *const names[] = {BARRIER_SEAL, BARRIER_KEYRING, BARRIER_SALT,
                                        STATE_RECOVERY_KEY};
    struct buf *const places[] = {&s->seal, &s->keyring, &s->salt, &s->recovery};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (bytes_eq(key, bytes_str(names[i])))
            return places[i];
    return NULL;
}

static void link_done(struct state_dr_link *link)
{
    buf_done(&link->name);
    buf_done(&link->record);
}

/* Of too many links, the last ones are kept. */
static enum status keep_link(struct state_dr_source *s, struct bytes key, struct bytes value)
{
    if (s->n_links == SUPERSEDED_MAX) {
        link_done(&s->links[0]);
        s->n_links--;
        memmove(&s->links[0], &s->links[1], s->n_links * sizeof s->links[0]);
    }
    ASSERT(s->n_links < SUPERSEDED_MAX);
    struct state_dr_link *link = &s->links[s->n_links++];
    *link = (struct state_dr_link){0};
    buf_add(&link->name, key);
    buf_add(&link->record, value);
    TRY(buf_status(&link->name));
    return buf_status(&link->record);
}

enum status state_dr_source_add(struct state_dr_source *s, struct bytes key, struct bytes value)
{
    struct buf *place = place_of(s, key);
    if (place == NULL)
        return bytes_has_prefix(key, BYTES(BARRIER_LINKS)) ? keep_link(s, key, value) : ST_OK;
    buf_clear(place);
    buf_add(place, value);
    return buf_status(place);
}

static bool buf_eq(const struct buf *a, const struct buf *b)
{
    return bytes_eq(buf_bytes(a), buf_bytes(b));
}

bool state_dr_source_eq(const struct state_dr_source *a, const struct state_dr_source *b)
{
    if (!buf_eq(&a->seal, &b->seal) || !buf_eq(&a->keyring, &b->keyring) ||
        !buf_eq(&a->salt, &b->salt) || !buf_eq(&a->recovery, &b->recovery) ||
        a->n_links != b->n_links)
        return false;
    for (unsigned i = 0; i < a->n_links; i++)
        if (!buf_eq(&a->links[i].name, &b->links[i].name) ||
            !buf_eq(&a->links[i].record, &b->links[i].record))
            return false;
    return true;
}

void state_dr_source_done(struct state_dr_source *s)
{
    buf_done(&s->seal);
    buf_done(&s->keyring);
    buf_done(&s->salt);
    buf_done(&s->recovery);
    for (unsigned i = 0; i < s->n_links; i++)
        link_done(&s->links[i]);
    *s = (struct state_dr_source){0};
}

static struct barrier_records source_records(const struct state_dr_source *s)
{
    struct barrier_records records = {.seal = buf_bytes(&s->seal),
                                      .keyring = buf_bytes(&s->keyring),
                                      .salt = buf_bytes(&s->salt)};
    for (unsigned i = 0; i < s->n_links; i++)
        records.links[records.n_links++] =
            (struct barrier_link){buf_bytes(&s->links[i].name), buf_bytes(&s->links[i].record)};
    return records;
}

/* Adopt */

struct adopting {
    const struct state_dr_adopt *in;
    const struct seal *own; /* seal key that wraps the own seal; NULL: key shares */
    struct barrier *theirs; /* unsealed with the primary's records */
    struct buf seal, ring, link;
    uint8_t recovery[STATE_RECOVERY_MAX + BARRIER_OVERHEAD];
    size_t recovery_len;
};

static void adopting_done(struct adopting *a)
{
    barrier_free(a->theirs);
    buf_done(&a->seal);
    buf_done(&a->ring);
    buf_done(&a->link);
    mem_wipe(a->recovery, sizeof a->recovery);
}

static enum status open_theirs(struct adopting *a, struct reason *reason)
{
    const struct state_dr_adopt *in = a->in;
    struct barrier_records records = source_records(in->source);
    struct reason why = {{0}};
    ASSERT(a->theirs == NULL);
    TRY(barrier_new(&a->theirs));
    enum status st = in->root != NULL ? barrier_unseal_root(a->theirs, in->root, &records, &why)
                                      : barrier_unseal_as(a->theirs, in->barrier, &records, &why);
    if (st == ST_INVALID || st == ST_NOT_FOUND) {
        reason_set(reason, "the keys of the primary do not open: %.200s", why.text);
        return ST_INVALID;
    }
    return st;
}

static enum status open_recovery(struct adopting *a, struct reason *reason)
{
    struct bytes stored = buf_bytes(&a->in->source->recovery);
    struct barrier_cipher *cipher = NULL;
    ASSERT(!barrier_is_sealed(a->theirs));
    if (stored.len == 0)
        return ST_OK;
    if (stored.len > sizeof a->recovery) {
        reason_set(reason, "the recovery key of the primary is damaged");
        return ST_INVALID;
    }
    TRY(barrier_cipher_new(a->theirs, a->in->env, &cipher));
    enum status st =
        barrier_decrypt(cipher, BYTES(STATE_RECOVERY_KEY), stored, a->recovery, &a->recovery_len);
    barrier_cipher_free(cipher);
    return st == ST_NOT_FOUND ? ST_CORRUPT : st; /* the ring came with the record */
}

/* The configured seal key that adopt wraps by: the previous one while this cluster is under it. */
static const struct seal *own_key(const struct store_pin *pin, const struct seal *configured)
{
    struct core_records core;
    struct seal_info info;
    core_read(pin, &core);
    bool known = seal_info_read(core.records.seal, &info) == ST_OK;
    const struct seal *present = known ? seal_named(configured, info.id) : NULL;
    return present != NULL ? present : configured;
}

static enum status make_records(struct adopting *a, struct bytes link_name, struct reason *reason)
{
    const struct state_dr_adopt *in = a->in;
    const struct wrap wrap = {.barrier = a->theirs,
                              .env = in->env,
                              .own = a->own,
                              .shared = buf_bytes(&in->source->seal),
                              .recovery = bytes_of(a->recovery, a->recovery_len)};
    const struct barrier_link_head head = {link_name, MAX(in->now_ms, 0)};
    TRY(wrap_make(&wrap, &a->seal, reason));
    TRY(barrier_link(in->barrier, a->theirs, in->env, &head, &a->link));
    enum status st = barrier_rewrap(in->barrier, a->theirs, in->env, &a->ring);
    return st == ST_NOT_FOUND ? ST_OK : st; /* upkeep makes the first local ring */
}

static void put_records(const struct adopting *a, struct bytes link_name, uint64_t ring_modified,
                        struct rlog_txn_builder *out)
{
    char version[SUPERSEDED_DIGITS + 1];
    ASSERT(a->seal.len != 0 && a->link.len != 0);
    (void)snprintf(version, sizeof version, "%" PRIu64, a->in->version); /* always fits */
    rlog_txn_need_key(out, BYTES(BARRIER_LOCAL_KEYRING), ring_modified);
    rlog_txn_put(out, BYTES(STATE_SYNCED), bytes_str(version));
    rlog_txn_put(out, BYTES(STATE_DR_SEAL), buf_bytes(&a->seal));
    if (a->ring.len != 0)
        rlog_txn_put(out, BYTES(BARRIER_LOCAL_KEYRING), buf_bytes(&a->ring));
    rlog_txn_delete(out, BYTES(BARRIER_SUPERSEDED)); /* of the replaced state */
    rlog_txn_delete_prefix(out, BYTES(BARRIER_LOCAL_LINKS));
    rlog_txn_put(out, link_name, buf_bytes(&a->link));
}

static enum status adopt_at(const struct store_pin *pin, const struct state_dr_adopt *in,
                            struct rlog_txn_builder *out, struct reason *reason)
{
    CLEANUP(adopting_done) struct adopting a = {.in = in, .own = own_key(pin, in->own)};
    char room[SUPERSEDED_NAME_MAX];
    struct bytes name = superseded_name(pin, BYTES(BARRIER_LOCAL_LINKS), room);
    ASSERT(in->version != 0);
    if (in->version <= core_restored(pin)) {
        reason_set(reason, "the version of the primary's state is not above this cluster's");
        return ST_CONFLICT;
    }
    enum status st = core_follow(pin, in->barrier);
    TRY(st == ST_CORRUPT ? ST_CONFLICT : st); /* the barrier is further than this state */
    TRY(open_theirs(&a, reason));
    TRY(open_recovery(&a, reason));
    TRY(make_records(&a, name, reason));
    put_records(&a, name, core_modified(pin, BYTES(BARRIER_LOCAL_KEYRING)), out);
    return ST_OK;
}

enum status state_dr_adopt(const struct state_dr_adopt *in, struct rlog_txn_builder *out,
                           struct reason *reason)
{
    struct store_pin pin;
    ASSERT(in->own == NULL || in->own->type == SEAL_STATIC);
    TRY(store_pin(in->store, "adopt", 0, &pin));
    enum status st = adopt_at(&pin, in, out, reason);
    store_unpin(&pin);
    return st;
}

/* Demote, promote, renew */

enum status dr_has_own_seal(struct state_txn *txn)
{
    bool following = false;
    TRY(state_is_following(txn, &following));
    return following ? ST_OK : state_exists(txn, BYTES(STATE_DR_SEAL));
}

enum status state_dr_demote(struct state_txn *txn)
{
    struct state_value seal;
    enum status st = state_exists(txn, BYTES(STATE_DR_SEAL));
    if (st != ST_NOT_FOUND)
        return st; /* a secondary has an own seal already */
    TRY(state_get_raw(txn, BYTES(BARRIER_SEAL), &seal));
    return state_put_raw(txn, BYTES(STATE_DR_SEAL), seal.value);
}

/* Fill a wrap as this transaction sees the records. `info` says which seal this cluster has.
 * ST_INVALID with a reason: the node is configured for another one. */
static enum status wrap_read(struct state_txn *txn, const struct seal *configured,
                             const struct seal_info *info, struct wrap *ret, struct reason *reason)
{
    struct state_value seal, recovery = {.modified = 0};
    const struct seal *own = seal_named(configured, info->id);
    if (info->type == SEAL_STATIC && own == NULL) {
        reason_set(reason,
                   "this cluster is sealed by the key '%s', and this node is configured for %s%s; "
                   "start it with that key, or move the seal first",
                   info->id, configured != NULL ? "the key " : "key shares",
                   configured != NULL ? configured->id : "");
        return ST_INVALID;
    }
    TRY(rekey_read(txn));
    TRY(state_get_raw(txn, BYTES(BARRIER_SEAL), &seal));
    enum status st = state_get(txn, BYTES(STATE_RECOVERY_KEY), &recovery);
    if (st != ST_NOT_FOUND)
        TRY(st);
    *ret = (struct wrap){.barrier = txn->state->barrier,
                         .env = txn->state->env,
                         .own = info->type == SEAL_STATIC ? own : NULL,
                         .shared = seal.value,
                         .recovery = st == ST_OK ? recovery.value : (struct bytes){0}};
    return ST_OK;
}

/* Make room for one more local link. */
static enum status drop_oldest_links(struct state_txn *txn)
{
    struct state_walk walk;
    uint64_t n = state_count(txn, BYTES(BARRIER_LOCAL_LINKS));
    state_walk(txn, BYTES(BARRIER_LOCAL_LINKS), &walk);
    for (; n >= SUPERSEDED_LOCAL_MAX && state_walk_next(&walk); n--)
        TRY(state_delete(txn, walk.key));
    return ST_OK;
}

/* Stage the local ring under the present root key, and a link for nodes that still have the
 * superseded one. The caller has read the records. */
static enum status stage_local_ring(struct state_txn *txn, int64_t now_ms)
{
    CLEANUP(buf_done) struct buf ring = {0}, link = {0};
    struct barrier *b = txn->state->barrier;
    char room[SUPERSEDED_NAME_MAX];
    const struct barrier_link_head head = {
        superseded_name(&txn->pin, BYTES(BARRIER_LOCAL_LINKS), room), MAX(now_ms, 0)};
    ASSERT(head.name.len != 0);
    if (!barrier_is_behind(b))
        return ST_OK;
    TRY(barrier_rewrap(b, b, txn->state->env, &ring));
    TRY(barrier_link(b, b, txn->state->env, &head, &link));
    TRY(drop_oldest_links(txn));
    TRY(state_put_raw(txn, BYTES(BARRIER_LOCAL_KEYRING), buf_bytes(&ring)));
    return state_put_raw(txn, head.name, buf_bytes(&link));
}

static enum status stage_wrap(struct state_txn *txn, const struct wrap *w, const char *key,
                              struct reason *reason)
{
    CLEANUP(buf_done) struct buf record = {0};
    TRY(wrap_make(w, &record, reason));
    return state_put_raw(txn, bytes_str(key), buf_bytes(&record));
}

/* The recovery key exists exactly while the seal is static. */
static enum status stage_recovery(struct state_txn *txn, const struct wrap *w)
{
    struct seal_info primary;
    TRY(seal_info_read(w->shared, &primary));
    if (w->own == NULL)
        return state_delete(txn, BYTES(STATE_RECOVERY_KEY));
    return primary.type == SEAL_SHAMIR ? state_put(txn, BYTES(STATE_RECOVERY_KEY), w->shared)
                                       : ST_OK;
}

enum status state_dr_promote(struct state_txn *txn, const struct seal *own, int64_t now_ms,
                             struct reason *reason)
{
    struct state_value stored;
    struct seal_info info;
    struct wrap wrap;
    enum status st = state_get_raw(txn, BYTES(STATE_DR_SEAL), &stored);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    TRY(seal_info_read(stored.value, &info));
    TRY(wrap_read(txn, own, &info, &wrap, reason));
    TRY(stage_wrap(txn, &wrap, BARRIER_SEAL, reason));
    TRY(stage_recovery(txn, &wrap));
    TRY(stage_local_ring(txn, now_ms));
    return state_delete(txn, BYTES(STATE_DR_SEAL));
}

static enum status expire_links(struct state_txn *txn, int64_t now_ms)
{
    TRY(superseded_expire(txn, BYTES(BARRIER_LOCAL_LINKS), now_ms, UINT64_MAX));
    return superseded_expire(txn, BYTES(BARRIER_SUPERSEDED), now_ms, UINT64_MAX);
}

static enum status renew_keys(struct state_txn *txn, const struct seal *own, struct bytes stored,
                              int64_t now_ms, struct state_dr_keys *keys)
{
    struct seal_info info;
    struct wrap wrap;
    bool fresh = false;
    TRY(seal_info_read(stored, &info));
    TRY(wrap_read(txn, own, &info, &wrap, &keys->why));
    TRY(wrap_is_fresh(&wrap, stored, &fresh, &keys->why));
    keys->settled =
        (fresh && !barrier_is_behind(txn->state->barrier)) || planted(PLANT_DR_OLD_ROOT_KEY);
    if (keys->settled)
        return expire_links(txn, now_ms);
    TRY(stage_wrap(txn, &wrap, STATE_DR_SEAL, &keys->why));
    return stage_local_ring(txn, now_ms);
}

enum status state_dr_upkeep(struct state_txn *txn, const struct seal *own, int64_t now_ms,
                            struct state_dr_keys *ret_keys)
{
    struct state_value stored;
    ASSERT(txn->open);
    *ret_keys = (struct state_dr_keys){0};
    enum status st = state_get_raw(txn, BYTES(STATE_DR_SEAL), &stored);
    if (st == ST_NOT_FOUND) {
        ret_keys->settled = true;
        return ST_OK;
    }
    TRY(st);
    st = renew_keys(txn, own, stored.value, now_ms, ret_keys);
    return st == ST_INVALID && ret_keys->why.text[0] != '\0' ? ST_OK : st;
}

/* Stage the own seal, made by `target`; NULL: by key shares, with the recovery key `key`. */
static enum status own_stage(struct state_txn *txn, const struct seal *target, struct bytes key)
{
    struct state_value seal;
    TRY(rekey_read(txn));
    TRY(state_get_raw(txn, BYTES(BARRIER_SEAL), &seal));
    const struct wrap wrap = {.barrier = txn->state->barrier,
                              .env = txn->state->env,
                              .own = target,
                              .shared = seal.value,
                              .recovery = key};
    TRY(stage_wrap(txn, &wrap, STATE_DR_SEAL, NULL));
    return stage_local_ring(txn, env_wall_ms(txn->state->env)); /* both under one root key */
}

enum status dr_migrate(struct state_txn *txn, const struct seal *target, struct bytes key)
{
    ASSERT(key.len == STATE_RECOVERY_BYTES);
    return own_stage(txn, target, key);
}

enum status dr_rewrap(struct state_txn *txn, const struct seal *target)
{
    ASSERT(target->type == SEAL_STATIC);
    return own_stage(txn, target, (struct bytes){0});
}
