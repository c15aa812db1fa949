/* sys/metrics: figures of this node, as Prometheus reads them or as JSON. */
#include "api/sys/sys.h"
#include "base/metric.h"

#include <stdio.h>
#include <time.h>

static const struct field fields[] = {
    FIELD(struct sys_metrics, format, STRING, .preset = "",
          .help = "prometheus, for its text format; else JSON."),
};
const struct schema sys_metrics_schema = SCHEMA(struct sys_metrics, fields);

/* code="2xx",node="a": what metric_value was given. */
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

static void put_sample(void *ctx, const struct metric_sample *sample)
{
    struct put *put = ctx;
    struct text_writer *w = put->w;
    if (sample->kind != put->kind)
        return;
    text_open_object(w);
    text_member_str(w, "Name", sample->name);
    if (sample->kind == METRIC_GAUGE) {
        text_key(w, "Value");
        text_put_uint(w, sample->value);
    } else {
        text_key(w, "Count");
        text_put_uint(w, sample->value);
        text_key(w, "Sum");
        text_put_uint(w, sample->value);
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

static void put_none(struct text_writer *w, const char *name)
{
    text_key(w, name);
    text_open_list(w);
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
    put_none(&w, "Points");
    put_list(req, &w, "Counters", METRIC_COUNTER);
    put_none(&w, "Samples");
    text_close(&w);
    return req_reply_end(req);
}

enum status sys_metrics(struct req *req)
{
    const struct sys_metrics *in = req_body(req);
    CLEANUP(buf_done) struct buf text = {0};
    if (in->format[0] == '\0')
        return reply_json(req);
    if (strcmp(in->format, "prometheus") != 0)
        return req_fail(req, ST_INVALID, "format: prometheus, or nothing");
    metrics_write(req->host->metrics, &text);
    TRY(buf_status(&text));
    return req_reply_raw(req, "text/plain; version=0.0.4; charset=utf-8", buf_bytes(&text));
}
