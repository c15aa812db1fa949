/* Operations of a worker: when a request counts as recorded, and for whom it waits. */
#include "base/mem.h"

#include "audit/fake_devices.h"
#include "audit/record_write.h"
#include "router/clock_env.h"

struct world {
    struct clock_env env;
    struct audit audit;
    struct fake_devices fake;
    struct audit_record *records[2];
    struct audit_op op, other;
    unsigned done, other_done;
    enum status st, other_st;
};

static void on_done(struct audit_op *op, enum status st)
{
    struct world *w = CONTAINER_OF(op, struct world, op);
    w->done++;
    w->st = st;
}

static void on_other_done(struct audit_op *op, enum status st)
{
    struct world *w = CONTAINER_OF(op, struct world, other);
    w->other_done++;
    w->other_st = st;
}

static void on_any_done(struct audit_op *op, enum status st)
{
    (void)op;
    assert_status(st, ST_OK);
}

static struct audit_record *record_of(const char *text)
{
    struct audit_writer a;
    struct audit_record *record;
    audit_writer_begin(&a, NULL, 0);
    text_put_str(&a.w, text);
    assert_status(audit_writer_end(&a, &record), ST_OK);
    return record;
}

static void open_world(struct world *w, unsigned n)
{
    *w = (struct world){.op.done = on_done, .other.done = on_other_done};
    clock_env_init(&w->env);
    audit_init(&w->audit, &w->env.env);
    fake_devices_init(&w->fake, n);
    for (unsigned i = 0; i < n; i++)
        w->fake.devices[i].holds = true;
    w->records[0] = record_of("first");
    w->records[1] = record_of("second");
}

static void close_world(struct world *w)
{
    audit_record_unref(w->records[0]);
    audit_record_unref(w->records[1]);
    audit_done(&w->audit);
    fake_devices_done(&w->fake);
    timer_heap_done(&w->env.timers);
}

static void offer(struct world *w, unsigned n)
{
    w->done = 0;
    assert_status(audit_offer(&w->audit, &w->fake.set, w->records, n, &w->op), ST_OK);
    assert_int_equal(w->done, 0);
}

static void pass(struct world *w, uint64_t ms)
{
    w->env.now_ms += ms;
    clock_run(&w->env);
}

static void one_device_that_accepts_is_enough(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, 3);
    for (unsigned accepts = 0; accepts < 3; accepts++) {
        offer(&w, 1);
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(w.done, 0); /* the others are waited for */
            fake_answer(&w.fake.devices[i], i == accepts ? ST_OK : ST_IO);
        }
        assert_int_equal(w.done, 1);
        assert_status(w.st, ST_OK);
    }
    close_world(&w);
}

static void without_a_device_that_accepts_it_failed(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, 2);
    for (int again = 0; again < 2; again++) {
        offer(&w, 1);
        fake_answer(&w.fake.devices[1], ST_IO);
        fake_answer(&w.fake.devices[0], again == 0 ? ST_OK : ST_NO_SPACE);
        assert_status(w.st, again == 0 ? ST_OK : ST_IO); /* nothing of before counts */
    }
    assert_int_equal(w.audit.failures, 1);
    close_world(&w);
}

static void each_of_two_records_needs_a_device(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, 2);
    offer(&w, 2);
    assert_string_equal(w.fake.devices[0].lines[0], "\"first\"");
    assert_string_equal(w.fake.devices[0].lines[1], "\"second\"");
    fake_answer(&w.fake.devices[0], ST_OK);
    fake_answer(&w.fake.devices[0], ST_IO);
    fake_answer(&w.fake.devices[1], ST_IO);
    assert_int_equal(w.done, 0);
    fake_answer(&w.fake.devices[1], ST_OK);
    assert_status(w.st, ST_OK); /* each has one */
    offer(&w, 2);
    fake_answer(&w.fake.devices[0], ST_OK);
    fake_answer(&w.fake.devices[0], ST_IO);
    fake_answer(&w.fake.devices[1], ST_OK);
    fake_answer(&w.fake.devices[1], ST_IO);
    assert_int_equal(w.done, 1);
    assert_status(w.st, ST_IO); /* the second has none */
    close_world(&w);
}

