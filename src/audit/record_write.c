#include "audit/record_write.h"
#include "base/mem.h"

enum { SCAN_DEPTH_MAX = 256, TRIM_BYTES = 64 << 10 };

void audit_writer_begin(struct audit_writer *a, struct audit_spare *spare, size_t bytes)
{
    a->w = (struct text_writer){.out = &a->text};
    a->text = a->more = (struct buf){0};
    a->n_holes = 0;
    a->part = NULL;
    a->spare = spare;
    size_t size = bytes <= AUDIT_SPARE_SMALL   ? AUDIT_SPARE_SMALL
                  : bytes <= AUDIT_SPARE_LARGE ? AUDIT_SPARE_LARGE
                                               : bytes;
    a->text.data = audit_spare_take(spare, size);
    a->text.cap = a->text.data != NULL ? size : 0;
    a->text.failed = a->text.data == NULL; /* audit_writer_end reports the failure */
}

void audit_writer_done(struct audit_writer *a)
{
    audit_text_free(a->spare, &a->text);
    buf_drop(&a->more);
    audit_record_unref(a->part);
    a->part = NULL;
}

static enum status check(const struct audit_writer *a)
{
    ASSERT(a->w.depth == 0);
    TRY(buf_status(&a->text));
    TRY(buf_status(&a->more));
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
    size_t few = MIN(a->n_holes, (size_t)AUDIT_FEW_HOLES);
    struct audit_record *record = audit_spare_take(a->spare, audit_record_size(a->n_holes));
    if (record == NULL)
        return ST_NOMEM;
    trim(&a->text);
    atomic_init(&record->refs, 1);
    record->spare = a->spare;
    record->text = a->text;
    record->part = a->part;
    record->part_at = a->part_at;
    record->mount = (struct audit_span){0};
    record->n_holes = a->n_holes;
    memcpy(record->holes, a->few, few * sizeof a->few[0]);
    if (a->more.len != 0)
        memcpy(record->holes + few, a->more.data, a->more.len);
    a->text = (struct buf){0};
    a->part = NULL;
    audit_writer_done(a);
    *ret_record = record;
    return ST_OK;
}

void audit_put_part(struct audit_writer *a, struct audit_record *part)
{
    ASSERT(a->part == NULL && a->n_holes == 0);
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
    size_t index = a->n_holes;
    struct audit_hole *hole =
        index < AUDIT_FEW_HOLES
            ? &a->few[index]
            : (struct audit_hole *)(void *)buf_extend(&a->more, sizeof a->few[0]);
    if (hole == NULL)
        return index; /* audit_writer_end reports the failure */
    *hole = (struct audit_hole){.kind = kind, .at = (uint32_t)a->text.len, .len = (uint32_t)len};
    a->n_holes++;
    return index;
}

/* 1 + the index of a hole that shows the same text: each record has the token and the accessor of
 * the sender twice. 0: none. */
static uint32_t same_hole(const struct audit_writer *a, enum audit_hole_kind kind,
                          struct bytes plain)
{
    ASSERT(kind == AUDIT_SECRET || kind == AUDIT_ACCESSOR);
    if (a->text.failed)
        return 0; /* the texts of holes may be missing */
    for (uint32_t i = 0; i < a->n_holes && i < AUDIT_FEW_HOLES; i++) {
        const struct audit_hole *hole = &a->few[i];
        if (hole->kind == kind && bytes_eq(bytes_of(a->text.data + hole->at, hole->len), plain))
            return i + 1;
    }
    return 0;
}

