#include "node/board.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    BRIEF_INITIALIZED = 1,
    BRIEF_SEALED = 2,
    BRIEF_ACTIVE = 4,
    BRIEF_PERF_STANDBY = 8,
    BRIEF_REMOVED = 16,
    BRIEF_LEADS = 32,
    BRIEF_NO_QUORUM = 64,
    BRIEF_WAITS = 128,
    BRIEF_SECONDARY = 256,
    BRIEF_SUPERSEDED = 512,
    BRIEF_DR_SYNC = 1024,
    BRIEF_FEATURE_SHIFT = 16, /* position of the feature level, which stands above the flags */
};

static void board_publish_brief(struct board *board)
{
    struct node_brief b = node_brief_of(&board->status);
    atomic_store(&board->brief,
                 (b.initialized ? BRIEF_INITIALIZED : 0u) | (b.sealed ? BRIEF_SEALED : 0u) |
                     (b.active ? BRIEF_ACTIVE : 0u) | (b.perf_standby ? BRIEF_PERF_STANDBY : 0u) |
                     (b.removed ? BRIEF_REMOVED : 0u) | (b.leads ? BRIEF_LEADS : 0u) |
                     (b.no_quorum ? BRIEF_NO_QUORUM : 0u) | (b.waits ? BRIEF_WAITS : 0u) |
                     (b.secondary ? BRIEF_SECONDARY : 0u) | (b.superseded ? BRIEF_SUPERSEDED : 0u) |
                     (b.dr_sync ? BRIEF_DR_SYNC : 0u) |
                     ((unsigned)b.feature << BRIEF_FEATURE_SHIFT));
}

struct node_brief board_brief(const struct board *board)
{
    unsigned bits = atomic_load(&board->brief);
    return (struct node_brief){
        .initialized = (bits & BRIEF_INITIALIZED) != 0,
        .sealed = (bits & BRIEF_SEALED) != 0,
        .active = (bits & BRIEF_ACTIVE) != 0,
        .perf_standby = (bits & BRIEF_PERF_STANDBY) != 0,
        .removed = (bits & BRIEF_REMOVED) != 0,
        .leads = (bits & BRIEF_LEADS) != 0,
        .no_quorum = (bits & BRIEF_NO_QUORUM) != 0,
        .waits = (bits & BRIEF_WAITS) != 0,
        .secondary = (bits & BRIEF_SECONDARY) != 0,
        .superseded = (bits & BRIEF_SUPERSEDED) != 0,
        .dr_sync = (bits & BRIEF_DR_SYNC) != 0,
        .feature = (uint16_t)(bits >> BRIEF_FEATURE_SHIFT),
    };
}

enum status board_init(struct board *board, const char *name, const char *cluster_name)
{
    struct node_status *s = &board->status;
    ASSERT(!board->open && strlen(name) < sizeof s->name);
    (void)snprintf(s->name, sizeof s->name, "%s", name); /* cannot be cut: the name is bounded */
    (void)snprintf(s->cluster_name, sizeof s->cluster_name, "%s", cluster_name);
    s->sealed = true;
    board_publish_brief(board);
    board->open = pthread_mutex_init(&board->lock, NULL) == 0;
    return board->open ? ST_OK : ST_NOMEM;
}

void board_done(struct board *board)
{
    if (board->open)
        (void)pthread_mutex_destroy(&board->lock); /* no thread holds the lock */
    board->open = false;
}

struct node_status *board_begin(struct board *board)
{
    int failed = pthread_mutex_lock(&board->lock);
    ASSERT(failed == 0);
    return &board->status;
}

void board_end(struct board *board)
{
    board_publish_brief(board);
    int failed = pthread_mutex_unlock(&board->lock);
    ASSERT(failed == 0);
}

void board_applied(struct board *board, uint64_t index, uint64_t version)
{
    struct node_status *s = &board->status;
    pthread_mutex_lock(&board->lock);
    s->applied_index = index;
    s->committed_index = MAX(s->committed_index, index);
    s->version = version;
    pthread_mutex_unlock(&board->lock);
}

void board_show(struct board *board, const struct part_host *host)
{
    struct node_status *s = board_begin(board);
    static_assert(sizeof s->cluster_id == sizeof host->cluster_id, "UUID texts");
    static_assert(sizeof s->cluster == sizeof host->identity.cluster, "cluster ids");
    memcpy(s->cluster_id, host->cluster_id, sizeof s->cluster_id);
    memcpy(s->cluster, host->identity.cluster, sizeof s->cluster);
    memcpy(s->ca_sha256, host->ca_sha256, sizeof s->ca_sha256);
    s->initialized = host->initialized;
    s->waits = host->waits;
    s->removed = host->removed;
    board_end(board);
}

void board_get(struct board *board, struct node_status *ret_status)
{
    pthread_mutex_lock(&board->lock);
    *ret_status = board->status;
    pthread_mutex_unlock(&board->lock);
}

int64_t board_time_ms(struct board *board)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        abort(); /* cannot fail for the monotonic clock */
    int64_t mono_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    pthread_mutex_lock(&board->lock);
    int64_t time_ms = board->clock_ms != 0 ? board->clock_ms + (mono_ms - board->clock_mono_ms) : 0;
    pthread_mutex_unlock(&board->lock);
    return time_ms;
}
