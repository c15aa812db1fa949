#include "text/address.h"
#include "text/value.h"

#include <string.h>

enum status text_address_split(const char *address, char ret_host[TEXT_HOST_MAX],
                               uint16_t *ret_port)
{
    const char *colon = strrchr(address, ':');
    int64_t port;

    if (colon == NULL || text_int_parse(bytes_str(colon + 1), &port) != ST_OK || port < 1 ||
        port > UINT16_MAX)
        return ST_INVALID;
    size_t len = (size_t)(colon - address);
    bool bracketed = len > 2 && address[0] == '[' && address[len - 1] == ']';
    const char *host = address + bracketed;
    len -= bracketed ? 2 : 0;
    if (len == 0 || len >= TEXT_HOST_MAX || memchr(host, '[', len) != NULL ||
        memchr(host, ']', len) != NULL || (memchr(host, ':', len) != NULL) != bracketed)
        return ST_INVALID;
    memcpy(ret_host, host, len);
    ret_host[len] = '\0';
    *ret_port = (uint16_t)port;
    return ST_OK;
}
