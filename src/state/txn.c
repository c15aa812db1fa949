#include "state/feature.h"
#include "state/state_core.h"
#include "state/state_internal.h"

enum {
    PIN_DEADLINE_MS = 100 * 1000, /* longer than a request may take */
    STAMP_BYTES = 32,             /* header and nonce of a stored value */
    NEED_SIZE = 16,               /* of a precondition in an encoded transaction, without the key */
    OP_SIZE = 32 + BARRIER_OVERHEAD, /* of a write, without key and value */
};

bool state_key_valid(struct bytes key)
{
    return rlog_txn_key_valid(key);
}

const struct state_replaced *txn_replaced(struct state_txn *txn)
{
    if (!txn->replaced_known)
        txn->replaced = core_replaced(&txn->pin);
    txn->replaced_known = true;
    ASSERT(txn->replaced.version >= txn->replaced.restored);
    return &txn->replaced;
}

/* The raft thread publishes a restored state before it takes over the keys of that state. Take them
 * over before a transaction opens values with the keys of the former state, or makes names with the
 * former salt. */
static void take_keys(struct state_txn *txn)
{
    struct state *state = txn->state;
    struct barrier *barrier = state->barrier;
    ASSERT(txn->pin.store != NULL);
    if (txn->pin.generation == state->keyed || barrier_is_sealed(barrier))
        return;
    /* after a failure the raft thread seals the node, and values that do not open are refused */
    if (barrier_restored(barrier) >= txn_replaced(txn)->version ||
        core_follow(&txn->pin, barrier) == ST_OK)
        state->keyed = txn->pin.generation;
}

enum status state_begin(struct state *state, struct arena *arena, const struct state_read *read,
                        struct state_txn *ret_txn)
{
    ASSERT(read == NULL || read->confirmed);
    *ret_txn = (struct state_txn){
        .state = state,
        .cipher = state->cipher,
        .arena = arena,
        .confirmed = read != NULL,
    };
    TRY(store_pin(state->log->store, "request", PIN_DEADLINE_MS, &ret_txn->pin));
    take_keys(ret_txn);
    ret_txn->open = true;
    return ST_OK;
}

void state_set_read_only(struct state_txn *txn)
{
    ASSERT(txn->confirmed && txn->ops == NULL);
    txn->read_only = true;
}

bool state_suspend(struct state_txn *txn)
{
    bool before = txn->read_only;
    ASSERT(txn->open);
    txn->read_only = true;
    return before;
}

void state_resume(struct state_txn *txn, bool before)
{
    ASSERT(txn->open && txn->read_only);
    txn->read_only = before;
}

bool state_is_read_only(const struct state_txn *txn)
{
    return txn->read_only;
}

void state_end(struct state_txn *txn)
{
    if (!txn->open)
        return;
    store_unpin(&txn->pin);
    txn->open = false;
}

/* Reading */

static enum status fail(struct state_txn *txn, enum status st)
{
    txn->status = st;
    return st;
}

enum status txn_note_key(struct state_txn *txn, struct bytes key, uint64_t version)
{
    struct state_item *item = NULL;

    if (txn->read_only || set_covering(&txn->prefixes, key) != NULL)
        return ST_OK;
    unsigned before = txn->keys.n;
    enum status st = set_add(&txn->keys, txn->arena, state_random(txn->state), key, &item);
    if (st != ST_OK)
        return fail(txn, st);
    if (txn->keys.n > before) {
        txn->size += key.len + NEED_SIZE;
        *(txn->last_key != NULL ? &txn->last_key->later : &txn->first_key) = item;
        txn->last_key = item;
    }
    item->version = version; /* all reads use one pinned tree, so every read finds the same
                              * version */
    return ST_OK;
}

enum status txn_note_prefix(struct state_txn *txn, struct bytes prefix)
{
    struct state_item *item = NULL;
    if (txn->read_only)
        return ST_OK;
    enum status st =
        set_add_prefix(&txn->prefixes, txn->arena, state_random(txn->state), prefix, &item);
    if (st != ST_OK)
        return fail(txn, st);
    txn->size += prefix.len + NEED_SIZE;
    if (item->key.len == prefix.len)
        item->version = store_newest(&txn->pin, prefix);
    return ST_OK;
}

bool txn_still_holds(const struct state_txn *txn, const struct store_pin *pin)
{
    struct store_item found;

    if (pin->generation == txn->pin.generation)
        return true;
    if (core_restored(pin) != core_restored(&txn->pin))
        return false; /* another state: its versions may be the same, its values and keys not */
    SET_FOR (item, &txn->prefixes)
        if (store_newest(pin, item->key) > item->version)
            return false;
    SET_FOR (item, &txn->keys) {
        uint64_t version = store_get(pin, item->key, &found) == ST_OK ? found.modified : 0;
        if (version != item->version)
            return false;
    }
    return true;
}

