/* Which requests are recorded, and when a request counts as recorded. */
#include "state/fake_env.h"
#include "support.h"

#include "audit/audit.h"
#include "barrier/token.h"
#include "base/mem.h"

enum { DEVICES = AUDIT_DEVICES_MAX + 1 };

struct device {
    struct audit_device device;
    struct audit_write *write;
};

struct world {
    struct fake_env env;
    struct seal seal;
    struct barrier_created created;
    struct barrier_cipher *cipher;
    struct audit audit;
    struct device devices[DEVICES];
    struct audit_op op;
    unsigned done;
    enum status st;
};

static void device_write(struct audit_device *device, struct audit_write *write)
{
    CONTAINER_OF(device, struct device, device)->write = write;
}

static void on_done(struct audit_op *op, enum status st)
{
    struct world *w = CONTAINER_OF(op, struct world, op);
    w->done++;
    w->st = st;
}

static int setup(void **state)
{
    static struct world w;
    static const uint8_t key[32] = {7};
    w = (struct world){.op.done = on_done};
    fake_env_init(&w.env, 1);
    if (crypto_init(NULL) != ST_OK ||
        seal_static(bytes_of(key, 32), "k1", &w.seal, NULL) != ST_OK ||
        barrier_create(&w.env.env, &w.seal, 1000, &w.created) != ST_OK)
        return -1;
    audit_init(&w.audit);
    for (size_t i = 0; i < DEVICES; i++)
        w.devices[i].device = (struct audit_device){.name = "d", .write = device_write};
    *state = &w;
    return barrier_cipher_new(w.created.barrier, &w.env.env, &w.cipher) == ST_OK ? 0 : -1;
}

static int teardown(void **state)
{
    struct world *w = *state;
    barrier_cipher_free(w->cipher);
    barrier_created_done(&w->created);
    seal_done(&w->seal);
    return 0;
}

static void enable(struct world *w, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        assert_status(audit_enable(&w->audit, &w->devices[i].device), ST_OK);
}

static const char *const policies[] = {"default", "a\"b"};
static const struct audit_facts facts = {
    .kind = AUDIT_REPLY,
    .time_ms = 0,
    .request_id = "r1",
    .operation = "update",
    .ns = "root",
    .peer = "192.0.2.1:1",
    .path = {(const uint8_t *)"kv/a", 4},
    .token = {(const uint8_t *)"hvs.x", 5},
    .accessor = "acc",
    .display_name = "shown",
    .token_type = "service",
    .policies = policies,
    .n_policies = 2,
    .mount_type = "kv",
    .status = 403,
    .error = "permission denied",
};

static void answer(struct world *w, unsigned i, enum status st)
{
    w->devices[i].write->done(w->devices[i].write, st);
}

static void a_record_says_everything(void **state)
{
    struct world *w = *state;
    CLEANUP(buf_done) struct buf want = {0};
    char name[2 * BARRIER_MAC_BYTES + 1];
    enable(w, 1);
    assert_status(audit_record(&w->audit, w->cipher, &facts, &w->op), ST_OK);
    assert_status(token_name(w->cipher, facts.token, name), ST_OK);
    buf_add_format(&want,
                   "{\"time\":\"1970-01-01T00:00:00Z\",\"type\":\"response\","
                   "\"auth\":{\"accessor\":\"acc\",\"display_name\":\"shown\","
                   "\"token_type\":\"service\",\"policies\":[\"default\",\"a\\\"b\"]},"
                   "\"request\":{\"id\":\"r1\",\"operation\":\"update\",\"path\":\"kv/a\","
                   "\"namespace\":{\"id\":\"root\"},\"mount_type\":\"kv\","
                   "\"remote_address\":\"192.0.2.1:1\",\"client_token\":\"hmac-sha256:%s\"},"
                   "\"response\":{\"status\":403},\"error\":\"permission denied\"}",
                   name);
    assert_bytes(w->devices[0].write->line, buf_bytes(&want));
    answer(w, 0, ST_OK);
    assert_int_equal(w->done, 1);
    assert_status(w->st, ST_OK);
}

