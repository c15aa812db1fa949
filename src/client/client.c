#include "client/client.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

enum { STACK_BYTES = 256 * 1024 };

static volatile sig_atomic_t ending;

static struct timespec clock_of(clockid_t id)
{
    struct timespec now;
    (void)clock_gettime(id, &now); /* both clocks exist */
    return now;
}

int64_t client_now_ms(void)
{
    struct timespec now = clock_of(CLOCK_REALTIME);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

uint64_t client_mono_ms(void)
{
    struct timespec now = clock_of(CLOCK_MONOTONIC);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void client_sleep_ms(int64_t ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    (void)nanosleep(&t, NULL); /* a shorter sleep does no harm */
}

void client_say(const char *who, const char *format, ...)
{
    char line[512], at[32];
    struct tm utc;
    time_t now = time(NULL);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args); /* a longer line is cut */
    va_end(args);
    (void)strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    (void)fprintf(stderr, "%s %s: %s\n", at, who, line); /* standard error is all there is */
}

bool client_thread(void *(*run)(void *), void *ctx)
{
    pthread_attr_t attr;
    pthread_t thread;
    if (pthread_attr_init(&attr) != 0)
        return false;
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED); /* a valid value */
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);               /* above the least size */
    bool begun = pthread_create(&thread, &attr, run, ctx) == 0;
    (void)pthread_attr_destroy(&attr); /* destroying cannot fail */
    return begun;
}

static void on_end(int number)
{
    (void)number;
    ending = 1;
}

void client_catch_signals(void)
{
    struct sigaction end = {.sa_handler = on_end}, ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGTERM, &end, NULL); /* valid signals and actions */
    (void)sigaction(SIGINT, &end, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
}

bool client_is_ending(void)
{
    return ending != 0;
}

const char *member_text(const struct text_value *of, const char *name)
{
    const struct text_value *v = text_get(of, name);
    return v != NULL && v->kind == TEXT_STRING ? (const char *)v->text.data : "";
}

int64_t member_int(const struct text_value *of, const char *name)
{
    int64_t n = 0;
    const struct text_value *v = text_get(of, name);
    return v != NULL && text_to_int(v, &n) == ST_OK ? n : 0;
}

bool member_bool(const struct text_value *of, const char *name)
{
    const struct text_value *v = text_get(of, name);
    return v != NULL && v->kind == TEXT_BOOL && v->truth;
}
