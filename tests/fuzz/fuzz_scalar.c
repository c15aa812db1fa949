/* Values in text: times, durations, sizes, hex, base64, ranges of addresses. Each is refused, or is
 * written and read as the same value. */
#include "text/cidr.h"
#include "text/duration.h"
#include "text/encode.h"
#include "text/time.h"

#include <stdlib.h>
#include <strings.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The C library's opinion about a time in UTC. */
static void compare_time(struct bytes text, int64_t ms)
{
    char copy[64] = "";
    struct tm tm = {0};
    memcpy(copy, text.data, MIN(text.len, sizeof copy - 1));
    ASSERT(strptime(copy, "%Y-%m-%dT%H:%M:%S", &tm) != NULL);
    const struct tm given = tm;
    int64_t s = (int64_t)timegm(&tm); /* moves a day that there is not */
    ASSERT(tm.tm_mday == given.tm_mday && tm.tm_mon == given.tm_mon);
    ASSERT(ms - s * 1000 >= 0 && ms - s * 1000 < 1000);
}

static void as_time(struct bytes text)
{
    int64_t ms, again;
    uint8_t out[TEXT_TIME_MAX];
    if (text_time_parse(text, &ms) != ST_OK)
        return;
    ASSERT(ms >= TEXT_TIME_FIRST && ms < TEXT_TIME_END);
    if (text.data[text.len - 1] == 'Z')
        compare_time(text, ms);
    size_t len = text_time(ms, out);
    ASSERT(len <= sizeof out && text_time_parse(bytes_of(out, len), &again) == ST_OK);
    ASSERT(again == ms);
}

/* Any number is written as a date. */
static void as_number(struct bytes text)
{
    int64_t ms = 0, again;
    uint8_t out[TEXT_TIME_MAX], date[TEXT_HTTP_DATE_LEN];
    memcpy(&ms, text.data, MIN(text.len, sizeof ms));
    size_t len = text_time(ms, out);
    ASSERT(text_time_parse(bytes_of(out, len), &again) == ST_OK);
    ASSERT(again == MIN(MAX(ms, TEXT_TIME_FIRST), TEXT_TIME_END - 1) || ms < TEXT_TIME_FIRST ||
           ms >= TEXT_TIME_END);
    text_http_date(ms, date);
    ASSERT(bytes_eq(bytes_of(date + TEXT_HTTP_DATE_LEN - 4, 4), BYTES(" GMT")));
}

static void as_duration(struct bytes text)
{
    CLEANUP(buf_done) struct buf out = {0};
    int64_t ns, again;
    uint64_t bytes;
    if (text_duration_parse(text, &ns) == ST_OK) {
        ASSERT(ns >= 0);
        text_duration_put(&out, ns);
        ASSERT(text_duration_parse(buf_bytes(&out), &again) == ST_OK && again == ns);
    }
    if (text_size_parse(text, &bytes) == ST_OK)
        ASSERT(bytes <= INT64_MAX);
}

static void as_encoded(struct bytes text)
{
    uint8_t *bytes = malloc(TEXT_BASE64_BYTES(text.len));
    char *again = malloc(2 * text.len + 8);
    size_t n;
    ASSERT(bytes != NULL && again != NULL);
    if (text_hex_parse(text, bytes) == ST_OK) {
        text_hex_put(bytes_of(bytes, text.len / 2), again);
        ASSERT(strncasecmp(again, text.len != 0 ? (const char *)text.data : "", text.len) == 0);
    }
    bool url = text_base64_url_parse(text, bytes, &n) == ST_OK;
    if (url) {
        n = text_base64_put(bytes_of(bytes, n), TEXT_BASE64_URL, again);
        ASSERT(bytes_eq(bytes_of(again, n), text));
    }
    bool any = text_base64_parse(text, bytes, &n) == ST_OK;
    ASSERT(any || !url);
    if (any) { /* the reader takes both alphabets, and padding or none */
        size_t len = text_base64_put(bytes_of(bytes, n), TEXT_BASE64, again);
        ASSERT(len >= text.len && len <= text.len + 2);
        for (size_t i = 0; i < text.len; i++)
            ASSERT(again[i] == (text.data[i] == '-'   ? '+'
                                : text.data[i] == '_' ? '/'
                                                      : text.data[i]));
    }
    free(bytes);
    free(again);
}

/* A block holds an address exactly if the first bits are the same. */
static void changed_bit(const struct cidr *block)
{
    struct ip other = block->ip;
    for (unsigned bit = 0; bit < 8u * other.len; bit++) {
        uint8_t one = (uint8_t)(0x80u >> bit % 8);
        other.bytes[bit / 8] ^= one;
        ASSERT(cidr_holds(block, &other) == (bit >= block->bits));
        other.bytes[bit / 8] ^= one;
    }
    other.len = other.len == 4 ? 16 : 4;
    ASSERT(!cidr_holds(block, &other));
}

/* Two texts side by side: what a block holds begins as the block does. */
static void with_block(struct bytes first, struct bytes second)
{
    struct cidr block;
    char text[IP_PORT_TEXT] = "";
    if (second.len >= sizeof text || cidr_parse(first, &block) != ST_OK)
        return;
    memcpy(text, second.data, second.len);
    const struct ip ip = ip_port_ip(text);
    bool holds = cidr_holds(&block, &ip);
    ASSERT(!holds ||
           (ip.len == block.ip.len && memcmp(ip.bytes, block.ip.bytes, block.bits / 8) == 0));
}

static void as_address(struct bytes text)
{
    char again[IP_PORT_TEXT];
    struct ip ip, read;
    struct cidr block;
    uint16_t port, read_port;
    bool is_block = cidr_parse(text, &block) == ST_OK,
         is = ip_port_parse(text, &ip, &port) == ST_OK;
    if (is_block) {
        ASSERT((block.ip.len == 4 || block.ip.len == 16) && block.bits <= 8 * block.ip.len);
        ASSERT(cidr_holds(&block, &block.ip));
        changed_bit(&block);
    }
    for (size_t i = 0; i < MIN(text.len, (size_t)IP_PORT_TEXT); i++)
        with_block(bytes_of(text.data, i), bytes_from(text, i + 1));
    if (!is)
        return;
    ip_port_put(&ip, port, again);
    ASSERT(ip_port_parse(bytes_str(again), &read, &read_port) == ST_OK && read_port == port);
    ASSERT(read.len == ip.len && memcmp(read.bytes, ip.bytes, ip.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = bytes_of(data, size);
    as_time(text);
    as_number(text);
    as_duration(text);
    as_encoded(text);
    as_address(text);
    return 0;
}
