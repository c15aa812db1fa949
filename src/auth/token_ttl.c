#include "auth/token_ttl.h"
#include "text/duration.h"
#include "text/time.h"

static int64_t first_given(int64_t a, int64_t b, int64_t c)
{
    return a != 0 ? a : b != 0 ? b : c;
}

static void warn_of_cap(int64_t ttl_s, int64_t max_s, struct reason *warning)
{
    char ttl[TEXT_SPAN_MAX], max[TEXT_SPAN_MAX];
    reason_set(warning,
               "TTL of \"%s\" exceeded the effective max_ttl of \"%s\"; TTL value is capped "
               "accordingly",
               text_span(ttl_s, ttl), text_span(max_s, max));
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
        warn_of_cap(ttl_s, max_s, warning);
        ttl_s = max_s;
    }
    ASSERT(ttl_s > 0 && ttl_s <= max_s);
    int64_t end_ms = now_ms + ttl_s * 1000;
    if (periodic && t->explicit_max_s == 0)
        return end_ms;
    int64_t last_ms = t->created_ms + max_s * 1000;
    if (end_ms > last_ms && now_ms != t->created_ms)
        warn_of_cap(ttl_s, MAX(last_ms - now_ms, INT64_C(0)) / 1000, warning);
    return MIN(end_ms, last_ms);
}
