/* IP addresses and blocks of them. An IPv4 address inside IPv6 (::ffff:1.2.3.4) is that IPv4
 * address. */
#ifndef HOLDFAST_TEXT_CIDR_H
#define HOLDFAST_TEXT_CIDR_H

#include "base/bytes.h"
#include "base/status.h"

struct ip {
    uint8_t bytes[16];
    uint8_t len; /* 4 or 16 */
};
struct cidr {
    struct ip ip;
    uint8_t bits;
};

/* "10.0.0.1", "fd00::1": nothing around it, no zone. ST_INVALID. */
NODISCARD enum status ip_parse(struct bytes text, struct ip *ret_ip);
/* `len` is 4 or 16, in the order of the network. */
struct ip ip_of(const uint8_t *bytes, size_t len);
/* "10.0.0.1:80", "[fd00::1]:80", or an address alone; the port is 0 then. ST_INVALID. */
NODISCARD enum status ip_port_parse(struct bytes text, struct ip *ret_ip, uint16_t *ret_port);
/* The address alone of such a text; len 0: the text has none. */
struct ip ip_port_ip(const char *text);
/* "10.0.0.1:80", "[fd00::1]:80". */
enum { IP_PORT_TEXT = 64 };
void ip_port_put(const struct ip *ip, uint16_t port, char ret_text[static IP_PORT_TEXT]);

/* "10.0.0.0/8", or an address alone, which is a block of one. ST_INVALID: also where bits beyond
 * the length are set, which is a slip rather than a block. */
NODISCARD enum status cidr_parse(struct bytes text, struct cidr *ret_cidr);
bool cidr_holds(const struct cidr *cidr, const struct ip *ip);

#endif
