#include "cluster/membership/removal/autopilot.h"
#include "base/record.h"
#include "text/time.h"

const struct autopilot autopilot_default = {
    .dead_server_last_contact_threshold = 24 * 3600,
    .last_contact_threshold = 10,
    .server_stabilization_time = 10,
    .max_trailing_logs = 1000,
};

#define SECONDS(member) \
    RECORD_FIELD(struct autopilot, member, U64, .max = TEXT_DURATION_MAX_S, .help = "seconds")

static const struct record_field autopilot_fields[] = {
    RECORD_FIELD(struct autopilot, cleanup_dead_servers, U8),
    SECONDS(dead_server_last_contact_threshold),
    SECONDS(last_contact_threshold),
    SECONDS(server_stabilization_time),
    RECORD_FIELD(struct autopilot, max_trailing_logs, U64, .help = "entries"),
    RECORD_FIELD(struct autopilot, min_quorum, U64, .help = "voters"),
};
static const struct record autopilot_record = {RECORD(struct autopilot, autopilot_fields),
                                               .name = "member/autopilot", .key = AUTOPILOT_KEY,
                                               .newest = 1};
RECORD_LISTED(autopilot_record);

enum status autopilot_encode(const struct autopilot *a, struct buf *out)
{
    return record_encode(&autopilot_record, a, out);
}

enum status autopilot_decode(struct bytes stored, struct autopilot *ret)
{
    return record_decode(&autopilot_record, stored, NULL, ret);
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
