#include "cluster/dr/role.h"
#include "cluster/dr/former.h"

#include "base/plant.h"

#include <inttypes.h>
#include <stdio.h>

/* The record: format u8, mode u8, phase u8, flags u8 (bit 0: whole), set 16, epoch u64, since i64,
 * target u64, blocks id, address, reason. */
enum { ROLE_FORMAT = 1, ROLE_WHOLE = 1, ROLE_BYTES_MAX = 1024 };

enum status dr_role_encode(const struct dr_role *role, struct buf *out)
{
    ASSERT(role->mode != DR_MODE_DISABLED && role->epoch >= DR_EPOCH_FIRST);
    buf_add_u8(out, ROLE_FORMAT);
    buf_add_u8(out, (uint8_t)role->mode);
    buf_add_u8(out, (uint8_t)role->phase);
    buf_add_u8(out, role->whole ? ROLE_WHOLE : 0);
    buf_add(out, bytes_of(role->set, sizeof role->set));
    buf_add_u64(out, role->epoch);
    buf_add_u64(out, (uint64_t)role->since_ms);
    buf_add_u64(out, role->target);
    buf_add_block(out, bytes_str(role->id));
    buf_add_block(out, bytes_str(role->address));
    buf_add_block(out, bytes_str(role->reason));
    ASSERT(out->len <= ROLE_BYTES_MAX);
    return buf_status(out);
}

/* Copy a text without a zero byte. False: it does not fit. */
static bool take_text(struct bytes from, char *to, size_t room)
{
    if (from.len >= room || (from.len != 0 && memchr(from.data, 0, from.len) != NULL))
        return false;
    if (from.len != 0)
        memcpy(to, from.data, from.len);
    to[from.len] = '\0';
    return true;
}

static bool is_possible(const struct dr_role *role)
{
    if (role->epoch < DR_EPOCH_FIRST || role->epoch > DR_EPOCH_MAX + 1 || role->since_ms < 0)
        return false;
    switch (role->mode) {
    case DR_MODE_DISABLED: return false;
    case DR_MODE_PRIMARY:
        return role->phase == DR_PHASE_RUNNING || role->phase == DR_PHASE_SUPERSEDED;
    case DR_MODE_SECONDARY:
        return role->phase == DR_PHASE_IDLE || role->phase == DR_PHASE_SYNCING ||
               role->phase == DR_PHASE_STREAMING;
    }
    return false;
}

enum status dr_role_decode(struct bytes record, struct dr_role *ret_role)
{
    struct dr_role role = {0};
    struct reader in = reader_of(record);
    uint8_t format = reader_u8(&in);
    role.mode = (enum dr_mode)reader_u8(&in);
    role.phase = (enum dr_phase)reader_u8(&in);
    uint8_t flags = reader_u8(&in);
    struct bytes set = reader_take(&in, DR_SET_BYTES);
    role.epoch = reader_u64(&in);
    role.since_ms = (int64_t)reader_u64(&in);
    role.target = reader_u64(&in);
    struct bytes id = reader_block(&in), address = reader_block(&in), reason = reader_block(&in);
    if (reader_end(&in) != ST_OK || format != ROLE_FORMAT || flags > ROLE_WHOLE ||
        !take_text(id, role.id, sizeof role.id) ||
        !take_text(address, role.address, sizeof role.address) ||
        !take_text(reason, role.reason, sizeof role.reason))
        return ST_CORRUPT;
    role.whole = (flags & ROLE_WHOLE) != 0;
    memcpy(role.set, set.data, sizeof role.set);
    if (!is_possible(&role))
        return ST_CORRUPT;
    *ret_role = role;
    return ST_OK;
}

enum status dr_role_at(const struct store_pin *pin, struct dr_role *ret_role)
{
    struct store_item item;
    if (store_get(pin, BYTES(DR_ROLE), &item) != ST_OK) {
        *ret_role = (struct dr_role){.mode = DR_MODE_DISABLED};
        return ST_OK;
    }
    return dr_role_decode(item.value, ret_role);
}

enum status dr_role_read(struct state_txn *txn, struct dr_role *ret_role)
{
    struct state_value stored;
    enum status st = state_get_raw(txn, BYTES(DR_ROLE), &stored);
    if (st == ST_NOT_FOUND) {
        *ret_role = (struct dr_role){.mode = DR_MODE_DISABLED};
        return ST_OK;
    }
    TRY(st);
    return dr_role_decode(stored.value, ret_role);
}

