/* Shared by all commands: the parsed command line, requests, data and output.
 *
 * "With a message" means: the function has printed an error on standard error. */
#ifndef HOLDFAST_CLI_CLIENT_H
#define HOLDFAST_CLI_CLIENT_H

#include "base/arena.h"
#include "base/buf.h"
#include "cli/cli.h"
#include "text/json.h"

#include <stdio.h>

enum {
    CLI_ARGS_MAX = 1024,
    CLI_FLAGS_MAX = 256,              /* flags on one command line */
    CLI_REPLY_MAX = 64 * 1024 * 1024, /* bytes of a reply that is not downloaded to a file */
    CLI_INPUT_MAX = 32 * 1024 * 1024, /* bytes of a file or of standard input, as data */
    CLI_SECRET_MAX = 8192,            /* bytes of a typed line: a key, a token, a password */
};

#define CLI_DEFAULT_ADDRESS "https://127.0.0.1:8200"

/* Why the TLS handshake failed. The user gets a hint for each cause. */
enum cli_tls_fault {
    CLI_TLS_GOOD,
    CLI_TLS_UNTRUSTED,
    CLI_TLS_OTHER_HOST,
    CLI_TLS_NOT_NOW,
    CLI_TLS_REFUSED,
};

/* Settings from flags and environment. A flag wins over a variable, and of HOLDFAST_X and VAULT_X
 * the first wins. The token of the environment wins over the token in ~/.holdfast-token. Strings
 * point to argv, to the environment or into the arena. */
struct cli {
    const struct cli_command *command;
    const struct cli_command *more; /* commands of other folders */
    unsigned n_more;
    const char *address, *token, *ca_file, *name_space, *field;
    const char *nodes; /* URLs of the nodes of one cluster, by comma; NULL: `address` is alone */
    bool token_from_env, insecure;
    bool json;           /* -format json; false: a table */
    int64_t timeout_ms;  /* the longest wait for one send or receive */
    bool stdin_consumed; /* standard input was already read as data */
    enum cli_tls_fault tls_fault;
    struct {
        const struct cli_flag *flag;
        const char *value;
        bool read; /* the command has read the flag */
    } given[CLI_FLAGS_MAX];
    unsigned n_given;
    const char *args[CLI_ARGS_MAX]; /* words that are neither command nor flag */
    unsigned n_args;
    struct arena arena;
};

/* cli_flags.c: the flags on the command line. */

/* A second name of the flag; NULL: none. */
const char *cli_flag_alias(const struct cli_flag *flag);
/* The text that help shows behind a flag's name: "=FILE". */
const char *cli_flag_value(enum cli_flag_kind kind);

/* The command with the longest name that argv begins with; NULL: none. *ret_words: the number of
 * words in that name. */
const struct cli_command *cli_find(const struct cli *cli, int argc, char **argv, int *ret_words);
/* The i-th of all commands, those of `more` first; NULL: there are fewer. */
const struct cli_command *cli_nth(const struct cli *cli, unsigned i);
/* Read the environment, then the flags and arguments of cli->command. False with a message.
 * *ret_help is set to true when argv asks for help. */
bool cli_parse(struct cli *cli, int argc, char **argv, bool *ret_help);
/* The value of HOLDFAST_`name` in the environment, else of VAULT_`name`; NULL: unset or empty. */
const char *cli_env(struct cli *cli, const char *name);
/* Read a boolean; `text` NULL leaves *ret_truth. False with a message that calls it `what`. */
bool cli_truth(const char *text, const char *what, bool *ret_truth);
/* The value of a flag; the last one if the flag is repeated. NULL, or `otherwise`: not given. */
const char *cli_text(struct cli *cli, const char *flag);
bool cli_bool(struct cli *cli, const char *flag, bool otherwise);
int64_t cli_int(struct cli *cli, const char *flag, int64_t otherwise);
/* The next value of a repeated flag; NULL: no more. Start with *at 0. */
const char *cli_each(struct cli *cli, const char *flag, unsigned *at);
/* Print a warning for each given flag that the command did not read. */
void cli_warn_unread(const struct cli *cli);

/* cli_suggest.c: mistyped words. A message repeats a word only if it consists of letters and
 * dashes, as our names do: any other word may be a secret in the wrong place. */

/* Print that the words from argv[known] on name no command, and the nearest command. */
void cli_unknown_command(struct cli *cli, int argc, char **argv, int known);
/* Print that `word` is no flag of the command, and the nearest flag. `place`: the word's number
 * behind the command, from 1. */