static void put_plain(struct audit_writer *a, enum audit_hole_kind kind, struct bytes plain)
{
    bool is_secret = kind == AUDIT_SECRET || kind == AUDIT_ACCESSOR;
    uint32_t same = is_secret ? same_hole(a, kind, plain) : 0;
    size_t index = add_hole(a, kind, plain.len);
    if (same != 0 && index < AUDIT_FEW_HOLES)
        a->few[index].same = same;
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
    struct bytes truth = v->truth ? BYTES("true") : BYTES("false");
    switch (v->kind) {
    case TEXT_NULL: buf_add(&a->text, BYTES("null")); break;
    case TEXT_BOOL:
    case TEXT_NUMBER:
        if (readable)
            buf_add(&a->text, v->kind == TEXT_BOOL ? truth : v->text);
        else
            put_plain(a, AUDIT_SCALAR, v->kind == TEXT_BOOL ? truth : v->text);
        break;
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

/* Whether a member is a number or a boolean, and declared as one. */
static bool is_declared(const struct schema *declared, const struct text_value *member)
{
    if (declared == NULL || (member->kind != TEXT_NUMBER && member->kind != TEXT_BOOL))
        return false;
    const struct field *field = schema_field(declared, member->name);
    return field != NULL && (field->kind == FIELD_INT || field->kind == FIELD_BOOL ||
                             field->kind == FIELD_DURATION || field->kind == FIELD_SIZE);
}

static void begin_value(struct audit_writer *a)
{
    if (a->w.separate)
        buf_add_u8(&a->text, ',');
    a->w.separate = true;
}

void audit_put_tree(struct audit_writer *a, const struct text_value *tree, struct audit_clear clear)
{
    ASSERT(tree->kind == TEXT_OBJECT);
    begin_value(a);
    buf_add_u8(&a->text, '{');
    TEXT_FOR (member, tree) {
        if (member != tree->first)
            buf_add_u8(&a->text, ',');
        put_quoted(a, member->name);
        buf_add_u8(&a->text, ':');
        put_item(a, member, clear.exempt,
                 is_exempt(clear.exempt, member->name) || is_declared(clear.declared, member));
    }
    buf_add_u8(&a->text, '}');
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
    bool escaped;  /* there may be escapes in strings */
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
    ASSERT(index < a->n_holes);
    if (index < AUDIT_FEW_HOLES)
        return &a->few[index];
    return (struct audit_hole *)(void *)a->more.data + (index - AUDIT_FEW_HOLES);
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
    if (buf_status(&s->a->more) == ST_OK) {
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
    if (!s->escaped) {
        p = p < s->end ? memchr(p, '"', (size_t)(s->end - p)) : NULL;
        return p != NULL ? bytes_of(from, (size_t)(p - from)) : (struct bytes){0};
    }
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
    if (buf_reserve(&s->a->text, inside.len) != ST_OK || buf_status(&s->a->more) != ST_OK)
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
    if (inside.data == NULL)
        return false;
    const uint8_t *after = inside.data + inside.len + 1;
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

/* Bytes that a number has, and bytes that end a literal. */
enum { OF_NUMBER = 1, ENDS_LITERAL = 2 };
static const uint8_t in_literal[256] = {
    ['0' ... '9'] = OF_NUMBER, ['+'] = OF_NUMBER,     ['-'] = OF_NUMBER,    ['.'] = OF_NUMBER,
    ['e'] = OF_NUMBER,         ['E'] = OF_NUMBER,     [' '] = ENDS_LITERAL, ['\t'] = ENDS_LITERAL,
    ['\r'] = ENDS_LITERAL,     ['\n'] = ENDS_LITERAL, [','] = ENDS_LITERAL, [':'] = ENDS_LITERAL,
    ['{'] = ENDS_LITERAL,      ['}'] = ENDS_LITERAL,  ['['] = ENDS_LITERAL, [']'] = ENDS_LITERAL,
    ['"'] = ENDS_LITERAL,
};

/* The word may stay readable if it is a number or a name of JSON. Anything else is no JSON. */
static bool take_literal(struct scan *s)
{
    const uint8_t *from = s->at;
    unsigned all = OF_NUMBER;
    for (; s->at < s->end && in_literal[*s->at] != ENDS_LITERAL; s->at++)
        all &= in_literal[*s->at];
    struct bytes word = bytes_of(from, (size_t)(s->at - from));
    return all != 0 || bytes_eq(word, BYTES("true")) || bytes_eq(word, BYTES("false")) ||
           bytes_eq(word, BYTES("null"));
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
    case '\t': s->at++; return true;
    case '\r':
    case '\n': /* a record is one line */
        copy_up_to_here(s);
        s->from = ++s->at;
        return true;
    default: return take_value(s);
    }
}

void audit_put_json(struct audit_writer *a, struct bytes json, struct audit_exempt exempt,
                    bool listing)
{
    struct scan s = {.a = a, .exempt = exempt, .listing = listing};
    ASSERT(a->w.out == &a->text);
    begin_value(a);
    size_t text_len = a->text.len, n_holes = a->n_holes, more_len = a->more.len;
    bool fine = json.len != 0;
    s.escaped = fine && memchr(json.data, '\\', json.len) != NULL;
    s.at = s.from = json.data;
    s.end = json.len != 0 ? json.data + json.len : json.data;
    while (fine && s.at < s.end)
        fine = take_item(&s);
    if (fine && s.whole && s.depth == 0) {
        copy_up_to_here(&s);
        return;
    }
    ASSERT(a->text.len >= text_len || buf_status(&a->text) != ST_OK);
    if (a->text.data != NULL)
        mem_wipe(a->text.data + text_len, a->text.cap - text_len);
    a->text.len = text_len; /* the handler's text is no JSON: hide all of it */
    a->n_holes = n_holes;
    a->more.len = more_len;
    put_plain(a, AUDIT_STRING, json);
}
