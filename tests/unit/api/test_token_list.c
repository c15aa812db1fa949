/* The list of accessors: of tokens with a derived accessor, and of those in the index. */
#include "api/token_world.h"
#include "auth/token_accessor.h"
#include "state/ns_key.h"

#include <stdlib.h>

enum { MANY = 40, LISTED_MAX = 3 * MANY + 10 };

#define ACCESSORS "auth/token/accessors"

/* Names of a listing, in its order. */
struct listed {
    char items[LISTED_MAX][AUTH_ACCESSOR_LEN + 1];
    size_t n;
};

/* Add the names of one page; returns their number. */
static size_t add_page(struct listed *to, const char *path)
{
    size_t before = to->n;
    struct test_request *t = as(root, METHOD_LIST, path, NULL);
    if (t->http == 404)
        return 0;
    const char *at =
        strstr(expect(t, 200, "{\"keys\":[\"")->http == 200 ? text(t) : "", "\"keys\":[");
    assert_non_null(at);
    for (at = strchr(at, '['); *at != ']'; at += AUTH_ACCESSOR_LEN + 3) { /* ,"ACCESSOR" */
        assert_true(to->n < LISTED_MAX);
        (void)snprintf(to->items[to->n++], AUTH_ACCESSOR_LEN + 1, "%s", at + 2);
    }
    return to->n - before;
}

static void list_all(struct listed *ret)
{
    *ret = (struct listed){.n = 0};
    (void)add_page(ret, ACCESSORS);
}

static void list_paged(size_t limit, struct listed *ret)
{
    char path[128];
    size_t n;
    *ret = (struct listed){.n = 0};
    (void)snprintf(path, sizeof path, ACCESSORS "?limit=%zu", limit);
    while ((n = add_page(ret, path)) == limit)
        (void)snprintf(path, sizeof path, ACCESSORS "?limit=%zu&after=%s", limit,
                       ret->items[ret->n - 1]);
    assert_true(n < limit);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void assert_listed(struct listed *wanted)
{
    struct listed have;
    qsort(wanted->items, wanted->n, sizeof wanted->items[0], by_text);
    list_all(&have);
    assert_int_equal(have.n, wanted->n);
    assert_memory_equal(have.items, wanted->items, wanted->n * sizeof wanted->items[0]);
    for (size_t limit = 1; limit <= wanted->n + 1; limit++) {
        list_paged(limit, &have);
        assert_int_equal(have.n, wanted->n);
        assert_memory_equal(have.items, wanted->items, wanted->n * sizeof wanted->items[0]);
    }
}

static void want(struct listed *wanted, const char *accessor)
{
    assert_int_equal(strlen(accessor), AUTH_ACCESSOR_LEN);
    assert_true(wanted->n < LISTED_MAX);
    (void)snprintf(wanted->items[wanted->n++], AUTH_ACCESSOR_LEN + 1, "%s", accessor);
}

static struct made make_chosen(unsigned i)
{
    char body[64];
    (void)snprintf(body, sizeof body, "{\"id\":\"chosen-%u\"}", i);
    return make(root, body);
}

static uint64_t count(const char *prefix)
{
    struct store_pin pin;
    assert_status(store_pin(w.m.store, "test", 0, &pin), ST_OK);
    uint64_t n = store_count(&pin, bytes_str(prefix));
    store_unpin(&pin);
    return n;
}

static void want_root(struct listed *wanted)
{
    char accessor[64];
    copy_member(as(root, METHOD_GET, "auth/token/lookup-self", NULL), "accessor", accessor,
                sizeof accessor);
    want(wanted, accessor);
}

/* As below the first level: everything is in the index. */
static int open_first_level(void **ctx)
{
    (void)open_fresh(ctx);
    world_init(&w);
    (void)snprintf(root, sizeof root, "%s", w.token);
    return 0;
}

static void tokens_of_both_levels_are_listed_once_in_order(void **ctx)
{
    (void)ctx;
    struct listed wanted = {.n = 0};
    want_root(&wanted);
    for (unsigned i = 0; i < MANY; i++)
        want(&wanted, make(root, "{}").accessor);
    assert_listed(&wanted);
    assert_int_equal(count("s/ns/root/accessor/"), MANY + 1);
    world_raise();
    assert_listed(&wanted);
    for (unsigned i = 0; i < MANY; i++) {
        want(&wanted, make(root, "{}").accessor);
        want(&wanted, make_chosen(i).accessor);
    }
    assert_int_equal(count("s/ns/root/accessor/"), 2 * MANY + 1);
    assert_int_equal(count("s/ns/root/token/"), 3 * MANY + 1);
    assert_listed(&wanted);
    expect(as(root, METHOD_GET, "sys/internal/counters/tokens", NULL), 200, "\"total\":121");
}

static void tokens_that_ended_are_not_listed(void **ctx)
{
    (void)ctx;
    struct listed wanted = {.n = 0};
    struct made old = make(root, "{}");
    world_raise();
    struct made new = make(root, "{}"), chosen = make_chosen(0);
    want_root(&wanted);
    const char *const ended[] = {old.accessor, new.accessor, chosen.accessor};
    for (size_t i = 0; i < ARRAY_LEN(ended); i++)
        expect(post(root, "auth/token/revoke-accessor", about("accessor", ended[i])), 204, NULL);
    assert_listed(&wanted);
}

/* The token of the request is the first one, which the index has; end it, and no key is left. */
static void a_list_without_the_index_reads_no_record(void **ctx)
{
    (void)ctx;
    struct listed wanted = {.n = 0}, have;
    struct made other = make(root, "{}");
    expect(post(root, "auth/token/revoke-orphan", about("token", root)), 204, NULL);
    (void)clean_up();
    (void)snprintf(root, sizeof root, "%.63s", other.token);
    for (unsigned i = 0; i < MANY; i++)
        want(&wanted, make(root, "{}").accessor);
    want(&wanted, other.accessor);
    assert_int_equal(count("s/ns/root/accessor/"), 0);
    assert_listed(&wanted);
    world_put("s/ns/root/token/00000000000000000000000000000001", "no record");
    list_all(&have);
    assert_int_equal(have.n, wanted.n + 1);
    assert_string_equal(have.items[0], "000000000000000000000001");
}

/* An operator finds a damaged record by the accessor that names its id. */
static void a_record_that_cannot_be_read_is_listed(void **ctx)
{
    (void)ctx;
    struct listed wanted = {.n = 0};
    want_root(&wanted);
    want(&wanted, make(root, "{}").accessor);
    want(&wanted, make_chosen(0).accessor);
    world_put("s/ns/root/token/00000000000000000000000000000001", "no record");
    want(&wanted, "000000000000000000000001");
    assert_listed(&wanted);
    expect(post(root, "auth/token/lookup-accessor", about("accessor", "000000000000000000000001")),
           500, NULL);
}

static void a_page_begins_behind_any_text(void **ctx)
{
    (void)ctx;
    struct listed all, have;
    static const char *const texts[] = {"/", "0", "00", "003", "007z", "1", "Zz", "a-b", "zz~"};
    for (unsigned i = 0; i < MANY; i++) {
        (void)make(root, "{}");
        (void)make_chosen(i);
    }
    list_all(&all);
    assert_int_equal(all.n, 2 * MANY + 1);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        char path[64];
        size_t skipped = 0;
        while (skipped < all.n && strcmp(all.items[skipped], texts[i]) <= 0)
            skipped++;
        (void)snprintf(path, sizeof path, ACCESSORS "?after=%s", texts[i]);
        have = (struct listed){.n = 0};
        assert_int_equal(add_page(&have, path), all.n - skipped);
        assert_memory_equal(have.items, all.items[skipped], have.n * sizeof have.items[0]);
    }
    expect(as(root, METHOD_LIST, ACCESSORS "?limit=x", NULL), 400, "limit: a whole number");
    expect(as(root, METHOD_LIST, ACCESSORS "?after=a&after=b", NULL), 400, "more than once");
}

