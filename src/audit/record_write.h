/* Making an audit record (record.h). One thread.
 *
 * Keys and null are written as they are, and so are numbers and booleans, but for those of a
 * request whose field is a text (struct audit_clear). What a device may have to hide becomes a
 * hole. */
#ifndef HOLDFAST_AUDIT_RECORD_WRITE_H
#define HOLDFAST_AUDIT_RECORD_WRITE_H

#include "audit/record_internal.h"
#include "text/json.h"
#include "text/schema.h"

/* A record in the making. */
struct audit_writer {
    struct text_writer w; /* for everything that is no hole */
    struct audit_spare *spare;
    struct buf text;
    struct audit_hole few[AUDIT_FEW_HOLES]; /* the first ones */
    struct buf more;                        /* array of struct audit_hole: the others */
    size_t n_holes;
    struct audit_record *part;
    size_t part_at;
};

/* Keys of a body whose strings stay readable: the keys that a mount exempts. A string is exempt if
 * the innermost key above it is one of them, as upstream decides it. */
struct audit_exempt {
    const char *const *keys;
    size_t n;
};

/* The members of a parsed body that stay in clear. A number or a boolean does where `declared` has
 * its member as one: a client may send the text of a secret field as a number. NULL: no member is
 * declared, so every number and every boolean becomes a hole. */
struct audit_clear {
    struct audit_exempt exempt;
    const struct schema *declared;
};

/* `bytes` is the expected size. `spare`: the memory of the worker, which outlives the record; NULL:
 * the heap. */
void audit_writer_begin(struct audit_writer *a, struct audit_spare *spare, size_t bytes);
void audit_writer_done(struct audit_writer *a); /* drop an unfinished record */
/* Turn what was written into a record with one reference; the writer is empty again. ST_NOMEM;
 * ST_TOO_BIG. */
NODISCARD enum status audit_writer_end(struct audit_writer *a, struct audit_record **ret_record);

/* Put a string as a hole: AUDIT_STRING, AUDIT_SECRET or AUDIT_ACCESSOR. */
void audit_put_hole(struct audit_writer *a, enum audit_hole_kind kind, struct bytes plain);
/* Put a member whose value is a hole. `key` is JSON text, as of text_key_raw. A text of length 0 is
 * left out. */
void audit_member_hole(struct audit_writer *a, struct bytes key, enum audit_hole_kind kind,
                       struct bytes plain);
/* Put the members of another record, which is an object, into the open object. The record takes a
 * reference. Once, and before any hole. */
void audit_put_part(struct audit_writer *a, struct audit_record *part);
/* Put the parsed body of a request. */
void audit_put_tree(struct audit_writer *a, const struct text_value *tree,
                    struct audit_clear clear); /* `tree` is an object */
/* Put the JSON that a handler wrote. `listing`: the members `keys` and `key_info` of the object are
 * marked, so that a device can show their number of entries alone. The text is as text_writer
 * writes it, without spaces. A text whose quotes, brackets or words do not fit is put as one hole;
 * other faults are not looked for. */
void audit_put_json(struct audit_writer *a, struct bytes json, struct audit_exempt exempt,
                    bool listing);

#endif
