/* Shared by the commands: the parsed command line, requests, data and output. */
#ifndef HOLDFAST_CLI_CLIENT_H
#define HOLDFAST_CLI_CLIENT_H

#include "base/arena.h"
#include "base/buf.h"
#include "cli/cli.h"
#include "text/json.h"

#include <stdio.h>

enum {
    CLI_ARGS_MAX = 1024,
    CLI_FLAGS_MAX = 256, /* given on one command line */
    CLI_REPLY_MAX = 64 * 1024 * 1024,
    CLI_INPUT_MAX = 32 * 1024 * 1024, /* a file or standard input as data */
    CLI_SECRET_MAX = 8192,            /* a line typed: a key, a token, a password */
};

/* Why no TLS connection was made, for the hint that the user gets. */
enum cli_tls_fault {
    CLI_TLS_GOOD,
    CLI_TLS_UNTRUSTED,
    CLI_TLS_OTHER_HOST,
    CLI_TLS_NOT_NOW,
    CLI_TLS_REFUSED,
};

/* Settings from flags and environment. HOLDFAST_X wins over its upstream spelling VAULT_X, and a
 * flag over both; the token of the environment wins over the one kept in a file. Strings are
 * borrowed from argv and the environment, or lie in the arena. */
struct cli {
    const struct cli_command *command;
    const struct cli_command *more; /* commands outside of this folder */
    unsigned n_more;
    const char *address, *token, *ca_file, *name_space, *field;
    bool token_from_env, insecure;
    bool json;           /* -format json; else a table */
    int64_t timeout_ms;  /* the longest wait for one step of the server */
    bool stdin_consumed; /* standard input was read as data already */
    enum cli_tls_fault tls_fault;
    struct {
        const struct cli_flag *flag;
        const char *value;
        bool read; /* the command asked for it */
    } given[CLI_FLAGS_MAX];
    unsigned n_given;
    const char *args[CLI_ARGS_MAX]; /* the rest of the command line */
    unsigned n_args;
    struct arena arena;
};

/* cli_flags.c: what was given of the command's flags. */

extern const struct cli_flag cli_common_flags[];
extern const unsigned cli_n_common_flags;

/* Another name of the flag, which means the same; NULL: none. */
const char *cli_flag_alias(const struct cli_flag *flag);
const char *cli_flag_value(enum cli_flag_kind kind); /* "=FILE": what help shows behind its name */

/* The command whose name the first words are, the longest; NULL. *ret_words: how many words. */
const struct cli_command *cli_find(const struct cli *cli, int argc, char **argv, int *ret_words);
/* The i-th command of all, those of `more` first; NULL behind the last. */
const struct cli_command *cli_nth(const struct cli *cli, unsigned i);
/* Environment, then flags and arguments of cli->command. False with a message; *ret_help: help was
 * asked for. */
bool cli_parse(struct cli *cli, int argc, char **argv, bool *ret_help);
/* The value of PREFIX_name in the environment; NULL when unset or empty. */
const char *cli_env(struct cli *cli, const char *name);
const char *cli_text(struct cli *cli, const char *flag); /* the last; NULL: not given */
bool cli_bool(struct cli *cli, const char *flag, bool otherwise);
int64_t cli_int(struct cli *cli, const char *flag, int64_t otherwise);
/* Each value of a repeated flag: start with *at 0; NULL at the end. */
const char *cli_each(struct cli *cli, const char *flag, unsigned *at);
/* Warn of each given flag that the command did not read. */
void cli_warn_unread(const struct cli *cli);

/* cli_suggest.c: mistyped words. A word is repeated only if it could be a name of ours, letters and
 * dashes: anything else may be a secret in the wrong place. */

/* Say that the words from argv[known] on name no command, and which is the nearest. */
void cli_unknown_command(struct cli *cli, int argc, char **argv, int known);
/* Say that `word`, the place-th behind the command, is no flag of it, and which is the nearest. */
void cli_unknown_flag(const struct cli *cli, const char *word, int place);

/* cli_help.c */

void cli_help(const struct cli *cli, FILE *to);                          /* of cli->command */
bool cli_help_group(const struct cli *cli, const char *group, FILE *to); /* false: no such */

/* cli_http.c */

struct cli_call {
    const char *method, *path; /* path: from "/v1/" on, escaped, with its query */
    struct bytes body;
    const char *content_type; /* NULL: JSON */
    const char *token;        /* instead of cli->token; NULL: that one */
    bool aside;               /* a question before the real one: never to be wrapped */
    FILE *upload;             /* sent as the body, from where it stands to its end */
    FILE *download;           /* takes the body of a 2xx */
};
struct cli_reply {
    int status;             /* 0: there was no answer */
    struct bytes body;      /* in the arena */
    const char *request_id; /* of a refusal, in the arena; "" when the server names none */
};
/* Send and wait for the whole answer; one redirect is followed, but not with an upload.
 * ST_INVALID (the address, a header), ST_IO, ST_CRYPTO, ST_TIMEOUT, ST_TOO_BIG, ST_NOMEM with a
 * reason. */
