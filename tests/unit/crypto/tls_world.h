/* Shared by the tests of TLS: one set of certificates for all tests of a file. */
#ifndef HOLDFAST_TESTS_UNIT_CRYPTO_TLS_WORLD_H
#define HOLDFAST_TESTS_UNIT_CRYPTO_TLS_WORLD_H

#include "crypto/tls_pair.h"

static struct pki pki;

static inline int setup(void **ctx)
{
    (void)ctx;
    pki_init(&pki);
    return 0;
}

static inline int teardown(void **ctx)
{
    (void)ctx;
    pki_done(&pki);
    return 0;
}

static const struct tls_target localhost = {.host = "localhost"};

static inline void assert_open(const struct ends *e)
{
    assert_string_equal(tls_error(e->client), "");
    assert_string_equal(tls_error(e->server), "");
    assert_int_equal(tls_conn_phase(e->client), TLS_OPEN);
    assert_int_equal(tls_conn_phase(e->server), TLS_OPEN);
}

#endif
