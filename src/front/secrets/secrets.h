/* The dialect of the secrets service: the headers X-Secrets-* and X-Vault-*, the envelope around a
 * reply's data, and {"errors"}. */
#ifndef HOLDFAST_FRONT_SECRETS_SECRETS_H
#define HOLDFAST_FRONT_SECRETS_SECRETS_H

#include "router/request/dialect.h"

extern const struct dialect secrets_dialect;

/* Write the member "errors": a list of `text`, or an empty list for "". Each reply with a status of
 * 400 or above has this member, also a reply without an envelope. */
void secrets_put_errors(struct text_writer *w, const char *text);

#endif
