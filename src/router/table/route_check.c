/* Rows that make no sense are refused when the server starts, not when a client finds them. */
#include "router/table/route.h"

static bool reads_by_method(const struct route *route)
{
    return route->method == METHOD_GET || route->method == METHOD_HEAD ||
           route->method == METHOD_LIST || route->method == METHOD_SCAN ||
           route->method == METHOD_OPTIONS;
}

static bool has_no_txn(const struct route *route)
{
    ASSERT(route->place <= PLACE_LEADER);
    return route->place == PLACE_NODE && (route_is_open(route) || route->who == WHO_LISTENER);
}

static const char *steps_fault(const struct route *route)
{
    bool reads = reads_by_method(route) || (route->flags & ROUTE_READS) != 0;
    ASSERT(route->place <= PLACE_LEADER);
    bool active = route->place == PLACE_ACTIVE;
    if (route->prepare != NULL || route->finish != NULL)
        if (route->place == PLACE_NODE || route->place == PLACE_ACTIVE_OR_LOCAL)
            return "prepare and finish need a place with a transaction and a commit";
    if (route->finish != NULL && route->outside == NULL)
        return "finish needs outside";
    if (route->finish != NULL && reads && !active)
        return "finish commits, so a row that reads needs PLACE_ACTIVE";
    if (route->waits != NULL && route->outside == NULL)
        return "waits needs outside";
    if (route->ends_with_client && route->outside == NULL)
        return "ends_with_client is about outside";
    if (route->is_slow && route->outside == NULL && route->prepare == NULL)
        return "is_slow is about prepare and outside";
    if ((route->flags & ROUTE_CREATES) != 0 &&
        (route->method != METHOD_POST || route->exists != NULL || route->caps != 0))
        return "ROUTE_CREATES needs a POST without exists and capabilities of its own";
    if (route->exists != NULL && (route->method != METHOD_POST || has_no_txn(route)))
        return "exists needs a POST with a transaction";
    return NULL;
}

static const char *who_fault(const struct route *route)
{
    bool open = route_is_open(route);
    ASSERT(route->who <= WHO_CEREMONY);
    if (open && (route->caps != 0 || (route->flags & ROUTE_SUDO) != 0) &&
        route->who != WHO_CEREMONY)
        return "a row for everyone asks for no capability";
    if (open && route->rule_path != NULL)
        return "a row for everyone has no path for rules";
    if (route->who == WHO_LISTENER && route->place != PLACE_NODE)
        return "WHO_LISTENER needs PLACE_NODE: without a token there is no transaction";
    if (route->who == WHO_DR_TOKEN && (route->when & WHEN_SECONDARY) != 0)
        return "WHO_DR_TOKEN implies WHEN_SECONDARY";
    if ((route->who == WHO_ANY_TOKEN || route->who == WHO_OPTIONAL) && route->caps != 0)
        return "a row for every token asks for no capability";
    return NULL;
}

static const char *reply_fault(const struct route *route)
{
    bool reads = reads_by_method(route);
    ASSERT(route->index <= INDEX_VERSION && route->form <= FORM_TOKEN);
    if (route->index == INDEX_BLOCKS && !reads)
        return "INDEX_BLOCKS needs a method that reads";
    if (route->index == INDEX_VERSION && (reads || (route->flags & ROUTE_READS) != 0))
        return "INDEX_VERSION needs a write";
    if (route->form == FORM_TOKEN && route->reply != NULL)
        return "FORM_TOKEN has no reply schema";
    if (route->reply != NULL && route->shape != NULL && route->kind != ROW_SERVES)
        return "a row that only refuses has no reply";
    return NULL;
}

static const char *place_fault(const struct route *route)
{
    ASSERT(route->input <= INPUT_UPLOAD);
    if ((route->when & WHEN_UNINITIALIZED) != 0 && route->place != PLACE_NODE)
        return "WHEN_UNINITIALIZED needs PLACE_NODE: there is no state yet";
    if ((route->when & WHEN_MAINTENANCE) != 0 && route->place == PLACE_NODE)
        return "PLACE_NODE implies WHEN_MAINTENANCE";
    if (route->place == PLACE_STAYS && !reads_by_method(route))
        return "PLACE_STAYS needs a method that reads";
    if (route->input == INPUT_UPLOAD && (reads_by_method(route) || route->place == PLACE_NODE))
        return "INPUT_UPLOAD needs a write that runs in the cluster";
    if (route->input != INPUT_UPLOAD && route->upload_bytes_max != NULL)
        return "upload_bytes_max is about INPUT_UPLOAD";
    if (route->input == INPUT_UPLOAD && (route->body != NULL || route->outside == NULL))
        return "INPUT_UPLOAD has no fields, and outside takes the file";
    return NULL;
}

static const char *method_fault(const struct route *route)
{
    ASSERT(route->method < METHODS);
    if ((route->flags & ROUTE_READS) != 0 && reads_by_method(route))
        return "ROUTE_READS is for methods that write";
    if ((route->flags & ROUTE_HEAD) != 0 && route->method != METHOD_GET)
        return "ROUTE_HEAD needs GET";
    if ((route->flags & ROUTE_SCANS) != 0 && route->method != METHOD_LIST)
        return "ROUTE_SCANS needs LIST";
    if (route->handler == NULL)
        return "a handler is missing";
    return NULL;
}

/* A pattern has literals, then parameters and literals in any order; a rest comes last, or stands
 * before literals that end the pattern. */
static const char *pattern_fault(const struct route *route)
{
    unsigned params = 0;
    bool rest = false;
    size_t len = strlen(route->path);
    if (len != 0 && (route->path[0] == '/' || route->path[len - 1] == '/'))
        return "a pattern has no '/' at an end";
    for (const char *at = route->path; *at != '\0';) {
        size_t n = strcspn(at, "/");
        bool named = *at == ':' || route_is_rest(at);
        if (n == 0 || (named && n == 1))
            return "a pattern has an empty segment or name";
        if (named && rest)
            return "a pattern has literals only after a rest";
        if (*at == '+' && at[n] != '\0')
            return "+name ends a pattern; *name before a literal is never empty";
        rest = rest || route_is_rest(at);
        params += named;
        at += n + (at[n] == '/');
    }
    return params <= ROUTE_PARAMS_MAX ? NULL : "a pattern has too many parameters";
}

enum status route_check(const struct route *route, struct reason *why)
{
    static const char *(*const checks[])(const struct route *route) = {
        pattern_fault, method_fault, place_fault, who_fault, steps_fault, reply_fault};
    ASSERT(route->path != NULL);
    for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
        const char *fault = checks[i](route);
        if (fault == NULL)
            continue;
        reason_set(why, "route %s %s: %s", http_method_name(route->method), route->path, fault);
        return ST_INVALID;
    }
    return ST_OK;
}
