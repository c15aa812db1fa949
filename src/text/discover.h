/* The text `auto_join` of configuration and requests, which says how to find members of a cluster.
 *
 *   NAME                                a name of the DNS
 *   provider=dns name=NAME [port=N]     the same in words, as upstream's providers are written
 *
 * Only the provider dns is built. Any thread. */
#ifndef HOLDFAST_TEXT_DISCOVER_H
#define HOLDFAST_TEXT_DISCOVER_H

#include "base/status.h"
#include "text/address.h"

struct text_discover {
    char name[TEXT_HOST_MAX]; /* a host name, or an address in numbers without brackets */
    uint16_t port;            /* 0: not given */
};

/* ST_INVALID with a reason that names the provider or the word at fault. */
NODISCARD enum status text_discover_parse(const char *text, struct text_discover *ret_discover,
                                          struct reason *reason);

#endif
