/* Packets of OpenPGP and the numbers in them (RFC 9580 3 and 4). Numbers are big-endian. */
#ifndef HOLDFAST_CRYPTO_PGP_PGP_PACKET_H
#define HOLDFAST_CRYPTO_PGP_PGP_PACKET_H

#include "base/buf.h"
#include "base/status.h"

enum pgp_tag {
    PGP_TAG_SESSION_KEY = 1, /* encrypted to a public key */
    PGP_TAG_SIGNATURE = 2,
    PGP_TAG_SECRET_KEY = 5,
    PGP_TAG_PUBLIC_KEY = 6,
    PGP_TAG_SECRET_SUBKEY = 7,
    PGP_TAG_MARKER = 10,
    PGP_TAG_LITERAL = 11,
    PGP_TAG_TRUST = 12,
    PGP_TAG_USER_ID = 13,
    PGP_TAG_PUBLIC_SUBKEY = 14,
    PGP_TAG_USER_ATTRIBUTE = 17,
    PGP_TAG_ENCRYPTED = 18, /* with integrity protection */
    PGP_TAG_PADDING = 21,
    PGP_TAG_OPTIONAL = 40, /* tags from here on may be skipped by a reader that knows them not */
};

struct pgp_packet {
    uint8_t tag;
    struct bytes body; /* borrowed from the input */
};

/* Read one packet. Lengths must be definite and end within the input. ST_INVALID. */
NODISCARD enum status pgp_packet_read(struct reader *r, struct pgp_packet *ret_packet);
/* Append the header of a packet in the new format, with a length of one, two or five bytes. */
void pgp_packet_begin(struct buf *out, enum pgp_tag tag, size_t body_len);
/* A length in the form of new packets and of subpackets; a partial length sets `failed`. */
size_t pgp_length_read(struct reader *r);

/* Numbers of two and four bytes; past the end of the input 0, and `failed`. */
uint16_t pgp_u16(struct reader *r);
uint32_t pgp_u32(struct reader *r);
/* Append them. */
void pgp_u16_add(struct buf *out, uint16_t v);
void pgp_u32_add(struct buf *out, uint32_t v);
/* A multiprecision integer without leading zero bytes; borrowed from the input. */
struct bytes pgp_mpi(struct reader *r);
/* Append `number` as a multiprecision integer; leading zero bytes are left out. */
void pgp_mpi_add(struct buf *out, struct bytes number);
/* Whether the number fits `len` bytes; if so, written to `out` with leading zeros. */
NODISCARD bool pgp_mpi_pad(struct bytes number, uint8_t *out, size_t len);

#endif
