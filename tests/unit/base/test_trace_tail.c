/* Followers of the log. */
#include "support.h"

#include "base/trace_tail.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int kept_stderr;

static int mute(void **ctx)
{
    (void)ctx;
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    kept_stderr = dup(STDERR_FILENO);
    assert_true(null >= 0 && kept_stderr >= 0);
    assert_int_equal(dup2(null, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(close(null), 0);
    return 0;
}

static int unmute(void **ctx)
{
    (void)ctx;
    trace_set_level(TRACE_INFO);
    assert_int_equal(dup2(kept_stderr, STDERR_FILENO), STDERR_FILENO);
    return close(kept_stderr);
}

static struct tail *follow(enum trace_level level, enum tail_format format)
{
    struct tail *tail = NULL;
    assert_status(tail_open(level, format, &tail), ST_OK);
    return tail;
}

static char said[2 * TAIL_BYTES];

/* All lines that the follower has. */
static const char *take(struct tail *tail)
{
    size_t n = 0, got;
    while ((got = tail_take(tail, said + n, TRACE_LINE_MAX)) != 0)
        n += got;
    said[n] = '\0';
    return said;
}

static void a_follower_gets_lines_of_its_level_whatever_the_log_writes(void **ctx)
{
    (void)ctx;
    trace_set_level(TRACE_ERROR);
    trace(TRACE_ERROR, "main", "before");
    struct tail *debug = follow(TRACE_DEBUG, TAIL_STANDARD), *warn = follow(TRACE_WARN, TAIL_JSON);
    assert_int_equal(tail_lowest(), TRACE_DEBUG);
    trace(TRACE_DEBUG, "raft", "low \"%d\"\n", 1);
    trace(TRACE_WARN, "node", "high");
    const char *text = take(debug);
    assert_null(strstr(text, "before"));
    assert_non_null(strstr(text, "Z [DEBUG] raft: low \\\"1\\\"\\u000a\n"));
    assert_non_null(strstr(text, "Z [WARN]  node: high\n"));
    assert_string_equal(take(debug), "");
    text = take(warn);
    assert_null(strstr(text, "low"));
    assert_non_null(
        strstr(text, "\"@level\":\"warn\",\"@module\":\"node\",\"@message\":\"high\"}\n"));
    tail_close(debug);
    assert_int_equal(tail_lowest(), TRACE_WARN);
    tail_close(warn);
    assert_int_equal(tail_lowest(), TRACE_OFF);
    tail_close(NULL);
}

static void a_follower_that_does_not_read_loses_lines_and_hears_how_many(void **ctx)
{
    (void)ctx;
    struct tail *tail = follow(TRACE_INFO, TAIL_STANDARD);
    char line[1001] = {0};
    memset(line, 'a', sizeof line - 1);
    for (int i = 0; i < 400; i++)
        trace(TRACE_INFO, "main", "%s", line);
    size_t bytes = strlen(take(tail)), kept = 0;
    assert_in_range(bytes, TAIL_BYTES - 2048, TAIL_BYTES);
    for (const char *at = said; (at = strchr(at, '\n')) != NULL; at++)
        kept++;
    assert_in_range(kept, 200, 399);
    assert_null(strstr(said, "lost"));
    trace(TRACE_INFO, "main", "the next");
    char note[128];
    (void)snprintf(note, sizeof note, "[WARN]  sys: %zu lines lost: this client reads too slowly\n",
                   400 - kept);
    assert_non_null(strstr(take(tail), note));
    assert_non_null(strstr(said, "main: the next\n"));
    tail_close(tail);
}

static void lines_stay_whole_when_memory_is_reused(void **ctx)
{
    (void)ctx;
    struct tail *tail = follow(TRACE_INFO, TAIL_JSON);
    unsigned next = 0, seen = 0;
    static char piece[TRACE_LINE_MAX + 1];
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 30; i++)
            trace(TRACE_INFO, "main", "number %u %0500d", next++, 0);
        size_t n;
        for (int i = 0; i < 5 && (n = tail_take(tail, piece, TRACE_LINE_MAX)) != 0; i++) {
            piece[n] = '\0';
            assert_int_equal(piece[0], '{');
            assert_int_equal(piece[n - 1], '\n');
            seen++;
        }
    }
    assert_int_equal(seen, 1000);
    tail_close(tail);
}

static void there_is_a_most_of_followers(void **ctx)
{
    (void)ctx;
    struct tail *tails[TAIL_MAX], *more = NULL;
    for (unsigned i = 0; i < TAIL_MAX; i++)
        tails[i] = follow(TRACE_INFO, TAIL_JSON);
    assert_status(tail_open(TRACE_INFO, TAIL_JSON, &more), ST_BUSY);
    assert_null(more);
    tail_close(tails[3]);
    tails[3] = follow(TRACE_INFO, TAIL_JSON);
    for (unsigned i = 0; i < TAIL_MAX; i++)
        tail_close(tails[i]);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, mute, unmute)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_follower_gets_lines_of_its_level_whatever_the_log_writes),
        TEST(a_follower_that_does_not_read_loses_lines_and_hears_how_many),
        TEST(lines_stay_whole_when_memory_is_reused),
        TEST(there_is_a_most_of_followers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
