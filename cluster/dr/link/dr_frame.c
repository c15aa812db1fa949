#include "cluster/dr/link/dr_frame.h"
#include "text/time.h"

#include <assert.h>

enum {
    HELLO_MAX = 1024, /* later protocols may add fields */
    WAL_HEAD = 29,
    SYNC_HEAD = 13,
    LIST_HEAD = 6,
    PONG_RENEW = 1,
    PONG_DIFFERS = 2,
    PONG_CONFIRM = 4,
    VARINT_MAX = 3, /* bytes of a varint up to 2^21 */
    ADDRESSES_BYTES_MAX = 1 + DR_ADDRESSES_MAX * (VARINT_MAX + DR_ADDRESS_MAX - 1),
};

static_assert(WAL_HEAD + DR_RAW_MAX <= DR_FRAME_MAX, "a whole block fits a frame");
static_assert(DR_CERT_MAX + VARINT_MAX <= DR_FRAME_MAX, "a certificate fits a frame");

const char *dr_refusal_text(unsigned refusal)
{
    static const char *const texts[] = {
        [DR_REFUSE_REVOKED] = "the secondary was revoked",
        [DR_REFUSE_ID] = "the primary does not know this secondary",
        [DR_REFUSE_SET] = "the secondary belongs to another replication set",
        [DR_REFUSE_EPOCH] = "the secondary is of an earlier epoch",
        [DR_REFUSE_SUPERSEDED] = "the primary was superseded: another cluster was promoted",
        [DR_REFUSE_FEATURE] = "the secondary's build is older than the primary's feature level: "
                              "upgrade it",
        [DR_REFUSE_BUSY] = "the primary has too many connections",
        [DR_REFUSE_NOT_PRIMARY] = "the cluster is not a primary",
        [DR_REFUSE_SEALED] = "the node of the primary is sealed",
        [DR_REFUSE_CONFLICT] = "both clusters are primaries of one epoch",
        [DR_REFUSE_AHEAD] = "the secondary has writes that the primary lacks: the primary went "
                            "back to an older state",
        [DR_REFUSE_DIVERGED] = "the secondary has other writes than the primary at the same "
                               "version: the primary went back to an older state and wrote on",
    };
    return refusal < ARRAY_LEN(texts) && texts[refusal] != NULL ? texts[refusal]
                                                                : "no known reason";
}

static bool printable(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] < ' ' || text.data[i] > '~')
            return false;
    return true;
}

/* Times are milliseconds since 1970 and never negative. */
static void put_ms(struct buf *out, int64_t ms)
{
    ASSERT(ms >= 0 && ms < TEXT_CLOCK_END);
    buf_add_u64(out, (uint64_t)ms);
}

static bool take_ms(struct reader *r, int64_t *ret_ms)
{
    uint64_t ms = reader_u64(r);
    *ret_ms = (int64_t)ms;
    return ms < (uint64_t)TEXT_CLOCK_END;
}

static void take_raw(struct reader *r, uint8_t *to, size_t n)
{
    struct bytes from = reader_take(r, n);
    if (from.len == n)
        memcpy(to, from.data, n);
}

/* Addresses */

static void put_addresses(struct buf *out, const struct dr_addresses *addresses)
{
    ASSERT(addresses->n <= DR_ADDRESSES_MAX);
    buf_add_u8(out, addresses->n);
    for (unsigned i = 0; i < addresses->n; i++)
        buf_add_block(out, bytes_str(addresses->at[i]));
}

static bool take_addresses(struct reader *r, struct dr_addresses *ret_addresses)
{
    ret_addresses->n = 0;
    for (unsigned n = reader_u8(r); n > 0; n--)
        if (dr_addresses_add(ret_addresses, reader_block(r)) != ST_OK)
            return false;
    return true;
}

/* Where people find a node: shown, and never dialled. */
static void put_place(struct buf *out, struct bytes text, size_t max)
{
    ASSERT(text.len < max && printable(text));
    buf_add_block(out, text);
}

