/* Words of the protocol, for both ends. */
#ifndef HOLDFAST_HTTP_NAMES_H
#define HOLDFAST_HTTP_NAMES_H

#include "http/http.h"

bool http_header_is(struct bytes name, const char *word); /* in any case */
/* It says how a message is framed or carried on: not to be passed on. */
bool http_header_frames(struct bytes name);
/* It cannot end the header early, or the head. */
bool http_header_sound(struct http_header header);
void http_add_number(struct buf *b, uint64_t n); /* decimal */

#endif
