/* How a node can be unsealed, by what it is configured for and how the cluster is sealed. */
#include "support.h"

#include "node/unseal_internal.h"

static const struct seal a = {.type = SEAL_STATIC, .id = "a"}, b = {.type = SEAL_STATIC, .id = "b"};

/* What a node may be configured for. */
static const struct unseal_options to_shares = {.type = SEAL_SHAMIR};
static const struct unseal_options by_a = {.type = SEAL_STATIC, .seal = &a};
static const struct unseal_options by_b = {.type = SEAL_STATIC, .seal = &b};
/* The key is to change from a to b. */
static const struct seal b_after_a = {.type = SEAL_STATIC, .id = "b", .previous = &a};
static const struct unseal_options by_b_or_a = {.type = SEAL_STATIC, .seal = &b_after_a};
static const struct unseal_options no_file = {.type = SEAL_STATIC};
static const struct unseal_options shares_to_a = {
    .type = SEAL_STATIC, .seal = &a, .has_former = true};
static const struct unseal_options a_to_b = {
    .type = SEAL_STATIC, .seal = &b, .former = &a, .has_former = true};
static const struct unseal_options a_to_shares = {
    .type = SEAL_SHAMIR, .former = &a, .has_former = true};
static const struct unseal_options gone_to_shares = {.type = SEAL_SHAMIR, .has_former = true};
static const struct unseal_options a_to_no_file = {
    .type = SEAL_STATIC, .former = &a, .has_former = true};

static const struct seal_info shares = {SEAL_SHAMIR, "shamir", 5, 3, 1};
static const struct seal_info key_a = {SEAL_STATIC, "a", 5, 3, 2};
static const struct seal_info key_b = {SEAL_STATIC, "b", 5, 3, 3};

static const struct {
    const struct unseal_options *configured;
    const struct seal_info *stored;
    enum unseal_way way;
    const char *says; /* NULL: the node unseals by itself */
} ways[] = {
    {&to_shares, &shares, UNSEAL_SHARES, "3 of 5 key shares have to be given"},
    {&to_shares, &key_a, UNSEAL_NO_WAY,
     "wrapped by the seal key 'a', this node is configured for key"},
    {&by_a, &key_a, UNSEAL_ITSELF, NULL},
    {&by_a, &key_b, UNSEAL_NO_WAY, "wrapped by the seal key 'b', this node is configured for 'a'"},
    {&by_a, &shares, UNSEAL_MIGRATION, "3 of 5 key shares have to be given with migrate"},
    {&by_b, &key_b, UNSEAL_ITSELF, NULL},
    {&by_b_or_a, &key_a, UNSEAL_ITSELF, NULL},
    {&by_b_or_a, &key_b, UNSEAL_ITSELF, NULL},
    {&by_b_or_a, &shares, UNSEAL_MIGRATION, "3 of 5 key shares have to be given with migrate"},
    {&by_b, &key_a, UNSEAL_NO_WAY, "start it with that key, or add previous_key_file"},
    {&no_file, &key_a, UNSEAL_NO_WAY, "there is no seal key"},
    {&no_file, &shares, UNSEAL_NO_WAY, "there is no seal key"},
    {&shares_to_a, &shares, UNSEAL_MIGRATION, "the seal key 'a'; to move the cluster to it"},
    {&shares_to_a, &key_a, UNSEAL_ITSELF, NULL},
    {&shares_to_a, &key_b, UNSEAL_NO_WAY, "wrapped by the seal key 'b'"},
    {&a_to_b, &key_a, UNSEAL_MIGRATION,
     "from the seal key 'a' to the seal key 'b', give 3 of 5 shares"},
    {&a_to_b, &key_b, UNSEAL_ITSELF, NULL},
    {&a_to_b, &shares, UNSEAL_MIGRATION, "3 of 5 key shares have to be given with migrate"},
    {&a_to_shares, &key_a, UNSEAL_MIGRATION,
     "from the seal key 'a' to key shares, give 3 of 5 shares"},
    {&a_to_shares, &shares, UNSEAL_SHARES, "3 of 5 key shares have to be given"},
    {&a_to_shares, &key_b, UNSEAL_NO_WAY, "wrapped by the seal key 'b'"},
    {&gone_to_shares, &shares, UNSEAL_SHARES, "3 of 5 key shares have to be given"},
    {&gone_to_shares, &key_a, UNSEAL_NO_WAY, "wrapped by the seal key 'a'"},
    {&a_to_no_file, &key_a, UNSEAL_NO_WAY, "there is no seal key"},
};

static void each_configuration_has_its_way_from_each_seal(void **ctx)
{
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct unseal u = {.options = *ways[i].configured};
        struct reason why = {{0}};
        if (unseal_way_of(&u, ways[i].stored) != ways[i].way)
            fail_msg("way %zu is %d", i, unseal_way_of(&u, ways[i].stored));
        if (ways[i].says == NULL)
            continue;
        unseal_explain(&u, ways[i].stored, &why);
        if (strstr(why.text, ways[i].says) == NULL)
            fail_msg("way %zu says: %s", i, why.text);
        assert_true(strlen(why.text) < sizeof why.text - 1); /* nothing is cut */
    }
}

/* The longest ids fit, too. */
static void an_explanation_names_ids_of_any_length(void **ctx)
{
    struct seal to = {.type = SEAL_STATIC}, from = {.type = SEAL_STATIC};
    struct seal_info info = {.type = SEAL_STATIC, .shares = 255, .threshold = 255};
    struct reason why = {{0}};
    (void)ctx;
    memset(to.id, 't', SEAL_ID_MAX);
    memset(from.id, 'f', SEAL_ID_MAX);
    memset(info.id, 'f', SEAL_ID_MAX);
    struct unseal u = {.options = {SEAL_STATIC, &to, &from, true}};
    unseal_explain(&u, &info, &why);
    assert_non_null(strstr(why.text, to.id));
    assert_non_null(strstr(why.text, "with migrate"));
    u.options.former = NULL;
    unseal_explain(&u, &info, &why);
    assert_non_null(strstr(why.text, "start it with that key"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_configuration_has_its_way_from_each_seal),
        cmocka_unit_test(an_explanation_names_ids_of_any_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
