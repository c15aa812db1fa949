/* Reading a PGP key never fails badly; a key that is taken encrypts, also from its stored form. */
#include "crypto/pgp/pgp.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { NOW_S = 1730000000 };
    CLEANUP(buf_done) struct buf message = {0};
    struct pgp_recipient to;
    struct reason why = {{0}};

    enum status st = pgp_key_parse(bytes_of(data, size), (int64_t)NOW_S * 1000, &to, &why);
    if (st != ST_OK && (st != ST_INVALID || why.text[0] == '\0'))
        abort();
    if (st == ST_OK && pgp_encrypt(&to, bytes_of(data, size % 64), &message) != ST_OK)
        abort();
    return 0;
}
