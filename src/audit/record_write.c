#include "audit/record_write.h"
#include "base/mem.h"

enum { SCAN_DEPTH_MAX = 256, TRIM_BYTES = 64 << 10 };

void audit_writer_begin(struct audit_writer *a, size_t bytes)
{
    *a = (struct audit_writer){0};
    a->w.out = &a->text;
    if (buf_reserve(&a->text, bytes) != ST_OK)
        return; /* audit_writer_end reports the failure */
}

void audit_writer_done(struct audit_writer *a)
{
    buf_done(&a->text);
    buf_drop(&a->holes);
    audit_record_unref(a->part);
    a->part = NULL;
}

static enum status check(const struct audit_writer *a)
{
    ASSERT(a->w.depth == 0);
    TRY(buf_status(&a->text));
    TRY(buf_status(&a->holes));
    return a->text.len > AUDIT_RECORD_BYTES_MAX ? ST_TOO_BIG : ST_OK;
}

/* Give back the spare memory of a large buffer: a record may wait in the queue of a device. */
static void trim(struct buf *b)
{
    ASSERT(b->len <= b->cap && !b->failed);
    if (b->cap - b->len < TRIM_BYTES || b->len == 0)
        return;
    uint8_t *data = mem_alloc(b->len);
    if (data == NULL)
        return; /* the record keeps its spare memory */
    memcpy(data, b->data, b->len);
    size_t len = b->len;
    buf_done(b);
    *b = (struct buf){.data = data, .len = len, .cap = len};
}

enum status audit_writer_end(struct audit_writer *a, struct audit_record **ret_record)
{
    TRY(check(a));
    ASSERT(a->text.len > 0);
    struct audit_record *record = mem_alloc(sizeof *record);
    if (record == NULL)
        return ST_NOMEM;
    trim(&a->text);
    trim(&a->holes);
    atomic_init(&record->refs, 1);
    record->text = a->text;
    record->holes = a->holes;
    record->part = a->part;
    record->part_at = a->part_at;
    *a = (struct audit_writer){0};
    *ret_record = record;
    return ST_OK;
}

void audit_put_part(struct audit_writer *a, struct audit_record *part)
{
    ASSERT(a->part == NULL && a->holes.len == 0);
    ASSERT(a->w.depth == 1 && part->part == NULL && part->text.len > 2);
    if (a->w.separate)
        buf_add_u8(&a->text, ',');
    a->w.separate = true;
    a->part = audit_record_ref(part);
    a->part_at = a->text.len;
}

/* Add a hole at the end of the text. Returns its index. */
static size_t add_hole(struct audit_writer *a, enum audit_hole_kind kind, size_t len)
{
    size_t index = a->holes.len / sizeof(struct audit_hole);
    struct audit_hole *hole = (struct audit_hole *)(void *)buf_extend(&a->holes, sizeof *hole);
    if (hole != NULL)
        *hole =
            (struct audit_hole){.kind = kind, .at = (uint32_t)a->text.len, .len = (uint32_t)len};
    return index;
}

static void put_plain(struct audit_writer *a, enum audit_hole_kind kind, struct bytes plain)
{
    (void)add_hole(a, kind, plain.len); /* the index is for marks */
    buf_add(&a->text, plain);
}

void audit_put_hole(struct audit_writer *a, enum audit_hole_kind kind, struct bytes plain)
{
    ASSERT(kind < AUDIT_LIST);
    if (a->w.separate)
        buf_add_u8(&a->text, ',');
    a->w.separate = true;
    put_plain(a, kind, plain);
}

void audit_member_hole(struct audit_writer *a, struct bytes key, enum audit_hole_kind kind,
                       struct bytes plain)
{
    if (plain.len == 0)
        return;
    text_key_raw(&a->w, key);
    audit_put_hole(a, kind, plain);
}

static bool is_exempt(struct audit_exempt exempt, struct bytes key)
{
    for (size_t i = 0; i < exempt.n; i++)
        if (bytes_eq(key, bytes_str(exempt.keys[i])))
            return true;
    return false;
}

static void put_quoted(struct audit_writer *a, struct bytes text)
{
    struct text_writer w = {.out = &a->text};
    text_put_bytes(&w, text);
}

static void put_item(struct audit_writer *a, const struct text_value *v, struct audit_exempt exempt,
                     bool readable);