void cli_unknown_flag(const struct cli *cli, const char *word, int place);

/* cli_help.c */

/* Print the help of cli->command. */
void cli_help(const struct cli *cli, FILE *to);
/* Print the commands whose names begin with the words of `group`; `to` NULL: print nothing. False:
 * there is no such command. */
bool cli_help_group(const struct cli *cli, const char *group, FILE *to);

/* cli_http.c */

/* A request of a command to the server. */
struct cli_request {
    const char *method, *path; /* path: from "/v1/" on, escaped, with its query */
    struct bytes body;
    const char *content_type; /* NULL: JSON */
    const char *token;        /* the token to send; NULL: cli->token, "": none */
    const char *purpose;      /* registry: begins the message of a refusal; NULL: the method */
    bool aside;               /* a preliminary request: -wrap-ttl does not apply to its reply */
    FILE *upload;             /* a file whose content is the body; NULL: `body` is */
    FILE *download;           /* where the body of a 2xx reply goes; NULL: into the reply */
};
struct cli_reply {
    int status;             /* the HTTP status; 0: no reply came */
    struct bytes body;      /* in the arena */
    const char *request_id; /* in the arena; "" when the server names none */
};
/* Add a header; nothing when `value` is NULL or "". ST_INVALID with a reason: the value contains a
 * control character. A line end would begin another header. */
NODISCARD enum status cli_add_header(struct buf *to, const char *name, const char *value,
                                     struct reason *reason);
/* Send the request and wait for the whole reply. If the node cannot be connected to, so that it
 * certainly has not got the request, and cli->nodes names it, the others of cli->nodes are tried;
 * cli->address becomes the one that replied. One redirect is followed, but not with an upload.
 * With a reason: ST_INVALID (a wrong address or header, a reply that is not HTTP), ST_IO,
 * ST_CRYPTO, ST_TIMEOUT, ST_TOO_BIG, ST_NOMEM. */
NODISCARD enum status cli_send(struct cli *cli, const struct cli_request *request,
                               struct cli_reply *ret_reply, struct reason *reason);

/* cli_request.c: requests as commands make them. Functions that return int return an exit code,
 * CLI_OK for every 2xx reply. */

/* "/v1/" and the path, escaped; NULL when out of memory. */
char *cli_path(struct cli *cli, const char *path);
/* Send a request. Prints why no reply came. Prints nothing for a reply that is not 2xx: the caller
 * calls cli_refused. request->path may be NULL: out of memory, printed. */
int cli_ask(struct cli *cli, const struct cli_request *request, struct cli_reply *ret_reply);
/* Send a request. Prints why no reply came, or the errors of a reply that is not 2xx. */
int cli_do(struct cli *cli, const struct cli_request *request, struct cli_reply *ret_reply);
#define CLI_MERGE_PATCH "application/merge-patch+json"

/* A request for a path without "/v1/", unescaped.
 *
 * body          NULL: none. The caller keeps the buffer until the request is sent.
 * content_type  NULL: JSON
 *
 * The path of the request is NULL when memory ran out, here or while the body was written. */
struct cli_request cli_request_of(struct cli *cli, const char *method, const char *path,
                                  const struct buf *body, const char *content_type);
/* Make a request with a body of JSON (cli_request_of) and send it (cli_do). */
int cli_request(struct cli *cli, const char *method, const char *path, const struct buf *body,
                struct cli_reply *ret_reply);
/* Print that the reply lacks a member. Returns CLI_REMOTE_ERROR. */
int cli_unexpected(void);
/* Print the errors of a reply that is not 2xx, if one came. Returns CLI_REMOTE_ERROR. */
int cli_refused(struct cli *cli, const struct cli_request *request, const struct cli_reply *reply);
/* The reply's body as JSON; NULL with a message. */
const struct text_value *cli_parse_reply(struct cli *cli, const struct cli_reply *reply);
/* GET the path without "/v1/", unescaped, and `query`, escaped. A 404 with data (a deleted version
 * of a secret) is CLI_OK; for another 404 prints "No value found at …". */
int cli_fetch(struct cli *cli, const char *path, const char *query, struct cli_reply *ret_reply);

/* cli_data.c */

/* Read a whole file; the name "-" is standard input. False with a message that calls the file
 * `what`: the text behind an '@' may be a secret instead of a file's name. */
