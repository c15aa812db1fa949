#include "cluster/membership/removal/autopilot.h"
#include "text/time.h"

enum { FORMAT = 1 };

const struct autopilot autopilot_default = {
    .dead_server_last_contact_threshold = 24 * 3600,
    .last_contact_threshold = 10,
    .server_stabilization_time = 10,
    .max_trailing_logs = 1000,
};

enum status autopilot_encode(const struct autopilot *a, struct buf *out)
{
    ASSERT(a->max_trailing_logs >= 0);
    ASSERT(a->min_quorum >= 0);
    buf_add_u8(out, FORMAT);
    buf_add_u8(out, a->cleanup_dead_servers ? 1 : 0);
    buf_add_u64(out, (uint64_t)a->dead_server_last_contact_threshold);
    buf_add_u64(out, (uint64_t)a->last_contact_threshold);
    buf_add_u64(out, (uint64_t)a->server_stabilization_time);
    buf_add_u64(out, (uint64_t)a->max_trailing_logs);
    buf_add_u64(out, (uint64_t)a->min_quorum);
    return buf_status(out);
}

static int64_t number(struct reader *r, bool *sound)
{
    uint64_t n = reader_u64(r);
    *sound = *sound && n <= INT64_MAX;
    return (int64_t)(n & INT64_MAX);
}

static int64_t seconds(struct reader *r, bool *sound)
{
    int64_t n = number(r, sound);
    *sound = *sound && n <= TEXT_DURATION_MAX_S;
    return n;
}

enum status autopilot_decode(struct bytes stored, struct autopilot *ret)
{
    struct reader r = reader_of(stored);
    uint8_t format = reader_u8(&r), cleanup = reader_u8(&r);
    bool sound = format == FORMAT && cleanup <= 1;
    struct autopilot a = {.cleanup_dead_servers = cleanup == 1};
    a.dead_server_last_contact_threshold = seconds(&r, &sound);
    a.last_contact_threshold = seconds(&r, &sound);
    a.server_stabilization_time = seconds(&r, &sound);
    a.max_trailing_logs = number(&r, &sound);
    a.min_quorum = number(&r, &sound);
    if (reader_end(&r) != ST_OK || !sound)
        return ST_CORRUPT;
    *ret = a;
    return ST_OK;
}

bool autopilot_silent(const struct autopilot *a, const struct autopilot_contact *contact)
{
    return contact->silent_ms > (uint64_t)a->last_contact_threshold * 1000;
}

bool autopilot_healthy(const struct autopilot *a, const struct autopilot_contact *contact)
{
    ASSERT(a->max_trailing_logs >= 0);
    return contact->heard && !autopilot_silent(a, contact) &&
           contact->behind <= (uint64_t)a->max_trailing_logs;
}

unsigned autopilot_dead(const struct autopilot *a, const struct autopilot_server *servers,
                        unsigned n)
{
    unsigned voters = 0, alive = 0, dead = n;
    uint64_t limit_s = (uint64_t)a->dead_server_last_contact_threshold;
    ASSERT(n <= RLOG_MEMBERS_MAX);
    if (!a->cleanup_dead_servers)
        return n;
    for (unsigned i = n; i-- > 0;) {
        bool is_dead = servers[i].silent_ms / 1000 > limit_s;
        voters += servers[i].voter;
        alive += servers[i].voter && !is_dead;
        if (is_dead)
            dead = i;
    }
    ASSERT(alive <= voters);
    if (dead == n || alive <= voters / 2)
        return n;
    bool needed = servers[dead].voter && voters - 1 < (uint64_t)a->min_quorum;
    return needed ? n : dead;
}
