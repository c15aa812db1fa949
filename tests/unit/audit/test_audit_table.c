/* The table of a node's audit devices follows the state, the seal and the configuration file. */
#include "api/api_world.h"

#include "audit/audit_table.h"
#include "base/trace.h"

#include <sys/resource.h>

#define SALT "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static struct audit_table *table;

static int open_table(void **ctx)
{
    (void)open_world(ctx);
    static const char *const directories[] = {"/no/such", "/tmp"};
    static const struct audit_places places = {"/no/data", directories, 2, false};
    return audit_table_new(&places, &table) == ST_OK ? 0 : -1;
}

static int close_table(void **ctx)
{
    audit_table_close(table);
    audit_table_free(table);
    return close_world(ctx);
}

static struct audit_entry entry_of(const char *path, const char *const options[2])
{
    return (struct audit_entry){.path = path,
                                .uuid = path,
                                .type = "file",
                                .description = "",
                                .options = {.pairs = options, .n = 1, .given = true},
                                .salt = SALT};
}

static const char *const discard[] = {"file_path", "discard"};

/* Run one transaction: store an entry, or delete the entry of a path. */
static void change(const struct audit_entry *entry, const char *gone)
{
    struct arena arena = {0};
    struct state_txn txn;
    struct state_commit commit = {.done = saved};
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    assert_status(entry != NULL ? audit_entry_save(&txn, entry) : audit_entry_delete(&txn, gone),
                  ST_OK);
    assert_status(state_commit(&txn, &commit), ST_OK);
    state_end(&txn);
    clock_run(&w.env);
    state_commit_done(&commit);
    arena_done(&arena);
}

static void enable(const char *path)
{
    const struct audit_entry entry = entry_of(path, discard);
    change(&entry, NULL);
}

/* The set for a transaction that begins now. */
static struct audit_set *present(void)
{
    struct arena arena = {0};
    struct state_txn txn;
    struct audit_set *set = NULL;
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    assert_status(table->get(table, &txn, &set), ST_OK);
    state_end(&txn);
    arena_done(&arena);
    return set;
}

static unsigned count(void)
{
    struct audit_set *set = present();
    unsigned n = set->n_uses;
    audit_set_unref(set);
    return n;
}

static const char *status_of(const struct audit_set *set, unsigned i, struct reason *why)
{
    assert_true(i < set->n_uses);
    return audit_use_status(set->uses[i], why);
}

static void a_set_has_the_devices_of_the_version_that_is_read(void **ctx)
{
    (void)ctx;
    assert_int_equal(count(), 0);
    enable("b/");
    struct audit_set *first = present();
    assert_int_equal(first->n, 1);
    assert_string_equal(first->uses[0]->path, "b/");
    enable("a/");
    struct audit_set *second = present();
    assert_int_equal(second->n, 2);
    assert_ptr_equal(second->devices[1], first->devices[0]); /* it stays open */
    change(NULL, "b/");
    assert_int_equal(count(), 1);
    assert_int_equal(first->n_uses, 1); /* a set never changes */
    audit_set_unref(first);
    audit_set_unref(second);
}

static void a_device_enabled_again_is_another_device(void **ctx)
{
    (void)ctx;
    char one[AUDIT_HMAC_LEN + 1], two[AUDIT_HMAC_LEN + 1];
    struct audit_entry entry = entry_of("a/", discard);
    enable("a/");
    struct audit_set *set = present();
    assert_status(audit_use_hash(set->uses[0], BYTES("x"), one), ST_OK);
    audit_set_unref(set);
    entry.uuid = "other";
    entry.salt = "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    change(&entry, NULL);
    set = present();
    assert_status(audit_use_hash(set->uses[0], BYTES("x"), two), ST_OK);
    assert_string_not_equal(one, two);
    audit_set_unref(set);
}

static void looking_for_devices_gives_a_transaction_no_precondition(void **ctx)
{
    (void)ctx;
    struct arena arena = {0};
    struct state_txn txn;
    struct audit_set *set;
    struct state_commit commit = {.done = saved};
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    assert_status(table->get(table, &txn, &set), ST_OK);
    audit_set_unref(set);
    enable("a/");
    assert_status(state_put(&txn, BYTES("s/ns/root/config/x"), BYTES("1")), ST_OK);
    assert_status(state_commit(&txn, &commit), ST_OK);
    state_end(&txn);
    clock_run(&w.env); /* `saved` expects that it was applied */
    state_commit_done(&commit);
    arena_done(&arena);
}

