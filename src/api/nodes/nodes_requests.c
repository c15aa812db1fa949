/* This node: its configuration, its loggers, its requests under way. */
#include "api/nodes/nodes.h"

struct nodes_logger {
    const char *level;
};

static enum status nodes_config_sanitized(struct req *req)
{
    const uint8_t *copy = arena_dup(req->arena, req->host->configuration);
    ASSERT(req->host->configuration.len > 0);
    if (copy == NULL)
        return ST_NOMEM;
    req_reply_json(req, bytes_of(copy, req->host->configuration.len));
    return ST_OK;
}

/* Loggers: the modules whose lines are in the log. */

static const struct field fields[] = {
    FIELD(struct nodes_logger, level, STRING, .preset = "",
          .help = "debug, info, warn or error: the lowest level that is logged."),
};
static const struct schema nodes_logger_schema = SCHEMA(struct nodes_logger, fields);

/* Upstream's words for levels. The first word of a level is the one that replies show. */
static const struct {
    const char *word;
    enum trace_level level;
} words[] = {{"debug", TRACE_DEBUG},  {"info", TRACE_INFO},   {"warn", TRACE_WARN},
             {"error", TRACE_ERROR},  {"trace", TRACE_DEBUG}, {"notice", TRACE_INFO},
             {"warning", TRACE_WARN}, {"err", TRACE_ERROR},   {"off", TRACE_OFF}};

static const char *word_of(enum trace_level level)
{
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (words[i].level == level)
            return words[i].word;
    return "off";
}

static enum status read_level(struct req *req, enum trace_level *ret_level)
{
    const struct nodes_logger *in = req_body(req);
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(words[i].word, in->level) == 0) {
            *ret_level = words[i].level;
            return ST_OK;
        }
    }
    return req_fail(req, ST_INVALID,
                    "invalid level provided: debug, info, warn, error or off is expected");
}

static bool is_module(const char *name)
{
    for (unsigned i = 0; trace_module(i) != NULL; i++)
        if (strcmp(trace_module(i), name) == 0)
            return true;
    return false;
}

static enum status check_name(struct req *req)
{
    const char *name = req_param(req, "name");
    return is_module(name) ? ST_OK
                           : req_fail(req, ST_NOT_FOUND, "logger \"%.80s\" not found", name);
}

struct logger_out {
    const char *module, *level;
};
static const struct field logger_fields[] = {FIELD_ITSELF(struct logger_out, level, STRING)};
static const struct schema logger_schema = SCHEMA_NAMED(struct logger_out, module, logger_fields);
struct loggers_out {
    struct field_list loggers;
};
static const struct field loggers_fields[] = {
    FIELD_NAMED("", struct loggers_out, loggers, OTHERS, .sub = &logger_schema),
};
static const struct schema nodes_loggers_reply = SCHEMA(struct loggers_out, loggers_fields);

static enum status nodes_loggers_read(struct req *req)
{
    size_t n = 0;
    while (trace_module((unsigned)n) != NULL)
        n++;
    ASSERT(n > 0);
    struct logger_out *out = arena_alloc(req->arena, n * sizeof *out);
    if (out == NULL)
        return ST_NOMEM;
    for (unsigned i = 0; i < n; i++) {
        const char *module = trace_module(i);
        out[i] = (struct logger_out){module, word_of(trace_level_of(module))};
    }
    return req_reply(req, &(struct loggers_out){{out, n}});
}

static enum status nodes_logger_read(struct req *req)
{
    const char *name = req_param(req, "name");
    TRY(check_name(req));
    const struct logger_out out = {name, word_of(trace_level_of(name))};
    return req_reply(req, &(struct loggers_out){{&out, 1}});
}

static enum status nodes_loggers_check(struct req *req)
{
    enum trace_level level;
    return read_level(req, &level);
}

static enum status nodes_logger_check(struct req *req)
{
    TRY(check_name(req));
    return req->method == METHOD_DELETE ? ST_OK : nodes_loggers_check(req);
}

