/* Memory of freed nodes. */
#include "support.h"

#include "store/spare.h"

static struct store_spare spare;

static int tear_down(void **ctx)
{
    (void)ctx;
    store_spare_done(&spare);
    return 0;
}

static void a_freed_piece_serves_every_size_that_takes_as_much(void **ctx)
{
    (void)ctx;
    void *one = store_spare_take(&spare, 41); /* 64 bytes of the allocator, as 56 */
    assert_int_equal(store_spare_bytes(41), 64);
    assert_int_equal(store_spare_bytes(56), 64);
    store_spare_give(&spare, one, 64);
    void *other = store_spare_take(&spare, 57);
    void *again = store_spare_take(&spare, 56);
    assert_true(again == one || !STORE_SPARE_KEEPS);
    memset(again, 1, 56);
    assert_ptr_not_equal(other, again);
    store_spare_give(NULL, other, store_spare_bytes(57));
    store_spare_give(&spare, again, 64);
}

static void a_bounded_number_of_bytes_is_kept(void **ctx)
{
    (void)ctx;
    enum { N = 2 * STORE_SPARE_BYTES_MAX / 64 };
    static void *pieces[N];
    for (unsigned i = 0; i < N; i++)
        pieces[i] = store_spare_take(&spare, 56);
    for (unsigned i = 0; i < N; i++)
        store_spare_give(&spare, pieces[i], 64);
    uint32_t kept = spare.bytes[64 / STORE_SPARE_UNIT];
    assert_true(kept <= STORE_SPARE_BYTES_MAX);
    assert_true(kept >= STORE_SPARE_BYTES_MAX / 2 || !STORE_SPARE_KEEPS);
    for (unsigned i = 0; i < N; i++)
        pieces[i] = store_spare_take(&spare, 56);
    assert_true(spare.bytes[64 / STORE_SPARE_UNIT] < STORE_SPARE_BYTES_MAX / 2);
    for (unsigned i = 0; i < N; i++)
        store_spare_give(NULL, pieces[i], 64);
}

static void a_large_piece_is_not_kept(void **ctx)
{
    (void)ctx;
    size_t bytes = STORE_SPARE_SIZES * STORE_SPARE_UNIT;
    void *piece = store_spare_take(&spare, bytes - sizeof(size_t));
    memset(piece, 1, bytes - sizeof(size_t));
    store_spare_give(&spare, piece, bytes);
    for (unsigned i = 0; i < STORE_SPARE_SIZES; i++)
        assert_null(spare.first[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_freed_piece_serves_every_size_that_takes_as_much, tear_down),
        cmocka_unit_test_teardown(a_bounded_number_of_bytes_is_kept, tear_down),
        cmocka_unit_test_teardown(a_large_piece_is_not_kept, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
