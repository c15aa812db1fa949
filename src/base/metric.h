/* Metrics of the running program, in the text formats of Prometheus and OpenMetrics.
 *
 * A part of the program that has metrics adds a source at start-up, before other threads read the
 * registry. A scrape calls every source on the thread of the scrape. One metric name belongs to one
 * source. */
#ifndef HOLDFAST_BASE_METRIC_H
#define HOLDFAST_BASE_METRIC_H

#include "base/buf.h"
#include "base/histogram.h"
#include "base/list.h"

enum metric_kind {
    METRIC_COUNTER,   /* only grows; the name ends in "_total" */
    METRIC_GAUGE,     /* a value of this moment */
    METRIC_INFO,      /* always 1: its labels are the information; the name ends in "_info" */
    METRIC_HISTOGRAM, /* durations; the name ends in "_seconds" */
};

enum metric_format {
    METRIC_PROMETHEUS,  /* text exposition format 0.0.4 */
    METRIC_OPENMETRICS, /* OpenMetrics 1.0.0 */
};

struct metric_out;

/* Embedded in its owner. */
struct metric_source {
    void (*collect)(struct metric_source *source, struct metric_out *out);
    struct list link;
};

struct metrics {
    struct list sources;
};
/* A source is never removed: it must outlive `metrics`. */
void metrics_init(struct metrics *metrics);
void metrics_add(struct metrics *metrics, struct metric_source *source);
/* Append the values of all sources. A failed allocation shows in the status of `text`. */
void metrics_write(const struct metrics *metrics, enum metric_format format, struct buf *text);

/* One value of a metric. */
struct metric_sample {
    const char *name, *labels; /* labels as for metric_value */
    enum metric_kind kind;
    uint64_t value;  /* of a histogram: the number of durations */
    bool nanos;      /* `value` is in billionths */
    uint64_t sum_ns; /* sum of the durations of a histogram */
};
/* Give every value to `take`, in the order of metrics_write. */
void metrics_each(const struct metrics *metrics,
                  void (*take)(void *ctx, const struct metric_sample *sample), void *ctx);

/* For sources: start a metric, then add its value, or one value for each set of labels.
 *
 * name    [a-z_]+, the unit last, then the suffix that enum metric_kind names
 * help    one line that explains the metric by itself, without a quote or a backslash
 * labels  ready to print, `class="2xx"`; NULL: none */
void metric_start(struct metric_out *out, const char *name, enum metric_kind kind,
                  const char *help);
void metric_value(struct metric_out *out, const char *labels, uint64_t value);
void metric_nanos(struct metric_out *out, const char *labels, uint64_t ns); /* shown in seconds */
void metric_histogram(struct metric_out *out, const char *labels, const struct histogram_sum *sum);
/* metric_start, then metric_value without labels. */
void metric_one(struct metric_out *out, const char *name, enum metric_kind kind, const char *help,
                uint64_t value);

/* `ns` as decimal seconds without zeros at the end, "0.25"; returns `text`. */
enum { METRIC_SECONDS_TEXT = 40 };
const char *metric_seconds_text(uint64_t ns, char text[METRIC_SECONDS_TEXT]);

#endif
