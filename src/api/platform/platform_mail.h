/* Mail by the SMTP settings of the site. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_MAIL_H
#define HOLDFAST_API_PLATFORM_PLATFORM_MAIL_H

#include "api/platform/platform_object.h"

/* The settings, borrowed from their object. */
struct platform_mailer {
    bool enabled;
    const char *host, *sender, *auth, *username, *password;
    uint16_t port;
};
void platform_mailer_of(const struct platform_object *settings, struct platform_mailer *ret_mailer);

struct platform_mail {
    const char *const *to;
    size_t n_to;
    const char *subject, *text; /* subject without line ends; lines of the text end in CR LF */
    int64_t now_ms;
};
/* Send a mail. Blocks. As out_mail_send. */
NODISCARD enum status platform_mail_send(const struct platform_mailer *mailer,
                                         const struct platform_mail *mail, struct reason *reason);

#endif
