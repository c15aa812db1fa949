/* The expiry of a token at creation and at renewal: arithmetic alone. */
#ifndef HOLDFAST_AUTH_TOKEN_TTL_H
#define HOLDFAST_AUTH_TOKEN_TTL_H

#include "base/status.h"

#define AUTH_DEFAULT_TTL_S (INT64_C(768) * 3600)
#define AUTH_MAX_TTL_S (INT64_C(768) * 3600)

/* Durations in seconds; 0: not given. The first of period_s, wanted_s, own_s and default_s that is
 * given is the TTL. */
struct token_ttl {
    int64_t wanted_s;           /* TTL that the request asks for */
    int64_t own_s;              /* TTL of the newest renewal or of the creation */
    int64_t default_s;          /* TTL of mount or system; always given */
    int64_t max_s;              /* longest TTL, and longest life unless periodic; always given */
    int64_t explicit_max_s;     /* longest life since creation, also if periodic */
    int64_t period_s;           /* TTL that every renewal of a periodic token gives */
    int64_t created_ms, now_ms; /* if now_ms is before created_ms, created_ms counts as now */
};

/* The expiry. If the TTL is cut, `warning` says so; else it stays untouched. */
int64_t token_ttl_end_ms(const struct token_ttl *ttl, struct reason *warning);

#endif
