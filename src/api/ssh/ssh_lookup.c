/* Search for the roles that serve an address.
 *
 * Each block of a role's cidr_list has a key "cidr/BLOCK/NAME", each block of its exclude_cidr_list
 * "nocidr/BLOCK/NAME", without a value. BLOCK is "4-08-0a000000": family, bits and address of the
 * block. So a search reads one folder for each length of a prefix, however many roles there are. */
#include "api/ssh/ssh.h"
#include "text/encode.h"

#include <stdlib.h>

enum { BLOCK_TEXT = 64 };

/* Set the bits behind the first `bits` to 0. */
static void mask_ip(struct ip *ip, unsigned bits)
{
    for (unsigned i = 0; i < ip->len; i++) {
        unsigned kept = bits > 8 * i ? MIN(bits - 8 * i, 8u) : 0;
        ip->bytes[i] &= (uint8_t)(0xFF00u >> kept);
    }
}

enum status ssh_cidr_parse(struct bytes text, struct cidr *ret_cidr)
{
    const uint8_t *slash = text.len > 0 ? memchr(text.data, '/', text.len) : NULL;
    struct cidr cidr;
    int64_t bits;
    if (slash == NULL)
        return cidr_parse(text, ret_cidr);
    struct bytes front = bytes_of(text.data, (size_t)(slash - text.data));
    struct bytes behind = bytes_from(text, front.len + 1);
    TRY(ip_parse(front, &cidr.ip));
    bool mapped = cidr.ip.len == 4 && memchr(front.data, ':', front.len) != NULL;
    if (behind.len == 0 || behind.len > 3 || behind.data[0] == '-' ||
        text_int_parse(behind, &bits) != ST_OK)
        return ST_INVALID;
    bits -= mapped ? 96 : 0;
    if (bits < 0 || bits > cidr.ip.len * 8)
        return ST_INVALID;
    struct ip given = cidr.ip;
    mask_ip(&cidr.ip, (unsigned)bits);
    if (bits == 0 && memcmp(given.bytes, cidr.ip.bytes, given.len) != 0)
        return ST_INVALID; /* everything is meant only where it is written */
    cidr.bits = (uint8_t)bits;
    *ret_cidr = cidr;
    return ST_OK;
}

static enum status block_key(struct req *req, const char *kind, const struct cidr *block,
                             const char *name, struct bytes *ret_key)
{
    char hex[TEXT_HEX_LEN(16) + 1];
    text_hex_put(bytes_of(block->ip.bytes, block->ip.len), hex);
    const char *path =
        arena_format(req->arena, "%s/%c-%03u-%s/%s", kind, block->ip.len == 4 ? '4' : '6',
                     (unsigned)block->bits, hex, name);
    return path != NULL ? req_key(req, path, ret_key) : ST_NOMEM;
}

static enum status change_list(struct req *req, const char *kind, const char *name,
                               const char *text, bool put)
{
    struct field_strings blocks;
    struct cidr block;
    struct bytes key;
    TRY(ssh_list_items(req, "cidr_list", text, SSH_CIDRS_MAX, &blocks));
    for (size_t i = 0; i < blocks.n; i++) {
        if (ssh_cidr_parse(bytes_str(blocks.items[i]), &block) != ST_OK)
            return ST_CORRUPT; /* the write has checked every block */
        TRY(block_key(req, kind, &block, name, &key));
        TRY(put ? state_put_name(req->txn, key, false) : state_delete(req->txn, key));
    }
    return ST_OK;
}

enum status ssh_blocks_change(struct req *req, const char *name, const struct ssh_role *from,
                              const struct ssh_role *to)
{
    const struct ssh_role *const roles[] = {from, to};
    for (size_t i = 0; i < ARRAY_LEN(roles); i++) {
        if (roles[i] == NULL)
            continue;
        TRY(change_list(req, "cidr", name, roles[i]->cidr_list, i == 1));
        TRY(change_list(req, "nocidr", name, roles[i]->exclude_cidr_list, i == 1));
    }
    return ST_OK;
}

/* Names, in the arena. */
struct names {
    const char **items;
    size_t n, room;
};

