/* Every record of the program: its table is sound, and the bytes that earlier builds wrote decode,
 * mean what they meant, and are written again. golden/records.txt has a line for each example:
 *
 *   name bytes-in-hex values-as-a-dump
 *
 * Lines never change: a new format of a record adds a line. */
#include "support.h"

#include "base/mem.h"
#include "base/record.h"
#include "server/server.h"
#include "text/encode.h"

#include <stdio.h>

enum { LINE_MAX_BYTES = 16 * 1024 };

/* Links every part of the server into this program, with the records of each. */
void *const whole_server = (void *)(uintptr_t)server_run;

static const struct record *record_nth(size_t i)
{
    assert_non_null(whole_server);
    return record_at(i);
}

static bool is_last_only(enum record_kind kind)
{
    return kind == RECORD_REST || kind == RECORD_LIST_END;
}

static void check_fields(const struct record *record)
{
    unsigned bits = 0;
    uint8_t masks = 0;
    assert_true(record->n > 0 && record->size > 0 && record->size <= RECORD_STRUCT_MAX);
    for (uint32_t i = 0; i < record->n; i++) {
        const struct record_field *f = &record->fields[i];
        assert_non_null(f->name);
        assert_true(f->max == 0 || f->min <= f->max);
        assert_true(f->offset + f->size <= record->size);
        assert_true(!is_last_only(f->kind) || i == record->n - 1);
        assert_true(f->since <= MAX(record->newest, record->protocol));
        assert_true((f->kind == RECORD_FLAG) <= (f->mask != 0));
        assert_int_equal(masks & f->mask, 0); /* no bit means two things */
        masks |= f->mask;
        bits += f->kind == RECORD_BITS;
        if (f->mask != 0)
            assert_int_equal(bits, 1); /* the bits are read before the fields they are about */
        if (f->sub != NULL) {
            check_fields(f->sub);
            assert_true(f->count + f->count_size <= record->size);
        }
    }
    assert_true(bits <= 1 && (bits == 1) == (masks != 0));
}

static void every_record_of_the_list_is_sound(void **ctx)
{
    const struct record *record;
    (void)ctx;
    for (size_t i = 0; (record = record_nth(i)) != NULL; i++) {
        print_message("%s\n", record->name);
        assert_ptr_equal(record_of_name(bytes_str(record->name)), record); /* unique */
        assert_non_null(strchr(record->name, '/'));
        assert_true(record->key != NULL || record->where != NULL);
        assert_true(!record->raw || record->key != NULL);
        check_fields(record);
    }
}

struct example {
    const struct record *record;
    struct buf bytes;
    char values[LINE_MAX_BYTES];
};

/* Read a line in place. */
static void example_read(char *line, struct example *ret)
{
    char *hex = strchr(line, ' '), *values = hex != NULL ? strchr(hex + 1, ' ') : NULL;
    assert_non_null(values);
    *hex++ = *values++ = '\0';
    values[strcspn(values, "\n")] = '\0';
    ret->record = record_of_name(bytes_str(line));
    if (ret->record == NULL)
        fail_msg("no record \"%s\"", line);
    buf_clear(&ret->bytes);
    uint8_t *room = buf_extend(&ret->bytes, strlen(hex) / 2 + 1);
    assert_non_null(room);
    assert_status(text_hex_parse(bytes_str(hex), room), ST_OK);
    ret->bytes.len = strlen(hex) / 2;
    (void)snprintf(ret->values, sizeof ret->values, "%s", values); /* a line is no longer */
}

/* Whether what decodes must encode to the same bytes: not where a former format is written as a
 * later one. */
static bool is_written_today(const struct example *e)
{
    return e->record->newest == 0 || e->record->least == 0 || e->bytes.data[0] >= e->record->least;
}

static void example_check(const struct example *e)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf again = {0}, values = {0};
    void *decoded = mem_zalloc(e->record->size);
    assert_non_null(decoded);
    assert_status(record_decode(e->record, buf_bytes(&e->bytes), &arena, decoded), ST_OK);
    assert_status(record_encode(e->record, decoded, &again), ST_OK);
    if (is_written_today(e))
        assert_bytes(buf_bytes(&again), buf_bytes(&e->bytes));
    record_done(e->record, decoded);
    mem_free(decoded);
    record_dump(e->record, buf_bytes(&e->bytes), &values);
    buf_add_u8(&values, 0);
    assert_string_equal((const char *)values.data, e->values);
    for (size_t len = 0; len < e->bytes.len; len++) { /* no cut breaks anything */
        buf_clear(&values);
        record_dump(e->record, bytes_of(e->bytes.data, len), &values);
    }
}

static void every_record_reads_and_writes_the_bytes_of_earlier_builds(void **ctx)
{
    static char line[LINE_MAX_BYTES];
    static struct example example;
    const struct record *record;
    bool seen[256] = {0};
    FILE *file = fopen(UNIT_DIR "/base/golden/records.txt", "r");
    (void)ctx;
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        print_message("%.100s\n", line);
        example_read(line, &example);
        example_check(&example);
        for (size_t i = 0; (record = record_nth(i)) != NULL; i++) {
            assert_true(i < ARRAY_LEN(seen));
            seen[i] = seen[i] || record == example.record;
        }
    }
    assert_int_equal(fclose(file), 0);
    buf_done(&example.bytes);
    for (size_t i = 0; (record = record_nth(i)) != NULL; i++)
        if (!seen[i])
            fail_msg("golden/records.txt has no example of %s", record->name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_of_the_list_is_sound),
        cmocka_unit_test(every_record_reads_and_writes_the_bytes_of_earlier_builds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
