/* Formats HCL in one style: two spaces for each level, single spaces between words, the "=" of
 * neighbouring lines in one column, at most one empty line. Line ends, comments and heredocs stay
 * as they are. The formatted text is parsed again: if its meaning differs, formatting fails. */
#include "cli/policy_format.h"

#include "text/hcl.h"
#include "text/json.h"

struct line {
    struct bytes key;  /* the key of a line "key = value"; empty: another kind of line */
    struct bytes text; /* the value of a line "key = value", else the whole line */
    unsigned depth;
    bool verbatim; /* inside a comment or a heredoc: copied unchanged */
};

/* The constructs that are open at the start of a line. */
struct scanner {
    struct arena *arena;
    unsigned depth;
    bool in_comment;
    struct bytes heredoc; /* the closing marker of the open heredoc; empty: none is open */
    bool indented;        /* the closing marker may have blanks before it */
};

static struct bytes trim(struct bytes b)
{
    while (b.len != 0 && strchr(" \t\r", b.data[b.len - 1]) != NULL && b.data[b.len - 1] != '\0')
        b.len--;
    while (b.len != 0 && (*b.data == ' ' || *b.data == '\t'))
        b = bytes_from(b, 1);
    return b;
}

/* The length of the token at the front of `b`: a string, a comment, the start of a heredoc, or one
 * character. */
static size_t token_len(struct scanner *s, struct bytes b)
{
    ASSERT(b.len != 0);
    if (b.data[0] == '"') {
        size_t i = 1;
        while (i < b.len && b.data[i] != '"')
            i += b.data[i] == '\\' ? 2 : 1;
        return MIN(i + 1, b.len);
    }
    if (b.data[0] == '#' || bytes_has_prefix(b, BYTES("//")))
        return b.len;
    if (bytes_has_prefix(b, BYTES("/*"))) {
        const uint8_t *end = memmem(b.data + 2, b.len - 2, "*/", 2);
        s->in_comment = end == NULL;
        return end == NULL ? b.len : (size_t)(end - b.data) + 2;
    }
    if (bytes_has_prefix(b, BYTES("<<"))) {
        struct bytes tag = trim(bytes_from(b, 2));
        s->indented = tag.len != 0 && *tag.data == '-';
        s->heredoc = s->indented ? bytes_from(tag, 1) : tag;
        return b.len;
    }
    return 1;
}

/* Add the line to `out`, each run of blanks as one space. Counts the brackets that the line opens
 * and closes. */
static void squeeze(struct scanner *s, struct bytes b, struct buf *out)
{
    while (b.len != 0) {
        uint8_t c = *b.data;
        size_t n = token_len(s, b);
        ASSERT(n > 0 && n <= b.len);
        if (c == ' ' || c == '\t') {
            if (out->len != 0 && out->data[out->len - 1] != ' ')
                buf_add_u8(out, ' ');
        } else {
            buf_add(out, bytes_of(b.data, n));
        }
        if (n == 1 && (c == '{' || c == '[' || c == '('))
            s->depth++;
        else if (n == 1 && (c == '}' || c == ']' || c == ')') && s->depth > 0)
            s->depth--;
        b = bytes_from(b, n);
    }
}

/* Split a line "key = value"; a key is a word or a string. Other lines stay as they are. */
static void split_key(struct line *line)
{
    struct bytes b = line->text;
    size_t n = 0;
    if (b.len != 0 && *b.data == '"') {
        for (n = 1; n < b.len && b.data[n] != '"';)
            n += b.data[n] == '\\' ? 2 : 1;
        n = MIN(n + 1, b.len);
    } else {
        while (n < b.len && strchr(" =\"{}[]#/,", b.data[n]) == NULL)
            n++;
    }
    ASSERT(n <= b.len);
    struct bytes rest = trim(bytes_from(b, n));
    if (n == 0 || rest.len < 2 || rest.data[0] != '=')
        return;
    line->key = bytes_of(b.data, n);
    line->text = trim(bytes_from(rest, 1));
}

/* Whether a line closes the open heredoc, as the parser of the policy sees it (text/hcl.c). */
static bool closes_heredoc(const struct scanner *s, struct bytes line)
{
    if (line.len != 0 && line.data[line.len - 1] == '\r')
        line.len--;
    while (s->indented && line.len != 0 && (*line.data == ' ' || *line.data == '\t'))
        line = bytes_from(line, 1);
    return bytes_eq(line, s->heredoc);
}

