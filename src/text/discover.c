#include "text/discover.h"

#include "base/bytes.h"
#include "text/value.h"

#include <string.h>

static enum status wrong(struct reason *reason, const char *what, struct bytes word)
{
    bool clean = true;
    for (size_t i = 0; i < word.len; i++)
        clean = clean && word.data[i] > ' ' && word.data[i] < 0x7F;
    reason_set(reason, "%s%.*s%s", what, clean ? (int)MIN(word.len, (size_t)64) : 0,
               (const char *)word.data, word.len != 0 && !clean ? "(unprintable)" : "");
    return ST_INVALID;
}

/* Whether the text is a host name, or an address in numbers without brackets. */
static bool is_name(struct bytes text)
{
    if (text.len == 0 || text.len >= TEXT_HOST_MAX || text.data[0] == '-')
        return false;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && (c == '\0' || strchr("-._:", c) == NULL))
            return false;
    }
    return true;
}

static enum status keep_name(struct text_discover *d, struct bytes name, struct reason *reason)
{
    if (d->name[0] != '\0')
        return wrong(reason, "name is repeated", (struct bytes){0});
    if (!is_name(name))
        return wrong(reason, "not a DNS name: ", name);
    ASSERT(name.len < sizeof d->name);
    memcpy(d->name, name.data, name.len);
    d->name[name.len] = '\0';
    return ST_OK;
}

static enum status keep_port(struct text_discover *d, struct bytes text, struct reason *reason)
{
    int64_t port;
    if (d->port != 0 || text_int_parse(text, &port) != ST_OK || port < 1 || port > UINT16_MAX)
        return wrong(reason, "port: one of 1 to 65535 is expected, not ", text);
    ASSERT(port >= 1 && port <= UINT16_MAX);
    d->port = (uint16_t)port;
    return ST_OK;
}

/* One word "KEY=VALUE". */
static enum status keep_word(struct text_discover *d, struct bytes word, bool *provider,
                             struct reason *reason)
{
    const uint8_t *equals = memchr(word.data, '=', word.len);
    if (equals == NULL)
        return wrong(reason, "KEY=VALUE is expected, not ", word);
    struct bytes key = bytes_of(word.data, (size_t)(equals - word.data));
    struct bytes value = bytes_from(word, key.len + 1);
    ASSERT(key.len + value.len + 1 == word.len);
    if (bytes_eq(key, BYTES("provider"))) {
        *provider = true;
        return bytes_eq(value, BYTES("dns"))
                   ? ST_OK
                   : wrong(reason, "only the provider dns is available, not ", value);
    }
    if (bytes_eq(key, BYTES("name")))
        return keep_name(d, value, reason);
    if (bytes_eq(key, BYTES("port")))
        return keep_port(d, value, reason);
    return wrong(reason, "provider=dns takes name and port, not ", key);
}

/* The next word; empty at the end. */
static struct bytes cut_word(struct bytes *rest)
{
    while (rest->len != 0 && rest->data[0] == ' ')
        *rest = bytes_from(*rest, 1);
    size_t n = 0;
    while (n < rest->len && rest->data[n] != ' ')
        n++;
    ASSERT(n <= rest->len);
    struct bytes word = bytes_of(rest->data, n);
    *rest = bytes_from(*rest, n);
    return word;
}

/* The provider is judged first: the other words of an unknown provider mean nothing here. */
static enum status check_provider(struct bytes text, struct reason *reason)
{
    struct bytes word;
    while ((word = cut_word(&text)).len != 0) {
        struct text_discover ignored = {.port = 0};
        bool provider = false;
        if (bytes_has_prefix(word, BYTES("provider=")))
            TRY(keep_word(&ignored, word, &provider, reason));
    }
    return ST_OK;
}

enum status text_discover_parse(const char *text, struct text_discover *ret_discover,
                                struct reason *reason)
{
    struct text_discover d = {.port = 0};
    struct bytes rest = bytes_str(text), word;
    bool provider = false;
    ASSERT(text != NULL && ret_discover != NULL);
    if (strchr(text, '=') == NULL) {
        TRY(keep_name(&d, rest, reason));
        *ret_discover = d;
        return ST_OK;
    }
    TRY(check_provider(rest, reason));
    while ((word = cut_word(&rest)).len != 0)
        TRY(keep_word(&d, word, &provider, reason));
    if (!provider || d.name[0] == '\0')
        return wrong(reason, "provider=dns name=NAME is expected", (struct bytes){0});
    ASSERT(is_name(bytes_str(d.name)));
    *ret_discover = d;
    return ST_OK;
}
