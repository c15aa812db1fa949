/* Rules about the parameters of a request. The parameters are the top-level members of the
 * request's data. Upper and lower case of their names are equal. */
#include "auth/acl.h"
#include "text/schema.h"

/* Merge rules: the values of one name are joined. A name without values allows (or denies) any
 * value, so the merged name then has no values either. */

static enum status join_values(struct arena *arena, const struct policy_param *a,
                               const struct policy_param *b, struct policy_param *ret)
{
    *ret = *a;
    if (a->n_values == 0 || b->n_values == 0) {
        ret->n_values = 0;
        return ST_OK;
    }
    const struct text_value **values =
        arena_alloc(arena, (a->n_values + b->n_values) * sizeof *values);
    if (values == NULL)
        return ST_NOMEM;
    memcpy(values, a->values, a->n_values * sizeof *values);
    memcpy(values + a->n_values, b->values, b->n_values * sizeof *values);
    ret->values = values;
    ret->n_values = a->n_values + b->n_values;
    return ST_OK;
}

static enum status join_params(struct arena *arena, struct policy_params *params,
                               const struct policy_params *more)
{
    size_t i = 0, j = 0, n = 0;
    if (more->n == 0)
        return ST_OK;
    struct policy_param *all = arena_alloc(arena, (params->n + more->n) * sizeof *all);
    if (all == NULL)
        return ST_NOMEM;
    while (i < params->n || j < more->n) {
        int order = i == params->n ? 1
                    : j == more->n ? -1
                                   : bytes_cmp(params->items[i].name, more->items[j].name);
        if (order < 0)
            all[n++] = params->items[i++];
        else if (order > 0)
            all[n++] = more->items[j++];
        else
            TRY(join_values(arena, &params->items[i++], &more->items[j++], &all[n++]));
    }
    ASSERT(n <= params->n + more->n);
    *params = (struct policy_params){all, n};
    return ST_OK;
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

enum status acl_param_merge(struct arena *arena, struct policy_rule *rule,
                            const struct policy_rule *more)
{
    /* rules with "deny" are not merged: "deny" beats all */
    ASSERT(((rule->caps | more->caps) & CAP_DENY) == 0);
    TRY(join_params(arena, &rule->allowed, &more->allowed));
    TRY(join_params(arena, &rule->denied, &more->denied));
    rule->min_wrap_s = lesser(rule->min_wrap_s, more->min_wrap_s);
    rule->max_wrap_s = lesser(rule->max_wrap_s, more->max_wrap_s);
    if (more->n_required == 0)
        return ST_OK;
    struct bytes *names = arena_alloc(arena, (rule->n_required + more->n_required) * sizeof *names);
    if (names == NULL)
        return ST_NOMEM;
    if (rule->n_required != 0)
        memcpy(names, rule->required, rule->n_required * sizeof *names);
    memcpy(names + rule->n_required, more->required, more->n_required * sizeof *names);
    rule->required = names;
    rule->n_required += more->n_required;
    return ST_OK;
}

/* Comparing values */

/* A decimal number without leading and trailing zeroes. */
struct decimal {
    const uint8_t *first, *end; /* the digits, with at most one '.' among them; empty: 0 */
    int64_t scale;              /* decimal position of the first digit */
    bool negative;
};

static bool is_digit(const uint8_t *at, const uint8_t *end)
{
    return at < end && *at >= '0' && *at <= '9';
}

static const uint8_t *skip_digits(const uint8_t *at, const uint8_t *end)
{
    while (is_digit(at, end))
        at++;
    return at;
}

/* Remove zeroes (and the '.') at both ends. `point` is the place of the '.', or the place where it
 * would stand. */
static void trim(struct decimal *d, const uint8_t *point)
{
    while (d->first < d->end && (*d->first == '0' || *d->first == '.'))
        d->first++;
    while (d->end > d->first && (d->end[-1] == '0' || d->end[-1] == '.'))
        d->end--;
    ASSERT(d->first <= d->end);
    d->scale += d->first < point ? point - d->first : point - d->first + 1;
}

/* Read a number such as -12.50e3. False: not a number, or an exponent of more than nine digits. */
static bool decimal_read(struct bytes text, struct decimal *ret)
{
    const uint8_t *at = text.data, *end = at + text.len;
    struct decimal d = {.negative = text.len > 0 && *at == '-'};
    int64_t exponent = 0;

    d.first = at += d.negative;
    const uint8_t *point = at = skip_digits(at, end);
    if (at == d.first)
        return false;
    if (at < end && *at == '.') {
        at = skip_digits(at + 1, end);
        if (at == point + 1)
            return false;
    }
    d.end = at;
    if (at < end && (*at | 0x20) == 'e') {
        bool minus = ++at < end && *at == '-';
        at += at < end && (*at == '-' || *at == '+');
        const uint8_t *digits = at;
        for (; is_digit(at, end) && at - digits < 9; at++)
            exponent = exponent * 10 + (*at - '0');
        if (at == digits)
            return false;
        exponent = minus ? -exponent : exponent;
    }
    ASSERT(d.first < d.end); /* `d` has at least one digit */
    d.scale = exponent;
    trim(&d, point);
    *ret = d;
    return at == end;
}

static bool same_number(struct bytes a, struct bytes b)
{
    struct decimal x, y;
    if (!decimal_read(a, &x) || !decimal_read(b, &y))
        return false;
    if (x.first == x.end || y.first == y.end)
        return x.first == x.end && y.first == y.end;
    if (x.negative != y.negative || x.scale != y.scale)
        return false;
    for (;;) {
        x.first += x.first < x.end && *x.first == '.';
        y.first += y.first < y.end && *y.first == '.';
        if (x.first == x.end || y.first == y.end)
            return x.first == x.end && y.first == y.end;
        if (*x.first++ != *y.first++)
            return false;
    }
}

/* Whether a pattern fits a text. In a pattern of two or more characters, '*' at either end stands
 * for any text. */
static bool fits(struct bytes pattern, struct bytes text)
{
    if (pattern.len < 2)
        return bytes_eq(pattern, text);
    bool front = pattern.data[0] == '*', back = pattern.data[pattern.len - 1] == '*';
    struct bytes core = bytes_of(pattern.data + front, pattern.len - front - back);
    if (!front && !back)
        return bytes_eq(pattern, text);
    if (core.len == 0)
        return true;
    if (front && back)
        return text.len != 0 && memmem(text.data, text.len, core.data, core.len) != NULL;
    if (back)
        return bytes_has_prefix(text, core);
    return text.len >= core.len && bytes_eq(bytes_from(text, text.len - core.len), core);
}

/* The text of a string, a number or a boolean. Handlers accept each in place of the others. */
static bool scalar_text(const struct text_value *v, struct bytes *ret_text)
{
    *ret_text = v->text;
    if (v->kind == TEXT_BOOL)
        *ret_text = v->truth ? BYTES("true") : BYTES("false");
    return v->kind == TEXT_BOOL || v->kind == TEXT_STRING || v->kind == TEXT_NUMBER;
}

static bool same(const struct text_value *want, const struct text_value *have);

/* Compare the items of lists in order, the members of objects by name. The policy parser bounds
 * depth and size. */
static bool same_members(const struct text_value *want, const struct text_value *have)
{
    ASSERT(want->kind == TEXT_LIST || want->kind == TEXT_OBJECT);
    if (want->kind != have->kind || want->n != have->n)
        return false;
    const struct text_value *other = have->first;
    TEXT_FOR (item, want) {
        if (want->kind == TEXT_OBJECT) {
            other = have->first;
            while (other != NULL && !bytes_eq(other->name, item->name))
                other = other->next;
        }
        if (other == NULL || !same(item, other))
            return false;
        other = other->next;
    }
    return true;
}

/* Whether the value of a request equals the value of a rule. */
static bool same(const struct text_value *want, const struct text_value *have)
{
    struct bytes text;
    bool truth;
    switch (want->kind) {
    case TEXT_NULL: return have->kind == TEXT_NULL;
    case TEXT_BOOL: return text_to_bool(have, &truth) == ST_OK && truth == want->truth;
    case TEXT_NUMBER:
        return (have->kind == TEXT_NUMBER || have->kind == TEXT_STRING) &&
               same_number(want->text, have->text);
    case TEXT_STRING:
        return scalar_text(have, &text) &&
               (fits(want->text, text) ||
                (have->kind == TEXT_NUMBER && same_number(want->text, text)));
    case TEXT_LIST:
    case TEXT_OBJECT: break;
    }
    return same_members(want, have);
}

static bool names_value(const struct policy_param *param, const struct text_value *v)
{
    for (size_t i = 0; i < param->n_values; i++)
        if (same(param->values[i], v))
            return true;
    return param->n_values == 0;
}

/* Finding names */

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
}

