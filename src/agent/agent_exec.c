/* A command in a task, over WebSocket (B5). The agent is the WebSocket server of the client, whose
 * bytes the servers pass on. Both streams are read to their end, then both closes are sent, then
 * the exit code, then the close frame. A client that goes ends the command's session. */
#include "agent/agent_internal.h"

#include "base/mem.h"
#include "text/encode.h"
#include "text/websocket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CHUNK_BYTES = 1024,
    INPUT_MAX = 1024 * 1024,
    OUT_MAX = 256 * 1024,
    BEAT_MS = 10000,
    ARGS_MAX = 1024,
    LINGER_MS = 2000, /* for output of processes that the command left behind */
};

struct exec {
    struct stream *stream;
    struct websocket *websocket;
    pid_t pid;
    int pidfd, in, out[2]; /* -1: closed; with a terminal out[0] is its master, and `in` too */
    bool terminal, no_input, refused, over;
    struct buf input; /* for the command */
    uint64_t beat_ms, end_ms;
    int code;
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* the other side sees the end */
    *fd = -1;
}

static void refuse(struct exec *x, unsigned code, const char *text)
{
    x->refused = true;
    if (websocket_close(x->websocket, code, bytes_str(text)) != ST_OK)
        x->over = true; /* the connection ends without a text */
}

/* Input */

static void take_input(struct exec *x, const struct text_value *data)
{
    CLEANUP(buf_done) struct buf raw = {0};
    size_t len = 0;
    uint8_t *room = buf_extend(&raw, TEXT_BASE64_BYTES(data->text.len));
    if (data->kind != TEXT_STRING || room == NULL ||
        text_base64_parse(data->text, room, &len) != ST_OK) {
        refuse(x, WEBSOCKET_POLICY, "stdin: malformed base64");
        return;
    }
    if (x->in >= 0 && !x->no_input)
        buf_add(&x->input, bytes_of(room, len));
}

static void resize(struct exec *x, const struct text_value *size)
{
    struct winsize window = {.ws_row = (unsigned short)member_int(size, "height"),
                             .ws_col = (unsigned short)member_int(size, "width")};
    if (x->terminal && x->out[0] >= 0)
        (void)ioctl(x->out[0], TIOCSWINSZ, &window); /* a terminal keeps its size else */
}

static void on_frame(void *ctx, struct bytes message)
{
    struct exec *x = ctx;
    CLEANUP(arena_done) struct arena arena = {0};
    const struct text_value *said = NULL, *in, *size;
    if (x->refused)
        return;
    if (text_json_parse(&arena, message, &said, NULL) != ST_OK || said->kind != TEXT_OBJECT) {
        refuse(x, WEBSOCKET_POLICY, "unexpected message: JSON is expected");
        return;
    }
    in = text_get(said, "stdin");
    size = text_get(said, "tty_size");
    if (in != NULL && text_get(in, "data") != NULL)
        take_input(x, text_get(in, "data"));
    if (in != NULL && member_bool(in, "close"))
        x->no_input = true;
    if (size != NULL)
        resize(x, size);
    if (in == NULL && size == NULL && said->first != NULL)
        refuse(x, WEBSOCKET_POLICY, "unexpected message type");
}

