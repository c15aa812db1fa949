#include "text/regex.h"

#include "base/buf.h"
#include "base/mem.h"
#include "text/regex_re2.h"
#include "text/utf8.h"

#include <assert.h>

/* Go reads no further digit of a number from here on: the variable is then a name. */
#define NUMBER_MOST UINT32_C(100000000)
#define NO_NUMBER UINT32_MAX

static_assert(REGEX_RE2_SPANS_MAX == REGEX_GROUPS_MAX + 1, "RE2 has room for every group");

struct regex {
    struct regex_re2 *re2;
    unsigned groups;
    bool nests, repeats;
};

/* A pattern on its way to RE2. */
struct scan {
    struct bytes pattern;
    size_t at;
    struct buf out;                   /* the pattern in RE2's spelling */
    size_t added;                     /* characters that the pattern as written does not have */
    bool captures[REGEX_DEPTH_MAX];   /* the open groups */
    unsigned before[REGEX_DEPTH_MAX]; /* capture groups before each open group */
    unsigned depth, inside, groups;   /* `inside`: open capture groups */
    struct bytes names[REGEX_GROUPS_MAX];
    unsigned n_names;
    bool nests, repeats;
    struct reason *why;
};

static enum status refuse(const struct scan *s, size_t at, const char *text)
{
    reason_set(s->why, "%s, at byte %zu", text, at + 1);
    return ST_INVALID;
}

