/* Tables that describe stored records and small frames: each field with its form in bytes, the
 * member of a C struct that has its value, its bounds, and the format that it came with. From one
 * table follow encoding, decoding with every check, the drawing in the docs (record_draw), the
 * values in clear (record_dump), a fuzz target (tests/fuzz/fuzz_record.c) and a golden check
 * (tests/unit/base/test_records.c).
 *
 *   struct door { char owner[32]; int64_t until_ms; bool open; };        stored at "l/door/NAME"
 *   static const struct record_field door_fields[] = {
 *       RECORD_FIELD(struct door, owner, TEXT, .min = 1, .help = "who opened it"),
 *       RECORD_FIELD(struct door, until_ms, U64, .max = TEXT_CLOCK_END - 1),
 *       RECORD_FIELD(struct door, open, U8, .since = 2),
 *   };
 *   static const struct record door_record = {
 *       RECORD(struct door, door_fields), .name = "door", .key = "l/door/", .newest = 2};
 *   RECORD_LISTED(door_record);
 *
 * A member whose C type does not fit the form does not compile. RECORD_LISTED adds the record to
 * the list of the whole program (record_list): no other file names it.
 *
 * 1. A record has one form: what decodes encodes to the same bytes, except a format below `least`
 *    and frames of a later protocol.
 * 2. Bytes after the last field are refused, and so is a format that this build does not know.
 * 3. Nothing is allocated for a count or a length that the input cannot hold.
 *
 * Numbers are little-endian; varints and blocks are those of base/buf.h. */
#ifndef HOLDFAST_BASE_RECORD_H
#define HOLDFAST_BASE_RECORD_H

#include "base/arena.h"
#include "base/buf.h"

/* The form of a field in bytes. Numbers fit bool, unsigned members, enums and int64_t. */
enum record_kind {
    RECORD_U8,
    RECORD_U16,
    RECORD_U32,
    RECORD_U64,
    RECORD_VARINT,
    RECORD_BITS,     /* one byte: the bits of the fields that have a `mask`; it has no member */
    RECORD_FLAG,     /* a bool of the byte of RECORD_BITS: the bit `mask` */
    RECORD_FIXED,    /* the bytes of an array of uint8_t */
    RECORD_BLOCK,    /* a block: struct bytes (borrowed), struct buf (copied, grows from empty) */
    RECORD_TEXT,     /* a block without a zero byte: char[N] (copied), const char * (arena) */
    RECORD_TEXT0,    /* a block that ends in its only zero byte: const char *, borrowed in place */
    RECORD_REST,     /* all bytes that follow: struct bytes (borrowed). Only as the last field */
    RECORD_LIST8,    /* u8 number, then as many records of `sub`, see RECORD_ARRAY, RECORD_ITEMS */
    RECORD_LIST,     /* the same with a varint */
    RECORD_LIST_END, /* records of `sub` up to the end. Only as the last field */
};

/* The C type of a member. */
enum record_in {
    RECORD_IN_BOOL,
    RECORD_IN_UNSIGNED, /* of `size` bytes */
    RECORD_IN_SIGNED,   /* int64_t, never negative */
    RECORD_IN_RAW,      /* uint8_t[size] */
    RECORD_IN_BYTES,    /* struct bytes */
    RECORD_IN_BUF,      /* struct buf */
    RECORD_IN_CHARS,    /* char[size] with a zero byte at the end */
    RECORD_IN_TEXT,     /* const char * */
    RECORD_IN_ARRAY,    /* items of `sub` within the struct */
    RECORD_IN_ITEMS,    /* pointer to items of `sub` in the arena */
    RECORD_IN_NOTHING,
};

struct record_field {
    const char *name, *help; /* the help is for the docs; NULL: the name says it all */
    enum record_kind kind;
    enum record_in in;
    uint32_t offset, size; /* of the member */
    /* Bounds of a number, of the length of a block or text, or of the number of items. `max` 0: as
     * much as form and member hold. */
    uint64_t min, max;
    uint64_t member_max; /* the greatest number that the member holds */
    /* The format that brought the field; 0: the first one. A record is encoded in the lowest format
     * that has all its fields which differ from `preset`, but never below `least`. Decoding an
     * older record gives `preset`, which is a number, or the empty text, block or list. */
    uint8_t since;
    uint8_t preset;
    /* A bit of RECORD_BITS. Of RECORD_FLAG: the value. Of another field: the field is there only if
     * it is not empty and not 0, and the bit says so. */
    uint8_t mask;
    bool secret;                 /* a dump shows the length alone */
    bool (*check)(struct bytes); /* of a text or block; NULL: any content */
    const struct record *sub;    /* of lists */
    uint32_t count, count_size;  /* of lists: the member with the number of items */
};

struct record {
    const char *name; /* unique, as "dr/role": what it has before '/' groups records in the docs */
    const char *key;  /* the key in the state; '*': any segment; '/' at the end: any name follows */
    const char *where; /* instead of a key, for the docs: "The file `founding`" */
    const struct record_field *fields;
    uint32_t n, size; /* number of fields; bytes of the struct */
    /* The first byte is the format: `oldest` (0: 1) to `newest` are read, `least` (0: oldest) to
     * `newest` are written. `newest` 0: the record has no format byte. */
    uint8_t oldest, least, newest;
    /* Frames that negotiate: the first field is the protocol, which stands for the format. A
     * protocol above this one may add fields at the end. 0: none of that. */
    uint8_t protocol;
    bool crc; /* the CRC-32C of all bytes before follows as u32 */
    bool raw; /* stored unencrypted at `key`: offline dumps show it */
    /* A condition on several fields. Decoding refuses a struct that breaks it, encoding asserts it.
     * NULL: no condition. */
    bool (*valid)(const void *from);
};

