/* Lists, durations and options as clients give them. */
#include "api/ssh/ssh.h"
#include "text/duration.h"
#include "text/utf8.h"

#include <stdarg.h>
#include <stdio.h>

/* Whether a log or a terminal may show something else for the character: control characters, and
 * those that have no width or change the direction of what follows. */
static bool is_deceptive(uint32_t rune)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0, 0x1F},        {0x7F, 0x9F},     {0xAD, 0xAD},      {0x61C, 0x61C},
                  {0x180E, 0x180E}, {0x200B, 0x200F}, {0x2028, 0x202E},  {0x2060, 0x206F},
                  {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}};
    for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
        if (rune >= ranges[i].first && rune <= ranges[i].last)
            return true;
    return false;
}

bool ssh_is_clean(const char *text)
{
    struct bytes all = bytes_str(text);
    uint32_t rune;
    for (size_t at = 0; at < all.len;)
        if (text_utf8_next(all, &at, &rune) != ST_OK || is_deceptive(rune))
            return false;
    return true;
}

static enum status add_item(struct req *req, const char *field, const struct text_value *item,
                            struct buf *out)
{
    if (item->kind != TEXT_STRING)
        return req_fail(req, ST_INVALID, "%s: a text or a list of texts is expected", field);
    if (memchr(item->text.data, ',', item->text.len) != NULL)
        return req_fail(req, ST_INVALID, "%s: an item of a list has a comma", field);
    if (out->len != 0)
        buf_add_u8(out, ',');
    buf_add(out, item->text);
    return ST_OK;
}

enum status ssh_list_text(struct req *req, const char *field, const struct text_value *given,
                          const char **ret_text)
{
    CLEANUP(buf_done) struct buf joined = {0};
    struct bytes text = BYTES("");
    if (given != NULL && given->kind == TEXT_LIST) {
        TEXT_FOR (item, given)
            TRY(add_item(req, field, item, &joined));
        TRY(buf_status(&joined));
        text = buf_bytes(&joined);
    } else if (given != NULL && given->kind != TEXT_NULL) {
        if (given->kind != TEXT_STRING && given->kind != TEXT_NUMBER)
            return req_fail(req, ST_INVALID, "%s: a text or a list of texts is expected", field);
        text = given->text;
    }
    if (text.len > SSH_TEXT_MAX)
        return req_fail(req, ST_INVALID, "%s: more than %d bytes", field, SSH_TEXT_MAX);
    *ret_text = arena_str(req->arena, text);
    if (*ret_text == NULL)
        return ST_NOMEM;
    if (strlen(*ret_text) != text.len || !ssh_is_clean(*ret_text))
        return req_fail(req, ST_INVALID, "%s: control characters are not allowed", field);
    return ST_OK;
}

bool ssh_list_has(const struct field_strings *list, const char *item)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->items[i], item) == 0)
            return true;
    return false;
}

enum status ssh_list_items(struct req *req, const char *field, const char *text, size_t max,
                           struct field_strings *ret_items)
{
    size_t room = 1, n = 0;
    for (const char *p = text; *p != '\0'; p++)
        room += *p == ',';
    *ret_items = (struct field_strings){.given = true};
    if (text[strspn(text, " ")] == '\0')
        return ST_OK;
    if (room > max)
        return req_fail(req, ST_INVALID, "%s: more than %zu items", field, max);
    const char **items = arena_alloc(req->arena, room * sizeof *items);
    if (items == NULL)
        return ST_NOMEM;
    ret_items->items = items;
    for (const char *p = text;; p++) {
        p += strspn(p, " ");
        size_t len = strcspn(p, ","), used = len;
        while (used > 0 && p[used - 1] == ' ')
            used--;
        if (used == 0)
            return req_fail(req, ST_INVALID, "%s: an item of the list is empty", field);
        const char *item = arena_str(req->arena, bytes_of(p, used));
        if (item == NULL)
            return ST_NOMEM;
        ret_items->n = n;
        if (!ssh_list_has(ret_items, item))
            items[n++] = item;
        p += len;
        if (*p == '\0')
            break;
    }
    ret_items->n = n;
    return ST_OK;
}

