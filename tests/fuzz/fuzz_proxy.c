/* What a proxy sends first: never more is taken than belongs to it, and in any split it means the
 * same. The first byte says how much is given at once. */
#include "http/proxy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum proxy_result feed(struct proxy *p, const uint8_t *data, size_t size, size_t step)
{
    enum proxy_result result = PROXY_MORE;
    size_t used = 0;
    *p = (struct proxy){0};
    while (result == PROXY_MORE && used < size) {
        size_t want = proxy_want(p);
        ASSERT(want > 0 && p->len + want <= PROXY_BYTES_MAX);
        size_t n = MIN(MIN(want, size - used), step);
        memcpy(p->bytes + p->len, data + used, n);
        used += n;
        result = proxy_feed(p, n);
    }
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct proxy whole, parts;
    if (size < 2)
        return 0;
    enum proxy_result a = feed(&whole, data + 1, size - 1, PROXY_BYTES_MAX);
    enum proxy_result b = feed(&parts, data + 1, size - 1, data[0] % 16 + 1u);
    ASSERT(a == b);
    if (a == PROXY_CLIENT)
        ASSERT(whole.port == parts.port && memcmp(&whole.ip, &parts.ip, sizeof whole.ip) == 0);
    return 0;
}
