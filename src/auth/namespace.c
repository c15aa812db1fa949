#include "auth/namespace.h"
#include "state/ns_key.h"

enum status auth_namespace_find(struct bytes header, const char **ret_id)
{
    while (header.len > 0 && header.data[0] == '/')
        header = bytes_from(header, 1);
    while (header.len > 0 && header.data[header.len - 1] == '/')
        header.len--;
    if (header.len != 0 && !bytes_eq(header, BYTES(STATE_NS_ROOT)))
        return ST_NOT_FOUND;
    *ret_id = STATE_NS_ROOT;
    return ST_OK;
}

const char *auth_namespace_name(const char *id)
{
    return strcmp(id, STATE_NS_ROOT) == 0 ? "" : id;
}