enum status ssh_seconds(struct req *req, const char *field, const char *text, int64_t *ret_s)
{
    *ret_s = 0;
    if (text == NULL || text[0] == '\0')
        return ST_OK;
    if (strchr(text, 'd') != NULL)
        return req_fail(req, ST_INVALID, "%s: the largest unit is the hour", field);
    if (text_seconds_parse(bytes_str(text), ret_s) != ST_OK)
        return req_fail(req, ST_INVALID,
                        "%s: a duration in whole seconds such as 90 or \"1h30m\" is expected",
                        field);
    return ST_OK;
}

void ssh_warn(struct req *req, struct ssh_warnings *warnings, const char *format, ...)
{
    struct reason text;
    va_list args;
    if (warnings->n == ARRAY_LEN(warnings->items))
        return;
    va_start(args, format);
    int n = vsnprintf(text.text, sizeof text.text, format, args);
    va_end(args);
    ASSERT(n > 0);
    const char *kept = arena_str(req->arena, bytes_str(text.text));
    if (kept != NULL) /* without memory, the warning alone is lost */
        warnings->items[warnings->n++] = kept;
}

/* Options */

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* A list of addresses as sshd reads it (addr_match_cidr_list): blocks without blanks, names and
 * negations, whose host bits are 0. */
static bool is_source_address(const char *value)
{
    struct cidr cidr;
    for (const char *p = value;; p++) {
        size_t len = strcspn(p, ",");
        if (strspn(p, "0123456789abcdefABCDEF.:/") < len ||
            cidr_parse(bytes_of(p, len), &cidr) != ST_OK)
            return false;
        p += len;
        if (*p == '\0')
            return true;
    }
}

static enum status check_value(struct req *req, const char *field, const char *name,
                               const char *value)
{
    if (strlen(value) > SSH_OPTION_MAX)
        return req_fail(req, ST_INVALID, "%s: the value of \"%.80s\" has more than %d bytes", field,
                        name, SSH_OPTION_MAX);
    if (!ssh_is_clean(value))
        return req_fail(req, ST_INVALID, "%s: the value of \"%.80s\" has control characters", field,
                        name);
    if (strcmp(name, "force-command") == 0 && value[0] == '\0')
        return req_fail(req, ST_INVALID, "%s: force-command needs a command", field);
    if (strcmp(name, "source-address") == 0 && !is_source_address(value))
        return req_fail(req, ST_INVALID,
                        "%s: source-address: addresses and blocks such as 10.0.0.0/8 are expected, "
                        "with commas between them, without names, blanks and host bits",
                        field);
    return ST_OK;
}

enum status ssh_options_check(struct req *req, const char *field, const struct field_map *options,
                              struct ssh_warnings *warnings)
{
    static const char *const flags[] = {
        "permit-pty",
        "permit-X11-forwarding",
        "permit-agent-forwarding",
        "permit-port-forwarding",
        "permit-user-rc",
        "no-touch-required",
        "verify-required",
    };
    static const char *const critical[] = {"force-command", "source-address", "verify-required"};
    bool is_critical = strstr(field, "critical") != NULL;
    size_t bytes = 0;
    if (options->n > SSH_OPTIONS_MAX)
        return req_fail(req, ST_INVALID, "%s: more than %d options", field, SSH_OPTIONS_MAX);
    for (size_t i = 0; i < options->n; i++) {
        const char *name = options->pairs[2 * i], *value = options->pairs[2 * i + 1];
        size_t len = strlen(name);
        if (len == 0 || len > SSH_USER_MAX || !ssh_is_clean(name) || strpbrk(name, "=, ") != NULL)
            return req_fail(req, ST_INVALID,
                            "%s: \"%.80s\" is no name of an option: 1 to %d characters without "
                            "'=', ',' and spaces are expected",
                            field, name, SSH_USER_MAX);
        TRY(check_value(req, field, name, value));
        bytes += len + strlen(value);
        if (bytes > SSH_TEXT_MAX) /* sshd reads no packet above 256 KiB */
            return req_fail(req, ST_INVALID, "%s: more than %d bytes together", field,
                            SSH_TEXT_MAX);
        if (value[0] != '\0' && is_one_of(name, flags, ARRAY_LEN(flags)))
            ssh_warn(req, warnings, "%s: OpenSSH refuses \"%s\" with a value", field, name);
        if (is_critical && !is_one_of(name, critical, ARRAY_LEN(critical)))
            ssh_warn(req, warnings,
                     "%s: \"%.80s\" is unknown to OpenSSH, which refuses the certificate", field,
                     name);
    }
    return ST_OK;
}
