/* The hash chain of audit files, and its check. */
#include "device_files.h"

#include "audit/chain.h"
#include "audit/verify.h"

enum { LINES = 6 };

/* The lines of a small chained file. */
static void make_lines(struct buf *text)
{
    struct crypto_sha256 *hash = NULL;
    struct chain chain = {0};
    assert_status(crypto_sha256_new(&hash), ST_OK);
    for (unsigned i = 1; i <= LINES; i++) {
        size_t from = text->len;
        buf_add_format(text, "@p: {\"time\":\"2024-01-0%uT00:00:00Z\",\"n\":%u}", i, i);
        chain_link(&chain, hash, text, from);
        buf_add_u8(text, '\n');
    }
    crypto_sha256_free(hash);
    assert_status(buf_status(text), ST_OK);
    assert_int_equal(chain.n, LINES);
}

static struct audit_verdict judge(struct world *w, struct bytes text)
{
    const char *files[] = {w->file};
    struct audit_verdict v;
    struct reason why = {{0}};
    FILE *out = fopen(w->file, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(text.data, 1, text.len, out), text.len);
    assert_int_equal(fclose(out), 0);
    assert_status(audit_verify(files, 1, &v, &why), ST_OK);
    return v;
}

/* The offset of the line, counted from 0. */
static size_t line_at(const struct buf *text, unsigned line)
{
    size_t at = 0;
    for (; line > 0; line--)
        at = (size_t)((const uint8_t *)memchr(text->data + at, '\n', text->len - at) - text->data) +
             1;
    return at;
}

static void a_chain_without_a_change_fits(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    make_lines(&text);
    struct audit_verdict v = judge(*state, buf_bytes(&text));
    assert_null(v.wrong);
    assert_int_equal(v.lines, LINES);
    assert_int_equal(v.first, 1);
    assert_int_equal(v.last, LINES);
    assert_string_equal(v.begin, "2024-01-01T00:00:00Z");
    assert_string_equal(v.end, "2024-01-06T00:00:00Z");
    assert_non_null(memmem(text.data, text.len, v.last_hash, VERIFY_HASH_LEN));
}

static void the_form_of_a_line_never_changes(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    (void)state;
    make_lines(&text);
    text.data[line_at(&text, 1) - 1] = '\0';
    assert_string_equal(
        (char *)text.data,
        "@p: {\"time\":\"2024-01-01T00:00:00Z\",\"n\":1,\"chain\":{\"n\":1,\"prev\":"
        "\"0000000000000000000000000000000000000000000000000000000000000000\",\"hash\":"
        "\"1f35a6a81bf5c1ec450a7682c1131c2d08ff0b4f5fc61e2dfea6a9048eda248f\"}}");
}

static void any_flipped_bit_is_found_in_its_line(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    make_lines(&text);
    unsigned line = 1;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t was = text.data[i];
        unsigned bit = (unsigned)i % 8;
        text.data[i] ^= (uint8_t)(1u << bit);
        struct audit_verdict v = judge(*state, buf_bytes(&text));
        text.data[i] = was;
        /* a changed hash may show in the line that contains the hash of the line before */
        if (v.wrong == NULL || v.line != line)
            fail_msg("byte %zu bit %u: %s in line %u, not %u", i, bit,
                     v.wrong != NULL ? v.wrong : "nothing", (unsigned)v.line, line);
        line += was == '\n';
    }
}

static void a_removed_line_is_found(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    make_lines(&text);
    for (unsigned i = 1; i < LINES - 1; i++) { /* without the ends, which the range shows */
        CLEANUP(buf_done) struct buf less = {0};
        size_t from = line_at(&text, i), to = line_at(&text, i + 1);
        buf_add(&less, bytes_of(text.data, from));
        buf_add(&less, bytes_of(text.data + to, text.len - to));
        struct audit_verdict v = judge(*state, buf_bytes(&less));
        assert_non_null(v.wrong);
        assert_non_null(strstr(v.wrong, "missing"));
        assert_int_equal(v.line, i + 1);
        assert_int_equal(v.last, i);
    }
}