static void feed_command(struct exec *x)
{
    while (x->in >= 0 && x->input.len != 0) {
        ssize_t n = write(x->in, x->input.data, x->input.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            close_fd(&x->in);
        if (n <= 0)
            return;
        buf_consume(&x->input, (size_t)n);
    }
    if (x->no_input && x->input.len == 0 && x->in >= 0) {
        if (x->terminal)
            (void)!write(x->in, "\4", 1); /* the end of input of a terminal */
        close_fd(&x->in);
    }
}

/* Output */

static void send_frame(struct exec *x, const char *format, const char *name, const char *text)
{
    CLEANUP(buf_done) struct buf frame = {0};
    buf_add_format(&frame, format, name, text);
    if (buf_status(&frame) == ST_OK && websocket_send(x->websocket, buf_bytes(&frame)) != ST_OK)
        x->over = true;
}

static const char *stream_name(unsigned i)
{
    return i == 0 ? "stdout" : "stderr";
}

static void read_output(struct exec *x, unsigned i)
{
    uint8_t part[CHUNK_BYTES];
    char text[TEXT_BASE64_LEN(CHUNK_BYTES) + 1];
    ssize_t n = read(x->out[i], part, sizeof part);
    if (n > 0) {
        (void)text_base64_put(bytes_of(part, (size_t)n), TEXT_BASE64, text); /* length not needed */
        send_frame(x, "{\"%s\":{\"data\":\"%s\"}}", stream_name(i), text);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        close_fd(&x->out[i]); /* EIO: the terminal's last process ended */
    }
}

static void finish(struct exec *x)
{
    char code[16];
    (void)snprintf(code, sizeof code, "%d", x->code);
    for (unsigned i = 0; i < 2; i++)
        send_frame(x, "{\"%s\":{\"close\":%s}}", stream_name(i), "true");
    send_frame(x, "{\"exited\":true,\"result\":{\"%s\":%s}}", "exit_code", code);
    refuse(x, WEBSOCKET_NORMAL, "");
    x->over = true;
}

/* The command has ended: note its code. What it left in its session may still write for a while. */
static void reap(struct exec *x)
{
    int status = 0;
    if (waitpid(x->pid, &status, 0) == x->pid)
        x->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    x->pid = 0;
    close_fd(&x->pidfd);
    x->end_ms = client_mono_ms() + LINGER_MS;
}

/* One look at everything. */
static void exec_turn(struct exec *x)
{
    struct buf *out = websocket_out(x->websocket);
    bool room = out->len < OUT_MAX;
    short socket_events =
        (short)((x->input.len < INPUT_MAX ? POLLIN : 0) | (out->len != 0 ? POLLOUT : 0));
    struct pollfd fds[5] = {
        {.fd = stream_fd(x->stream), .events = socket_events},
        {.fd = room ? x->out[0] : -1, .events = POLLIN},
        {.fd = room ? x->out[1] : -1, .events = POLLIN},
        {.fd = x->pidfd, .events = POLLIN},
        {.fd = x->input.len != 0 ? x->in : -1, .events = POLLOUT},
    };
    if (poll(fds, 5, 500) < 0)
        return;
    for (unsigned i = 0; i < 2; i++)
        if (fds[1 + i].revents != 0)
            read_output(x, i);
    if (fds[3].revents != 0 && x->pid != 0)
        reap(x);
    if (client_mono_ms() >= x->beat_ms) {
        x->beat_ms = client_mono_ms() + BEAT_MS;
        send_frame(x, "{%s%s}", "", "");
    }
    if (x->pid == 0 && ((x->out[0] < 0 && x->out[1] < 0) || client_mono_ms() >= x->end_ms))
        finish(x);
}

/* Take what the client sent. */
static enum status take(struct exec *x)
{
    char part[16 * 1024];
    size_t n = 0;
    if (x->input.len >= INPUT_MAX)
        return ST_OK;
    TRY(stream_read(x->stream, part, sizeof part, &n));
    return n != 0 ? websocket_feed(x->websocket, bytes_of(part, n)) : ST_OK;
}

/* Write what is left, for a few seconds. */
static void exec_flush(struct exec *x)
{
    struct buf *out = websocket_out(x->websocket);
    uint64_t until_ms = client_mono_ms() + 5000;
    while (out->len != 0 && client_mono_ms() < until_ms) {
        struct pollfd fd = {.fd = stream_fd(x->stream), .events = POLLOUT};
        if (stream_write(x->stream, out) != ST_OK)
            return;
        if (out->len != 0)
            (void)poll(&fd, 1, 200); /* the loop looks again */
    }
}

static void converse(struct exec *x)
{
    enum status st = ST_OK;
    x->beat_ms = client_mono_ms() + BEAT_MS;
    while (st == ST_OK && !x->over && !x->refused) {
        exec_turn(x);
        st = take(x);
        feed_command(x);
        if (st == ST_OK)
            st = stream_write(x->stream, websocket_out(x->websocket));
    }
    exec_flush(x);
}

/* Starting */

/* Descriptors of the command: pipes, or a terminal. */
static bool open_streams(struct exec *x, struct spawn *spawn)
{
    int in[2], out[2], err[2];
    if (x->terminal) {
        int master, slave;
        if (openpty(&master, &slave, NULL, NULL, NULL) != 0)
            return false;
        (void)fcntl(master, F_SETFD, FD_CLOEXEC); /* valid descriptors */
        (void)fcntl(master, F_SETFL, O_NONBLOCK);
        x->out[0] = master;
        x->in = fcntl(master, F_DUPFD_CLOEXEC, 0);
        spawn->in = spawn->out = spawn->err = slave;
        spawn->terminal = true;
        return x->in >= 0;
    }
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        return false;                        /* descriptors that were opened end with the agent */
    (void)fcntl(in[1], F_SETFL, O_NONBLOCK); /* a valid descriptor */
    x->in = in[1];
    x->out[0] = out[0];
    x->out[1] = err[0];
    spawn->in = in[0];
    spawn->out = out[1];
    spawn->err = err[1];
    return true;
}

static void close_theirs(const struct spawn *spawn)
{
    (void)close(spawn->in); /* the child has its own */
    if (spawn->terminal)
        return;
    (void)close(spawn->out);
    (void)close(spawn->err);
}

static char **exec_words_of(struct arena *arena, const struct text_value *list)
{
    char **argv = arena_zalloc(arena, (ARGS_MAX + 1) * sizeof *argv);
    size_t n = 0;
    if (argv == NULL || list == NULL || list->kind != TEXT_LIST)
        return NULL;
    TEXT_FOR (word, list)
        if (n < ARGS_MAX)
            argv[n++] = (char *)(uintptr_t)word->text.data;
    return argv;
}

/* The environment, folder and user of the task, while the lock is held. ST_NOT_FOUND: the task does
 * not run. */
static enum status exec_look_up(struct arena *arena, const struct text_value *body,
                                struct spawn *spawn)
{
    const struct text_value *id = text_get(body, "AllocID");
    struct alloc *alloc = id != NULL ? alloc_find(id->text) : NULL;
    const struct task *task = alloc != NULL ? task_find(alloc, member_text(body, "Task")) : NULL;
    if (task == NULL || task->pid == 0)
        return ST_NOT_FOUND;
    spawn->env = task_env(arena, task);
    spawn->dir = task_dir(arena, task);
    spawn->user = arena_str(arena, bytes_str(member_text(task->spec, "User")));
    return spawn->env != NULL && spawn->dir != NULL && spawn->user != NULL ? ST_OK : ST_NOMEM;
}

static void exec_start(struct exec *x, const struct text_value *body)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct spawn spawn = {.in = -1};
    struct reason why = {{0}};
    char **argv = exec_words_of(&arena, text_get(body, "Command"));
    char text[160];
    agent_lock();
    enum status st = exec_look_up(&arena, body, &spawn);
    bool full = agent.sessions >= AGENT_SESSIONS_MAX;
    agent_unlock();
    x->terminal = member_bool(body, "TTY");
    if (st != ST_OK || full || argv == NULL || argv[0] == NULL) {
        (void)snprintf(text, sizeof text, "task \"%.64s\" is not running.",
                       member_text(body, "Task"));
        refuse(x, full ? WEBSOCKET_INTERNAL : WEBSOCKET_POLICY,
               full ? "too many exec sessions on the node" : text);
        return;
    }
    spawn.path = client_program(&arena, spawn.env, spawn.dir, argv[0]);
    spawn.argv = argv;
    if (spawn.path == NULL) {
        (void)snprintf(text, sizeof text, "failed to start command: no executable \"%.64s\"",
                       argv[0]);
        refuse(x, WEBSOCKET_INTERNAL, text);
        return;
    }
    if (!open_streams(x, &spawn)) {
        refuse(x, WEBSOCKET_INTERNAL, "failed to start command: no descriptors");
        return;
    }
    st = client_spawn(&spawn, &x->pid, &why);
    close_theirs(&spawn);
    if (st != ST_OK) {
        refuse(x, WEBSOCKET_INTERNAL, why.text);
        return;
    }
    x->pidfd = (int)syscall(SYS_pidfd_open, x->pid, 0);
}

