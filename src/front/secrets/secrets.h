/* The dialect of the secrets service: X-Secrets-* and X-Vault-* headers, the envelope, {"errors"}.
 */
#ifndef HOLDFAST_FRONT_SECRETS_SECRETS_H
#define HOLDFAST_FRONT_SECRETS_SECRETS_H

#include "router/request/dialect.h"

extern const struct dialect secrets_dialect;

/* The member "errors" with one text, or empty for "". Each reply of 400 or above has the member,
 * also one without an envelope whose data says what is wrong. */
void secrets_put_errors(struct text_writer *w, const char *text);

#endif
