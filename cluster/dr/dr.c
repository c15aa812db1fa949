#include "cluster/dr/dr.h"
#include "cluster/dr/reader.h"
#include "cluster/dr/records.h"

#include "base/trace.h"
#include "raft/txn/rlog_wal.h"

#include <inttypes.h>

static void note_addresses(struct dr *d, const struct rlog_status *raft)
{
    struct dr_addresses all = {0};
    for (unsigned i = 0; i < raft->n_members; i++)
        if (dr_addresses_add(&all, bytes_str(raft->members[i].address)) != ST_OK)
            continue; /* an address that no secondary can dial */
    dr_addresses_note(d, &all);
}

static void tell(const struct dr_role *was, const struct dr_role *is)
{
    if (was->mode == is->mode && was->phase == is->phase && was->epoch == is->epoch)
        return;
    if (is->mode == DR_MODE_DISABLED)
        trace(TRACE_INFO, "dr", "disaster recovery is disabled");
    else
        trace(TRACE_INFO, "dr", "this cluster is a DR %s, %s, epoch %" PRIu64 "%s%s",
              dr_mode_text(is->mode), dr_phase_text(is->phase), is->epoch,
              is->reason[0] != '\0' ? ": " : "", is->reason);
}

/* A claim of an epoch counts for its set, and until the role has it. A new epoch ends a conflict.
 */
static void settle_heard(struct dr *d, const struct dr_role *role)
{
    struct dr_heard heard;
    dr_epoch_noted(&d->epochs, &heard);
    if (heard.epoch != 0 &&
        (memcmp(heard.set, role->set, sizeof heard.set) != 0 || heard.epoch <= role->epoch))
        dr_epoch_forget(&d->epochs, &heard);
    if (d->role.epoch != role->epoch || memcmp(d->role.set, role->set, sizeof role->set) != 0)
        dr_live_agree(&d->live);
}

static void take_role(struct dr *d, const struct store_pin *pin)
{
    struct dr_role role;
    if (dr_role_at(pin, &role) != ST_OK) {
        trace(TRACE_ERROR, "dr",
              "the record of the DR role is malformed: this cluster serves "
              "no client");
        role = (struct dr_role){.mode = DR_MODE_SECONDARY, .phase = DR_PHASE_IDLE};
    }
    tell(&d->role, &role);
    if (d->role.mode != role.mode)
        dr_live_reset(&d->live);
    settle_heard(d, &role);
    d->role = role;
    d->host->dr_secondary = dr_stands_still(&role);
    rlog_wal_switch(rlog_wal(d->host->rlog), role.mode == DR_MODE_PRIMARY || dr_was_demoted(&role));
}

/* Follow the settings of a primary. A node that is not active has no replies that wait. */
static void take_settings(struct dr *d, const struct store_pin *pin)
{
    struct dr_settings settings;
    if (dr_settings_at(pin, &settings) != ST_OK) {
        trace(TRACE_ERROR, "dr", "the record of the DR settings is malformed: sync mode is off");
        settings = (struct dr_settings){.sync_timeout_ms = DR_SYNC_TIMEOUT_MS};
    }
    bool primary = d->role.mode == DR_MODE_PRIMARY;
    d->sync = primary && settings.sync;
    atomic_store(&d->bandwidth, primary ? settings.bandwidth : 0);
    if (d->sync && d->role.phase == DR_PHASE_SUPERSEDED)
        dr_hold_supersede(&d->holds);
    else
        dr_hold_set(&d->holds, d->sync, settings.sync_timeout_ms);
}

/* Let the cluster port trust the certificates that this primary signs for its secondaries. */
static void trust(struct dr *d, const struct store_pin *pin)
{
    CLEANUP(buf_done) struct buf record = {0};
    CLEANUP(cert_pair_done) struct cert_pair ca = {0};
    struct dr_reader reader = {.host = d->host};
    uint64_t version = store_newest(pin, BYTES(DR_CA)) + 1;
    if (d->host->mesh == NULL || (d->trusted == version && d->mesh == d->host->mesh) ||
        barrier_is_sealed(d->host->barrier))
        return;
    enum status st = dr_reader_read(&reader, pin, BYTES(DR_CA), &record);
    if (st == ST_OK)
        st = dr_ca_decode(buf_bytes(&record), &ca);
    dr_reader_done(&reader);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return; /* the next tick tries again */
    struct reason why = {{0}};
    st = mesh_dr_trust(d->host->mesh, buf_bytes(&ca.cert), &why);
    if (st != ST_OK) {
        trace(TRACE_ERROR, "dr", "the replication authority cannot be used: %s", why.text);
        return;
    }
    d->trusted = version;
    d->mesh = d->host->mesh;
}

