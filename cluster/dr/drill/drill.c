#include "cluster/dr/drill/drill_read.h"

#include "base/trace.h"
#include "state/state_core.h"
#include "store/shape.h"

#include <inttypes.h>

enum { ASK_EVERY = 256, PIN_SPARE_MS = 10 * 1000 }; /* keys between two looks at the clock */

struct drill {
    struct dr *dr;
    const struct dr_drill_ask *ask;
    struct dr_drill *out;
    struct store_pin pin;
    struct barrier *apart; /* unsealed with the records of the pinned version */
    uint64_t begun_ms;
    bool late; /* the time is over */
};

/* ST_CLOSED: the drill ends without a result. */
static enum status go_on(struct drill *d)
{
    if (d->dr->host->stopping || !d->ask->goes_on(d->ask->ctx))
        return ST_CLOSED;
    d->late = d->late || env_mono_ms(d->ask->env) - d->begun_ms >= d->ask->limit_ms;
    return ST_OK;
}

static enum status refuse(struct reason *reason, const char *text)
{
    reason_set(reason, "%s", text);
    return ST_INVALID;
}

static enum status judge_role(struct drill *d, struct reason *reason)
{
    TRY(dr_role_at(&d->pin, &d->out->role));
    if (!dr_is_secondary(&d->out->role))
        return refuse(reason, "this cluster is no DR secondary");
    if (d->out->role.phase == DR_PHASE_SYNCING)
        return refuse(reason, "this secondary still syncs, so its state is not whole and cannot be "
                              "promoted: repeat the drill when the sync has ended");
    return ST_OK;
}

/* Open the keys of the copy. */
static enum status open_keys(struct drill *d, struct reason *reason)
{
    struct reason why = {{0}};
    ASSERT(d->apart == NULL);
    TRY(barrier_new(&d->apart));
    d->out->own_seal = d->ask->seal != NULL;
    enum status st =
        state_unseal_apart(&d->pin, d->ask->seal, d->dr->host->barrier, d->apart, &why);
    if (st != ST_INVALID && st != ST_CORRUPT && st != ST_NOT_FOUND)
        return st;
    reason_set(reason, "the keys of this version do not open: %.200s", why.text);
    return ST_INVALID;
}

static void on_wrong_hash(void *ctx, struct bytes at)
{
    struct drill *d = ctx;
    d->out->wrong_hashes++;
    drill_name(d->out, at, "the content is not that of the stored hash");
}

static bool on_hashed(void *ctx, uint64_t keys)
{
    struct drill *d = ctx;
    (void)keys;
    return go_on(d) == ST_OK && !d->late;
}

/* Check the hashes. When the time is over, the drill goes on to its report. */
static enum status check_hashes(struct drill *d)
{
    const struct store_check check = {.bad = on_wrong_hash, .goes_on = on_hashed, .ctx = d};
    enum status st = store_check_run(&d->pin, BYTES(RLOG_REPLICATED), &check);
    return st == ST_CLOSED && d->late ? ST_OK : st;
}

static enum status read_keys(struct drill *d, struct drill_reader *r)
{
    struct store_iter iter;
    store_iter_init(&iter, &d->pin, BYTES(RLOG_REPLICATED), (struct bytes){0});
    while (store_iter_next(&iter)) {
        if (d->out->keys % ASK_EVERY == 0)
            TRY(go_on(d));
        if (d->late)
            return ST_OK;
        TRY(drill_read(r, &iter.item));
    }
    d->out->complete = true;
    return ST_OK;
}

static enum status read_copy(struct drill *d, struct reason *reason)
{
    struct drill_reader reader = {.out = d->out};
    TRY(judge_role(d, reason));
    TRY(open_keys(d, reason));
    TRY(check_hashes(d));
    /* decryption draws no random bytes, so the env may be another thread's */
    TRY(barrier_cipher_new(d->apart, d->ask->env, &reader.cipher));
    enum status st = read_keys(d, &reader);
    barrier_cipher_free(reader.cipher);
    drill_reader_done(&reader);
    if (st == ST_OK)
        store_hash(&d->pin, BYTES(RLOG_REPLICATED), d->out->root);
    return st;
}

/* How far the version is behind the primary. */
static void note_lag(struct drill *d)
{
    struct dr_facts *facts = dr_live_begin(&d->dr->live);
    d->out->lag = dr_live_lag(facts, d->pin.version, env_mono_ms(d->ask->env));
    dr_live_end(&d->dr->live);
}

static void log_result(const struct drill *d)
{
    const struct dr_drill *out = d->out;
    ASSERT(out->keys <= out->total && out->n_damage <= DR_DRILL_NAMED);
    bool whole = out->complete && out->wrong_hashes == 0 && out->unreadable == 0;
    trace(whole ? TRACE_INFO : TRACE_WARN, "dr",
          "a drill read %" PRIu64 " of %" PRIu64 " keys of version %" PRIu64 " in %" PRIu64
          " ms: %" PRIu64 " values cannot be read, %" PRIu64 " hashes are wrong",
          out->keys, out->total, out->version, out->took_ms, out->unreadable, out->wrong_hashes);
    for (unsigned i = 0; i < out->n_damage; i++)
        trace(TRACE_ERROR, "dr", "%s: %s", out->damage[i].key, out->damage[i].problem);
}

static enum status drill_pinned(struct drill *d, struct reason *reason)
{
    struct dr_drill *out = d->out;
    out->version = d->pin.version;
    out->total = store_count(&d->pin, BYTES(RLOG_REPLICATED));
    note_lag(d);
    enum status st = read_copy(d, reason);
    barrier_free(d->apart); /* wipes */
    out->took_ms = env_mono_ms(d->ask->env) - d->begun_ms;
    if (st == ST_OK)
        log_result(d);
    return st;
}

enum status dr_drill_store(struct dr *dr, struct store *store, const struct dr_drill_ask *ask,
                           struct dr_drill *ret_drill, struct reason *reason)
{
    struct drill d = {.dr = dr, .ask = ask, .out = ret_drill, .begun_ms = env_mono_ms(ask->env)};
    bool idle = false;
    ASSERT(ask->limit_ms != 0 && ask->goes_on != NULL);
    *ret_drill = (struct dr_drill){0};
    if (!atomic_compare_exchange_strong(&dr->drills, &idle, true))
        return ST_BUSY;
    enum status st = store_pin(store, "dr drill",
                               (uint32_t)MIN(ask->limit_ms + PIN_SPARE_MS, UINT32_MAX), &d.pin);
    if (st == ST_OK) {
        st = drill_pinned(&d, reason);
        store_unpin(&d.pin);
    }
    atomic_store(&dr->drills, false);
    return st;
}

enum status dr_drill_run(struct dr *dr, const struct dr_drill_ask *ask, struct dr_drill *ret_drill,
                         struct reason *reason)
{
    if (dr->host->rlog == NULL || dr->host->replica_closed || dr->host->stopping)
        return ST_CLOSED;
    return dr_drill_store(dr, rlog_store(dr->host->rlog), ask, ret_drill, reason);
}
