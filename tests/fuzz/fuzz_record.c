/* Every record of the program. Input: the name of a record, a zero byte, bytes. What decodes
 * encodes to the same bytes, or, in a format that this build no longer writes, to bytes that do. */
#include "base/mem.h"
#include "base/record.h"
#include "server/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Links every part of the server into this program, with the records of each. */
int (*const whole_server)(const struct config *config) = server_run;

static bool has_one_form(const struct record *r, struct bytes bytes)
{
    if (r->protocol != 0)
        return le16_get(bytes.data) <= r->protocol; /* fields of a later protocol are not kept */
    return r->newest == 0 || bytes.data[0] >= r->least;
}

static void check(const struct record *r, struct bytes bytes, struct buf *again)
{
    CLEANUP(arena_done) struct arena arena = {0};
    void *decoded = mem_zalloc(r->size);
    ASSERT(decoded != NULL);
    enum status st = record_decode(r, bytes, &arena, decoded);
    ASSERT(st == ST_OK || st == ST_CORRUPT);
    if (st == ST_OK) {
        ASSERT(record_encode(r, decoded, again) == ST_OK);
        record_done(r, decoded);
    }
    mem_free(decoded);
    ASSERT(st != ST_OK || !has_one_form(r, bytes) || bytes_eq(buf_bytes(again), bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(buf_done) struct buf first = {0}, second = {0}, values = {0};
    const uint8_t *end = size != 0 ? memchr(data, 0, size) : NULL;
    ASSERT(whole_server != NULL);
    if (end == NULL)
        return 0;
    size_t len = (size_t)(end - data);
    const struct record *r = record_of_name(bytes_of(data, len));
    const struct bytes bytes = bytes_of(end + 1, size - len - 1);
    if (r == NULL)
        return 0;
    check(r, bytes, &first);
    if (first.len != 0) {
        check(r, buf_bytes(&first), &second);
        ASSERT(bytes_eq(buf_bytes(&first), buf_bytes(&second)));
    }
    record_dump(r, bytes, &values);
    ASSERT(!values.failed);
    return 0;
}