static bool take_place(struct reader *r, size_t max, struct bytes *ret_text)
{
    *ret_text = reader_block(r);
    return ret_text->len < max && printable(*ret_text);
}

/* Frames from the secondary */

static void put_hello(const struct dr_frame *f, struct buf *out)
{
    const struct dr_hello *hello = &f->hello;
    ASSERT(hello->protocol != 0 && hello->feature != 0 && hello->epoch != 0);
    ASSERT(hello->purpose >= DR_STREAM && hello->purpose <= DR_ANNOUNCE);
    ASSERT(dr_name_id_valid(hello->id));
    buf_add_u16(out, hello->protocol);
    buf_add_u16(out, hello->feature);
    buf_add_u8(out, hello->purpose);
    buf_add(out, bytes_of(hello->set, sizeof hello->set));
    buf_add_u64(out, hello->epoch);
    buf_add_u64(out, hello->position);
    put_ms(out, hello->record_ms);
    buf_add_block(out, bytes_str(hello->id));
}

static bool take_hello(struct reader *r, struct dr_frame *f)
{
    struct dr_hello *hello = &f->hello;
    hello->protocol = reader_u16(r);
    hello->feature = reader_u16(r);
    hello->purpose = reader_u8(r);
    take_raw(r, hello->set, sizeof hello->set);
    hello->epoch = reader_u64(r);
    hello->position = reader_u64(r);
    bool timed = take_ms(r, &hello->record_ms);
    struct bytes id = reader_block(r);
    if (r->failed || !timed || id.len == 0 || id.len >= DR_ID_MAX)
        return false;
    memcpy(hello->id, id.data, id.len);
    hello->id[id.len] = '\0';
    if (hello->protocol > DR_PROTOCOL)
        (void)reader_take(r, reader_left(r)); /* fields of a later protocol */
    /* A zero inside the id shortens the text: refuse it. */
    return hello->protocol != 0 && hello->feature != 0 && hello->epoch != 0 &&
           hello->purpose >= DR_STREAM && hello->purpose <= DR_ANNOUNCE &&
           strlen(hello->id) == id.len && dr_name_id_valid(hello->id);
}

static void put_credit(const struct dr_frame *f, struct buf *out)
{
    ASSERT(f->credit.bytes != 0);
    buf_add_u64(out, f->credit.bytes);
}

static bool take_credit(struct reader *r, struct dr_frame *f)
{
    f->credit.bytes = reader_u64(r);
    return f->credit.bytes != 0;
}

static void put_ack(const struct dr_frame *f, struct buf *out)
{
    buf_add_u64(out, f->ack.version);
    buf_add_u64(out, f->ack.commit_us);
}

static bool take_ack(struct reader *r, struct dr_frame *f)
{
    f->ack.version = reader_u64(r);
    f->ack.commit_us = reader_u64(r);
    return true;
}

static void put_root(const struct dr_frame *f, struct buf *out)
{
    buf_add_u64(out, f->root.version);
    buf_add(out, bytes_of(f->root.root, DR_ROOT_BYTES));
}

static bool take_root(struct reader *r, struct dr_frame *f)
{
    f->root.version = reader_u64(r);
    take_raw(r, f->root.root, DR_ROOT_BYTES);
    return true;
}

static void put_ping(const struct dr_frame *f, struct buf *out)
{
    buf_add_u64(out, f->ping.stamp);
    buf_add_u64(out, f->ping.position);
    buf_add_u64(out, f->ping.echo);
    buf_add_u64(out, f->ping.held_ms);
    put_ms(out, f->ping.wall_ms);
    buf_add_u64(out, f->ping.trip_us);
    buf_add_u64(out, f->ping.settled);
    put_place(out, f->ping.api, DR_URL_MAX);
    put_place(out, f->ping.cluster, DR_ADDRESS_MAX);
}

