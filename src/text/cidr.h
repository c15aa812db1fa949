/* IP addresses and CIDR blocks. An IPv4-mapped IPv6 address (::ffff:1.2.3.4) becomes the IPv4
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

/* Read "10.0.0.1" or "fd00::1": no space around the address, no zone. ST_INVALID. */
NODISCARD enum status ip_parse(struct bytes text, struct ip *ret_ip);
/* An address of `len` bytes, 4 or 16, in network order. */
struct ip ip_of(const uint8_t *bytes, size_t len);
/* Read "10.0.0.1:80", "[fd00::1]:80", or an address alone, whose port is 0. ST_INVALID. */
NODISCARD enum status ip_port_parse(struct bytes text, struct ip *ret_ip, uint16_t *ret_port);
/* The address in a text that ip_port_parse reads; len 0: the text is invalid. */
struct ip ip_port_ip(const char *text);
/* Write "10.0.0.1:80" or "[fd00::1]:80". */
enum { IP_PORT_TEXT = 64 };
void ip_port_put(const struct ip *ip, uint16_t port, char ret_text[static IP_PORT_TEXT]);

/* Read "10.0.0.0/8", or an address alone, which is a block of one address. ST_INVALID, also when a
 * bit beyond the prefix length is set. */
NODISCARD enum status cidr_parse(struct bytes text, struct cidr *ret_cidr);
bool cidr_holds(const struct cidr *cidr, const struct ip *ip);

#endif
