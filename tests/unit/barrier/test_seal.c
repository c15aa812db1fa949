/* Forms of the static seal's key, and the files that the key may be read from. */
#include "support.h"

#include "barrier/seal.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char raw[] = "0123456789abcdef0123456789ABCDE\xff";
static const char hex[] = "3031323334353637383961626364656630313233343536373839414243444Aff";
static const char hex_right[] = "30313233343536373839616263646566303132333435363738394142434445fF";
static const char base64[] = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlBQkNERf8=";

static struct bytes text(const char *t)
{
    return bytes_str(t);
}

static void assert_is_key(const struct seal *seal)
{
    assert_true(bytes_eq_secret(secret_bytes(&seal->key), bytes_of(raw, 32)));
}

static void the_three_forms_give_one_key_and_one_name(void **state)
{
    (void)state;
    struct bytes forms[] = {bytes_of(raw, 32), text(hex_right), text(base64),
                            BYTES("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlBQkNERf8=\n")};
    char id[SEAL_ID_MAX + 1] = "";
    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        struct seal seal = {0};
        assert_status(seal_static(forms[i], NULL, &seal, NULL), ST_OK);
        assert_is_key(&seal);
        assert_int_equal(strlen(seal.id), 7 + 16);
        if (i > 0)
            assert_string_equal(seal.id, id);
        memcpy(id, seal.id, sizeof id);
        seal_done(&seal);
    }
}

static void anything_else_is_refused_without_showing_it(void **state)
{
    (void)state;
    struct bytes bad[] = {BYTES(""),
                          bytes_of(raw, 31),
                          bytes_of(hex, 63),
                          BYTES("30313233343536373839616263646566303132333435363738394142434445g0"),
                          BYTES("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlBQkNERf9="), /* spare bits */
                          BYTES("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlBQkNERf8"),
                          BYTES("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlBQkNER!8="),
                          BYTES("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlBQkNERf8=\n\n")};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct seal seal = {0};
        struct reason reason = {0};
        assert_status(seal_static(bad[i], NULL, &seal, &reason), ST_INVALID);
        assert_null(seal.key.data);
        assert_non_null(strstr(reason.text, "32 raw bytes"));
        assert_null(strstr(reason.text, "MDEy"));
        assert_null(strstr(reason.text, "3031"));
    }
}

static void a_given_name_is_kept_if_it_can_be_printed(void **state)
{
    (void)state;
    struct seal seal = {0};
    struct reason reason;
    char longest[SEAL_ID_MAX + 2];
    memset(longest, 'x', sizeof longest);
    longest[SEAL_ID_MAX + 1] = '\0';
    assert_status(seal_static(bytes_of(raw, 32), longest, &seal, &reason), ST_INVALID);
    assert_status(seal_static(bytes_of(raw, 32), "", &seal, &reason), ST_INVALID);
    assert_status(seal_static(bytes_of(raw, 32), "two words", &seal, &reason), ST_INVALID);
    assert_status(seal_static(bytes_of(raw, 32), "x\n", &seal, &reason), ST_INVALID);
    longest[SEAL_ID_MAX] = '\0';
    assert_status(seal_static(bytes_of(raw, 32), longest, &seal, &reason), ST_OK);
    assert_string_equal(seal.id, longest);
    seal_done(&seal);
    assert_null(seal.key.data);
}

static void a_mark_tells_keys_and_names_apart(void **state)
{
    (void)state;
    static const struct {
        const char *key, *id;
        bool same;
    } rows[] = {{hex_right, "k", true}, {hex_right, "l", false}, {NULL, "k", false}};
    struct seal first = {0};
    uint8_t mark[SEAL_MARK_BYTES], other[SEAL_MARK_BYTES];
    assert_status(seal_static(bytes_of(raw, 32), "k", &first, NULL), ST_OK);
    assert_status(seal_mark(&first, mark), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct seal seal = {0};
        struct bytes key =
            rows[i].key != NULL ? text(rows[i].key) : BYTES("another key, which has 32 bytes.");
        assert_status(seal_static(key, rows[i].id, &seal, NULL), ST_OK);
        assert_status(seal_mark(&seal, other), ST_OK);
        assert_int_equal(memcmp(mark, other, sizeof mark) == 0, rows[i].same);
        seal_done(&seal);
    }
    seal_done(&first);
}

struct place {
    char dir[64], path[96];
};

static int setup(void **state)
{
    static struct place p;
    (void)snprintf(p.dir, sizeof p.dir, "/tmp/holdfast-seal-XXXXXX");
    if (mkdtemp(p.dir) == NULL)
        return -1;
    (void)snprintf(p.path, sizeof p.path, "%s/key", p.dir);
    *state = &p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    (void)unlink(p->path); /* it may not be there */
    return rmdir(p->dir);
}

