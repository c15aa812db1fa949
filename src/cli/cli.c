/* From words to a command, its flags, and its function. */
#include "cli/client.h"
#include "cli/commands.h"

const struct cli_command *cli_nth(const struct cli *cli, unsigned i)
{
    if (i < cli->n_more)
        return &cli->more[i];
    i -= cli->n_more;
    return i < cli_n_commands ? &cli_commands[i] : NULL;
}

/* How many words `name` takes at the front of the words, 0 when it is not there. */
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
    return found;
}

/* "kv", "kv metadata" and the like: what can follow. Otherwise what there is at all. */
static int explain(struct cli *cli, int argc, char **argv, FILE *to)
{
    char *group = NULL;
    for (int n = 0; n < argc && n < 3 && argv[n][0] != '-'; n++) {
        char *longer = n == 0 ? arena_format(&cli->arena, "%s", argv[n])
                              : arena_format(&cli->arena, "%s %s", group, argv[n]);
        if (longer == NULL || !cli_help_group(cli, longer, NULL))
            break;
        group = longer;
    }
    (void)cli_help_group(cli, group != NULL ? group : "", to);
    return to == stdout ? CLI_OK : CLI_LOCAL_ERROR;
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "-help") == 0 ||
            strcmp(argv[i], "--help") == 0)
            return true;
    return false;
}

static int run(struct cli *cli, int argc, char **argv)
{
    int words;
    bool help = argc > 0 && strcmp(argv[0], "help") == 0;
    if (argc > 0 && (strcmp(argv[0], "-version") == 0 || strcmp(argv[0], "--version") == 0))
        return cmd_version(cli);
    argc -= help ? 1 : 0;
    argv += help ? 1 : 0;
    cli->command = cli_find(cli, argc, argv, &words);
    if (cli->command == NULL)
        return explain(cli, argc, argv, help || wants_help(argc, argv) ? stdout : stderr);
    argc -= words;
    argv += words;
    if (help || (cli->command->run_words != NULL && wants_help(argc, argv))) {
        cli_help(cli, stdout);
        return CLI_OK;
    }
    if (cli->command->run_words != NULL)
        return cli->command->run_words(argc, argv);
    if (!cli_parse(cli, argc, argv, &help))
        return CLI_LOCAL_ERROR;
    if (help) {
        cli_help(cli, stdout);
        return CLI_OK;
    }
    if (cli->token == NULL)
        cli->token = cli_token_load(cli);
    return cli->command->run(cli);
}

int cli_main(const struct cli_command *more, unsigned n_more, int argc, char **argv)
{
    static struct cli cli; /* large: kept off the stack */
    cli = (struct cli){.more = more, .n_more = n_more};
    int code = run(&cli, argc, argv);
    arena_done(&cli.arena);
    bool lost = fflush(stdout) != 0;
    if ((lost || ferror(stdout) != 0) && code == CLI_OK) {
        cli_complain("standard output cannot be written");
        code = CLI_LOCAL_ERROR;
    }
    return code;
}
