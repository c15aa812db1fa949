#include "text/regex_re2.h"

#include <cstdio>
#include <new>
#include <string>

#include <re2/re2.h>

/* An exception must not reach C: RE2 throws where memory runs out. */

struct regex_re2 {
    re2::RE2 re;
    regex_re2(const re2::StringPiece &pattern, const re2::RE2::Options &options)
        : re(pattern, options)
    {
    }
};

static re2::RE2::Options options_of(int64_t memory_max)
{
    re2::RE2::Options options;
    options.set_encoding(re2::RE2::Options::EncodingUTF8);
    options.set_log_errors(false);
    options.set_max_mem(memory_max);
    return options;
}

static void copy(char *to, size_t room, const std::string &from)
{
    (void)std::snprintf(to, room, "%s", from.c_str());
}

enum regex_re2_result regex_re2_new(const char *pattern, size_t len, int64_t memory_max,
                                    struct regex_re2 **ret_regex, struct regex_re2_fault *ret_fault)
{
    struct regex_re2 *made = nullptr;
    try {
        made = new regex_re2(re2::StringPiece(pattern, len), options_of(memory_max));
        if (made->re.ok()) {
            *ret_regex = made;
            return REGEX_RE2_OK;
        }
        copy(ret_fault->text, sizeof ret_fault->text, made->re.error());
        copy(ret_fault->part, sizeof ret_fault->part, made->re.error_arg());
        delete made;
        return REGEX_RE2_NO;
    } catch (const std::bad_alloc &) {
        delete made;
        return REGEX_RE2_NOMEM;
    }
}

void regex_re2_free(struct regex_re2 *regex)
{
    delete regex;
}

unsigned regex_re2_size(const struct regex_re2 *regex)
{
    return static_cast<unsigned>(regex->re.ProgramSize());
}

unsigned regex_re2_groups(const struct regex_re2 *regex)
{
    return static_cast<unsigned>(regex->re.NumberOfCapturingGroups());
}

unsigned regex_re2_group_of(const struct regex_re2 *regex, const char *name, size_t len)
{
    for (const auto &one : regex->re.NamedCapturingGroups()) /* no allocation for the key */
        if (one.first.compare(0, std::string::npos, name, len) == 0)
            return static_cast<unsigned>(one.second);
    return 0;
}

enum regex_re2_result regex_re2_match(const struct regex_re2 *regex, const char *text, size_t len,
                                      struct regex_re2_span *ret_spans, unsigned n)
{
    re2::StringPiece spans[REGEX_RE2_SPANS_MAX];
    try {
        if (!regex->re.Match(re2::StringPiece(text, len), 0, len, re2::RE2::ANCHOR_BOTH, spans,
                             static_cast<int>(n)))
            return REGEX_RE2_NO;
    } catch (const std::bad_alloc &) {
        return REGEX_RE2_NOMEM;
    }
    for (unsigned i = 0; i < n; i++) {
        ret_spans[i].data = spans[i].data();
        ret_spans[i].len = spans[i].size();
    }
    return REGEX_RE2_OK;
}

size_t regex_re2_least(const struct regex_re2 *regex, char *text, size_t room)
{
    try {
        std::string least, most;
        if (!regex->re.PossibleMatchRange(&least, &most, static_cast<int>(room)) ||
            least.size() > room)
            return 0;
        least.copy(text, least.size());
        return least.size();
    } catch (const std::bad_alloc &) {
        return 0;
    }
}

int regex_re2_is_word(const char *text, size_t len)
{
    try {
        static const re2::RE2 word("[\\pL\\p{Nd}]", options_of(1 << 20));
        return word.Match(re2::StringPiece(text, len), 0, len, re2::RE2::ANCHOR_BOTH, nullptr, 0);
    } catch (const std::bad_alloc &) {
        return 0;
    }
}
