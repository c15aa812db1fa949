/* Names and values of the protocol, for server and client. */
#ifndef HOLDFAST_HTTP_NAMES_H
#define HOLDFAST_HTTP_NAMES_H

#include "http/http.h"

bool http_header_is(struct bytes name, const char *word); /* compares in any case */
/* Whether the header frames the message or manages the connection: it is not passed on. */
bool http_header_frames(struct bytes name);
/* Whether the value has no byte that ends the header or the head early. */
bool http_header_sound(struct http_header header);
/* A part of a value, without the spaces and tabs around it (RFC 9110 5.6.3). */
struct bytes http_trimmed(struct bytes text);
void http_add_number(struct buf *b, uint64_t n); /* append `n` in decimal */

#endif
