/* Apply computes no hashes. A worker hashes a pinned version when the state stops changing, or
 * every few seconds while the state changes. A secondary may replace its state without a new
 * version, so there every entry counts; and hashes that were mended count everywhere. */
#include "node/root.h"

/* least time between two computations while the state keeps changing */
enum { HASH_BUSY_MS = 5000 };

static void hash_run(struct env_work *work)
{
    struct root *r = CONTAINER_OF(work, struct root, work);
    store_hash(&r->pin, BYTES(RLOG_REPLICATED), r->hash);
}

static void hash_done(struct env_work *work)
{
    struct root *r = CONTAINER_OF(work, struct root, work);
    struct node_status *s = board_begin(r->board);
    ASSERT(r->hashing);
    s->root_version = r->pin.version;
    memcpy(s->root, r->hash, sizeof s->root);
    board_end(r->board);
    store_unpin(&r->pin);
    r->hashing = false;
    r->hashed_ms = env_mono_ms(r->host->env);
}

static void root_tick(void *self)
{
    struct root *r = self;
    const struct node_status *s = &r->board->status;
    uint64_t now = env_mono_ms(r->host->env), version = s->version;
    bool rests = version == r->seen_version;
    bool is_known = version == s->root_version && !atomic_load(&r->host->root_mended) &&
                    (!dr_is_secondary(&s->dr) || s->applied_index == r->hashed_index);
    ASSERT(!r->host->stopping);
    r->seen_version = version;
    if (r->host->rlog == NULL || r->hashing || is_known ||
        (!rests && now - r->hashed_ms < HASH_BUSY_MS))
        return;
    if (store_pin(rlog_store(r->host->rlog), "merkle root", 0, &r->pin) != ST_OK)
        return; /* every pin is in use: the next tick tries again */
    atomic_store(&r->host->root_mended, false);
    r->hashed_index = s->applied_index;
    r->hashing = true;
    r->work = (struct env_work){.run = hash_run, .done = hash_done, .lane = LANE_BULK};
    env_work(r->host->env, &r->work);
}

static enum status root_start(void *self, struct part_host *host)
{
    struct root *r = self;
    ASSERT(r->host == NULL && !r->hashing);
    r->host = host;
    return ST_OK;
}

static bool root_stop(void *self)
{
    const struct root *r = self;
    return !r->hashing;
}

const struct part root_part = {
    .name = "root", .start = root_start, .tick = root_tick, .stop = root_stop};
