#include "api/transform/transform_trial.h"
#include "base/buf.h"
#include "text/utf8.h"

enum { TRIALS = 16, SAMPLE_MAX = 128 };

static void join(const struct regex *regex, const struct regex_span *spans, struct buf *out)
{
    for (unsigned group = 1; group <= regex_groups(regex); group++)
        if (spans[group].data != NULL)
            buf_add(out, bytes_of(spans[group].data, spans[group].len));
}

enum status transform_finds_again(const struct regex *regex, struct bytes text,
                                  const struct regex_span *spans, bool *ret_finds)
{
    struct regex_span found[REGEX_GROUPS_MAX + 1];
    CLEANUP(buf_done) struct buf before = {0};
    CLEANUP(buf_done) struct buf after = {0};
    ASSERT(regex_groups(regex) <= REGEX_GROUPS_MAX);
    *ret_finds = false;
    enum status st = regex_match(regex, text, found);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    join(regex, spans, &before);
    join(regex, found, &after);
    TRY(buf_status(&before));
    TRY(buf_status(&after));
    *ret_finds = bytes_eq(buf_bytes(&before), buf_bytes(&after));
    return ST_OK;
}

/* A value that matches, and the symbols that take the place of those in its groups. */
struct trial {
    const struct regex *regex;
    const char *format; /* "": as the value itself */
    struct bytes sample;
    struct regex_span spans[REGEX_GROUPS_MAX + 1]; /* of the sample */
    const uint32_t *symbols;
    size_t n;
    uint32_t state; /* of a generator that needs no quality */
};

/* The first trials use the first and the last symbol alone. */
static uint32_t next_symbol(struct trial *t, unsigned round)
{
    t->state = t->state * 1664525 + 1013904223;
    size_t at = round == 0 ? 0 : round == 1 ? t->n - 1 : (t->state >> 8) % t->n;
    return t->symbols[at];
}

static void put_symbols(struct trial *t, unsigned round, struct bytes old, struct buf *out)
{
    uint8_t symbol[4];
    uint32_t rune;
    for (size_t at = 0; at < old.len && text_utf8_next(old, &at, &rune) == ST_OK;)
        buf_add(out, bytes_of(symbol, text_utf8_put(next_symbol(t, round), symbol)));
}

/* One encoding of the sample, and whether it decodes. Groups do not nest, so they are in order. */
static enum status run_trial(struct trial *t, unsigned round, bool *ret_finds)
{
    struct {
        size_t at, len;
    } places[REGEX_GROUPS_MAX + 1] = {{0, 0}};
    struct regex_span spans[REGEX_GROUPS_MAX + 1] = {{0}};
    CLEANUP(buf_done) struct buf plain = {0};
    CLEANUP(buf_done) struct buf written = {0};
    unsigned groups = regex_groups(t->regex);
    size_t done = 0;
    for (unsigned group = 1; group <= groups; group++) {
        if (t->spans[group].data == NULL)
            continue;
        size_t start = (size_t)(t->spans[group].data - t->sample.data);
        ASSERT(start >= done && start <= t->sample.len);
        buf_add(&plain, bytes_of(t->sample.data + done, start - done));
        places[group].at = plain.len;
        put_symbols(t, round, bytes_of(t->spans[group].data, t->spans[group].len), &plain);
        places[group].len = plain.len - places[group].at;
        done = start + t->spans[group].len;
    }
    buf_add(&plain, bytes_from(t->sample, done));
    TRY(buf_reserve(&plain, 1)); /* an empty text has an address too */
    for (unsigned group = 1; group <= groups; group++)
        if (t->spans[group].data != NULL)
            spans[group] = (struct regex_span){plain.data + places[group].at, places[group].len};
    spans[0] = (struct regex_span){plain.data, plain.len};
    regex_expand(t->regex, bytes_str(t->format), spans, &written);
    TRY(buf_status(&written));
    struct bytes text = t->format[0] != '\0' ? buf_bytes(&written) : buf_bytes(&plain);
    return transform_finds_again(t->regex, text, spans, ret_finds);
}

static enum status read_symbols(struct req *req, const char *alphabet, struct trial *t)
{
    struct bytes text = bytes_str(alphabet);
    uint32_t *symbols = arena_alloc(req->arena, (text.len + 1) * sizeof *symbols);
    if (symbols == NULL)
        return ST_NOMEM;
    for (size_t at = 0; at < text.len; t->n++)
        if (text_utf8_next(text, &at, &symbols[t->n]) != ST_OK)
            return ST_CORRUPT;
    t->symbols = symbols;
    return t->n != 0 ? ST_OK : ST_CORRUPT;
}

enum status transform_try_template(struct req *req, const struct transform_template *template,
                                   const struct regex *regex)
{
    struct trial *t = arena_zalloc(req->arena, sizeof *t);
    struct transform_alphabet alphabet;
    char sample[SAMPLE_MAX];
    bool finds = true;
    if (t == NULL)
        return ST_NOMEM;
    *t = (struct trial){.regex = regex, .format = template->encode_format};
    enum status st = template->alphabet[0] == '\0'
                         ? ST_NOT_FOUND
                         : transform_alphabet_load(req, template->alphabet, &alphabet);
    if (st == ST_OK)
        st = regex_sample(regex, sample, sizeof sample, &t->sample);
    if (st == ST_OK)
        st = regex_match(regex, t->sample, t->spans);
    if (st != ST_OK) /* no alphabet yet, only masking, or no sample is known */
        return st == ST_NOT_FOUND ? ST_OK : st;
    TRY(read_symbols(req, alphabet.alphabet, t));
    for (unsigned round = 0; round < TRIALS && finds; round++)
        TRY(run_trial(t, round, &finds));
    if (!finds)
        req_warn(req, "encoded values may not match the pattern again, and cannot be decoded then: "
                      "the pattern must take every symbol of the alphabet in its groups, and what "
                      "encode_format writes");
    return ST_OK;
}