static bool is_word(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool looks_at(const struct scan *s, const char *text)
{
    return bytes_has_prefix(bytes_from(s->pattern, s->at), bytes_str(text));
}

/* Copy the next `n` bytes, or what is left. */
static void copy(struct scan *s, size_t n)
{
    ASSERT(s->at <= s->pattern.len);
    n = MIN(n, s->pattern.len - s->at);
    buf_add(&s->out, bytes_of(s->pattern.data + s->at, n));
    s->at += n;
}

static enum status scan_escape(struct scan *s)
{
    ASSERT(looks_at(s, "\\"));
    if (looks_at(s, "\\C"))
        return refuse(s, s->at, "\\C is not supported");
    if (!looks_at(s, "\\Q")) {
        copy(s, 2);
        return ST_OK;
    }
    for (copy(s, 2); s->at < s->pattern.len && !looks_at(s, "\\E");)
        copy(s, 1);
    copy(s, 2);
    return ST_OK;
}

/* A class in brackets: "]" at the start and "[:name:]" do not end it. */
static void scan_class(struct scan *s)
{
    ASSERT(looks_at(s, "["));
    copy(s, looks_at(s, "[^") ? 2 : 1);
    if (looks_at(s, "]"))
        copy(s, 1);
    while (s->at < s->pattern.len && !looks_at(s, "]")) {
        if (!looks_at(s, "[:")) {
            copy(s, looks_at(s, "\\") ? 2 : 1);
            continue;
        }
        copy(s, 2);
        while (s->at < s->pattern.len && !looks_at(s, ":]") && !looks_at(s, "]"))
            copy(s, 1);
        copy(s, looks_at(s, ":]") ? 2 : 0);
    }
    copy(s, 1);
}

static enum status open_group(struct scan *s, bool captures)
{
    if (s->depth == REGEX_DEPTH_MAX)
        return refuse(s, s->at, "groups are nested too deeply");
    s->before[s->depth] = s->groups;
    if (captures && ++s->groups > REGEX_GROUPS_MAX)
        return refuse(s, s->at, "there are too many groups");
    s->nests = s->nests || (captures && s->inside != 0);
    s->inside += captures;
    s->captures[s->depth++] = captures;
    return ST_OK;
}

/* Whether what follows lets the group before it match more than once. RE2 reads "{" without a
 * number as a character. */
static bool may_repeat(const struct scan *s)
{
    bool comma = false, number = false;
    uint32_t most = 0;
    if (looks_at(s, "*") || looks_at(s, "+"))
        return true;
    if (!looks_at(s, "{"))
        return false;
    for (size_t at = s->at + 1; at < s->pattern.len; at++) {
        uint8_t c = s->pattern.data[at];
        if (c == '}')
            return (comma && !number) || most > 1;
        if (c == ',' && !comma && number) {
            comma = true;
            number = false;
            most = 0;
        } else if (c >= '0' && c <= '9') {
            number = true;
            most = MIN(most * 10 + (c - '0'), UINT32_C(10000));
        } else {
            return false;
        }
    }
    return false;
}

static void close_group(struct scan *s)
{
    bool captures = false;
    if (s->depth != 0) { /* else RE2 refuses the pattern */
        s->inside -= s->captures[--s->depth];
        captures = s->groups > s->before[s->depth];
    }
    copy(s, 1);
    s->repeats = s->repeats || (captures && may_repeat(s));
}

static enum status scan_name(struct scan *s, size_t start)
{
    size_t at = s->at;
    while (at < s->pattern.len && is_word(s->pattern.data[at]))
        at++;
    if (at == s->at || at == s->pattern.len || s->pattern.data[at] != '>')
        return refuse(s, start, "a name of a group has letters, digits and '_' only");
    struct bytes name = bytes_of(s->pattern.data + s->at, at - s->at);
    for (unsigned i = 0; i < s->n_names; i++)
        if (bytes_eq(s->names[i], name))
            return refuse(s, start, "two groups have the same name");
    ASSERT(s->n_names < REGEX_GROUPS_MAX); /* open_group counts them */
    s->names[s->n_names++] = name;
    copy(s, at + 1 - s->at);
    return ST_OK;
}

/* "(" and what says which kind of group begins. "(?i)" sets flags and begins none. */
static enum status scan_group(struct scan *s)
{
    size_t start = s->at;
    ASSERT(looks_at(s, "("));
    if (!looks_at(s, "(?")) {
        TRY(open_group(s, true));
        copy(s, 1);
        return ST_OK;
    }
    if (looks_at(s, "(?<=") || looks_at(s, "(?<!") || looks_at(s, "(?=") || looks_at(s, "(?!"))
        return refuse(s, start, "look-around is not supported");
    if (looks_at(s, "(?P<") || looks_at(s, "(?<")) {
        TRY(open_group(s, true));
        s->at += looks_at(s, "(?P<") ? 4 : 3;
        s->added += looks_at(s, "(?P<") ? 0 : 1;
        buf_add(&s->out, BYTES("(?P<"));
        return scan_name(s, start);
    }
    for (copy(s, 2); s->at < s->pattern.len && !looks_at(s, ":") && !looks_at(s, ")");)
        copy(s, 1);
    if (looks_at(s, ":"))
        TRY(open_group(s, false));
    copy(s, 1);
    return ST_OK;
}

static enum status scan(struct scan *s)
{
    ASSERT(s->at == 0 && s->depth == 0);
    while (s->at < s->pattern.len) {
        switch (s->pattern.data[s->at]) {
        case '\\': TRY(scan_escape(s)); break;
        case '[': scan_class(s); break;
        case '(': TRY(scan_group(s)); break;
        case ')': close_group(s); break;
        default: copy(s, 1);
        }
    }
    return buf_status(&s->out);
}

/* The place that RE2 means: the first place of the part that it names. */
static enum status refuse_by(const struct scan *s, const struct regex_re2_fault *fault)
{
    struct bytes text = buf_bytes(&s->out), part = bytes_str(fault->part);
    const uint8_t *found = part.len != 0 && text.len >= part.len
                               ? memmem(text.data, text.len, part.data, part.len)
                               : NULL;
    if (found == NULL || s->added != 0)
        reason_set(s->why, "%s", fault->text);
    else
        reason_set(s->why, "%s, at byte %zu", fault->text, (size_t)(found - text.data) + 1);
    return ST_INVALID;
}

static enum status compile(struct scan *s, struct regex *regex)
{
    struct regex_re2_fault fault;
    ASSERT(regex->re2 == NULL);
    TRY(scan(s));
    switch (regex_re2_new((const char *)s->out.data, s->out.len, REGEX_MEMORY_MAX, &regex->re2,
                          &fault)) {
    case REGEX_RE2_NO: return refuse_by(s, &fault);
    case REGEX_RE2_NOMEM: return ST_NOMEM;
    case REGEX_RE2_OK: break;
    }
    regex->groups = regex_re2_groups(regex->re2);
    regex->nests = s->nests;
    regex->repeats = s->repeats;
    if (regex->groups != s->groups) /* our reading of the pattern differs from RE2's */
        return refuse(s, 0, "the groups of the pattern are not clear");
    return ST_OK;
}

enum status regex_new(struct bytes pattern, struct regex **ret_regex, struct reason *why)
{
    struct scan s = {.pattern = pattern, .why = why};
    ASSERT(why != NULL && (pattern.data != NULL || pattern.len == 0));
    if (pattern.len > REGEX_PATTERN_MAX) {
        reason_set(why, "longer than %d bytes", REGEX_PATTERN_MAX);
        return ST_INVALID;
    }
    if (!text_utf8_valid(pattern))
        return refuse(&s, 0, "not valid UTF-8");
    struct regex *regex = mem_zalloc(sizeof *regex);
    if (regex == NULL)
        return ST_NOMEM;
    enum status st = compile(&s, regex);
    buf_done(&s.out);
    if (st != ST_OK) {
        regex_free(regex);
        return st;
    }
    *ret_regex = regex;
    return ST_OK;
}

void regex_free(struct regex *regex)
{
    if (regex == NULL)
        return;
    regex_re2_free(regex->re2);
    mem_free(regex);
}

unsigned regex_size(const struct regex *regex)
{
    return regex_re2_size(regex->re2);
}

unsigned regex_groups(const struct regex *regex)
{
    return regex->groups;
}

bool regex_nests(const struct regex *regex)
{
    return regex->nests;
}

bool regex_repeats(const struct regex *regex)
{
    return regex->repeats;
}

unsigned regex_group_of(const struct regex *regex, struct bytes name)
{
    return regex_re2_group_of(regex->re2, (const char *)name.data, name.len);
}

enum status regex_match(const struct regex *regex, struct bytes text, struct regex_span *ret_spans)
{
    struct regex_re2_span spans[REGEX_RE2_SPANS_MAX];
    const char *data = text.len != 0 ? (const char *)text.data : "";
    ASSERT(regex->groups <= REGEX_GROUPS_MAX);
    enum regex_re2_result result =
        regex_re2_match(regex->re2, data, text.len, spans, regex->groups + 1);
    if (result != REGEX_RE2_OK)
        return result == REGEX_RE2_NO ? ST_NOT_FOUND : ST_NOMEM;
    for (unsigned i = 0; i <= regex->groups; i++)
        ret_spans[i] = (struct regex_span){(const uint8_t *)spans[i].data, spans[i].len};
    return ST_OK;
}

enum status regex_sample(const struct regex *regex, char *text, size_t room,
                         struct bytes *ret_sample)
{
    struct regex_span spans[REGEX_RE2_SPANS_MAX];
    struct bytes sample = bytes_of(text, regex_re2_least(regex->re2, text, room));
    ASSERT(sample.len <= room);
    if (sample.len == 0 || !text_utf8_valid(sample))
        return ST_NOT_FOUND;
    TRY(regex_match(regex, sample, spans));
    *ret_sample = sample;
    return ST_OK;
}

/* A variable at the start of a text, behind its '$'. */
struct variable {
    struct bytes name;
    uint32_t number; /* NO_NUMBER: the name is no number */
    size_t len;      /* of the variable; 0: there is none */
};

/* The length of the longest run of letters, digits and '_' of Unicode. */
static size_t name_len(struct bytes text)
{
    size_t at = 0;
    ASSERT(text.data != NULL || text.len == 0);
    while (at < text.len) {
        size_t next = at;
        uint32_t rune;
        if (is_word(text.data[at])) {
            at++;
            continue;
        }
        if (text.data[at] < 0x80 || text_utf8_next(text, &next, &rune) != ST_OK ||
            !regex_re2_is_word((const char *)text.data + at, next - at))
            break;
        at = next;
    }
    return at;
}

static uint32_t number_of(struct bytes name)
{
    uint32_t number = 0;
    ASSERT(name.len != 0);
    if (name.data[0] == '0' && name.len > 1)
        return NO_NUMBER;
    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] < '0' || name.data[i] > '9' || number >= NUMBER_MOST)
            return NO_NUMBER;
        number = number * 10 + (name.data[i] - (uint32_t)'0');
    }
    return number;
}

