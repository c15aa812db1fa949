#include "api/platform/platform_message.h"
#include "base/status.h"
#include "text/json.h"
#include "text/time.h"

enum platform_form platform_form_of(const char *destination_type)
{
    if (strcmp(destination_type, "chat-one") == 0 || strcmp(destination_type, "slack") == 0)
        return PLATFORM_CHAT_ONE;
    if (strcmp(destination_type, "chat-two") == 0 ||
        strcmp(destination_type, "microsoft-teams") == 0)
        return PLATFORM_CHAT_TWO;
    return strcmp(destination_type, "email") == 0 ? PLATFORM_EMAIL : PLATFORM_GENERIC;
}

static void put_generic(const char *id, const char *message, struct text_writer *w)
{
    static const char *const nulls[] = {"run_url",        "run_id",           "run_message",
                                        "run_created_at", "run_created_by",   "workspace_id",
                                        "workspace_name", "organization_name"};
    static const char *const more[] = {"run_status", "run_updated_at", "run_updated_by"};
    text_open_object(w);
    text_member_int(w, "payload_version", 1);
    text_member_str(w, "notification_configuration_id", id);
    for (size_t i = 0; i < ARRAY_LEN(nulls); i++)
        text_member_null(w, nulls[i]);
    text_key(w, "notifications");
    text_open_list(w);
    text_open_object(w);
    text_member_str(w, "message", message);
    text_member_str(w, "trigger", "verification");
    for (size_t i = 0; i < ARRAY_LEN(more); i++)
        text_member_null(w, more[i]);
    text_close(w);
    text_close(w);
    text_close(w);
}

/* A text in the markup of chat-one: only three characters mean something. */
static void add_marked(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '&')
            buf_add_str(out, "&amp;");
        else if (*text == '<')
            buf_add_str(out, "&lt;");
        else if (*text == '>')
            buf_add_str(out, "&gt;");
        else
            buf_add_u8(out, (uint8_t)*text);
}

static void put_chat_one(const char *message, struct text_writer *w)
{
    CLEANUP(buf_done) struct buf text = {0};
    add_marked(&text, message);
    text_open_object(w);
    text_key(w, "text");
    text_put_bytes(w, buf_bytes(&text));
    text_key(w, "blocks");
    text_open_list(w);
    text_open_object(w);
    text_member_str(w, "type", "section");
    text_key(w, "text");
    text_open_object(w);
    text_member_str(w, "type", "mrkdwn");
    text_key(w, "text");
    text_put_bytes(w, buf_bytes(&text));
    for (unsigned i = 0; i < 4; i++)
        text_close(w);
    w->out->failed |= text.failed;
}

static void put_chat_two(const char *message, struct text_writer *w)
{
    text_open_object(w);
    text_member_str(w, "type", "message");
    text_key(w, "attachments");
    text_open_list(w);
    text_open_object(w);
    text_member_str(w, "contentType", "application/vnd.microsoft.card.adaptive");
    text_key(w, "content");
    text_open_object(w);
    text_member_str(w, "type", "AdaptiveCard");
    text_member_str(w, "version", "1.4");
    text_key(w, "body");
    text_open_list(w);
    text_open_object(w);
    text_member_str(w, "type", "TextBlock");
    text_member_bool(w, "wrap", true);
    text_member_str(w, "text", message);
    for (unsigned i = 0; i < 6; i++)
        text_close(w);
}

void platform_message_verify(enum platform_form form, const char *id, const char *name,
                             struct buf *out)
{
    CLEANUP(buf_done) struct buf message = {0};
    struct text_writer w = {.out = out};
    buf_add_str(&message, "Verification of ");
    buf_add_str(&message, name);
    buf_add_u8(&message, 0);
    if (buf_status(&message) != ST_OK) {
        out->failed = true;
        return;
    }
    const char *text = (const char *)message.data;
    switch (form) {
    case PLATFORM_CHAT_ONE: put_chat_one(text, &w); return;
    case PLATFORM_CHAT_TWO: put_chat_two(text, &w); return;
    case PLATFORM_GENERIC:
    case PLATFORM_EMAIL: put_generic(id, text, &w); return;
    }
}

/* Runs */

static void put_name_or_null(struct text_writer *w, const char *name, const char *text)
{
    text_member_str(w, name, text[0] != '\0' ? text : NULL);
}

static void run_generic(const struct platform_message *m, struct text_writer *w)
{
    text_open_object(w);
    text_member_int(w, "payload_version", 1);
    text_member_str(w, "notification_configuration_id", m->config_id);
    text_member_str(w, "run_url", m->run_url);
    text_member_str(w, "run_id", m->run_id);
    text_member_str(w, "run_message", m->run_message);
    text_member_time(w, "run_created_at", m->run_created_ms);
    put_name_or_null(w, "run_created_by", m->run_created_by);
    text_member_str(w, "workspace_id", m->workspace_id);
    text_member_str(w, "workspace_name", m->workspace_name);
    text_member_str(w, "organization_name", m->organization_name);
    text_key(w, "notifications");
    text_open_list(w);
    text_open_object(w);
    text_member_str(w, "message", m->message);
    text_member_str(w, "trigger", m->trigger);
    text_member_str(w, "run_status", m->run_status);
    text_member_time(w, "run_updated_at", m->run_updated_ms);
    put_name_or_null(w, "run_updated_by", m->run_updated_by);
    text_close(w);
    text_close(w);
    text_close(w);
}

static void add_link(struct buf *out, const char *url, const char *text)
{
    buf_add_u8(out, '<');
    add_marked(out, url);
    buf_add_u8(out, '|');
    add_marked(out, text);
    buf_add_u8(out, '>');
}

