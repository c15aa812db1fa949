/* Devices that write to files, FIFOs and what else a path may lead to. */
#include "device_files.h"

#include "audit/sink.h"
#include "audit/sink_path.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

static void a_record_becomes_a_line(void **state)
{
    struct world *w = *state;
    char want[512], text[AUDIT_HMAC_LEN + 1];
    OPEN(w, "file", "file_path", w->file, "prefix", "@cee: ");
    assert_status(world_write(w, 1, 3), ST_OK);
    assert_status(audit_device_hash(w->device, BYTES("s.secret"), text), ST_OK);
    (void)snprintf(
        want, sizeof want,
        "@cee: {\"time\":\"2023-11-14T22:13:20Z\",\"type\":\"request\",\"n\":1,\"token\":"
        "\"%s\",\"text\":"
        "\"xxx\"}\n",
        text);
    char *have = slurp(w->file);
    assert_string_equal(have, want);
    mem_free(have);
    struct audit_device_state s = world_state(w);
    assert_int_equal(s.standing, AUDIT_OK);
    assert_int_equal(s.records, 1);
    assert_int_equal(s.bytes, strlen(want));
}

static void a_salt_comes_and_goes(void **state)
{
    struct world *w = *state;
    char text[AUDIT_HMAC_LEN + 1];
    OPEN(w, "file", "file_path", w->file);
    assert_status(audit_device_salt(w->device, NULL), ST_OK);
    assert_status(audit_device_hash(w->device, BYTES("x"), text), ST_NOT_FOUND);
    assert_status(world_write(w, 1, 0), ST_OK);
    assert_status(audit_device_salt(w->device, world_salt), ST_OK);
    assert_status(world_write(w, 2, 0), ST_OK);
    char *have = slurp(w->file);
    assert_non_null(strstr(have, "\"n\":1,\"token\":\"\""));
    assert_non_null(strstr(have, "\"n\":2,\"token\":\"hmac-sha256:"));
    mem_free(have);
}

