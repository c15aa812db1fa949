/* Who may own and read a file with a private key. */
#include "support.h"

#include "base/buf.h"
#include "crypto/key_file.h"
#include "crypto/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOT = 0, NODE = 990, OTHER = 1001 };

static void owner_and_mode_decide(void **state)
{
    (void)state;
    static const struct {
        uid_t owner;
        mode_t mode;
        bool allowed;
    } rows[] = {
        {NODE, 0400, true},   {NODE, 0600, true},  {NODE, 0700, true},   {NODE, 0440, false},
        {NODE, 0640, false},  {NODE, 0620, false}, {NODE, 0610, false},  {NODE, 0604, false},
        {NODE, 0602, false},  {NODE, 0601, false}, {NODE, 0644, false},  {ROOT, 0400, true},
        {ROOT, 0600, true},   {ROOT, 0440, true},  {ROOT, 0640, true},   {ROOT, 0420, false},
        {ROOT, 0660, false},  {ROOT, 0650, false}, {ROOT, 0444, false},  {ROOT, 0644, false},
        {ROOT, 0402, false},  {ROOT, 0401, false}, {OTHER, 0400, false}, {OTHER, 0600, false},
        {OTHER, 0640, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (key_file_allowed(rows[i].owner, S_IFREG | rows[i].mode, NODE) != rows[i].allowed)
            fail_msg("owner %u, mode %04o", (unsigned)rows[i].owner, (unsigned)rows[i].mode);
    assert_true(key_file_allowed(ROOT, S_IFREG | 0640, ROOT));
    assert_false(key_file_allowed(NODE, S_IFREG | 0400, ROOT));
}

struct place {
    char dir[64], path[96];
};

static int setup(void **state)
{
    static struct place p;
    (void)snprintf(p.dir, sizeof p.dir, "/tmp/holdfast-key-XXXXXX");
    if (mkdtemp(p.dir) == NULL)
        return -1;
    (void)snprintf(p.path, sizeof p.path, "%s/key.pem", p.dir);
    *state = &p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    (void)unlink(p->path); /* it may not be there */
    return rmdir(p->dir);
}

static void write_file(const struct place *p, mode_t mode)
{
    FILE *f = fopen(p->path, "wb");
    assert_non_null(f);
    assert_int_equal(fputs("key", f) >= 0, 1);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(p->path, mode), 0);
}

static void a_refusal_names_file_mode_and_command(void **state)
{
    struct place *p = *state;
    CLEANUP(buf_done) struct buf out = {0};
    struct reason reason = {{0}};
    char expected[256];
    write_file(p, 0644);
    (void)snprintf(expected, sizeof expected,
                   "%s: mode 0644 lets others use the key: run chmod %s on it", p->path,
                   geteuid() == 0 ? "g-wx,o-rwx" : "go-rwx");
    assert_status(tls_key_read(p->path, &out, &reason), ST_DENIED);
    assert_string_equal(reason.text, expected);
    assert_int_equal(out.len, 0);
    assert_int_equal(chmod(p->path, 0600), 0);
    assert_status(tls_key_read(p->path, &out, &reason), ST_OK);
    assert_bytes(buf_bytes(&out), BYTES("key"));
}

static void a_file_of_another_user_names_the_owner(void **state)
{
    struct place *p = *state;
    struct reason reason = {{0}};
    int fd = -1;
    if (geteuid() != 0)
        skip(); /* only root can give a file away */
    write_file(p, 0400);
    assert_int_equal(chown(p->path, OTHER, (gid_t)-1), 0);
    assert_status(key_file_open(p->path, &fd, &reason), ST_DENIED);
    assert_non_null(strstr(reason.text, "belongs to user 1001"));
    assert_non_null(strstr(reason.text, "run chown 0 on it"));
}

static void a_link_leads_to_the_file_that_is_judged(void **state)
{
    struct place *p = *state;
    char link[112];
    int fd = -1;
    (void)snprintf(link, sizeof link, "%s/link", p->dir);
    write_file(p, 0604);
    assert_int_equal(symlink("key.pem", link), 0);
    assert_status(key_file_open(link, &fd, NULL), ST_DENIED);
    assert_int_equal(chmod(p->path, 0600), 0);
    assert_status(key_file_open(link, &fd, NULL), ST_OK);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(link), 0);
}

static void a_folder_a_pipe_and_nothing_are_refused(void **state)
{
    struct place *p = *state;
    struct reason reason = {{0}};
    int fd = -1;
    assert_status(key_file_open(p->path, &fd, &reason), ST_NOT_FOUND);
    assert_non_null(strstr(reason.text, p->path));
    assert_status(key_file_open(p->dir, &fd, NULL), ST_INVALID);
    assert_int_equal(mkfifo(p->path, 0600), 0);
    assert_status(key_file_open(p->path, &fd, NULL), ST_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owner_and_mode_decide),
        cmocka_unit_test_setup_teardown(a_refusal_names_file_mode_and_command, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_of_another_user_names_the_owner, setup, teardown),
        cmocka_unit_test_setup_teardown(a_link_leads_to_the_file_that_is_judged, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_a_pipe_and_nothing_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
