/* The services of disaster recovery: the thread that follows the primary on a secondary, and the
 * upkeep of a primary. */
#include "api/replication/replication_follow.h"
#include "base/trace.h"
#include "cluster/dr/epoch.h"
#include "cluster/dr/follow/follow.h"
#include "cluster/dr/ring.h"
#include "node/service.h"

#include <stdatomic.h>

enum { KEEP_EVERY_MS = 500 };

static bool is_asked(void *ctx)
{
    return service_asked(ctx);
}

static bool wait_for_ms(void *ctx, uint64_t ms)
{
    return service_wait(ctx, ms);
}

static enum status transact(void *ctx, service_stage stage, void *arg)
{
    return service_transact(ctx, stage, arg);
}

static struct dr_thread thread_of(struct service *service)
{
    return (struct dr_thread){.host = service_host(service),
                              .env = service_env(service),
                              .seal = service_seal(service),
                              .asked = is_asked,
                              .wait = wait_for_ms,
                              .transact = transact,
                              .ctx = service};
}

void replication_follow(struct service *service)
{
    const struct dr_thread thread = thread_of(service);
    dr_follow_run(&thread);
}

void replication_herald(struct service *service)
{
    const struct dr_thread thread = thread_of(service);
    dr_herald_run(&thread);
}

/* Store a higher epoch that a cluster which must be believed told to this node (PROTOCOL R19). */
static enum status stage_hear(struct state_txn *txn, void *arg, int64_t now_ms)
{
    struct dr_heard *heard = arg;
    ASSERT(heard->epoch != 0);
    struct reason why = {{0}};
    (void)now_ms;
    enum status st = dr_epoch_hear(txn, heard, &why);
    if (st != ST_INVALID)
        return st;
    trace(TRACE_INFO, "dr", "epoch %llu of %s is not taken over: %s",
          (unsigned long long)heard->epoch, heard->id, why.text);
    return ST_OK;
}

static void hear(struct service *service, struct dr *dr)
{
    struct dr_heard heard;
    ASSERT(service != NULL && dr != NULL);
    dr_epoch_noted(&dr->epochs, &heard);
    if (heard.epoch != 0 && service_transact(service, stage_hear, &heard) == ST_OK)
        dr_epoch_forget(&dr->epochs, &heard); /* after a failure the next turn tries again */
}

static enum status stage_renewal(struct state_txn *txn, void *arg, int64_t now_ms)
{
    (void)now_ms;
    return dr_renewal_stage(arg, txn);
}

/* Answer what sessions of this node have asked: they never write themselves. */
static void answer_renewal(struct service *service, struct dr *dr)
{
    struct dr_renewal_work work;
    ASSERT(service != NULL && dr != NULL);
    if (!dr_renewal_begin(&dr->renewal, &work))
        return;
    work.now_s = env_wall_ms(service_env(service)) / 1000;
    memcpy(work.cluster, dr->host->identity.cluster, sizeof work.cluster);
    dr_renewal_end(&dr->renewal, &work, service_transact(service, stage_renewal, &work));
}

void replication_keep(struct service *service)
{
    struct dr *dr = service_host(service)->dr;
    struct dr_ring_watch watch = {0};
    atomic_store(&dr->kept, true);
    do {
        dr_ring_warn(dr, &watch);
        hear(service, dr);
        answer_renewal(service, dr);
    } while (service_wait(service, KEEP_EVERY_MS));
    atomic_store(&dr->kept, false);
}