static enum status add_role_name(struct req *req, struct names *names, struct bytes name)
{
    if (names->n == names->room) {
        size_t room = names->room != 0 ? 2 * names->room : 16;
        const char **items = arena_alloc(req->arena, room * sizeof *items);
        if (items == NULL)
            return ST_NOMEM;
        if (names->n != 0)
            memcpy(items, names->items, names->n * sizeof *items);
        names->items = items;
        names->room = room;
    }
    names->items[names->n] = arena_str(req->arena, name);
    return names->items[names->n++] != NULL ? ST_OK : ST_NOMEM;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void sort_names(struct names *names)
{
    size_t n = 0;
    if (names->n != 0)
        qsort(names->items, names->n, sizeof *names->items, by_text);
    for (size_t i = 0; i < names->n; i++)
        if (n == 0 || strcmp(names->items[n - 1], names->items[i]) != 0)
            names->items[n++] = names->items[i];
    names->n = n;
}

/* Add the roles that have a block with the address, sorted. */
static enum status find_names(struct req *req, const char *kind, const struct ip *ip,
                              struct names *names)
{
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    struct bytes prefix;
    if (iter == NULL)
        return ST_NOMEM;
    for (unsigned bits = 0; bits <= ip->len * 8u; bits++) {
        struct cidr block = {.ip = *ip, .bits = (uint8_t)bits};
        mask_ip(&block.ip, bits);
        TRY(block_key(req, kind, &block, "", &prefix));
        TRY(state_scan(req->txn, prefix, BYTES(""), iter));
        while (state_iter_next(iter))
            TRY(add_role_name(req, names, bytes_from(iter->key, prefix.len)));
    }
    sort_names(names);
    return ST_OK;
}

/* Zero-address roles */

struct zero {
    struct field_strings roles;
};
static const struct field zero_fields[] = {
    FIELD(struct zero, roles, STRINGS, .required = true,
          .help = "Roles that serve every address, a list or text with commas."),
};
static const struct schema ssh_zero_schema = SCHEMA(struct zero, zero_fields);

static enum status zero_key(struct req *req, struct bytes *ret_key)
{
    return req_key(req, "zeroaddress", ret_key);
}

static enum status zero_load(struct req *req, struct zero *ret_zero)
{
    struct schema_fault fault;
    const struct text_value *tree;
    struct state_value stored;
    struct bytes key;
    TRY(zero_key(req, &key));
    TRY(state_get(req->txn, key, &stored));
    enum status st = text_json_parse(req->arena, stored.value, &tree, NULL);
    if (st == ST_OK)
        st = schema_decode(&ssh_zero_schema, tree, req->arena, ret_zero, &fault);
    return st == ST_OK || st == ST_NOMEM ? st : ST_CORRUPT;
}

static enum status zero_store(struct req *req, const struct zero *zero)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct text_writer w = {.out = &record, .plain = true};
    struct bytes key;
    TRY(zero_key(req, &key));
    if (zero->roles.n == 0)
        return state_delete(req->txn, key);
    schema_encode(&ssh_zero_schema, zero, &w);
    TRY(buf_status(&record));
    return state_put(req->txn, key, buf_bytes(&record));
}

static enum status zero_write(struct req *req)
{
    const struct zero *in = req_body(req);
    struct zero zero = {.roles.given = true};
    struct ssh_role role;
    if (in->roles.n == 0 || in->roles.n > SSH_NAMES_MAX)
        return req_fail(req, ST_INVALID, "roles: 1 to %d names of roles are expected",
                        SSH_NAMES_MAX);
    const char **names = arena_alloc(req->arena, in->roles.n * sizeof *names);
    if (names == NULL)
        return ST_NOMEM;
    zero.roles.items = names;
    for (size_t i = 0; i < in->roles.n; i++) {
        const char *name = in->roles.items[i];
        if (ssh_list_has(&zero.roles, name))
            continue;
        enum status st = route_takes_name(BYTES(":role@"), bytes_str(name))
                             ? ssh_role_load(req, name, &role)
                             : ST_NOT_FOUND;
        if (st == ST_NOT_FOUND)
            return req_fail(req, ST_INVALID, "roles: role \"%.80s\" does not exist", name);
        TRY(st);
        if (ssh_role_is_ca(&role))
            return req_fail(req, ST_INVALID, "roles: role \"%.80s\" is not of key_type otp", name);
        names[zero.roles.n++] = name;
    }
    return zero_store(req, &zero);
}

static enum status zero_read(struct req *req)
{
    struct zero zero;
    TRY(zero_load(req, &zero));
    return req_reply(req, &zero);
}

static enum status zero_delete(struct req *req)
{
    struct bytes key;
    TRY(zero_key(req, &key));
    return state_delete(req->txn, key);
}

