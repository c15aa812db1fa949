#include "cluster/mesh/mesh_frame.h"
#include "base/mem.h"
#include "base/record.h"

const char *mesh_refusal_text(unsigned refusal)
{
    static const char *const texts[] = {
        [MESH_REFUSE_VERSION] = "no protocol in common",
        [MESH_REFUSE_CLUSTER] = "it belongs to another cluster",
        [MESH_REFUSE_NAME] = "the name is not the certificate's",
        [MESH_REFUSE_ID] = "the raft id belongs to another node",
        [MESH_REFUSE_WANTED] = "the node has another raft id",
        [MESH_REFUSE_BUSY] = "it has too many links",
        [MESH_REFUSE_REMOVED] = "it was removed from the cluster",
        [MESH_REFUSE_FEATURE] = "its build is older than the cluster's feature level: upgrade it",
        [MESH_REFUSE_SUPERSEDED] = "the cluster was recovered without its data",
    };
    return refusal < ARRAY_LEN(texts) && texts[refusal] != NULL ? texts[refusal]
                                                                : "no known reason";
}

static bool has_valid_name(const void *from)
{
    return mesh_name_valid(((const struct mesh_hello *)from)->identity.name);
}

static const struct record_field hello_fields[] = {
    RECORD_FIELD(struct mesh_hello, protocol, U16, .min = MESH_PROTOCOL_OLDEST,
                 .help = "newest protocol that the sender speaks"),
    RECORD_NAMED("cluster", struct mesh_hello, identity.cluster, FIXED),
    RECORD_FIELD(struct mesh_hello, id, U64, .help = "raft id of the sender"),
    RECORD_FIELD(struct mesh_hello, wanted, U64,
                 .help = "raft id that the dialling node looks for; 0: any id of that name, and in "
                         "the reply"),
    RECORD_FIELD(struct mesh_hello, bulk, U8, .help = "this connection is for bulk"),
    RECORD_NAMED("name", struct mesh_hello, identity.name, TEXT, .help = "of the sender"),
    RECORD_FIELD(struct mesh_hello, feature, U16, .since = 2, .preset = 1, .min = 1,
                 .help = "feature level that the sender understands"),
};
static const struct record hello_record = {RECORD(struct mesh_hello, hello_fields),
                                           .name = "mesh-frame/hello", .where = "A frame HELLO",
                                           .protocol = MESH_PROTOCOL, .valid = has_valid_name};
RECORD_LISTED(hello_record);

void mesh_hello_encode(const struct mesh_hello *hello, struct buf *out)
{
    ASSERT(hello->id != 0);
    record_encode(&hello_record, hello, out); /* the caller looks at buf_status */
}

enum status mesh_hello_decode(struct bytes payload, struct mesh_hello *ret_hello)
{
    enum status st = record_decode(&hello_record, payload, NULL, ret_hello);
    return st == ST_OK ? ST_OK : ST_INVALID;
}

void mesh_header_encode(enum mesh_kind kind, uint32_t payload_bytes,
                        uint8_t ret_header[MESH_HEADER_BYTES])
{
    ASSERT(payload_bytes <= MESH_FRAME_MAX);
    le32_put(ret_header, payload_bytes);
    ret_header[4] = MESH_FRAME_VERSION;
    ret_header[5] = (uint8_t)kind;
}

void mesh_frames_push(struct mesh_frames *f, struct bytes chunk)
{
    ASSERT(f->chunk.len == 0);
    f->chunk = chunk;
}

void mesh_frames_done(struct mesh_frames *f)
{
    buf_done(&f->partial);
    f->chunk = (struct bytes){0};
    f->whole = false;
}

/* Check version, kind and length in a header. */
static enum status check_header(const struct mesh_frames *f, const uint8_t *header)
{
    if (header[4] != MESH_FRAME_VERSION || header[5] < MESH_HELLO || header[5] > MESH_DATA)
        return ST_INVALID;
    return le32_get(header) <= f->payload_max ? ST_OK : ST_TOO_BIG;
}

/* End the frame in `partial`. Its memory stays for the next one: fresh memory for each large frame
 * costs more than what the frame is for. */
static void frame_end(struct mesh_frames *f)
{
    f->whole = false;
    if (f->partial.cap > MESH_FRAMES_KEPT) {
        buf_done(&f->partial);
        return;
    }
    mem_wipe(f->partial.data, f->partial.len);
    buf_clear(&f->partial);
}

/* Move bytes from the chunk to `partial` until `partial` has `need` bytes. */
static enum status gather(struct mesh_frames *f, size_t need)
{
    ASSERT(!f->whole);
    if (f->partial.len >= need)
        return ST_OK;
    TRY(buf_reserve(&f->partial, need - f->partial.len));
    size_t n = MIN(need - f->partial.len, f->chunk.len);
    buf_add(&f->partial, bytes_of(f->chunk.data, n));
    TRY(buf_status(&f->partial));
    f->chunk = bytes_from(f->chunk, n);
    return f->partial.len == need ? ST_OK : ST_NOT_FOUND;
}

enum status mesh_frames_next(struct mesh_frames *f, struct mesh_frame *ret_frame)
{
    ASSERT(f->payload_max > 0);
    if (f->whole)
        frame_end(f);
    if (f->partial.len == 0 && f->chunk.len >= MESH_HEADER_BYTES) {
        const uint8_t *header = f->chunk.data;
        TRY(check_header(f, header));
        size_t len = le32_get(header);
        if (f->chunk.len - MESH_HEADER_BYTES >= len) {
            *ret_frame = (struct mesh_frame){header[5], bytes_of(header + MESH_HEADER_BYTES, len)};
            f->chunk = bytes_from(f->chunk, MESH_HEADER_BYTES + len);
            return ST_OK;
        }
    }
    if (f->partial.len == 0 && f->chunk.len == 0)
        return ST_NOT_FOUND;
    TRY(gather(f, MESH_HEADER_BYTES));
    TRY(check_header(f, f->partial.data));
    size_t len = le32_get(f->partial.data);
    TRY(gather(f, MESH_HEADER_BYTES + len));
    f->whole = true;
    *ret_frame =
        (struct mesh_frame){f->partial.data[5], bytes_of(f->partial.data + MESH_HEADER_BYTES, len)};
    return ST_OK;
}
