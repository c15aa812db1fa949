/* Checks of texts, for the tables of kinds (platform_kinds.h). Each returns what is wrong. */
#include "api/platform/platform_kinds.h"

static bool is_letter_or_digit(uint8_t c)
{
    return ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c >= '0' && c <= '9');
}

const char *platform_check_name(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!is_letter_or_digit(text.data[i]) && text.data[i] != '-' && text.data[i] != '_')
            return "can only have letters, digits, '-' and '_'";
    return NULL;
}

const char *platform_check_project_name(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!is_letter_or_digit(text.data[i]) && strchr("-_ ", text.data[i]) == NULL)
            return "can only have letters, digits, spaces, '-' and '_'";
    bool blank = text.len != 0 && (text.data[0] == ' ' || text.data[text.len - 1] == ' ');
    return blank ? "cannot begin or end with a space" : NULL;
}

/* One address, without a name: nothing in it can end a line of a mail's head or begin another
 * recipient. */
const char *platform_check_email(struct bytes text)
{
    static const char fault[] = "is not an e-mail address";
    const uint8_t *at = memchr(text.data, '@', text.len);
    if (text.len == 0)
        return NULL;
    if (at == NULL || at == text.data || at + 1 == text.data + text.len ||
        memchr(at + 1, '@', text.len - (size_t)(at + 1 - text.data)) != NULL)
        return fault;
    for (size_t i = 0; i < text.len; i++)
        if (!is_letter_or_digit(text.data[i]) &&
            (text.data[i] == '\0' || strchr("@.!#$%&'*+-/=?^_`{|}~", text.data[i]) == NULL))
            return fault;
    return NULL;
}

const char *platform_check_url(struct bytes text)
{
    bool http = bytes_has_prefix(text, BYTES("http://")) && text.len > 7;
    bool https = bytes_has_prefix(text, BYTES("https://")) && text.len > 8;
    if (text.len == 0)
        return NULL;
    if (!http && !https)
        return "must begin with http:// or https://";
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] <= ' ' || text.data[i] > '~')
            return "has a blank, or a character that must be percent-encoded";
    return NULL;
}
