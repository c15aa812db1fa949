#include "node/pace.h"

/* Clients that outrun the turns for long are owed no more than a few full turns. */
enum { CREDIT_MAX = 4 * PACE_STEPS_MAX };

void pace_init(struct pace *p)
{
    *p = (struct pace){.grown = PACE_STEPS_MIN, .most = PACE_STEPS_MAX};
}

static uint64_t grown(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

void pace_look(struct pace *p, const struct pace_clients *clients, bool asked, uint64_t now_ms)
{
    uint64_t more =
        grown(clients->txns, p->seen.txns) + grown(clients->reads, p->seen.reads) / PACE_READS;
    more = p->looked ? more : 0;
    ASSERT(p->most > 0 && p->busy_ms <= now_ms);
    if (more != 0 || p->busy_ms == 0)
        p->busy_ms = now_ms;
    p->credit = p->idle ? 0 : MIN(p->credit + more, (uint64_t)CREDIT_MAX);
    p->quiet = now_ms - p->busy_ms >= PACE_QUIET_MS;
    if (!p->quiet)
        p->grown = asked ? PACE_STEPS_ASKED : PACE_STEPS_MIN;
    p->seen = *clients;
    p->looked = true;
    p->asked = asked;
    p->idle = false;
}

unsigned pace_steps(const struct pace *p)
{
    uint64_t least = p->asked ? PACE_STEPS_ASKED : PACE_STEPS_MIN;
    uint64_t busy = MIN(MAX(p->credit, least), (uint64_t)PACE_STEPS_MAX);
    unsigned steps = p->quiet ? p->grown : (unsigned)busy;
    ASSERT(steps > 0 && p->most > 0);
    return MIN(steps, p->most);
}

uint64_t pace_committed(struct pace *p, uint64_t took_ms)
{
    uint64_t steps = pace_steps(p);
    ASSERT(p->grown > 0);
    p->credit -= MIN(p->credit, steps);
    p->most = MIN(p->most + 1 + p->most / 8, (unsigned)PACE_STEPS_MAX);
    p->grown = MIN(2 * p->grown, (unsigned)PACE_STEPS_MAX);
    bool owed = p->credit >= PACE_STEPS_MAX;
    uint64_t rest_ms = p->quiet ? took_ms / 2 : took_ms;
    uint64_t least_ms = p->quiet || p->asked || owed ? 0 : PACE_BUSY_REST_MS;
    return MIN(MAX(rest_ms, least_ms), (uint64_t)PACE_REST_MS);
}

bool pace_too_big(struct pace *p)
{
    unsigned steps = pace_steps(p);
    p->most = steps - steps / 2;
    ASSERT(p->most > 0);
    return steps > 1;
}

void pace_idle(struct pace *p)
{
    p->idle = true;
}
