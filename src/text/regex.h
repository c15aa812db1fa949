/* Regular expressions with the syntax of Go's regexp: no look-around, no back-references, time
 * linear in the text. The matching is RE2's.
 *
 * A pattern is bounded in length, nesting and memory, so that a hostile pattern costs little. What
 * RE2 accepts and Go does not is refused: \C, and names of groups with other characters than
 * letters, digits and '_'. "(?<name>" means "(?P<name>" with every version of RE2. */
#ifndef HOLDFAST_TEXT_REGEX_H
#define HOLDFAST_TEXT_REGEX_H

#include "base/bytes.h"
#include "base/status.h"

enum {
    REGEX_PATTERN_MAX = 4096,
    REGEX_GROUPS_MAX = 64,
    REGEX_DEPTH_MAX = 100,          /* groups inside each other */
    REGEX_MEMORY_MAX = 1024 * 1024, /* of a pattern: program and cache */
};

struct regex;

/* The part of a text that a group matched. data NULL: the group took no part in the match. */
struct regex_span {
    const uint8_t *data;
    size_t len;
};

/* Compile. ST_INVALID with the reason and the place in the pattern; ST_NOMEM. */
NODISCARD enum status regex_new(struct bytes pattern, struct regex **ret_regex, struct reason *why);
void regex_free(struct regex *regex); /* NULL is allowed */
/* The size of the compiled program. A match takes time in proportion to this size times the length
 * of the text: some nanoseconds for each, 20 at worst. */
unsigned regex_size(const struct regex *regex);
/* The number of capture groups; whether one capture group lies inside another; whether one may
 * match more than once, of which only the last text is known. */
unsigned regex_groups(const struct regex *regex);
bool regex_nests(const struct regex *regex);
bool regex_repeats(const struct regex *regex);
/* The number of the group with this name; 0: there is none. */
unsigned regex_group_of(const struct regex *regex, struct bytes name);

/* Match the whole of `text`, valid UTF-8; alternatives are tried from left to right. ret_spans has
 * room for regex_groups() + 1 spans, the first is the whole text; they borrow from `text`.
 * ST_NOT_FOUND: no match; ST_NOMEM. Any thread. */
NODISCARD enum status regex_match(const struct regex *regex, struct bytes text,
                                  struct regex_span *ret_spans);

/* A text that matches, of at most `room` bytes, into `text`. ST_NOT_FOUND: none was found, though
 * the pattern may have matches; ST_NOMEM. */
NODISCARD enum status regex_sample(const struct regex *regex, char *text, size_t room,
                                   struct bytes *ret_sample);

/* Write `format` with its variables replaced, as Go's Regexp.Expand does: $1, ${1}, $name, ${name},
 * $$. A name is the longest run of letters, digits and '_'. A group that is unknown or took no part
 * is empty; a '$' without a name stays. The spans are those of regex_match, over any text. */
struct buf;
void regex_expand(const struct regex *regex, struct bytes format, const struct regex_span *spans,
                  struct buf *out);
/* The first variable of `format` that no group of the pattern has; empty: every variable has one.
 */
struct bytes regex_unknown(const struct regex *regex, struct bytes format);
/* Whether a variable of `format` stands for this group, or for the whole text. */
bool regex_uses(const struct regex *regex, struct bytes format, unsigned group);
/* Whether `format` has a group twice, or groups in another order than the pattern. */
bool regex_reorders(const struct regex *regex, struct bytes format);

#endif
