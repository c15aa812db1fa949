#include "cluster/mesh/mesh_frame.h"
#include "base/mem.h"

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

void mesh_hello_encode(const struct mesh_hello *hello, struct buf *out)
{
    ASSERT(hello->protocol >= MESH_PROTOCOL_OLDEST);
    ASSERT(hello->id != 0);
    ASSERT(hello->feature != 0);
    buf_add_u16(out, hello->protocol);
    buf_add(out, bytes_of(hello->identity.cluster, MESH_CLUSTER_ID_BYTES));
    buf_add_u64(out, hello->id);
    buf_add_u64(out, hello->wanted);
    buf_add_u8(out, hello->bulk);
    buf_add_block(out, bytes_str(hello->identity.name));
    if (hello->protocol > MESH_PROTOCOL_OLDEST)
        buf_add_u16(out, hello->feature);
}

enum status mesh_hello_decode(struct bytes payload, struct mesh_hello *ret_hello)
{
    struct reader r = reader_of(payload);
    struct mesh_hello hello = {.protocol = reader_u16(&r)};
    struct bytes cluster = reader_take(&r, MESH_CLUSTER_ID_BYTES);
    hello.id = reader_u64(&r);
    hello.wanted = reader_u64(&r);
    uint8_t bulk = reader_u8(&r);
    struct bytes name = reader_block(&r);
    hello.feature = hello.protocol > MESH_PROTOCOL_OLDEST ? reader_u16(&r) : 1;
    bool more = reader_left(&r) != 0;
    if (r.failed || hello.protocol < MESH_PROTOCOL_OLDEST || bulk > 1 ||
        name.len >= MESH_NAME_MAX || hello.feature == 0 ||
        (more && hello.protocol <= MESH_PROTOCOL))
        return ST_INVALID;
    memcpy(hello.identity.cluster, cluster.data, MESH_CLUSTER_ID_BYTES);
    if (name.len != 0)
        memcpy(hello.identity.name, name.data, name.len);
    hello.bulk = bulk == 1;
    /* A zero inside the name shortens the text: refuse it. */
    if (strlen(hello.identity.name) != name.len || !mesh_name_valid(hello.identity.name))
        return ST_INVALID;
    *ret_hello = hello;
    return ST_OK;
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
