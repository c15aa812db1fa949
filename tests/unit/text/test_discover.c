#include "support.h"

#include "text/discover.h"

static void names_and_words_are_read(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *text, *name;
        uint16_t port;
    } good[] = {
        {"secrets.example", "secrets.example", 0},
        {"10.0.0.1", "10.0.0.1", 0},
        {"::1", "::1", 0},
        {"provider=dns name=a_b-c.example.", "a_b-c.example.", 0},
        {"  port=65535 name=a   provider=dns ", "a", 65535},
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct text_discover d;
        struct reason why = {{0}};
        if (text_discover_parse(good[i].text, &d, &why) != ST_OK)
            fail_msg("%s: %s", good[i].text, why.text);
        assert_string_equal(d.name, good[i].name);
        assert_int_equal(d.port, good[i].port);
    }
}

static void faults_are_named(void **ctx)
{
    (void)ctx;
    char longest[TEXT_HOST_MAX + 1], fits[TEXT_HOST_MAX];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    memcpy(fits, longest, sizeof fits - 1);
    fits[sizeof fits - 1] = '\0';
    const struct {
        const char *text, *says;
    } bad[] = {
        {"", "not a DNS name"},
        {" ", "not a DNS name"},
        {"a b", "not a DNS name"},
        {"-a", "not a DNS name: -a"},
        {"a/b", "not a DNS name: a/b"},
        {"a\x01", "not a DNS name: (unprintable)"},
        {longest, "not a DNS name"},
        {"=", "not "},
        {"=a", "not "},
        {"provider=aws name=-", "only the provider dns is available, not aws"},
        {"name=- provider=aws", "only the provider dns is available, not aws"},
        {"provider=dns provider=gce name=a", "not gce"},
        {"provider=dns", "provider=dns name=NAME is expected"},
        {"name=a", "provider=dns name=NAME is expected"},
        {"provider=dns name=a name=a", "name is repeated"},
        {"provider=dns name=a port=65536", "port: one of 1 to 65535 is expected, not 65536"},
        {"provider=dns name=a port=-1", "port"},
        {"provider=dns name=a port=1 port=1", "port"},
        {"provider=dns name=a word", "KEY=VALUE is expected, not word"},
        {"provider=dns name=a region=b", "not region"},
    };
    struct text_discover d;
    struct reason why = {{0}};
    assert_status(text_discover_parse(fits, &d, &why), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_status(text_discover_parse(bad[i].text, &d, &why), ST_INVALID);
        if (strstr(why.text, bad[i].says) == NULL)
            fail_msg("\"%s\": %s", bad[i].text, why.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_words_are_read),
        cmocka_unit_test(faults_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
