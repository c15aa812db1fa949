/* Frames of disaster recovery and the names of secondaries: each is refused, or written again as it
 * was. The first byte chooses. */
#include "cluster/dr/link/dr_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { AS_NAME = 0, AS_RUN = 1 };

/* Written again, a frame must be the same; a later protocol's hello loses the fields we skip. */
static void write_again(const struct dr_frame *frame, struct bytes wire)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct bytes tail;
    dr_frame_encode(frame, &out, &tail);
    buf_add(&out, tail);
    ASSERT(buf_status(&out) == ST_OK);
    if (frame->type == DR_HELLO && frame->hello.protocol > DR_PROTOCOL) {
        ASSERT(out.len <= wire.len);
        ASSERT(memcmp(out.data + 4, wire.data + 4, out.len - 4) == 0);
    } else {
        ASSERT(bytes_eq(buf_bytes(&out), wire));
    }
}

/* One frame of the stream; how many bytes it has, 0: it is none. */
static size_t one_frame(struct bytes stream, enum dr_side from, struct dr_run *run)
{
    static uint8_t content[DR_RAW_MAX];
    struct dr_frame frame;
    enum dr_type type;
    uint32_t bytes;
    struct bytes records;
    if (stream.len < DR_HEADER_BYTES || dr_frame_header(stream.data, from, &type, &bytes) != ST_OK)
        return 0;
    ASSERT(bytes <= DR_FRAME_MAX);
    ASSERT(dr_frame_side(type) == from);
    if (bytes > stream.len - DR_HEADER_BYTES)
        return 0;
    size_t whole = DR_HEADER_BYTES + bytes;
    if (dr_frame_decode(type, bytes_of(stream.data + DR_HEADER_BYTES, bytes), &frame) != ST_OK)
        return 0;
    write_again(&frame, bytes_of(stream.data, whole));
    if (type == DR_SYNC_DATA && dr_block_unpack(&frame.sync_data.block, content) != ST_OK)
        return 0;
    if (type == DR_WAL) {
        enum status st = dr_run_add(run, &frame.wal, &records);
        ASSERT(st != ST_OK || records.len == frame.wal.run_bytes);
        if (st != ST_OK && st != ST_NOT_FOUND)
            return 0;
    }
    return whole;
}

static void as_name(struct bytes text)
{
    char uri[DR_URI_MAX + 1], again[DR_URI_MAX];
    struct dr_name name;
    size_t len = MIN(text.len, (size_t)DR_URI_MAX);
    memcpy(uri, text.data, len);
    uri[len] = '\0';
    if (dr_name_parse(uri, &name) != ST_OK)
        return;
    dr_name_uri(&name, again);
    ASSERT(strcmp(uri, again) == 0);
}

/* Content that is cut into frames and joined is the same. */
static void as_run(struct bytes records)
{
    static uint8_t room[DR_RAW_MAX];
    CLEANUP(dr_run_done) struct dr_run run = {0};
    struct dr_wal wal = {.first = 1, .last = 1};
    struct bytes joined;
    if (records.len == 0 || records.len > DR_RAW_MAX)
        return;
    dr_run_cut(records, 0, room, &wal);
    ASSERT(dr_run_add(&run, &wal, &joined) == ST_OK);
    ASSERT(bytes_eq(joined, records));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct bytes rest = bytes_of(data + 1, size - 1);
    if (data[0] == AS_NAME) {
        as_name(rest);
    } else if (data[0] == AS_RUN) {
        as_run(rest);
    } else {
        CLEANUP(dr_run_done) struct dr_run run = {0};
        enum dr_side from = data[0] % 2 == 0 ? DR_PRIMARY : DR_SECONDARY;
        for (size_t n = 1; n != 0 && rest.len != 0; rest = bytes_from(rest, n))
            n = one_frame(rest, from, &run);
    }
    return 0;
}