static enum status follow_newest(struct state *state)
{
    enum status st = state_follow(state->log->store, state->barrier);
    return st == ST_CORRUPT ? ST_SEALED : st; /* the cluster has keys that do not open here */
}

enum status state_decrypt(struct state *state, struct barrier_cipher *cipher, struct bytes key,
                          struct bytes stored, uint8_t *out, size_t *ret_len)
{
    enum status st = barrier_decrypt(cipher, key, stored, out, ret_len);
    if (st == ST_NOT_FOUND) { /* a term that another node made */
        TRY(follow_newest(state));
        st = barrier_decrypt(cipher, key, stored, out, ret_len);
    }
    return st == ST_NOT_FOUND ? ST_CORRUPT : st;
}

/* Whether the barrier has the keys of the state that the transaction pinned, and not those of a
 * state before or after a restore. */
static bool keys_are_pinned(const struct state_txn *txn)
{
    struct state *state = txn->state;
    return txn->cipher != state->cipher || /* the new keys of an initialisation */
           barrier_restored(state->barrier) == core_restored(&txn->pin);
}

static enum status open_head(struct state_txn *txn, struct arena *arena, struct bytes key,
                             struct bytes head, struct bytes *ret_value)
{
    size_t n = 0;
    uint8_t *out = arena_alloc(arena, head.len);
    if (out == NULL)
        return ST_NOMEM;
    enum status st = state_decrypt(txn->state, txn->cipher, key, head, out, &n);
    TRY(st == ST_CORRUPT && !keys_are_pinned(txn) ? ST_BUSY : st);
    ASSERT(n <= head.len);
    *ret_value = bytes_of(out, n);
    return ST_OK;
}

static enum status open_value(struct state_txn *txn, struct bytes key, struct bytes stored,
                              struct bytes *ret_value, struct store_retain_parts *ret_parts)
{
    struct store_retain_parts parts;
    TRY(store_retain_split(stored, &parts));
    TRY(open_head(txn, txn->arena, key, parts.head, ret_value));
    *ret_parts = parts;
    return ST_OK;
}

enum status txn_open_value(struct state_txn *txn, struct arena *arena, struct bytes key,
                           struct bytes stored, struct bytes *ret_value)
{
    struct store_retain_parts parts;
    TRY(store_retain_split(stored, &parts));
    return open_head(txn, arena, key, parts.head, ret_value);
}

bool txn_own(const struct state_txn *txn, struct bytes key, struct state_op **ret_op)
{
    *ret_op = NULL;
    if (txn->writes.head == NULL && txn->drops.head == NULL) /* most reads */
        return false;
    struct state_item *item = set_find(&txn->writes, key);
    *ret_op = item != NULL ? item->op : NULL;
    return item != NULL || set_covering(&txn->drops, key) != NULL;
}

/* Find the item at `key`, as stored: own writes first. `ret_own` is the staged put or NULL. */
static enum status look_up(struct state_txn *txn, struct bytes key, struct state_op **ret_own,
                           struct store_item *ret_item)
{
    struct state_op *own;

    ASSERT(txn->open);
    if (!state_key_valid(key))
        return ST_INVALID;
    if (txn_own(txn, key, &own)) {
        *ret_own = own;
        return own != NULL && own->kind == STATE_OP_PUT ? ST_OK : ST_NOT_FOUND;
    }
    *ret_own = NULL;
    enum status st = store_get(&txn->pin, key, ret_item);
    TRY(txn_note_key(txn, key, st == ST_OK ? ret_item->modified : 0));
    return st;
}

/* How a value is stored. */
enum form {
    FORM_ENCRYPTED,
    FORM_RAW,
    FORM_NAME, /* encrypted; or empty, as state_put_name leaves it */
};

static enum status value_get(struct state_txn *txn, struct bytes key, enum form form,
                             struct state_value *ret_value)
{
    struct state_op *own;
    struct store_item item;
    struct state_value value = {0};

    TRY(look_up(txn, key, &own, &item));
    if (own != NULL) {
        ASSERT(own->raw == (form == FORM_RAW) && !op_has_suffix(own));
        value.value = own->value;
    } else {
        if (form == FORM_RAW || (form == FORM_NAME && item.value.len == 0))
            value.value = bytes_of(arena_dup(txn->arena, item.value), item.value.len);
        else
            TRY(open_value(txn, key, item.value, &value.value, &value.stored));
        if (value.value.data == NULL)
            return ST_NOMEM;
        value.created = item.created;
        value.modified = item.modified;
    }
    *ret_value = value;
    return ST_OK;
}