/* The record of a request has no reply, and may have no token. */
static void what_is_unknown_is_left_out(void **state)
{
    struct world *w = *state;
    struct audit_facts few = facts;
    enable(w, 1);
    few.kind = AUDIT_REQUEST;
    few.token = (struct bytes){0};
    few.accessor = NULL;
    few.error = NULL;
    assert_status(audit_record(&w->audit, w->cipher, &few, &w->op), ST_OK);
    assert_bytes(w->devices[0].write->line,
                 BYTES("{\"time\":\"1970-01-01T00:00:00Z\",\"type\":\"request\",\"auth\":{},"
                       "\"request\":{\"id\":\"r1\",\"operation\":\"update\",\"path\":\"kv/a\","
                       "\"namespace\":{\"id\":\"root\"},\"mount_type\":\"kv\","
                       "\"remote_address\":\"192.0.2.1:1\"}}"));
    answer(w, 0, ST_OK);
}

static void a_token_cannot_be_told_while_sealed(void **state)
{
    struct world *w = *state;
    enable(w, 1);
    barrier_seal(w->created.barrier);
    assert_status(audit_record(&w->audit, w->cipher, &facts, &w->op), ST_OK);
    struct bytes line = w->devices[0].write->line;
    assert_null(memmem(line.data, line.len, "client_token", 12));
    assert_null(memmem(line.data, line.len, "hvs.x", 5));
    answer(w, 0, ST_OK);
    assert_status(w->st, ST_OK);
}

static void one_device_that_accepts_is_enough(void **state)
{
    struct world *w = *state;
    enable(w, 3);
    for (unsigned accepts = 0; accepts < 3; accepts++) {
        w->done = 0;
        assert_status(audit_record(&w->audit, w->cipher, &facts, &w->op), ST_OK);
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(w->done, 0); /* the others are waited for */
            answer(w, i, i == accepts ? ST_OK : ST_IO);
        }
        assert_int_equal(w->done, 1);
        assert_status(w->st, ST_OK);
    }
}

static void without_a_device_that_accepts_it_failed(void **state)
{
    struct world *w = *state;
    enable(w, 2);
    for (int again = 0; again < 2; again++) {
        assert_status(audit_record(&w->audit, w->cipher, &facts, &w->op), ST_OK);
        answer(w, 1, ST_IO);
        answer(w, 0, again == 0 ? ST_OK : ST_NO_SPACE);
        assert_status(w->st, again == 0 ? ST_OK : ST_IO); /* nothing of before counts */
    }
}

static void devices_are_bounded(void **state)
{
    struct world *w = *state;
    assert_false(audit_enabled(&w->audit));
    enable(w, AUDIT_DEVICES_MAX);
    assert_true(audit_enabled(&w->audit));
    assert_status(audit_enable(&w->audit, &w->devices[AUDIT_DEVICES_MAX].device), ST_NO_SPACE);
    assert_status(audit_record(&w->audit, w->cipher, &facts, &w->op), ST_OK);
    assert_null(w->devices[AUDIT_DEVICES_MAX].write);
    for (unsigned i = 0; i < AUDIT_DEVICES_MAX; i++)
        answer(w, i, ST_OK);
    assert_int_equal(w->done, 1);
}

static void running_out_of_memory_is_told(void **state)
{
    struct world *w = *state;
    bool failed = true;
    enable(w, 1);
    for (uint64_t n = 1; failed; n++) {
        w->devices[0].write = NULL;
        (void)mem_fail_nth(n);
        enum status st = audit_record(&w->audit, w->cipher, &facts, &w->op);
        failed = mem_fail_nth(0);
        assert_status(st, failed ? ST_NOMEM : ST_OK);
        assert_true((w->devices[0].write == NULL) == failed); /* no half of a record */
        assert_true(n < 100);
    }
    answer(w, 0, ST_OK);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_record_says_everything),
        T(what_is_unknown_is_left_out),
        T(a_token_cannot_be_told_while_sealed),
        T(one_device_that_accepts_is_enough),
        T(without_a_device_that_accepts_it_failed),
        T(devices_are_bounded),
        T(running_out_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
