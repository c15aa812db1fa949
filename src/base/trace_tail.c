#include "base/trace_tail.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct tail {
    enum trace_level level;
    enum tail_format format;
    uint64_t lost;     /* lines since the last line that was kept */
    size_t start, end; /* the lines lie at lines[start .. end) */
    uint8_t lines[TAIL_BYTES];
};

/* Guards the table and the content of every follower. Held for copies of memory only. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tail *tails[TAIL_MAX];
static _Atomic enum trace_level lowest = TRACE_OFF;

static void take_lock(void)
{
    int failed = pthread_mutex_lock(&lock);
    ASSERT(failed == 0);
}

static void give_lock(void)
{
    int failed = pthread_mutex_unlock(&lock);
    ASSERT(failed == 0);
}

/* The table has changed. */
static void find_lowest(void)
{
    enum trace_level level = TRACE_OFF;
    for (unsigned i = 0; i < TAIL_MAX; i++)
        if (tails[i] != NULL && tails[i]->level < level)
            level = tails[i]->level;
    lowest = level;
}

enum trace_level tail_lowest(void)
{
    return lowest;
}

enum status tail_open(enum trace_level level, enum tail_format format, struct tail **ret_tail)
{
    struct tail *tail = mem_zalloc(sizeof *tail);
    unsigned i = 0;
    ASSERT(level < TRACE_OFF);
    if (tail == NULL)
        return ST_NOMEM;
    tail->level = level;
    tail->format = format;
    take_lock();
    while (i < TAIL_MAX && tails[i] != NULL)
        i++;
    if (i < TAIL_MAX) {
        tails[i] = tail;
        find_lowest();
    }
    give_lock();
    if (i == TAIL_MAX) {
        mem_free(tail);
        return ST_BUSY;
    }
    *ret_tail = tail;
    return ST_OK;
}

void tail_close(struct tail *tail)
{
    unsigned i = 0;
    if (tail == NULL)
        return;
    take_lock();
    while (i < TAIL_MAX && tails[i] != tail)
        i++;
    ASSERT(i < TAIL_MAX);
    tails[i] = NULL;
    find_lowest();
    give_lock();
    mem_free(tail);
}

static void put(struct tail *tail, struct bytes line)
{
    ASSERT(line.len <= TAIL_BYTES - tail->end);
    memcpy(tail->lines + tail->end, line.data, line.len);
    tail->end += line.len;
}

/* Keep a line, behind a line that counts those lost before it, or lose it. Whole lines are kept. */
static void keep_line(struct tail *tail, const char *stamp, struct bytes line)
{
    char note[256];
    size_t n = 0;
    if (tail->lost != 0) {
        const char *form = tail->format == TAIL_JSON
                               ? "{\"@timestamp\":\"%s\",\"@level\":\"warn\",\"@module\":\"sys\","
                                 "\"@message\":\"%llu lines lost: this client reads too slowly\"}\n"
                               : "%s [WARN]  sys: %llu lines lost: this client reads too slowly\n";
        n = (size_t)snprintf(note, sizeof note, form, stamp, (unsigned long long)tail->lost);
        ASSERT(n < sizeof note);
    }
    if (tail->start != 0 && n + line.len > TAIL_BYTES - tail->end) {
        memmove(tail->lines, tail->lines + tail->start, tail->end - tail->start);
        tail->end -= tail->start;
        tail->start = 0;
    }
    if (n + line.len > TAIL_BYTES - tail->end) {
        tail->lost++;
        return;
    }
    if (n != 0)
        put(tail, bytes_of(note, n));
    tail->lost = 0;
    put(tail, line);
}

size_t tail_put_text(char line[TRACE_LINE_MAX], enum trace_level level, const char *module,
                     const char *stamp, const char *text)
{
    static const char *const names[] = {"[DEBUG]", "[INFO] ", "[WARN] ", "[ERROR]"};
    ASSERT(level < ARRAY_LEN(names));
    int n = snprintf(line, TRACE_LINE_MAX, "%s %s %s: %s\n", stamp, names[level], module, text);
    ASSERT(n > 0);
    ASSERT(strchr(text, '\n') == NULL); /* a line stays one line */
    if (n >= TRACE_LINE_MAX) {
        n = TRACE_LINE_MAX - 1;
        line[n - 1] = '\n';
    }
    return (size_t)n;
}

void tail_give(enum trace_level level, const char *module, const char *stamp, const char *text,
               struct bytes json)
{
    char line[TRACE_LINE_MAX];
    struct bytes standard = bytes_of(line, tail_put_text(line, level, module, stamp, text));
    ASSERT(json.len < TRACE_LINE_MAX);
    take_lock();
    for (unsigned i = 0; i < TAIL_MAX; i++)
        if (tails[i] != NULL && level >= tails[i]->level)
            keep_line(tails[i], stamp, tails[i]->format == TAIL_JSON ? json : standard);
    give_lock();
}

size_t tail_take(struct tail *tail, void *into, size_t room)
{
    ASSERT(room >= TRACE_LINE_MAX);
    take_lock();
    size_t n = MIN(tail->end - tail->start, room);
    const uint8_t *from = tail->lines + tail->start;
    while (n > 0 && from[n - 1] != '\n')
        n--;
    memcpy(into, from, n);
    tail->start += n;
    ASSERT(tail->start <= tail->end);
    if (tail->start == tail->end)
        tail->start = tail->end = 0;
    give_lock();
    return n;
}