static enum status stage(struct state_txn *txn, const struct dr_role *role)
{
    CLEANUP(buf_done) struct buf record = {0};
    ASSERT(is_possible(role));
    TRY(dr_role_encode(role, &record));
    return state_put_raw(txn, BYTES(DR_ROLE), buf_bytes(&record));
}

/* Stage a role of another mode. Everything below DR_PREFIX belongs to the former mode: the
 * secondaries and the authority of a primary, the link and the tokens of a secondary. */
static enum status stage_mode(struct state_txn *txn, const struct dr_role *role)
{
    TRY(state_delete_prefix(txn, BYTES(DR_PREFIX)));
    if (role->mode == DR_MODE_DISABLED)
        return ST_OK;
    if (dr_stands_still(role))
        TRY(state_put_raw(txn, BYTES(DR_FOLLOWING), BYTES("")));
    return stage(txn, role);
}

/* The link of a secondary stays while it becomes a primary, and so do the authority of a demoted
 * cluster and the keys of the secondaries that it had: they announce higher epochs. The values are
 * moved as they are stored: they are encrypted for the same keys. */
static enum status stage_promoted(struct state_txn *txn, const struct dr_role *role)
{
    static const char *const kept[] = {DR_LINK, DR_ADDRESSES, DR_CA};
    struct state_value stored[ARRAY_LEN(kept)];
    enum status found[ARRAY_LEN(kept)];
    struct dr_former former;
    TRY(dr_former_collect(txn, &former));
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        found[i] = state_get_raw(txn, bytes_str(kept[i]), &stored[i]);
        if (found[i] != ST_OK && found[i] != ST_NOT_FOUND)
            return found[i];
    }
    char version[24];
    (void)snprintf(version, sizeof version, "%" PRIu64, state_version(txn)); /* always fits */
    TRY(stage_mode(txn, role));
    TRY(state_put_raw(txn, BYTES(DR_PROMOTED), bytes_str(version)));
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (found[i] == ST_OK)
            TRY(state_put_raw(txn, bytes_str(kept[i]), stored[i].value));
    return dr_former_put(txn, &former);
}

static enum status refuse(struct reason *reason, const char *text)
{
    reason_set(reason, "%s", text);
    return ST_INVALID;
}

/* Texts are bounded by their callers' schemas; a longer one is refused. */
static enum status copy_text(char *to, size_t room, const char *from, const char *what,
                             struct reason *reason)
{
    if (take_text(bytes_str(from), to, room))
        return ST_OK;
    reason_set(reason, "%s: at most %zu characters", what, room - 1);
    return ST_INVALID;
}

const char *dr_mode_text(enum dr_mode mode)
{
    static const char *const texts[] = {"disabled", "primary", "secondary"};
    ASSERT(mode < ARRAY_LEN(texts));
    return texts[mode];
}

const char *dr_phase_text(enum dr_phase phase)
{
    static const char *const texts[] = {
        [DR_PHASE_RUNNING] = "running",     [DR_PHASE_SUPERSEDED] = "superseded",
        [DR_PHASE_IDLE] = "idle",           [DR_PHASE_SYNCING] = "syncing",
        [DR_PHASE_STREAMING] = "streaming",
    };
    ASSERT(phase >= DR_PHASE_RUNNING && phase < ARRAY_LEN(texts));
    return texts[phase];
}

const char *dr_state_text(const struct dr_role *role)
{
    switch (role->phase) {
    case DR_PHASE_RUNNING: return "running";
    case DR_PHASE_SUPERSEDED:
    case DR_PHASE_IDLE: return "idle";
    case DR_PHASE_SYNCING: return role->whole ? "merkle-diff" : "merkle-sync";
    case DR_PHASE_STREAMING: return "stream-wals";
    }
    return "idle";
}

enum status dr_role_enable(struct state_txn *txn, const uint8_t set[DR_SET_BYTES],
                           const char *address, int64_t now_ms, struct reason *reason)
{
    struct dr_role role;
    TRY(dr_role_read(txn, &role));
    if (role.mode != DR_MODE_DISABLED) {
        reason_set(reason, "this cluster is a DR %s already; disable that first",
                   dr_mode_text(role.mode));
        return ST_INVALID;
    }
    role = (struct dr_role){.mode = DR_MODE_PRIMARY,
                            .phase = DR_PHASE_RUNNING,
                            .epoch = DR_EPOCH_FIRST,
                            .since_ms = MAX(now_ms, 0)};
    memcpy(role.set, set, sizeof role.set);
    TRY(copy_text(role.address, sizeof role.address, address, "primary_cluster_addr", reason));
    return stage_mode(txn, &role);
}

