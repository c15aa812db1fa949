/* Keys of an archive, counted by prefix. */
#include "machine_world.h"

#include "raft/snapshot/rlog_inspect.h"

#include <stdio.h>

static struct world world;
static struct buf made;
static struct arena arena;
static struct rlog_inspect got;
static struct reason reason;

static enum status seal(void *ctx, struct bytes sums, struct buf *out)
{
    (void)ctx, (void)sums;
    buf_add(out, BYTES("proof"));
    return ST_OK;
}

static void archive(void)
{
    const struct rlog_archive_facts facts = {.index = 70, .term = 3, .cluster = "c"};
    const struct rlog_archive_out out = {world_collect, seal, &made};
    struct rlog_machine_dump dump;
    buf_clear(&made);
    assert_status(rlog_machine_dump_begin(&world.m, &dump), ST_OK);
    dump.replicated_only = true;
    assert_status(rlog_archive_write(&dump, &facts, &out), ST_OK);
    rlog_machine_dump_end(&dump);
}

static int set_up(void **state)
{
    *state = &world;
    world_open(&world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_done(&made);
    arena_done(&arena);
    world_close(&world);
    return 0;
}

static enum status read_some(void *ctx, void *room, size_t n, size_t *ret_n)
{
    struct bytes *rest = ctx;
    *ret_n = MIN(n, rest->len);
    if (*ret_n != 0)
        memcpy(room, rest->data, *ret_n);
    *rest = bytes_from(*rest, *ret_n);
    return ST_OK;
}

static enum status inspect(struct bytes bytes, uint64_t depth, const char *filter)
{
    const struct rlog_archive_in in = {.read = read_some, .ctx = &bytes};
    const struct rlog_inspect_options options = {true, depth, bytes_str(filter)};
    reason = (struct reason){{0}};
    return rlog_inspect(&in, &options, &arena, &got, &reason);
}

/* "NAME=KEYS/BYTES " of each group, then the total. */
static void assert_groups(uint64_t depth, const char *filter, const char *wanted)
{
    CLEANUP(buf_done) struct buf text = {0};
    assert_status(inspect(buf_bytes(&made), depth, filter), ST_OK);
    for (size_t i = 0; i < got.n_groups; i++)
        buf_add_format(&text, "%.*s=%d/%d ", (int)got.groups[i].name.len,
                       (const char *)got.groups[i].name.data, (int)got.groups[i].count.keys,
                       (int)got.groups[i].count.bytes);
    buf_add_format(&text, "%d/%d", (int)got.total.keys, (int)got.total.bytes);
    buf_add_u8(&text, 0);
    assert_int_equal(got.others.keys, 0);
    assert_string_equal((const char *)text.data, wanted);
}

static void fill(void)
{
    world_put(&world, "s/a", "1");
    world_put(&world, "s/a!", "12");
    world_put(&world, "s/a/b", "123");
    world_put(&world, "s/a/b/c", "1");
    world_put(&world, "s/a/b/d", "1");
    world_put(&world, "s/a//d", "1");
    world_put(&world, "s/z/", "");
    world_put(&world, "l/mine", "x");
    archive();
}

static void keys_are_counted_by_prefix(void **state)
{
    (void)state;
    fill();
    assert_groups(1, "", "a/=4/31 a=1/4 a!=1/6 z/=1/4 7/45");
    assert_groups(2, "", "a/b/=2/16 a=1/4 a!=1/6 a//=1/7 a/b=1/8 z/=1/4 7/45");
    assert_groups(0, "", "a=1/4 a!=1/6 a//d=1/7 a/b=1/8 a/b/c=1/8 a/b/d=1/8 z/=1/4 7/45");
}

static void a_filter_leaves_other_keys_out(void **state)
{
    (void)state;
    fill();
    assert_groups(2, "a/b", "a/b/=2/16 a/b=1/8 3/24");
    assert_groups(1, "a!", "a!=1/6 1/6");
    assert_groups(1, "s/", "0/0");
    assert_groups(1, "b", "0/0");
}

static void without_groups_only_the_total_is_counted(void **state)
{
    (void)state;
    fill();
    struct bytes bytes = buf_bytes(&made);
    const struct rlog_archive_in in = {.read = read_some, .ctx = &bytes};
    const struct rlog_inspect_options options = {.depth = 1};
    assert_status(rlog_inspect(&in, &options, &arena, &got, &reason), ST_OK);
    assert_int_equal(got.n_groups, 0);
    assert_int_equal(got.total.keys, 7);
    assert_int_equal(got.found->facts.index, 70);
    assert_int_equal(got.found->facts.term, 3);
    assert_true(got.found->state_bytes > 0);
}

static void an_archive_that_is_not_whole_shows_nothing(void **state)
{
    (void)state;
    fill();
    for (size_t n = 0; n < made.len; n++)
        assert_status(inspect(bytes_of(made.data, n), 2, ""), ST_INVALID);
    unsigned refused = 0;
    for (size_t bit = 0; bit < 8 * made.len; bit++) {
        made.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        enum status st = inspect(buf_bytes(&made), 2, "");
        made.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_true(st == ST_INVALID || st == ST_UNSUPPORTED || st == ST_TOO_BIG || st == ST_OK);
        assert_true(st == ST_OK || reason.text[0] != '\0');
        refused += st != ST_OK;
        assert_true(st != ST_OK || got.total.keys == 7);
        arena_done(&arena);
    }
    assert_true(refused > 7 * made.len); /* but for fields that mean nothing, as a gzip time */
    assert_status(inspect(BYTES("a text"), 2, ""), ST_INVALID);
}

static void groups_beyond_the_bound_are_counted_together(void **state)
{
    (void)state;
    char key[32];
    enum { MORE = 100 };
    for (unsigned i = 0; i < RLOG_INSPECT_GROUPS_MAX + MORE; i++) {
        (void)snprintf(key, sizeof key, "s/n%06u/k", i);
        world_put(&world, key, "v");
    }
    archive();
    assert_status(inspect(buf_bytes(&made), 1, ""), ST_OK);
    assert_int_equal(got.n_groups, RLOG_INSPECT_GROUPS_MAX);
    assert_int_equal(got.others.keys, MORE);
    assert_int_equal(got.others.bytes, MORE * 12);
    assert_int_equal(got.total.keys, RLOG_INSPECT_GROUPS_MAX + MORE);
    assert_status(inspect(buf_bytes(&made), 1, "n0655"), ST_OK);
    assert_int_equal(got.n_groups, 100);
    assert_int_equal(got.others.keys, 0);
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    enum status st = ST_NOMEM;
    uint64_t n = 0;
    fill();
    for (bool hit = true; hit;) {
        (void)mem_fail_nth(++n);
        st = inspect(buf_bytes(&made), 2, "");
        hit = mem_fail_nth(0);
        assert_true(st == ST_OK || (hit && st == ST_NOMEM));
        arena_done(&arena);
    }
    assert_true(n > 4);
    assert_status(st, ST_OK);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(keys_are_counted_by_prefix),
        TEST(a_filter_leaves_other_keys_out),
        TEST(without_groups_only_the_total_is_counted),
        TEST(an_archive_that_is_not_whole_shows_nothing),
        TEST(groups_beyond_the_bound_are_counted_together),
        TEST(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
