#include "base/metric.h"

#include <stdio.h>

/* Where the values of a source go: to `text` in `format`; if `text` is NULL, to `take`. */
struct metric_out {
    struct buf *text;
    enum metric_format format;
    void (*take)(void *ctx, const struct metric_sample *sample);
    void *ctx;
    const char *name; /* the metric that was started last */
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

void metrics_write(const struct metrics *metrics, enum metric_format format, struct buf *text)
{
    struct metric_out out = {.text = text, .format = format};
    collect(metrics, &out);
    if (format == METRIC_OPENMETRICS)
        buf_add(text, BYTES("# EOF\n"));
}

void metrics_each(const struct metrics *metrics,
                  void (*take)(void *ctx, const struct metric_sample *sample), void *ctx)
{
    struct metric_out out = {.take = take, .ctx = ctx};
    collect(metrics, &out);
}

/* Length of the name in the HELP and TYPE lines: OpenMetrics leaves out "_total" and "_info" there.
 */
static size_t family_len(const struct metric_out *out)
{
    size_t len = strlen(out->name);
    if (out->format == METRIC_OPENMETRICS && out->kind == METRIC_COUNTER)
        len -= sizeof "_total" - 1;
    if (out->format == METRIC_OPENMETRICS && out->kind == METRIC_INFO)
        len -= sizeof "_info" - 1;
    return len;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t len = strlen(name), n = strlen(suffix);
    return len > n && strcmp(name + len - n, suffix) == 0;
}

void metric_start(struct metric_out *out, const char *name, enum metric_kind kind, const char *help)
{
    static const char *const types[] = {[METRIC_COUNTER] = "counter",
                                        [METRIC_GAUGE] = "gauge",
                                        [METRIC_INFO] = "info",
                                        [METRIC_HISTOGRAM] = "histogram"};
    ASSERT(strpbrk(help, "\n\\\"") == NULL);
    ASSERT((kind == METRIC_COUNTER) == ends_with(name, "_total"));
    ASSERT((kind == METRIC_INFO) == ends_with(name, "_info"));
    ASSERT(kind != METRIC_HISTOGRAM || ends_with(name, "_seconds"));
    out->name = name;
    out->kind = kind;
    if (out->text == NULL)
        return;
    int len = (int)family_len(out);
    bool known = kind != METRIC_INFO || out->format == METRIC_OPENMETRICS;
    buf_add_format(out->text, "# HELP %.*s %s\n# TYPE %.*s %s\n", len, name, help, len, name,
                   types[known ? kind : METRIC_GAUGE]);
}

const char *metric_seconds_text(uint64_t ns, char text[METRIC_SECONDS_TEXT])
{
    int len =
        snprintf(text, METRIC_SECONDS_TEXT, "%llu.%09llu", (unsigned long long)(ns / 1000000000),
                 (unsigned long long)(ns % 1000000000));
    ASSERT(len > 0 && len < METRIC_SECONDS_TEXT);
    while (text[len - 1] == '0' && text[len - 2] != '.')
        text[--len] = '\0';
    return text;
}

static void put_value(struct metric_out *out, const char *labels, uint64_t value, bool nanos)
{
    char seconds[METRIC_SECONDS_TEXT];
    ASSERT(out->name != NULL && out->kind != METRIC_HISTOGRAM);
    if (out->text == NULL) {
        const struct metric_sample sample = {
            .name = out->name, .labels = labels, .kind = out->kind, .value = value, .nanos = nanos};
        out->take(out->ctx, &sample);
        return;
    }
    buf_add_str(out->text, out->name);
    if (labels != NULL)
        buf_add_format(out->text, "{%s}", labels);
    if (nanos)
        buf_add_format(out->text, " %s\n", metric_seconds_text(value, seconds));
    else
        buf_add_format(out->text, " %llu\n", (unsigned long long)value);
}

void metric_value(struct metric_out *out, const char *labels, uint64_t value)
{
    put_value(out, labels, value, false);
}

void metric_nanos(struct metric_out *out, const char *labels, uint64_t ns)
{
    put_value(out, labels, ns, true);
}

static void put_buckets(struct metric_out *out, const char *labels, const char *comma,
                        const struct histogram_sum *sum)
{
    char seconds[METRIC_SECONDS_TEXT];
    uint64_t n = 0;
    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        n += sum->counts[i];
        buf_add_format(out->text, "%s_bucket{%s%sle=\"%s\"} %llu\n", out->name, labels, comma,
                       i < HISTOGRAM_BOUNDS ? metric_seconds_text(histogram_bounds_ns[i], seconds)
                                            : "+Inf",
                       (unsigned long long)n);
    }
}

void metric_histogram(struct metric_out *out, const char *labels, const struct histogram_sum *sum)
{
    char seconds[METRIC_SECONDS_TEXT];
    uint64_t n = 0;
    ASSERT(out->name != NULL && out->kind == METRIC_HISTOGRAM);
    for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++)
        n += sum->counts[i];
    if (out->text == NULL) {
        const struct metric_sample sample = {.name = out->name,
                                             .labels = labels,
                                             .kind = out->kind,
                                             .value = n,
                                             .sum_ns = sum->sum_ns};
        out->take(out->ctx, &sample);
        return;
    }
    bool bare = labels == NULL;
    put_buckets(out, bare ? "" : labels, bare ? "" : ",", sum);
    const char *open = bare ? "" : "{", *close = bare ? "" : "}";
    buf_add_format(out->text, "%s_sum%s%s%s %s\n%s_count%s%s%s %llu\n", out->name, open,
                   bare ? "" : labels, close, metric_seconds_text(sum->sum_ns, seconds), out->name,
                   open, bare ? "" : labels, close, (unsigned long long)n);
}

void metric_one(struct metric_out *out, const char *name, enum metric_kind kind, const char *help,
                uint64_t value)
{
    metric_start(out, name, kind, help);
    metric_value(out, NULL, value);
}
