#include "cluster/dr/role.h"
#include "cluster/dr/former.h"

#include "base/plant.h"
#include "state/state_record.h"

#include <inttypes.h>
#include <stdio.h>

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

/* Whether the phase is one of the mode. */
static bool is_possible(const void *from)
{
    const struct dr_role *role = from;
    bool of_primary = role->phase == DR_PHASE_RUNNING || role->phase == DR_PHASE_SUPERSEDED;
    return of_primary == (role->mode == DR_MODE_PRIMARY);
}

static const struct record_field role_fields[] = {
    RECORD_FIELD(struct dr_role, mode, U8, .min = DR_MODE_PRIMARY, .max = DR_MODE_SECONDARY,
                 .help = "1 primary, 2 secondary"),
    RECORD_FIELD(struct dr_role, phase, U8, .min = DR_PHASE_RUNNING, .max = DR_PHASE_STREAMING,
                 .help = "1 running, 2 superseded, 3 idle, 4 syncing, 5 streaming"),
    RECORD_BITS_BYTE,
    RECORD_FIELD(struct dr_role, whole, FLAG, .mask = 1,
                 .help = "syncing: the state is whole, though it may differ"),
    RECORD_FIELD(struct dr_role, set, FIXED, .help = "replication set"),
    RECORD_FIELD(struct dr_role, epoch, U64, .min = DR_EPOCH_FIRST, .max = DR_EPOCH_MAX + 1),
    RECORD_FIELD(struct dr_role, since_ms, U64, .help = "cluster time of the last change of mode"),
    RECORD_FIELD(struct dr_role, target, U64,
                 .help = "syncing: version that the sync leads to; 0: not known yet"),
    RECORD_FIELD(struct dr_role, id, TEXT, .help = "id that the primary gave to this secondary"),
    RECORD_FIELD(struct dr_role, address, TEXT, .help = "primary_cluster_addr"),
    RECORD_FIELD(struct dr_role, reason, TEXT, .help = "why it is idle or superseded"),
};
static const struct record role_record = {RECORD(struct dr_role, role_fields),
                                          .name = "dr/role",
                                          .key = DR_ROLE,
                                          .newest = 1,
                                          .raw = true,
                                          .valid = is_possible};
RECORD_LISTED(role_record);

enum status dr_role_encode(const struct dr_role *role, struct buf *out)
{
    return record_encode(&role_record, role, out);
}

enum status dr_role_decode(struct bytes record, struct dr_role *ret_role)
{
    return record_decode(&role_record, record, NULL, ret_role);
}

static enum status or_disabled(enum status st, struct dr_role *ret_role)
{
    if (st == ST_NOT_FOUND)
        *ret_role = (struct dr_role){.mode = DR_MODE_DISABLED};
    return st == ST_NOT_FOUND ? ST_OK : st;
}

enum status dr_role_at(const struct store_pin *pin, struct dr_role *ret_role)
{
    return or_disabled(state_record_at(pin, BYTES(DR_ROLE), &role_record, ret_role), ret_role);
}

enum status dr_role_read(struct state_txn *txn, struct dr_role *ret_role)
{
    return or_disabled(state_get_record(txn, BYTES(DR_ROLE), &role_record, ret_role), ret_role);
}

static enum status stage(struct state_txn *txn, const struct dr_role *role)
{
    return state_put_record(txn, BYTES(DR_ROLE), &role_record, role);
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
    return dr_epoch_is_possible(role, epoch) ? ST_OK : refuse(reason, "no epoch is so high");
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
