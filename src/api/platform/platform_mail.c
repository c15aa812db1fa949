#include "api/platform/platform_mail.h"
#include "out/out_mail.h"
#include "out/out_settings.h"
#include "text/time.h"

enum { CONNECT_MS = 5000, TOTAL_MS = 10000 };

void platform_mailer_of(const struct platform_object *settings, struct platform_mailer *ret_mailer)
{
    const struct text_value *attrs = settings->attrs;
    *ret_mailer = (struct platform_mailer){
        .enabled = platform_flag(attrs, "enabled"),
        .host = platform_text(attrs, "host"),
        .sender = platform_text(attrs, "sender"),
        .auth = platform_text(attrs, "auth"),
        .username = platform_text(attrs, "username"),
        .password = platform_text(attrs, "password"),
        .port = (uint16_t)platform_number(attrs, "port"),
    };
}

/* A text as the value of a header: what could end the line becomes a blank, and what is no ASCII
 * a question mark. */
static void add_value(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++)
        buf_add_u8(out, *text < 0 ? '?' : *text < ' ' || *text == 0x7f ? ' ' : (uint8_t)*text);
}

static void add_header(struct buf *out, const char *name, const char *value)
{
    buf_add_str(out, name);
    add_value(out, value);
    buf_add_str(out, "\r\n");
}

enum status platform_mail_send(const struct platform_mailer *mailer,
                               const struct platform_mail *mail, struct reason *reason)
{
    CLEANUP(buf_done) struct buf message = {0};
    uint8_t date[TEXT_HTTP_DATE_LEN];
    const char *mechanism = strcmp(mailer->auth, "plain") == 0   ? "PLAIN"
                            : strcmp(mailer->auth, "login") == 0 ? "LOGIN"
                                                                 : NULL;
    text_http_date(mail->now_ms, date);
    buf_add_str(&message, "Date: ");
    buf_add(&message, bytes_of(date, sizeof date - 3)); /* without "GMT" */
    buf_add_str(&message, "+0000\r\n");
    add_header(&message, "From: ", mailer->sender);
    add_header(&message, "To: ", mail->n_to == 1 ? mail->to[0] : "undisclosed-recipients:;");
    add_header(&message, "Subject: ", mail->subject);
    buf_add_str(&message, "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
                          "Content-Transfer-Encoding: 8bit\r\n\r\n");
    buf_add_str(&message, mail->text);
    TRY(buf_status(&message));
    const struct out_mail out = {.host = mailer->host,
                                 .port = mailer->port,
                                 .from = mailer->sender,
                                 .to = mail->to,
                                 .n_to = mail->n_to,
                                 .mechanism = mechanism,
                                 .username = mailer->username,
                                 .password = mailer->password,
                                 .message = buf_bytes(&message),
                                 .ca_file = out_settings_ca_file(),
                                 .rules = out_settings_rules(),
                                 .connect_ms = CONNECT_MS,
                                 .total_ms = TOTAL_MS};
    return out_mail_send(&out, reason);
}
