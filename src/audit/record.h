/* One audit record: a JSON object in which each text that devices show in different forms is left
 * as a hole. A worker makes the record once (record_write.h); each device renders the record with
 * its own salt and options.
 *
 * 1. A record never changes after it was made. Any thread may render and reference it; any thread
 * may release it, unless its memory is of a worker (audit_spare.h): then only that worker may.
 * 2. The memory is wiped when the last reference is released: holes contain plain texts. */
#ifndef HOLDFAST_AUDIT_RECORD_H
#define HOLDFAST_AUDIT_RECORD_H

#include "base/buf.h"
#include "crypto/hmac.h"

/* A record is refused with ST_TOO_BIG above this size. Larger than any body that is parsed. */
#define AUDIT_RECORD_BYTES_MAX (UINT32_C(256) << 20)

struct audit_record;

/* Add a reference. */
struct audit_record *audit_record_ref(struct audit_record *record);
void audit_record_unref(struct audit_record *record); /* NULL is allowed */
/* Bytes of memory that the record occupies, without a part that it shares with `counted`, a record
 * that was counted already. NULL: none. */
size_t audit_record_bytes(const struct audit_record *record, const struct audit_record *counted);

/* Where shared parts of records stand in a buffer, so that the other record of a request copies the
 * part. Zero-initialise for each buffer; the records live as long as it is used. */
enum { AUDIT_RECENT_PARTS = 16 };
struct audit_recent {
    struct {
        const struct audit_record *part;
        size_t at, len;
    } parts[AUDIT_RECENT_PARTS];
    unsigned next;
};

/* How a device shows the holes of a record. */
struct audit_render {
    struct hmac *salt;  /* NULL: the device has no salt, and a text that needs an HMAC is shown as
                           "" */
    bool raw;           /* every text in clear */
    bool hmac_accessor; /* accessors as HMAC, else in clear */
    bool elide;         /* the names of a listing as their number */
    struct audit_recent *recent; /* of the buffer that is rendered into; NULL: none */
};

/* "hmac-sha256:" and 64 hex digits. */
enum { AUDIT_HMAC_LEN = 12 + 2 * HMAC_BYTES };
/* Write the HMAC of a text as records show it, with a terminating zero. ST_CRYPTO. */
NODISCARD enum status audit_hmac(struct hmac *salt, struct bytes plain,
                                 char ret_text[AUDIT_HMAC_LEN + 1]);

/* Append the record as one JSON object without a line end. ST_NOMEM, ST_CRYPTO: `out` may have a
 * part of the record. */
NODISCARD enum status audit_record_render(const struct audit_record *record,
                                          const struct audit_render *how, struct buf *out);

#endif
