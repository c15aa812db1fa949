#include "worker/worker_vars.h"

#include "client/client.h"

#include <stdio.h>

enum { BRACKETS_MAX = 64, KEY_MAX = 256 };

/* Names */

static bool is_letter(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(struct bytes key, bool dashes)
{
    if (key.len == 0 || key.len > KEY_MAX || !is_letter(key.data[0]))
        return false;
    for (size_t i = 1; i < key.len; i++)
        if (!is_letter(key.data[i]) && !is_digit(key.data[i]) && !(dashes && key.data[i] == '-'))
            return false;
    return true;
}

/* A key for a message: no control characters, cut. */
static const char *shown(struct bytes key, char out[64])
{
    size_t n = MIN(key.len, (size_t)63);
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(key.data[i] < ' ' || key.data[i] > '~' ? '?' : key.data[i]);
    out[n] = '\0';
    return out;
}

/* Expressions (HCL 2, native syntax) */

struct scan {
    struct bytes text;
    size_t at;
    char open[BRACKETS_MAX]; /* the closing brackets that are due; '"' stands for a template's } */
    unsigned depth;
};

static uint8_t peek(const struct scan *s, size_t ahead)
{
    return s->at + ahead < s->text.len ? s->text.data[s->at + ahead] : 0;
}

static const char *push(struct scan *s, char close)
{
    if (s->depth == BRACKETS_MAX)
        return "brackets are nested too deep";
    s->open[s->depth++] = close;
    return NULL;
}

/* Text between quotes, up to the closing quote or to "${" or "%{", which opens an expression. */
static const char *scan_string(struct scan *s)
{
    while (s->at < s->text.len) {
        uint8_t c = s->text.data[s->at++];
        if (c == '"')
            return NULL;
        if (c == '\n')
            return "a line ends inside a string";
        if (c == '\\')
            s->at++;
        if ((c == '$' || c == '%') && peek(s, 0) == c && peek(s, 1) == '{')
            s->at += 2; /* an escape */
        else if ((c == '$' || c == '%') && peek(s, 0) == '{') {
            s->at++;
            return push(s, '"');
        }
    }
    return "a string does not end";
}

/* Behind "<<": the text up to the line that holds the marker alone. */
static const char *scan_heredoc(struct scan *s)
{
    s->at += peek(s, 0) == '-';
    size_t from = s->at;
    while (is_letter(peek(s, 0)) || is_digit(peek(s, 0)))
        s->at++;
    struct bytes marker = bytes_of(s->text.data + from, s->at - from);
    if (marker.len == 0 || peek(s, 0) != '\n')
        return "a here document does not begin as one";
    while (s->at < s->text.len) {
        size_t line = ++s->at;
        while (s->at < s->text.len && s->text.data[s->at] != '\n')
            s->at++;
        while (line < s->at && (s->text.data[line] == ' ' || s->text.data[line] == '\t'))
            line++;
        if (bytes_eq(bytes_of(s->text.data + line, s->at - line), marker))
            return NULL;
    }
    return "a here document does not end";
}

static const char *scan_close(struct scan *s, char c)
{
    if (s->depth == 0)
        return "a bracket closes that was not opened";
    char due = s->open[--s->depth];
    if (due == '"')
        return c == '}' ? scan_string(s) : "brackets do not match";
    return due == c ? NULL : "brackets do not match";
}

static const char *scan_comment(struct scan *s)
{
    const uint8_t *end = NULL;
    if (peek(s, 0) == '*')
        end = memmem(s->text.data + s->at, s->text.len - s->at, "*/", 2);
    if (end == NULL)
        return "comments are refused";
    s->at = (size_t)(end + 2 - s->text.data);
    return NULL;
}

static const char *scan_one(struct scan *s)
{
    char c = (char)s->text.data[s->at++];
    switch (c) {
    case '"': return scan_string(s);
    case '{': return push(s, '}');
    case '[': return push(s, ']');
    case '(': return push(s, ')');
    case '}':
    case ']':
    case ')': return scan_close(s, c);
    case '\0': return "a zero character";
    case '\n': return s->depth == 0 ? "a line ends outside of brackets" : NULL;
    case '=':
        if (s->depth != 0 || peek(s, 0) == '=' || (s->at > 1 && s->text.data[s->at - 2] == '=') ||
            (s->at > 1 && strchr("!<>", s->text.data[s->at - 2]) != NULL))
            return NULL;
        return "an assignment outside of brackets";
    case '#': return s->depth == 0 ? "comments are refused" : NULL;
    case '/': return peek(s, 0) == '/' || peek(s, 0) == '*' ? scan_comment(s) : NULL;
    case '<':
        if (peek(s, 0) != '<')
            return NULL;
        s->at++;
        return scan_heredoc(s);
    default: return NULL;
    }
}

enum status worker_hcl_check(struct bytes value, struct reason *why)
{
    struct scan s = {.text = value};
    const char *wrong = NULL;
    while (s.text.len != 0 && s.text.data[s.text.len - 1] <= ' ')
        s.text.len--;
    while (s.at < s.text.len && s.text.data[s.at] <= ' ' && s.text.data[s.at] != 0)
        s.at++;
    if (s.at == s.text.len)
        wrong = "it is empty";
    while (s.at < s.text.len && wrong == NULL)
        wrong = scan_one(&s);
    if (wrong == NULL && s.depth != 0)
        wrong = "a bracket is not closed";
    if (wrong == NULL)
        return ST_OK;
    reason_set(why, "%s", wrong);
    return ST_INVALID;
}

enum status worker_hcl_quote(struct bytes text, struct buf *out)
{
    buf_add_u8(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i], next = i + 1 < text.len ? text.data[i + 1] : 0;
        if (c == 0)
            return ST_INVALID;
        if (c == '"' || c == '\\')
            buf_add_u8(out, '\\');
        if (c < ' ' || c == 0x7f || ((c == '$' || c == '%') && next == '{'))
            buf_add_format(out, "\\u%04x", (unsigned)c);
        else
            buf_add_u8(out, c);
    }
    buf_add_u8(out, '"');
    return buf_status(out);
}

