#include "api/platform/platform_message.h"
#include "base/status.h"
#include "text/json.h"

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
