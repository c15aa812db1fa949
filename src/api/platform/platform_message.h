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

/* A message about a run. Texts are borrowed, never NULL. */
struct platform_message {
    const char *config_id;
    const char *run_url, *run_id, *run_message, *run_created_by; /* "": the system */
    const char *workspace_url, *workspace_id, *workspace_name, *organization_name;
    const char *message, *trigger, *run_status, *run_updated_by;
    int64_t run_created_ms, run_updated_ms;
    bool needs_action; /* somebody has to decide */
};
/* Append the body that tells about a run; for e-mail the text of the mail, whose lines end in
 * CR LF. As buf_status. Source: spec/platform.md 3.3. */
void platform_message_run(enum platform_form form, const struct platform_message *m,
                          struct buf *out);

#endif
