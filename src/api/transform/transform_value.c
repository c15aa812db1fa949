/* How a value goes through a template: match the whole of it, join the groups in their order,
 * encrypt the joined numerals, and write them back into the places of the groups. */
#include "api/transform/transform_value.h"
#include "api/transform/transform_config.h"
#include "api/transform/transform_token.h"
#include "api/transform/transform_trial.h"
#include "base/buf.h"
#include "base/mem.h"
#include "text/utf8.h"

#include <stdlib.h>

static void shape_drop(struct req_cleanup *cleanup)
{
    struct transform_shape *shape = CONTAINER_OF(cleanup, struct transform_shape, cleanup);
    regex_free(shape->regex);
    fpe_free(shape->fpe);
    mem_wipe(&shape->secret, sizeof shape->secret);
    shape->regex = NULL;
    shape->fpe = NULL;
}

static int compare_runes(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

static enum status count_symbols(struct bytes text, unsigned *ret_n)
{
    unsigned n = 0;
    uint32_t rune;
    for (size_t at = 0; at < text.len; n++)
        if (text_utf8_next(text, &at, &rune) != ST_OK)
            return ST_CORRUPT;
    *ret_n = n;
    return n >= FPE_RADIX_MIN && n <= FPE_RADIX_MAX ? ST_OK : ST_CORRUPT;
}

/* Both tables of an alphabet, which was checked when it was written. */
static enum status index_alphabet(struct req *req, const char *alphabet,
                                  struct transform_symbols *ret)
{
    struct bytes text = bytes_str(alphabet);
    unsigned n = 0;
    TRY(count_symbols(text, &n));
    uint32_t *symbols = arena_alloc(req->arena, n * sizeof *symbols);
    uint64_t *by_rune = arena_alloc(req->arena, n * sizeof *by_rune);
    if (symbols == NULL || by_rune == NULL)
        return ST_NOMEM;
    for (size_t at = 0, i = 0; i < n; i++) {
        if (text_utf8_next(text, &at, &symbols[i]) != ST_OK)
            return ST_CORRUPT;
        by_rune[i] = (uint64_t)symbols[i] << 32 | i;
    }
    qsort(by_rune, n, sizeof *by_rune, compare_runes);
    ret->symbols = symbols;
    ret->by_rune = by_rune;
    ret->radix = n;
    return ST_OK;
}

static enum status costs_enough(struct req *req, const char *what)
{
    return req_fail(req, ST_INVALID,
                    "the transformations of the request have too many %s: use fewer of them in one "
                    "request",
                    what);
}

/* Find an alphabet among those of the request, or load and index it. */
static enum status load_alphabet(struct req *req, const char *name, struct transform_cost *cost,
                                 const struct transform_symbols **ret)
{
    struct transform_alphabet alphabet;
    for (const struct transform_symbols *known = cost->alphabets; known != NULL;
         known = known->next)
        if (strcmp(known->name, name) == 0) {
            *ret = known;
            return ST_OK;
        }
    if (cost->symbols > TRANSFORM_SYMBOLS_MAX - FPE_RADIX_MAX)
        return costs_enough(req, "symbols in their alphabets");
    enum status st = transform_alphabet_load(req, name, &alphabet);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "alphabet \"%s\" does not exist", name);
    TRY(st);
    struct transform_symbols *made = arena_zalloc(req->arena, sizeof *made);
    if (made == NULL)
        return ST_NOMEM;
    TRY(index_alphabet(req, alphabet.alphabet, made));
    made->name = name;
    made->next = cost->alphabets;
    cost->alphabets = made;
    cost->symbols += made->radix;
    *ret = made;
    return ST_OK;
}

static enum status load_fpe(struct req *req, const char *name, struct transform_cost *cost,
                            struct transform_shape *shape)
{
    const char *alphabet_name = shape->template.alphabet;
    if (alphabet_name[0] == '\0')
        return req_fail(req, ST_INVALID, "template \"%s\" has no alphabet",
                        shape->transformation.template);
    TRY(load_alphabet(req, alphabet_name, cost, &shape->alphabet));
    TRY(transform_secret_load(req, name, &shape->secret));
    shape->algorithm =
        strcmp(shape->transformation.fpe_algorithm, TRANSFORM_FF1) == 0 ? FPE_FF1 : FPE_FF3_1;
    return fpe_new(shape->algorithm, bytes_of(shape->secret.key, sizeof shape->secret.key),
                   &shape->fpe);
}

