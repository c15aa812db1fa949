#include "support.h"

#include "text/address.h"

static void addresses_have_a_host_and_a_port(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *text, *host;
        int port;
    } good[] = {
        {"127.0.0.1:8200", "127.0.0.1", 8200}, {"[::1]:65535", "::1", 65535}, {"h.x:1", "h.x", 1}};
    static const char *const bad[] = {"",     ":1",    "h",    "h:",   "h:0",  "h:65536", "h:-1",
                                      "h:1x", "::1:5", "[]:5", "[h:5", "h]:5", "h:5:6"};
    char host[TEXT_HOST_MAX];
    uint16_t port;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_status(text_address_split(good[i].text, host, &port), ST_OK);
        assert_string_equal(host, good[i].host);
        assert_int_equal(port, good[i].port);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (text_address_split(bad[i], host, &port) != ST_INVALID)
            fail_msg("\"%s\" is taken for an address", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(addresses_have_a_host_and_a_port)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
