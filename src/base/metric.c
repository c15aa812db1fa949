#include "base/metric.h"

/* Text, or samples. */
struct metric_out {
    struct buf *text;
    void (*take)(void *ctx, const struct metric_sample *sample);
    void *ctx;
    const char *name; /* of the metric that was started */
    enum metric_kind kind;
};

void metrics_init(struct metrics *metrics)
{
    list_init(&metrics->sources);
}

void metrics_add(struct metrics *metrics, struct metric_source *source)
{
    ASSERT(source->collect != NULL);
    list_push(&metrics->sources, &source->link);
}

static void collect(const struct metrics *metrics, struct metric_out *out)
{
    LIST_FOR (link, &metrics->sources) {
        struct metric_source *source = CONTAINER_OF(link, struct metric_source, link);
        out->name = NULL;
        source->collect(source, out);
    }
}

void metrics_write(const struct metrics *metrics, struct buf *text)
{
    struct metric_out out = {.text = text};
    collect(metrics, &out);
}

void metrics_each(const struct metrics *metrics,
                  void (*take)(void *ctx, const struct metric_sample *sample), void *ctx)
{
    struct metric_out out = {.take = take, .ctx = ctx};
    collect(metrics, &out);
}

void metric_start(struct metric_out *out, const char *name, enum metric_kind kind, const char *help)
{
    ASSERT(strchr(help, '\n') == NULL);
    out->name = name;
    out->kind = kind;
    if (out->text != NULL)
        buf_add_format(out->text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
                       kind == METRIC_COUNTER ? "counter" : "gauge");
}

void metric_value(struct metric_out *out, const char *labels, uint64_t value)
{
    ASSERT(out->name != NULL);
    if (out->text == NULL) {
        const struct metric_sample sample = {out->name, labels, out->kind, value};
        out->take(out->ctx, &sample);
        return;
    }
    buf_add_str(out->text, out->name);
    if (labels != NULL)
        buf_add_format(out->text, "{%s}", labels);
    buf_add_format(out->text, " %llu\n", (unsigned long long)value);
}

void metric_one(struct metric_out *out, const char *name, enum metric_kind kind, const char *help,
                uint64_t value)
{
    metric_start(out, name, kind, help);
    metric_value(out, NULL, value);
}
