/* Scripts for bash, zsh and fish that complete commands, flags and a few values, made from the
 * table of commands. Each script finds the longest known command or group, `at`, at the front of
 * the words typed so far, and offers the words that can follow `at`. */
#include "cli/commands.h"
#include "cli/dialect/dialect.h"

enum { GROUPS_MAX = 64, GROUP_BYTES = 64 };

/* Words that begin commands: "", "kv", "kv metadata". */
struct groups {
    char name[GROUPS_MAX][GROUP_BYTES];
    unsigned n;
};

static void add_group(struct groups *g, const char *name, size_t len)
{
    for (unsigned i = 0; i < g->n; i++)
        if (strlen(g->name[i]) == len && strncmp(g->name[i], name, len) == 0)
            return;
    ASSERT(g->n < GROUPS_MAX && len < GROUP_BYTES);
    memcpy(g->name[g->n], name, len);
    g->name[g->n++][len] = '\0';
}

static void find_groups(const struct cli *cli, struct groups *g)
{
    add_group(g, "", 0);
    for (unsigned i = 0; cli_nth(cli, i) != NULL; i++) {
        const char *name = cli_nth(cli, i)->name;
        for (const char *space = strchr(name, ' '); space != NULL; space = strchr(space + 1, ' '))
            add_group(g, name, (size_t)(space - name));
    }
}

/* The word behind the group in the name of the command number `at`. Returns the word's length, or
 * 0: the command is not in the group, or an earlier command has the same word. */
static size_t next_word(const struct cli *cli, unsigned at, const char *group, const char **ret)
{
    size_t len = strlen(group);
    const char *name = cli_nth(cli, at)->name;
    if (len != 0 && (strncmp(name, group, len) != 0 || name[len] != ' '))
        return 0;
    size_t from = len == 0 ? 0 : len + 1, n = strcspn(name + from, " ");
    ASSERT(from < strlen(name));
    for (unsigned i = 0; i < at; i++) {
        const char *other = cli_nth(cli, i)->name;
        if (strncmp(other, name, from + n) == 0 && (other[from + n] == ' ' || other[from + n] == 0))
            return 0;
    }
    *ret = name + from;
    return n;
}

static void print_words(const struct cli *cli, const char *group)
{
    const char *word = NULL;
    for (unsigned i = 0; cli_nth(cli, i) != NULL; i++) {
        size_t n = next_word(cli, i, group, &word);
        if (n != 0)
            printf("%.*s ", (int)n, word);
    }
    if (group[0] == '\0')
        printf("help");
}

/* Whether the argument is a choice of words, "bash|zsh|fish". */
static bool is_choice(const struct cli_command *c)
{
    return strchr(c->args, '|') != NULL &&
           strpbrk(c->args, " -[ABCDEFGHIJKLMNOPQRSTUVWXYZ") == NULL;
}

static void print_choice(const struct cli_command *c)
{
    if (!is_choice(c))
        return;
    for (const char *at = c->args; *at != '\0'; at++)
        (void)putchar(*at == '|' ? ' ' : *at); /* cli_main checks the stream at the end */
    printf(" ");
}

static void print_flag_list(const struct cli_flag *flags, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const char *end = flags[i].kind == CLI_BOOL ? "" : "=";
        const char *alias = cli_flag_alias(&flags[i]);
        printf("-%s%s ", flags[i].name, end);
        if (alias != NULL)
            printf("-%s%s ", alias, end);
    }
}

/* Print all groups and commands as quoted words: 'kv'|'kv get'|… */
static void print_known(const struct cli *cli, const struct groups *g, const char *between)
{
    for (unsigned i = 1; i < g->n; i++)
        printf("'%s'%s", g->name[i], between);
    for (unsigned i = 0; cli_nth(cli, i) != NULL; i++)
        printf("'%s'%s", cli_nth(cli, i)->name, cli_nth(cli, i + 1) != NULL ? between : "");
}

/* Print the branches of a shell's `case $at`, for bash and zsh. */
static void print_cases(const struct cli *cli, const struct groups *g)
{
    for (unsigned i = 0; i < g->n; i++) {
        printf("    '%s') out='", g->name[i]);
        print_words(cli, g->name[i]);
        printf("' ;;\n");
    }
    for (unsigned i = 0; cli_nth(cli, i) != NULL; i++) {
        const struct cli_command *c = cli_nth(cli, i);
        printf("    '%s') out='", c->name);
        print_choice(c);
        print_flag_list(c->flags, c->n_flags);
        if (!c->offline)
            print_flag_list(cli_dialect_of(c)->flags, cli_dialect_of(c)->n_flags);
        printf("' ;;\n");
    }
}

