/* Stored records of the barrier and the forms of a seal's key: damage is an error, never a crash.
 */
#include "barrier/barrier_internal.h"
#include "barrier/seal_record.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t key[32] = {0x60, 0x1D, 0xE2};

static void as_key(struct bytes input)
{
    struct seal seal = {0};
    struct reason reason = {0};
    if (seal_static(input, NULL, &seal, &reason) == ST_OK && seal.key.len != SEAL_KEY_BYTES)
        abort();
    seal_done(&seal);
}

static void as_seal_record(struct bytes input)
{
    struct seal seal = {0};
    struct secret root = {0};
    struct reason reason = {0};
    if (seal_static(bytes_of(key, sizeof key), "golden", &seal, NULL) != ST_OK)
        abort();
    if (seal_unwrap(&seal, input, &root, &reason) == ST_OK && root.len != SEAL_KEY_BYTES)
        abort();
    secret_done(&root);
    seal_done(&seal);
}

/* Only one who has the key gets past the tag, so the list of terms is reached by sealing it. */
static void as_ring(struct bytes input)
{
    struct aead *root = NULL;
    struct ring *ring = calloc(1, sizeof *ring);
    uint8_t *record = malloc(input.len + RING_OVERHEAD);
    if (ring == NULL || record == NULL || aead_new(bytes_of(key, sizeof key), &root) != ST_OK)
        abort();
    if (ring_decode(input, root, BYTES(BARRIER_KEYRING), ring) == ST_OK)
        ring_done(ring);
    uint8_t aad[1 + sizeof BARRIER_KEYRING - 1] = "\1" BARRIER_KEYRING;
    memset(record, 0, RING_OVERHEAD);
    record[0] = 1;
    if (aead_seal(root, record + 1, bytes_of(aad, sizeof aad), input, record + 13,
                  record + 13 + input.len) != ST_OK)
        abort();
    if (ring_decode(bytes_of(record, input.len + RING_OVERHEAD), root, BYTES(BARRIER_KEYRING),
                    ring) == ST_OK) {
        if (ring->n == 0)
            abort();
        ring_done(ring);
    }
    aead_free(root);
    free(record);
    free(ring);
}

static void as_link(struct bytes input)
{
    const struct barrier_link link = {BYTES(BARRIER_SUPERSEDED), input};
    struct secret next = {0};
    struct aead *old = NULL;
    int64_t time_ms;
    if (aead_new(bytes_of(key, sizeof key), &old) != ST_OK)
        abort();
    enum status st = link_open(old, &link, &next);
    if (st == ST_OK && (next.len != SEAL_KEY_BYTES || barrier_link_time(input, &time_ms) != ST_OK))
        abort();
    secret_done(&next);
    aead_free(old);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = bytes_of(data, size);
    as_key(input);
    as_seal_record(input);
    as_link(input);
    if (size <= 64 * 1024)
        as_ring(input);
    return 0;
}