static struct variable variable_at(struct bytes text)
{
    struct variable v = {.len = 0};
    size_t brace = text.len != 0 && text.data[0] == '{';
    struct bytes rest = bytes_from(text, brace);
    size_t len = name_len(rest);
    if (len == 0 || (brace && (len == rest.len || rest.data[len] != '}')))
        return v;
    v.name = bytes_of(rest.data, len);
    v.number = number_of(v.name);
    v.len = brace + len + brace;
    return v;
}

/* The group of a variable; groups + 1: there is none. */
static unsigned group_of(const struct regex *regex, const struct variable *v)
{
    if (v->number != NO_NUMBER)
        return MIN(v->number, regex->groups + 1);
    unsigned group = regex_group_of(regex, v->name);
    return group != 0 ? group : regex->groups + 1;
}

/* Split the text before the next '$' off *format. False: there is no '$'. */
static bool next_dollar(struct bytes *format, struct bytes *ret_before)
{
    const uint8_t *dollar = format->len != 0 ? memchr(format->data, '$', format->len) : NULL;
    size_t len = dollar != NULL ? (size_t)(dollar - format->data) : format->len;
    *ret_before = bytes_of(format->data, len);
    *format = bytes_from(*format, dollar != NULL ? len + 1 : len);
    return dollar != NULL;
}

