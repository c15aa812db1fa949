/* Audit lines a second through a file device with real records, beside `write` of the same bytes in
 * batches of 64 lines.
 *
 *     bench_audit DIR [chain]
 *
 * The records are those of KV v2 writes and reads by sixteen tokens: a request and a reply record
 * each, made before the clock starts, because workers make them on threads of their own. Prints one
 * JSON object with both rates and the bytes of a line. */
#include "audit/device.h"
#include "audit/facts.h"
#include "base/arena.h"
#include "crypto/crypto.h"
#include "loop/loop.h"
#include "text/json.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* LINES: few enough for the page cache of a small machine */
enum { RECORDS = 8192, WAITING = 1024, BATCH = 64, TOKENS = 16, LINES = 4096 * BATCH };

static double now_s(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0)
        abort();
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(enum status st)
{
    if (st == ST_OK)
        return;
    (void)fprintf(stderr, "bench_audit: %s\n", status_name(st));
    exit(1);
}

/* The request and the reply record of the i-th request. */
static void make_records(unsigned i, struct audit_record *ret_records[2])
{
    static const char *const names[] = {"default", "bench"};
    CLEANUP(arena_done) struct arena arena = {0};
    bool write = i % 2 == 0;
    char id[40], accessor[32], token[128], path[64], data[256], reply[512];
    struct audit_record *part = NULL;
    const struct text_value *tree = NULL;
    (void)snprintf(id, sizeof id, "7b0e9f5c-1d5e-4c0a-9f0e-%012x", i); /* all fit */
    (void)snprintf(accessor, sizeof accessor, "T1ae7QY9xV0c2mB4hJ6k%04u", i % TOKENS);
    (void)snprintf(token, sizeof token, "hvs.CAESIJ7Qm2cV0T1ae7QY9x%068u", i % TOKENS);
    (void)snprintf(path, sizeof path, "kv/data/team-%u/key-%u", i % 100, i);
    (void)snprintf(data, sizeof data, "{\"data\":{\"value\":\"%064u\"}}", i);
    (void)snprintf(reply, sizeof reply,
                   "{\"data\":{\"value\":\"%064u\"},\"metadata\":{\"created_time\":"
                   "\"2026-01-01T00:00:00.%06uZ\",\"custom_metadata\":null,\"deletion_time\":\"\","
                   "\"destroyed\":false,\"version\":1}}",
                   i, i);
    if (write)
        must(text_json_parse(&arena, bytes_str(data), &tree, NULL));
    struct field_strings policies = {names, 2, true};
    struct audit_facts facts = {
        .request_id = id,
        .operation = write ? "update" : "read",
        .ns = "root",
        .peer = "192.0.2.7:50712",
        .path = bytes_str(path),
        .auth = {.client_token = bytes_str(token),
                 .accessor = accessor,
                 .display_name = "token-bench",
                 .token_type = "service",
                 .policies = policies,
                 .ttl_s = 2764800,
                 .issued_ms = 1700000000000,
                 .judged = true,
                 .allowed = true,
                 .rule = {.path = "kv/data/*", .policies = {names + 1, 1, true}}},
        .mount = {.point = "kv/", .type = "kv", .accessor = "kv_2f7c0e1a", .class = "secret"},
        .data = tree,
    };
    struct audit_reply answer = {.http = 200};
    answer.data =
        write ? BYTES("{\"created_time\":\"2026-01-01T00:00:00.123456Z\",\"custom_metadata\":"
                      "null,\"deletion_time\":\"\",\"destroyed\":false,\"version\":1}")
              : bytes_str(reply);
    must(audit_facts_write(&facts, &part));
    must(audit_facts_request(part, 1767225600123 + i, NULL, &ret_records[0]));
    must(audit_facts_reply(part, 1767225600124 + i, &answer, NULL, &ret_records[1]));
    audit_record_unref(part);
}

struct bench {
    struct env *env;
    struct audit_device *device;
    struct audit_record *records[RECORDS];
    struct audit_offer offers[WAITING];
    uint64_t next, lines;
    struct env_task round;
    bool unflushed;
};

