#include "front/client_addr.h"
#include "http/names.h"

#include <assert.h>

enum { VALUES_MAX = 16 };

/* Remove the last entry of a list separated by commas. *left: another entry may follow. */
static bool take_last(struct bytes *list, bool *left, struct bytes *ret_entry)
{
    if (!*left)
        return false;
    size_t before = list->len;
    const uint8_t *comma = list->len > 0 ? memrchr(list->data, ',', list->len) : NULL;
    size_t at = comma != NULL ? (size_t)(comma - list->data) + 1 : 0;
    *ret_entry = http_trimmed(bytes_from(*list, at));
    *left = comma != NULL;
    list->len = comma != NULL ? at - 1 : 0;
    /* each step shortens the list, so that a loop over it ends */
    ASSERT(!*left || list->len < before);
    return true;
}

/* Find the entry that stands `skips` entries before the last one of all values. */
static bool find_entry(const struct bytes *values, size_t n, int64_t skips, struct bytes *ret_entry)
{
    ASSERT(skips >= 0);
    for (size_t i = n; i-- > 0;) {
        struct bytes list = values[i];
        bool left = true;
        while (take_last(&list, &left, ret_entry))
            if (skips-- == 0)
                return true;
    }
    return false;
}

static bool is_authorized(const struct client_rule *rule, const struct ip *ip)
{
    for (size_t i = 0; i < rule->n; i++)
        if (cidr_holds(&rule->authorized[i], ip))
            return true;
    return false;
}

enum status client_addr_choose(const struct client_rule *rule, const struct bytes *values, size_t n,
                               char peer[static HTTP_PEER_TEXT], struct reason *reason)
{
    struct ip direct, client;
    struct bytes entry;
    uint16_t port, own_port;

    ASSERT(n <= VALUES_MAX);
    if (n == 0) {
        reason_set(reason, "missing x-forwarded-for header and configured to reject when not "
                           "present");
        return rule->reject_not_present ? ST_INVALID : ST_OK;
    }
    if (ip_port_parse(bytes_str(peer), &direct, &own_port) != ST_OK ||
        !is_authorized(rule, &direct)) {
        reason_set(reason, "client address not authorized for x-forwarded-for and configured to "
                           "reject connection");
        return rule->reject_not_authorized ? ST_INVALID : ST_OK;
    }
    if (!find_entry(values, n, rule->hop_skips, &entry)) {
        reason_set(reason,
                   "malformed x-forwarded-for configuration or request, hops to skip (%lld) would "
                   "skip before earliest chain link",
                   (long long)rule->hop_skips);
        return ST_INVALID;
    }
    if (ip_port_parse(entry, &client, &port) != ST_OK) {
        reason_set(reason, "malformed x-forwarded-for header: an address is expected");
        return ST_INVALID;
    }
    ip_port_put(&client, port != 0 ? port : own_port, peer);
    return ST_OK;
}

enum status client_addr_find(const struct client_rule *rule, const struct http_request *req,
                             char peer[static HTTP_PEER_TEXT], struct reason *reason)
{
    struct bytes values[VALUES_MAX], value;
    size_t n = 0, at = 0;
    static_assert((int)IP_PORT_TEXT <= (int)HTTP_PEER_TEXT, "every address fits");
    if (rule == NULL || rule->n == 0)
        return ST_OK;
    while (http_header_next(req, "x-forwarded-for", &at, &value)) {
        if (n == VALUES_MAX) {
            reason_set(reason, "more than %d x-forwarded-for headers", VALUES_MAX);
            return ST_INVALID;
        }
        values[n++] = value;
    }
    return client_addr_choose(rule, values, n, peer, reason);
}