static enum status nodes_loggers_outside(struct req *req)
{
    enum trace_level level;
    ASSERT(!req_in_txn(req));
    TRY(read_level(req, &level));
    TRY(trace_follow(NULL));
    trace_set_level(level);
    return ST_OK;
}

static enum status nodes_logger_outside(struct req *req)
{
    enum trace_level level;
    ASSERT(!req_in_txn(req));
    TRY(read_level(req, &level));
    return trace_set_level_of(req_param(req, "name"), level);
}

static enum status nodes_loggers_reset_outside(struct req *req)
{
    ASSERT(!req_in_txn(req));
    trace_set_level(req->host->log_level);
    return trace_follow(NULL);
}

static enum status nodes_logger_reset_outside(struct req *req)
{
    ASSERT(!req_in_txn(req));
    return trace_follow(req_param(req, "name"));
}

struct inflight_out {
    struct field_list requests;
};
static const struct field inflight_fields[] = {
    FIELD_NAMED("", struct inflight_out, requests, OTHERS, .sub = &router_inflight_schema),
};
static const struct schema nodes_inflight_reply = SCHEMA(struct inflight_out, inflight_fields);

/* The members of the reply come from the workers, one after the other. */
static enum status nodes_inflight_outside(struct req *req)
{
    struct text_writer w = req_reply_begin(req);
    ASSERT(!req_in_txn(req));
    text_open_object(&w);
    TRY(req->host->inflight(req->host, &w));
    text_close(&w);
    ASSERT(w.depth == 0);
    return req_reply_end(req);
}

static const struct route node_routes[] = {
    {.method = METHOD_GET,
     .path = "config/state/sanitized",
     .handler = nodes_config_sanitized,
     .place = PLACE_NODE,
     .shape = "{*:any}", /* the names of settings, which the server has written */
     .help = "The configuration of this node, without secrets."},
    {.method = METHOD_GET,
     .path = "in-flight-req",
     .handler = req_nothing_staged,
     .outside = nodes_inflight_outside,
     .place = PLACE_NODE,
     .form = FORM_BARE,
     .reply = &nodes_inflight_reply,
     .help = "The requests under way on this node, by their ids; also requests that other nodes "
             "forwarded."},
    {.method = METHOD_GET,
     .path = "loggers",
     .handler = nodes_loggers_read,
     .place = PLACE_NODE,
     .reply = &nodes_loggers_reply,
     .help = "The lowest level that each module of this node logs."},
    {.method = METHOD_POST,
     .path = "loggers",
     .handler = nodes_loggers_check,
     .outside = nodes_loggers_outside,
     .place = PLACE_NODE,
     .body = &nodes_logger_schema,
     .help = "Set the lowest level that all modules of this node log, until the node ends."},
    {.method = METHOD_DELETE,
     .path = "loggers",
     .handler = req_nothing_staged,
     .outside = nodes_loggers_reset_outside,
     .place = PLACE_NODE,
     .help = "Set the log levels of this node back to the configuration."},
    {.method = METHOD_GET,
     .path = "loggers/:name",
     .handler = nodes_logger_read,
     .place = PLACE_NODE,
     .reply = &nodes_loggers_reply,
     .help = "The lowest level that a module of this node logs."},
    {.method = METHOD_POST,
     .path = "loggers/:name",
     .handler = nodes_logger_check,
     .outside = nodes_logger_outside,
     .place = PLACE_NODE,
     .body = &nodes_logger_schema,
     .help = "Set the lowest level that a module of this node logs, until the node ends."},
    {.method = METHOD_DELETE,
     .path = "loggers/:name",
     .handler = nodes_logger_check,
     .outside = nodes_logger_reset_outside,
     .place = PLACE_NODE,
     .help = "Let a module of this node log like the others."},
};

const struct route_table nodes_requests_table = {node_routes, ARRAY_LEN(node_routes)};
