/* The text that `holdfast dump` prints about entries and content. */
#include "golden.h"

#include "base/record.h"
#include "raft/txn/rlog_describe.h"

static void collect(void *ctx, const char *text)
{
    buf_add_str(ctx, text);
    buf_add_u8(ctx, '\n');
}

static void assert_entry_reads(struct bytes entry, const char *wanted)
{
    struct buf text = {0};
    const struct rlog_lines lines = {collect, &text};
    rlog_entry_describe(entry, &lines);
    assert_bytes(buf_bytes(&text), bytes_str(wanted));
    buf_done(&text);
}

static void an_entry_is_explained(void **state)
{
    (void)state;
    struct buf entry = {0};
    golden_read("entry-2.bin", &entry);
    assert_entry_reads(
        buf_bytes(&entry),
        "cluster time 2023-11-14T22:13:20.123Z, feature 1, 3 transactions\n"
        "  transaction 0, request a00102030405060708090a0b0c0d0e0f issued at 77, answer 15 bytes\n"
        "    needs s/a at 41\n"
        "    needs no l/absent\n"
        "    needs nothing newer than 300 below s/dir/\n"
        "    put s/a (5 bytes)\n"
        "    put l/empty (0 bytes)\n"
        "    delete s/b\n"
        "    delete all below s/dir/\n"
        "    begin a staged tree\n"
        "    stage s/staged (1 bytes), created 5, changed 9\n"
        "    drop the staged tree\n"
        "    begin a staged tree\n"
        "    swap the staged tree in\n"
        "  transaction 1\n"
        "    needs s/common/authority/0 at 7\n"
        "    needs s/common/authority/1 at 8\n"
        "    needs s/common/authority/2 at 9\n"
        "    needs s/data/secrets/00000007 at 1\n"
        "    needs nothing newer than 5 below s/policy/\n"
        "    put s/data/secrets/00000007 (6 bytes)\n"
        "    put s/elsewhere (10 bytes)\n"
        "    delete s/data/secrets/00000007\n"
        "  transaction 2\n"
        "    needs s/common/authority/0 at 7\n"
        "    needs s/common/authority/1 at 8\n"
        "    needs s/common/authority/2 at 9\n"
        "    needs s/data/secrets/00000008 at 2\n"
        "    needs nothing newer than 5 below s/policy/\n"
        "    put s/data/secrets/00000008 (6 bytes)\n"
        "    put s/elsewhere (10 bytes)\n"
        "    delete s/data/secrets/00000008\n");
    buf_done(&entry);
}

static void what_a_follower_applies_is_explained(void **state)
{
    (void)state;
    struct buf entry = {0};
    golden_read("entry-2-follow.bin", &entry);
    assert_entry_reads(
        buf_bytes(&entry),
        "cluster time 2023-11-14T22:13:20.123Z, feature 4, 2 transactions\n"
        "  transaction 0\n"
        "    needs s/common/authority/0 at 7\n"
        "    needs s/common/authority/1 at 8\n"
        "    needs s/common/authority/2 at 9\n"
        "    needs s/data/secrets/00000007 at 1\n"
        "    needs nothing newer than 5 below s/policy/\n"
        "    put s/data/secrets/00000007 (6 bytes)\n"
        "    put s/elsewhere (10 bytes)\n"
        "    delete s/data/secrets/00000007\n"
        "  transaction 1\n"
        "    needs l/dr/role at 3\n"
        "    begin a staged tree\n"
        "    stage s/ (0 bytes), created 0, changed 0\n"
        "    stage newest change below s/dir/: 300\n"
        "    swap the staged tree in at version 1000, cluster time 2023-11-14T22:13:20.123Z\n"
        "    follow a run of the WAL (132 bytes)\n"
        "      at version 1, cluster time 2023-11-14T22:13:20.123Z\n"
        "        put s/a (5 bytes)\n"
        "        delete s/b\n"
        "        delete all below s/dir/\n"
        "        put s/c (1 bytes), then bytes 5 to 305 of what is there\n"
        "      at version 2, cluster time 2023-11-14T22:13:20.123Z\n"
        "      jump to version 1000, cluster time 2023-11-14T22:13:20.123Z\n"
        "      at version 1001, cluster time 2023-11-14T22:13:20.123Z\n"
        "        put s/d (0 bytes)\n"
        "    raise the version to 70000\n"
        "    begin a clone of the state\n"
        "    delete s/dir/gone in the staged tree\n"
        "    swap the staged tree in at version 80000, cluster time 2023-11-14T22:13:20.124Z\n"
        "    no newest change is older than 79000\n");
    buf_done(&entry);
}

