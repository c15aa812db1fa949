#include "text/duration.h"
#include "text/value.h"

#include <stdio.h>

enum { FRACTION_DIGITS_MAX = 18 };

static const int64_t SECOND = 1000000000;

static const struct unit {
    const char *name;
    int64_t ns;
} units[] = {
    {"h", 3600000000000}, {"ms", 1000000}, {"m", 60000000000},  {"s", 1000000000},
    {"us", 1000},         {"ns", 1},       {"\xc2\xb5s", 1000}, /* the micro sign */
};

struct digits {
    int64_t whole, fraction, scale; /* value = whole + fraction / scale */
};

static const struct unit *unit_at(struct bytes text, size_t at)
{
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (bytes_has_prefix(bytes_from(text, at), bytes_str(units[i].name)))
            return &units[i];
    return NULL;
}

static bool is_digit(struct bytes text, size_t at)
{
    return at < text.len && text.data[at] >= '0' && text.data[at] <= '9';
}

/* Read "12", "1.5", ".5" or "5.". Digits of the fraction below 1e-18 are dropped. */
static enum status read_digits(struct bytes text, size_t *at, struct digits *ret)
{
    size_t from = *at, n = 0;
    *ret = (struct digits){.scale = 1};
    for (; is_digit(text, *at); (*at)++, n++)
        if (__builtin_mul_overflow(ret->whole, 10, &ret->whole) ||
            __builtin_add_overflow(ret->whole, text.data[*at] - '0', &ret->whole))
            return ST_INVALID;
    if (*at < text.len && text.data[*at] == '.') {
        (*at)++;
        from = *at;
        for (; is_digit(text, *at); (*at)++, n++)
            if (*at - from < FRACTION_DIGITS_MAX) {
                ret->fraction = ret->fraction * 10 + (text.data[*at] - '0');
                ret->scale *= 10;
            }
    }
    ASSERT(ret->fraction < ret->scale);
    return n > 0 ? ST_OK : ST_INVALID;
}

static enum status add_scaled(int64_t *sum, const struct digits *d, int64_t ns)
{
    int64_t whole;
    ASSERT(d->fraction < d->scale);
    ASSERT(ns > 0);
    int64_t part = (int64_t)((__int128)d->fraction * ns / d->scale);
    bool over = __builtin_mul_overflow(d->whole, ns, &whole) ||
                __builtin_add_overflow(*sum, whole, sum) || __builtin_add_overflow(*sum, part, sum);
    return over ? ST_INVALID : ST_OK;
}

enum status text_duration_parse(struct bytes text, int64_t *ret_ns)
{
    int64_t n, sum = 0;

    if (text.len == 0) {
        *ret_ns = 0;
        return ST_OK;
    }
    bool days = text.data[text.len - 1] == 'd';
    if (text_int_parse(bytes_of(text.data, text.len - days), &n) == ST_OK) {
        int64_t unit = days ? 86400 * SECOND : SECOND;
        if (n < 0 || __builtin_mul_overflow(n, unit, &sum))
            return ST_INVALID;
        *ret_ns = sum;
        return ST_OK;
    }
    for (size_t at = 0; at < text.len;) {
        struct digits d;
        TRY(read_digits(text, &at, &d));
        const struct unit *unit = unit_at(text, at);
        if (unit == NULL)
            return ST_INVALID;
        at += strlen(unit->name);
        TRY(add_scaled(&sum, &d, unit->ns));
    }
    ASSERT(sum >= 0);
    *ret_ns = sum;
    return ST_OK;
}

enum status text_seconds_parse(struct bytes text, int64_t *ret_s)
{
    int64_t ns;
    TRY(text_duration_parse(text, &ns));
    if (ns % SECOND != 0)
        return ST_INVALID;
    *ret_s = ns / SECOND;
    return ST_OK;
}

/* Write n / per as a decimal number without trailing zeros in the fraction, then the unit. `per` is
 * a power of ten. */
static void put_decimal(struct buf *out, int64_t n, int64_t per, const char *unit)
{
    ASSERT(n >= 0);
    ASSERT(per > 0);
    buf_add_format(out, "%lld", (long long)(n / per));
    int64_t rest = n % per;
    if (rest != 0)
        buf_add_str(out, ".");
    for (; rest != 0; rest %= per) {
        per /= 10;
        buf_add_u8(out, (uint8_t)('0' + rest / per));
    }
    buf_add_str(out, unit);
}

void text_duration_put(struct buf *out, int64_t ns)
{
    ASSERT(ns >= 0);
    if (ns > 0 && ns < SECOND) {
        int64_t per = ns >= 1000000 ? 1000000 : ns >= 1000 ? 1000 : 1;
        put_decimal(out, ns, per, per == 1000000 ? "ms" : per == 1000 ? "\xc2\xb5s" : "ns");
        return;
    }
    if (ns >= 3600 * SECOND)
        buf_add_format(out, "%lldh", (long long)(ns / (3600 * SECOND)));
    if (ns >= 60 * SECOND)
        buf_add_format(out, "%lldm", (long long)(ns / (60 * SECOND) % 60));
    put_decimal(out, ns % (60 * SECOND), SECOND, "s");
}

enum status text_size_parse(struct bytes text, uint64_t *ret_bytes)
{
    static const struct {
        const char *name;
        int64_t bytes;
    } sizes[] = {
        {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},   {"TiB", (int64_t)1 << 40},
        {"KB", 1000},     {"MB", 1000000},  {"GB", 1000000000}, {"TB", 1000000000000},
    };
    int64_t n, unit = 1;

    for (size_t i = 0; i < ARRAY_LEN(sizes) && unit == 1; i++) {
        size_t len = strlen(sizes[i].name);
        if (text.len > len && text_is(bytes_from(text, text.len - len), sizes[i].name)) {
            unit = sizes[i].bytes;
            text.len -= len;
        }
    }
    TRY(text_int_parse(text, &n));
    if (n < 0 || __builtin_mul_overflow(n, unit, &n))
        return ST_INVALID;
    *ret_bytes = (uint64_t)n;
    return ST_OK;
}

const char *text_span(int64_t seconds, char text[TEXT_SPAN_MAX])
{
    const struct {
        int64_t n;
        char unit;
    } parts[] = {{seconds / 3600, 'h'}, {seconds / 60 % 60, 'm'}, {seconds % 60, 's'}};
    size_t len = 0;
    ASSERT(seconds >= 0);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (parts[i].n != 0 || (seconds == 0 && parts[i].unit == 's'))
            len += (size_t)snprintf(text + len, TEXT_SPAN_MAX - len, "%lld%c",
                                    (long long)parts[i].n, parts[i].unit);
    ASSERT(len > 0 && len < TEXT_SPAN_MAX);
    return text;
}