static void an_entry_that_cannot_be_opened_counts_as_enabled(void **ctx)
{
    (void)ctx;
    static const char *const strange[] = {"colour", "red"};
    const struct audit_entry entry = entry_of("a/", strange);
    struct reason why;
    change(&entry, NULL);
    struct audit_set *set = present();
    assert_int_equal(set->n_uses, 1);
    assert_int_equal(set->n, 0);
    assert_string_equal(status_of(set, 0, &why), "failing");
    assert_non_null(strstr(why.text, "colour"));
    audit_set_unref(set);
    audit_table_watch(table, w.state);
    assert_true(audit_table_is_mute(table));
    enable("b/");
    audit_table_watch(table, w.state);
    assert_false(audit_table_is_mute(table));
    change(NULL, "b/");
    change(NULL, "a/");
    audit_table_watch(table, w.state);
    assert_false(audit_table_is_mute(table)); /* nothing is enabled */
}

static void a_record_that_is_corrupt_counts_as_enabled_and_can_be_deleted(void **ctx)
{
    (void)ctx;
    struct arena arena = {0};
    struct state_txn txn;
    struct state_commit commit = {.done = saved};
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    assert_status(state_put(&txn, BYTES(AUDIT_SHARED_PREFIX "device/a/"), BYTES("{")), ST_OK);
    assert_status(state_commit(&txn, &commit), ST_OK);
    state_end(&txn);
    clock_run(&w.env);
    state_commit_done(&commit);
    arena_done(&arena);
    assert_int_equal(count(), 1);
    change(NULL, "a/");
    assert_int_equal(count(), 0);
}

static void declare(const char *path, enum status st)
{
    struct reason why = {{0}};
    const struct audit_entry entry = entry_of(path, discard);
    assert_status(audit_table_declare(table, &entry, &why), st);
    assert_int_equal(why.text[0] != '\0', st == ST_INVALID);
}

static void a_sealed_node_has_the_declared_devices_without_salt(void **ctx)
{
    (void)ctx;
    char hash[AUDIT_HMAC_LEN + 1], again[AUDIT_HMAC_LEN + 1];
    struct audit_set *set;
    declare("own/", ST_OK);
    enable("a/");
    set = present();
    assert_int_equal(set->n, 2);
    assert_status(audit_use_hash(set->uses[0], BYTES("x"), hash), ST_OK);
    audit_set_unref(set);
    barrier_seal(w.barrier);
    audit_table_watch(table, w.state);
    assert_status(table->get(table, NULL, &set), ST_OK);
    assert_int_equal(set->n, 1);
    assert_true(set->uses[0]->declared);
    assert_status(audit_use_hash(set->uses[0], BYTES("x"), again), ST_NOT_FOUND);
    audit_set_unref(set);
    assert_status(state_unseal(w.m.store, w.barrier, &w.seal, NULL), ST_OK);
    audit_table_watch(table, w.state);
    assert_status(table->get(table, NULL, &set), ST_OK);
    assert_int_equal(set->n, 2);
    assert_status(audit_use_hash(set->uses[0], BYTES("x"), again), ST_OK);
    assert_string_equal(hash, again);
    audit_set_unref(set);
}

static void a_declared_path_is_taken_once_and_wins_over_the_state(void **ctx)
{
    (void)ctx;
    static const char *const strange[] = {"colour", "red"};
    const struct audit_entry wrong = entry_of("b/", strange);
    struct reason why = {{0}};
    declare("own/", ST_OK);
    declare("own/", ST_INVALID);
    declare("own/below/", ST_INVALID);
    assert_status(audit_table_declare(table, &wrong, &why), ST_INVALID);
    assert_non_null(strstr(why.text, "colour"));
    enable("own/");
    enable("own/below/");
    struct audit_set *set = present();
    assert_int_equal(set->n_uses, 1);
    assert_true(set->uses[0]->declared);
    audit_set_unref(set);
}

static void a_file_has_one_device(void **ctx)
{
    (void)ctx;
    static const char *const first[] = {"file_path", "/no/such/audit.log"};
    static const char *const file[] = {"file_path", "/tmp/no-such.log"};
    const struct audit_entry entry = entry_of("own/", file);
    struct reason why = {{0}};
    assert_status(audit_table_declare(table, &entry, &why), ST_OK);
    const struct audit_entry again = entry_of("other/", file);
    assert_status(audit_table_declare(table, &again, &why), ST_INVALID);
    assert_non_null(strstr(why.text, "own/"));
    const struct audit_entry third = entry_of("third/", first);
    assert_status(audit_table_declare(table, &third, &why), ST_OK);
    declare("a/", ST_OK);
    declare("b/", ST_OK); /* discard may repeat */
}