static bool take_ping(struct reader *r, struct dr_frame *f)
{
    f->ping.stamp = reader_u64(r);
    f->ping.position = reader_u64(r);
    f->ping.echo = reader_u64(r);
    f->ping.held_ms = reader_u64(r);
    bool timed = take_ms(r, &f->ping.wall_ms);
    f->ping.trip_us = reader_u64(r);
    f->ping.settled = reader_u64(r);
    return timed && take_place(r, DR_URL_MAX, &f->ping.api) &&
           take_place(r, DR_ADDRESS_MAX, &f->ping.cluster);
}

static void put_cert_request(const struct dr_frame *f, struct buf *out)
{
    ASSERT(f->cert_request.public_pem.len != 0 && f->cert_request.public_pem.len <= DR_PUBLIC_MAX);
    buf_add_block(out, f->cert_request.public_pem);
}

static bool take_cert_request(struct reader *r, struct dr_frame *f)
{
    struct bytes pem = f->cert_request.public_pem = reader_block(r);
    return pem.len != 0 && pem.len <= DR_PUBLIC_MAX;
}

/* Frames from the primary */

static void put_welcome(const struct dr_frame *f, struct buf *out)
{
    const struct dr_welcome *welcome = &f->welcome;
    ASSERT(welcome->protocol != 0 && welcome->protocol <= DR_PROTOCOL);
    ASSERT(welcome->feature != 0 && welcome->epoch != 0);
    buf_add_u16(out, welcome->protocol);
    buf_add_u16(out, welcome->feature);
    buf_add(out, bytes_of(welcome->set, sizeof welcome->set));
    buf_add_u64(out, welcome->epoch);
    buf_add_u64(out, welcome->version);
    put_ms(out, welcome->time_ms);
    put_ms(out, welcome->record_ms);
    put_addresses(out, &welcome->addresses);
}

static bool take_welcome(struct reader *r, struct dr_frame *f)
{
    struct dr_welcome *welcome = &f->welcome;
    welcome->protocol = reader_u16(r);
    welcome->feature = reader_u16(r);
    take_raw(r, welcome->set, sizeof welcome->set);
    welcome->epoch = reader_u64(r);
    welcome->version = reader_u64(r);
    return take_ms(r, &welcome->time_ms) && take_ms(r, &welcome->record_ms) &&
           take_addresses(r, &welcome->addresses) && welcome->protocol != 0 &&
           welcome->protocol <= DR_PROTOCOL && welcome->feature != 0 && welcome->epoch != 0;
}

static void put_refuse(const struct dr_frame *f, struct buf *out)
{
    const struct dr_refuse *refuse = &f->refuse;
    ASSERT(refuse->code != 0);
    ASSERT(refuse->text.len <= DR_TEXT_MAX && printable(refuse->text));
    buf_add_u8(out, refuse->code);
    buf_add_u64(out, refuse->epoch);
    buf_add_block(out, refuse->text);
}

static bool take_refuse(struct reader *r, struct dr_frame *f)
{
    f->refuse.code = reader_u8(r);
    f->refuse.epoch = reader_u64(r);
    f->refuse.text = reader_block(r);
    return f->refuse.code != 0 && f->refuse.text.len <= DR_TEXT_MAX && printable(f->refuse.text);
}

/* Append what precedes the data of a block. */
static void put_block(struct buf *out, const struct dr_block *block)
{
    ASSERT(dr_block_valid(block));
    buf_add_u8(out, block->packed);
    buf_add_u32(out, block->raw_bytes);
}

static bool is_list(enum dr_type type)
{
    return type == DR_DIFF_ASK || type == DR_DIFF_WANT || type == DR_DIFF_NODES;
}

static struct bytes data_of(const struct dr_frame *f)
{
    return f->type == DR_WAL         ? f->wal.block.data
           : f->type == DR_SYNC_DATA ? f->sync_data.block.data
           : is_list(f->type)        ? f->diff_list.block.data
                                     : (struct bytes){0};
}

/* Read a block, which is the rest of the frame. */
static bool take_block(struct reader *r, struct dr_block *ret_block)
{
    uint8_t packed = reader_u8(r);
    ret_block->packed = packed == 1;
    ret_block->raw_bytes = reader_u32(r);
    ret_block->data = reader_take(r, reader_left(r));
    return !r->failed && packed <= 1 && dr_block_valid(ret_block);
}