bool cli_slurp(struct cli *cli, const char *name, const char *what, struct bytes *ret_text);
/* Read a value as people give it: the text itself, "@file" or "-" for standard input; "\\@x" is the
 * text "@x". False with a message that calls the value `what`. */
bool cli_value(struct cli *cli, const char *value, const char *what, struct bytes *ret_text);
/* Read the arguments from `first` on into an object. "key=value" sets a member; cli_value reads
 * the value. "@file" or "-" alone is a JSON object whose members are added. A repeated key makes a
 * list. NULL with a message. */
const struct text_value *cli_data(struct cli *cli, unsigned first);
/* The text with every character escaped that has a meaning in a URL; NULL when out of memory. */
char *cli_escape(struct cli *cli, const char *text);
/* Read the arguments from `first` on as cli_data does, into a query "?key=value&…"; "" when there
 * are none. NULL with a message. */
char *cli_query(struct cli *cli, unsigned first);
/* Read a secret: on a terminal a line typed without echo, else the first line of standard input.
 * NULL with a message. */
char *cli_secret(struct cli *cli, const char *prompt);
/* Write the values of a CLI_PAIRS flag as members of the open object. */
void cli_put_pairs(struct cli *cli, struct text_writer *w, const char *flag);
/* Write the parts of a text between commas as strings, empty ones left out. */
void cli_put_split(struct text_writer *w, const char *text);
/* Write a list of the values of a repeated flag, each value split at commas. */
void cli_put_list(struct cli *cli, struct text_writer *w, const char *flag);
/* Write the member `name` with the flag's value, if the flag was given. */
void cli_put_text(struct cli *cli, struct text_writer *w, const char *flag, const char *name);
/* The path without slashes at its ends. NULL when out of memory. */
char *cli_trim_path(struct cli *cli, const char *path);

/* cli_print.c */

/* Print text on standard error. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Print "Error: ", the text and a newline on standard error. */
void cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Print the error and the command's usage. Returns CLI_LOCAL_ERROR. */
int cli_usage_error(const struct cli *cli, const char *why);
/* Print text that is not ours. On a terminal, control characters are shown as "\xNN". */
void cli_put(FILE *to, struct bytes text);
void cli_print_json(const struct text_value *v); /* indented, with a newline at the end */
/* Print two columns, "Key" and "Value", with the members in the order given. Members of a nested
 * value follow below the name of the value, indented. */
void cli_print_table(const struct text_value *object);
/* Print one value as plain text, with a newline on a terminal only; as JSON with -format json. */
void cli_print_raw(const struct cli *cli, const struct text_value *v);
void cli_print_value(const struct text_value *v); /* one value as plain text, and a newline */
void cli_print_title(const char *title);
/* Print a list of texts under the title "Keys"; as JSON with -format json. */
void cli_print_keys(const struct cli *cli, const struct text_value *keys);
/* Print a list of objects in columns, one object a line. The names of the members are the titles.
 */
void cli_print_grid(const struct text_value *rows);
void cli_print_warnings(const struct text_value *body); /* on standard error */
/* Print a reply as -field and -format say: one field, JSON, or a table. Returns the exit code. */
int cli_show(struct cli *cli, const struct cli_reply *reply);
/* Print a part of a reply as -field and -format say. Returns the exit code. */
int cli_show_value(struct cli *cli, const struct text_value *v);

/* Append a member to an object of the arena, for tables. Out of memory, the member is left out. */
void cli_add(struct cli *cli, struct text_value *to, const char *name, const struct text_value *v);
void cli_add_text(struct cli *cli, struct text_value *to, const char *name, const char *text);
/* A new object, appended to `list` unless that is NULL. NULL when out of memory. */
struct text_value *cli_object(struct cli *cli, struct text_value *list);

/* cli_file.c */

/* Replace the file at `path`: the content is written to a new file beside `path` and synced, then
 * the new file is renamed. False with a message. */
bool cli_replace(struct cli *cli, const char *path, struct bytes content, unsigned mode);

/* cli_token.c: the token kept between commands, in ~/.holdfast-token with mode 0600. */

/* NULL: no token is kept, or, with a message, the file cannot be read. */
const char *cli_token_load(struct cli *cli);
/* Read a token from the file `path`; "-" is standard input. White space around the token is no part
 * of it. False with a message that calls the file `what`. */
bool cli_token_read(struct cli *cli, const char *path, const char *what, const char **ret_token);
/* Replace the kept token, as cli_replace does. False with a message. */
bool cli_token_store(struct cli *cli, const char *token);

#endif
