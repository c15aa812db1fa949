/* The world of the pipeline's tests with one audit device. */
#ifndef HOLDFAST_TESTS_UNIT_ROUTER_RECORDED_WORLD_H
#define HOLDFAST_TESTS_UNIT_ROUTER_RECORDED_WORLD_H

#include "audit/fake_devices.h"
#include "router/pipe_world.h"

static struct fake_devices devices;
static struct fake_device *const device = &devices.devices[0];

static inline int open_recorded(void **ctx)
{
    if (open_world(ctx) != 0)
        return -1;
    fake_devices_init(&devices, 1);
    w.host.audit = &devices.table;
    return 0;
}

static inline int close_recorded(void **ctx)
{
    device->holds = false;
    while (device->n_held > 0) /* of a test that failed */
        fake_answer(device, ST_OK);
    int result = close_world(ctx);
    fake_devices_done(&devices);
    return result;
}

static inline const char *line(unsigned i)
{
    assert_true(i < device->n_lines);
    return device->lines[i];
}

static inline void assert_line_has(unsigned i, const char *text)
{
    if (strstr(line(i), text) == NULL)
        fail_msg("\"%s\" is not in %s", text, line(i));
}

static inline void assert_line_lacks(unsigned i, const char *text)
{
    if (strstr(line(i), text) != NULL)
        fail_msg("\"%s\" is in %s", text, line(i));
}

/* A request and its reply were recorded, once each. */
static inline void assert_pair(void)
{
    assert_int_equal(device->n_lines, 2);
    assert_line_has(0, "\"type\":\"request\"");
    assert_line_has(1, "\"type\":\"response\"");
}

static inline struct test_request *call(enum http_method method, const char *target,
                                        const char *body)
{
    fake_forget_lines(device);
    return world_request(&w, method, target, body);
}

/* Give the request in hand to the worker, and let happen what can happen. */
static inline void begin(struct test_request *t, enum http_method method, const char *target)
{
    test_request_init(t, method, target, NULL);
    test_request_header(t, "x-secrets-token", w.token);
    world_take(&w, t);
    clock_run(&w.env);
}

static inline void answer(void)
{
    fake_answer(device, ST_OK);
    clock_run(&w.env);
}

/* Let the device refuse every record that is offered to it. */
static inline void break_device(void)
{
    for (unsigned i = 0; i < FAKE_LINES; i++)
        device->results[i] = ST_IO;
}

#define RECORDED_TEST(f) cmocka_unit_test_setup_teardown(f, open_recorded, close_recorded)

#endif
