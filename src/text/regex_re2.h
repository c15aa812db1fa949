/* RE2 for C: the interface of the only C++ file. For regex.c alone. */
#ifndef HOLDFAST_TEXT_REGEX_RE2_H
#define HOLDFAST_TEXT_REGEX_RE2_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum regex_re2_result { REGEX_RE2_OK, REGEX_RE2_NO, REGEX_RE2_NOMEM };

struct regex_re2;

struct regex_re2_span {
    const char *data; /* NULL: the group took no part */
    size_t len;
};

/* Why a pattern is refused: RE2's text, and the part of the pattern that it means. */
struct regex_re2_fault {
    char text[128], part[128];
};

/* REGEX_RE2_NO with the fault. */
enum regex_re2_result regex_re2_new(const char *pattern, size_t len, int64_t memory_max,
                                    struct regex_re2 **ret_regex,
                                    struct regex_re2_fault *ret_fault);
void regex_re2_free(struct regex_re2 *regex);
unsigned regex_re2_size(const struct regex_re2 *regex); /* instructions of the program */
unsigned regex_re2_groups(const struct regex_re2 *regex);
unsigned regex_re2_group_of(const struct regex_re2 *regex, const char *name, size_t len);
/* `n` is at most REGEX_RE2_SPANS_MAX. */
enum { REGEX_RE2_SPANS_MAX = 65 };
enum regex_re2_result regex_re2_match(const struct regex_re2 *regex, const char *text, size_t len,
                                      struct regex_re2_span *ret_spans, unsigned n);
/* The least text that begins a match, often one that matches. `room` bounds its length. Returns the
 * length; 0: none is known. */
size_t regex_re2_least(const struct regex_re2 *regex, char *text, size_t room);
/* Whether the UTF-8 of one code point is a letter or a decimal digit of Unicode. */
int regex_re2_is_word(const char *text, size_t len);

#ifdef __cplusplus
}
#endif

#endif
