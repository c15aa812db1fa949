/* The services of disaster recovery: the thread that follows the primary on a secondary, and the
 * upkeep of a primary. */
#include "api/sys/replication/sys_dr_follow.h"
#include "cluster/dr/follow/follow.h"
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

void sys_dr_follow(struct service *service)
{
    const struct dr_thread thread = thread_of(service);
    dr_follow_run(&thread);
}

void sys_dr_herald(struct service *service)
{
    const struct dr_thread thread = thread_of(service);
    dr_herald_run(&thread);
}

/* End this primary, if a secondary that was not revoked told a higher epoch (PROTOCOL R19). */
static enum status stage_supersede(struct state_txn *txn, void *arg, int64_t now_ms)
{
    const uint64_t *heard = arg;
    struct reason why = {{0}};
    enum status st = dr_role_supersede(txn, *heard, &why);
    (void)now_ms;
    return st == ST_INVALID ? ST_OK : st; /* this cluster is no primary of a lower epoch any more */
}

void sys_dr_keep(struct service *service)
{
    struct dr *dr = service_host(service)->dr;
    do {
        uint64_t heard = atomic_load(&dr->heard_epoch);
        if (heard != 0 && service_transact(service, stage_supersede, &heard) != ST_OK)
            continue; /* the next turn tries again */
    } while (service_wait(service, KEEP_EVERY_MS));
}