/* Whether the frame's content lies within the run. */
static bool wal_valid(const struct dr_wal *wal)
{
    return wal->first != 0 && wal->last >= wal->first && wal->run_bytes <= DR_RUN_MAX &&
           wal->offset < wal->run_bytes && wal->block.raw_bytes <= wal->run_bytes - wal->offset;
}

static void put_wal(const struct dr_frame *f, struct buf *out)
{
    const struct dr_wal *wal = &f->wal;
    ASSERT(wal_valid(wal));
    buf_add_u64(out, wal->first);
    buf_add_u64(out, wal->last);
    buf_add_u32(out, wal->run_bytes);
    buf_add_u32(out, wal->offset);
    put_block(out, &wal->block);
}

static bool take_wal(struct reader *r, struct dr_frame *f)
{
    struct dr_wal *wal = &f->wal;
    wal->first = reader_u64(r);
    wal->last = reader_u64(r);
    wal->run_bytes = reader_u32(r);
    wal->offset = reader_u32(r);
    return take_block(r, &wal->block) && wal_valid(wal);
}

static void put_version(const struct dr_frame *f, struct buf *out)
{
    buf_add_u64(out, f->type == DR_TOO_OLD ? f->too_old.first : f->checkpoint.version);
}

static bool take_version(struct reader *r, struct dr_frame *f)
{
    uint64_t version = reader_u64(r);
    if (f->type == DR_TOO_OLD)
        f->too_old.first = version;
    else
        f->checkpoint.version = version;
    return true;
}

static void put_sync_begin(const struct dr_frame *f, struct buf *out)
{
    buf_add_u64(out, f->sync_begin.version);
    buf_add_u64(out, f->sync_begin.keys);
    put_ms(out, f->sync_begin.time_ms);
}

static bool take_sync_begin(struct reader *r, struct dr_frame *f)
{
    f->sync_begin.version = reader_u64(r);
    f->sync_begin.keys = reader_u64(r);
    return take_ms(r, &f->sync_begin.time_ms);
}

static void put_sync_data(const struct dr_frame *f, struct buf *out)
{
    ASSERT(f->sync_data.offset <= UINT64_MAX - f->sync_data.block.raw_bytes);
    buf_add_u64(out, f->sync_data.offset);
    put_block(out, &f->sync_data.block);
}

static bool take_sync_data(struct reader *r, struct dr_frame *f)
{
    f->sync_data.offset = reader_u64(r);
    return take_block(r, &f->sync_data.block) &&
           f->sync_data.offset <= UINT64_MAX - f->sync_data.block.raw_bytes;
}

static void put_sync_end(const struct dr_frame *f, struct buf *out)
{
    buf_add_u64(out, f->sync_end.bytes);
    buf_add_u32(out, f->sync_end.crc);
    buf_add(out, bytes_of(f->sync_end.root, DR_ROOT_BYTES));
}

static bool take_sync_end(struct reader *r, struct dr_frame *f)
{
    f->sync_end.bytes = reader_u64(r);
    f->sync_end.crc = reader_u32(r);
    take_raw(r, f->sync_end.root, DR_ROOT_BYTES);
    return true;
}

static void put_pong(const struct dr_frame *f, struct buf *out)
{
    buf_add_u64(out, f->pong.stamp);
    ASSERT(f->pong.own != 0);
    buf_add_u64(out, f->pong.version);
    put_ms(out, f->pong.time_ms);
    buf_add_u64(out, f->pong.own);
    put_ms(out, f->pong.wall_ms);
    buf_add_u64(out, f->pong.behind);
    buf_add_u64(out, f->pong.verified);
    buf_add_u8(out,
               (uint8_t)((f->pong.renew ? PONG_RENEW : 0) | (f->pong.differs ? PONG_DIFFERS : 0) |
                         (f->pong.confirm ? PONG_CONFIRM : 0)));
    put_place(out, f->pong.api, DR_URL_MAX);
    put_addresses(out, &f->pong.addresses);
}