enum status state_get(struct state_txn *txn, struct bytes key, struct state_value *ret_value)
{
    return value_get(txn, key, FORM_ENCRYPTED, ret_value);
}

enum status state_get_raw(struct state_txn *txn, struct bytes key, struct state_value *ret_value)
{
    return value_get(txn, key, FORM_RAW, ret_value);
}

enum status state_get_or_name(struct state_txn *txn, struct bytes key,
                              struct state_value *ret_value)
{
    return value_get(txn, key, FORM_NAME, ret_value);
}

enum status state_exists(struct state_txn *txn, struct bytes key)
{
    struct state_op *own;
    struct store_item item;
    return look_up(txn, key, &own, &item);
}

bool state_is_deleted(const struct state_txn *txn, struct bytes key)
{
    struct state_op *own;
    return txn_own(txn, key, &own) && (own == NULL || own->kind != STATE_OP_PUT);
}

enum status state_stamp(struct state_txn *txn, struct bytes key, struct state_stamp *ret_stamp)
{
    struct state_op *own;
    struct store_item item;
    TRY(look_up(txn, key, &own, &item));
    *ret_stamp = (struct state_stamp){0};
    if (own != NULL)
        return ST_OK;
    ret_stamp->modified = item.modified;
    ret_stamp->seal = bytes_hash(bytes_of(item.value.data, MIN(item.value.len, STAMP_BYTES)));
    return ST_OK;
}

enum status state_open(struct state_txn *txn, struct bytes key, struct bytes sealed,
                       struct bytes *ret_plain)
{
    ASSERT(txn->open);
    if (sealed.len < BARRIER_OVERHEAD)
        return ST_CORRUPT;
    enum status st = txn_open_value(txn, txn->arena, key, sealed, ret_plain);
    if (st == ST_CORRUPT)
        TRY(state_need_keys(txn));
    return st;
}

enum status state_need_keys(struct state_txn *txn)
{
    static const char *const rings[] = {BARRIER_KEYRING, BARRIER_LOCAL_KEYRING};
    ASSERT(txn->open);
    for (size_t i = 0; i < ARRAY_LEN(rings); i++)
        TRY(txn_note_key(txn, bytes_str(rings[i]), core_modified(&txn->pin, bytes_str(rings[i]))));
    return keys_are_pinned(txn) ? ST_OK : ST_BUSY;
}

uint64_t state_version(const struct state_txn *txn)
{
    ASSERT(txn->open);
    return txn->pin.version;
}

uint64_t state_view(const struct state_txn *txn)
{
    ASSERT(txn->open);
    return txn->read_only && txn->ops == NULL ? txn->pin.generation : 0;
}

enum status state_newest(struct state_txn *txn, struct bytes prefix, uint64_t *ret_version)
{
    ASSERT(txn->open);
    if (!rlog_txn_prefix_valid(prefix))
        return ST_INVALID;
    TRY(txn_note_prefix(txn, prefix));
    *ret_version = store_newest(&txn->pin, prefix);
    return ST_OK;
}

uint64_t state_changed(const struct state_txn *txn, struct bytes prefix)
{
    ASSERT(txn->open);
    return store_newest(&txn->pin, prefix);
}

uint64_t state_restored(const struct state_txn *txn)
{
    ASSERT(txn->open);
    return core_restored(&txn->pin);
}

struct state_index state_index_of(const struct state_txn *txn, struct bytes key)
{
    struct store_item item;
    ASSERT(txn->open);
    bool present = store_get(&txn->pin, key, &item) == ST_OK;
    uint64_t version = present ? item.modified : store_newest(&txn->pin, key);
    return (struct state_index){MAX(version, core_restored(&txn->pin)), present};
}

struct state_index state_index_below(const struct state_txn *txn, struct bytes prefix)
{
    ASSERT(txn->open);
    uint64_t version = MAX(store_newest(&txn->pin, prefix), core_restored(&txn->pin));
    return (struct state_index){version, store_count(&txn->pin, prefix) != 0};
}

uint64_t state_generation(const struct state_txn *txn)
{
    ASSERT(txn->open);
    return txn->pin.generation;
}

/* Staging */

/* Put an operation into effect. ST_NOMEM, nothing changed. */
static enum status take_effect(struct state_txn *txn, struct state_op *op)
{
    struct state_item *item = NULL;
    uint64_t random = state_random(txn->state);

    if (op->kind == STATE_OP_DROP) {
        TRY(set_add_prefix(&txn->drops, txn->arena, random, op->key, &item));
        set_remove_prefix(&txn->writes, op->key);
        return ST_OK;
    }
    TRY(set_add(&txn->writes, txn->arena, random, op->key, &item));
    item->op = op;
    return ST_OK;
}

