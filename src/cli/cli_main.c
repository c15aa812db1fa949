/* Finds the command that the words of the command line name, parses its flags and runs it. */
#include "cli/commands.h"
#include "cli/dialect/dialect.h"

const struct cli_command *cli_nth(const struct cli *cli, unsigned i)
{
    if (i < cli->n_more)
        return &cli->more[i];
    i -= cli->n_more;
    for (unsigned g = 0; g < cli_n_groups; i -= cli_groups[g++]->n)
        if (i < cli_groups[g]->n)
            return &cli_groups[g]->rows[i];
    return NULL;
}

/* The number of words in `name` if argv begins with these words, else 0. */
static int words_of(const char *name, int argc, char **argv)
{
    for (int n = 0; n < argc; n++) {
        size_t len = strcspn(name, " ");
        if (strlen(argv[n]) != len || strncmp(argv[n], name, len) != 0)
            return 0;
        if (name[len] == '\0')
            return n + 1;
        name += len + 1;
    }
    return 0;
}

const struct cli_command *cli_find(const struct cli *cli, int argc, char **argv, int *ret_words)
{
    const struct cli_command *found = NULL;
    *ret_words = 0;
    for (unsigned i = 0; cli_nth(cli, i) != NULL; i++) {
        int words = words_of(cli_nth(cli, i)->name, argc, argv);
        if (words > *ret_words) {
            found = cli_nth(cli, i);
            *ret_words = words;
        }
    }
    ASSERT(*ret_words <= argc);
    return found;
}

/* Words that name no command. A group such as "kv metadata" is explained, any other word refused.
 */
static int explain_words(struct cli *cli, int argc, char **argv, bool asked)
{
    char *group = NULL;
    int known = 0;
    for (; known < argc && argv[known][0] != '-'; known++) {
        char *longer = known == 0 ? arena_format(&cli->arena, "%s", argv[0])
                                  : arena_format(&cli->arena, "%s %s", group, argv[known]);
        if (longer == NULL || !cli_help_group(cli, longer, NULL))
            break;
        group = longer;
    }
    ASSERT(known <= argc);
    if (known < argc && argv[known][0] != '-') {
        cli_unknown_command(cli, argc, argv, known);
        return CLI_LOCAL_ERROR;
    }
    (void)cli_help_group(cli, group != NULL ? group : "", asked ? stdout : stderr);
    return asked ? CLI_OK : CLI_LOCAL_ERROR;
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "-help") == 0 ||
            strcmp(argv[i], "--help") == 0)
            return true;
    return false;
}

static int run_words(struct cli *cli, int argc, char **argv)
{
    int words;
    bool help = argc > 0 && strcmp(argv[0], "help") == 0;
    if (argc > 0 && (strcmp(argv[0], "-version") == 0 || strcmp(argv[0], "--version") == 0))
        return cmd_version(cli);
    argc -= help ? 1 : 0;
    argv += help ? 1 : 0;
    cli->command = cli_find(cli, argc, argv, &words);
    if (cli->command == NULL)
        return explain_words(cli, argc, argv, help || wants_help(argc, argv));
    if (!help && !cli_parse(cli, argc - words, argv + words, &help))
        return CLI_LOCAL_ERROR;
    if (help) {
        cli_help(cli, stdout);
        return CLI_OK;
    }
    if (cli->token == NULL && !cli->command->offline && cli_dialect_of(cli->command)->kept_token)
        cli->token = cli_token_load(cli);
    ASSERT(cli->n_args >= cli->command->args_min);
    ASSERT(cli->n_args <= cli->command->args_max);
    int code = cli->command->run(cli);
    if (code == CLI_OK) /* a command that failed may have ended before it read its flags */
        cli_warn_unread(cli);
    return code;
}

int cli_main(const struct cli_command *more, unsigned n_more, int argc, char **argv)
{
    static struct cli cli; /* static: too large for the stack */
    cli = (struct cli){.more = more, .n_more = n_more};
    int code = run_words(&cli, argc, argv);
    arena_done(&cli.arena);
    bool lost = fflush(stdout) != 0;
    if ((lost || ferror(stdout) != 0) && code == CLI_OK) {
        cli_complain("standard output cannot be written");
        code = CLI_LOCAL_ERROR;
    }
    return code;
}