void regex_expand(const struct regex *regex, struct bytes format, const struct regex_span *spans,
                  struct buf *out)
{
    struct bytes before;
    ASSERT(spans[0].data != NULL || spans[0].len == 0);
    while (next_dollar(&format, &before)) {
        buf_add(out, before);
        bool is_double = format.len != 0 && format.data[0] == '$';
        const struct variable v = variable_at(format);
        if (is_double || v.len == 0)
            buf_add_u8(out, '$');
        format = bytes_from(format, is_double ? 1 : v.len);
        unsigned group = v.len != 0 ? group_of(regex, &v) : regex->groups + 1;
        if (group <= regex->groups && spans[group].data != NULL)
            buf_add(out, bytes_of(spans[group].data, spans[group].len));
    }
    buf_add(out, before);
}

struct bytes regex_unknown(const struct regex *regex, struct bytes format)
{
    struct bytes before;
    while (next_dollar(&format, &before)) {
        bool is_double = format.len != 0 && format.data[0] == '$';
        const struct variable v = variable_at(format);
        if (v.len != 0 && group_of(regex, &v) > regex->groups)
            return v.name;
        format = bytes_from(format, is_double ? 1 : v.len);
    }
    return (struct bytes){0};
}

bool regex_uses(const struct regex *regex, struct bytes format, unsigned group)
{
    struct bytes before;
    while (next_dollar(&format, &before)) {
        bool is_double = format.len != 0 && format.data[0] == '$';
        const struct variable v = variable_at(format);
        if (v.len != 0 && (group_of(regex, &v) == group || group_of(regex, &v) == 0))
            return true;
        format = bytes_from(format, is_double ? 1 : v.len);
    }
    return false;
}

bool regex_reorders(const struct regex *regex, struct bytes format)
{
    struct bytes before;
    unsigned last = 0;
    bool whole = false;
    while (next_dollar(&format, &before)) {
        bool is_double = format.len != 0 && format.data[0] == '$';
        const struct variable v = variable_at(format);
        unsigned group = v.len != 0 ? group_of(regex, &v) : regex->groups + 1;
        if (group <= regex->groups) {
            if (whole || (last != 0 && group <= last))
                return true;
            whole = group == 0;
            last = group;
        }
        format = bytes_from(format, is_double ? 1 : v.len);
    }
    return false;
}