#define RECORD(type, table) .fields = (table), .n = ARRAY_LEN(table), .size = sizeof(type)

#define RECORD_AS_NUMBER(m)                 \
    _Generic((m), bool                      \
             : RECORD_IN_BOOL, int64_t      \
             : RECORD_IN_SIGNED, uint8_t    \
             : RECORD_IN_UNSIGNED, uint16_t \
             : RECORD_IN_UNSIGNED, uint32_t \
             : RECORD_IN_UNSIGNED, uint64_t \
             : RECORD_IN_UNSIGNED)
#define RECORD_AS_U8(m) RECORD_AS_NUMBER(m)
#define RECORD_AS_U16(m) RECORD_AS_NUMBER(m)
#define RECORD_AS_U32(m) RECORD_AS_NUMBER(m)
#define RECORD_AS_U64(m) RECORD_AS_NUMBER(m)
#define RECORD_AS_VARINT(m) RECORD_AS_NUMBER(m)
#define RECORD_AS_FLAG(m) _Generic((m), bool : RECORD_IN_BOOL)
#define RECORD_AS_FIXED(m) _Generic((m), uint8_t * : RECORD_IN_RAW)
#define RECORD_AS_BLOCK(m) _Generic((m), struct bytes : RECORD_IN_BYTES, struct buf : RECORD_IN_BUF)
#define RECORD_AS_TEXT(m) _Generic((m), char * : RECORD_IN_CHARS, const char * : RECORD_IN_TEXT)
#define RECORD_AS_TEXT0(m) _Generic((m), const char * : RECORD_IN_TEXT)
#define RECORD_AS_REST(m) _Generic((m), struct bytes : RECORD_IN_BYTES)

#define RECORD_MEMBER_MAX(m)        \
    _Generic((m), bool : 1, int64_t \
             : INT64_MAX, default   \
             : sizeof(m) >= 8 ? UINT64_MAX : (UINT64_C(1) << 8 * (sizeof(m) & 7)) - 1)

#define RECORD_NAMED(text, type, member, kind_, ...)                                            \
    {                                                                                           \
        .name = (text), .kind = RECORD_##kind_, .in = RECORD_AS_##kind_(((type *)0)->member),   \
        .member_max = RECORD_MEMBER_MAX(((type *)0)->member), .offset = offsetof(type, member), \
        .size = sizeof(((type *)0)->member), __VA_ARGS__                                        \
    }
#define RECORD_FIELD(type, member, kind_, ...) \
    RECORD_NAMED(#member, type, member, kind_, __VA_ARGS__)
/* The only field of a record whose struct is that one value, for items of lists. */
#define RECORD_ITSELF(text, type, kind_, ...)                                                      \
    {                                                                                              \
        .name = (text), .kind = RECORD_##kind_, .in = RECORD_AS_##kind_(*(__typeof__(type) *)0),   \
        .member_max = RECORD_MEMBER_MAX(*(__typeof__(type) *)0), .size = sizeof(type), __VA_ARGS__ \
    }
#define RECORD_BITS_BYTE                                             \
    {                                                                \
        .name = "bits", .kind = RECORD_BITS, .in = RECORD_IN_NOTHING \
    }
/* A list in an array within the struct, which bounds it, or in memory of the arena. */
#define RECORD_ARRAY(text, type, member, counter, kind_, sub_, ...)                               \
    {                                                                                             \
        .name = (text), .kind = RECORD_##kind_, .in = RECORD_IN_ARRAY, .sub = (sub_),             \
        .offset = offsetof(type, member), .size = sizeof(((type *)0)->member),                    \
        .count = offsetof(type, counter), .count_size = sizeof(((type *)0)->counter), __VA_ARGS__ \
    }
#define RECORD_ITEMS(text, type, member, counter, kind_, sub_, ...)                               \
    {                                                                                             \
        .name = (text), .kind = RECORD_##kind_, .in = RECORD_IN_ITEMS, .sub = (sub_),             \
        .offset = offsetof(type, member), .size = sizeof(((type *)0)->member),                    \
        .count = offsetof(type, counter), .count_size = sizeof(((type *)0)->counter), __VA_ARGS__ \
    }

/* Largest struct of a record. */
enum { RECORD_STRUCT_MAX = 8192 };

/* Append the record. Every member is within its bounds. As buf_status(out), which a caller may look
 * at later instead. */
enum status record_encode(const struct record *record, const void *from, struct buf *out);
/* The same without the bytes of a last field RECORD_REST, which the caller sends after them. */
enum status record_encode_head(const struct record *record, const void *from, struct buf *out);
/* Fill the described members of *ret, and no others; only on success. `arena` may be NULL where no
 * member needs it. ST_CORRUPT; ST_NOMEM. */
NODISCARD enum status record_decode(const struct record *record, struct bytes bytes,
                                    struct arena *arena, void *ret);
/* Release the members of type struct buf. */
void record_done(const struct record *record, void *decoded);

/* Append a table in Markdown: the fields, their bytes, bounds and formats. */
void record_draw(const struct record *record, struct buf *out);
/* Append the values in one line of text, as "mode 2, set 0102, key (32 bytes)"; "malformed" where
 * the bytes do not decode. */
void record_dump(const struct record *record, struct bytes bytes, struct buf *out);

/* Add a record to the list of the program. */
#define RECORD_LISTED(variable)                         \
    static const struct record *const variable##_listed \
        __attribute__((used, section("holdfast_records"))) = &(variable)
/* The i-th record of the list, in no order; NULL after the last one. */
const struct record *record_at(size_t i);
const struct record *record_of_name(struct bytes name); /* NULL: no such record */
/* The record that is stored at a key; NULL: none is described. */
const struct record *record_of_key(struct bytes key);

#endif