static void a_new_file_has_its_mode(void **state)
{
    struct world *w = *state;
    struct stat info;
    OPEN(w, "file", "file_path", w->file);
    assert_status(world_write(w, 1, 0), ST_OK);
    assert_int_equal(stat(w->file, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    world_close(w);
    OPEN(w, "file", "file_path", w->file, "mode", "0640");
    assert_status(world_write(w, 2, 0), ST_OK);
    assert_int_equal(stat(w->file, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600); /* a file that exists keeps its mode */
    assert_int_equal(unlink(w->file), 0);
    assert_status(world_write(w, 1, 0), ST_OK);
    assert_status(world_write(w, 2, 0), ST_OK);
    assert_int_equal(stat(w->file, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0640);
    world_close(w);
    OPEN(w, "file", "file_path", w->file, "mode", "0000");
    assert_status(world_write(w, 3, 0), ST_OK);
    assert_int_equal(stat(w->file, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0640);
    assert_lines(w->file, 1, 3);
}

static void many_records_are_written_in_order(void **state)
{
    enum { N = 3000 };
    struct world *w = *state;
    static struct sent sent[N];
    OPEN(w, "file", "file_path", w->file);
    for (unsigned i = 0; i < N; i++)
        assert_status(world_offer(w, &sent[i], i, 100), ST_OK);
    for (unsigned i = 0; i < N; i++)
        assert_status(world_await(&sent[i]), ST_OK);
    assert_lines(w->file, 0, N - 1);
    assert_int_equal(world_state(w).records, N);
    assert_int_equal(world_state(w).queued_bytes, 0);
}

/* Offer a record that waits for a flush. */
static void enqueue(struct world *w, struct sent *s, unsigned n)
{
    *s = (struct sent){.w = w};
    s->offer = (struct audit_offer){.done = on_sent, .env = &w->env, .record = world_record(n, 10)};
    assert_status(audit_device_offer(w->device, &s->offer), ST_OK);
}

static void records_wait_for_a_flush(void **state)
{
    struct world *w = *state;
    struct sent first, second;
    OPEN(w, "file", "file_path", w->file);
    assert_status(world_write(w, 0, 10), ST_OK);
    enqueue(w, &first, 1);
    enqueue(w, &second, 2);
    (void)poll(NULL, 0, 20); /* a thread that did not wait would have written by now */
    assert_int_equal(world_state(w).records, 1);
    audit_device_flush(w->device);
    assert_status(world_await(&first), ST_OK);
    assert_status(world_await(&second), ST_OK);
    assert_int_equal(world_state(w).writes, 2); /* both with one */
    assert_lines(w->file, 0, 2);
}

static void a_device_that_is_closed_writes_without_a_flush(void **state)
{
    struct world *w = *state;
    struct sent sent;
    OPEN(w, "file", "file_path", w->file);
    enqueue(w, &sent, 0);
    audit_device_close(w->device);
    assert_status(world_await(&sent), ST_OK);
    assert_lines(w->file, 0, 0);
}

static void discard_accepts_and_writes_nothing(void **state)
{
    struct world *w = *state;
    OPEN(w, "file", "file_path", "DISCARD");
    assert_status(world_write(w, 1, 10), ST_OK);
    assert_int_not_equal(access("discard", F_OK), 0);
    assert_int_equal(world_state(w).records, 1);
}

/* Replace standard output by `fd`; returns the former one. */
static int swap_stdout(int fd)
{
    int former = dup(STDOUT_FILENO);
    (void)fflush(stdout);
    assert_int_equal(dup2(fd, STDOUT_FILENO), STDOUT_FILENO);
    return former;
}

static void standard_output_is_never_waited_for(void **state)
{
    struct world *w = *state;
    CLEANUP(buf_done) struct buf text = {0};
    struct sent first, second;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    int former = swap_stdout(ends[1]);
    (void)close(ends[1]);
    OPEN(w, "file", "file_path", "stdout", "write_timeout", "20ms");
    enum status small = world_write(w, 1, 10);
    enum status large = world_offer(w, &first, 2, 300000); /* more than a pipe holds */
    world_await_standing(w, AUDIT_LATE);
    enum status refused = world_offer(w, &second, 3, 10);
    while (!first.done && world_is_idle(w)) {
        struct pollfd ready = {.fd = ends[0], .events = POLLIN};
        if (poll(&ready, 1, 10) == 1)
            text.len += (size_t)read(ends[0], buf_extend(&text, 4096) + 0, 4096) - 4096;
    }
    enum status st = world_await(&first);
    assert_int_equal(dup2(former, STDOUT_FILENO), STDOUT_FILENO);
    assert_status(small, ST_OK);
    assert_status(large, ST_OK);
    assert_status(refused, ST_BUSY);
    assert_status(st, ST_OK);
    assert_memory_equal(text.data, "{\"time\":\"2023", 13);
    (void)close(ends[0]);
    (void)close(former);
}

/* Try a device on the path; returns the reason of the refusal. */
static struct reason refusal(struct world *w, const char *path)
{
    struct audit_device_options device = {
        .path = "test/", .salt = world_salt, .places = &w->places};
    struct reason why = {{0}};
    struct audit_record *record = world_record(1, 0);
    assert_status(
        OPTIONS(&device.options, &why, "file", "file_path", path, "write_timeout", "50ms"), ST_OK);
    assert_status(audit_device_try(&device, record, &why), ST_INVALID);
    assert_non_null(strstr(why.text, path));
    audit_record_unref(record);
    return why;
}

static void a_trial_writes_its_record(void **state)
{
    struct world *w = *state;
    struct audit_device_options device = {
        .path = "test/", .salt = world_salt, .places = &w->places};
    struct reason why = {{0}};
    struct audit_record *record = world_record(1, 0);
    assert_status(OPTIONS(&device.options, &why, "file", "file_path", w->file), ST_OK);
    assert_status(audit_device_try(&device, record, &why), ST_OK);
    assert_lines(w->file, 1, 1);
    audit_record_unref(record);
}

static void paths_that_no_device_may_write_are_refused(void **state)
{
    struct world *w = *state;
    char link[256], inside[256], sock[100];
    assert_non_null(strstr(refusal(w, w->dir).text, "lies in no directory"));
    (void)snprintf(inside, sizeof inside, "%s/../data/x.log", w->data_dir);
    assert_non_null(strstr(refusal(w, inside).text, "must be an absolute path"));
    (void)snprintf(inside, sizeof inside, "%s/log", w->data_dir);
    assert_non_null(strstr(refusal(w, inside).text, "leads into the data directory"));
    assert_int_not_equal(access(inside, F_OK), 0);
    (void)snprintf(link, sizeof link, "%s/link", w->dir);
    assert_int_equal(symlink(inside, link), 0);
    assert_non_null(strstr(refusal(w, link).text, "is a symbolic link"));
    assert_int_not_equal(access(inside, F_OK), 0);
    (void)snprintf(link, sizeof link, "%s/folder", w->dir);
    assert_int_equal(symlink(w->data_dir, link), 0);
    (void)snprintf(link, sizeof link, "%s/folder/new.log", w->dir);
    assert_non_null(strstr(refusal(w, link).text, "has a symbolic link in its path"));
    assert_non_null(strstr(refusal(w, w->data_dir).text, "leads into the data directory"));
    (void)snprintf(link, sizeof link, "%s/sub", w->dir);
    assert_int_equal(mkdir(link, 0700), 0);
    assert_non_null(strstr(refusal(w, link).text, "is a directory"));
    static const char *const elsewhere[] = {
        "/dev/kmsg", "/etc/passwd", "/proc/self/fd/1", "/proc/1/fd/1", "/dev/full",
        "/",         "/tmp/",       "/tmp/x.log",      "audit.log",    "./audit.log",
        "//tmp/x",   "/tmp//x",     "/tmp/./x",        "stdin"};
    for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++)
        (void)refusal(w, elsewhere[i]);

    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    (void)snprintf(sock, sizeof sock, "%s/sock", w->dir);
    memcpy(name.sun_path, sock, sizeof sock);
    assert_int_equal(bind(fd, (struct sockaddr *)(void *)&name, sizeof name), 0);
    assert_non_null(strstr(refusal(w, sock).text, "neither a regular file"));
    (void)close(fd);
}

static void put_file(const char *path, const char *text, size_t len, mode_t mode)
{
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    assert_int_equal(fchmod(fd, mode), 0);
    (void)close(fd);
}

#define RECORD "{\"time\":\"2024-01-01T00:00:00.5Z\",\"type\":\"request\",\"x\":1}\n"

/* A file that no device made stays as it is: no line, no other mode, no other name. */
static void a_file_of_another_program_is_left_alone(void **state)
{
    struct world *w = *state;
    char found[4][NAME_MAX + 258], lines[6000];
    memset(lines, '\n', sizeof lines);
    static const struct {
        const char *text;
        size_t len;
    } foreign[] = {
#define TEXT(t) {t, sizeof(t) - 1}
        TEXT("-----BEGIN PRIVATE KEY-----\n"),
        TEXT("node_name = \"a\"\n"),
        TEXT("x"),
        TEXT("{\"time\":\"2024-01-01T00:00:00Z\",\"level\":\"info\"}\n"),
        TEXT("{\n  \"node_name\": \"a\"\n}\n"),
        TEXT("\0\0\0\0"),
        TEXT("{\"@timestamp\":\"2024-01-01T00:00:00Z\"}\n" RECORD),
        TEXT("\n\nkey: value\n"),
        TEXT("{\"time\":\"20\0\0\n"),
#undef TEXT
    };
    for (size_t i = 0; i <= ARRAY_LEN(foreign); i++) {
        const char *text = i < ARRAY_LEN(foreign) ? foreign[i].text : lines;
        size_t len = i < ARRAY_LEN(foreign) ? foreign[i].len : sizeof lines;
        struct stat info;
        put_file(w->file, text, len, 0664);
        assert_non_null(strstr(refusal(w, w->file).text, "no audit device made this file"));
        OPEN(w, "file", "file_path", w->file, "mode", "0640", "rotate_bytes", "4096", "hash_chain",
             "true");
        assert_status(world_write(w, 1, 0), ST_IO);
        world_close(w);
        assert_int_equal(stat(w->file, &info), 0);
        assert_int_equal(info.st_size, len);
        assert_int_equal(info.st_mode & 07777, 0664);
        assert_int_equal(rotated_files(w->file, found, 4), 0);
    }
}

/* What a device left, also with lines that were torn, and an empty file of logrotate. */
static void a_file_of_a_device_is_taken_over(void **state)
{
    struct world *w = *state;
    static const char *const texts[] = {"",
                                        RECORD,
                                        "@cee: " RECORD,
                                        "<13>1 x " RECORD,
                                        "{\n" RECORD,
                                        "\n{\"time\":\"20\n" RECORD,
                                        "{\"time\":\"2024-01-01T00",
                                        "{\"time\":\"2024-01-01T00:00:00Z\",\"ty"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct stat info;
        put_file(w->file, texts[i], strlen(texts[i]), 0660);
        OPEN(w, "file", "file_path", w->file);
        assert_status(world_write(w, 1, 0), ST_OK);
        world_close(w);
        assert_int_equal(stat(w->file, &info), 0);
        assert_int_equal(info.st_mode & 07777, 0660);
    }
}

static void folders_that_are_missing_are_made(void **state)
{
    struct world *w = *state;
    char path[256], folder[256];
    struct stat info;
    (void)snprintf(path, sizeof path, "%s/new/deep/audit.log", w->dir);
    OPEN(w, "file", "file_path", path, "mode", "0640");
    assert_status(world_write(w, 1, 0), ST_OK);
    assert_lines(path, 1, 1);
    (void)snprintf(folder, sizeof folder, "%s/new", w->dir);
    assert_int_equal(stat(folder, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0750);
}

static void a_hard_link_to_a_file_of_the_data_directory_is_refused(void **state)
{
    struct world *w = *state;
    char inside[256], link_path[256], copy[256];
    (void)snprintf(inside, sizeof inside, "%s/log", w->data_dir);
    (void)close(open(inside, O_CREAT | O_WRONLY, 0600));
    (void)snprintf(link_path, sizeof link_path, "%s/hard", w->dir);
    assert_int_equal(link(inside, link_path), 0);
    assert_non_null(strstr(refusal(w, link_path).text, "no audit device made this file"));
    OPEN(w, "file", "file_path", w->file);
    assert_status(world_write(w, 1, 0), ST_OK);
    (void)snprintf(copy, sizeof copy, "%s/copy", w->dir);
    assert_int_equal(link(w->file, copy), 0); /* a backup, say */
    audit_device_reopen(w->device);
    assert_status(world_write(w, 2, 0), ST_OK);
}

static void without_a_listed_directory_no_file_is_opened(void **state)
{
    struct world *w = *state;
    w->places.n = 0;
    assert_non_null(strstr(refusal(w, w->file).text, "audit { directories = [...] }"));
    w->places.n = 1;
}

/* What a new device may have, and what is left of an older entry's. */
static void options_are_checked_or_narrowed(void **state)
{
    struct world *w = *state;
    static const struct {
        const char *name, *value, *wrong;
        bool prefix;
    } rows[] = {
        {"mode", "0640", NULL, false},      {"mode", "0644", "mode: at most 0640", false},
        {"mode", "0660", "mode", false},    {"prefix", "", NULL, false},
        {"prefix", "@cee: ", NULL, true},   {"prefix", "@cee: ", "allow_prefix", false},
        {"prefix", "a;b", "letters", true}, {"prefix", "<13>", "letters", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct audit_options o;
        struct reason why = {{0}};
        w->places.prefix = rows[i].prefix;
        assert_status(OPTIONS(&o, &why, "file", "file_path", w->file, rows[i].name, rows[i].value),
                      ST_OK);
        enum status st = audit_places_check(&w->places, &o, &why);
        assert_status(st, rows[i].wrong == NULL ? ST_OK : ST_INVALID);
        if (rows[i].wrong != NULL)
            assert_non_null(strstr(why.text, rows[i].wrong));
        audit_places_narrow(&w->places, &o, &why);
        assert_int_equal(why.text[0] != '\0', rows[i].wrong != NULL);
        assert_status(audit_places_check(&w->places, &o, &why), ST_OK);
    }
    w->places.prefix = true;
}

static void without_its_data_directory_no_path_is_allowed(void **state)
{
    struct world *w = *state;
    assert_int_equal(rmdir(w->data_dir), 0);
    assert_non_null(strstr(refusal(w, w->file).text, "cannot be compared"));
    assert_int_not_equal(access(w->file, F_OK), 0);
    assert_int_equal(mkdir(w->data_dir, 0700), 0);
}

static void paths_of_one_file_are_the_same(void **state)
{
    struct world *w = *state;
    char link_path[256], around[256];
    (void)snprintf(link_path, sizeof link_path, "%s/link", w->dir);
    (void)snprintf(around, sizeof around, "%s/data/../audit.log", w->dir);
    assert_true(sink_path_same(w->file, around)); /* before it exists */
    assert_false(sink_path_same(w->file, link_path));
    (void)close(open(w->file, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(symlink(w->file, link_path), 0);
    assert_true(sink_path_same(w->file, link_path));
    assert_true(sink_path_same(w->file, around));
    assert_false(sink_path_same("/dev/null", "/dev/null"));
}

/* The wait of a closed device ends whatever time it was begun with. */
static void a_wait_ends_with_its_device(void **state)
{
    int ends[2];
    (void)state;
    struct sink sink = {.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ends_ms = 1};
    assert_int_equal(pipe(ends), 0);
    assert_status(sink_wait(&sink, ends[0], POLLIN, INT64_MAX), ST_TIMEOUT);
    (void)close(ends[0]);
    (void)close(ends[1]);
    (void)close(sink.wake_fd);
}

static void a_link_into_the_data_directory_is_noticed_later(void **state)
{
    struct world *w = *state;
    char inside[256];
    OPEN(w, "file", "file_path", w->file);
    assert_status(world_write(w, 1, 0), ST_OK);
    (void)snprintf(inside, sizeof inside, "%s/log", w->data_dir);
    (void)close(open(inside, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(unlink(w->file), 0);
    assert_int_equal(symlink(inside, w->file), 0);
    assert_status(world_write(w, 2, 0), ST_IO);
    assert_int_equal(world_state(w).standing, AUDIT_FAILING);
    struct stat info;
    assert_int_equal(stat(inside, &info), 0);
    assert_int_equal(info.st_size, 0);
}

static void a_full_disk_tears_no_line_and_is_logged_once(void **state)
{
    struct world *w = *state;
    unsigned n = 1;
    OPEN(w, "file", "file_path", w->file);
    limit_files(10000);
    while (world_write(w, n, 200) == ST_OK)
        n++;
    for (unsigned i = 0; i < 5; i++)
        assert_status(world_write(w, 1000, 200), ST_IO);
    limit_files(RLIM_INFINITY);
    struct audit_device_state s = world_state(w);
    assert_int_equal(s.standing, AUDIT_FAILING);
    assert_non_null(strstr(s.why.text, "File too large"));
    assert_non_null(strstr(s.why.text, w->file));
    assert_int_equal(s.failures, 6);
    assert_int_equal(logs_with("fails"), 1);
    assert_lines(w->file, 1, n - 1);
    assert_status(world_write(w, n, 200), ST_OK);
    assert_int_equal(world_state(w).standing, AUDIT_OK);
    assert_int_equal(logs_with("works again; it missed 6 records"), 1);
    assert_lines(w->file, 1, n);
}

static void a_batch_that_fits_in_part_is_answered_line_by_line(void **state)
{
    enum { N = 200 };
    struct world *w = *state;
    static struct sent sent[N];
    unsigned good = 0;
    OPEN(w, "file", "file_path", w->file, "hash_chain", "true");
    limit_files(20000);
    for (unsigned i = 0; i < N; i++)
        assert_status(world_offer(w, &sent[i], i, 200), ST_OK);
    for (unsigned i = 0; i < N; i++)
        good += world_await(&sent[i]) == ST_OK;
    limit_files(RLIM_INFINITY);
    assert_in_range(good, 1, N - 1);
    for (unsigned i = 0; i < N; i++) /* no line behind one that failed */
        assert_int_equal(sent[i].st == ST_OK, i < good);
    assert_lines(w->file, 0, good - 1);
}

static void a_failing_device_comes_back_by_itself(void **state)
{
    struct world *w = *state;
    char folder[128], path[256];
    (void)snprintf(folder, sizeof folder, "%s/later", w->dir);
    (void)snprintf(path, sizeof path, "%s/later/audit.log", w->dir);
    put_file(folder, "x", 1, 0600); /* in the place of the folder */
    OPEN(w, "file", "file_path", path);
    world_await_standing(w, AUDIT_FAILING);
    assert_status(world_write(w, 1, 0), ST_IO);
    assert_int_equal(unlink(folder), 0);
    world_await_standing(w, AUDIT_OK);
    assert_status(world_write(w, 2, 0), ST_OK);
    assert_lines(path, 2, 2);
}

static void a_torn_line_is_ended_at_open(void **state)
{
    struct world *w = *state;
    FILE *out = fopen(w->file, "w");
    assert_true(fputs("{\"time\":\"20", out) >= 0);
    assert_int_equal(fclose(out), 0);
    OPEN(w, "file", "file_path", w->file);
    assert_status(world_write(w, 1, 0), ST_OK);
    char *text = slurp(w->file);
    assert_memory_equal(text, "{\"time\":\"20\n{\"time\":\"2023", 25);
    mem_free(text);
}

static void a_file_that_was_taken_away_is_made_anew(void **state)
{
    struct world *w = *state;
    char old[256];
    OPEN(w, "file", "file_path", w->file);
    assert_status(world_write(w, 1, 0), ST_OK);
    assert_int_equal(unlink(w->file), 0);
    assert_status(world_write(w, 2, 0), ST_OK);
    assert_lines(w->file, 2, 2);
    (void)snprintf(old, sizeof old, "%s.1", w->file);
    assert_int_equal(rename(w->file, old), 0);
    assert_status(world_write(w, 3, 0), ST_OK);
    assert_lines(old, 2, 2);
    assert_lines(w->file, 3, 3);
    assert_int_equal(truncate(w->file, 0), 0); /* as logrotate's copytruncate does */
    assert_status(world_write(w, 4, 0), ST_OK);
    assert_lines(w->file, 4, 4);
    audit_device_reopen(w->device);
    assert_status(world_write(w, 5, 0), ST_OK);
    assert_lines(w->file, 4, 5);
}

/* Read what a FIFO holds, at most `n` bytes; returns their number. Waits a little for the first. */
static size_t drain_some(int fd, struct buf *text, size_t n)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, 10) != 1)
        return 0;
    uint8_t *at = buf_extend(text, n);
    ssize_t got = read(fd, at, n);
    text->len -= n - (size_t)MAX(got, 0);
    return (size_t)MAX(got, 0);
}

/* Read until there are `n` bytes in all, which are written or under way. */
static void drain_to(int fd, struct buf *text, size_t n)
{
    while (text->len < n)
        (void)drain_some(fd, text, MIN(n - text->len, (size_t)4096));
}

static void a_fifo_without_a_reader_fails_at_once(void **state)
{
    struct world *w = *state;
    assert_int_equal(mkfifo(w->file, 0600), 0);
    assert_non_null(strstr(refusal(w, w->file).text, "no process reads the FIFO"));
    OPEN(w, "file", "file_path", w->file);
    assert_status(world_write(w, 1, 0), ST_IO);
    int fd = open(w->file, O_RDONLY | O_NONBLOCK);
    assert_status(world_write(w, 2, 0), ST_OK);
    (void)close(fd);
    assert_status(world_write(w, 3, 0), ST_IO); /* the reader has gone */
}

static void a_full_fifo_is_left_out_and_comes_back(void **state)
{
    enum { N = 200, BYTES_EACH = 1000 };
    struct world *w = *state;
    CLEANUP(buf_done) struct buf text = {0};
    static struct sent sent[N];
    struct sent more;
    unsigned n = 0;
    assert_int_equal(mkfifo(w->file, 0600), 0);
    int fd = open(w->file, O_RDONLY | O_NONBLOCK);
    OPEN(w, "file", "file_path", w->file, "write_timeout", "20ms");
    while (n < N && world_offer(w, &sent[n], n, BYTES_EACH) == ST_OK)
        n++;
    world_await_standing(w, AUDIT_LATE);
    assert_status(world_offer(w, &more, n, BYTES_EACH), ST_BUSY);
    assert_int_equal(world_state(w).dropped >= 1, true);
    assert_int_equal(logs_with("is left out until it answers"), 1);
    for (unsigned i = 0; i < n; i++) { /* every held record is written, in order */
        while (!sent[i].done && world_is_idle(w))
            (void)drain_some(fd, &text, 512);
        assert_status(world_await(&sent[i]), ST_OK);
    }
    world_await_standing(w, AUDIT_OK);
    drain_to(fd, &text, (size_t)world_state(w).bytes);
    assert_status(world_write(w, n, 10), ST_OK);
    drain_to(fd, &text, (size_t)world_state(w).bytes);
    char copy[160];
    (void)snprintf(copy, sizeof copy, "%s.copy", w->file);
    FILE *out = fopen(copy, "w");
    assert_int_equal(fwrite(text.data, 1, text.len, out), text.len);
    assert_int_equal(fclose(out), 0);
    assert_lines(copy, 0, n);
    (void)close(fd);
}

/* Let the device be late once, until it has written all it holds. */
static void be_late_once(struct world *w, int fd, unsigned n)
{
    enum { BYTES_EACH = 30000 };
    struct sent sent[4];
    CLEANUP(buf_done) struct buf text = {0};
    for (unsigned i = 0; i < ARRAY_LEN(sent); i++) /* more than a FIFO holds */
        assert_status(world_offer(w, &sent[i], n + i, BYTES_EACH), ST_OK);
    audit_device_leave_out(w->device);
    assert_int_equal(world_state(w).standing, AUDIT_LATE);
    for (unsigned i = 0; i < ARRAY_LEN(sent); i++) {
        while (!sent[i].done && world_is_idle(w))
            (void)drain_some(fd, &text, 512);
        assert_status(world_await(&sent[i]), ST_OK);
    }
    while (drain_some(fd, &text, 4096) > 0) /* leave room in the FIFO */
        continue;
}

static int open_fifo(struct world *w, const char *write_timeout)
{
    assert_int_equal(mkfifo(w->file, 0600), 0);
    int fd = open(w->file, O_RDONLY | O_NONBLOCK);
    OPEN(w, "file", "file_path", w->file, "write_timeout", write_timeout);
    world_await_standing(w, AUDIT_OK);
    return fd;
}

/* With each return of a slow device, a request waits for it: it returns more and more seldom. */
static void a_device_that_is_late_again_and_again_rests(void **state)
{
    struct world *w = *state;
    struct sent needed;
    int fd = open_fifo(w, "1m"); /* a rest is a minute long */
    for (unsigned i = 0; i < AUDIT_LATES_MAX; i++) {
        be_late_once(w, fd, 10 * i);
        assert_int_equal(world_state(w).standing, AUDIT_OK);
    }
    uint64_t dropped = world_state(w).dropped;
    be_late_once(w, fd, 100);
    assert_int_equal(world_state(w).standing, AUDIT_RESTING);
    assert_true(w->device->rests);
    assert_int_equal(logs_with("was late 3 times in a row"), 1);
    assert_status(world_write(w, 110, 10), ST_BUSY);
    assert_int_equal(world_state(w).dropped, dropped + 1);

    needed = (struct sent){.w = w};
    needed.offer = (struct audit_offer){
        .done = on_sent, .env = &w->env, .record = world_record(111, 10), .needed = true};
    assert_status(audit_device_offer(w->device, &needed.offer), ST_OK);
    audit_device_flush(w->device);
    assert_status(world_await(&needed), ST_OK);
    assert_int_equal(world_state(w).standing, AUDIT_OK); /* the rest has ended */
    assert_false(w->device->rests);
    assert_int_equal(logs_with("works again; it missed 1 records"), 1);
    assert_status(world_write(w, 112, 10), ST_OK);
    (void)close(fd);
}

static void a_rest_ends_by_itself(void **state)
{
    struct world *w = *state;
    int fd = open_fifo(w, "50ms");
    for (unsigned i = 0; i <= AUDIT_LATES_MAX; i++)
        be_late_once(w, fd, 10 * i);
    enum status st;
    while ((st = world_write(w, 100, 10)) == ST_BUSY)
        (void)poll(NULL, 0, 1);
    assert_status(st, ST_OK);
    assert_int_equal(logs_with("works again"), AUDIT_LATES_MAX + 1);
    assert_int_equal(world_state(w).standing, AUDIT_OK);
    (void)close(fd);
}

static void a_device_in_time_takes_all_and_a_late_one_keeps_a_bounded_queue(void **state)
{
    enum { SIZE = 150000 };
    struct world *w = *state;
    struct audit_device_options device = {.queue_bytes_max = 2 * SIZE + SIZE / 2};
    struct sent sent[4];
    struct reason why;
    assert_int_equal(mkfifo(w->file, 0600), 0);
    int fd = open(w->file, O_RDONLY | O_NONBLOCK);
    assert_status(
        OPTIONS(&device.options, &why, "file", "file_path", w->file, "write_timeout", "60s"),
        ST_OK);
    world_open_with(w, &device);
    assert_status(world_offer(w, &sent[0], 0, SIZE), ST_OK);
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (poll(&ready, 1, -1) != 1) /* until the thread writes the first */
        continue;
    assert_status(world_offer(w, &sent[1], 1, SIZE), ST_OK);
    assert_status(world_offer(w, &sent[2], 2, SIZE), ST_OK);
    assert_status(world_offer(w, &sent[3], 3, 10), ST_OK);
    assert_true(world_state(w).queued_bytes > device.queue_bytes_max);
    audit_device_leave_out(w->device);
    assert_status(world_await(&sent[2]), ST_BUSY);
    assert_status(world_await(&sent[3]), ST_BUSY);
    assert_int_equal(world_state(w).dropped, 2);
    assert_true(world_state(w).queued_bytes <= device.queue_bytes_max);
    assert_false(sent[0].done || sent[1].done);
    (void)close(fd);
    assert_status(world_await(&sent[0]), ST_IO);
    assert_status(world_await(&sent[1]), ST_IO);
}

static void each_batch_moves_the_progress(void **state)
{
    struct world *w = *state;
    OPEN(w, "file", "file_path", w->file);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t before = atomic_load(&w->device->progress);
        assert_status(world_write(w, i, 100), ST_OK);
        assert_true(atomic_load(&w->device->progress) > before);
    }
}

static void a_hung_device_can_be_closed(void **state)
{
    struct world *w = *state;
    static struct sent sent[100];
    struct sent more;
    unsigned n = 0;
    assert_int_equal(mkfifo(w->file, 0600), 0);
    int fd = open(w->file, O_RDONLY | O_NONBLOCK);
    OPEN(w, "file", "file_path", w->file, "write_timeout", "60s");
    while (n < ARRAY_LEN(sent) && world_offer(w, &sent[n], n, 2000) == ST_OK)
        n++;
    audit_device_leave_out(w->device); /* as a worker does after its deadline */
    assert_int_equal(world_state(w).standing, AUDIT_LATE);
    audit_device_close(w->device);
    assert_status(world_offer(w, &more, n, 10), ST_CLOSED);
    assert_true(audit_device_join(w->device, 30000));
    unsigned closed = 0;
    for (unsigned i = 0; i < n; i++)
        closed += world_await(&sent[i]) == ST_CLOSED;
    assert_true(closed > 0);
    (void)close(fd);
}

static void a_thread_that_hangs_at_the_end_gives_its_records_back(void **state)
{
    struct world *w = *state;
    struct sent first, second;
    assert_int_equal(mkfifo(w->file, 0600), 0);
    int fd = open(w->file, O_RDONLY | O_NONBLOCK);
    OPEN(w, "file", "file_path", w->file, "write_timeout", "60s");
    assert_status(world_offer(w, &first, 1, 200000), ST_OK);
    assert_status(world_offer(w, &second, 2, 10), ST_OK);
    audit_device_close(w->device);
    assert_false(audit_device_join(w->device, 10));
    assert_status(world_await(&first), ST_CLOSED);
    assert_status(world_await(&second), ST_CLOSED);
    (void)close(fd); /* the thread ends, without its records */
    assert_true(audit_device_join(w->device, 60000));
}

static void a_queue_is_written_before_the_close(void **state)
{
    struct world *w = *state;
    static struct sent sent[500];
    OPEN(w, "file", "file_path", w->file);
    for (unsigned i = 0; i < ARRAY_LEN(sent); i++)
        assert_status(world_offer(w, &sent[i], i, 10), ST_OK);
    audit_device_close(w->device);
    for (unsigned i = 0; i < ARRAY_LEN(sent); i++)
        assert_status(world_await(&sent[i]), ST_OK);
    assert_lines(w->file, 0, ARRAY_LEN(sent) - 1);
}

static void leaving_out_an_idle_device_changes_nothing(void **state)
{
    struct world *w = *state;
    OPEN(w, "file", "file_path", w->file);
    assert_status(world_write(w, 1, 0), ST_OK);
    audit_device_leave_out(w->device);
    assert_int_equal(world_state(w).standing, AUDIT_OK);
    assert_status(world_write(w, 2, 0), ST_OK);
}

static void a_reopen_leaves_a_hung_fifo(void **state)
{
    struct world *w = *state;
    struct sent sent;
    assert_int_equal(mkfifo(w->file, 0600), 0);
    int fd = open(w->file, O_RDONLY | O_NONBLOCK);
    OPEN(w, "file", "file_path", w->file, "write_timeout", "60s");
    assert_status(world_offer(w, &sent, 1, 200000), ST_OK);
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, -1), 1); /* the line is under way */
    assert_int_equal(unlink(w->file), 0);
    audit_device_reopen(w->device);
    assert_status(world_await(&sent), ST_OK);
    char *text = slurp(w->file);
    assert_non_null(strstr(text, "\"n\":1,"));
    mem_free(text);
    (void)close(fd);
}

static void memory_that_runs_out_makes_no_device(void **state)
{
    struct world *w = *state;
    struct audit_device_options device = {
        .path = "test/", .salt = world_salt, .places = &w->places};
    struct reason why;
    assert_status(
        OPTIONS(&device.options, &why, "file", "file_path", w->file, "hash_chain", "true"), ST_OK);
    for (uint64_t n = 1;; n++) {
        (void)mem_fail_nth(n);
        enum status st = audit_device_new(&device, &w->device);
        if (!mem_fail_nth(0))
            break;
        assert_status(st, ST_NOMEM);
        w->device = NULL;
    }
    assert_status(world_write(w, 1, 0), ST_OK);
}

/* Rotation. */

static void a_file_is_rotated_before_it_is_too_large(void **state)
{
    enum { N = 100 };
    struct world *w = *state;
    char found[64][NAME_MAX + 258];
    struct stat info;
    unsigned from = 0;
    static struct sent sent[N];
    OPEN(w, "file", "file_path", w->file, "rotate_bytes", "4KiB");
    for (unsigned i = 0; i < N; i++)
        assert_status(world_offer(w, &sent[i], i, 300), ST_OK);
    for (unsigned i = 0; i < N; i++)
        assert_status(world_await(&sent[i]), ST_OK);
    world_close(w);
    unsigned n = rotated_files(w->file, found, ARRAY_LEN(found));
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(stat(found[i], &info), 0);
        assert_in_range(info.st_size, 3500, 4096);
        char *text = slurp(found[i]);
        unsigned lines = 0;
        for (char *at = text; (at = strchr(at, '\n')) != NULL; at++)
            lines++;
        mem_free(text);
        assert_lines(found[i], from, from + lines - 1);
        from += lines;
    }
    assert_lines(w->file, from, N - 1);
    OPEN(w, "file", "file_path", w->file, "rotate_bytes", "4096");
    assert_status(world_write(w, 1, 10000), ST_OK); /* larger than the bound: a file of its own */
    assert_status(world_write(w, 2, 10), ST_OK);
    assert_int_equal(rotated_files(w->file, found, ARRAY_LEN(found)), n + 2);
    assert_int_equal(world_state(w).rotations, 2);
    assert_lines(found[n + 1], 1, 1);
    assert_lines(w->file, 2, 2);
}

static void the_newest_rotated_files_are_kept(void **state)
{
    struct world *w = *state;
    char found[8][NAME_MAX + 258], other[256];
    (void)snprintf(other, sizeof other, "%s.20000101T000000.000000Z.gz", w->file);
    (void)close(open(other, O_CREAT | O_WRONLY, 0600)); /* not one of ours */
    OPEN(w, "file", "file_path", w->file, "rotate_bytes", "4096", "rotate_max_files", "2");
    for (unsigned i = 0; i < 10; i++)
        assert_status(world_write(w, i, 4000), ST_OK);
    assert_int_equal(rotated_files(w->file, found, ARRAY_LEN(found)), 3);
    assert_string_equal(found[0], other);
    assert_lines(found[1], 7, 7);
    assert_lines(found[2], 8, 8);
    assert_lines(w->file, 9, 9);
    assert_int_equal(world_state(w).rotations, 9);
}

static void an_old_file_is_rotated_after_a_restart_too(void **state)
{
    struct world *w = *state;
    char found[4][NAME_MAX + 258];
    OPEN(w, "file", "file_path", w->file);
    assert_status(world_write(w, 1, 0), ST_OK); /* its record has a time of 2023 */
    world_close(w);
    OPEN(w, "file", "file_path", w->file, "rotate_duration", "24h");
    assert_status(world_write(w, 2, 0), ST_OK);
    assert_int_equal(rotated_files(w->file, found, ARRAY_LEN(found)), 1);
    assert_lines(found[0], 1, 1);
    assert_status(world_write(w, 3, 0), ST_OK);
    assert_lines(w->file, 2, 3);
}

static void a_clock_that_goes_back_keeps_the_order(void **state)
{
    struct world *w = *state;
    char found[4][NAME_MAX + 258], future[256];
    (void)snprintf(future, sizeof future, "%s.29991231T235959.999999Z", w->file);
    (void)close(open(future, O_CREAT | O_WRONLY, 0600));
    OPEN(w, "file", "file_path", w->file, "rotate_bytes", "4096");
    assert_status(world_write(w, 1, 4000), ST_OK);
    assert_status(world_write(w, 2, 4000), ST_OK);
    assert_int_equal(rotated_files(w->file, found, ARRAY_LEN(found)), 2);
    assert_string_equal(found[0], future);
    assert_lines(found[1], 1, 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        T(a_record_becomes_a_line),
        T(a_salt_comes_and_goes),
        T(a_new_file_has_its_mode),
        T(many_records_are_written_in_order),
        T(records_wait_for_a_flush),
        T(a_device_that_is_closed_writes_without_a_flush),
        T(discard_accepts_and_writes_nothing),
        T(standard_output_is_never_waited_for),
        T(a_trial_writes_its_record),
        T(paths_that_no_device_may_write_are_refused),
        T(a_file_of_another_program_is_left_alone),
        T(a_file_of_a_device_is_taken_over),
        T(folders_that_are_missing_are_made),
        T(without_a_listed_directory_no_file_is_opened),
        T(options_are_checked_or_narrowed),
        T(a_hard_link_to_a_file_of_the_data_directory_is_refused),
        T(without_its_data_directory_no_path_is_allowed),
        T(paths_of_one_file_are_the_same),
        T(a_wait_ends_with_its_device),
        T(a_link_into_the_data_directory_is_noticed_later),
        T(a_full_disk_tears_no_line_and_is_logged_once),
        T(a_batch_that_fits_in_part_is_answered_line_by_line),
        T(a_failing_device_comes_back_by_itself),
        T(a_torn_line_is_ended_at_open),
        T(a_file_that_was_taken_away_is_made_anew),
        T(a_fifo_without_a_reader_fails_at_once),
        T(a_full_fifo_is_left_out_and_comes_back),
        T(a_device_that_is_late_again_and_again_rests),
        T(a_rest_ends_by_itself),
        T(a_device_in_time_takes_all_and_a_late_one_keeps_a_bounded_queue),
        T(a_hung_device_can_be_closed),
        T(a_thread_that_hangs_at_the_end_gives_its_records_back),
        T(each_batch_moves_the_progress),
        T(a_queue_is_written_before_the_close),
        T(leaving_out_an_idle_device_changes_nothing),
        T(a_reopen_leaves_a_hung_fifo),
        T(memory_that_runs_out_makes_no_device),
        T(a_file_is_rotated_before_it_is_too_large),
        T(the_newest_rotated_files_are_kept),
        T(an_old_file_is_rotated_after_a_restart_too),
        T(a_clock_that_goes_back_keeps_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