/* As the text of an entry that a later check would refuse. */
static void a_malformed_run_is_said(void **state)
{
    (void)state;
    struct buf entry = {0};
    buf_add(&entry, BYTES("\2\0\4\0\0\0\0\0\0\0\0\0\1\0\0\0\x7\1\0\0\3\xB\1x"));
    assert_entry_reads(buf_bytes(&entry),
                       "cluster time 1970-01-01T00:00:00.000Z, feature 4, 1 transactions\n"
                       "  transaction 0\n"
                       "    follow a run of the WAL (1 bytes)\n"
                       "      malformed run\n");
    buf_done(&entry);
}

static void what_cannot_be_read_is_said(void **state)
{
    (void)state;
    struct buf entry = {0};
    golden_read("entry-2.bin", &entry);
    assert_entry_reads(bytes_of(entry.data, 5), "entry cannot be read: invalid request\n");
    entry.data[0] = 9;
    assert_entry_reads(buf_bytes(&entry),
                       "entry cannot be read: it needs a later version of this program\n");
    buf_done(&entry);
}

static void keys_that_do_not_print_are_escaped(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    struct buf txn = {0}, entry = {0};
    rlog_txn_delete(&b, BYTES("s/a@%s\\\n\xff"));
    assert_status(rlog_txn_encode(&b, &txn), ST_OK);
    assert_status(
        rlog_entry_encode(RLOG_FEATURE_FIRST, 0, &(struct bytes){txn.data, txn.len}, 1, &entry),
        ST_OK);
    assert_entry_reads(buf_bytes(&entry),
                       "cluster time 1970-01-01T00:00:00.000Z, feature 1, 1 transactions\n"
                       "  transaction 0\n"
                       "    delete s/a@%s\\x5c\\x0a\\xff\n");
    rlog_txn_done(&b);
    buf_done(&txn);
    buf_done(&entry);
}

static const struct record_field lamp_fields[] = {RECORD_ITSELF("lit", bool, U8)};
static const struct record raw_record = {RECORD(bool, lamp_fields), .name = "test/raw",
                                         .key = "l/raw/", .newest = 1, .raw = true};
RECORD_LISTED(raw_record);
static const struct record sealed_record = {RECORD(bool, lamp_fields), .name = "test/sealed",
                                            .key = "l/sealed/", .newest = 1};
RECORD_LISTED(sealed_record);

static void a_record_that_is_not_encrypted_is_shown_in_clear(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    struct buf txn = {0}, entry = {0};
    rlog_txn_put(&b, BYTES("l/raw/a"), BYTES("\1\1"));
    rlog_txn_put(&b, BYTES("l/raw/b"), BYTES("\1\2"));
    rlog_txn_put(&b, BYTES("l/sealed/a"), BYTES("\1\1"));
    assert_status(rlog_txn_encode(&b, &txn), ST_OK);
    assert_status(
        rlog_entry_encode(RLOG_FEATURE_FIRST, 0, &(struct bytes){txn.data, txn.len}, 1, &entry),
        ST_OK);
    assert_entry_reads(buf_bytes(&entry),
                       "cluster time 1970-01-01T00:00:00.000Z, feature 1, 1 transactions\n"
                       "  transaction 0\n"
                       "    put l/raw/a (2 bytes)\n"
                       "      test/raw: lit true\n"
                       "    put l/raw/b (2 bytes)\n"
                       "      test/raw: malformed\n"
                       "    put l/sealed/a (2 bytes)\n");
    rlog_txn_done(&b);
    buf_done(&txn);
    buf_done(&entry);
}

static void content_is_explained(void **state)
{
    (void)state;
    struct buf content = {0}, text = {0};
    struct rlog_content *reader = NULL;
    const struct rlog_lines lines = {collect, &text};
    const struct rlog_content_visit visit = rlog_content_describe(&lines);
    golden_read("content-1.bin", &content);
    assert_status(rlog_content_begin(&visit, &reader), ST_OK);
    assert_status(rlog_content_piece(reader, buf_bytes(&content)), ST_OK);
    assert_status(rlog_content_end(reader), ST_OK);
    buf_add_u8(&text, 0);
    const char *said = (const char *)text.data;
    assert_non_null(strstr(said, "version 7, local version 2, feature 1\n"));
    assert_non_null(strstr(said, "\ns/ (0 bytes), created 0, changed 0\n"));
    assert_non_null(strstr(said, "\ns/ab (1 bytes), created 2, changed 2\n"));
    assert_non_null(strstr(said, "\nnewest change below s/gone/2: 6\n"));
    assert_non_null(strstr(said, "\nl/req/i\\x04\\x00"));
    buf_done(&content);
    buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_is_explained),
        cmocka_unit_test(what_a_follower_applies_is_explained),
        cmocka_unit_test(a_malformed_run_is_said),
        cmocka_unit_test(what_cannot_be_read_is_said),
        cmocka_unit_test(keys_that_do_not_print_are_escaped),
        cmocka_unit_test(a_record_that_is_not_encrypted_is_shown_in_clear),
        cmocka_unit_test(content_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