static void bash(const struct cli *cli, const struct groups *g)
{
    printf("_holdfast()\n{\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} flag= at= out= i\n"
           "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
           "        case \"${at:+$at }${COMP_WORDS[i]}\" in\n        ");
    print_known(cli, g, "|");
    printf(")\n            at=\"${at:+$at }${COMP_WORDS[i]}\" ;;\n        esac\n    done\n"
           "    flag=${COMP_WORDS[COMP_CWORD - 1]}\n"
           "    [ \"$flag\" = = ] && ((COMP_CWORD > 1)) && flag=${COMP_WORDS[COMP_CWORD - 2]}\n"
           "    [ \"$cur\" = = ] && cur=\n"
           "    case $flag in\n"
           "    -format|--format) COMPREPLY=($(compgen -W 'table json' -- \"$cur\")); return ;;\n"
           "    esac\n"
           "    case $at in\n");
    print_cases(cli, g);
    printf("    esac\n"
           "    COMPREPLY=($(compgen -W \"$out\" -- \"$cur\"))\n"
           "    [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace\n"
           "}\n"
           "complete -o bashdefault -o default -F _holdfast holdfast\n");
}

static void zsh(const struct cli *cli, const struct groups *g)
{
    printf("#compdef holdfast\n_holdfast()\n{\n"
           "    local at= out= i\n"
           "    for ((i = 2; i < CURRENT; i++)); do\n"
           "        case \"${at:+$at }${words[i]}\" in\n        (");
    print_known(cli, g, "|");
    printf(")\n            at=\"${at:+$at }${words[i]}\" ;;\n        esac\n    done\n"
           "    case $at in\n");
    print_cases(cli, g);
    printf("    esac\n"
           "    if [[ $PREFIX == -format=* ]]; then\n"
           "        compadd -- -format=table -format=json\n"
           "    elif [[ $PREFIX == -* || $out != -* ]]; then\n"
           "        compadd -- ${=out}\n"
           "    else\n"
           "        _files\n"
           "    fi\n"
           "}\n"
           "compdef _holdfast holdfast\n");
}

/* Print text that stands between single quotes, escaped for fish. */
static void print_quoted(const char *text)
{
    for (; *text != '\0'; text++)
        printf(*text == '\'' || *text == '\\' ? "\\%c" : "%c", *text);
}

static void fish_flags(const char *name, const struct cli_flag *flags, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const char *alias = cli_flag_alias(&flags[i]);
        printf("complete -c holdfast -n \"__holdfast_is '%s'\" -o %s%s%s%s -d '", name,
               flags[i].name,
               alias == NULL      ? ""
               : alias[1] == '\0' ? " -s "
                                  : " -o ",
               alias != NULL ? alias : "",
               flags[i].kind == CLI_BOOL              ? ""
               : strcmp(flags[i].name, "format") == 0 ? " -xa 'table json'"
               : flags[i].kind == CLI_FILE            ? " -r"
                                                      : " -x");
        print_quoted(flags[i].help);
        printf("'\n");
    }
}

static void fish(const struct cli *cli, const struct groups *g)
{
    printf("function __holdfast_is\n    set -l at\n"
           "    for word in (commandline -opc)[2..-1]\n"
           "        set -l next (string join -- ' ' $at $word)\n"
           "        contains -- $next ");
    print_known(cli, g, " ");
    printf("; and set at $next\n    end\n    test \"$at\" = \"$argv[1]\"\nend\n");
    for (unsigned i = 0; i < g->n; i++) {
        printf("complete -c holdfast -n \"__holdfast_is '%s'\" -f -a '", g->name[i]);
        print_words(cli, g->name[i]);
        printf("'\n");
    }
    for (unsigned i = 0; cli_nth(cli, i) != NULL; i++) {
        const struct cli_command *c = cli_nth(cli, i);
        fish_flags(c->name, c->flags, c->n_flags);
        if (!c->offline)
            fish_flags(c->name, cli_dialect_of(c)->flags, cli_dialect_of(c)->n_flags);
        if (is_choice(c)) {
            printf("complete -c holdfast -n \"__holdfast_is '%s'\" -f -a '", c->name);
            print_choice(c);
            printf("'\n");
        }
    }
}

int cmd_completion(struct cli *cli)
{
    struct groups groups = {.n = 0};
    ASSERT(cli->n_args == 1);
    find_groups(cli, &groups);
    ASSERT(groups.n > 1);
    if (strcmp(cli->args[0], "bash") == 0)
        bash(cli, &groups);
    else if (strcmp(cli->args[0], "zsh") == 0)
        zsh(cli, &groups);
    else if (strcmp(cli->args[0], "fish") == 0)
        fish(cli, &groups);
    else
        return cli_usage_error(cli, "the shell is bash, zsh or fish");
    return CLI_OK;
}
