/* What comes over a link, cut in two ways: the frames must be the same. */
#include "cluster/mesh/mesh_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PAYLOAD_MAX = 4096 };

/* A digest of everything cut out of the stream, chunk by chunk. */
static uint64_t cut(struct bytes stream, size_t step)
{
    CLEANUP(mesh_frames_done) struct mesh_frames f = {.payload_max = PAYLOAD_MAX};
    uint64_t digest = 1;
    enum status st = ST_NOT_FOUND;
    for (size_t at = 0; at < stream.len && st == ST_NOT_FOUND; at += step) {
        struct mesh_frame frame;
        mesh_frames_push(&f, bytes_of(stream.data + at, MIN(step, stream.len - at)));
        while ((st = mesh_frames_next(&f, &frame)) == ST_OK) {
            ASSERT(frame.payload.len <= PAYLOAD_MAX);
            ASSERT(frame.kind >= MESH_HELLO && frame.kind <= MESH_DATA);
            digest = (digest ^ bytes_hash(frame.payload)) * 31 + frame.kind;
        }
    }
    return digest * 31 + (uint64_t)st;
}

static void read_hello(struct bytes payload)
{
    struct mesh_hello hello, again;
    CLEANUP(buf_done) struct buf out = {0};
    if (mesh_hello_decode(payload, &hello) != ST_OK || hello.id == 0)
        return;
    ASSERT(mesh_name_valid(hello.identity.name));
    mesh_hello_encode(&hello, &out);
    ASSERT(out.len <= payload.len);
    ASSERT(mesh_hello_decode(buf_bytes(&out), &again) == ST_OK);
    ASSERT(memcmp(&hello.identity, &again.identity, sizeof hello.identity) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct bytes stream = bytes_of(data + 1, size - 1);
    ASSERT(mesh_refusal_text(data[0])[0] != '\0');
    ASSERT(cut(stream, 1 + data[0]) == cut(stream, SIZE_MAX / 2));
    ASSERT(cut(stream, 1) == cut(stream, SIZE_MAX / 2));
    read_hello(stream);
    return 0;
}
