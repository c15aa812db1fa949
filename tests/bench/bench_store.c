/* bench_store [keys]: what the state costs in time and memory. Values are 64 bytes; a batch is 64
 * changes. Figures are of one run on one thread: compare them with each other. */
#include "base/mem.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { VALUE_BYTES = 64, KEY_BYTES = 64, BATCH = 64 };

struct key {
    uint8_t data[KEY_BYTES];
    size_t len;
};

struct bench {
    struct store *store;
    struct key *keys;
    size_t n;
    uint64_t version;
    uint64_t rng;
};

static uint64_t next(struct bench *b)
{
    uint64_t z = b->rng += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
}

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct bytes key_of(const struct bench *b, size_t i)
{
    return bytes_of(b->keys[i].data, b->keys[i].len);
}

/* 64 hexadecimal digits: nothing in common. */
static void keys_hex(struct bench *b)
{
    for (size_t i = 0; i < b->n; i++) {
        char text[KEY_BYTES + 1];
        for (size_t part = 0; part < 4; part++)
            (void)snprintf(text + 16 * part, 17, "%016" PRIx64, next(b));
        memcpy(b->keys[i].data, text, KEY_BYTES);
        b->keys[i].len = KEY_BYTES;
    }
}

/* As the state has them: segment, namespace, mount, path. */
static void keys_paths(struct bench *b)
{
    for (size_t i = 0; i < b->n; i++) {
        uint64_t r = next(b);
        int n = snprintf((char *)b->keys[i].data, KEY_BYTES,
                         "s/%08" PRIx64 "/%016" PRIx64 "/team-%03" PRIu64 "/app/%zu",
                         (uint64_t)0x5bd1e995, (r & 15) * 0x9E3779B97F4A7C15U, (r >> 4) % 500, i);
        b->keys[i].len = MIN((size_t)n, (size_t)KEY_BYTES);
    }
}

static void put(struct bench *b, size_t i)
{
    uint8_t value[VALUE_BYTES] = {0};
    le64_put(value, b->version);
    store_put(b->store, key_of(b, i), bytes_of(value, sizeof value), b->version);
}

static void line(const char *what, double seconds, size_t n)
{
    (void)printf("  %-34s %10.0f /s %8.0f ns\n", what, (double)n / seconds,
                 seconds * 1e9 / (double)n);
}

/* Bytes of memory that the process has. */
static double resident(void)
{
    unsigned long long all, mine = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%llu %llu", &all, &mine) != 2)
        abort();
    (void)fclose(f); /* was only read */
    return (double)mine * (double)sysconf(_SC_PAGESIZE);
}

static void bench_load(struct bench *b)
{
    size_t key_bytes = 0;
    double before = resident();
    double start = now_s();
    for (size_t i = 0; i < b->n; i++) {
        put(b, i);
        key_bytes += b->keys[i].len;
        if (i % BATCH == BATCH - 1)
            store_publish(b->store, ++b->version);
    }
    store_publish(b->store, ++b->version);
    line("puts of new keys", now_s() - start, b->n);
    struct store_stats stats;
    store_stats(b->store, &stats);
    double content = (double)key_bytes / (double)b->n + (double)VALUE_BYTES;
    (void)printf(
        "  bytes per key beyond key and value %7.0f (resident memory says %.0f), %.2f nodes\n",
        (double)stats.bytes / (double)b->n - content,
        (resident() - before) / (double)b->n - content, (double)stats.nodes / (double)b->n);
}

static void bench_overwrite(struct bench *b, const char *what)
{
    size_t n = b->n;
    double start = now_s();
    for (size_t i = 0; i < n; i++) {
        put(b, next(b) % b->n);
        if (i % BATCH == BATCH - 1)
            store_publish(b->store, ++b->version);
    }
    store_publish(b->store, ++b->version);
    line(what, now_s() - start, n);
}

static void bench_reads(struct bench *b, const struct store_pin *pin)
{
    struct store_item item;
    static struct store_iter iter;
    size_t found = 0, walked = 0;
    double start = now_s();
    for (size_t i = 0; i < b->n; i++)
        found += store_get(pin, key_of(b, next(b) % b->n), &item) == ST_OK;
    line("gets", now_s() - start, found);
    start = now_s();
    uint64_t sum = 0;
    for (size_t i = 0; i < b->n; i++) {
        struct bytes key = key_of(b, next(b) % b->n);
        key.len /= 2;
        sum += store_newest(pin, key);
    }
    line(sum != 0 ? "newest below a prefix" : "nothing", now_s() - start, b->n);
    start = now_s();
    store_iter_init(&iter, pin, BYTES(""), BYTES(""));
    while (store_iter_next(&iter))
        walked++;
    line("keys walked in order", now_s() - start, walked);
}

static void bench_pins(struct bench *b)
{
    size_t n = 10000000;
    double start = now_s();
    for (size_t i = 0; i < n; i++) {
        struct store_pin pin;
        if (store_pin(b->store, "bench", 0, &pin) == ST_OK)
            store_unpin(&pin);
    }
    line("pins taken and given back", now_s() - start, n);
}

static void bench_hash(struct bench *b)
{
    uint8_t hash[STORE_HASH_BYTES];
    struct store_pin pin;
    if (store_pin(b->store, "bench", 0, &pin) != ST_OK)
        return;
    double start = now_s();
    store_hash(&pin, BYTES(""), hash);
    line("keys hashed for the first time", now_s() - start, b->n);
    store_unpin(&pin);
    size_t rounds = 200;
    double spent = 0;
    for (size_t i = 0; i < rounds; i++) {
        for (size_t j = 0; j < BATCH; j++)
            put(b, next(b) % b->n);
        store_publish(b->store, ++b->version);
        if (store_pin(b->store, "bench", 0, &pin) != ST_OK)
            return;
        start = now_s();
        store_hash(&pin, BYTES(""), hash);
        spent += now_s() - start;
        store_unpin(&pin);
    }
    line("changes hashed, 64 at once", spent, rounds * BATCH);
}

static void bench(struct bench *b, const char *what)
{
    struct store_pin pin;
    struct store_stats stats;
    (void)printf("%zu keys, %s\n", b->n, what);
    if (store_new(NULL, &b->store) != ST_OK)
        return;
    bench_load(b);
    bench_overwrite(b, "puts over random keys");
    if (store_pin(b->store, "bench", 0, &pin) != ST_OK)
        return;
    bench_reads(b, &pin);
    bench_overwrite(b, "the same while a pin is held");
    store_stats(b->store, &stats);
    (void)printf("  retained for that pin, of the state %5.0f %%\n",
                 100.0 * (double)stats.retained_bytes / (double)stats.bytes);
    store_unpin(&pin);
    double start = now_s();
    store_publish(b->store, ++b->version);
    line("publication that releases it", now_s() - start, 1);
    bench_pins(b);
    bench_hash(b);
    start = now_s();
    store_delete_prefix(b->store, BYTES(""), ++b->version);
    line("delete of everything", now_s() - start, 1);
    start = now_s();
    store_publish(b->store, b->version);
    line("keys released", now_s() - start, b->n);
    store_free(b->store);
}

int main(int argc, char **argv)
{
    struct bench b = {.n = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000, .rng = 1};
    if (b.n == 0)
        return 1;
    b.keys = mem_must_alloc(b.n * sizeof *b.keys);
    keys_hex(&b);
    bench(&b, "64 random hexadecimal digits");
    keys_paths(&b);
    bench(&b, "paths as in the state");
    mem_free(b.keys);
    return 0;
}
