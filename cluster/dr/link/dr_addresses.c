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

static bool address_valid(struct bytes address)
{
    char host[TEXT_HOST_MAX], text[DR_ADDRESS_MAX];
    uint16_t port;
    if (address.len == 0 || address.len >= sizeof text || !is_visible(address))
        return false;
    *bytes_put((uint8_t *)text, address) = '\0';
    return text_address_split(text, host, &port) == ST_OK;
}

static const struct record_field address_fields[] = {RECORD_ITSELF(
    "address", char[DR_ADDRESS_MAX], TEXT, .check = address_valid, .help = "host:port")};
const struct record dr_address_record = {RECORD(char[DR_ADDRESS_MAX], address_fields),
                                         .name = "dr/address"};

enum status dr_addresses_add(struct dr_addresses *addresses, struct bytes address)
{
    ASSERT(addresses->n <= DR_ADDRESSES_MAX);
    if (addresses->n == DR_ADDRESSES_MAX)
        return ST_TOO_BIG;
    if (!address_valid(address))
        return ST_INVALID;
    *bytes_put((uint8_t *)addresses->at[addresses->n++], address) = '\0';
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