static void put_members(struct audit_writer *a, const struct text_value *v,
                        struct audit_exempt exempt, bool readable)
{
    bool object = v->kind == TEXT_OBJECT;
    ASSERT(object || v->kind == TEXT_LIST);
    buf_add_u8(&a->text, object ? '{' : '[');
    TEXT_FOR (item, v) {
        if (item != v->first)
            buf_add_u8(&a->text, ',');
        if (object) {
            put_quoted(a, item->name);
            buf_add_u8(&a->text, ':');
        }
        put_item(a, item, exempt, object ? is_exempt(exempt, item->name) : readable);
    }
    buf_add_u8(&a->text, object ? '}' : ']');
}

/* Recursion is as deep as the tree: the readers bound the depth of a tree. */
static void put_item(struct audit_writer *a, const struct text_value *v, struct audit_exempt exempt,
                     bool readable)
{
    switch (v->kind) {
    case TEXT_NULL: buf_add(&a->text, BYTES("null")); break;
    case TEXT_BOOL: buf_add(&a->text, v->truth ? BYTES("true") : BYTES("false")); break;
    case TEXT_NUMBER: buf_add(&a->text, v->text); break;
    case TEXT_STRING:
        if (readable)
            put_quoted(a, v->text);
        else
            put_plain(a, AUDIT_STRING, v->text);
        break;
    case TEXT_LIST:
    case TEXT_OBJECT: put_members(a, v, exempt, readable); break;
    }
}

static void begin_value(struct audit_writer *a)
{
    if (a->w.separate)
        buf_add_u8(&a->text, ',');
    a->w.separate = true;
}

void audit_put_tree(struct audit_writer *a, const struct text_value *tree,
                    struct audit_exempt exempt)
{
    begin_value(a);
    put_item(a, tree, exempt, false);
}

/* A pass over JSON text: finds the strings that are values. */
struct scan {
    struct audit_writer *a;
    struct audit_exempt exempt;
    const uint8_t *at, *end;
    const uint8_t *from; /* the text from here to `at` is still to be copied */
    unsigned depth;
    /* For each level: whether the level is an object, and whether the strings at that level are
     * exempt. */
    bool object[SCAN_DEPTH_MAX], readable[SCAN_DEPTH_MAX];
    bool whole;    /* a value has begun at level 0, and no second one may */
    bool key_next; /* the next string is a key */
    bool listing;
    bool mark_next;   /* the next list or object is to be marked */
    bool marked;      /* the level 2 lies between marks */
    size_t mark;      /* index of the hole AUDIT_LIST */
    uint32_t entries; /* entries of the marked level */
};

static void copy_up_to_here(struct scan *s)
{
    buf_add(&s->a->text, bytes_of(s->from, (size_t)(s->at - s->from)));
    s->from = s->at;
}

static struct audit_hole *hole_at(struct audit_writer *a, size_t index)
{
    ASSERT(index < a->holes.len / sizeof(struct audit_hole));
    return (struct audit_hole *)(void *)a->holes.data + index;
}

static bool open_level(struct scan *s, bool object)
{
    if (s->depth + 1 == SCAN_DEPTH_MAX)
        return false;
    if (s->mark_next && s->depth == 1) {
        copy_up_to_here(s);
        s->mark = add_hole(s->a, AUDIT_LIST, 0);
        s->marked = true;
        s->entries = s->at + 1 < s->end && s->at[1] != ']' && s->at[1] != '}';
    }
    ASSERT(*s->at == (object ? '{' : '['));
    s->mark_next = false;
    bool readable = s->readable[s->depth];
    s->depth++;
    s->object[s->depth] = object;
    s->readable[s->depth] = readable;
    s->key_next = object;
    s->at++;
    return true;
}

static bool close_level(struct scan *s, bool object)
{
    if (s->depth == 0 || s->object[s->depth] != object)
        return false;
    s->depth--;
    s->at++;
    s->key_next = false;
    if (!s->marked || s->depth != 1)
        return true;
    copy_up_to_here(s);
    s->marked = false;
    size_t end = add_hole(s->a, AUDIT_LIST_END, 0);
    if (buf_status(&s->a->holes) == ST_OK) {
        ASSERT(end > s->mark);
        struct audit_hole *hole = hole_at(s->a, s->mark);
        hole->entries = s->entries;
        hole->end = (uint32_t)end;
    }
    return true;
}

