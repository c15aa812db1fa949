/* A bundle, and an activation under way, for tests. */
#ifndef HOLDFAST_TESTS_UNIT_DR_PENDINGS_H
#define HOLDFAST_TESTS_UNIT_DR_PENDINGS_H

#include "dr/dr_certs.h"

#include "cluster/dr/pending.h"

#define DR_TEST_SECRET "0123456789abcdefghijklmnopqrstuv"

static inline void make_bundle(struct dr_bundle *bundle, struct bytes ca)
{
    *bundle = (struct dr_bundle){.name = east, .secret = DR_TEST_SECRET};
    assert_status(dr_addresses_add(&bundle->addresses, BYTES("lb.example:8201")), ST_OK);
    assert_status(dr_addresses_add(&bundle->addresses, BYTES("[::1]:8201")), ST_OK);
    buf_add(&bundle->ca, ca);
    assert_status(buf_status(&bundle->ca), ST_OK);
}

static inline void make_pending(struct dr_pending *pending, struct bytes ca)
{
    *pending = (struct dr_pending){0};
    make_bundle(&pending->bundle, ca);
    assert_status(dr_pending_make_keys(pending), ST_OK);
}

static inline void assert_same_bundle(const struct dr_bundle *one, const struct dr_bundle *other)
{
    assert_memory_equal(&one->name.cluster, &other->name.cluster, sizeof one->name.cluster);
    assert_memory_equal(&one->name.set, &other->name.set, sizeof one->name.set);
    assert_int_equal(one->name.epoch, other->name.epoch);
    assert_string_equal(one->name.id, other->name.id);
    assert_string_equal(one->secret, other->secret);
    assert_true(bytes_eq(buf_bytes(&one->ca), buf_bytes(&other->ca)));
    assert_int_equal(one->addresses.n, other->addresses.n);
    for (unsigned i = 0; i < one->addresses.n; i++)
        assert_string_equal(one->addresses.at[i], other->addresses.at[i]);
}

#endif
