/* One message by SMTP (RFC 5321), with STARTTLS where the server offers it.
 *
 * As out_request, out_mail_send blocks, the rules judge each address, and time is bounded. A server
 * that offers STARTTLS must have a certificate that is trusted and valid for its name: else nothing
 * is sent. */
#ifndef HOLDFAST_OUT_OUT_MAIL_H
#define HOLDFAST_OUT_OUT_MAIL_H

#include "out/out_rules.h"

enum { OUT_MAIL_TO_MAX = 100 };

/* All is borrowed. Addresses are bare, "a@b.example", without control characters. */
struct out_mail {
    const char *host; /* name or address */
    uint16_t port;
    const char *from;
    const char *const *to;
    size_t n_to;
    const char *mechanism; /* "PLAIN" or "LOGIN"; NULL: no authentication */
    const char *username, *password;
    struct bytes message; /* head and body, lines end in CR LF */
    const char *ca_file;  /* "": the system's authorities */
    const struct out_rules *rules;
    uint32_t connect_ms, total_ms;
};

/* ST_OK: the server took the message. Else a reason, and ST_UNAUTHENTICATED: the server refused
 * name and password, or asks for them; ST_TIMEOUT; ST_REFUSED: the rules refuse every address;
 * ST_CRYPTO: the certificate; ST_INVALID: host or addresses are malformed; ST_NOMEM;
 * ST_BAD_GATEWAY: no connection, or the server refused something else. */
NODISCARD enum status out_mail_send(const struct out_mail *mail, struct reason *reason);

#endif
