/* How long a token lives: pure arithmetic of create and renew. */
#ifndef HOLDFAST_AUTH_TOKEN_TTL_H
#define HOLDFAST_AUTH_TOKEN_TTL_H

#include "base/status.h"

#define AUTH_DEFAULT_TTL_S (INT64_C(768) * 3600)
#define AUTH_MAX_TTL_S (INT64_C(768) * 3600)

/* Seconds, 0: not given; but for the times. */
struct token_ttl {
    int64_t wanted_s;           /* by this request; then … */
    int64_t own_s;              /* … by its newest renewal or its creation; then … */
    int64_t default_s;          /* … this */
    int64_t max_s;              /* of the mount or system: from creation on, unless periodic */
    int64_t explicit_max_s;     /* of the token: from creation on, always */
    int64_t period_s;           /* instead of the first three */
    int64_t created_ms, now_ms; /* an earlier `now` counts as the time of creation */
};

/* When it ends then. `warning` says what was cut, or stays as it is. */
int64_t token_ttl_end_ms(const struct token_ttl *ttl, struct reason *warning);

#endif
