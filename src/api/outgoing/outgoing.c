#include "api/outgoing/outgoing.h"

#include "out/out_settings.h"
#include "text/config_block.h"

struct block {
    struct field_strings allow, deny;
    const char *ca_file;
};
static const struct field block_fields[] = {
    FIELD(struct block, allow, STRINGS,
          .help = "Blocks of addresses that may be called although they are denied by default, as "
                  "\"10.0.0.0/8\"."),
    FIELD(struct block, deny, STRINGS,
          .help = "Blocks of addresses that may not be called, unless a block of allow has them."),
    FIELD(struct block, ca_file, STRING, .preset = "",
          .help = "PEM file of the authorities to trust; empty: the system's."),
};
static const struct schema block_schema = SCHEMA(struct block, block_fields);

/* Loopback, private, shared, link-local with the metadata services, documentation, benchmarks,
 * multicast, reserved (RFC 6890). */
static const char *const denied[] = {
    "0.0.0.0/8",       "10.0.0.0/8",     "100.64.0.0/10", "127.0.0.0/8",    "169.254.0.0/16",
    "172.16.0.0/12",   "192.0.0.0/24",   "192.0.2.0/24",  "192.168.0.0/16", "198.18.0.0/15",
    "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4",   "240.0.0.0/4",    "::/128",
    "::1/128",         "fc00::/7",       "fe80::/10",     "ff00::/8",       "2001:db8::/32",
};

static struct cidr deny[OUT_RULES_MAX], allow[OUT_RULES_MAX];
static struct out_rules rules; /* set before threads start */

static const char *check_list(const struct field_strings *list, size_t room, const char *fault)
{
    struct cidr cidr;
    if (list->n > room)
        return fault;
    for (size_t i = 0; i < list->n; i++)
        if (cidr_parse(bytes_str(list->items[i]), &cidr) != ST_OK)
            return fault;
    return NULL;
}

static const char *check_outgoing_block(const void *fields)
{
    const struct block *block = fields;
    const char *fault = check_list(&block->allow, OUT_RULES_MAX,
                                   "allow: at most 256 blocks as 10.0.0.0/8 are expected");
    if (fault != NULL)
        return fault;
    return check_list(&block->deny, OUT_RULES_MAX - ARRAY_LEN(denied),
                      "deny: at most 236 blocks as 10.0.0.0/8 are expected");
}

static void read_list(const char *const *texts, size_t n, struct cidr *to, size_t *ret_n)
{
    for (size_t i = 0; i < n; i++) {
        enum status st = cidr_parse(bytes_str(texts[i]), &to[*ret_n]);
        ASSERT(st == ST_OK); /* check_outgoing_block has read the same text */
        *ret_n += 1;
    }
}

static void configure(const void *fields)
{
    const struct block *block = fields;
    rules = (struct out_rules){.deny = deny, .allow = allow};
    read_list(denied, ARRAY_LEN(denied), deny, &rules.n_deny);
    read_list(block->deny.items, block->deny.n, deny, &rules.n_deny);
    read_list(block->allow.items, block->allow.n, allow, &rules.n_allow);
    out_settings_set(&rules, block->ca_file);
}

static const struct config_block config_block = {"outgoing", &block_schema, check_outgoing_block};

const struct module outgoing_module = {
    .name = "outgoing", .config = &config_block, .configure = configure};