enum status dr_role_demote(struct state_txn *txn, int64_t now_ms, struct reason *reason)
{
    struct dr_role role;
    TRY(dr_role_read(txn, &role));
    if (role.mode != DR_MODE_PRIMARY)
        return refuse(reason, "this cluster is no DR primary");
    role.mode = DR_MODE_SECONDARY;
    role.phase = DR_PHASE_IDLE;
    role.since_ms = MAX(now_ms, 0);
    role.address[0] = '\0';
    (void)snprintf(role.reason, sizeof role.reason,
                   "demoted: update-primary names the primary to follow");
    /* Until this cluster follows another one, two things stay. The secondaries and the authority:
     * they still fetch the last writes, and announce higher epochs. The link of a cluster that was
     * promoted once: if it is promoted again, it announces its epoch by it. */
    TRY(state_put_raw(txn, BYTES(DR_FOLLOWING), BYTES("")));
    TRY(state_delete(txn, BYTES(DR_SETTINGS)));
    return stage(txn, &role);
}

enum status dr_role_disable(struct state_txn *txn, struct reason *reason)
{
    struct dr_role role;
    TRY(dr_role_read(txn, &role));
    if (role.mode == DR_MODE_DISABLED)
        return refuse(reason, "DR replication is not enabled");
    return stage_mode(txn, &(struct dr_role){.mode = DR_MODE_DISABLED});
}

enum status dr_role_follow(struct state_txn *txn, const struct dr_primary *primary, int64_t now_ms,
                           struct reason *reason)
{
    struct dr_role role;
    TRY(dr_role_read(txn, &role));
    if (role.mode != DR_MODE_DISABLED) {
        reason_set(reason, "this cluster is a DR %s already; disable that first",
                   dr_mode_text(role.mode));
        return ST_INVALID;
    }
    role = (struct dr_role){.mode = DR_MODE_SECONDARY,
                            .phase = DR_PHASE_SYNCING,
                            .epoch = primary->epoch,
                            .since_ms = MAX(now_ms, 0)};
    memcpy(role.set, primary->set, sizeof role.set);
    TRY(copy_text(role.id, sizeof role.id, primary->id, "id", reason));
    TRY(copy_text(role.address, sizeof role.address, primary->address, "address", reason));
    return stage_mode(txn, &role);
}

enum status dr_role_resync(struct state_txn *txn, const struct dr_primary *primary,
                           struct reason *reason)
{
    struct dr_role role;
    TRY(dr_role_read(txn, &role));
    if (role.mode != DR_MODE_SECONDARY)
        return refuse(reason, "this cluster is no DR secondary");
    if (memcmp(role.set, primary->set, sizeof role.set) != 0)
        return refuse(reason, "the primary belongs to another replication set; disable this "
                              "secondary, and enable it anew with a token of that primary");
    if (primary->epoch > DR_EPOCH_MAX)
        return refuse(reason, "no epoch is so high");
    if (primary->epoch < role.epoch && !planted(PLANT_DR_EPOCH)) {
        reason_set(reason,
                   "the primary has epoch %llu and this secondary has followed epoch %llu: the "
                   "primary is superseded",
                   (unsigned long long)primary->epoch, (unsigned long long)role.epoch);
        return ST_INVALID;
    }
    if (role.phase == DR_PHASE_IDLE) { /* a demoted primary still has them */
        TRY(state_delete_prefix(txn, BYTES(DR_SECONDARY_PREFIX)));
        TRY(state_delete_prefix(txn, BYTES(DR_FORMER_PREFIX)));
        TRY(state_delete(txn, BYTES(DR_CA)));
    }
    /* A first sync under way leaves no state of the set yet: it stays a first sync. */
    role.whole = role.phase != DR_PHASE_SYNCING || role.whole;
    role.phase = DR_PHASE_SYNCING;
    role.epoch = primary->epoch;
    role.target = 0;
    role.reason[0] = '\0';
    TRY(copy_text(role.id, sizeof role.id, primary->id, "id", reason));
    TRY(copy_text(role.address, sizeof role.address, primary->address, "address", reason));
    return stage(txn, &role);
}