/* The keys of a token of another kind; no record of it is read. */
static void put_other(const char *kind, const char *id)
{
    char key[128];
    (void)snprintf(key, sizeof key, "s/ns/root/token/%s", id);
    world_put(key, "no record");
    (void)snprintf(key, sizeof key, "s/ns/root/token-kind/%s/%s", kind, id);
    world_put(key, "");
    (void)snprintf(key, sizeof key, "s/ns/root/accessor/%.8s-0000-0000-0000-000000000002", id);
    world_put(key, "no id");
}

static void tokens_of_other_apis_are_counted_and_not_listed(void **ctx)
{
    (void)ctx;
    struct listed wanted = {.n = 0};
    put_other("registry", "00000000000000000000000000000000");
    put_other("platform", "40000000000000000000000000000000");
    put_other("registry", "80000000000000000000000000000000");
    put_other("registry", "ffffffffffffffffffffffffffffffff");
    want_root(&wanted);
    for (unsigned i = 0; i < MANY; i++)
        want(&wanted, make(root, "{}").accessor);
    assert_listed(&wanted);
    for (unsigned i = 0; i < MANY; i++)
        want(&wanted, make_chosen(i).accessor);
    assert_listed(&wanted);
    expect(as(root, METHOD_GET, "sys/internal/counters/tokens", NULL), 200,
           "\"service_tokens\":{\"total\":81},\"registry_tokens\":{\"total\":3}");
}

#define TEST_FIRST(f) cmocka_unit_test_setup_teardown(f, open_first_level, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_FIRST(tokens_of_both_levels_are_listed_once_in_order),
        TEST_FIRST(tokens_that_ended_are_not_listed),
        TEST(a_list_without_the_index_reads_no_record),
        TEST(a_record_that_cannot_be_read_is_listed),
        TEST(a_page_begins_behind_any_text),
        TEST(tokens_of_other_apis_are_counted_and_not_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
