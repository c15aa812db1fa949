/* The record of a lease: bytes that decode hold their bounds, and the lease decodes again from what
 * it encodes to. A number may be longer than it needs to be, so the bytes may differ. */
#include "lease/lease_kind.h"
#include "text/time.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct lease_kind lamp = {.name = "lamp"}, token = {.name = "token"};
    const struct lease_kinds kinds = {.items = {&lamp, &token}, .n = 2};
    CLEANUP(buf_done) struct buf again = {0};
    struct lease lease = {0}, second = {0};

    if (lease_record_read(bytes_of(data, size), &kinds, &lease) != ST_OK) {
        ASSERT(lease.kind == NULL);
        return 0;
    }
    ASSERT(lease.data.len <= LEASE_DATA_MAX && strlen(lease.token) <= LEASE_TOKEN_LEN_MAX);
    ASSERT(lease.issued_ms >= 0 && lease.issued_ms < TEXT_CLOCK_END);
    ASSERT(lease.expire_ms >= 0 && lease.expire_ms < TEXT_EXPIRY_END);
    ASSERT(lease.renewed_ms >= 0 && lease.renewed_ms < TEXT_CLOCK_END);
    ASSERT(lease.limit_ms == 0 || (lease.expire_ms > 0 && lease.expire_ms <= lease.limit_ms));
    if (lease.kind == NULL) /* a kind that this build does not have */
        return 0;
    ASSERT(lease.kind == &lamp || lease.kind == &token);
    lease_record_put(&lease, &again);
    ASSERT(buf_status(&again) == ST_OK && again.len <= size);
    ASSERT(lease_record_read(buf_bytes(&again), &kinds, &second) == ST_OK);
    ASSERT(second.kind == lease.kind && second.renewable == lease.renewable);
    ASSERT(second.issued_ms == lease.issued_ms && second.expire_ms == lease.expire_ms);
    ASSERT(second.limit_ms == lease.limit_ms && strcmp(second.token, lease.token) == 0);
    ASSERT(second.renewed_ms == lease.renewed_ms && bytes_eq(second.data, lease.data));
    return 0;
}