static void lines_cut_off_at_an_end_show_in_the_range(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    make_lines(&text);
    size_t from = line_at(&text, 2), to = line_at(&text, 4);
    struct audit_verdict v = judge(*state, bytes_of(text.data + from, to - from));
    assert_null(v.wrong);
    assert_int_equal(v.first, 3);
    assert_int_equal(v.last, 4);
}

static void exchanged_and_repeated_lines_are_found(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    make_lines(&text);
    for (unsigned i = 0; i < LINES; i++)
        for (unsigned k = 0; k < LINES; k++) {
            CLEANUP(buf_done) struct buf more = {0};
            size_t from = line_at(&text, i), to = line_at(&text, i + 1), at = line_at(&text, k);
            buf_add(&more, bytes_of(text.data, at)); /* a copy of line i before line k */
            buf_add(&more, bytes_of(text.data + from, to - from));
            buf_add(&more, bytes_of(text.data + at, text.len - at));
            assert_non_null(judge(*state, buf_bytes(&more)).wrong);
        }
    for (unsigned i = 0; i + 1 < LINES; i++) {
        CLEANUP(buf_done) struct buf swapped = {0};
        size_t a = line_at(&text, i), b = line_at(&text, i + 1), c = line_at(&text, i + 2);
        buf_add(&swapped, bytes_of(text.data, a));
        buf_add(&swapped, bytes_of(text.data + b, c - b));
        buf_add(&swapped, bytes_of(text.data + a, b - a));
        buf_add(&swapped, bytes_of(text.data + c, text.len - c));
        struct audit_verdict v = judge(*state, buf_bytes(&swapped));
        assert_non_null(v.wrong);
        assert_true(v.line <= i + 2);
    }
}

static void a_foreign_or_torn_line_is_named_and_the_rest_fits(void **state)
{
    static const char *const extra[] = {"\n", "{}\n", "{\"time\":\"2024-01-03T00\n",
                                        "{\"chain\":{\"n\":3}}\n"};
    CLEANUP(buf_done) struct buf text = {0};
    make_lines(&text);
    for (size_t e = 0; e < ARRAY_LEN(extra); e++)
        for (unsigned i = 0; i < LINES; i++) {
            CLEANUP(buf_done) struct buf more = {0};
            size_t at = line_at(&text, i);
            buf_add(&more, bytes_of(text.data, at));
            buf_add_str(&more, extra[e]);
            buf_add(&more, bytes_of(text.data + at, text.len - at));
            struct audit_verdict v = judge(*state, buf_bytes(&more));
            assert_non_null(v.wrong);
            assert_int_equal(v.line, i + 1);
            assert_true(v.goes_on);
        }
    struct audit_verdict v = judge(*state, bytes_of(text.data, text.len - 1));
    assert_non_null(strstr(v.wrong, "torn"));
    assert_int_equal(v.line, LINES);
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
    struct world *w = *state;
    const char *files[] = {"/nonexistent/audit.log"}, *dirs[] = {w->dir};
    struct audit_verdict v;
    struct reason why = {{0}};
    assert_status(audit_verify(files, 1, &v, &why), ST_IO);
    assert_non_null(strstr(why.text, "/nonexistent/audit.log: No such"));
    assert_status(audit_verify(dirs, 1, &v, &why), ST_IO);
}

/* The device. */

static struct audit_verdict verify_files(const char *const *files, size_t n)
{
    struct audit_verdict v;
    struct reason why = {{0}};
    assert_status(audit_verify(files, n, &v, &why), ST_OK);
    if (v.wrong != NULL)
        fail_msg("%s:%u: %s", v.file, (unsigned)v.line, v.wrong);
    return v;
}

