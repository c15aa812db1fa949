/* Devices with a loop of their own: posted results wait in a queue until the test takes them. */
#ifndef HOLDFAST_TESTS_UNIT_AUDIT_DEVICE_WORLD_H
#define HOLDFAST_TESTS_UNIT_AUDIT_DEVICE_WORLD_H

#include "device_record.h"
#include "support.h"

#include "audit/device.h"
#include "audit/record_write.h"
#include "base/mem.h"
#include "base/trace.h"
#include "crypto/crypto.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOGS_MAX = 64 };

struct world {
    struct env env;
    pthread_mutex_t lock;
    pthread_cond_t posted;
    struct list tasks;
    char dir[64], file[128], data_dir[128];
    const char *directory; /* dir */
    struct audit_places places;
    unsigned done; /* offers that came back */
    struct audit_device *device;
};

/* What the devices logged; guarded by its lock. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char logs[LOGS_MAX][512];
static unsigned n_logs;

static inline void keep_log(enum trace_level level, const char *module, const char *text)
{
    (void)level;
    (void)module;
    (void)pthread_mutex_lock(&log_lock);
    if (n_logs < LOGS_MAX)
        (void)snprintf(logs[n_logs++], sizeof logs[0], "%s", text);
    (void)pthread_mutex_unlock(&log_lock);
}

static inline unsigned logs_with(const char *part)
{
    unsigned n = 0;
    (void)pthread_mutex_lock(&log_lock);
    for (unsigned i = 0; i < n_logs; i++)
        n += strstr(logs[i], part) != NULL;
    (void)pthread_mutex_unlock(&log_lock);
    return n;
}

static inline void world_post(struct env *env, struct env_task *task)
{
    struct world *w = CONTAINER_OF(env, struct world, env);
    (void)pthread_mutex_lock(&w->lock);
    list_push(&w->tasks, &task->link);
    (void)pthread_cond_signal(&w->posted);
    (void)pthread_mutex_unlock(&w->lock);
}

static inline bool world_is_idle(struct world *w)
{
    (void)pthread_mutex_lock(&w->lock);
    bool idle = list_empty(&w->tasks);
    (void)pthread_mutex_unlock(&w->lock);
    return idle;
}

/* Wait for a posted task and run it. */
static inline void world_run_one(struct world *w)
{
    (void)pthread_mutex_lock(&w->lock);
    while (list_empty(&w->tasks))
        (void)pthread_cond_wait(&w->posted, &w->lock);
    struct env_task *task = CONTAINER_OF(list_pop(&w->tasks), struct env_task, link);
    (void)pthread_mutex_unlock(&w->lock);
    task->run(task);
}

static inline int world_setup(void **state)
{
    static const struct env_ops ops = {.post = world_post};
    struct world *w = mem_zalloc(sizeof *w);
    if (w == NULL || crypto_init(NULL) != ST_OK)
        return -1;
    w->env.ops = &ops;
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->posted, NULL);
    list_init(&w->tasks);
    (void)snprintf(w->dir, sizeof w->dir, "/tmp/audit-XXXXXX");
    if (mkdtemp(w->dir) == NULL)
        return -1;
    (void)snprintf(w->file, sizeof w->file, "%s/audit.log", w->dir);
    (void)snprintf(w->data_dir, sizeof w->data_dir, "%s/data", w->dir);
    w->directory = w->dir;
    w->places = (struct audit_places){
        .data_dir = w->data_dir, .directories = &w->directory, .n = 1, .prefix = true};
    n_logs = 0;
    trace_set_sink(keep_log);
    *state = w;
    return mkdir(w->data_dir, 0700);
}

static inline int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

/* Close the device and wait for its end. */
static inline void world_close(struct world *w)
{
    if (w->device == NULL)
        return;
    audit_device_close(w->device);
    assert_true(audit_device_join(w->device, 60000));
    audit_device_unref(w->device);
    w->device = NULL;
}

static inline int world_teardown(void **state)
{
    struct world *w = *state;
    world_close(w);
    trace_set_sink(NULL);
    (void)nftw(w->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    (void)pthread_mutex_destroy(&w->lock);
    (void)pthread_cond_destroy(&w->posted);
    mem_free(w);
    return 0;
}

static const uint8_t world_salt[AUDIT_SALT_BYTES] = {1, 2, 3};

/* Options from pairs "name", "value", …, NULL. */
static inline enum status world_options(struct audit_options *ret, struct reason *why,
                                        const char *type, const char *const *pairs)
{
    size_t n = 0;
    while (pairs[n] != NULL)
        n++;
    struct field_map map = {.pairs = pairs, .n = n / 2, .given = true};
    return audit_options_parse(type, &map, ret, why);
}

#define OPTIONS(ret, why, type, ...) \
    world_options((ret), (why), (type), (const char *const[]){__VA_ARGS__, NULL})

static inline void world_open_with(struct world *w, struct audit_device_options *device)
{
    device->path = "test/";
    device->salt = world_salt;
    device->places = &w->places;
    assert_status(audit_device_new(device, &w->device), ST_OK);
}

#define OPEN(w, type, ...)                                                  \
    do {                                                                    \
        struct audit_device_options device_ = {0};                          \
        struct reason why_ = {{0}};                                         \
        if (OPTIONS(&device_.options, &why_, (type), __VA_ARGS__) != ST_OK) \
            fail_msg("%s", why_.text);                                      \
        world_open_with((w), &device_);                                     \
    } while (0)

struct sent {
    struct audit_offer offer;
    struct world *w;
    bool done;
    enum status st;
};

static inline void on_sent(struct audit_offer *offer, enum status st)
{
    struct sent *s = CONTAINER_OF(offer, struct sent, offer);
    assert_false(s->done);
    s->done = true;
    s->st = st;
    s->w->done++;
}

static inline enum status world_offer(struct world *w, struct sent *s, unsigned n, size_t bytes)
{
    *s = (struct sent){.w = w};
    s->offer =
        (struct audit_offer){.done = on_sent, .env = &w->env, .record = world_record(n, bytes)};
    enum status st = audit_device_offer(w->device, &s->offer);
    if (st != ST_OK)
        audit_record_unref(s->offer.record);
    audit_device_flush(w->device);
    return st;
}

static inline enum status world_await(struct sent *s)
{
    while (!s->done)
        world_run_one(s->w);
    audit_record_unref(s->offer.record);
    return s->st;
}

/* Offer a record and wait for its result. */
static inline enum status world_write(struct world *w, unsigned n, size_t bytes)
{
    struct sent s;
    enum status st = world_offer(w, &s, n, bytes);
    return st == ST_OK ? world_await(&s) : st;
}

static inline struct audit_device_state world_state(struct world *w)
{
    struct audit_device_state state;
    audit_device_state(w->device, &state);
    return state;
}

/* Wait until the device stands so; other threads make it so. */
static inline void world_await_standing(struct world *w, enum audit_standing wanted)
{
    while (world_state(w).standing != wanted)
        (void)poll(NULL, 0, 1);
}

#endif
