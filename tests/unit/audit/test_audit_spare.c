/* The memory that a worker uses again for its records. */
#include "support.h"

#include "audit/audit_spare.h"
#include "audit/record_write.h"
#include "base/mem.h"

#include <stdio.h>

static void a_block_that_was_given_back_is_taken_again(void **state)
{
    struct audit_spare spare = {0};
    const size_t sizes[] = {1, AUDIT_SPARE_SMALL, AUDIT_SPARE_SMALL + 1, AUDIT_SPARE_LARGE};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        size_t whole = sizes[i] <= AUDIT_SPARE_SMALL ? AUDIT_SPARE_SMALL : AUDIT_SPARE_LARGE;
        void *first = audit_spare_take(&spare, sizes[i]);
        memset(first, 1, sizes[i]);
        audit_spare_give(&spare, first, sizes[i]);
        void *again = audit_spare_take(&spare, whole);
        assert_ptr_equal(again, first);
        memset(again, 2, whole); /* the address sanitizer checks that there is room */
        audit_spare_give(&spare, again, whole);
    }
    assert_int_equal(spare.small.n, 1);
    assert_int_equal(spare.large.n, 1);
    audit_spare_give(&spare, NULL, 1);
    assert_int_equal(spare.small.n, 1);
    audit_spare_done(&spare);
    assert_int_equal(spare.small.n + spare.large.n, 0);
}

static void no_more_than_a_bounded_number_is_kept(void **state)
{
    static void *blocks[AUDIT_SPARE_MAX + 10];
    struct audit_spare spare = {0};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
        assert_non_null(blocks[i] = audit_spare_take(&spare, 100));
    for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
        audit_spare_give(&spare, blocks[i], 100);
    assert_int_equal(spare.small.n, AUDIT_SPARE_MAX);
    audit_spare_done(&spare);
}

static void large_blocks_and_those_without_a_worker_are_of_the_heap(void **state)
{
    struct audit_spare spare = {0};
    (void)state;
    void *large = audit_spare_take(&spare, AUDIT_SPARE_LARGE + 1);
    assert_non_null(large);
    audit_spare_give(&spare, large, AUDIT_SPARE_LARGE + 1);
    assert_int_equal(spare.large.n, 0);
    void *heap = audit_spare_take(NULL, 10);
    assert_non_null(heap);
    audit_spare_give(NULL, heap, 10);
    (void)mem_fail_nth(1);
    assert_null(audit_spare_take(&spare, 10));
    assert_true(mem_fail_nth(0));
}

/* `expected`: the size that the writer begins with. */
static void make_record(struct audit_spare *spare, const char *json, size_t expected)
{
    struct audit_writer a;
    struct audit_record *record = NULL;
    audit_writer_begin(&a, spare, expected);
    text_open_object(&a.w);
    text_key(&a.w, "data");
    audit_put_json(&a, bytes_str(json), (struct audit_exempt){0}, false);
    text_close(&a.w);
    assert_status(audit_writer_end(&a, &record), ST_OK);
    audit_record_unref(record);
}

static void records_of_any_size_give_their_memory_back(void **state)
{
    struct audit_spare spare = {0};
    const size_t expected[] = {0, 600, 5000, 200000};
    static char json[100000];
    (void)state;
    for (size_t len = 10; len < sizeof json; len += len / 3) {
        (void)snprintf(json, sizeof json, "[\"%0*d\"]", (int)len - 5, 1); /* fits */
        for (size_t i = 0; i < ARRAY_LEN(expected); i++)
            make_record(&spare, json, expected[i]);
    }
    make_record(&spare, "[1]", 600);
    assert_true(spare.small.n > 0 && spare.large.n > 0);
    /* each block is as large as it must be: the address sanitizer checks that */
    while (spare.large.n > 0) {
        void *block = audit_spare_take(&spare, AUDIT_SPARE_LARGE);
        memset(block, 1, AUDIT_SPARE_LARGE);
        mem_free(block);
    }
    while (spare.small.n > 0) {
        void *block = audit_spare_take(&spare, AUDIT_SPARE_SMALL);
        memset(block, 1, AUDIT_SPARE_SMALL);
        mem_free(block);
    }
}

/* Plain texts are gone from memory when it is kept, also those of a body that proved to be no JSON
 * after some of its strings were written. */
static void memory_that_is_kept_has_no_texts(void **state)
{
    const char *bodies[] = {"[\"PLANTED\",\"PLAN\\u0054ED\"]", "[\"PLANTED\",\"PLAN\\u0054ED\\x\"]",
                            "[\"PLANTED\",nonsense"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        struct audit_spare spare = {0};
        make_record(&spare, bodies[i], 0);
        while (spare.small.n > 0) {
            uint8_t *block = audit_spare_take(&spare, AUDIT_SPARE_SMALL);
            assert_null(memmem(block, AUDIT_SPARE_SMALL, "PLAN", 4));
            mem_free(block);
        }
        audit_spare_done(&spare);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_that_was_given_back_is_taken_again),
        cmocka_unit_test(no_more_than_a_bounded_number_is_kept),
        cmocka_unit_test(large_blocks_and_those_without_a_worker_are_of_the_heap),
        cmocka_unit_test(records_of_any_size_give_their_memory_back),
        cmocka_unit_test(memory_that_is_kept_has_no_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