enum status dr_role_forget(struct state_txn *txn, const char *why, struct reason *reason)
{
    struct dr_role role;
    TRY(dr_role_read(txn, &role));
    if (role.mode != DR_MODE_SECONDARY)
        return refuse(reason, "this cluster is no DR secondary");
    if (role.phase == DR_PHASE_SYNCING && !role.whole)
        return refuse(reason, "this secondary still syncs: its state is not whole");
    role.phase = DR_PHASE_IDLE;
    role.target = 0;
    role.whole = false;
    role.address[0] = '\0';
    TRY(copy_text(role.reason, sizeof role.reason, why, "reason", reason));
    return stage(txn, &role);
}

enum status dr_role_synced(struct state_txn *txn, struct reason *reason)
{
    struct dr_role role;
    TRY(dr_role_read(txn, &role));
    if (role.mode != DR_MODE_SECONDARY || role.phase != DR_PHASE_SYNCING)
        return refuse(reason, "this cluster does not sync with a primary");
    role.phase = DR_PHASE_STREAMING;
    role.target = 0;
    role.whole = false;
    return stage(txn, &role);
}

enum status dr_role_aim(struct state_txn *txn, uint64_t version, struct reason *reason)
{
    struct dr_role role;
    TRY(dr_role_read(txn, &role));
    if (role.mode != DR_MODE_SECONDARY || role.phase != DR_PHASE_SYNCING)
        return refuse(reason, "this cluster does not sync with a primary");
    role.target = version;
    return stage(txn, &role);
}

enum status dr_role_promote(struct state_txn *txn, const char *address, int64_t now_ms,
                            struct reason *reason)
{
    struct dr_role role;
    TRY(dr_role_read(txn, &role));
    if (role.mode != DR_MODE_SECONDARY)
        return refuse(reason, "this cluster is no DR secondary");
    if (role.phase == DR_PHASE_SYNCING && !planted(PLANT_DR_PROMOTE_HALF))
        return refuse(reason, "this secondary still syncs: its state is not whole, so it cannot be "
                              "promoted, with or without force");
    role.mode = DR_MODE_PRIMARY;
    role.phase = DR_PHASE_RUNNING;
    role.epoch++;
    role.since_ms = MAX(now_ms, 0);
    role.id[0] = role.reason[0] = '\0';
    TRY(copy_text(role.address, sizeof role.address, address, "primary_cluster_addr", reason));
    return stage_promoted(txn, &role);
}

/* Epochs only rise, and a promotion takes the one above: so never one that was heard. */
static enum status check_higher(const struct dr_role *role, uint64_t epoch, struct reason *reason)
{
    if (role->mode == DR_MODE_DISABLED || epoch <= role->epoch)
        return refuse(reason, "no higher epoch than this cluster's");
    return epoch <= DR_EPOCH_MAX ? ST_OK : refuse(reason, "no epoch is so high");
}

enum status dr_role_hear(struct state_txn *txn, uint64_t epoch, struct reason *reason)
{
    struct dr_role role;
    TRY(dr_role_read(txn, &role));
    TRY(check_higher(&role, epoch, reason));
    if (role.mode == DR_MODE_SECONDARY && role.phase != DR_PHASE_IDLE)
        return refuse(reason, "this secondary believes its primary alone");
    bool primary = role.mode == DR_MODE_PRIMARY;
    (void)snprintf(role.reason, sizeof role.reason,
                   primary ? "superseded: a cluster of this set has epoch %llu, this one has %llu"
                           : "demoted: another cluster of this set was promoted to epoch %llu, "
                             "after this one's %llu; update-primary names the primary to follow",
                   (unsigned long long)epoch, (unsigned long long)role.epoch);
    role.epoch = epoch;
    if (primary)
        role.phase = DR_PHASE_SUPERSEDED;
    TRY(state_put_raw(txn, BYTES(DR_FOLLOWING), BYTES("")));
    return stage(txn, &role);
}

enum status dr_role_learn(struct state_txn *txn, uint64_t epoch, struct reason *reason)
{
    struct dr_role role;
    TRY(dr_role_read(txn, &role));
    TRY(check_higher(&role, epoch, reason));
    if (role.mode != DR_MODE_SECONDARY)
        return refuse(reason, "this cluster is no DR secondary");
    role.epoch = epoch;
    return stage(txn, &role);
}
