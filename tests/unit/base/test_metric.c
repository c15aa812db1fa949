#include "support.h"

#include "base/metric.h"

static void first(struct metric_source *source, struct metric_out *out)
{
    (void)source;
    metric_one(out, "holdfast_a_total", METRIC_COUNTER, "How many.", 18446744073709551615u);
}

static void second(struct metric_source *source, struct metric_out *out)
{
    (void)source;
    metric_start(out, "holdfast_b", METRIC_GAUGE, "How full.");
    metric_value(out, "side=\"left\"", 1);
    metric_value(out, "side=\"right\"", 2);
}

static void sources_are_written_in_the_order_added(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf text = {0};
    struct metric_source a = {.collect = first}, b = {.collect = second};
    struct metrics metrics;
    metrics_init(&metrics);
    metrics_add(&metrics, &a);
    metrics_add(&metrics, &b);
    metrics_write(&metrics, &text);
    assert_bytes(buf_bytes(&text),
                 BYTES("# HELP holdfast_a_total How many.\n# TYPE holdfast_a_total counter\n"
                       "holdfast_a_total 18446744073709551615\n"
                       "# HELP holdfast_b How full.\n# TYPE holdfast_b gauge\n"
                       "holdfast_b{side=\"left\"} 1\nholdfast_b{side=\"right\"} 2\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_are_written_in_the_order_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
