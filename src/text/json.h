/* JSON: reading into a tree, and writing.
 *
 * Reading is strict RFC 8259: one value, valid UTF-8, no repeated names, bounded depth and number
 * of values. Numbers keep their text, so large numbers and fractions lose no digit. A string may
 * contain U+0000: its length counts. */
#ifndef HOLDFAST_TEXT_JSON_H
#define HOLDFAST_TEXT_JSON_H

#include "base/buf.h"
#include "text/value.h"

enum { TEXT_JSON_DEPTH_MAX = 200, TEXT_JSON_VALUES_MAX = 600000 };

/* Read all of `text`. ST_INVALID with a reason "line N: …"; ST_TOO_BIG (too many values);
 * ST_NOMEM. `reason` may be NULL. */
NODISCARD enum status text_json_parse(struct arena *arena, struct bytes text,
                                      const struct text_value **ret_value, struct reason *reason);

/* Replace the escapes of `inside`, the text between the quotes of a string. `to` has room for
 * inside.len bytes. ST_INVALID: an unknown escape. */
NODISCARD enum status text_json_unescape(struct bytes inside, uint8_t *to, size_t *ret_len);

/* Writes compact JSON; equal calls write equal bytes. Zero-initialise with `out`. buf_status(out)
 * tells whether memory ran out. '<', '>' and '&' are written as \u003c, \u003e, \u0026, so that the
 * text is safe inside HTML. */
struct text_writer {
    struct buf *out;
    uint64_t lists; /* one bit for each level: 1 list, 0 object */
    unsigned depth;
    bool separate; /* a comma is due before the next item */
    bool plain;    /* escape only what JSON demands, not for HTML: for text that is stored */
};

enum { TEXT_WRITER_DEPTH_MAX = 64 };

/* Open an object or a list. text_close closes the innermost open one. */
void text_open_object(struct text_writer *w);
void text_open_list(struct text_writer *w);
void text_close(struct text_writer *w);
void text_key_bytes(struct text_writer *w, struct bytes name);
/* A key as JSON text, "\"name\":", written without a check. */
static inline void text_key_raw(struct text_writer *w, struct bytes key)
{
    ASSERT(w->depth > 0 && (w->lists & 1) == 0);
    ASSERT(key.len > 2 && key.data[key.len - 1] == ':');
    uint8_t *at = buf_extend(w->out, w->separate + key.len);
    if (at == NULL)
        return; /* buf_status reports the failure */
    if (w->separate)
        *at++ = ',';
    memcpy(at, key.data, key.len);
    w->separate = false;
}
void text_put_null(struct text_writer *w);
void text_put_bool(struct text_writer *w, bool truth);
void text_put_int(struct text_writer *w, int64_t n);
void text_put_uint(struct text_writer *w, uint64_t n);
void text_put_str(struct text_writer *w, const char *text); /* NULL is written as null */
void text_put_bytes(struct text_writer *w, struct bytes text);
void text_put_time(struct text_writer *w, int64_t ms); /* a string, see text_time */
/* A value as JSON text, written without a check. */
void text_put_raw(struct text_writer *w, struct bytes json);
void text_put_value(struct text_writer *w, const struct text_value *v); /* NULL: null */

/* Shorthands. The names are mostly literals, whose length the compiler knows. */
static inline void text_key(struct text_writer *w, const char *name)
{
    text_key_bytes(w, bytes_str(name));
}

static inline void text_member_str(struct text_writer *w, const char *name, const char *text)
{
    text_key(w, name);
    text_put_str(w, text);
}

static inline void text_member_int(struct text_writer *w, const char *name, int64_t n)
{
    text_key(w, name);
    text_put_int(w, n);
}

static inline void text_member_bool(struct text_writer *w, const char *name, bool truth)
{
    text_key(w, name);
    text_put_bool(w, truth);
}

static inline void text_member_null(struct text_writer *w, const char *name)
{
    text_key(w, name);
    text_put_null(w);
}

static inline void text_member_time(struct text_writer *w, const char *name, int64_t ms)
{
    text_key(w, name);
    text_put_time(w, ms);
}

#endif
