/* Language helpers used everywhere. */
#ifndef HOLDFAST_BASE_MACROS_H
#define HOLDFAST_BASE_MACROS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NODISCARD __attribute__((warn_unused_result))

/* Call `f(&variable)` when the variable leaves its scope. */
#define CLEANUP(f) __attribute__((cleanup(f)))

#define CONTAINER_OF(pointer, type, member) \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#define ARRAY_LEN(a) (sizeof(a) / sizeof(a)[0])
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Prints the condition and aborts. Stays on in release. Catches our mistakes, never input or I/O.
 */
#define ASSERT(condition)                                  \
    do {                                                   \
        if (__builtin_expect(!(condition), 0))             \
            assert_failed(#condition, __FILE__, __LINE__); \
    } while (0)

__attribute__((noreturn, cold)) void assert_failed(const char *condition, const char *file,
                                                   int line);

#endif