static void the_chain_goes_on_after_a_restart(void **state)
{
    struct world *w = *state;
    const char *files[] = {w->file};
    for (unsigned i = 1; i <= 30; i += 10) {
        OPEN(w, "file", "file_path", w->file, "hash_chain", "true");
        for (unsigned k = 0; k < 10; k++)
            assert_status(world_write(w, i + k, k), ST_OK);
        world_close(w);
    }
    assert_int_equal(verify_files(files, 1).last, 30);
    assert_lines(w->file, 1, 30);
}

static void the_chain_goes_on_over_rotated_files_and_restarts(void **state)
{
    enum { N = 200 };
    struct world *w = *state;
    char found[64][NAME_MAX + 258];
    const char *files[64];
    unsigned n = 0;
    for (unsigned i = 0; i < N; i++) {
        if (i % 50 == 0) {
            world_close(w);
            OPEN(w, "file", "file_path", w->file, "hash_chain", "1", "rotate_bytes", "4096");
        }
        assert_status(world_write(w, i, 100), ST_OK);
    }
    world_close(w);
    n = rotated_files(w->file, found, ARRAY_LEN(found));
    assert_true(n > 10);
    for (unsigned i = 0; i < n; i++)
        files[i] = found[i];
    files[n] = w->file;
    struct audit_verdict v = verify_files(files, n + 1);
    assert_int_equal(v.first, 1);
    assert_int_equal(v.last, N);
    /* the current file is gone: the chain goes on from the newest rotated file */
    assert_int_equal(unlink(w->file), 0);
    uint64_t rotated = verify_files(files, n).last;
    OPEN(w, "file", "file_path", w->file, "hash_chain", "true");
    assert_status(world_write(w, 1, 0), ST_OK);
    assert_int_equal(verify_files(files, n + 1).last, rotated + 1);
}

static void two_devices_never_write_one_chain(void **state)
{
    struct world *w = *state;
    const char *files[] = {w->file};
    OPEN(w, "file", "file_path", w->file, "hash_chain", "true");
    assert_status(world_write(w, 1, 0), ST_OK);
    struct audit_device *first = w->device;
    OPEN(w, "file", "file_path", w->file, "hash_chain", "true");
    assert_status(world_write(w, 2, 0), ST_IO);
    assert_non_null(strstr(world_state(w).why.text, "another device writes this chain"));
    audit_device_close(first);
    assert_true(audit_device_join(first, 60000));
    audit_device_unref(first);
    assert_status(world_write(w, 3, 0), ST_OK);
    assert_int_equal(verify_files(files, 1).last, 2);
}

static void a_full_disk_leaves_the_chain_whole(void **state)
{
    enum { N = 300 };
    struct world *w = *state;
    const char *files[] = {w->file};
    static struct sent sent[N];
    unsigned good = 0;
    OPEN(w, "file", "file_path", w->file, "hash_chain", "true");
    limit_files(30000);
    for (unsigned i = 0; i < N; i++)
        assert_status(world_offer(w, &sent[i], i, 100), ST_OK);
    for (unsigned i = 0; i < N; i++)
        good += world_await(&sent[i]) == ST_OK;
    assert_in_range(good, 1, N - 1);
    assert_int_equal(verify_files(files, 1).last, good);
    limit_files(RLIM_INFINITY);
    assert_status(world_write(w, 1, 0), ST_OK);
    assert_int_equal(verify_files(files, 1).last, good + 1);
}

static void a_file_without_a_chain_is_set_aside(void **state)
{
    struct world *w = *state;
    char found[4][NAME_MAX + 258];
    const char *files[] = {w->file};
    OPEN(w, "file", "file_path", w->file);
    assert_status(world_write(w, 1, 0), ST_OK);
    world_close(w);
    OPEN(w, "file", "file_path", w->file, "hash_chain", "true");
    assert_status(world_write(w, 2, 0), ST_OK);
    assert_int_equal(rotated_files(w->file, found, ARRAY_LEN(found)), 1);
    assert_lines(found[0], 1, 1);
    assert_int_equal(verify_files(files, 1).last, 1);
}

