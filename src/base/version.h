/* The version of this program, "0.2.0"; a build that is not for users has a word behind it,
 * "0.2.0+word". Letters, digits, '.', '+' and '-' only. */
#ifndef HOLDFAST_BASE_VERSION_H
#define HOLDFAST_BASE_VERSION_H

extern const char holdfast_version[];

#endif