/* The first request waits until the deadline, later ones do not. */
static void a_late_device_is_left_out_until_it_answers(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, 2);
    struct fake_device *good = &w.fake.devices[0], *hung = &w.fake.devices[1];
    offer(&w, 1);
    fake_answer(good, ST_OK);
    pass(&w, AUDIT_DEADLINE_MS - 1);
    assert_int_equal(w.done, 0);
    pass(&w, 1);
    assert_int_equal(w.done, 1);
    assert_status(w.st, ST_OK);
    assert_int_equal(hung->left_out, 1);

    offer(&w, 1);
    assert_int_equal(hung->dropped, 1);
    fake_answer(good, ST_OK);
    assert_int_equal(w.done, 1);              /* at once */
    assert_int_equal(w.audit.outstanding, 1); /* the first operation, for the late offer */

    fake_answer(hung, ST_OK);
    assert_int_equal(w.done, 1);
    assert_int_equal(w.audit.outstanding, 0);
    offer(&w, 1);
    assert_int_equal(hung->n_held, 1); /* the device takes part again */
    fake_answer(hung, ST_OK);
    fake_answer(good, ST_OK);
    assert_int_equal(w.done, 1);
    close_world(&w);
}

static void a_device_that_rests_takes_what_no_other_takes(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, 2);
    struct fake_device *rests = &w.fake.devices[0], *other = &w.fake.devices[1];
    rests->device.rests = true;
    offer(&w, 2);
    assert_int_equal(rests->dropped, 2);
    assert_int_equal(rests->n_held, 0);
    assert_int_equal(other->n_held, 2);
    fake_answer(other, ST_OK);
    fake_answer(other, ST_OK);
    assert_int_equal(w.done, 1);
    assert_status(w.st, ST_OK);

    other->late = true;
    offer(&w, 2);
    assert_int_equal(rests->dropped, 2);
    assert_int_equal(rests->n_held, 2);
    fake_answer(rests, ST_OK);
    fake_answer(rests, ST_OK);
    assert_status(w.st, ST_OK);
    close_world(&w);
}

static void a_device_that_is_late_for_one_is_late_for_all(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, 1);
    offer(&w, 1);
    pass(&w, AUDIT_DEADLINE_MS / 2);
    assert_status(audit_offer(&w.audit, &w.fake.set, w.records, 1, &w.other), ST_OK);
    pass(&w, AUDIT_DEADLINE_MS / 2);
    assert_int_equal(w.done, 1);
    assert_int_equal(w.other_done, 1);
    assert_status(w.st, ST_IO);
    assert_status(w.other_st, ST_IO);
    assert_int_equal(w.fake.devices[0].left_out, 1);
    fake_answer(&w.fake.devices[0], ST_OK); /* after the deadline: too late for its request */
    fake_answer(&w.fake.devices[0], ST_OK);
    assert_int_equal(w.done, 1);
    close_world(&w);
}

static void a_device_that_gets_further_has_five_deadlines(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, 1);
    struct fake_device *slow = &w.fake.devices[0];
    slow->device.progress = 7; /* before the offer: counts for nothing */
    offer(&w, 1);
    for (unsigned i = 1; i < AUDIT_DEADLINES_MAX; i++) {
        pass(&w, AUDIT_DEADLINE_MS - 1);
        slow->device.progress++;
        pass(&w, 1);
        assert_int_equal(slow->left_out, 0);
    }
    slow->device.progress++;
    pass(&w, AUDIT_DEADLINE_MS - 1);
    assert_int_equal(w.done, 0);
    pass(&w, 1);
    assert_int_equal(slow->left_out, 1);
    assert_status(w.st, ST_IO);
    fake_answer(slow, ST_OK);
    close_world(&w);
}

