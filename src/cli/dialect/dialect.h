/* The part that all commands of one API share: flags and environment, the headers of a request, and
 * the form in which a refusal is printed. */
#ifndef HOLDFAST_CLI_DIALECT_DIALECT_H
#define HOLDFAST_CLI_DIALECT_DIALECT_H

#include "cli/client.h"

/* A variable of the environment, for the manual page. */
struct cli_variable {
    const char *name, *help;
};

struct cli_dialect {
    const char *commands;         /* "command", or the kind of them, in headings */
    const struct cli_flag *flags; /* of each of these commands */
    const struct cli_variable *environment;
    const char *environment_note;
    unsigned n_flags, n_environment;
    const char *nodes; /* variable: URLs of all nodes of a cluster, by comma */
    const char *table; /* the output format besides "json", as upstream's tool calls it */
    bool kept_token;   /* without another token, send the token that login kept */

    /* Set cli->address (NULL: none is set), token, ca_file, insecure and name_space from
     * environment and flags. False with a message. */
    bool (*configure)(struct cli *cli);
    /* Add the headers that only this API has, with cli_add_header. */
    enum status (*headers)(struct cli *cli, const struct cli_request *request, struct buf *to,
                           struct reason *reason);
    /* Print a reply that is not 2xx on standard error. */
    void (*refused)(struct cli *cli, const struct cli_request *request,
                    const struct cli_reply *reply);
};

extern const struct cli_dialect cli_secrets_dialect, cli_registry_dialect, cli_platform_dialect,
    cli_scheduler_dialect;

/* All dialects, in the order of the manual page. */
extern const struct cli_dialect *const cli_dialects[];
extern const unsigned cli_n_dialects;

/* The dialect in which a command makes requests. An offline command has none of its flags. */
const struct cli_dialect *cli_dialect_of(const struct cli_command *command);

/* cli_flags.c. Of texts that commas separate: the next, NULL: no more, or no memory; whether they
 * have this one. No list has none. */
const char *cli_next_node(struct arena *arena, const char **at);
bool cli_names_node(const char *nodes, const char *address);

#endif