static void clean_up(struct exec *x)
{
    if (x->pid != 0) {
        (void)kill(-x->pid, SIGKILL);   /* the group may have ended already */
        (void)waitpid(x->pid, NULL, 0); /* a child of ours */
    }
    close_fd(&x->pidfd);
    close_fd(&x->in);
    close_fd(&x->out[0]);
    close_fd(&x->out[1]);
    buf_done(&x->input);
    websocket_free(x->websocket);
    stream_close(x->stream);
}

void *agent_exec_run(void *ctx)
{
    struct session *session = ctx;
    CLEANUP(arena_done) struct arena arena = {0};
    const struct text_value *body = NULL;
    struct exec x = {.pidfd = -1, .in = -1, .out = {-1, -1}};
    char path[96];
    (void)snprintf(path, sizeof path, "client/node/session/%s", session->id);
    if (text_json_parse(&arena, buf_bytes(&session->body), &body, NULL) == ST_OK &&
        stream_open(session->server, path, &x.stream) == ST_OK &&
        websocket_new(true, on_frame, &x, &x.websocket) == ST_OK) {
        agent_say("exec in task %s of allocation %s by %s begins", member_text(body, "Task"),
                  member_text(body, "AllocID"), member_text(body, "Accessor"));
        exec_start(&x, body);
        agent_lock();
        agent.sessions++;
        agent_unlock();
        converse(&x);
        agent_lock();
        agent.sessions--;
        agent_unlock();
        agent_say("exec in allocation %s ends: %d", member_text(body, "AllocID"), x.code);
    }
    clean_up(&x);
    buf_done(&session->body);
    mem_free(session);
    return NULL;
}
