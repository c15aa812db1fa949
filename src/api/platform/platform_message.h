/* The bodies that notifications have, for each kind of destination. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_MESSAGE_H
#define HOLDFAST_API_PLATFORM_PLATFORM_MESSAGE_H

#include "base/buf.h"

enum platform_form { PLATFORM_GENERIC, PLATFORM_CHAT_ONE, PLATFORM_CHAT_TWO, PLATFORM_EMAIL };

/* The form of a destination type, by either spelling. */
enum platform_form platform_form_of(const char *destination_type);

/* Append the body that verifies a configuration. As buf_status. */
void platform_message_verify(enum platform_form form, const char *id, const char *name,
                             struct buf *out);

#endif
