/* The part of a registry token's record, and a link: a part is refused, or written again as it was;
 * an identity that is read from a link gives the link again if its names are allowed. */
#include "auth/registry/registry_link.h"
#include "auth/registry/registry_token.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_part(struct bytes input)
{
    CLEANUP(buf_done) struct buf again = {0};
    struct registry_token token = {0};
    if (registry_token_read_part(input, &token) != ST_OK)
        return;
    registry_token_put_part(&token, &again);
    if (buf_status(&again) != ST_OK || !bytes_eq(buf_bytes(&again), input))
        abort();
}

static void as_link(struct bytes input)
{
    CLEANUP(arena_done) struct arena arena = {.bytes_max = 1 << 26};
    const struct registry_link link = registry_link_read(input);
    struct bytes rest = link.datacenters, dc;
    const char *name = arena_str(&arena, link.name), *again = NULL;
    const char **dcs = arena_alloc(&arena, (rest.len + 1) * sizeof *dcs);
    size_t n = 0;
    if (name == NULL || dcs == NULL || link.kind == REGISTRY_LINK_POLICY)
        return;
    if (strlen(name) != link.name.len || !registry_link_is_name(name))
        return;
    while (registry_link_next_datacenter(&rest, &dc)) {
        dcs[n] = arena_str(&arena, dc);
        if (dcs[n] == NULL || strlen(dcs[n]) != dc.len || !registry_link_is_datacenter(dcs[n]))
            return;
        n++;
    }
    const struct field_strings list = {dcs, n, true};
    if (registry_link_of(&arena, link.kind, name, &list, &again) != ST_OK)
        return; /* too long */
    /* the last datacenter may have a comma behind, and the mark may have nothing behind */
    size_t len = strlen(again);
    if (len > input.len || memcmp(again, input.data, len) != 0 || input.len > len + 1)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    as_part(bytes_of(data, size));
    as_link(bytes_of(data, size));
    return 0;
}