static void a_torn_line_leaves_the_chain_whole(void **state)
{
    struct world *w = *state;
    const char *files[] = {w->file};
    struct audit_verdict v;
    struct stat info;
    OPEN(w, "file", "file_path", w->file, "hash_chain", "true");
    assert_status(world_write(w, 1, 0), ST_OK);
    assert_status(world_write(w, 2, 0), ST_OK);
    world_close(w);
    assert_int_equal(stat(w->file, &info), 0);
    assert_int_equal(truncate(w->file, info.st_size - 30), 0); /* power failure */
    OPEN(w, "file", "file_path", w->file, "hash_chain", "true");
    assert_status(world_write(w, 3, 0), ST_OK);
    assert_status(audit_verify(files, 1, &v, NULL), ST_OK);
    assert_int_equal(v.line, 2);
    assert_true(v.goes_on);
    world_close(w);
    assert_int_equal(unlink(w->file), 0);

    OPEN(w, "file", "file_path", w->file, "hash_chain", "true"); /* the newline alone is lost */
    assert_status(world_write(w, 1, 0), ST_OK);
    world_close(w);
    assert_int_equal(stat(w->file, &info), 0);
    assert_int_equal(truncate(w->file, info.st_size - 1), 0);
    OPEN(w, "file", "file_path", w->file, "hash_chain", "true");
    assert_status(world_write(w, 2, 0), ST_OK);
    assert_int_equal(verify_files(files, 1).last, 2);
}

/* The newline behind a torn line was written, and then nothing else. */
static void a_torn_line_that_was_ended_leaves_the_chain_whole(void **state)
{
    struct world *w = *state;
    const char *files[] = {w->file};
    char found[4][NAME_MAX + 258];
    struct audit_verdict v;
    OPEN(w, "file", "file_path", w->file, "hash_chain", "true");
    assert_status(world_write(w, 1, 0), ST_OK);
    assert_status(world_write(w, 2, 0), ST_OK);
    world_close(w);
    FILE *out = fopen(w->file, "a");
    assert_true(fputs("{\"time\":\"2024-01-0\n", out) >= 0);
    assert_int_equal(fclose(out), 0);
    OPEN(w, "file", "file_path", w->file, "hash_chain", "true");
    assert_status(world_write(w, 3, 0), ST_OK);
    assert_status(audit_verify(files, 1, &v, NULL), ST_OK);
    assert_int_equal(v.line, 3); /* the torn line */
    assert_true(v.goes_on);
    assert_int_equal(rotated_files(w->file, found, ARRAY_LEN(found)), 0);
    world_close(w);

    out = fopen(w->file, "a"); /* a whole line: set aside, and the chain goes on all the same */
    assert_true(fputs("{}\n", out) >= 0);
    assert_int_equal(fclose(out), 0);
    OPEN(w, "file", "file_path", w->file, "hash_chain", "true");
    assert_status(world_write(w, 4, 0), ST_OK);
    assert_int_equal(rotated_files(w->file, found, ARRAY_LEN(found)), 1);
    v = verify_files(files, 1);
    assert_int_equal(v.first, 4);
    assert_int_equal(v.last, 4);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        T(a_chain_without_a_change_fits),
        T(the_form_of_a_line_never_changes),
        T(any_flipped_bit_is_found_in_its_line),
        T(a_removed_line_is_found),
        T(lines_cut_off_at_an_end_show_in_the_range),
        T(exchanged_and_repeated_lines_are_found),
        T(a_foreign_or_torn_line_is_named_and_the_rest_fits),
        T(a_file_that_cannot_be_read_is_named),
        T(the_chain_goes_on_after_a_restart),
        T(the_chain_goes_on_over_rotated_files_and_restarts),
        T(two_devices_never_write_one_chain),
        T(a_full_disk_leaves_the_chain_whole),
        T(a_file_without_a_chain_is_set_aside),
        T(a_torn_line_leaves_the_chain_whole),
        T(a_torn_line_that_was_ended_leaves_the_chain_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