static enum status scan_line(struct scanner *s, struct bytes raw, struct line *ret)
{
    CLEANUP(buf_done) struct buf b = {0};
    *ret = (struct line){.text = raw, .verbatim = s->in_comment || s->heredoc.len != 0};
    if (s->heredoc.len != 0) {
        if (closes_heredoc(s, raw))
            s->heredoc = (struct bytes){0};
        return ST_OK;
    }
    struct bytes text = trim(raw);
    if (s->in_comment) {
        const uint8_t *end = text.len != 0 ? memmem(text.data, text.len, "*/", 2) : NULL;
        s->in_comment = end == NULL;
        if (end == NULL)
            return ST_OK;
        /* The line is copied unchanged, but brackets behind the comment count. */
        squeeze(s, bytes_from(text, (size_t)(end - text.data) + 2), &b);
        return buf_status(&b);
    }
    ret->depth = s->depth;
    for (size_t i = 0; i < text.len && strchr("}]) ", text.data[i]) != NULL && ret->depth > 0; i++)
        if (text.data[i] != ' ')
            ret->depth--;
    unsigned before = s->depth;
    squeeze(s, text, &b);
    uint8_t *copy = arena_dup(s->arena, buf_bytes(&b));
    if (buf_status(&b) != ST_OK || copy == NULL)
        return ST_NOMEM;
    ASSERT(ret->depth <= before);
    ret->text = bytes_of(copy, b.len);
    if (s->depth == before && s->heredoc.len == 0 && !s->in_comment)
        split_key(ret);
    return ST_OK;
}

static void emit(struct buf *out, const struct line *line, size_t width)
{
    if (line->verbatim) {
        buf_add(out, line->text);
        buf_add_u8(out, '\n');
        return;
    }
    for (unsigned i = 0; i < line->depth && line->text.len != 0; i++)
        buf_add_str(out, "  ");
    if (line->key.len != 0) {
        buf_add(out, line->key);
        for (size_t n = line->key.len; n < width; n++)
            buf_add_u8(out, ' ');
        buf_add_str(out, " = ");
    }
    buf_add(out, line->text);
    buf_add_u8(out, '\n');
}

static bool is_empty(const struct line *line)
{
    return !line->verbatim && line->key.len == 0 && line->text.len == 0;
}

/* The number of lines "key = value" at the front of `lines` that have the same depth, at least 1.
 * *ret_width: the length of their longest key. */
static size_t run_of(const struct line *lines, size_t n, size_t *ret_width)
{
    size_t i = 0;
    *ret_width = 0;
    for (; i < n && lines[i].key.len != 0 && lines[i].depth == lines[0].depth; i++)
        *ret_width = MAX(*ret_width, lines[i].key.len);
    return MAX(i, (size_t)1);
}

static void emit_all(struct buf *out, const struct line *lines, size_t n)
{
    bool blank = true; /* the line before was empty: no empty line at the start, no two in a row */
    while (n > 0 && is_empty(&lines[n - 1]))
        n--;
    for (size_t i = 0; i < n;) {
        size_t width, run = run_of(lines + i, n - i, &width);
        for (size_t end = i + run; i < end; i++) {
            if (!is_empty(&lines[i]) || !blank)
                emit(out, &lines[i], width);
            blank = is_empty(&lines[i]);
        }
    }
}

static enum status format_lines(struct arena *arena, struct bytes text, struct buf *out)
{
    size_t n = 1;
    for (size_t i = 0; i < text.len; i++)
        n += text.data[i] == '\n';
    struct line *lines = arena_zalloc(arena, n * sizeof *lines);
    if (lines == NULL)
        return ST_NOMEM;
    struct scanner s = {.arena = arena};
    for (size_t i = 0; i < n; i++) {
        const uint8_t *end = text.len != 0 ? memchr(text.data, '\n', text.len) : NULL;
        size_t len = end != NULL ? (size_t)(end - text.data) : text.len;
        TRY(scan_line(&s, bytes_of(text.data, len), &lines[i]));
        text = bytes_from(text, end != NULL ? len + 1 : len);
    }
    ASSERT(text.len == 0);
    emit_all(out, lines, n);
    return buf_status(out);
}

/* The meaning of a text, as JSON: equal JSON means equal policies. */
static enum status meaning(struct arena *arena, struct bytes text, struct buf *out,
                           struct reason *reason)
{
    const struct text_value *tree = NULL;
    struct text_writer w = {.out = out, .plain = true};
    TRY(text_hcl_parse(arena, text, &tree, reason));
    text_put_value(&w, tree);
    return buf_status(out);
}

enum status policy_format(struct arena *arena, struct bytes text, struct buf *out,
                          struct reason *reason)
{
    CLEANUP(buf_done) struct buf before = {0};
    CLEANUP(buf_done) struct buf after = {0};
    struct bytes first = text;
    ASSERT(out->len == 0);
    TRY(meaning(arena, text, &before, reason));
    while (first.len != 0 && strchr(" \t\r\n", *first.data) != NULL)
        first = bytes_from(first, 1);
    if (first.len != 0 && *first.data == '{') { /* JSON stays as it is */
        buf_add(out, text);
        return buf_status(out);
    }
    TRY(format_lines(arena, text, out));
    enum status st = meaning(arena, buf_bytes(out), &after, NULL);
    if (st == ST_OK && bytes_eq(buf_bytes(&before), buf_bytes(&after)))
        return ST_OK;
    reason_set(reason, "the policy cannot be formatted without changing its meaning");
    return st == ST_NOMEM ? st : ST_UNSUPPORTED;
}
