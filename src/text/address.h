/* Network addresses, "host:port", of configuration and requests. Any thread. */
#ifndef HOLDFAST_TEXT_ADDRESS_H
#define HOLDFAST_TEXT_ADDRESS_H

#include "base/status.h"

#include <stdint.h>

enum { TEXT_HOST_MAX = 256 }; /* bytes, with the terminating zero */

/* Split "host:port" or "[v6]:port" into host and port; the host comes without brackets. ST_INVALID,
 * also for port 0. */
NODISCARD enum status text_address_split(const char *address, char ret_host[TEXT_HOST_MAX],
                                         uint16_t *ret_port);

#endif