enum status transform_shape_load(struct req *req, const char *name, struct transform_cost *cost,
                                 struct transform_shape **ret_shape)
{
    struct transform_shape *shape = arena_zalloc(req->arena, sizeof *shape);
    struct reason why = {0};
    if (shape == NULL)
        return ST_NOMEM;
    shape->cleanup.run = shape_drop;
    req_defer(req, &shape->cleanup);
    enum status st = transform_load(req, TRANSFORM_TRANSFORMATION, name,
                                    &transform_transformation_schema, &shape->transformation);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "transformation \"%s\" does not exist", name);
    TRY(st);
    if (strcmp(shape->transformation.type, TRANSFORM_TOKENIZATION) == 0) {
        *ret_shape = shape;
        return transform_tokens_load(req, name, &shape->transformation, &shape->tokens);
    }
    const char *template = shape->transformation.template;
    st = transform_template_load(req, template, &shape->template);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "template \"%s\" does not exist", template);
    TRY(st);
    if (cost->programs > TRANSFORM_PROGRAMS_MAX)
        return costs_enough(req, "characters and repetitions in their patterns");
    st = regex_new(bytes_str(shape->template.pattern), &shape->regex, &why);
    if (st == ST_INVALID || (st == ST_OK && regex_groups(shape->regex) == 0))
        return req_fail(req, ST_INVALID, "template \"%s\": %s", template,
                        st == ST_OK ? "the pattern has no capture group" : why.text);
    TRY(st);
    cost->programs += regex_size(shape->regex);
    if (strcmp(shape->transformation.type, TRANSFORM_FPE) == 0)
        TRY(load_fpe(req, name, cost, shape));
    *ret_shape = shape;
    return ST_OK;
}