/* The string that begins behind a quote at s->at; data NULL: it does not end. */
static struct bytes string_inside(const struct scan *s, bool *ret_escaped)
{
    const uint8_t *from = s->at + 1, *p = from;
    *ret_escaped = false;
    ASSERT(*s->at == '"');
    while (p < s->end) {
        p = memchr(p, '"', (size_t)(s->end - p));
        if (p == NULL)
            break;
        size_t slashes = 0;
        while (p - slashes > from && *(p - slashes - 1) == '\\')
            slashes++;
        if (slashes % 2 == 0) {
            struct bytes inside = bytes_of(from, (size_t)(p - from));
            *ret_escaped = inside.len != 0 && memchr(inside.data, '\\', inside.len) != NULL;
            return inside;
        }
        p++;
    }
    return (struct bytes){0};
}

static void take_key(struct scan *s, struct bytes key)
{
    s->key_next = false;
    if (s->exempt.n != 0)
        s->readable[s->depth] = is_exempt(s->exempt, key);
    s->mark_next = s->listing && s->depth == 1 &&
                   (bytes_eq(key, BYTES("keys")) || bytes_eq(key, BYTES("key_info")));
}

static bool put_escaped(struct scan *s, struct bytes inside)
{
    size_t len, hole = add_hole(s->a, AUDIT_STRING, 0);
    if (buf_reserve(&s->a->text, inside.len) != ST_OK || buf_status(&s->a->holes) != ST_OK)
        return true; /* audit_writer_end reports the failure */
    if (text_json_unescape(inside, s->a->text.data + s->a->text.len, &len) != ST_OK)
        return false;
    s->a->text.len += len;
    hole_at(s->a, hole)->len = (uint32_t)len;
    return true;
}

static bool take_string(struct scan *s)
{
    bool escaped, fine = true;
    ASSERT(s->from <= s->at);
    struct bytes inside = string_inside(s, &escaped);
    const uint8_t *after = inside.data + inside.len + 1;
    if (inside.data == NULL)
        return false;
    if (s->key_next) {
        take_key(s, inside);
    } else if (!s->readable[s->depth]) {
        copy_up_to_here(s);
        s->from = after;
        if (escaped)
            fine = put_escaped(s, inside);
        else
            put_plain(s->a, AUDIT_STRING, inside);
    }
    s->at = after;
    return fine;
}

/* Whether the word may stay readable: a number, or a name of JSON. Anything else is no JSON. */
static bool is_literal(struct bytes word)
{
    bool number = true;
    for (size_t i = 0; i < word.len && number; i++)
        number = word.data[i] != 0 && strchr("0123456789+-.eE", word.data[i]) != NULL;
    return number || bytes_eq(word, BYTES("true")) || bytes_eq(word, BYTES("false")) ||
           bytes_eq(word, BYTES("null"));
}

static bool take_literal(struct scan *s)
{
    const uint8_t *from = s->at;
    while (s->at < s->end && (*s->at == 0 || strchr(" \t\r\n,:{}[]\"", *s->at) == NULL))
        s->at++;
    return is_literal(bytes_of(from, (size_t)(s->at - from)));
}

static bool take_comma(struct scan *s)
{
    s->key_next = s->object[s->depth];
    s->entries += s->marked && s->depth == 2;
    s->at++;
    return s->depth != 0;
}

static bool take_value(struct scan *s)
{
    if (s->depth == 0 && s->whole)
        return false;
    s->whole = true;
    switch (*s->at) {
    case '{': return open_level(s, true);
    case '[': return open_level(s, false);
    case '"': return take_string(s);
    default: return take_literal(s);
    }
}

static bool take_item(struct scan *s)
{
    ASSERT(s->at < s->end && s->depth < SCAN_DEPTH_MAX);
    switch (*s->at) {
    case '}': return close_level(s, true);
    case ']': return close_level(s, false);
    case ',': return take_comma(s);
    case ':':
    case ' ':
    case '\t':
    case '\r':
    case '\n': s->at++; return true;
    default: return take_value(s);
    }
}

void audit_put_json(struct audit_writer *a, struct bytes json, struct audit_exempt exempt,
                    bool listing)
{
    struct scan s = {.a = a, .exempt = exempt, .listing = listing};
    ASSERT(a->w.out == &a->text);
    begin_value(a);
    size_t text_len = a->text.len, holes_len = a->holes.len;
    bool fine = json.len != 0;
    s.at = s.from = json.data;
    s.end = json.len != 0 ? json.data + json.len : json.data;
    while (fine && s.at < s.end)
        fine = take_item(&s);
    if (fine && s.whole && s.depth == 0) {
        copy_up_to_here(&s);
        return;
    }
    ASSERT(a->text.len >= text_len || buf_status(&a->text) != ST_OK);
    a->text.len = text_len; /* the handler's text is no JSON: hide all of it */
    a->holes.len = holes_len;
    put_plain(a, AUDIT_STRING, json);
}