/* The file */

static bool is_category(const struct text_value *variable, const char *category)
{
    return strcmp(member_text(variable, "category"), category) == 0;
}

static struct bytes member_bytes(const struct text_value *of, const char *name)
{
    const struct text_value *v = text_get(of, name);
    return v != NULL && v->kind == TEXT_STRING ? v->text : (struct bytes){0};
}

/* Whether a later variable has the same key. */
static bool is_overruled(const struct text_value *variable)
{
    struct bytes key = member_bytes(variable, "key");
    for (const struct text_value *v = variable->next; v != NULL; v = v->next)
        if (is_category(v, "terraform") && bytes_eq(member_bytes(v, "key"), key))
            return true;
    return false;
}

static enum status write_variable(const struct text_value *variable, struct buf *out,
                                  struct reason *why)
{
    struct bytes key = member_bytes(variable, "key"), value = member_bytes(variable, "value");
    struct reason wrong = {{0}};
    char name[64];
    if (!is_name(key, true)) {
        reason_set(why, "the variable \"%s\": its key is no name of a variable", shown(key, name));
        return ST_INVALID;
    }
    buf_add(out, key);
    buf_add_str(out, " = ");
    enum status st;
    if (member_bool(variable, "hcl")) {
        st = worker_hcl_check(value, &wrong);
        buf_add(out, value);
    } else {
        st = worker_hcl_quote(value, out);
        reason_set(&wrong, "it holds a zero character");
    }
    if (st == ST_INVALID)
        reason_set(why, "the variable \"%s\": its value is no HCL expression: %s", shown(key, name),
                   wrong.text);
    TRY(st);
    buf_add_u8(out, '\n');
    return buf_status(out);
}

enum status worker_variables_file(const struct text_value *variables, struct buf *out,
                                  struct reason *why)
{
    if (variables == NULL || variables->kind != TEXT_LIST)
        return ST_OK;
    if (variables->n > WORKER_VARIABLES_MAX) {
        reason_set(why, "more than %d variables", WORKER_VARIABLES_MAX);
        return ST_TOO_BIG;
    }
    TEXT_FOR (variable, variables)
        if (is_category(variable, "terraform") && !is_overruled(variable))
            TRY(write_variable(variable, out, why));
    return buf_status(out);
}

/* The environment */

enum status worker_env_init(struct worker_env *env, struct arena *arena)
{
    *env = (struct worker_env){.arena = arena, .max = WORKER_VARIABLES_MAX};
    env->items = arena_zalloc(arena, (env->max + 1) * sizeof *env->items);
    return env->items != NULL ? ST_OK : ST_NOMEM;
}

enum status worker_env_set(struct worker_env *env, const char *name, const char *value)
{
    size_t len = strlen(name), at = 0;
    char *text = arena_format(env->arena, "%s=%s", name, value);
    if (text == NULL)
        return ST_NOMEM;
    while (at < env->n && !(strncmp(env->items[at], name, len) == 0 && env->items[at][len] == '='))
        at++;
    if (at == env->max)
        return ST_TOO_BIG;
    env->n = MAX(env->n, at + 1);
    env->items[at] = text;
    return ST_OK;
}

static bool is_ours(const char *name)
{
    static const char *const ours[] = {"TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG", "TF_DATA_DIR",
                                       "TF_INPUT",           "TF_IN_AUTOMATION", "TF_WORKSPACE",
                                       "CHECKPOINT_DISABLE"};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (strcmp(name, ours[i]) == 0)
            return true;
    return false;
}

enum status worker_env_variables(struct worker_env *env, const struct text_value *variables,
                                 struct reason *why)
{
    if (variables == NULL || variables->kind != TEXT_LIST)
        return ST_OK;
    TEXT_FOR (variable, variables) {
        struct bytes key = member_bytes(variable, "key"), value = member_bytes(variable, "value");
        char name[64];
        if (!is_category(variable, "env"))
            continue;
        if (!is_name(key, false) || memchr(value.data, 0, value.len) != NULL) {
            reason_set(why, "the environment variable \"%s\" is malformed", shown(key, name));
            return ST_INVALID;
        }
        const char *full = arena_str(env->arena, key), *text = arena_str(env->arena, value);
        if (full == NULL || text == NULL)
            return ST_NOMEM;
        if (!is_ours(full))
            TRY(worker_env_set(env, full, text));
    }
    return ST_OK;
}