/* Compare `want` with the lower case of `have`, as bytes_cmp does. */
static int name_order(struct bytes want, struct bytes have)
{
    size_t n = MIN(want.len, have.len);
    for (size_t i = 0; i < n; i++) {
        int order = want.data[i] - lower(have.data[i]);
        if (order != 0)
            return order;
    }
    return (want.len > have.len) - (want.len < have.len);
}

static const struct policy_param *find_param(const struct policy_params *params, struct bytes name)
{
    size_t low = 0, high = params->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = name_order(params->items[mid].name, name);
        if (order == 0)
            return &params->items[mid];
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

static bool has_member(const struct text_value *data, struct bytes name)
{
    TEXT_FOR (v, data)
        if (v->kind != TEXT_NULL && name_order(name, v->name) == 0)
            return true;
    return false;
}

static bool denies_item(const struct policy_param *param, const struct text_value *v)
{
    bool denied, given;
    if (names_value(param, v))
        return true;
    for (size_t i = 0; i < param->n_values; i++) {
        struct bytes want = param->values[i]->text;
        bool word = param->values[i]->kind == TEXT_STRING && want.len >= strlen("true");
        if (word && text_bool_parse(want, &denied) == ST_OK && text_to_bool(v, &given) == ST_OK &&
            given == denied)
            return true;
    }
    return false;
}

/* Whether a value is denied. A handler may split or convert a value. So this function also refuses
 * a list with a denied item, a text "a,b" with a denied part, and other spellings of a denied
 * boolean. */
static bool denies(const struct policy_param *param, const struct text_value *v)
{
    if (denies_item(param, v))
        return true;
    if (v->kind == TEXT_LIST)
        TEXT_FOR (item, v)
            if (denies_item(param, item))
                return true;
    if (v->kind != TEXT_STRING)
        return false;
    for (size_t at = 0; at < v->text.len;) {
        const uint8_t *comma = memchr(v->text.data + at, ',', v->text.len - at);
        size_t end = comma != NULL ? (size_t)(comma - v->text.data) : v->text.len, from = at;
        at = end + 1;
        while (from < end && v->text.data[from] == ' ')
            from++;
        while (end > from && v->text.data[end - 1] == ' ')
            end--;
        ASSERT(from <= end);
        struct text_value part = {.kind = TEXT_STRING,
                                  .text = bytes_of(v->text.data + from, end - from)};
        if (denies_item(param, &part))
            return true;
    }
    return false;
}

static bool none_denied(const struct policy_params *denied, const struct text_value *data)
{
    if (denied->n == 0)
        return true;
    if (find_param(denied, BYTES("*")) != NULL)
        return false;
    TEXT_FOR (v, data) {
        const struct policy_param *param = find_param(denied, v->name);
        if (param != NULL && denies(param, v))
            return false;
    }
    return true;
}

static bool all_allowed(const struct policy_params *allowed, const struct text_value *data)
{
    if (allowed->n == 0)
        return true;
    bool any = find_param(allowed, BYTES("*")) != NULL;
    TEXT_FOR (v, data) {
        const struct policy_param *param = find_param(allowed, v->name);
        if (param == NULL ? !any : !names_value(param, v))
            return false;
    }
    return true;
}

bool acl_param_allow(const struct policy_rule *rule, const struct text_value *data)
{
    ASSERT(data->kind == TEXT_OBJECT);
    for (size_t i = 0; i < rule->n_required; i++)
        if (!has_member(data, rule->required[i]))
            return false;
    if (data->n == 0)
        return true;
    return none_denied(&rule->denied, data) && all_allowed(&rule->allowed, data);
}
