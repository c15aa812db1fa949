/* Suggest a name for a mistyped word: the nearest, by the number of letters that differ. */
#include "cli/dialect/dialect.h"

enum { NAME_MAX_BYTES = 64 };

/* The number of changes that turn `a` into `b`: a letter is added, removed or replaced, or swapped
 * with its neighbour. Names that are too long count as different in every letter. */
static size_t distance(struct bytes a, struct bytes b)
{
    size_t rows[3][NAME_MAX_BYTES + 1];
    if (a.len > NAME_MAX_BYTES || b.len > NAME_MAX_BYTES)
        return MAX(a.len, b.len);
    for (size_t j = 0; j <= b.len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t changed = last[j - 1] + (a.data[i - 1] != b.data[j - 1] ? 1 : 0);
            now[j] = MIN(changed, MIN(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] && a.data[i - 2] == b.data[j - 1])
                now[j] = MIN(now[j], before[j - 2] + 1);
        }
    }
    ASSERT(rows[a.len % 3][b.len] <= MAX(a.len, b.len));
    return rows[a.len % 3][b.len];
}

/* The word that was typed, and the nearest name so far. */
struct nearest {
    struct bytes typed, name;
    size_t distance;
};

/* The length of the first word of `name` that `typed` does not have. */
static size_t other_word(struct bytes typed, struct bytes name)
{
    size_t start = 0, end;
    for (size_t i = 0; i < MIN(typed.len, name.len) && typed.data[i] == name.data[i]; i++)
        if (name.data[i] == ' ')
            start = i + 1;
    for (end = start; end < name.len && name.data[end] != ' ';)
        end++;
    return end - start;
}

/* Only a slip of the fingers counts, a letter in four: "disable" must not suggest "enable". */
static void consider(struct nearest *n, struct bytes typed, struct bytes name)
{
    size_t d = distance(typed, name);
    if (d <= MAX(other_word(typed, name) / 4, (size_t)1) && (n->name.len == 0 || d < n->distance)) {
        n->name = name;
        n->distance = d;
    }
}

static bool could_be_a_name(const char *word)
{
    size_t len = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-");
    return len != 0 && len <= NAME_MAX_BYTES && word[len] == '\0';
}

/* The first `n` words, joined by spaces; NULL when there are fewer words in front of a flag. */
static char *join(struct cli *cli, int argc, char **argv, int n)
{
    CLEANUP(buf_done) struct buf b = {0};
    for (int i = 0; i < n; i++) {
        if (i == argc || argv[i][0] == '-')
            return NULL;
        buf_add_format(&b, "%s%s", i != 0 ? " " : "", argv[i]);
    }
    return buf_status(&b) == ST_OK ? arena_str(&cli->arena, buf_bytes(&b)) : NULL;
}

/* The last word of a command's name. */
static const char *last_word(const char *name)
{
    const char *space = strrchr(name, ' ');
    return space != NULL ? space + 1 : name;
}

/* The command, or the group, whose name is nearest to as many words of argv; else the command whose
 * last word was typed alone, as in "unseal" for "operator unseal". Length 0: no name is near.
 *
 * known  how many words of argv name a group */
static struct bytes nearest_command(struct cli *cli, int argc, char **argv, int known)
{
    struct nearest near = {.distance = 0};
    ASSERT(known < argc);
    for (unsigned i = 0; cli_nth(cli, i) != NULL; i++) {
        const char *name = cli_nth(cli, i)->name;
        int words = 0;
        for (size_t end = 0; name[end] != '\0'; end++) {
            end += strcspn(name + end, " ");
            const char *typed = join(cli, argc, argv, ++words);
            if (typed != NULL && words > known)
                consider(&near, bytes_str(typed), bytes_of(name, end));
            if (name[end] == '\0')
                break;
        }
    }
    for (unsigned i = 0; near.name.len == 0 && cli_nth(cli, i) != NULL; i++)
        if (strcmp(last_word(cli_nth(cli, i)->name), argv[known]) == 0)
            near.name = bytes_str(cli_nth(cli, i)->name);
    return near.name;
}

void cli_unknown_command(struct cli *cli, int argc, char **argv, int known)
{
    ASSERT(known < argc);
    struct bytes near = nearest_command(cli, argc, argv, known);
    const char *typed = could_be_a_name(argv[known]) ? join(cli, argc, argv, known + 1) : NULL;
    const char *group = known > 0 ? join(cli, argc, argv, known) : NULL;
    char *hint = near.len == 0 ? arena_format(&cli->arena, "%s", "")
                               : arena_format(&cli->arena, "; did you mean \"%.*s\"?",
                                              (int)near.len, (const char *)near.data);
    if (hint == NULL)
        hint = "";
    if (typed != NULL)
        cli_complain("unknown command \"%s\"%s", typed, hint);
    else
        cli_complain("word %d is not a command%s", known + 1, hint);
    cli_say("\"holdfast help%s%s\" lists the commands.\n", group != NULL ? " " : "",
            group != NULL ? group : "");
}

static void consider_flags(struct nearest *n, const struct cli_flag *flags, unsigned n_flags)
{
    for (unsigned i = 0; i < n_flags; i++)
        consider(n, n->typed, bytes_str(flags[i].name));
}

void cli_unknown_flag(const struct cli *cli, const char *word, int place)
{
    const struct cli_command *c = cli->command;
    char name[NAME_MAX_BYTES + 1];
    const char *at = word + (word[1] == '-' ? 2 : 1);
    size_t len = strcspn(at, "=");
    struct nearest near = {.typed = bytes_of(at, len)};
    consider_flags(&near, c->flags, c->n_flags);
    if (!c->offline)
        consider_flags(&near, cli_dialect_of(c)->flags, cli_dialect_of(c)->n_flags);
    ASSERT(word[0] == '-');
    (void)snprintf(name, sizeof name, "%.*s", (int)MIN(len, sizeof name - 1),
                   at); /* a long name is cut off */
    char hint[NAME_MAX_BYTES + 32] = "";
    if (near.name.len != 0)
        (void)snprintf(hint, sizeof hint, "did you mean -%.*s? ", (int)near.name.len,
                       (const char *)near.name.data); /* the name of every flag fits */
    if (len < sizeof name && could_be_a_name(name))
        cli_complain("unknown flag -%s; %s\"holdfast %s -help\" lists the flags", name, hint,
                     c->name);
    else
        cli_complain("word %d behind \"%s\" is not a flag; %s\"holdfast %s -help\" lists the flags",
                     place, c->name, hint, c->name);
}