static bool take_pong(struct reader *r, struct dr_frame *f)
{
    f->pong.stamp = reader_u64(r);
    f->pong.version = reader_u64(r);
    if (!take_ms(r, &f->pong.time_ms))
        return false;
    f->pong.own = reader_u64(r);
    if (!take_ms(r, &f->pong.wall_ms))
        return false;
    f->pong.behind = reader_u64(r);
    f->pong.verified = reader_u64(r);
    uint8_t flags = reader_u8(r);
    f->pong.renew = (flags & PONG_RENEW) != 0;
    f->pong.differs = (flags & PONG_DIFFERS) != 0;
    f->pong.confirm = (flags & PONG_CONFIRM) != 0;
    return f->pong.own != 0 && flags <= (PONG_RENEW | PONG_DIFFERS | PONG_CONFIRM) &&
           take_place(r, DR_URL_MAX, &f->pong.api) && take_addresses(r, &f->pong.addresses);
}

static void put_cert(const struct dr_frame *f, struct buf *out)
{
    ASSERT(f->cert.pem.len != 0 && f->cert.pem.len <= DR_CERT_MAX);
    buf_add_block(out, f->cert.pem);
}

static bool take_cert(struct reader *r, struct dr_frame *f)
{
    f->cert.pem = reader_block(r);
    return f->cert.pem.len != 0 && f->cert.pem.len <= DR_CERT_MAX;
}

static void put_diff_list(const struct dr_frame *f, struct buf *out)
{
    ASSERT(!f->diff_list.flag || f->type != DR_DIFF_NODES);
    buf_add_u8(out, f->diff_list.flag);
    put_block(out, &f->diff_list.block);
}

static bool take_diff_list(struct reader *r, struct dr_frame *f)
{
    uint8_t flag = reader_u8(r);
    f->diff_list.flag = flag == 1;
    return take_block(r, &f->diff_list.block) && flag <= (f->type != DR_DIFF_NODES);
}

static void put_diff_begin(const struct dr_frame *f, struct buf *out)
{
    ASSERT(f->diff_begin.floor <= f->diff_begin.version);
    buf_add_u64(out, f->diff_begin.version);
    buf_add_u64(out, f->diff_begin.floor);
    buf_add_u64(out, f->diff_begin.keys);
    buf_add_u64(out, f->diff_begin.fork);
    put_ms(out, f->diff_begin.time_ms);
}

static bool take_diff_begin(struct reader *r, struct dr_frame *f)
{
    f->diff_begin.version = reader_u64(r);
    f->diff_begin.floor = reader_u64(r);
    f->diff_begin.keys = reader_u64(r);
    f->diff_begin.fork = reader_u64(r);
    return take_ms(r, &f->diff_begin.time_ms) && f->diff_begin.floor <= f->diff_begin.version;
}

/* One row a type. `put` appends the payload without the data of a block; `take` reads a payload,
 * false: a field is out of bounds. */
struct dr_type_row {
    enum dr_side from;
    uint32_t bytes_max;
    void (*put)(const struct dr_frame *f, struct buf *out);
    bool (*take)(struct reader *r, struct dr_frame *f);
};

