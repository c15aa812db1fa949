/* Numbers about the running program, in Prometheus' text format.
 *
 * Owners of numbers add a source at start-up, before other threads read the registry; a scrape
 * calls every source on the thread that asks. One metric name belongs to one source. */
#ifndef HOLDFAST_BASE_METRIC_H
#define HOLDFAST_BASE_METRIC_H

#include "base/buf.h"
#include "base/list.h"

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE };

struct metric_out;

/* Embedded in its owner; must not block. */
struct metric_source {
    void (*collect)(struct metric_source *source, struct metric_out *out);
    struct list link;
};

struct metrics {
    struct list sources;
};
void metrics_init(struct metrics *metrics);
void metrics_add(struct metrics *metrics, struct metric_source *source);
/* Append all of it. Failures of memory are kept in `text`. */
void metrics_write(const struct metrics *metrics, struct buf *text);

/* One value: `labels` as in metric_value. */
struct metric_sample {
    const char *name, *labels;
    enum metric_kind kind;
    uint64_t value;
};
/* Give all of them to `take`, in the same order. */
void metrics_each(const struct metrics *metrics,
                  void (*take)(void *ctx, const struct metric_sample *sample), void *ctx);

/* For sources. `name` is [a-z_]+ with a unit last and "_total" for counters; `help` is one line.
 * Samples of one name follow each other: start it, then add one value, or one for each set of
 * labels, given ready to print: `code="2xx"`, NULL for none. */
void metric_start(struct metric_out *out, const char *name, enum metric_kind kind,
                  const char *help);
void metric_value(struct metric_out *out, const char *labels, uint64_t value);
/* Both for a single value. */
void metric_one(struct metric_out *out, const char *name, enum metric_kind kind, const char *help,
                uint64_t value);

#endif
