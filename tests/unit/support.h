/* What every unit test includes: cmocka and a few checks in our own terms. */
#ifndef HOLDFAST_TESTS_UNIT_SUPPORT_H
#define HOLDFAST_TESTS_UNIT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/status.h"

#define assert_status(expression, wanted) \
    assert_string_equal(status_name(expression), status_name(wanted))

#define assert_bytes(have, wanted) assert_bytes_at((have), (wanted), __FILE__, __LINE__)

static inline void assert_bytes_at(struct bytes have, struct bytes wanted, const char *file,
                                   int line)
{
    if (!bytes_eq(have, wanted)) {
        print_error("have %zu bytes \"%.*s\", wanted %zu bytes \"%.*s\"\n", have.len,
                    (int)MIN(have.len, 60u), (const char *)have.data, wanted.len,
                    (int)MIN(wanted.len, 60u), (const char *)wanted.data);
        _fail(file, line);
    }
}

#endif
