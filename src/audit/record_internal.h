/* The memory of a record. Inside src/audit.
 *
 * `text` alternates between JSON and the plain texts of the holes:
 *
 *   {"auth":{"accessor":  E3k…  ,"display_name":"root"},"request":{"data":{"a":  s3cret  }}}
 *   ╰──── JSON ─────────╯╰ hole ╯╰─────────────── JSON ────────────────────────╯╰─ hole ─╯╰─ …
 *
 * A hole of a text stands for a whole JSON string, with its quotes. The two marks around the names
 * of a listing contain no text. */
#ifndef HOLDFAST_AUDIT_RECORD_INTERNAL_H
#define HOLDFAST_AUDIT_RECORD_INTERNAL_H

#include "audit/audit_spare.h"
#include "audit/record.h"

#include <stdatomic.h>

enum audit_hole_kind {
    AUDIT_STRING,   /* a string of a body */
    AUDIT_SCALAR,   /* a number or a boolean of a body, in clear without quotes */
    AUDIT_SECRET,   /* a token */
    AUDIT_ACCESSOR, /* an accessor of a token */
    AUDIT_LIST,     /* mark before the names of a listing */
    AUDIT_LIST_END, /* mark after the names */
};

enum { AUDIT_FEW_HOLES = 16 }; /* as many as most records have */

struct audit_hole {
    enum audit_hole_kind kind;
    uint32_t at;      /* where the plain text begins in `text` */
    uint32_t len;     /* length of the plain text */
    uint32_t entries; /* AUDIT_LIST: number of names */
    uint32_t end;     /* AUDIT_LIST: index of the AUDIT_LIST_END */
    /* AUDIT_SECRET, AUDIT_ACCESSOR: 1 + index of an earlier hole of this kind with the same text;
     * 0: none */
    uint32_t same;
};

struct audit_span {
    size_t at, len;
};

struct audit_record {
    atomic_uint refs;
    struct audit_spare *spare; /* gets the memory back; NULL: the heap does */
    struct buf text;
    /* Another record whose members are shown at `part_at`, in front of every hole; NULL: none. */
    struct audit_record *part;
    size_t part_at;
    /* Of a part: its members about the mount, in `text`. Both records of a request have them. */
    struct audit_span mount;
    size_t n_holes;
    struct audit_hole holes[];
};

static inline size_t audit_record_size(size_t n_holes)
{
    return sizeof(struct audit_record) + n_holes * sizeof(struct audit_hole);
}

/* Wipe and give back the text of a record, which may have grown. */
void audit_text_free(struct audit_spare *spare, struct buf *text);

#endif
