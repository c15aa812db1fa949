#include "cluster/dr/link/dr_addresses.h"

#include "text/address.h"

#include <string.h>

/* text_address_split reads a text up to its zero, and allows a space in the host. */
static bool is_visible(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] <= ' ' || text.data[i] > '~')
            return false;
    return true;
}

enum status dr_addresses_add(struct dr_addresses *addresses, struct bytes address)
{
    char host[TEXT_HOST_MAX], *to;
    uint16_t port;
    ASSERT(addresses->n <= DR_ADDRESSES_MAX);
    if (addresses->n == DR_ADDRESSES_MAX)
        return ST_TOO_BIG;
    if (address.len == 0 || address.len >= DR_ADDRESS_MAX || !is_visible(address))
        return ST_INVALID;
    to = addresses->at[addresses->n];
    memcpy(to, address.data, address.len);
    to[address.len] = '\0';
    TRY(text_address_split(to, host, &port));
    addresses->n++;
    return ST_OK;
}

bool dr_addresses_has(const struct dr_addresses *addresses, const char *address)
{
    ASSERT(addresses->n <= DR_ADDRESSES_MAX);
    for (unsigned i = 0; i < addresses->n; i++)
        if (strcmp(addresses->at[i], address) == 0)
            return true;
    return false;
}

struct bytes dr_url(const char *api_addr)
{
    struct bytes url = bytes_str(api_addr);
    return url.len < DR_URL_MAX ? url : (struct bytes){0};
}