static void a_device_that_stops_is_left_out_one_deadline_later(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, 1);
    struct fake_device *slow = &w.fake.devices[0];
    slow->device.progress = 7;
    offer(&w, 1);
    slow->device.progress++;
    pass(&w, AUDIT_DEADLINE_MS);
    assert_int_equal(slow->left_out, 0);
    pass(&w, AUDIT_DEADLINE_MS - 1);
    assert_int_equal(slow->left_out, 0);
    pass(&w, 1);
    assert_int_equal(slow->left_out, 1);
    assert_int_equal(w.done, 1);
    fake_answer(slow, ST_OK);
    slow->device.progress++;
    offer(&w, 1);
    pass(&w, AUDIT_DEADLINE_MS); /* what moved before the offer counts for nothing */
    assert_int_equal(slow->left_out, 2);
    fake_answer(slow, ST_OK);
    close_world(&w);
}

static void each_device_has_its_own_deadline(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, 2);
    w.fake.devices[0].device.deadline_ms = 100;
    w.fake.devices[1].device.deadline_ms = 700;
    offer(&w, 1);
    pass(&w, 100);
    assert_int_equal(w.fake.devices[0].left_out, 1);
    assert_int_equal(w.done, 0);
    pass(&w, 599);
    assert_int_equal(w.done, 0);
    pass(&w, 1);
    assert_int_equal(w.fake.devices[1].left_out, 1);
    assert_int_equal(w.done, 1);
    assert_status(w.st, ST_IO);
    fake_answer(&w.fake.devices[0], ST_OK);
    fake_answer(&w.fake.devices[1], ST_OK);
    assert_int_equal(w.audit.outstanding, 0);
    close_world(&w);
}

static void devices_that_refuse_at_once_fail_at_once(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, 2);
    w.fake.devices[0].late = w.fake.devices[1].late = true;
    assert_status(audit_offer(&w.audit, &w.fake.set, w.records, 2, &w.op), ST_IO);
    assert_int_equal(w.done, 0);
    assert_int_equal(w.audit.outstanding, 0);
    /* So does a node that could not make any of the enabled devices. */
    w.fake.set.n = 0;
    assert_status(audit_offer(&w.audit, &w.fake.set, w.records, 1, &w.op), ST_IO);
    w.fake.set.n = 2;
    close_world(&w);
}

static void a_worker_that_stops_gets_its_offers_back(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, 1);
    offer(&w, 2);
    pass(&w, AUDIT_DEADLINE_MS);
    assert_int_equal(w.done, 1);
    assert_int_equal(w.audit.outstanding, 1);
    fake_answer(&w.fake.devices[0], ST_CLOSED);
    assert_int_equal(w.audit.outstanding, 1);
    fake_answer(&w.fake.devices[0], ST_CLOSED);
    assert_int_equal(w.audit.outstanding, 0);
    close_world(&w);
}

static void the_set_is_found_anew_unless_the_state_is_the_same(void **state)
{
    struct world w;
    struct audit_set *set;
    (void)state;
    open_world(&w, 1);
    assert_status(audit_find(&w.audit, &w.fake.table, NULL, &set), ST_OK);
    assert_status(audit_find(&w.audit, &w.fake.table, NULL, &set), ST_OK);
    assert_ptr_equal(set, &w.fake.set);
    assert_int_equal(w.fake.gets, 2);
    assert_int_equal(w.fake.set.refs, 2);
    w.fake.get_status = ST_BUSY;
    assert_status(audit_find(&w.audit, &w.fake.table, NULL, &set), ST_BUSY);
    audit_rest(&w.audit);
    assert_int_equal(w.fake.set.refs, 1);
    close_world(&w);
}

/* The devices count their flushes. */
static void count_flushes(struct world *w)
{
    static struct audit_device_ops ops;
    ops = *w->fake.devices[0].device.ops;
    ops.flush = fake_flush;
    for (unsigned i = 0; i < 2; i++)
        w->fake.devices[i].device.ops = &ops;
}

