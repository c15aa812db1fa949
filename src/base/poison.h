/* Memory that is allocated, but may not be touched: the address sanitizer reports every access.
 * Without the sanitizer the macros do nothing. */
#ifndef HOLDFAST_BASE_POISON_H
#define HOLDFAST_BASE_POISON_H

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
#include <sanitizer/asan_interface.h>
#define POISON(data, size) ASAN_POISON_MEMORY_REGION(data, size)
#define UNPOISON(data, size) ASAN_UNPOISON_MEMORY_REGION(data, size)
#else
#define POISON(data, size) ((void)(data), (void)(size))
#define UNPOISON(data, size) ((void)(data), (void)(size))
#endif

#endif