static void add_run_time(struct buf *out, int64_t ms)
{
    uint8_t text[TEXT_TIME_MAX];
    buf_add(out, bytes_of(text, text_time(ms, text)));
}

static void put_marked_block(struct text_writer *w, const struct buf *text)
{
    text_open_object(w);
    text_member_str(w, "type", "mrkdwn");
    text_key(w, "text");
    text_put_bytes(w, buf_bytes(text));
    text_close(w);
}

static void run_chat_one(const struct platform_message *m, struct text_writer *w)
{
    CLEANUP(buf_done) struct buf plain = {0}, text = {0}, foot = {0};
    add_marked(&plain, m->message);
    buf_add_str(&plain, ": ");
    add_marked(&plain, m->workspace_name);
    buf_add_u8(&plain, ' ');
    add_marked(&plain, m->run_id);
    buf_add_u8(&text, '*');
    add_marked(&text, m->message);
    buf_add_str(&text, "* in ");
    add_link(&text, m->workspace_url, m->workspace_name);
    buf_add_str(&text, ", run ");
    add_link(&text, m->run_url, m->run_id);
    buf_add_u8(&text, '\n');
    add_marked(&text, m->run_message);
    buf_add_str(&foot, "created by ");
    add_marked(&foot, m->run_created_by[0] != '\0' ? m->run_created_by : "the system");
    buf_add_str(&foot, " at ");
    add_run_time(&foot, m->run_created_ms);
    buf_add_str(&foot, "; ");
    add_marked(&foot, m->trigger);
    buf_add_str(&foot, " at ");
    add_run_time(&foot, m->run_updated_ms);
    text_open_object(w);
    text_key(w, "text");
    text_put_bytes(w, buf_bytes(&plain));
    text_key(w, "blocks");
    text_open_list(w);
    text_open_object(w);
    text_member_str(w, "type", "section");
    text_key(w, "text");
    put_marked_block(w, &text);
    text_close(w);
    text_open_object(w);
    text_member_str(w, "type", "context");
    text_key(w, "elements");
    text_open_list(w);
    put_marked_block(w, &foot);
    for (unsigned i = 0; i < 4; i++)
        text_close(w);
    w->out->failed |= plain.failed || text.failed || foot.failed;
}

static void put_fact(struct text_writer *w, const char *title, const char *value)
{
    text_open_object(w);
    text_member_str(w, "title", title);
    text_member_str(w, "value", value);
    text_close(w);
}

static void run_chat_two(const struct platform_message *m, struct text_writer *w)
{
    text_open_object(w);
    text_member_str(w, "type", "message");
    text_key(w, "attachments");
    text_open_list(w);
    text_open_object(w);
    text_member_str(w, "contentType", "application/vnd.microsoft.card.adaptive");
    text_key(w, "content");
    text_open_object(w);
    text_member_str(w, "type", "AdaptiveCard");
    text_member_str(w, "version", "1.4");
    text_key(w, "body");
    text_open_list(w);
    text_open_object(w);
    text_member_str(w, "type", "TextBlock");
    text_member_bool(w, "wrap", true);
    text_member_str(w, "text", m->message);
    text_close(w);
    text_open_object(w);
    text_member_str(w, "type", "FactSet");
    text_key(w, "facts");
    text_open_list(w);
    put_fact(w, "Organization", m->organization_name);
    put_fact(w, "Workspace", m->workspace_name);
    put_fact(w, "Run", m->run_id);
    put_fact(w, "Message", m->run_message);
    put_fact(w, "Created by", m->run_created_by[0] != '\0' ? m->run_created_by : "the system");
    put_fact(w, "Status", m->run_status);
    text_close(w);
    text_close(w);
    text_close(w);
    text_key(w, "actions");
    text_open_list(w);
    text_open_object(w);
    text_member_str(w, "type", "Action.OpenUrl");
    text_member_str(w, "title", "Open the run");
    text_member_str(w, "url", m->run_url);
    for (unsigned i = 0; i < 6; i++)
        text_close(w);
}

/* Texts of clients may contain line ends: a blank stands for each. */
static void add_mail_line(struct buf *out, const char *name, const char *text)
{
    buf_add_str(out, name);
    for (; *text != '\0'; text++)
        buf_add_u8(out, *text == '\r' || *text == '\n' ? ' ' : (uint8_t)*text);
    buf_add_str(out, "\r\n");
}

static void run_mail(const struct platform_message *m, struct buf *out)
{
    add_mail_line(out, "", m->message);
    add_mail_line(out, "", "");
    add_mail_line(out, "Organization: ", m->organization_name);
    add_mail_line(out, "Workspace: ", m->workspace_name);
    add_mail_line(out, "  ", m->workspace_url);
    add_mail_line(out, "Run: ", m->run_id);
    add_mail_line(out, "  ", m->run_url);
    add_mail_line(out, "Message: ", m->run_message);
    add_mail_line(out, "Event: ", m->trigger);
    add_mail_line(out, "Status: ", m->run_status);
    add_mail_line(out, "",
                  m->needs_action ? "Action is needed: confirm or discard the run."
                                  : "No action is needed.");
}

void platform_message_run(enum platform_form form, const struct platform_message *m,
                          struct buf *out)
{
    struct text_writer w = {.out = out};
    switch (form) {
    case PLATFORM_CHAT_ONE: run_chat_one(m, &w); return;
    case PLATFORM_CHAT_TWO: run_chat_two(m, &w); return;
    case PLATFORM_EMAIL: run_mail(m, out); return;
    case PLATFORM_GENERIC: run_generic(m, &w); return;
    }
}