static const struct dr_type_row type_rows[] = {
    [DR_HELLO] = {DR_SECONDARY, HELLO_MAX, put_hello, take_hello},
    [DR_CREDIT] = {DR_SECONDARY, 8, put_credit, take_credit},
    [DR_ACK] = {DR_SECONDARY, 16, put_ack, take_ack},
    [DR_ROOT] = {DR_SECONDARY, 8 + DR_ROOT_BYTES, put_root, take_root},
    [DR_PING] = {DR_SECONDARY, 56 + VARINT_MAX + DR_URL_MAX - 1 + VARINT_MAX + DR_ADDRESS_MAX - 1,
                 put_ping, take_ping},
    [DR_CERT_REQUEST] = {DR_SECONDARY, VARINT_MAX + DR_PUBLIC_MAX, put_cert_request,
                         take_cert_request},
    [DR_WELCOME] = {DR_PRIMARY, 52 + ADDRESSES_BYTES_MAX, put_welcome, take_welcome},
    [DR_REFUSE] = {DR_PRIMARY, 9 + VARINT_MAX + DR_TEXT_MAX, put_refuse, take_refuse},
    [DR_WAL] = {DR_PRIMARY, WAL_HEAD + DR_RAW_MAX, put_wal, take_wal},
    [DR_TOO_OLD] = {DR_PRIMARY, 8, put_version, take_version},
    [DR_CHECKPOINT] = {DR_PRIMARY, 8, put_version, take_version},
    [DR_SYNC_BEGIN] = {DR_PRIMARY, 24, put_sync_begin, take_sync_begin},
    [DR_SYNC_DATA] = {DR_PRIMARY, SYNC_HEAD + DR_RAW_MAX, put_sync_data, take_sync_data},
    [DR_SYNC_END] = {DR_PRIMARY, 44, put_sync_end, take_sync_end},
    [DR_PONG] = {DR_PRIMARY, 57 + VARINT_MAX + DR_URL_MAX - 1 + ADDRESSES_BYTES_MAX, put_pong,
                 take_pong},
    [DR_CERT] = {DR_PRIMARY, VARINT_MAX + DR_CERT_MAX, put_cert, take_cert},
    [DR_DIFF_ASK] = {DR_SECONDARY, LIST_HEAD + DR_RAW_MAX, put_diff_list, take_diff_list},
    [DR_DIFF_WANT] = {DR_SECONDARY, LIST_HEAD + DR_RAW_MAX, put_diff_list, take_diff_list},
    [DR_DIFF_BEGIN] = {DR_PRIMARY, 40, put_diff_begin, take_diff_begin},
    [DR_DIFFERS] = {DR_PRIMARY, 8, put_version, take_version},
    [DR_DIFF_NODES] = {DR_PRIMARY, LIST_HEAD + DR_RAW_MAX, put_diff_list, take_diff_list},
};

static const struct dr_type_row *row_of(unsigned type)
{
    return type < ARRAY_LEN(type_rows) && type_rows[type].put != NULL ? &type_rows[type] : NULL;
}

enum dr_side dr_frame_side(enum dr_type type)
{
    const struct dr_type_row *row = row_of(type);
    ASSERT(row != NULL);
    return row->from;
}

void dr_frame_encode(const struct dr_frame *frame, struct buf *out, struct bytes *ret_data)
{
    const struct dr_type_row *row = row_of(frame->type);
    struct bytes data = data_of(frame);
    size_t start = out->len;
    ASSERT(row != NULL);
    buf_add_u32(out, 0);
    buf_add_u8(out, (uint8_t)frame->type);
    row->put(frame, out);
    *ret_data = data;
    if (buf_status(out) != ST_OK)
        return;
    size_t payload = out->len - start - DR_HEADER_BYTES + data.len;
    ASSERT(payload <= row->bytes_max);
    le32_put(out->data + start, (uint32_t)payload);
}

enum status dr_frame_header(const uint8_t header[DR_HEADER_BYTES], enum dr_side from,
                            enum dr_type *ret_type, uint32_t *ret_bytes)
{
    const struct dr_type_row *row = row_of(header[4]);
    uint32_t bytes = le32_get(header);
    if (row == NULL || row->from != from || bytes == 0)
        return ST_INVALID;
    if (bytes > row->bytes_max)
        return ST_TOO_BIG;
    *ret_type = (enum dr_type)header[4];
    *ret_bytes = bytes;
    return ST_OK;
}

enum status dr_frame_decode(enum dr_type type, struct bytes payload, struct dr_frame *ret_frame)
{
    const struct dr_type_row *row = row_of(type);
    struct reader r = reader_of(payload);
    ASSERT(row != NULL);
    ASSERT(payload.len <= row->bytes_max);
    memset(ret_frame, 0, sizeof *ret_frame);
    ret_frame->type = type;
    return row->take(&r, ret_frame) && reader_end(&r) == ST_OK ? ST_OK : ST_INVALID;
}