/* The ids of secondaries stand in the keys, so a sealed node knows them too. */
static void list_known(struct dr *d, const struct store_pin *pin)
{
    struct store_iter iter;
    uint64_t version = store_newest(pin, BYTES(DR_SECONDARY_PREFIX)) + 1;
    if (version == d->listed)
        return;
    d->listed = version;
    struct dr_facts *facts = dr_live_begin(&d->live);
    facts->n_known = 0;
    store_iter_init(&iter, pin, BYTES(DR_SECONDARY_PREFIX), (struct bytes){0});
    while (facts->n_known < DR_PEERS_MAX && store_iter_next(&iter)) {
        struct bytes id = bytes_from(iter.item.key, sizeof DR_SECONDARY_PREFIX - 1);
        if (id.len >= DR_ID_MAX)
            continue;
        char *to = facts->known_ids[facts->n_known++];
        memcpy(to, id.data, id.len);
        to[id.len] = '\0';
    }
    dr_live_end(&d->live);
}

static void dr_changed(void *self, const struct rlog_status *raft)
{
    struct dr *d = self;
    struct store_pin pin;
    ASSERT(part_on_thread(d->host));
    note_addresses(d, raft);
    if (store_pin(rlog_store(d->host->rlog), "dr", 0, &pin) != ST_OK)
        return; /* every pin is in use: the next tick tries again */
    uint64_t version = dr_role_version(&pin) + 1, settings = dr_settings_version(&pin) + 1;
    if (version != d->seen)
        take_role(d, &pin);
    if (version != d->seen || settings != d->set_seen)
        take_settings(d, &pin);
    d->seen = version;
    d->set_seen = settings;
    trust(d, &pin);
    list_known(d, &pin);
    store_unpin(&pin);
}

/* Replies that wait for a secondary: fall back in time, and let go of those of a former term. */
static void tick_holds(struct dr *d)
{
    struct rlog_wal_stats wal;
    struct env *env = d->host->env;
    if (!atomic_load(&d->holds.on) || d->host->rlog == NULL)
        return;
    rlog_wal_stats(rlog_wal(d->host->rlog), &wal);
    dr_hold_tick(&d->holds, wal.last, env_mono_ms(env), env_wall_ms(env));
    if (d->host->active_term == 0)
        dr_hold_release(&d->holds);
}

static void dr_tick(void *self)
{
    struct dr *d = self;
    dr_serve_reap(d);
    tick_holds(d);
}

static enum status dr_start(void *self, struct part_host *host)
{
    struct dr *d = self;
    ASSERT(d->host == NULL && d->seen == 0);
    d->host = host;
    host->dr = d;
    list_init(&d->sessions);
    TRY(dr_live_init(&d->live));
    TRY(dr_epochs_init(&d->epochs));
    TRY(dr_renewal_init(&d->renewal));
    TRY(dr_holds_init(&d->holds));
    d->open = pthread_mutex_init(&d->lock, NULL) == 0;
    return d->open ? ST_OK : ST_NOMEM;
}

static bool dr_stop(void *self)
{
    struct dr *d = self;
    dr_hold_set(&d->holds, false, 0);
    dr_serve_cancel(d);
    dr_serve_reap(d);
    return dr_serve_rests(d);
}

void dr_done(struct dr *d)
{
    dr_live_done(&d->live);
    dr_epochs_done(&d->epochs);
    dr_renewal_done(&d->renewal);
    dr_holds_done(&d->holds);
    if (d->open)
        (void)pthread_mutex_destroy(&d->lock); /* no thread holds the lock */
    d->open = false;
}

const struct part dr_part = {
    .name = "dr", .start = dr_start, .tick = dr_tick, .changed = dr_changed, .stop = dr_stop};
