/* What an outgoing request reads: a URL, or the head of a reply in lines as libcurl gives them. The
 * first byte says which. */
#include "out/out_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_url(const uint8_t *data, size_t size)
{
    static char url[OUT_URL_BYTES_MAX + 16];
    struct out_target target = {0};
    struct reason reason = {""};
    size_t n = MIN(size, sizeof url - 1);
    memcpy(url, data, n);
    url[n] = '\0';
    enum status st = out_target_parse(url, &target, &reason);
    ASSERT(st == ST_OK || st == ST_INVALID);
    ASSERT((st == ST_OK) == (reason.text[0] == '\0'));
    if (st == ST_OK) {
        const char *authority = strstr(url, "://") + 3;
        ASSERT(memchr(authority, '@', strcspn(authority, "/?#")) == NULL);
        ASSERT(target.port != 0 && target.host[0] != '\0' &&
               strpbrk(target.host, "@/?# \r\n") == NULL);
    }
    out_target_done(&target);
}

static void check_reply(const struct out_head *head, const struct out_reply *reply)
{
    ASSERT(reply->status >= 200 && reply->status <= 599);
    ASSERT(reply->head.len <= OUT_HEADER_BYTES_MAX * OUT_WANTED_MAX);
    for (size_t i = 0; i < head->request->n_wanted; i++) {
        struct bytes value = out_reply_header(reply, i);
        for (size_t at = 0; at < value.len; at++)
            ASSERT(value.data[at] >= ' ' || value.data[at] == '\t');
    }
}

static void read_head(const uint8_t *data, size_t size)
{
    static const char *const wanted[] = {"etag", "location", "x"};
    const struct out_request request = {.wanted = wanted, .n_wanted = ARRAY_LEN(wanted)};
    struct out_reply reply = {0};
    struct out_head head = {.request = &request, .reply = &reply};
    enum status st = ST_OK;
    while (size > 0 && st == ST_OK) {
        const uint8_t *end = memchr(data, '\n', size);
        size_t n = end != NULL ? (size_t)(end - data) + 1 : size;
        st = out_head_line(&head, bytes_of(data, n));
        data += n;
        size -= n;
    }
    ASSERT((st == ST_OK) == (head.fault == NULL));
    if (head.phase == OUT_HEAD_BODY && st == ST_OK)
        check_reply(&head, &reply);
    out_reply_done(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || out_memory_init() != ST_OK)
        return 0;
    if (data[0] % 2 == 0)
        read_url(data + 1, size - 1);
    else
        read_head(data + 1, size - 1);
    return 0;
}
