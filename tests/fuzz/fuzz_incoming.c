/* The command line's reader of HTTP replies: whatever comes, in whatever pieces, it says the same
 * and keeps to its bound. The first byte is how long the pieces are. */
#include "cli/incoming.h"

enum { BODY_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum status read_in_pieces(struct incoming *in, struct bytes all, size_t piece)
{
    CLEANUP(buf_done) struct buf raw = {0};
    incoming_init(in, NULL, BODY_MAX);
    while (all.len != 0 && !incoming_over(in)) {
        struct bytes part = bytes_of(all.data, MIN(piece, all.len));
        buf_add(&raw, part);
        ASSERT(buf_status(&raw) == ST_OK);
        TRY(incoming_feed(in, &raw));
        all = bytes_from(all, part.len);
    }
    return incoming_over(in) ? ST_OK : incoming_end(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(incoming_done) struct incoming whole = {0};
    CLEANUP(incoming_done) struct incoming parts = {0};
    if (size == 0)
        return 0;
    struct bytes all = bytes_of(data + 1, size - 1);
    enum status st = read_in_pieces(&whole, all, SIZE_MAX);
    enum status other = read_in_pieces(&parts, all, (size_t)data[0] + 1);
    ASSERT(st == ST_OK || st == ST_INVALID || st == ST_TOO_BIG);
    ASSERT(whole.body.len <= BODY_MAX);
    if (st != ST_OK)
        return 0;
    ASSERT(other == ST_OK && whole.status == parts.status);
    ASSERT(bytes_eq(buf_bytes(&whole.body), buf_bytes(&parts.body)));
    ASSERT(strcmp(whole.location, parts.location) == 0);
    return 0;
}
