/* The version of this program, "0.2.0". A build for tests appends a word, "0.2.0+word". Letters,
 * digits, '.', '+' and '-' only. */
#ifndef HOLDFAST_BASE_VERSION_H
#define HOLDFAST_BASE_VERSION_H

extern const char holdfast_version[];

#endif