/* The numeral of a rune; -1: the alphabet lacks it. */
static int numeral_of(const struct transform_symbols *alphabet, uint32_t rune)
{
    unsigned low = 0, high = alphabet->radix;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        uint32_t there = (uint32_t)(alphabet->by_rune[middle] >> 32);
        if (there == rune)
            return (int)(uint32_t)alphabet->by_rune[middle];
        if (there < rune)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

/* A match under way. */
struct work {
    const struct transform_shape *by;
    struct bytes value;
    struct regex_span spans[REGEX_GROUPS_MAX + 1];
    unsigned runes[REGEX_GROUPS_MAX + 1];  /* code points of each group */
    unsigned starts[REGEX_GROUPS_MAX + 1]; /* where the numerals of the group begin */
    unsigned order[REGEX_GROUPS_MAX];      /* groups that took part, by their place in the value */
    unsigned n_order, groups;
    uint16_t numerals[FPE_NUMERALS_MAX];
    unsigned n;
    struct reason *why;
};

static enum status refuse_value(const struct work *w, const char *text)
{
    reason_set(w->why, "%s", text);
    return ST_INVALID;
}

/* Add the numerals of a group. Numerals above the room are counted alone, for the error. */
static enum status join_group(struct work *w, unsigned group)
{
    struct bytes text = bytes_of(w->spans[group].data, w->spans[group].len);
    w->starts[group] = w->n;
    for (size_t at = 0; at < text.len; w->runes[group]++) {
        size_t start = at;
        uint32_t rune;
        if (text_utf8_next(text, &at, &rune) != ST_OK)
            return refuse_value(w, "value: not valid UTF-8");
        if (w->by->fpe == NULL)
            continue;
        int numeral = numeral_of(w->by->alphabet, rune);
        if (numeral < 0) {
            reason_set(w->why, "value: the character at byte %zu is not in the alphabet",
                       (size_t)(text.data + start - w->value.data) + 1);
            return ST_INVALID;
        }
        if (w->n < FPE_NUMERALS_MAX)
            w->numerals[w->n] = (uint16_t)numeral;
        w->n++;
    }
    return ST_OK;
}

/* Put a group into the order of the places; a repeated group may come before an earlier one. */
static void place_group(struct work *w, unsigned group)
{
    unsigned i = w->n_order++;
    for (; i > 0 && w->spans[w->order[i - 1]].data > w->spans[group].data; i--)
        w->order[i] = w->order[i - 1];
    w->order[i] = group;
}

static enum status match_value(struct work *w)
{
    if (w->value.len == 0)
        return refuse_value(w, "value: the field is required");
    if (w->value.len > TRANSFORM_VALUE_MAX) {
        reason_set(w->why, "value: longer than %d bytes", TRANSFORM_VALUE_MAX);
        return ST_INVALID;
    }
    if (!text_utf8_valid(w->value))
        return refuse_value(w, "value: not valid UTF-8");
    enum status st = regex_match(w->by->regex, w->value, w->spans);
    if (st == ST_NOT_FOUND)
        return refuse_value(w, "value: it does not match the pattern of the template");
    TRY(st);
    w->groups = regex_groups(w->by->regex);
    for (unsigned group = 1; group <= w->groups; group++) {
        if (w->spans[group].data == NULL)
            continue;
        TRY(join_group(w, group));
        place_group(w, group);
    }
    return ST_OK;
}

static enum status run_fpe(struct work *w, struct bytes tweak, bool decode)
{
    const struct transform_shape *shape = w->by;
    ASSERT(shape->fpe != NULL);
    struct fpe_limits limits = fpe_limits(shape->algorithm, shape->alphabet->radix);
    if (w->n < limits.min || w->n > limits.max) {
        reason_set(
            w->why,
            "value: the groups have %u characters, %u to %u are expected for an alphabet of %u",
            w->n, limits.min, limits.max, shape->alphabet->radix);
        return ST_INVALID;
    }
    return (decode ? fpe_decrypt : fpe_encrypt)(shape->fpe, shape->alphabet->radix, tweak,
                                                w->numerals, w->n);
}

static void put_group(const struct work *w, unsigned group, struct buf *out)
{
    const struct transform_shape *shape = w->by;
    uint8_t symbol[4];
    ASSERT(group >= 1 && group <= w->groups);
    for (unsigned i = 0; i < w->runes[group]; i++) {
        if (shape->fpe == NULL) {
            buf_add_str(out, shape->transformation.masking_character);
            continue;
        }
        uint32_t rune = shape->alphabet->symbols[w->numerals[w->starts[group] + i]];
        buf_add(out, bytes_of(symbol, text_utf8_put(rune, symbol)));
    }
}

/* Write the value with its groups replaced, and set the spans to where the groups are now. */
static enum status write_back(struct work *w, struct buf *out)
{
    struct {
        size_t at, len;
    } places[REGEX_GROUPS_MAX + 1] = {{0, 0}};
    size_t done = 0;
    for (unsigned i = 0; i < w->n_order; i++) {
        unsigned group = w->order[i];
        size_t start = (size_t)(w->spans[group].data - w->value.data);
        if (start < done)
            return refuse_value(w, "value: groups of the pattern overlap");
        buf_add(out, bytes_of(w->value.data + done, start - done));
        places[group].at = out->len;
        put_group(w, group, out);
        places[group].len = out->len - places[group].at;
        done = start + w->spans[group].len;
    }
    buf_add(out, bytes_from(w->value, done));
    TRY(buf_status(out));
    for (unsigned i = 0; i < w->n_order; i++) {
        unsigned group = w->order[i];
        w->spans[group] = (struct regex_span){out->data + places[group].at, places[group].len};
    }
    w->spans[0] = (struct regex_span){out->data, out->len};
    return ST_OK;
}

enum status transform_charge(struct transform_cost *cost, const struct transform_shape *shape,
                             size_t value_bytes, struct reason *why)
{
    size_t size = regex_size(shape->regex);
    ASSERT(cost->steps <= TRANSFORM_STEPS_MAX);
    if (value_bytes > (TRANSFORM_STEPS_MAX - cost->steps) / MAX(size, (size_t)1)) {
        reason_set(why,
                   "value: too long for the pattern of its template, of which a request may match "
                   "%zu bytes: shorten the value or the batch, or the repetitions of the pattern",
                   (size_t)TRANSFORM_STEPS_MAX / MAX(size, (size_t)1));
        return ST_INVALID;
    }
    cost->steps += value_bytes * size;
    return ST_OK;
}

enum status transform_value(const struct transform_shape *shape, struct bytes value,
                            struct bytes tweak, bool decode, const char *format,
                            struct transform_made *made, struct reason *why)
{
    struct work w = {.by = shape, .value = value, .why = why};
    CLEANUP(buf_done) struct buf plain = {0};
    ASSERT(made->text.len == 0);
    enum status st = match_value(&w);
    if (st == ST_OK && shape->fpe != NULL)
        st = run_fpe(&w, tweak, decode);
    if (st == ST_OK)
        st = write_back(&w, format != NULL ? &plain : &made->text);
    if (st == ST_OK && format != NULL) {
        regex_expand(shape->regex, bytes_str(format), w.spans, &made->text);
        st = buf_status(&made->text);
    }
    if (st == ST_OK && shape->fpe != NULL && !decode) {
        bool finds;
        st = transform_finds_again(shape->regex, buf_bytes(&made->text), w.spans, &finds);
        made->is_lost = st == ST_OK && !finds;
    }
    mem_wipe(w.numerals, sizeof w.numerals);
    return st;
}
