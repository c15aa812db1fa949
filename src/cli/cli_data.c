/* Data from arguments, files, standard input and the terminal. A message names the place of a
 * mistake and repeats no text, which may be a secret. */
#include "base/mem.h"
#include "cli/client.h"

#include <errno.h>
#include <termios.h>
#include <unistd.h>

static bool read_stream(FILE *file, struct buf *b)
{
    size_t n;
    do {
        if (b->len > CLI_INPUT_MAX || buf_reserve(b, 65536) != ST_OK)
            return false;
        n = fread(b->data + b->len, 1, 65536, file);
        b->len += n;
        ASSERT(b->len <= b->cap);
    } while (n > 0);
    return ferror(file) == 0;
}

bool cli_slurp(struct cli *cli, const char *name, const char *what, struct bytes *ret_text)
{
    CLEANUP(buf_done) struct buf b = {0};
    bool input = strcmp(name, "-") == 0;
    if (input && cli->stdin_consumed) {
        cli_complain("standard input can be used once");
        return false;
    }
    FILE *file = input ? stdin : fopen(name, "rbe");
    if (file == NULL) {
        cli_complain("%s: the file cannot be read: %s", what, strerror(errno));
        return false;
    }
    if (!input)
        (void)setvbuf(file, NULL, _IONBF, 0); /* a stream's buffer would keep a secret */
    bool whole = read_stream(file, &b);
    if (input)
        cli->stdin_consumed = true;
    else
        (void)fclose(file); /* the file was only read */
    uint8_t *copy = whole ? arena_dup(&cli->arena, buf_bytes(&b)) : NULL;
    if (copy == NULL) {
        cli_complain("%s cannot be read, or is longer than %d MiB", input ? "standard input" : what,
                     CLI_INPUT_MAX >> 20);
        return false;
    }
    *ret_text = bytes_of(copy, b.len);
    return true;
}

static struct text_value *member(struct text_value *object, struct bytes name)
{
    for (struct text_value *v = object->first; v != NULL; v = v->next)
        if (bytes_eq(v->name, name))
            return v;
    return NULL;
}

/* Add a copy of `from` to the object. A second value of the same name makes a list of both. */
static bool object_add(struct cli *cli, struct text_value *object, struct bytes name,
                       const struct text_value *from)
{
    struct text_value *to = member(object, name);
    ASSERT(object->kind == TEXT_OBJECT);
    if (to == NULL) {
        to = text_value_new(&cli->arena, object, from->kind, name);
    } else {
        struct text_value *first = text_value_new(&cli->arena, NULL, to->kind, name);
        if (first == NULL)
            return false;
        if (!to->block) { /* `block` marks a list made here; a list of the input is one value */
            *first = *to;
            first->next = NULL;
            to->kind = TEXT_LIST;
            to->block = true;
            to->first = to->last = first;
            to->n = 1;
        }
        to = text_value_new(&cli->arena, to, from->kind, (struct bytes){0});
    }
    if (to == NULL)
        return false;
    to->truth = from->truth;
    to->text = from->text;
    to->first = from->first;
    to->last = from->last;
    to->n = from->n;
    return true;
}

/* Read the argument "@file" or "-", a JSON object, and add its members to `object`. */
static bool merge_json(struct cli *cli, const char *word, const char *what,
                       struct text_value *object)
{
    const struct text_value *v = NULL;
    struct bytes text;
    if (!cli_slurp(cli, word[0] == '@' ? word + 1 : word, what, &text))
        return false;
    if (text_json_parse(&cli->arena, text, &v, NULL) != ST_OK || v->kind != TEXT_OBJECT) {
        cli_complain("%s is not a JSON object", what);
        return false;
    }
    if (object->first == NULL) {
        *object = *v;
        return true;
    }
    TEXT_FOR (item, v)
        if (!object_add(cli, object, item->name, item))
            return false;
    return true;
}

bool cli_value(struct cli *cli, const char *value, const char *what, struct bytes *ret_text)
{
    if (value[0] == '@')
        return cli_slurp(cli, value + 1, what, ret_text);
    if (strcmp(value, "-") == 0)
        return cli_slurp(cli, value, what, ret_text);
    *ret_text = bytes_str(value[0] == '\\' && value[1] == '@' ? value + 1 : value);
    return true;
}

const struct text_value *cli_data(struct cli *cli, unsigned first)
{
    struct text_value *object = text_value_new(&cli->arena, NULL, TEXT_OBJECT, (struct bytes){0});
    ASSERT(first <= cli->n_args);
    for (unsigned i = first; object != NULL && i < cli->n_args; i++) {
        const char *word = cli->args[i], *eq = strchr(word, '=');
        char what[32];
        struct text_value value = {.kind = TEXT_STRING};
        (void)snprintf(what, sizeof what, "argument %u", i + 1); /* the text fits */
        if (word[0] == '@' || strcmp(word, "-") == 0) {
            if (!merge_json(cli, word, what, object))
                return NULL;
            continue;
        }
        if (eq == NULL || eq == word) {
            cli_complain("%s is not KEY=VALUE", what);
            return NULL;
        }
        if (!cli_value(cli, eq + 1, what, &value.text) ||
            !object_add(cli, object, bytes_of(word, (size_t)(eq - word)), &value))
            return NULL;
    }
    return object;
}

