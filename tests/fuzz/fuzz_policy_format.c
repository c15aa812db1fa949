/* Formatting changes nothing but blanks in what a text says, and formatting again changes nothing
 * at all. */
#include "cli/policy_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf once = {0};
    CLEANUP(buf_done) struct buf twice = {0};
    struct reason why = {{0}};
    enum status st = policy_format(&arena, bytes_of(data, size), &once, &why);
    if (st != ST_OK) {
        ASSERT(st == ST_INVALID || st == ST_TOO_BIG || st == ST_UNSUPPORTED);
        return 0;
    }
    st = policy_format(&arena, buf_bytes(&once), &twice, &why);
    ASSERT(st == ST_OK && bytes_eq(buf_bytes(&once), buf_bytes(&twice)));
    return 0;
}
