/* A primary cluster of one node, its replication authority and a secondary, as PEM texts. */
#ifndef HOLDFAST_TESTS_UNIT_DR_CERTS_H
#define HOLDFAST_TESTS_UNIT_DR_CERTS_H

#include "support.h"

#include "cluster/dr/link/dr_cert.h"
#include "crypto/crypto.h"

#include <time.h>

#define DR_TEST_CLUSTER                                          \
    {                                                            \
        0xc1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 \
    }

/* The secondary "east". */
static const struct dr_name east = {DR_TEST_CLUSTER, {0x5e, 1}, 3, "east"};

struct dr_certs {
    struct cert_pair cluster_ca, node; /* the primary's */
    struct cert_pair ca;               /* replication authority */
    struct cert_pair secondary;
};

static inline int64_t now_s(void)
{
    return (int64_t)time(NULL);
}

/* A certificate of the name `uri`, signed by `ca`; NULL: an authority of its own. It ends an hour
 * after `at_s`. */
static inline void make_named_at(const char *uri, const struct cert_pair *ca, int64_t at_s,
                                 struct cert_pair *pair)
{
    const struct cert_san san = {CERT_SAN_URI, uri};
    const struct cert_request request = {.common_name = "test",
                                         .sans = &san,
                                         .n_sans = 1,
                                         .not_before_s = at_s - 3600,
                                         .not_after_s = at_s + 3600,
                                         .ca = ca == NULL,
                                         .server = ca != NULL,
                                         .client = ca != NULL};
    struct reason reason = {""};
    assert_status(cert_make(&request, ca, pair, &reason), ST_OK);
}

static inline void make_named(const char *uri, const struct cert_pair *ca, struct cert_pair *pair)
{
    make_named_at(uri, ca, now_s(), pair);
}

/* A key, and a certificate of the replication authority made at `at_s`. */
static inline void make_secondary(const struct cert_pair *ca, const struct dr_name *name,
                                  int64_t at_s, struct cert_pair *pair)
{
    CLEANUP(buf_done) struct buf public = {0};
    struct reason reason = {""};
    assert_status(cert_key_make(&pair->key, &public), ST_OK);
    const struct dr_cert_order order = {name, buf_bytes(&public), at_s};
    assert_status(dr_cert_sign(ca, &order, &pair->cert, &reason), ST_OK);
}

static inline void dr_certs_init(struct dr_certs *c)
{
    struct mesh_identity n1 = {DR_TEST_CLUSTER, "n1"};
    char cluster[MESH_CLUSTER_URI_MAX], node[MESH_URI_MAX];
    *c = (struct dr_certs){0};
    assert_status(crypto_init(NULL), ST_OK);
    mesh_cluster_uri(n1.cluster, cluster);
    mesh_uri(&n1, node);
    make_named(cluster, NULL, &c->cluster_ca);
    make_named(node, &c->cluster_ca, &c->node);
    assert_status(dr_cert_ca_make(&east, now_s(), &c->ca, NULL), ST_OK);
    make_secondary(&c->ca, &east, now_s(), &c->secondary);
}

static inline void dr_certs_done(struct dr_certs *c)
{
    cert_pair_done(&c->cluster_ca);
    cert_pair_done(&c->node);
    cert_pair_done(&c->ca);
    cert_pair_done(&c->secondary);
}

static inline struct dr_cert_own own_of(const struct dr_certs *c, const struct cert_pair *pair)
{
    return (struct dr_cert_own){buf_bytes(&c->cluster_ca.cert), buf_bytes(&pair->cert),
                                buf_bytes(&pair->key)};
}

#endif
