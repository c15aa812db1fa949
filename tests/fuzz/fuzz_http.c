/* Messages in hostile bytes: any split of the input must give the same ones and be refused behind
 * the same one. The first byte chooses the split and, with its highest bit, responses. */
#include "http/parse.h"

#include <stdlib.h>

struct tally {
    struct http_parser parser;
    uint64_t digest; /* of everything seen */
    uint64_t body_bytes;
};

static const struct http_limits limits = {
    .uri_bytes_max = 256, .header_bytes_max = 2048, .headers_max = 16, .body_bytes_max = 4096};

static void mix(struct tally *t, struct bytes b)
{
    t->digest = t->digest * 31 + bytes_hash(b);
}

static bool on_body(struct http_parser *parser, struct bytes run)
{
    struct tally *t = CONTAINER_OF(parser, struct tally, parser);
    for (size_t i = 0; i < run.len; i++) /* by byte, so that the split does not show */
        mix(t, bytes_of(&run.data[i], 1));
    t->body_bytes += run.len;
    if (t->body_bytes > limits.body_bytes_max) {
        http_parser_refuse(parser, 413, "too large");
        return false;
    }
    return true;
}

static void mix_head(struct tally *t, const struct http_head *head)
{
    uint8_t facts[] = {(uint8_t)head->method, head->http_1_0,   head->keep_alive,
                       head->chunked,         head->has_length, head->has_query};
    mix(t, bytes_of(facts, sizeof facts));
    mix(t, buf_bytes(&head->text));
    ASSERT(head->path_at + head->path_len <= head->target_len);
    ASSERT(!(head->chunked && (head->has_length || head->http_1_0)));
    for (size_t i = 0; i < head->n_fields; i++) {
        struct http_header field = http_head_field(head, i);
        ASSERT(field.name.len != 0);
        ASSERT(field.value.len == 0 || memchr(field.value.data, '\n', field.value.len) == NULL);
    }
}

static uint64_t understand(struct bytes in, size_t step, bool reply)
{
    struct tally t = {.parser.on_body = on_body};
    struct http_head head = {0};
    enum http_event event = EVENT_DONE;
    uint64_t digest = 0; /* up to the last complete message */
    for (size_t at = 0, used = 0; event != EVENT_REFUSED && at < in.len; at += used) {
        if (event == EVENT_DONE) {
            http_head_reset(&head);
            if (reply)
                http_parser_reply(&t.parser, &limits, &head, false);
            else
                http_parser_request(&t.parser, &limits, &head);
            t.body_bytes = 0;
        }
        struct bytes shown = bytes_of(in.data + at, MIN(step, in.len - at));
        event = http_parser_run(&t.parser, shown, &used);
        ASSERT(used <= shown.len);
        if (event == EVENT_DONE) {
            mix_head(&t, &head);
            digest = t.digest + 1;
        }
    }
    ASSERT(event != EVENT_REFUSED || (t.parser.status >= 400 && t.parser.why != NULL));
    http_head_done(&head);
    return digest * 2 + (event == EVENT_REFUSED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct bytes in = bytes_of(data + 1, size - 1);
    bool reply = (data[0] & 0x80) != 0;
    size_t step = (size_t)(data[0] & 0x7F) + 1;
    ASSERT(understand(in, SIZE_MAX, reply) == understand(in, step, reply));
    return 0;
}
