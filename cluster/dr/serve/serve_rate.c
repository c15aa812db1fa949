/* The bound of what a session sends in a second: a token bucket over the bytes on the wire. A frame
 * is sent whole, so the bucket may owe some bytes; nothing follows until it owes none. */
#include "cluster/dr/serve/serve_internal.h"

enum { BURST_PER_S = 4 }; /* the bucket holds what a quarter of a second allows */

/* Fill the bucket for the time that has passed, and take from it what was sent since. */
static void bucket_fill(struct dr_session *s, uint64_t bytes_s)
{
    struct dr_rate *rate = &s->rate;
    struct dr_conn_stats stats;
    int64_t now_ms = dr_conn_now_ms(), burst = (int64_t)(bytes_s / BURST_PER_S);
    dr_conn_stats(s->conn, &stats);
    if (rate->at_ms == 0) {
        rate->at_ms = now_ms;
        rate->sent = stats.wire_sent;
    }
    uint64_t passed_ms = (uint64_t)MIN(now_ms - rate->at_ms, (int64_t)1000 * 1000);
    int64_t gained = (int64_t)(bytes_s * passed_ms / 1000);
    if (gained != 0) /* else time goes on counting */
        rate->at_ms = now_ms;
    rate->bytes = MIN(rate->bytes + gained, burst) - (int64_t)(stats.wire_sent - rate->sent);
    rate->sent = stats.wire_sent;
}

unsigned dr_session_pause_ms(struct dr_session *s)
{
    uint64_t bytes_s = atomic_load(&s->dr->bandwidth);
    if (bytes_s == 0) {
        s->rate = (struct dr_rate){0}; /* a bound that is set later begins anew */
        return 0;
    }
    bucket_fill(s, bytes_s);
    if (s->rate.bytes >= 0)
        return 0;
    uint64_t ms = (uint64_t)-s->rate.bytes * 1000 / bytes_s + 1;
    return (unsigned)MIN(ms, (uint64_t)DR_JUDGE_MS);
}

size_t dr_session_piece(const struct dr_session *s, size_t bytes)
{
    uint64_t bytes_s = atomic_load(&s->dr->bandwidth);
    return bytes_s == 0 ? bytes : MIN(bytes, (size_t)MAX(bytes_s / BURST_PER_S, 4096U));
}
