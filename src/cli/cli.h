/* The command line: a client of the HTTP API. Blocking, one request a command.
 *
 * Exit codes, as users of the upstream tools know them: 0 done, 1 the command was given wrongly or
 * could not be sent, 2 the server refused or found nothing (and, for status, a sealed node). */
#ifndef HOLDFAST_CLI_CLI_H
#define HOLDFAST_CLI_CLI_H

#include "base/arena.h"
#include "base/buf.h"
#include "text/json.h"

enum { CLI_OK = 0, CLI_LOCAL_ERROR = 1, CLI_REMOTE_ERROR = 2 };
enum { CLI_ARGS_MAX = 1024, CLI_REPLY_MAX = 64 * 1024 * 1024 };

/* What flags and environment said. HOLDFAST_X wins over its upstream spelling VAULT_X, and a flag
 * over both. Strings are borrowed from argv and the environment. */
struct cli {
    const char *address, *token, *ca_file, *name_space;
    bool insecure; /* do not verify the server's certificate */
    bool json;     /* -format json; else a table */
    const char *field;
    const char *args[CLI_ARGS_MAX]; /* what is left of the command line */
    unsigned n_args;
    struct arena arena;
};

/* Runs `command` with the words behind it. Returns the exit code. */
int cli_run(const char *command, int argc, char **argv);
/* Whether cli_run knows it. */
bool cli_knows(const char *command);
/* A line per command. */
void cli_usage(void);

/* cli_http.c */

struct cli_reply {
    int status;
    struct bytes body; /* in the arena */
};
/* Send and wait for the whole answer; one redirect is followed. `body` empty: none. ST_INVALID (the
 * address), ST_IO, ST_CRYPTO, ST_TIMEOUT, ST_TOO_BIG, ST_NOMEM with a reason. */
NODISCARD enum status cli_send(struct cli *cli, const char *method, const char *path,
                               struct bytes body, struct cli_reply *ret_reply,
                               struct reason *reason);

/* cli_print.c */

/* Indented JSON, then a newline. */
void cli_print_json(const struct text_value *v);
/* "Key  Value" in columns, members in the order given; nested values as JSON. */
void cli_print_table(const struct text_value *object);
/* One value as bare text. */
void cli_print_value(const struct text_value *v);
/* The server's messages on standard error. */
void cli_print_errors(struct cli *cli, const char *method, const char *path,
                      const struct cli_reply *reply);

#endif
