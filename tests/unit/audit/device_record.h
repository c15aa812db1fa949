/* The record that tests offer to devices. */
#ifndef HOLDFAST_TESTS_UNIT_AUDIT_DEVICE_RECORD_H
#define HOLDFAST_TESTS_UNIT_AUDIT_DEVICE_RECORD_H

#include "support.h"

#include "audit/record_write.h"

/* {"time":…,"type":"request","n":N,"text":"…"} of about `bytes` bytes, and a token that becomes an
 * HMAC. */
static inline struct audit_record *world_record(unsigned n, size_t bytes)
{
    struct audit_writer a;
    struct audit_record *record = NULL;
    CLEANUP(buf_done) struct buf pad = {0};
    for (size_t i = 0; i < bytes; i++)
        buf_add_u8(&pad, 'x');
    audit_writer_begin(&a, NULL, 0);
    text_open_object(&a.w);
    text_member_time(&a.w, "time", 1700000000000);
    text_member_str(&a.w, "type", "request");
    text_member_int(&a.w, "n", n);
    audit_member_hole(&a, BYTES("\"token\":"), AUDIT_SECRET, BYTES("s.secret"));
    text_key(&a.w, "text");
    text_put_bytes(&a.w, buf_bytes(&pad));
    text_close(&a.w);
    assert_status(audit_writer_end(&a, &record), ST_OK);
    return record;
}

#endif