NODISCARD enum status cli_send(struct cli *cli, const struct cli_call *call,
                               struct cli_reply *ret_reply, struct reason *reason);

/* cli_request.c: requests as commands make them. The exit code is CLI_OK for any 2xx. */

/* "/v1/" and the path, escaped; NULL when out of memory. */
char *cli_path(struct cli *cli, const char *path);
/* Says why nothing came back; a refusal of the server is left to the caller. */
int cli_ask(struct cli *cli, const struct cli_call *call, struct cli_reply *ret_reply);
/* Says that too. */
int cli_do(struct cli *cli, const struct cli_call *call, struct cli_reply *ret_reply);
/* The same with "/v1/" PATH and the text of a body, NULL for none. */
int cli_call(struct cli *cli, const char *method, const char *path, const struct buf *body,
             struct cli_reply *ret_reply);
int cli_unexpected(void); /* says that the answer lacks something; CLI_REMOTE_ERROR */
int cli_refused(struct cli *cli, const struct cli_call *call, const struct cli_reply *reply);
/* The answer as JSON; NULL with a message. */
const struct text_value *cli_parse_reply(struct cli *cli, const struct cli_reply *reply);
/* A GET, with the query as it is. For a 404 that holds nothing it prints "No value found at …"; one
 * that holds data, as of a deleted version, is CLI_OK. */
int cli_fetch(struct cli *cli, const char *path, const char *query, struct cli_reply *ret_reply);

/* cli_data.c */

/* All of a file, "-" being standard input. False with a message, which calls it `what`: a name that
 * stood behind '@' may be a secret that begins so. */
bool cli_slurp(struct cli *cli, const char *name, const char *what, struct bytes *ret_text);
/* args[first..] as an object: "key=value", "key=@file", "key=-", "@file" and "-" being JSON objects
 * to be merged; a repeated key makes a list; "\@" stands for a leading "@". NULL with a message. */
const struct text_value *cli_data(struct cli *cli, unsigned first);
/* The same pairs as a query, "" for none. NULL with a message. */
char *cli_query(struct cli *cli, unsigned first);
/* A line typed without being shown, or the first line of standard input. NULL with a message. */
char *cli_secret(struct cli *cli, const char *prompt);
/* The values of a CLI_PAIRS flag as members of an open object. */
void cli_put_pairs(struct cli *cli, struct text_writer *w, const char *flag);
/* The values of a repeated flag, each split at commas, as a list. */
void cli_put_list(struct cli *cli, struct text_writer *w, const char *flag);
/* `name`: value of the flag, if it was given. */
void cli_put_text(struct cli *cli, struct text_writer *w, const char *flag, const char *name);
/* Without the slashes at its ends. NULL when out of memory. */
char *cli_trim_path(struct cli *cli, const char *path);

/* cli_print.c */

/* To standard error: text as it is; "Error: ", a line and its end. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
int cli_usage_error(const struct cli *cli, const char *why);
/* Text from elsewhere; on a terminal without its control characters. */
void cli_put(FILE *to, struct bytes text);
void cli_print_json(const struct text_value *v); /* indented, then a newline */
/* "Key  Value" in columns, members in the order given; those of nested values below it, inside. */
void cli_print_table(const struct text_value *object);
/* One value as bare text; a newline follows on a terminal. */
void cli_print_raw(const struct cli *cli, const struct text_value *v);
void cli_print_value(const struct text_value *v); /* a newline follows */
void cli_print_title(const char *title);
/* A list of texts under "Keys"; as JSON with -format json. */
void cli_print_keys(const struct cli *cli, const struct text_value *keys);
/* Objects, one a line, the first being the titles. */
void cli_print_grid(const struct text_value *rows);
/* The server's errors and warnings on standard error, the request id, and a hint where the call had
 * no token. */
void cli_print_errors(struct cli *cli, const struct cli_call *call, const struct cli_reply *reply);
void cli_print_warnings(const struct text_value *body); /* on standard error */
/* An answer in full: one field, JSON, or a table of what it holds. */
int cli_show(struct cli *cli, const struct cli_reply *reply);
/* With -field and -format for a part of it. */
int cli_show_value(struct cli *cli, const struct text_value *v);

/* Members appended to an object of the arena, for tables. A failure of memory leaves them out. */
void cli_add(struct cli *cli, struct text_value *to, const char *name, const struct text_value *v);
void cli_add_text(struct cli *cli, struct text_value *to, const char *name, const char *text);
struct text_value *cli_object(struct cli *cli, struct text_value *list);

/* cli_file.c: the content on disk, under a name beside it, before it takes the place of what was
 * there. False with a message. */
bool cli_replace(struct cli *cli, const char *path, struct bytes content, unsigned mode);

/* cli_token.c: the token kept between commands, in ~/.holdfast-token with mode 0600. */

/* NULL: none is kept, or it cannot be read (said on standard error). */
const char *cli_token_load(struct cli *cli);
/* Replaced as a whole or not at all. False with a message. */
bool cli_token_store(struct cli *cli, const char *token);

#endif
