#include "cluster/dr/link/dr_frame.h"
#include "text/time.h"

#include <assert.h>

enum {
    HELLO_MAX = 1024, /* later protocols may add fields */
    WAL_HEAD = 29,
    SYNC_HEAD = 13,
    LIST_HEAD = 6,
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

/* Frames from the secondary */

static bool hello_valid(const void *from)
{
    return dr_name_id_valid(((const struct dr_hello *)from)->id);
}

static const struct record_field hello_fields[] = {
    RECORD_FIELD(struct dr_hello, protocol, U16, .min = 1,
                 .help = "newest protocol that the secondary speaks"),
    RECORD_FIELD(struct dr_hello, feature, U16, .min = 1,
                 .help = "feature level that the secondary understands"),
    RECORD_FIELD(struct dr_hello, purpose, U8, .min = DR_STREAM, .max = DR_ANNOUNCE),
    RECORD_FIELD(struct dr_hello, set, FIXED),
    RECORD_FIELD(struct dr_hello, epoch, U64, .min = 1),
    RECORD_NAMED("version", struct dr_hello, position, U64,
                 .help = "version of the secondary's state"),
    RECORD_FIELD(struct dr_hello, record_ms, U64, .max = TEXT_CLOCK_END - 1,
                 .help = "time in the record of the WAL that made this version; 0: not known"),
    RECORD_FIELD(struct dr_hello, id, TEXT, .min = 1,
                 .help = "letters, digits, `.`, `_`, `-`, beginning with a letter or digit"),
};
static const struct record hello_record = {RECORD(struct dr_hello, hello_fields),
                                           .name = "dr-frame/hello", .where = "A frame",
                                           .protocol = DR_PROTOCOL, .valid = hello_valid};
RECORD_LISTED(hello_record);

static const struct record_field credit_fields[] = {
    RECORD_FIELD(struct dr_credit, bytes, U64, .min = 1,
                 .help = "of data in WAL and SYNC_DATA that may follow in addition"),
};
static const struct record credit_record = {RECORD(struct dr_credit, credit_fields),
                                            .name = "dr-frame/credit", .where = "A frame"};
RECORD_LISTED(credit_record);

static const struct record_field ack_fields[] = {
    RECORD_FIELD(struct dr_ack, version, U64,
                 .help = "that a majority of the secondary has stored"),
    RECORD_FIELD(struct dr_ack, commit_us, U64,
                 .help = "microseconds from the arrival of that version to its commit"),
};
static const struct record ack_record = {RECORD(struct dr_ack, ack_fields), .name = "dr-frame/ack",
                                         .where = "A frame"};
RECORD_LISTED(ack_record);

static const struct record_field root_fields[] = {
    RECORD_FIELD(struct dr_root, version, U64),
    RECORD_FIELD(struct dr_root, root, FIXED,
                 .help = "Merkle root of the replicated state at that version"),
};
static const struct record root_record = {RECORD(struct dr_root, root_fields),
                                          .name = "dr-frame/root", .where = "A frame"};
RECORD_LISTED(root_record);

static const struct record_field ping_fields[] = {
    RECORD_FIELD(struct dr_ping, stamp, U64, .help = "PONG repeats it"),
    RECORD_NAMED("version", struct dr_ping, position, U64,
                 .help = "version of the secondary's state"),
    RECORD_FIELD(struct dr_ping, echo, U64,
                 .help = "the primary's stamp in the newest PONG of this connection whose version "
                         "the state has reached; 0: none"),
    RECORD_FIELD(struct dr_ping, held_ms, U64, .help = "since the state reached that version"),
    RECORD_FIELD(struct dr_ping, wall_ms, U64, .max = TEXT_CLOCK_END - 1,
                 .help = "clock of the secondary's node"),
    RECORD_FIELD(struct dr_ping, trip_us, U64,
                 .help = "microseconds from the last PING to its PONG; 0: not measured"),
    RECORD_FIELD(struct dr_ping, settled, U64,
                 .help = "version of the secondary's state at which its own keys were under the "
                         "newest root key; 0: not known"),
    RECORD_FIELD(struct dr_ping, api, BLOCK, .max = DR_URL_MAX - 1, .check = printable,
                 .help = "URL of the API of the secondary's node, for people; printable ASCII"),
    RECORD_FIELD(struct dr_ping, cluster, BLOCK, .max = DR_ADDRESS_MAX - 1, .check = printable,
                 .help = "host:port of its cluster port, for people; printable ASCII"),
};
static const struct record ping_record = {RECORD(struct dr_ping, ping_fields),
                                          .name = "dr-frame/ping", .where = "A frame"};
RECORD_LISTED(ping_record);

static const struct record_field cert_request_fields[] = {
    RECORD_FIELD(struct dr_cert_request, public_pem, BLOCK, .min = 1, .max = DR_PUBLIC_MAX,
                 .help = "public half of a new key as PEM text"),
};
static const struct record cert_request_record = {
    RECORD(struct dr_cert_request, cert_request_fields), .name = "dr-frame/cert-request",
    .where = "A frame"};
RECORD_LISTED(cert_request_record);

/* Frames from the primary */

static const struct record_field welcome_fields[] = {
    RECORD_FIELD(struct dr_welcome, protocol, U16, .min = 1, .max = DR_PROTOCOL,
                 .help = "that both sides speak from here on"),
    RECORD_FIELD(struct dr_welcome, feature, U16, .min = 1, .help = "feature level of the primary"),
    RECORD_FIELD(struct dr_welcome, set, FIXED),
    RECORD_FIELD(struct dr_welcome, epoch, U64, .min = 1),
    RECORD_FIELD(struct dr_welcome, version, U64, .help = "of the primary's state"),
    RECORD_FIELD(struct dr_welcome, time_ms, U64, .max = TEXT_CLOCK_END - 1,
                 .help = "cluster time"),
    RECORD_FIELD(
        struct dr_welcome, record_ms, U64, .max = TEXT_CLOCK_END - 1,
        .help = "of a stream: time in this node's record of the secondary's version; 0: not known"),
    RECORD_ARRAY("addresses", struct dr_welcome, addresses.at, addresses.n, LIST8,
                 &dr_address_record, .help = "cluster ports of the primary"),
};
static const struct record welcome_record = {RECORD(struct dr_welcome, welcome_fields),
                                             .name = "dr-frame/welcome", .where = "A frame"};
RECORD_LISTED(welcome_record);

static const struct record_field refuse_fields[] = {
    RECORD_FIELD(struct dr_refuse, code, U8, .min = 1),
    RECORD_FIELD(
        struct dr_refuse, epoch, U64,
        .help =
            "highest epoch of the secondary's set that the refusing cluster knows; 0: not said"),
    RECORD_FIELD(struct dr_refuse, text, BLOCK, .max = DR_TEXT_MAX, .check = printable,
                 .help = "printable ASCII"),
};
static const struct record refuse_record = {RECORD(struct dr_refuse, refuse_fields),
                                            .name = "dr-frame/refuse", .where = "A frame"};
RECORD_LISTED(refuse_record);

static bool wal_valid(const void *from)
{
    const struct dr_wal *wal = from;
    return wal->last >= wal->first && wal->offset < wal->run_bytes &&
           wal->block.raw_bytes <= wal->run_bytes - wal->offset && dr_block_valid(&wal->block);
}

static const struct record_field wal_fields[] = {
    RECORD_FIELD(struct dr_wal, first, U64, .min = 1,
                 .help = "version of the first record of the run"),
    RECORD_FIELD(struct dr_wal, last, U64, .help = "version of the last record"),
    RECORD_FIELD(struct dr_wal, run_bytes, U32, .max = DR_RUN_MAX),
    RECORD_FIELD(struct dr_wal, offset, U32, .help = "of this content in the run"),
    RECORD_NAMED("packed", struct dr_wal, block.packed, U8, .help = "the content is an LZ4 block"),
    RECORD_NAMED("raw_bytes", struct dr_wal, block.raw_bytes, U32, .min = 1, .max = DR_RAW_MAX,
                 .help = "of the content as it is"),
    RECORD_NAMED("data", struct dr_wal, block.data, REST, .min = 1, .max = DR_RAW_MAX,
                 .help = "content"),
};
static const struct record wal_record = {RECORD(struct dr_wal, wal_fields), .name = "dr-frame/wal",
                                         .where = "A frame", .valid = wal_valid};
RECORD_LISTED(wal_record);

static const struct record_field too_old_fields[] = {
    RECORD_FIELD(struct dr_too_old, first, U64,
                 .help =
                     "version of the oldest record that the primary has: the secondary must sync"),
};
static const struct record too_old_record = {RECORD(struct dr_too_old, too_old_fields),
                                             .name = "dr-frame/too-old", .where = "A frame"};
RECORD_LISTED(too_old_record);

static const struct record_field checkpoint_fields[] = {
    RECORD_FIELD(struct dr_checkpoint, version, U64,
                 .help = "the secondary replies with ROOT once its state has that version"),
};
static const struct record checkpoint_record = {RECORD(struct dr_checkpoint, checkpoint_fields),
                                                .name = "dr-frame/checkpoint", .where = "A frame"};
RECORD_LISTED(checkpoint_record);

static const struct record_field differs_fields[] = {
    RECORD_FIELD(
        struct dr_checkpoint, version, U64,
        .help = "at which the secondary's root is not the primary's: the secondary must compare"),
};
static const struct record differs_record = {RECORD(struct dr_checkpoint, differs_fields),
                                             .name = "dr-frame/differs", .where = "A frame"};
RECORD_LISTED(differs_record);

static const struct record_field sync_begin_fields[] = {
    RECORD_FIELD(struct dr_sync_begin, version, U64, .help = "that the sync carries"),
    RECORD_FIELD(struct dr_sync_begin, keys, U64, .help = "in that version"),
    RECORD_FIELD(struct dr_sync_begin, time_ms, U64, .max = TEXT_CLOCK_END - 1,
                 .help = "cluster time of the version"),
};
static const struct record sync_begin_record = {RECORD(struct dr_sync_begin, sync_begin_fields),
                                                .name = "dr-frame/sync-begin", .where = "A frame"};
RECORD_LISTED(sync_begin_record);

static bool sync_data_valid(const void *from)
{
    const struct dr_sync_data *data = from;
    return data->offset <= UINT64_MAX - data->block.raw_bytes && dr_block_valid(&data->block);
}

static const struct record_field sync_data_fields[] = {
    RECORD_FIELD(struct dr_sync_data, offset, U64, .help = "of this content in the whole"),
    RECORD_NAMED("packed", struct dr_sync_data, block.packed, U8,
                 .help = "the content is an LZ4 block"),
    RECORD_NAMED("raw_bytes", struct dr_sync_data, block.raw_bytes, U32, .min = 1,
                 .max = DR_RAW_MAX, .help = "of the content as it is"),
    RECORD_NAMED("data", struct dr_sync_data, block.data, REST, .min = 1, .max = DR_RAW_MAX,
                 .help = "content"),
};
static const struct record sync_data_record = {RECORD(struct dr_sync_data, sync_data_fields),
                                               .name = "dr-frame/sync-data", .where = "A frame",
                                               .valid = sync_data_valid};
RECORD_LISTED(sync_data_record);

static const struct record_field sync_end_fields[] = {
    RECORD_FIELD(struct dr_sync_end, bytes, U64, .help = "of content that were sent"),
    RECORD_FIELD(struct dr_sync_end, crc, U32, .help = "CRC-32C of all of them"),
    RECORD_FIELD(struct dr_sync_end, root, FIXED,
                 .help = "Merkle root of the replicated state at the version: the secondary swaps "
                         "in no state with another"),
};
static const struct record sync_end_record = {RECORD(struct dr_sync_end, sync_end_fields),
                                              .name = "dr-frame/sync-end", .where = "A frame"};
RECORD_LISTED(sync_end_record);

static const struct record_field pong_fields[] = {
    RECORD_FIELD(struct dr_pong, stamp, U64, .help = "of the PING"),
    RECORD_FIELD(struct dr_pong, version, U64, .help = "of the primary's state"),
    RECORD_FIELD(struct dr_pong, time_ms, U64, .max = TEXT_CLOCK_END - 1, .help = "cluster time"),
    RECORD_NAMED("own_stamp", struct dr_pong, own, U64, .min = 1,
                 .help = "the primary's own stamp, which a later PING repeats as its echo"),
    RECORD_FIELD(struct dr_pong, wall_ms, U64, .max = TEXT_CLOCK_END - 1,
                 .help = "clock of the primary's node"),
    RECORD_FIELD(struct dr_pong, behind, U64,
                 .help = "bytes of records after the secondary's version that this node has"),
    RECORD_FIELD(struct dr_pong, verified, U64,
                 .help = "newest version at which this node found both roots equal; 0: none"),
    RECORD_BITS_BYTE,
    RECORD_FIELD(struct dr_pong, renew, FLAG, .mask = 1,
                 .help = "the secondary's certificate is due for renewal"),
    RECORD_FIELD(struct dr_pong, differs, FLAG, .mask = 2,
                 .help = "the roots differed at the last comparison"),
    RECORD_FIELD(struct dr_pong, confirm, FLAG, .mask = 4,
                 .help = "the secondary shall send ACK on this connection"),
    RECORD_FIELD(struct dr_pong, api, BLOCK, .max = DR_URL_MAX - 1, .check = printable,
                 .help = "URL of the API of the primary's node, for people; printable ASCII"),
    RECORD_ARRAY("addresses", struct dr_pong, addresses.at, addresses.n, LIST8, &dr_address_record,
                 .help = "cluster ports of the primary"),
};
static const struct record pong_record = {RECORD(struct dr_pong, pong_fields),
                                          .name = "dr-frame/pong", .where = "A frame"};
RECORD_LISTED(pong_record);

static const struct record_field cert_fields[] = {
    RECORD_FIELD(struct dr_cert, pem, BLOCK, .min = 1, .max = DR_CERT_MAX,
                 .help = "certificate as PEM text"),
};
static const struct record cert_record = {RECORD(struct dr_cert, cert_fields),
                                          .name = "dr-frame/cert", .where = "A frame"};
RECORD_LISTED(cert_record);

/* Lists of a difference sync */

static bool list_valid(const void *from)
{
    return dr_block_valid(&((const struct dr_diff_list *)from)->block);
}

static bool nodes_valid(const void *from)
{
    return list_valid(from) && !((const struct dr_diff_list *)from)->flag;
}

static const struct record_field diff_ask_fields[] = {
    RECORD_FIELD(struct dr_diff_list, flag, U8, .help = "newest versions are not compared"),
    RECORD_NAMED("packed", struct dr_diff_list, block.packed, U8,
                 .help = "the content is an LZ4 block"),
    RECORD_NAMED("raw_bytes", struct dr_diff_list, block.raw_bytes, U32, .min = 1,
                 .max = DR_RAW_MAX, .help = "of the content as it is"),
    RECORD_NAMED("data", struct dr_diff_list, block.data, REST, .min = 1, .max = DR_RAW_MAX,
                 .help = "content"),
};
static const struct record diff_ask_record = {RECORD(struct dr_diff_list, diff_ask_fields),
                                              .name = "dr-frame/diff-ask", .where = "A frame",
                                              .valid = list_valid};
RECORD_LISTED(diff_ask_record);

static const struct record_field diff_want_fields[] = {
    RECORD_FIELD(struct dr_diff_list, flag, U8, .help = "the last places; else more follow"),
    RECORD_NAMED("packed", struct dr_diff_list, block.packed, U8,
                 .help = "the content is an LZ4 block"),
    RECORD_NAMED("raw_bytes", struct dr_diff_list, block.raw_bytes, U32, .min = 1,
                 .max = DR_RAW_MAX, .help = "of the content as it is"),
    RECORD_NAMED("data", struct dr_diff_list, block.data, REST, .min = 1, .max = DR_RAW_MAX,
                 .help = "content"),
};
static const struct record diff_want_record = {RECORD(struct dr_diff_list, diff_want_fields),
                                               .name = "dr-frame/diff-want", .where = "A frame",
                                               .valid = list_valid};
RECORD_LISTED(diff_want_record);

static const struct record_field diff_nodes_fields[] = {
    RECORD_FIELD(struct dr_diff_list, flag, U8, .help = "always 0"),
    RECORD_NAMED("packed", struct dr_diff_list, block.packed, U8,
                 .help = "the content is an LZ4 block"),
    RECORD_NAMED("raw_bytes", struct dr_diff_list, block.raw_bytes, U32, .min = 1,
                 .max = DR_RAW_MAX, .help = "of the content as it is"),
    RECORD_NAMED("data", struct dr_diff_list, block.data, REST, .min = 1, .max = DR_RAW_MAX,
                 .help = "content"),
};
static const struct record diff_nodes_record = {RECORD(struct dr_diff_list, diff_nodes_fields),
                                                .name = "dr-frame/diff-nodes", .where = "A frame",
                                                .valid = nodes_valid};
RECORD_LISTED(diff_nodes_record);

static bool diff_begin_valid(const void *from)
{
    const struct dr_diff_begin *begin = from;
    return begin->floor <= begin->version;
}

static const struct record_field diff_begin_fields[] = {
    RECORD_FIELD(struct dr_diff_begin, version, U64, .help = "that is compared"),
    RECORD_FIELD(struct dr_diff_begin, floor, U64,
                 .help = "version of the last restore of the primary, at most that version"),
    RECORD_FIELD(struct dr_diff_begin, keys, U64, .help = "of that version"),
    RECORD_FIELD(struct dr_diff_begin, fork, U64,
                 .help = "version at which the primary was promoted; 0: never"),
    RECORD_FIELD(struct dr_diff_begin, time_ms, U64, .max = TEXT_CLOCK_END - 1,
                 .help = "cluster time of the version"),
};
static const struct record diff_begin_record = {RECORD(struct dr_diff_begin, diff_begin_fields),
                                                .name = "dr-frame/diff-begin", .where = "A frame",
                                                .valid = diff_begin_valid};
RECORD_LISTED(diff_begin_record);

/* The data that is sent after the payload of the table. */
static struct bytes data_of(const struct dr_frame *f)
{
    switch (f->type) {
    case DR_WAL: return f->wal.block.data;
    case DR_SYNC_DATA: return f->sync_data.block.data;
    case DR_DIFF_ASK:
    case DR_DIFF_WANT:
    case DR_DIFF_NODES: return f->diff_list.block.data;
    default: return (struct bytes){0};
    }
}

/* One row a type. */
struct dr_type_row {
    enum dr_side from;
    uint32_t bytes_max;
    const struct record *record;
};

static const struct dr_type_row type_rows[] = {
    [DR_HELLO] = {DR_SECONDARY, HELLO_MAX, &hello_record},
    [DR_CREDIT] = {DR_SECONDARY, 8, &credit_record},
    [DR_ACK] = {DR_SECONDARY, 16, &ack_record},
    [DR_ROOT] = {DR_SECONDARY, 8 + DR_ROOT_BYTES, &root_record},
    [DR_PING] = {DR_SECONDARY, 56 + VARINT_MAX + DR_URL_MAX - 1 + VARINT_MAX + DR_ADDRESS_MAX - 1,
                 &ping_record},
    [DR_CERT_REQUEST] = {DR_SECONDARY, VARINT_MAX + DR_PUBLIC_MAX, &cert_request_record},
    [DR_WELCOME] = {DR_PRIMARY, 52 + ADDRESSES_BYTES_MAX, &welcome_record},
    [DR_REFUSE] = {DR_PRIMARY, 9 + VARINT_MAX + DR_TEXT_MAX, &refuse_record},
    [DR_WAL] = {DR_PRIMARY, WAL_HEAD + DR_RAW_MAX, &wal_record},
    [DR_TOO_OLD] = {DR_PRIMARY, 8, &too_old_record},
    [DR_CHECKPOINT] = {DR_PRIMARY, 8, &checkpoint_record},
    [DR_SYNC_BEGIN] = {DR_PRIMARY, 24, &sync_begin_record},
    [DR_SYNC_DATA] = {DR_PRIMARY, SYNC_HEAD + DR_RAW_MAX, &sync_data_record},
    [DR_SYNC_END] = {DR_PRIMARY, 44, &sync_end_record},
    [DR_PONG] = {DR_PRIMARY, 57 + VARINT_MAX + DR_URL_MAX - 1 + ADDRESSES_BYTES_MAX, &pong_record},
    [DR_CERT] = {DR_PRIMARY, VARINT_MAX + DR_CERT_MAX, &cert_record},
    [DR_DIFF_ASK] = {DR_SECONDARY, LIST_HEAD + DR_RAW_MAX, &diff_ask_record},
    [DR_DIFF_WANT] = {DR_SECONDARY, LIST_HEAD + DR_RAW_MAX, &diff_want_record},
    [DR_DIFF_BEGIN] = {DR_PRIMARY, 40, &diff_begin_record},
    [DR_DIFFERS] = {DR_PRIMARY, 8, &differs_record},
    [DR_DIFF_NODES] = {DR_PRIMARY, LIST_HEAD + DR_RAW_MAX, &diff_nodes_record},
};

static const struct dr_type_row *row_of(unsigned type)
{
    return type < ARRAY_LEN(type_rows) && type_rows[type].record != NULL ? &type_rows[type] : NULL;
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
    enum status st = record_encode_head(row->record, &frame->hello, out);
    *ret_data = data;
    if (st != ST_OK)
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
    ASSERT(row != NULL);
    ASSERT(payload.len <= row->bytes_max);
    memset(ret_frame, 0, sizeof *ret_frame);
    ret_frame->type = type;
    enum status st = record_decode(row->record, payload, NULL, &ret_frame->hello);
    return st == ST_OK ? ST_OK : ST_INVALID;
}