enum status ssh_zero_drop(struct req *req, const char *name)
{
    struct zero zero;
    enum status st = zero_load(req, &zero);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    if (!ssh_list_has(&zero.roles, name))
        return ST_OK;
    const char **names = arena_alloc(req->arena, zero.roles.n * sizeof *names);
    struct zero less = {.roles.given = true};
    if (names == NULL)
        return ST_NOMEM;
    less.roles.items = names;
    for (size_t i = 0; i < zero.roles.n; i++)
        if (strcmp(zero.roles.items[i], name) != 0)
            names[less.roles.n++] = zero.roles.items[i];
    return zero_store(req, &less);
}

static bool holds_ip(struct req *req, const char *list, const struct ip *ip, enum status *ret_st)
{
    struct field_strings blocks;
    struct cidr block;
    *ret_st = ssh_list_items(req, "cidr_list", list, SSH_CIDRS_MAX, &blocks);
    for (size_t i = 0; i < blocks.n && *ret_st == ST_OK; i++)
        if (ssh_cidr_parse(bytes_str(blocks.items[i]), &block) == ST_OK && cidr_holds(&block, ip))
            return true;
    return false;
}

enum status ssh_role_serves(struct req *req, const char *name, const struct ssh_role *role,
                            const struct ip *ip, bool *ret_serves)
{
    struct zero zero;
    enum status st = zero_load(req, &zero);
    if (st != ST_NOT_FOUND)
        TRY(st);
    *ret_serves = st == ST_OK && ssh_list_has(&zero.roles, name);
    if (*ret_serves)
        return ST_OK;
    bool refuses = holds_ip(req, role->exclude_cidr_list, ip, &st);
    TRY(st);
    *ret_serves = !refuses && holds_ip(req, role->cidr_list, ip, &st);
    return st;
}

/* lookup */

struct lookup {
    const char *ip;
};
static const struct field lookup_fields[] = {
    FIELD(struct lookup, ip, STRING, .required = true, .help = "Address of a host."),
};
static const struct schema lookup_schema = SCHEMA(struct lookup, lookup_fields);

static const struct field found_fields[] = {
    FIELD(struct zero, roles, STRINGS, .null = true,
          .help = "Roles that serve the address, sorted; null: there is none."),
};
static const struct schema found_schema = SCHEMA(struct zero, found_fields);

static enum status lookup_roles(struct req *req)
{
    const struct lookup *in = req_body(req);
    struct names serving = {0}, refusing = {0}, all = {0};
    struct zero zero = {0};
    struct ip ip;
    if (ip_parse(bytes_str(in->ip), &ip) != ST_OK)
        return req_fail(req, ST_INVALID, "ip: an address is expected");
    TRY(find_names(req, "cidr", &ip, &serving));
    TRY(find_names(req, "nocidr", &ip, &refusing));
    size_t r = 0;
    for (size_t i = 0; i < serving.n; i++) {
        while (r < refusing.n && strcmp(refusing.items[r], serving.items[i]) < 0)
            r++;
        if (r == refusing.n || strcmp(refusing.items[r], serving.items[i]) != 0)
            TRY(add_role_name(req, &all, bytes_str(serving.items[i])));
    }
    enum status st = zero_load(req, &zero);
    if (st != ST_NOT_FOUND)
        TRY(st);
    for (size_t i = 0; st == ST_OK && i < zero.roles.n; i++)
        TRY(add_role_name(req, &all, bytes_str(zero.roles.items[i])));
    sort_names(&all);
    const struct zero out = {{.items = all.items, .n = all.n, .given = all.n != 0}};
    return req_reply(req, &out);
}

static const struct route lookup_routes[] = {
    {.method = METHOD_POST,
     .path = "lookup",
     .handler = lookup_roles,
     .flags = ROUTE_READS,
     .body = &lookup_schema,
     .reply = &found_schema,
     .help = "The otp roles that serve an address, whatever the token may do with them."},
    {.method = METHOD_GET,
     .path = "config/zeroaddress",
     .handler = zero_read,
     .reply = &ssh_zero_schema,
     .help = "The roles that serve every address."},
    {.method = METHOD_POST,
     .path = "config/zeroaddress",
     .handler = zero_write,
     .body = &ssh_zero_schema,
     .help = "Set the otp roles that serve every address, whatever their lists of blocks say."},
    {.method = METHOD_DELETE,
     .path = "config/zeroaddress",
     .handler = zero_delete,
     .help = "Forget the roles that serve every address. The roles stay."},
};
const struct route_table ssh_lookup_table = {lookup_routes, ARRAY_LEN(lookup_routes)};
