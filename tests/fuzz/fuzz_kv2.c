/* A stored secret of version 2: what decodes holds its bounds and encodes to the same bytes. */
#include "api/kv/kv2_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf again = {0};
    struct kv2_record r;

    enum status st = kv2_record_decode(bytes_of(data, size), &arena, &r);
    if (st != ST_OK) {
        ASSERT(st == ST_CORRUPT);
        return 0;
    }
    ASSERT(r.n <= r.newest && r.created_ms > 0 && r.updated_ms >= r.created_ms);
    for (size_t i = 0; i < r.n; i++) {
        const struct kv2_version *v = kv2_record_version(&r, r.newest - r.n + 1 + i);
        ASSERT(v == &r.versions[i]);
        ASSERT(v->created_ms >= (i > 0 ? r.versions[i - 1].created_ms : r.created_ms));
        bool gone = v->place == KV2_DESTROYED || v->ended;
        ASSERT(kv2_version_lives(v, INT64_MAX) == (!gone && v->deleted_ms == 0));
        ASSERT(kv2_version_lives(v, 0) == !gone);
        ASSERT(v->deleted_ms == 0 || v->deleted_ms >= v->created_ms);
    }
    ASSERT(kv2_record_version(&r, r.newest + 1) == NULL);
    ASSERT(kv2_record_version(&r, r.newest - r.n) == NULL);
    ASSERT(kv2_record_encode(&r, &again) == ST_OK);
    ASSERT(bytes_eq(buf_bytes(&again), bytes_of(data, size)));
    return 0;
}
