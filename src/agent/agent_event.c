/* Events of tasks (B12): the newest ten, as JSON. */
#include "agent/agent_internal.h"

#include "base/mem.h"

#include <stdio.h>

static void put_detail(struct text_writer *w, const char *name, const char *text)
{
    if (text != NULL && text[0] != '\0')
        text_member_str(w, name, text);
}

static void event_put_details(const struct event *e, struct text_writer *w)
{
    char number[32];
    text_key(w, "Details");
    text_open_object(w);
    put_detail(w, "message", e->message);
    put_detail(w, "restart_reason", e->restart_reason);
    put_detail(w, "driver_error", e->driver_error);
    put_detail(w, "setup_error", e->setup_error);
    put_detail(w, "kill_error", e->kill_error);
    put_detail(w, "failed_sibling", e->failed_sibling);
    put_detail(w, "signal", e->signal_name);
    if (e->exits) {
        (void)snprintf(number, sizeof number, "%d", e->exit_code);
        text_member_str(w, "exit_code", number);
        (void)snprintf(number, sizeof number, "%d", e->signal);
        text_member_str(w, "signal", number);
        text_member_str(w, "oom_killed", "false");
    }
    if (e->start_delay_ns != 0) {
        (void)snprintf(number, sizeof number, "%lld", (long long)e->start_delay_ns);
        text_member_str(w, "start_delay", number);
    }
    if (e->kill_timeout_ns != 0) {
        (void)snprintf(number, sizeof number, "%llds",
                       (long long)(e->kill_timeout_ns / 1000000000));
        text_member_str(w, "kill_timeout", number);
    }
    if (e->fails)
        text_member_str(w, "fails_task", "true");
    text_close(w);
}

static void put_text(struct text_writer *w, const char *name, const char *text)
{
    text_member_str(w, name, text != NULL ? text : "");
}

void task_event(struct task *task, const struct event *e)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct text_writer w = {.out = &text, .plain = true};
    text_open_object(&w);
    text_member_str(&w, "Type", e->type);
    text_member_int(&w, "Time", client_now_ms() * 1000000);
    text_member_str(&w, "DisplayMessage", e->display);
    put_text(&w, "Message", e->message);
    event_put_details(e, &w);
    text_member_int(&w, "DiskLimit", 0);
    put_text(&w, "DownloadError", NULL);
    put_text(&w, "DriverError", e->driver_error);
    put_text(&w, "DriverMessage", NULL);
    text_member_int(&w, "ExitCode", e->exit_code);
    put_text(&w, "FailedSibling", e->failed_sibling);
    text_member_bool(&w, "FailsTask", e->fails);
    put_text(&w, "GenericSource", NULL);
    put_text(&w, "KillError", e->kill_error);
    put_text(&w, "KillReason", NULL);
    text_member_int(&w, "KillTimeout", e->kill_timeout_ns);
    put_text(&w, "RestartReason", e->restart_reason);
    put_text(&w, "SetupError", e->setup_error);
    text_member_int(&w, "Signal", e->signal);
    text_member_int(&w, "StartDelay", e->start_delay_ns);
    put_text(&w, "TaskSignal", e->task_signal);
    put_text(&w, "TaskSignalReason", NULL);
    put_text(&w, "ValidationError", NULL);
    put_text(&w, "VaultError", NULL);
    text_close(&w);
    buf_add_u8(&text, 0);
    char *own = buf_status(&text) == ST_OK ? mem_strdup((const char *)text.data) : NULL;
    if (own == NULL)
        return;
    if (task->n_events == AGENT_EVENTS_MAX) {
        mem_free(task->events[0]);
        memmove(task->events, task->events + 1, (AGENT_EVENTS_MAX - 1) * sizeof task->events[0]);
        task->n_events--;
    }
    task->events[task->n_events++] = own;
    alloc_changed(task->alloc);
}