static void a_device_is_flushed_once_at_the_end_of_a_round(void **state)
{
    struct world w;
    struct fake_device *d = w.fake.devices;
    (void)state;
    open_world(&w, 2);
    count_flushes(&w);
    d[1].late = true;
    for (unsigned round = 1; round < 3; round++) {
        offer(&w, 2);
        assert_status(audit_offer(&w.audit, &w.fake.set, w.records, 1, &w.other), ST_OK);
        for (unsigned i = 0; i < 3; i++)
            fake_answer(&d[0], ST_OK);
        assert_int_equal(d[0].flushed, round - 1);
        assert_int_equal(d[0].device.refs, 2); /* kept, also without a request */
        clock_run(&w.env);
        assert_int_equal(d[0].flushed, round);
        assert_int_equal(d[0].device.refs, 1);
        clock_run(&w.env);
        assert_int_equal(d[0].flushed, round);
    }
    assert_int_equal(d[1].flushed, 0); /* it took nothing */
    close_world(&w);
}

static void many_requests_are_flushed_before_the_round_ends(void **state)
{
    struct world w;
    struct audit_op ops[2 * AUDIT_FLUSH_REQUESTS + 1];
    (void)state;
    open_world(&w, 2);
    count_flushes(&w);
    for (unsigned i = 0; i < ARRAY_LEN(ops); i++) {
        ops[i] = (struct audit_op){.done = on_any_done};
        assert_status(audit_offer(&w.audit, &w.fake.set, w.records, 1, &ops[i]), ST_OK);
        assert_int_equal(w.fake.devices[0].flushed, (i + 1) / AUDIT_FLUSH_REQUESTS);
        assert_int_equal(w.fake.devices[1].flushed, (i + 1) / AUDIT_FLUSH_REQUESTS);
    }
    for (unsigned i = 0; i < 2 * ARRAY_LEN(ops); i++)
        fake_answer(&w.fake.devices[i % 2], ST_OK);
    clock_run(&w.env);
    assert_int_equal(w.fake.devices[0].flushed, 3);
    close_world(&w);
}

static void a_worker_that_ends_within_a_round_flushes(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, 2);
    count_flushes(&w);
    offer(&w, 1);
    for (unsigned i = 0; i < 2; i++)
        fake_answer(&w.fake.devices[i], ST_OK);
    audit_done(&w.audit);
    assert_int_equal(w.fake.devices[0].flushed, 1);
    assert_int_equal(w.fake.devices[0].device.refs, 1);
    assert_true(list_empty(&w.env.tasks));
    close_world(&w);
}

static void running_out_of_memory_is_told(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, 1);
    (void)mem_fail_nth(1);
    assert_status(audit_offer(&w.audit, &w.fake.set, w.records, 1, &w.op), ST_NOMEM);
    assert_true(mem_fail_nth(0));
    assert_int_equal(w.fake.devices[0].n_held, 0);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device_that_accepts_is_enough),
        cmocka_unit_test(without_a_device_that_accepts_it_failed),
        cmocka_unit_test(each_of_two_records_needs_a_device),
        cmocka_unit_test(a_late_device_is_left_out_until_it_answers),
        cmocka_unit_test(a_device_that_rests_takes_what_no_other_takes),
        cmocka_unit_test(a_device_that_is_late_for_one_is_late_for_all),
        cmocka_unit_test(a_device_that_gets_further_has_five_deadlines),
        cmocka_unit_test(a_device_that_stops_is_left_out_one_deadline_later),
        cmocka_unit_test(each_device_has_its_own_deadline),
        cmocka_unit_test(devices_that_refuse_at_once_fail_at_once),
        cmocka_unit_test(a_worker_that_stops_gets_its_offers_back),
        cmocka_unit_test(the_set_is_found_anew_unless_the_state_is_the_same),
        cmocka_unit_test(a_device_is_flushed_once_at_the_end_of_a_round),
        cmocka_unit_test(many_requests_are_flushed_before_the_round_ends),
        cmocka_unit_test(a_worker_that_ends_within_a_round_flushes),
        cmocka_unit_test(running_out_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