static struct bench bench;

static void offer(struct bench *b, struct audit_offer *o)
{
    o->record = b->records[b->next++ % RECORDS];
    must(audit_device_offer(b->device, o));
    if (!b->unflushed)
        env_defer(b->env, &b->round);
    b->unflushed = true;
}

static void on_round_end(struct env_task *task)
{
    struct bench *b = CONTAINER_OF(task, struct bench, round);
    b->unflushed = false;
    audit_device_flush(b->device);
}

static void on_done(struct audit_offer *o, enum status st)
{
    must(st);
    if (bench.next < LINES)
        offer(&bench, o);
    if (++bench.lines == LINES)
        loop_stop(bench.env);
}

/* Lines a second through a device. */
static double device_rate(const char *path, bool chain)
{
    static const uint8_t salt[AUDIT_SALT_BYTES] = {1};
    const char *pairs[] = {"file_path", path, "hash_chain", chain ? "true" : "false"};
    struct field_map given = {pairs, 2, true};
    char directory[4096]; /* the folder of the file */
    const char *const directories[] = {directory};
    (void)snprintf(directory, sizeof directory, "%.*s", (int)(strrchr(path, '/') - path), path);
    const struct audit_places places = {.directories = directories, .n = 1};
    struct audit_device_options options = {.path = "bench/", .salt = salt, .places = &places};
    struct reason why = {{0}};
    must(audit_options_parse("file", &given, &options.options, &why));
    must(audit_device_new(&options, &bench.device));
    bench.round.run = on_round_end;
    double start = now_s();
    for (unsigned i = 0; i < WAITING; i++) {
        bench.offers[i] = (struct audit_offer){.done = on_done, .env = bench.env};
        offer(&bench, &bench.offers[i]);
    }
    loop_run(bench.env);
    double rate = LINES / (now_s() - start);
    audit_device_close(bench.device);
    if (!audit_device_join(bench.device, 60000))
        abort();
    audit_device_unref(bench.device);
    return rate;
}

/* Lines a second by writes of the first bytes of the file, 64 lines each. */
static double write_rate(const char *path, const char *to, double *ret_line_bytes)
{
    struct stat info;
    size_t ends[RECORDS / BATCH], n = 0, lines = 0;
    int in = open(path, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (in < 0 || out < 0 || fstat(in, &info) != 0)
        abort();
    size_t len = (size_t)MIN(info.st_size, (off_t)16 << 20);
    char *text = malloc(len);
    if (text == NULL || read(in, text, len) != (ssize_t)len)
        abort();
    for (size_t i = 0; i < len && n < ARRAY_LEN(ends); i++)
        if (text[i] == '\n' && ++lines % BATCH == 0)
            ends[n++] = i + 1;
    double start = now_s();
    for (size_t i = 0, written = 0; written < LINES; i = (i + 1) % n, written += BATCH) {
        size_t from = i == 0 ? 0 : ends[i - 1];
        if (write(out, text + from, ends[i] - from) != (ssize_t)(ends[i] - from))
            abort();
    }
    double rate = LINES / (now_s() - start);
    *ret_line_bytes = (double)ends[n - 1] / (double)(n * BATCH);
    free(text);
    (void)close(in);
    (void)close(out);
    (void)unlink(to);
    return rate;
}

int main(int argc, char **argv)
{
    char path[4096], to[4096];
    double line_bytes = 0;
    if (argc < 2)
        return 2;
    must(crypto_init(NULL));
    must(loop_new(NULL, &bench.env));
    for (unsigned i = 0; i < RECORDS; i += 2)
        make_records(i / 2, &bench.records[i]);
    (void)snprintf(path, sizeof path, "%s/audit.log", argv[1]); /* a cut path fails to open */
    (void)snprintf(to, sizeof to, "%s/raw.log", argv[1]);
    double lines = device_rate(path, argc > 2);
    double writes = write_rate(path, to, &line_bytes);
    printf("{\"lines\": %.0f, \"writes\": %.0f, \"line_bytes\": %.0f}\n", lines, writes,
           line_bytes);
    (void)unlink(path);
    return 0;
}
