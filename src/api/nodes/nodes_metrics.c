/* sys/metrics: metrics of this node in the text formats of Prometheus and OpenMetrics, or as JSON.
 * The pool gathers them: some are read from the disk or counted in the state. */
#include "api/nodes/nodes.h"
#include "base/metric.h"
#include "front/secrets/secrets.h"

#include <stdio.h>
#include <strings.h>
#include <time.h>

struct nodes_metrics {
    const char *format;
};

static const struct field fields[] = {
    FIELD(struct nodes_metrics, format, STRING, .preset = "",
          .help = "prometheus or openmetrics; none: the header Accept decides. Without both the "
                  "reply is JSON."),
};
static const struct schema nodes_metrics_schema = SCHEMA(struct nodes_metrics, fields);

/* `labels`: class="2xx",node="a", as given to metric_value. */
static void put_labels(struct text_writer *w, const char *labels)
{
    text_key(w, "Labels");
    text_open_object(w);
    while (labels != NULL && *labels != '\0') {
        size_t name = strcspn(labels, "=");
        const char *value = labels + name + 2; /* behind the quote */
        size_t len = 0;
        ASSERT(labels[name] == '=' && labels[name + 1] == '"');
        while (value[len] != '"' && value[len] != '\0')
            len += value[len] == '\\' && value[len + 1] != '\0' ? 2 : 1;
        text_key_bytes(w, bytes_of(labels, name));
        text_put_bytes(w, bytes_of(value, len));
        labels = value + len + (value[len] == '"');
        labels += *labels == ',';
    }
    text_close(w);
}

struct put {
    struct text_writer *w;
    enum metric_kind kind;
};

static void put_number(struct text_writer *w, const char *name, uint64_t value, bool nanos)
{
    char seconds[METRIC_SECONDS_TEXT];
    text_key(w, name);
    if (nanos)
        text_put_raw(w, bytes_str(metric_seconds_text(value, seconds)));
    else
        text_put_uint(w, value);
}

static void put_sample(void *ctx, const struct metric_sample *sample)
{
    struct put *put = ctx;
    struct text_writer *w = put->w;
    enum metric_kind kind = sample->kind == METRIC_INFO ? METRIC_GAUGE : sample->kind;
    if (kind != put->kind)
        return;
    text_open_object(w);
    text_member_str(w, "Name", sample->name);
    if (kind == METRIC_GAUGE) {
        put_number(w, "Value", sample->value, sample->nanos);
    } else {
        bool durations = kind == METRIC_HISTOGRAM;
        ASSERT(durations || kind == METRIC_COUNTER);
        put_number(w, "Count", sample->value, sample->nanos);
        put_number(w, "Sum", durations ? sample->sum_ns : sample->value,
                   durations || sample->nanos);
    }
    put_labels(w, sample->labels);
    text_close(w);
}

static void put_list(struct req *req, struct text_writer *w, const char *name,
                     enum metric_kind kind)
{
    struct put put = {w, kind};
    text_key(w, name);
    text_open_list(w);
    metrics_each(req->host->metrics, put_sample, &put);
    text_close(w);
}

static enum status reply_json(struct req *req)
{
    char now[40];
    struct tm tm;
    time_t s = (time_t)(env_wall_ms(req->env) / 1000);
    if (gmtime_r(&s, &tm) == NULL || strftime(now, sizeof now, "%F %T +0000 UTC", &tm) == 0)
        return ST_INTERNAL;
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_str(&w, "Timestamp", now);
    put_list(req, &w, "Gauges", METRIC_GAUGE);
    text_key(&w, "Points");
    text_open_list(&w);
    text_close(&w);
    put_list(req, &w, "Counters", METRIC_COUNTER);
    put_list(req, &w, "Samples", METRIC_HISTOGRAM);
    text_close(&w);
    ASSERT(w.depth == 0);
    return req_reply_end(req);
}

/* Whether the header Accept lists the type. The weights in the header are ignored: a scraper can
 * read every format that it lists. */
static bool accepts(struct bytes header, const char *type)
{
    size_t len = strlen(type);
    for (size_t i = 0; i + len <= header.len; i++)
        if (strncasecmp((const char *)header.data + i, type, len) == 0)
            return true;
    return false;
}

static enum status reply_text(struct req *req, enum metric_format format)
{
    CLEANUP(buf_done) struct buf text = {0};
    ASSERT(req->route->form == FORM_BARE);
    metrics_write(req->host->metrics, format, &text);
    TRY(buf_status(&text));
    return req_reply_raw(req,
                         format == METRIC_OPENMETRICS
                             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                             : "text/plain; version=0.0.4; charset=utf-8",
                         buf_bytes(&text));
}

static enum status nodes_metrics_outside(struct req *req)
{
    const struct nodes_metrics *in = req_body(req);
    ASSERT(!req_in_txn(req));
    if (strcmp(in->format, "openmetrics") == 0)
        return reply_text(req, METRIC_OPENMETRICS);
    if (strcmp(in->format, "prometheus") == 0)
        return reply_text(req, METRIC_PROMETHEUS);
    if (in->format[0] != '\0')
        return req_fail(req, ST_INVALID, "format: prometheus or openmetrics is expected");
    if (accepts(req->accept, "application/openmetrics-text"))
        return reply_text(req, METRIC_OPENMETRICS);
    if (accepts(req->accept, "text/plain"))
        return reply_text(req, METRIC_PROMETHEUS);
    return reply_json(req);
}

/* The row of sys/metrics and of its alias. */
#define METRICS_ROUTE(where)                                                                       \
    .method = METHOD_GET, .path = where, .handler = req_nothing_staged,                            \
    .outside = nodes_metrics_outside, .place = PLACE_NODE, .who = WHO_LISTENER, .form = FORM_BARE, \
    .body = &nodes_metrics_schema, /* Text or JSON, as the request says. */                        \
        .shape = "text|openmetrics|{Timestamp:str Gauges:[{Name:str Value:num Labels:map}] "       \
                 "Points:[any] "                                                                   \
                 "Counters:[{Name:str Count:num Sum:num Labels:map}] "                             \
                 "Samples:[{Name:str Count:int Sum:num Labels:map}]}",                             \
    .help = "Metrics of this node: JSON, or the text format of Prometheus or OpenMetrics. "        \
            "Counters begin at zero when the node starts."

static const struct route metrics_routes[] = {
    {METRICS_ROUTE("metrics")},
};

const struct route_table nodes_metrics_table = {metrics_routes, ARRAY_LEN(metrics_routes)};

static const struct route alias_routes[] = {{METRICS_ROUTE("")}};

const struct route_api nodes_metrics_api = {.dialect = &secrets_dialect,
                                            .prefix = "metrics",
                                            .alias_of = "sys/metrics",
                                            .type = "system",
                                            .routes = alias_routes,
                                            .n = ARRAY_LEN(alias_routes)};
