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
    metrics_write(&metrics, METRIC_PROMETHEUS, &text);
    assert_bytes(buf_bytes(&text),
                 BYTES("# HELP holdfast_a_total How many.\n# TYPE holdfast_a_total counter\n"
                       "holdfast_a_total 18446744073709551615\n"
                       "# HELP holdfast_b How full.\n# TYPE holdfast_b gauge\n"
                       "holdfast_b{side=\"left\"} 1\nholdfast_b{side=\"right\"} 2\n"));
}

static struct histogram latency;

static void third(struct metric_source *source, struct metric_out *out)
{
    struct histogram_sum sum = {0};
    (void)source;
    histogram_sum_add(&sum, &latency);
    metric_start(out, "holdfast_wait_seconds", METRIC_HISTOGRAM, "How long.");
    metric_histogram(out, "class=\"a\"", &sum);
    metric_start(out, "holdfast_build_info", METRIC_INFO, "Which.");
    metric_value(out, "version=\"1\"", 1);
    metric_start(out, "holdfast_age_seconds", METRIC_GAUGE, "How old.");
    metric_nanos(out, NULL, 1250000000);
    metric_nanos(out, "of=\"now\"", 0);
}

static void assert_has(const struct buf *text, const char *part)
{
    assert_non_null(memmem(text->data, text->len, part, strlen(part)));
}

static void a_duration_counts_in_the_bucket_whose_bound_it_does_not_exceed(void **ctx)
{
    (void)ctx;
    latency = (struct histogram){0};
    histogram_add(&latency, 0);
    histogram_add(&latency, 100000); /* a bound belongs to its bucket */
    histogram_add(&latency, 100001);
    histogram_add(&latency, UINT64_C(20000000000));
    assert_int_equal(latency.counts[0], 2);
    assert_int_equal(latency.counts[1], 1);
    assert_int_equal(latency.counts[HISTOGRAM_BOUNDS], 1);
    assert_int_equal(latency.sum_ns, 20000200001);
}

static void a_histogram_is_cumulative_and_in_seconds(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf text = {0};
    struct metric_source source = {.collect = third};
    struct metrics metrics;
    latency = (struct histogram){0};
    histogram_add(&latency, 200000);
    histogram_add(&latency, 1500000000);
    histogram_add(&latency, UINT64_C(20000000000));
    metrics_init(&metrics);
    metrics_add(&metrics, &source);
    metrics_write(&metrics, METRIC_PROMETHEUS, &text);
    assert_has(&text, "# TYPE holdfast_wait_seconds histogram\n"
                      "holdfast_wait_seconds_bucket{class=\"a\",le=\"0.0001\"} 0\n"
                      "holdfast_wait_seconds_bucket{class=\"a\",le=\"0.00025\"} 1\n");
    assert_has(&text, "le=\"1.0\"} 1\nholdfast_wait_seconds_bucket{class=\"a\",le=\"2.5\"} 2\n");
    assert_has(&text, "le=\"+Inf\"} 3\nholdfast_wait_seconds_sum{class=\"a\"} 21.5002\n"
                      "holdfast_wait_seconds_count{class=\"a\"} 3\n");
    assert_has(&text, "# TYPE holdfast_build_info gauge\nholdfast_build_info{version=\"1\"} 1\n");
    assert_has(&text, "holdfast_age_seconds 1.25\nholdfast_age_seconds{of=\"now\"} 0.0\n");
}

static void openmetrics_declares_families_without_suffixes_and_ends(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf text = {0};
    struct metric_source a = {.collect = first}, b = {.collect = third};
    struct metrics metrics;
    metrics_init(&metrics);
    metrics_add(&metrics, &a);
    metrics_add(&metrics, &b);
    metrics_write(&metrics, METRIC_OPENMETRICS, &text);
    assert_has(&text, "# HELP holdfast_a How many.\n# TYPE holdfast_a counter\n"
                      "holdfast_a_total 18446744073709551615\n");
    assert_has(&text, "# TYPE holdfast_build info\nholdfast_build_info{version=\"1\"} 1\n");
    assert_true(text.len > 6 && memcmp(text.data + text.len - 6, "# EOF\n", 6) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_duration_counts_in_the_bucket_whose_bound_it_does_not_exceed),
        cmocka_unit_test(a_histogram_is_cumulative_and_in_seconds),
        cmocka_unit_test(openmetrics_declares_families_without_suffixes_and_ends),
        cmocka_unit_test(sources_are_written_in_the_order_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