static unsigned n_told;

static void count_told(enum trace_level level, const char *module, const char *text)
{
    (void)level;
    (void)module;
    n_told += strstr(text, "cannot be opened") != NULL || strstr(text, "is closed") != NULL;
}

/* Without descriptors no device can be made; the watch tries again and again. */
static void a_retry_that_fails_logs_nothing_anew(void **ctx)
{
    (void)ctx;
    struct rlimit limit, none;
    enable("a/");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    n_told = 0;
    trace_set_sink(count_told);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (unsigned i = 0; i < 4; i++)
        audit_table_watch(table, w.state);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(n_told, 1);
    audit_table_watch(table, w.state);
    trace_set_sink(NULL);
    struct audit_set *set = present();
    assert_int_equal(set->n, 1);
    audit_set_unref(set);
}

static void request_headers_are_part_of_the_set(void **ctx)
{
    (void)ctx;
    struct arena arena = {0};
    struct state_txn txn;
    struct state_commit commit = {.done = saved};
    const struct audit_header header = {.name = "x-trace", .hmac = true};
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    assert_status(audit_header_save(&txn, &header), ST_OK);
    assert_status(state_commit(&txn, &commit), ST_OK);
    state_end(&txn);
    clock_run(&w.env);
    state_commit_done(&commit);
    arena_done(&arena);
    struct audit_set *set = present();
    assert_int_equal(set->n_headers, 1);
    assert_string_equal(set->headers[0].name, "x-trace");
    assert_true(set->headers[0].hmac);
    audit_set_unref(set);
}

static void devices_are_enabled_while_the_state_is_full(void **ctx)
{
    (void)ctx;
    set_full(true);
    enable("a/");
    assert_int_equal(count(), 1);
    change(NULL, "a/");
    assert_int_equal(count(), 0);
    set_full(false);
}

static void the_first_records_need_their_feature_level(void **ctx)
{
    (void)ctx;
    w.node.raft.feature = AUDIT_FEATURE - 1;
    expect(request(METHOD_POST, "/v1/sys/audit/a",
                   "{\"type\":\"file\",\"options\":{\"file_path\":\"discard\"}}", 503),
           503, "feature level 2");
    expect(request(METHOD_POST, "/v1/sys/config/auditing/request-headers/a", "{}", 503), 503,
           "feature level 2");
    assert_int_equal(count(), 0);
}

static void a_failed_allocation_leaves_the_set_as_it_was(void **ctx)
{
    (void)ctx;
    struct arena arena = {0};
    struct state_txn txn;
    struct audit_set *set = NULL;
    enum status st = ST_NOMEM;
    enable("a/");
    for (unsigned n = 1; st != ST_OK; n++) {
        assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
        (void)mem_fail_nth(n);
        st = table->get(table, &txn, &set);
        (void)mem_fail_nth(0);
        state_end(&txn);
        if (st == ST_OK)
            break;
        assert_status(st, ST_NOMEM);
        assert_true(n < 1000);
    }
    assert_int_equal(set->n_uses, 1); /* also where its device could not be made */
    audit_set_unref(set);
    audit_table_watch(table, w.state); /* tries again */
    set = present();
    assert_int_equal(set->n, 1);
    audit_set_unref(set);
    arena_done(&arena);
}

#undef TEST
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_table, close_table)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_set_has_the_devices_of_the_version_that_is_read),
        TEST(a_device_enabled_again_is_another_device),
        TEST(looking_for_devices_gives_a_transaction_no_precondition),
        TEST(an_entry_that_cannot_be_opened_counts_as_enabled),
        TEST(a_record_that_is_corrupt_counts_as_enabled_and_can_be_deleted),
        TEST(a_sealed_node_has_the_declared_devices_without_salt),
        TEST(a_declared_path_is_taken_once_and_wins_over_the_state),
        TEST(a_file_has_one_device),
        TEST(a_retry_that_fails_logs_nothing_anew),
        TEST(request_headers_are_part_of_the_set),
        TEST(devices_are_enabled_while_the_state_is_full),
        TEST(the_first_records_need_their_feature_level),
        TEST(a_failed_allocation_leaves_the_set_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
