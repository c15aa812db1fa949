/* Counts of one server. */
#ifndef HOLDFAST_HTTP_COUNTERS_H
#define HOLDFAST_HTTP_COUNTERS_H

#include <stdint.h>

struct http_counters {
    uint64_t connections_accepted, connections_open, connections_evicted;
    /* rejected: requests refused by the server itself */
    uint64_t handshakes_failed, timeouts, rejected;
    uint64_t requests, replies[6]; /* replies[2]: replies with a status 2xx */
    uint64_t bytes_in, bytes_out;  /* bytes of plaintext, without TLS */
};
#endif
