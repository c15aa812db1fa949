/* sys/monitor: the log of this node, line by line as it is written. */
#include "api/nodes/nodes.h"
#include "base/trace_tail.h"

struct monitor_in {
    const char *log_level, *log_format;
};
static const struct field monitor_fields[] = {
    FIELD(struct monitor_in, log_level, STRING, .preset = "info",
          .help = "The lowest level of the lines: trace, debug, info, warn or error."),
    FIELD(struct monitor_in, log_format, STRING, .preset = "standard",
          .help = "standard: lines for people; json: the lines of the log itself."),
};
static const struct schema nodes_monitor_schema = SCHEMA(struct monitor_in, monitor_fields);

static enum status monitor_level(struct req *req, enum trace_level *ret_level)
{
    static const struct {
        const char *word;
        enum trace_level level;
    } words[] = {{"trace", TRACE_DEBUG},
                 {"debug", TRACE_DEBUG},
                 {"info", TRACE_INFO},
                 {"warn", TRACE_WARN},
                 {"error", TRACE_ERROR}};
    const struct monitor_in *in = req_body(req);
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(words[i].word, in->log_level) != 0)
            continue;
        *ret_level = words[i].level;
        return ST_OK;
    }
    return req_fail(req, ST_INVALID,
                    "unknown log level: trace, debug, info, warn or error is "
                    "expected");
}

static enum status monitor_format(struct req *req, enum tail_format *ret_format)
{
    const struct monitor_in *in = req_body(req);
    *ret_format = strcmp(in->log_format, "json") == 0 ? TAIL_JSON : TAIL_STANDARD;
    if (*ret_format == TAIL_JSON || strcmp(in->log_format, "standard") == 0)
        return ST_OK;
    return req_fail(req, ST_INVALID, "unknown log format: standard or json is expected");
}

static enum status nodes_monitor_check(struct req *req)
{
    enum trace_level level;
    enum tail_format format;
    TRY(monitor_level(req, &level));
    return monitor_format(req, &format);
}

static enum status nodes_monitor_outside(struct req *req)
{
    enum trace_level level;
    enum tail_format format;
    ASSERT(!req_in_txn(req));
    TRY(monitor_level(req, &level));
    TRY(monitor_format(req, &format));
    enum status st = tail_open(level, format, &req->files.tail);
    if (st == ST_BUSY)
        return req_fail(req, st, "%d clients follow the log of this node already", TAIL_MAX);
    req->files.reply_type = "text/plain; charset=utf-8";
    return st;
}

static const struct route monitor_routes[] = {
    {.method = METHOD_GET,
     .path = "monitor",
     .handler = nodes_monitor_check,
     .outside = nodes_monitor_outside,
     .place = PLACE_NODE,
     .flags = ROUTE_SUDO | ROUTE_LONG,
     .body = &nodes_monitor_schema,
     .shape = "text", /* lines; the reply has no end of its own */
     .help = "The log of this node, line by line as it is written, until the client closes the "
             "connection. A client that reads too slowly loses lines, and a line tells how many."},
};

const struct route_table nodes_monitor_table = {monitor_routes, ARRAY_LEN(monitor_routes)};
