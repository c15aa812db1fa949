/* Shared by cert.c and tls.c only. */
#ifndef HOLDFAST_CRYPTO_CERT_X509_H
#define HOLDFAST_CRYPTO_CERT_X509_H

#include "crypto/cert.h"

#include <openssl/x509.h>

/* The only URI among the names. ST_INVALID: none, several, or one that does not fit. */
NODISCARD enum status cert_x509_uri(const X509 *cert, char ret_uri[CERT_URI_MAX]);

#endif
