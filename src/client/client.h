/* Shared by the clients of the HTTP API that run as processes of their own, the scheduler's agent
 * and the platform's worker: requests to any of several servers, files, child processes.
 * Any thread, unless a function says otherwise. */
#ifndef HOLDFAST_CLIENT_CLIENT_H
#define HOLDFAST_CLIENT_CLIENT_H

#include "base/arena.h"
#include "base/buf.h"
#include "text/json.h"
#include "text/schema.h"

#include <sys/types.h>

enum {
    CLIENT_SERVERS_MAX = 16,
    CLIENT_FILE_MAX = 64 * 1024,
    CLIENT_URL_MAX = 4096,
    CLIENT_IDLE_MAX = 4
};

/* client.c: time, the log, threads, members of trees. */

int64_t client_now_ms(void);   /* since 1970 */
uint64_t client_mono_ms(void); /* since some moment; never goes back */
/* Sleep. A signal may end the sleep early. */
void client_sleep_ms(int64_t ms);
/* Write one line to standard error, with the time and the name of the program's part. A longer line
 * is cut. */
void client_say(const char *who, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Start a detached thread. False: the system has no room for a thread. */
NODISCARD bool client_thread(void *(*run)(void *), void *ctx);
/* Let SIGTERM and SIGINT set a flag, and writes to closed pipes fail. */
void client_catch_signals(void);
bool client_is_ending(void);

/* A member of a tree: its value, or "", 0 or false if it is missing or of another kind. */
const char *member_text(const struct text_value *of, const char *name);
int64_t member_int(const struct text_value *of, const char *name);
bool member_bool(const struct text_value *of, const char *name);

/* client_file.c */

/* Read a file of at most `max` bytes to the end of `out`. ST_NOT_FOUND, ST_TOO_BIG, ST_NOMEM,
 * ST_IO. */
NODISCARD enum status client_read_file(const char *path, size_t max, struct buf *out);
/* Write a file that its owner alone reads, durable, whole or not at all. ST_NO_SPACE, ST_IO. */
NODISCARD enum status client_write_file(const char *path, struct bytes text);
/* Write all of `text`. ST_NO_SPACE, ST_IO. */
NODISCARD enum status client_write_all(int fd, struct bytes text);
/* Remove spaces and line ends from the end. */
void client_trim(struct buf *text);
/* Read a configuration file, HCL or JSON, into `ret_config`; its texts lie in the arena. ST_INVALID
 * with the line and the field. */
NODISCARD enum status client_load_config(const char *path, const struct schema *schema,
                                         struct arena *arena, void *ret_config, struct reason *why);

/* client_http.c: requests to whichever server answers. */

struct client {
    struct field_strings servers; /* URLs without a path */
    const char *ca_file;          /* PEM; "": the certificates of the system */
    _Atomic unsigned server;      /* the server that answered last */
    /* Handles of libcurl with their open connections, NULL: a free place. Each is of one request at
     * a time. */
    void *_Atomic idle[CLIENT_IDLE_MAX];
};

struct client_call {
    const char *method;
    /* Behind the address of the server, with its first '/'; or a whole URL: its path and query are
     * asked of each server in turn, for the server it names may be gone. */
    const char *path;
    const char *type;   /* of the body; NULL: none is named */
    const char *header; /* one more, "Name: value"; NULL: none */
    struct bytes body;
    const char *index_header; /* "x-name:", in lower case, a number; NULL: none is looked for */
    long timeout_s;           /* 0: 90 */
    size_t reply_max;         /* bytes; 0: 64 MiB */
    bool idle;                /* SIGTERM and SIGINT break it off */
    int http;                 /* the status of the reply */
    uint64_t index;           /* of index_header, 0: the reply has none */
};

/* Ask one server after the other, beginning with the one that answered last, until one answers
 * other than by "no leader" or 503. The body of the reply replaces the content of `ret_body`.
 * ST_IO: none does. ST_NOMEM. */
NODISCARD enum status client_request(struct client *client, struct client_call *call,
                                     struct buf *ret_body);

/* client_spawn.c: processes. */

struct spawn {
    const char *path, *dir;
    const char *user; /* a name; "": the user of this process */
    char *const *argv, *const *env;
    int in, out, err; /* descriptors of the child */
    bool terminal;    /* `in` is its controlling terminal */
};
/* Start a process in a session of its own. The kernel kills it when the calling thread ends. ST_IO
 * with a reason; ST_INVALID: no such user. */
NODISCARD enum status client_spawn(const struct spawn *spawn, pid_t *ret_pid, struct reason *why);
/* The program's path, as execvp finds it; NULL: there is none. */
const char *client_program(struct arena *arena, char *const *env, const char *dir,
                           const char *name);

#endif
