#include "lease/lease_ttl.h"
#include "text/duration.h"
#include "text/time.h"

static int64_t ttl_of(const struct lease_ttl *t)
{
    int64_t ttl_s = t->wanted_s != 0 ? t->wanted_s : t->own_s != 0 ? t->own_s : t->limits.default_s;
    return MIN(ttl_s, TEXT_DURATION_MAX_S);
}

int64_t lease_ttl_end_ms(const struct lease_ttl *t, struct lease_cut *ret_cut)
{
    /* The cluster time of two nodes may differ a little, so now_ms may precede issued_ms. */
    int64_t now_ms = MAX(t->now_ms, t->issued_ms);
    enum lease_limit by = t->limits.of_mount ? LEASE_LIMIT_MOUNT : LEASE_LIMIT_SYSTEM;
    struct lease_cut cut = {.ttl_s = ttl_of(t), .max_s = t->limits.max_s};

    ASSERT(t->limits.max_s > 0 && t->limits.default_s > 0);
    ASSERT(t->wanted_s >= 0 && t->own_s >= 0 && t->own_max_s >= 0);
    if (t->own_max_s != 0 && t->own_max_s < cut.max_s) {
        cut.max_s = t->own_max_s;
        by = LEASE_LIMIT_KIND;
    }
    cut.max_s = MIN(cut.max_s, TEXT_DURATION_MAX_S);
    int64_t end_ms = now_ms + cut.ttl_s * 1000, last_ms = t->issued_ms + cut.max_s * 1000;
    if (end_ms > last_ms) {
        end_ms = last_ms;
        cut.by = by;
    }
    if (t->limit_ms != 0 && end_ms > t->limit_ms) {
        end_ms = t->limit_ms;
        cut.by = LEASE_LIMIT_TOKEN;
    }
    cut.granted_s = MAX(end_ms - now_ms, INT64_C(0)) / 1000;
    *ret_cut = cut;
    return end_ms;
}

void lease_cut_say(const struct lease_cut *cut, struct reason *ret_warning)
{
    static const char *const whose[] = {[LEASE_LIMIT_SYSTEM] = "of the system",
                                        [LEASE_LIMIT_MOUNT] = "of the mount",
                                        [LEASE_LIMIT_KIND] = "that the engine gives"};
    char ttl[TEXT_SPAN_MAX], granted[TEXT_SPAN_MAX], max[TEXT_SPAN_MAX];
    ASSERT(cut->by != LEASE_LIMIT_NONE && cut->ttl_s >= cut->granted_s);
    (void)text_span(cut->ttl_s, ttl);
    (void)text_span(cut->granted_s, granted);
    if (cut->by == LEASE_LIMIT_TOKEN)
        reason_set(
            ret_warning,
            "TTL of \"%s\" is cut to \"%s\": the lease ends with the batch token that took it", ttl,
            granted);
    else
        reason_set(ret_warning,
                   "TTL of \"%s\" exceeded the effective max_ttl of \"%s\"; TTL value is capped "
                   "accordingly: the max_ttl %s is \"%s\", counted from the issue of the lease",
                   ttl, granted, whose[cut->by], text_span(cut->max_s, max));
}
