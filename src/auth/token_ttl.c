#include "auth/token_ttl.h"
#include "text/time.h"

static int64_t first_given(int64_t a, int64_t b, int64_t c)
{
    return a != 0 ? a : b != 0 ? b : c;
}

int64_t token_ttl_end_ms(const struct token_ttl *t, struct reason *warning)
{
    bool periodic = t->period_s != 0;
    int64_t max_s = MIN(t->max_s, TEXT_DURATION_MAX_S);
    /* The cluster time of two nodes may differ a little, so now_ms may precede created_ms. */
    int64_t now_ms = MAX(t->now_ms, t->created_ms);

    ASSERT(t->max_s > 0 && t->default_s > 0);
    ASSERT(t->wanted_s >= 0 && t->own_s >= 0);
    ASSERT(t->period_s >= 0 && t->explicit_max_s >= 0);
    if (t->explicit_max_s != 0)
        max_s = MIN(max_s, t->explicit_max_s);
    int64_t ttl_s = periodic ? t->period_s : first_given(t->wanted_s, t->own_s, t->default_s);
    if (ttl_s > max_s) {
        reason_set(warning,
                   "TTL of \"%llds\" exceeded the effective max_ttl of \"%llds\"; TTL value is "
                   "capped accordingly",
                   (long long)ttl_s, (long long)max_s);
        ttl_s = max_s;
    }
    ASSERT(ttl_s > 0 && ttl_s <= max_s);
    int64_t end_ms = now_ms + ttl_s * 1000;
    if (periodic && t->explicit_max_s == 0)
        return end_ms;
    int64_t last_ms = t->created_ms + max_s * 1000;
    if (end_ms > last_ms && now_ms != t->created_ms)
        reason_set(warning,
                   "TTL of \"%llds\" exceeded the effective max_ttl of \"%llds\"; TTL value is "
                   "capped accordingly",
                   (long long)ttl_s, (long long)(MAX(last_ms - now_ms, INT64_C(0)) / 1000));
    return MIN(end_ms, last_ms);
}