static void write_key(const struct place *p, const char *content, mode_t mode)
{
    FILE *f = fopen(p->path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(content, 1, strlen(content), f), strlen(content));
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(p->path, mode), 0);
}

static void a_private_file_is_read(void **state)
{
    struct place *p = *state;
    static const mode_t modes[] = {0400, 0600, 0440, 0640}; /* the last two: of root alone */
    for (size_t i = 0; i < (geteuid() == 0 ? 4 : 2); i++) {
        struct seal seal = {0};
        struct reason reason = {0};
        write_key(p, base64, modes[i]);
        assert_status(seal_static_file(p->path, "k", &seal, &reason), ST_OK);
        assert_is_key(&seal);
        seal_done(&seal);
        assert_int_equal(unlink(p->path), 0);
    }
}

static void a_file_others_may_touch_is_refused(void **state)
{
    struct place *p = *state;
    struct seal seal = {0};
    static const mode_t modes[] = {0404, 0420, 0402, 0410, 0401};
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct reason reason = {0};
        write_key(p, base64, modes[i]);
        assert_status(seal_static_file(p->path, "k", &seal, &reason), ST_DENIED);
        assert_non_null(strstr(reason.text, p->path));
        assert_non_null(strstr(reason.text, "run chmod "));
        assert_int_equal(unlink(p->path), 0);
    }
}

static void a_file_of_another_user_is_refused(void **state)
{
    struct place *p = *state;
    struct seal seal = {0};
    struct reason reason = {0};
    if (geteuid() != 0)
        skip(); /* only root can give a file away */
    write_key(p, base64, 0400);
    assert_int_equal(chown(p->path, 1, (gid_t)-1), 0);
    assert_status(seal_static_file(p->path, "k", &seal, &reason), ST_DENIED);
    assert_non_null(strstr(reason.text, "belongs to user 1,"));
}

static void what_is_no_regular_file_of_a_key_is_refused(void **state)
{
    struct place *p = *state;
    struct seal seal = {0};
    struct reason reason = {0};
    char big[301];
    assert_status(seal_static_file(p->path, "k", &seal, &reason), ST_NOT_FOUND);
    assert_non_null(strstr(reason.text, p->path));
    assert_status(seal_static_file(p->dir, "k", &seal, &reason), ST_INVALID);
    assert_int_equal(mkfifo(p->path, 0600), 0);
    assert_status(seal_static_file(p->path, "k", &seal, &reason), ST_INVALID);
    assert_int_equal(unlink(p->path), 0);
    memset(big, 'a', 300);
    big[300] = '\0';
    write_key(p, big, 0400);
    assert_status(seal_static_file(p->path, "k", &seal, &reason), ST_INVALID);
    assert_non_null(strstr(reason.text, p->path));
}

static void a_credential_is_found_by_its_name(void **state)
{
    struct place *p = *state;
    struct seal seal = {0};
    struct reason reason = {0};
    char config[96];
    (void)snprintf(config, sizeof config, "%s/holdfast.hcl", p->dir);
    assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
    assert_status(seal_static_credential("key", config, NULL, &seal, &reason), ST_NOT_FOUND);
    assert_non_null(strstr(reason.text, "/credentials/key: "));
    assert_non_null(strstr(reason.text, "CREDENTIALS_DIRECTORY is not set"));
    assert_int_equal(setenv("CREDENTIALS_DIRECTORY", p->dir, 1), 0);
    assert_status(seal_static_credential("key", config, NULL, &seal, &reason), ST_NOT_FOUND);
    /* systemd's file is root's, and its access list shows in the group's bits */
    write_key(p, hex_right, geteuid() == 0 ? 0440 : 0400);
    assert_status(seal_static_credential("key", config, NULL, &seal, &reason), ST_OK);
    assert_is_key(&seal);
    seal_done(&seal);
    static const char *bad[] = {"", ".", "..", "../key", "a/b", ".hidden"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_status(seal_static_credential(bad[i], config, NULL, &seal, &reason), ST_INVALID);
    assert_int_equal(chmod(p->path, 0444), 0);
    assert_status(seal_static_credential("key", config, NULL, &seal, &reason), ST_DENIED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_three_forms_give_one_key_and_one_name),
        cmocka_unit_test(anything_else_is_refused_without_showing_it),
        cmocka_unit_test(a_given_name_is_kept_if_it_can_be_printed),
        cmocka_unit_test(a_mark_tells_keys_and_names_apart),
        cmocka_unit_test_setup_teardown(a_private_file_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_others_may_touch_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_of_another_user_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_regular_file_of_a_key_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_credential_is_found_by_its_name, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
