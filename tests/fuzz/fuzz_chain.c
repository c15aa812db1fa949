/* The ends of lines of audit files, and files of such lines: text that another program may have
 * changed. A line that reads as linked is written again from what was read, byte by byte. */
#include "audit/chain.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* The hash of a line is that of its content only if linking the body anew gives the line. */
static void check_member(struct crypto_sha256 *hash, struct bytes line)
{
    struct chain_member member;
    CLEANUP(buf_done) struct buf again = {0};
    if (!chain_read(line, &member))
        return;
    ASSERT(member.n > 0 && member.body_len < line.len);
    struct chain before = {.n = member.n - 1};
    memcpy(before.hash, member.prev, sizeof before.hash);
    buf_add(&again, bytes_of(line.data, member.body_len));
    buf_add(&again, BYTES("}"));
    chain_link(&before, hash, &again, 0);
    ASSERT(buf_status(&again) == ST_OK && again.len == line.len);
    ASSERT(chain_holds(hash, line, &member) == bytes_eq(buf_bytes(&again), line));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct chain_check check = {0};
    struct bytes rest = bytes_of(data, len);
    if (crypto_sha256_new(&check.hash) != ST_OK)
        abort();
    while (rest.len > 0) {
        const uint8_t *end = memchr(rest.data, '\n', rest.len);
        struct bytes line = bytes_of(rest.data, end != NULL ? (size_t)(end - rest.data) : rest.len);
        uint64_t fits = check.lines;
        check_member(check.hash, line);
        const char *wrong = chain_check_line(&check, line, end != NULL);
        ASSERT(check.lines == fits + (wrong == NULL));
        rest = bytes_from(rest, line.len + (end != NULL));
    }
    crypto_sha256_free(check.hash);
    return 0;
}
