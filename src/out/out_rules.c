#include "out/out_rules.h"

#define V4(a, b, c, d)                  \
    {                                   \
        .bytes = {a, b, c, d}, .len = 4 \
    }
#define V6(...)                           \
    {                                     \
        .bytes = {__VA_ARGS__}, .len = 16 \
    }

/* Linux connects "this host" (RFC 1122 3.2.1.3) to the loopback. */
static const struct cidr unspecified[] = {{V4(0, 0, 0, 0), 8}, {V6(0), 128}};

/* Instance metadata, with the credentials of the machine, is served at link-local addresses (RFC
 * 3927, RFC 4291 2.5.6), and by one cloud at fd00:ec2::254 too. */
static const struct cidr link_local[] = {
    {V4(169, 254, 0, 0), 16},
    {V6(0xFE, 0x80), 10},
    {V6(0xFD, 0x00, 0x0E, 0xC2, [14] = 0x02, [15] = 0x54), 128},
};

/* Blocks of IPv6 addresses that embed an IPv4 address, and its place in them. */
static const struct {
    struct cidr block;
    uint8_t at;
} embedding[] = {
    {{V6(0), 96}, 12},                                  /* RFC 4291 2.5.5.1: compatible */
    {{V6(0x00, 0x64, 0xFF, 0x9B), 96}, 12},             /* RFC 6052: NAT64 */
    {{V6(0x00, 0x64, 0xFF, 0x9B, 0x00, 0x01), 48}, 12}, /* RFC 8215: NAT64, local prefix */
    {{V6(0x20, 0x02), 16}, 2},                          /* RFC 3056: 6to4 */
};

static bool holds(const struct cidr *blocks, size_t n, const struct ip *ip)
{
    ASSERT(n <= OUT_RULES_MAX);
    for (size_t i = 0; i < n; i++)
        if (cidr_holds(&blocks[i], ip))
            return true;
    return false;
}

static bool passes(const struct out_rules *rules, const struct ip *ip)
{
    ASSERT(ip->len == 4 || ip->len == 16);
    if (holds(unspecified, ARRAY_LEN(unspecified), ip))
        return false;
    return holds(rules->allow, rules->n_allow, ip) ||
           (!holds(link_local, ARRAY_LEN(link_local), ip) &&
            !holds(rules->deny, rules->n_deny, ip));
}

/* The IPv4 address inside an IPv6 address; len 0: none. ::1 and its neighbours embed none. */
static struct ip embedded(const struct ip *ip)
{
    for (size_t i = 0; ip->len == 16 && i < ARRAY_LEN(embedding); i++)
        if (cidr_holds(&embedding[i].block, ip) &&
            (embedding[i].block.bits != 96 || ip->bytes[1] != 0 || ip->bytes[12] != 0))
            return ip_of(ip->bytes + embedding[i].at, 4);
    return (struct ip){0};
}

static bool port_passes(const struct out_rules *rules, uint16_t port)
{
    ASSERT(rules->n_ports <= OUT_RULES_MAX);
    for (size_t i = 0; i < rules->n_ports; i++)
        if (rules->ports[i] == port)
            return true;
    return rules->n_ports == 0;
}

enum status out_rules_judge(const struct out_rules *rules, const struct ip *ip, uint16_t port,
                            struct reason *reason)
{
    char text[IP_PORT_TEXT];
    struct ip inner = embedded(ip);
    ip_port_put(ip, port, text);
    if (!passes(rules, ip) || (inner.len != 0 && !passes(rules, &inner))) {
        reason_set(reason, "the rules for outgoing requests refuse the address %s", text);
        return ST_REFUSED;
    }
    if (!port_passes(rules, port)) {
        reason_set(reason, "the rules for outgoing requests refuse the port of %s", text);
        return ST_REFUSED;
    }
    return ST_OK;
}
