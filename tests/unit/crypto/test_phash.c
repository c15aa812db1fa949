/* Hashes of passwords: our own, those of other tools, and texts that are none. */
#include "support.h"

#include "crypto/phash.h"

static void own_hash_is_known_and_checks_its_password_alone(void **ctx)
{
    char text[PHASH_TEXT_MAX], other[PHASH_TEXT_MAX];
    bool same = false;
    (void)ctx;
    assert_status(phash_make(BYTES("secret"), text), ST_OK);
    assert_status(phash_make(BYTES("secret"), other), ST_OK);
    assert_string_not_equal(text, other); /* the salt differs */
    assert_true(phash_is_known(text) && phash_is_ours(text));
    assert_status(phash_check(text, BYTES("secret"), &same), ST_OK);
    assert_true(same);
    assert_status(phash_check(text, BYTES("Secret"), &same), ST_OK);
    assert_false(same);
    assert_status(phash_check(text, BYTES(""), &same), ST_OK);
    assert_false(same);
}

static void hash_of_nothing_costs_as_much_and_fits_no_password(void **ctx)
{
    bool same = true;
    (void)ctx;
    assert_true(phash_is_ours(phash_of_nothing));
    assert_status(phash_check(phash_of_nothing, BYTES(""), &same), ST_OK);
    assert_false(same);
}

static const struct {
    const char *text, *password;
} elsewhere[] = {
    /* RFC 9106's reference program: echo -n password | argon2 somesalt -id -t 2 -m 16 -p 4 -l 24 */
    {"$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
     "password"},
    {"$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*U"},
    {"$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*U"},
};

static void hash_of_another_tool_checks_its_password(void **ctx)
{
    bool same = false;
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++) {
        print_message("%s\n", elsewhere[i].text);
        assert_true(phash_is_known(elsewhere[i].text));
        assert_false(phash_is_ours(elsewhere[i].text));
        assert_status(phash_check(elsewhere[i].text, bytes_str(elsewhere[i].password), &same),
                      ST_OK);
        assert_true(same);
        assert_status(phash_check(elsewhere[i].text, BYTES("other"), &same), ST_OK);
        assert_false(same);
    }
}

static const char *const no_hashes[] = {
    "",
    "secret",
    "$1$abc$def",
    "$argon2id$",
    "$argon2i$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
    "$argon2id$v=19$m=7,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
    "$argon2id$v=19$m=4194304,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
    "$argon2id$v=19$m=19456,t=17,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
    "$argon2id$v=19$m=19456,t=2,p=17$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
    "$argon2id$v=19$m=19456,t=2,p=0$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
    "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
    "$argon2id$v=19$m=-1,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
    "$2b$15$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
    "$2b$5$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeWW",
    "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOe",
    "$2x$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
};

static void other_text_cannot_be_checked(void **ctx)
{
    bool same = false;
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(no_hashes); i++) {
        print_message("%s\n", no_hashes[i]);
        assert_false(phash_is_known(no_hashes[i]));
        assert_status(phash_check(no_hashes[i], BYTES("x"), &same), ST_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_hash_is_known_and_checks_its_password_alone),
        cmocka_unit_test(hash_of_nothing_costs_as_much_and_fits_no_password),
        cmocka_unit_test(hash_of_another_tool_checks_its_password),
        cmocka_unit_test(other_text_cannot_be_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