static void query_add_escaped(struct buf *b, struct bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                     c == '-' || c == '_' || c == '.' || c == '~';
        if (plain)
            buf_add_u8(b, c);
        else
            buf_add_format(b, "%%%02X", c);
    }
}

char *cli_escape(struct cli *cli, const char *text)
{
    CLEANUP(buf_done) struct buf b = {0};
    query_add_escaped(&b, bytes_str(text));
    return buf_status(&b) == ST_OK ? arena_str(&cli->arena, buf_bytes(&b)) : NULL;
}

char *cli_query(struct cli *cli, unsigned first)
{
    CLEANUP(buf_done) struct buf b = {0};
    const struct text_value *data = cli_data(cli, first);
    if (data == NULL)
        return NULL;
    TEXT_FOR (item, data) {
        const struct text_value *v = item->kind == TEXT_LIST ? item->first : item;
        for (; v != NULL; v = item->kind == TEXT_LIST ? v->next : NULL) {
            buf_add_u8(&b, b.len == 0 ? '?' : '&');
            query_add_escaped(&b, item->name);
            buf_add_u8(&b, '=');
            query_add_escaped(&b, v->text);
        }
    }
    return buf_status(&b) == ST_OK ? arena_str(&cli->arena, buf_bytes(&b)) : NULL;
}

/* Read a line of standard input, without its end. False: end of the input, or the line is too long.
 */
static bool read_line(char line[CLI_SECRET_MAX])
{
    if (fgets(line, CLI_SECRET_MAX, stdin) == NULL)
        return false;
    size_t len = strcspn(line, "\r\n");
    bool whole = line[len] != '\0' || len + 1 < CLI_SECRET_MAX;
    line[len] = '\0';
    return whole;
}

enum { CTRL_C = 3 };

/* Read a line of the terminal: one read() gives one line. False also for Ctrl-C. */
static bool read_terminal(char line[CLI_SECRET_MAX])
{
    ssize_t n;
    do
        n = read(STDIN_FILENO, line, CLI_SECRET_MAX - 1);
    while (n < 0 && errno == EINTR);
    if (n <= 0 || memchr(line, CTRL_C, (size_t)n) != NULL)
        return false;
    line[n] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    return true;
}

/* Read a line of the terminal without echo. Ctrl-C and other keys come as characters, not as
 * signals: a signal could end the program while the terminal has no echo. */
static bool read_hidden(const char *prompt, char line[CLI_SECRET_MAX])
{
    struct termios before, hidden;
    if (tcgetattr(STDIN_FILENO, &before) != 0)
        return false;
    hidden = before;
    hidden.c_lflag &= ~(tcflag_t)(ECHO | ISIG);
    hidden.c_lflag |= ICANON | ECHONL;
    hidden.c_cc[VEOL] = CTRL_C;
    if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) != 0)
        return false;
    (void)fputs(prompt, stderr); /* a failure loses the prompt only */
    (void)fflush(stderr);        /* a failure loses the prompt only */
    bool good = read_terminal(line);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before); /* a failure has no remedy */
    return good;
}

char *cli_secret(struct cli *cli, const char *prompt)
{
    char line[CLI_SECRET_MAX] = "", *copy = NULL;
    bool good = isatty(STDIN_FILENO) == 1 ? read_hidden(prompt, line) : read_line(line);
    size_t from = strspn(line, " \t"), len = strlen(line);
    while (len > from && (line[len - 1] == ' ' || line[len - 1] == '\t'))
        len--;
    if (good && len > from)
        copy = arena_str(&cli->arena, bytes_of(line + from, len - from));
    ASSERT(from <= len);
    mem_wipe(line, sizeof line);
    if (copy == NULL)
        cli_complain("nothing was given on standard input");
    return copy;
}

void cli_put_pairs(struct cli *cli, struct text_writer *w, const char *flag)
{
    unsigned at = 0;
    for (const char *pair; (pair = cli_each(cli, flag, &at)) != NULL;) {
        const char *eq = strchr(pair, '=');
        ASSERT(eq != NULL);
        text_key_bytes(w, bytes_of(pair, (size_t)(eq - pair)));
        text_put_str(w, eq + 1);
    }
}

void cli_put_split(struct text_writer *w, const char *text)
{
    while (*text != '\0') {
        size_t len = strcspn(text, ",");
        if (len != 0)
            text_put_bytes(w, bytes_of(text, len));
        text += len + (text[len] == ',' ? 1 : 0);
    }
}

void cli_put_list(struct cli *cli, struct text_writer *w, const char *flag)
{
    unsigned at = 0;
    text_open_list(w);
    for (const char *value; (value = cli_each(cli, flag, &at)) != NULL;)
        cli_put_split(w, value);
    text_close(w);
}

void cli_put_text(struct cli *cli, struct text_writer *w, const char *flag, const char *name)
{
    const char *value = cli_text(cli, flag);
    if (value != NULL)
        text_member_str(w, name, value);
}

char *cli_trim_path(struct cli *cli, const char *path)
{
    path += strspn(path, "/");
    size_t len = strlen(path);
    while (len > 0 && path[len - 1] == '/')
        len--;
    return arena_str(&cli->arena, bytes_of(path, len));
}
