/* Patterns and formats of clients: the input is a pattern, a zero byte, a format, a zero byte and a
 * text. What compiles is bounded; a match lies in the text; a format without variables is written
 * as it is. */
#include "base/buf.h"
#include "text/regex.h"
#include "text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct bytes next_part(struct bytes *input)
{
    const uint8_t *zero = input->len != 0 ? memchr(input->data, 0, input->len) : NULL;
    size_t len = zero != NULL ? (size_t)(zero - input->data) : input->len;
    struct bytes part = bytes_of(input->data, len);
    *input = bytes_from(*input, MIN(len + 1, input->len));
    return part;
}

static void check_spans(const struct regex *regex, struct bytes text,
                        const struct regex_span *spans)
{
    for (unsigned i = 0; i <= regex_groups(regex); i++)
        ASSERT(
            spans[i].data == NULL || text.len == 0 ||
            (spans[i].data >= text.data && spans[i].data + spans[i].len <= text.data + text.len));
    ASSERT(spans[0].len == text.len); /* the whole text */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct bytes input = bytes_of(data, size);
    struct bytes pattern = next_part(&input), format = next_part(&input), text = next_part(&input);
    struct regex_span spans[REGEX_GROUPS_MAX + 1];
    struct reason why = {0};
    struct regex *regex;
    enum status st = regex_new(pattern, &regex, &why);
    if (st != ST_OK) {
        ASSERT(st == ST_NOMEM || why.text[0] != '\0');
        return 0;
    }
    ASSERT(pattern.len <= REGEX_PATTERN_MAX && regex_groups(regex) <= REGEX_GROUPS_MAX);
    if (text_utf8_valid(text) && regex_match(regex, text, spans) == ST_OK) {
        check_spans(regex, text, spans);
        regex_expand(regex, format, spans, &out);
        ASSERT(buf_status(&out) == ST_OK);
        if (format.len == 0 || memchr(format.data, '$', format.len) == NULL)
            ASSERT(bytes_eq(buf_bytes(&out), format));
    }
    struct bytes unknown = regex_unknown(regex, format);
    ASSERT(unknown.len <= format.len);
    regex_free(regex);
    return 0;
}