static enum status op_stage(struct state_txn *txn, const struct state_op *op)
{
    struct state_op *copy = arena_alloc(txn->arena, sizeof *copy);
    uint8_t *key = arena_dup(txn->arena, op->key);
    uint8_t *value = arena_dup(txn->arena, op->value);
    uint8_t *suffix = op->suffix.len != 0 ? arena_dup(txn->arena, op->suffix) : value;

    ASSERT(txn->open);
    if (copy == NULL || key == NULL || value == NULL || suffix == NULL)
        return ST_NOMEM;
    *copy = *op;
    copy->key.data = key;
    copy->value.data = value;
    copy->suffix.data = suffix;
    TRY(take_effect(txn, copy));
    txn->size += op->key.len + op->value.len + op->suffix.len + OP_SIZE;
    *(txn->last_op != NULL ? &txn->last_op->next : &txn->ops) = copy;
    txn->last_op = copy;
    return ST_OK;
}

static enum status value_put(struct state_txn *txn, struct bytes key, struct bytes value,
                             struct state_op op)
{
    if (!state_key_valid(key))
        return ST_INVALID;
    if (value.len > STATE_VALUE_MAX)
        return ST_TOO_BIG;
    op.kind = STATE_OP_PUT;
    op.key = key;
    op.value = value;
    return op_stage(txn, &op);
}

enum status state_put(struct state_txn *txn, struct bytes key, struct bytes value)
{
    return value_put(txn, key, value, (struct state_op){0});
}

enum status state_put_exempt(struct state_txn *txn, struct bytes key, struct bytes value)
{
    return value_put(txn, key, value, (struct state_op){.exempt = true});
}

enum status state_put_name(struct state_txn *txn, struct bytes key, bool exempt)
{
    bool raised;
    TRY(state_has_feature(txn, STATE_NAME_FEATURE, &raised));
    return value_put(txn, key, (struct bytes){0},
                     (struct state_op){.name = raised, .exempt = exempt});
}

enum status state_put_retain(struct state_txn *txn, struct bytes key, struct bytes value,
                             const struct store_retain_suffix *suffix, bool exempt)
{
    struct state_op *own, op = {.exempt = exempt, .suffix = buf_bytes(&suffix->copy)};
    struct store_item item;

    TRY(buf_status(&suffix->copy));
    ASSERT(suffix->run.len == 0 || suffix->copy.len == 0);
    if (suffix->run.len + suffix->copy.len > STORE_RETAIN_SUFFIX_MAX)
        return ST_TOO_BIG;
    if (suffix->run.len != 0) {
        TRY(look_up(txn, key, &own, &item)); /* a precondition: the range is of this version */
        ASSERT(own == NULL);
        op.retain = store_retain_range(suffix->run, item.value);
    }
    return value_put(txn, key, value, op);
}

enum status state_put_raw(struct state_txn *txn, struct bytes key, struct bytes value)
{
    return value_put(txn, key, value, (struct state_op){.raw = true, .exempt = true});
}

enum status state_delete(struct state_txn *txn, struct bytes key)
{
    if (!state_key_valid(key))
        return ST_INVALID;
    return op_stage(txn, &(struct state_op){.kind = STATE_OP_DELETE, .key = key});
}

enum status state_delete_prefix(struct state_txn *txn, struct bytes prefix)
{
    if (!rlog_txn_drop_valid(prefix))
        return ST_INVALID;
    return op_stage(txn, &(struct state_op){.kind = STATE_OP_DROP, .key = prefix});
}

void state_stage_more(struct state_txn *txn, const struct state_more *more)
{
    ASSERT(txn->open && !txn->read_only);
    ASSERT(txn->more == NULL);
    txn->more = more;
}

bool state_staged(const struct state_txn *txn)
{
    return txn->ops != NULL || txn->more != NULL;
}

struct state_mark state_mark(const struct state_txn *txn)
{
    return (struct state_mark){txn->last_op};
}

enum status state_rollback(struct state_txn *txn, struct state_mark mark)
{
    ASSERT(txn->open);
    if (mark.last_op == txn->last_op)
        return ST_OK;
    if (mark.last_op != NULL)
        mark.last_op->next = NULL;
    else
        txn->ops = NULL;
    txn->last_op = mark.last_op;
    txn->writes = txn->drops = (struct state_set){0};
    for (struct state_op *op = txn->ops; op != NULL; op = op->next) {
        enum status st = take_effect(txn, op);
        if (st != ST_OK)
            return fail(txn, st);
    }
    return ST_OK;
}
