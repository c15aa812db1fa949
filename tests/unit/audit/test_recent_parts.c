/* The part that the two records of a request share is rendered once a buffer; each line is the same
 * as if it were rendered alone. */
#include "support.h"

#include "audit/facts.h"
#include "crypto/crypto.h"

#include <stdio.h>

enum { REQUESTS = 3 * AUDIT_RECENT_PARTS };

static struct audit_record *part_of(unsigned i)
{
    struct audit_record *part = NULL;
    char token[32];
    (void)snprintf(token, sizeof token, "hvs.%u", i);
    struct audit_facts facts = {.request_id = "id",
                                .operation = "read",
                                .ns = "root",
                                .path = BYTES("kv/a"),
                                .auth = {.client_token = bytes_str(token), .accessor = token}};
    assert_status(audit_facts_write(&facts, &part), ST_OK);
    return part;
}

static void lines_with_shared_parts_are_whole(void **state)
{
    static const uint8_t key[32] = {7};
    struct audit_record *parts[REQUESTS], *records[REQUESTS][2];
    CLEANUP(buf_done) struct buf shared = {0}, alone = {0};
    struct audit_recent recent = {.next = 0};
    struct audit_reply reply = {.http = 200};
    struct hmac *salt = NULL;
    (void)state;
    assert_status(crypto_init(NULL), ST_OK);
    assert_status(hmac_new(bytes_of(key, sizeof key), &salt), ST_OK);
    struct audit_render plain = {.salt = salt, .hmac_accessor = true}, with = plain;
    with.recent = &recent;
    for (unsigned i = 0; i < REQUESTS; i++) {
        parts[i] = part_of(i);
        assert_status(audit_facts_request(parts[i], 1, NULL, &records[i][0]), ST_OK);
        assert_status(audit_facts_reply(parts[i], 2, &reply, NULL, &records[i][1]), ST_OK);
    }
    size_t alone_bytes = audit_record_bytes(records[0][1], NULL);
    assert_int_equal(alone_bytes - audit_record_bytes(parts[0], NULL),
                     audit_record_bytes(records[0][1], records[0][0]));
    assert_int_equal(alone_bytes, audit_record_bytes(records[0][1], records[1][0]));
    /* the second record comes at once, a few records later, and after its part was dropped */
    for (unsigned lag = 0; lag < REQUESTS; lag += 7)
        for (unsigned i = 0; i < REQUESTS + lag; i++) {
            const struct audit_record *of[] = {i < REQUESTS ? records[i][0] : NULL,
                                               i >= lag ? records[i - lag][1] : NULL};
            for (unsigned k = 0; k < 2; k++)
                if (of[k] != NULL) {
                    assert_status(audit_record_render(of[k], &with, &shared), ST_OK);
                    assert_status(audit_record_render(of[k], &plain, &alone), ST_OK);
                }
        }
    assert_int_equal(shared.len, alone.len);
    assert_memory_equal(shared.data, alone.data, alone.len);
    for (unsigned i = 0; i < REQUESTS; i++) {
        audit_record_unref(records[i][0]);
        audit_record_unref(records[i][1]);
        audit_record_unref(parts[i]);
    }
    hmac_free(salt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines_with_shared_parts_are_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
