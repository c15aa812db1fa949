/* A public key of SSH, as a line and as bytes of the wire, and a private key. A key that is read is
 * written again as it was. */
#include "crypto/ssh_key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_line(struct bytes input)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf line = {0};
    struct ssh_public key, again;
    struct reason why;
    if (ssh_public_parse(&arena, input, &key, &why) != ST_OK)
        return;
    ASSERT(ssh_public_line(key.blob, &line) == ST_OK);
    ASSERT(ssh_public_parse(&arena, buf_bytes(&line), &again, &why) == ST_OK);
    ASSERT(bytes_eq(key.blob, again.blob) && key.kind == again.kind && key.bits == again.bits);
}

static void as_blob(struct bytes input)
{
    struct ssh_public key;
    struct reason why;
    if (ssh_public_read(input, &key, &why) == ST_OK)
        ASSERT(key.fields.len < key.blob.len && key.bits >= 256);
}

static void as_private(struct bytes input)
{
    struct ssh_private key = {0};
    struct reason why;
    if (ssh_private_parse(input, &key, &why) == ST_OK)
        ASSERT(key.key != NULL && key.kind <= SSH_ED25519);
    ssh_private_done(&key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    as_line(bytes_of(data, size));
    as_blob(bytes_of(data, size));
    as_private(bytes_of(data, size));
    return 0;
}
