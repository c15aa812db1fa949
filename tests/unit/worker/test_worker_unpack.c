/* Archives are made here by hand: every field of a header can be wrong. */
#include "support.h"

#include "base/buf.h"
#include "base/mem.h"
#include "worker/worker_unpack.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { BLOCK = 512 };

static const struct unpack_limits limits = {.bytes_max = 1 << 20, .entries_max = 100};

/* One header with its checksum. */
static void put_header(struct buf *tar, const char *name, char type, unsigned mode, size_t size)
{
    uint8_t block[BLOCK] = {0};
    unsigned sum = 0;
    memcpy(block, name, MIN(strlen(name), (size_t)100));
    (void)snprintf((char *)block + 100, 8, "%07o", mode);
    (void)snprintf((char *)block + 124, 12, "%011zo", size);
    memset(block + 148, ' ', 8);
    block[156] = (uint8_t)type;
    memcpy(block + 257,
           "ustar\0"
           "00",
           8);
    for (size_t i = 0; i < BLOCK; i++)
        sum += block[i];
    (void)snprintf((char *)block + 148, 8, "%06o", sum);
    buf_add(tar, bytes_of(block, BLOCK));
}

static void put_content(struct buf *tar, struct bytes text)
{
    static const uint8_t zero[BLOCK];
    buf_add(tar, text);
    buf_add(tar, bytes_of(zero, (BLOCK - text.len % BLOCK) % BLOCK));
}

static void put(struct buf *tar, const char *name, char type, const char *text)
{
    put_header(tar, name, type, 0644, strlen(text));
    put_content(tar, bytes_str(text));
}

static void put_end(struct buf *tar)
{
    static const uint8_t zero[2 * BLOCK];
    buf_add(tar, bytes_of(zero, sizeof zero));
}

static void gzip(const struct buf *tar, struct buf *out)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t max = deflateBound(&z, tar->len), from = out->len;
    z.next_in = tar->data;
    z.avail_in = (uInt)tar->len;
    z.next_out = buf_extend(out, max);
    z.avail_out = (uInt)max;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out->len = from + (max - z.avail_out);
    assert_int_equal(deflateEnd(&z), Z_OK);
}

struct room {
    char path[64];
    int dir;
};

static int set_up(void **ctx)
{
    struct room *room = mem_zalloc(sizeof *room);
    (void)snprintf(room->path, sizeof room->path, "/tmp/holdfast-unpack-XXXXXX");
    assert_non_null(mkdtemp(room->path));
    room->dir = open(room->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(room->dir >= 0);
    *ctx = room;
    return 0;
}

static int tear_down(void **ctx)
{
    struct room *room = *ctx;
    char command[96];
    (void)close(room->dir); /* only looked into */
    (void)snprintf(command, sizeof command, "rm -rf %s", room->path);
    assert_int_equal(system(command), 0);
    mem_free(room);
    return 0;
}

static void assert_file(const struct room *room, const char *name, const char *wanted,
                        unsigned mode)
{
    char text[256] = "";
    struct stat found;
    int fd = openat(room->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, text, sizeof text - 1), (ssize_t)strlen(wanted));
    assert_string_equal(text, wanted);
    assert_int_equal(fstat(fd, &found), 0);
    assert_int_equal(found.st_mode & 07777, mode);
    assert_int_equal(close(fd), 0);
}

static enum status unpack(const struct room *room, const struct buf *tar, struct reason *why)
{
    CLEANUP(buf_done) struct buf gz = {0};
    gzip(tar, &gz);
    return worker_unpack(buf_bytes(&gz), room->dir, &limits, why);
}

static void files_and_folders_are_unpacked(void **ctx)
{
    CLEANUP(buf_done) struct buf tar = {0};
    struct reason why = {{0}};
    put(&tar, "pax_global_header", 'g', "52 comment=0123456789012345678901234567890123456789\n");
    put(&tar, "./", '5', "");
    put(&tar, "./main.tf", '0', "x");
    put(&tar, "sub/deep/a.tf", '0', "in a folder without an entry");
    put(&tar, "sub/", '5', "");
    put(&tar, "empty", '\0', "");
    put_header(&tar, "run.sh", '0', 0755, 2);
    put_content(&tar, BYTES("#!"));
    put_end(&tar);
    assert_status(unpack(*ctx, &tar, &why), ST_OK);
    assert_file(*ctx, "main.tf", "x", 0600);
    assert_file(*ctx, "sub/deep/a.tf", "in a folder without an entry", 0600);
    assert_file(*ctx, "empty", "", 0600);
    assert_file(*ctx, "run.sh", "#!", 0700);
}

static void long_names_of_pax_and_gnu_are_read(void **ctx)
{
    CLEANUP(buf_done) struct buf tar = {0}, pax = {0};
    struct reason why = {{0}};
    char name[200], gnu[200];
    memset(name, 'n', 150);
    name[150] = '\0';
    memset(gnu, 'g', 160);
    gnu[160] = '\0';
    buf_add_format(&pax, "160 path=%s\n", name);
    assert_int_equal(pax.len, 160);
    buf_add_str(&pax, "20 atime=1350244992\n");
    buf_add_u8(&pax, 0);
    put(&tar, "PaxHeaders/x", 'x', (const char *)pax.data);
    put(&tar, "short", '0', "by pax");
    put_header(&tar, "././@LongLink", 'L', 0644, 161);
    put_content(&tar, bytes_of(gnu, 161));
    put(&tar, "short", '0', "by GNU");
    put_end(&tar);
    assert_status(unpack(*ctx, &tar, &why), ST_OK);
    assert_file(*ctx, name, "by pax", 0600);
    assert_file(*ctx, gnu, "by GNU", 0600);
}

static void two_gzip_members_are_one_archive(void **ctx)
{
    CLEANUP(buf_done) struct buf one = {0}, two = {0}, gz = {0};
    const struct room *room = *ctx;
    struct reason why = {{0}};
    put(&one, "a", '0', "1");
    put(&two, "b", '0', "2");
    put_end(&two);
    gzip(&one, &gz);
    gzip(&two, &gz);
    assert_status(worker_unpack(buf_bytes(&gz), room->dir, &limits, &why), ST_OK);
    assert_file(room, "a", "1", 0600);
    assert_file(room, "b", "2", 0600);
}

static void hostile_entries_are_refused_with_the_reason(void **ctx)
{
    static const struct {
        const char *name;
        char type;
        const char *text, *reason;
    } rows[] = {
        {"../out", '0', "x", "\"..\""},
        {"a/../../out", '0', "x", "\"..\""},
        {"a/..", '5', "", "\"..\""},
        {"..", '5', "", "\"..\""},
        {"/etc/out", '0', "x", "absolute"},
        {"/", '5', "", "absolute"},
        {"link", '2', "", "link"},
        {"link", '1', "", "link"},
        {"dev", '3', "", "device"},
        {"dev", '4', "", "device"},
        {"pipe", '6', "", "pipe"},
        {"sparse", 'S', "", "unknown kind"},
        {"line\nend", '0', "x", "control character"},
        {"\x1b[2J", '0', "x", "control character"},
        {"", '0', "x", "without a name"},
        {".", '0', "x", "without a name"},
        {"before", '0', "again", "twice"},
        {"folder", '0', "again", "twice"},
        {"before", '5', "", "twice"},
        {"before/x", '0', "x", "Not a directory"},
        {"x", 'x', "9 path=x\n", ""}, /* no entry follows: two zero blocks */
        {"x", 'x', "99 path=x\n", "malformed"},
        {"x", 'x', "9path=x\n", "malformed"},
        {"x", 'x', "-9 path=x\n", "malformed"},
        {"x", 'x', "22 GNU.sparse.major=1\n", "sparse"},
        {"x", 'x', "11 size=-1\n", "malformed"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(buf_done) struct buf tar = {0};
        struct reason why = {{0}};
        void *own = NULL;
        (void)ctx;
        assert_int_equal(set_up(&own), 0);
        put(&tar, "before", '0', "first");
        put(&tar, "folder", '5', "");
        put(&tar, rows[i].name, rows[i].type, rows[i].text);
        put_end(&tar);
        enum status st = unpack(own, &tar, &why);
        if ((st == ST_OK) != (rows[i].reason[0] == '\0') ||
            strstr(why.text, rows[i].reason) == NULL)
            fail_msg("row %zu: %s: \"%s\"", i, status_name(st), why.text);
        assert_null(strchr(why.text, '\n'));
        assert_null(strchr(why.text, '\x1b'));
        assert_file(own, "before", "first", 0600);
        assert_int_equal(tear_down(&own), 0);
        assert_int_equal(access("/tmp/out", F_OK), -1);
    }
}

/* A folder that was swapped for a link after it was made: not followed. */
static void a_link_in_the_folder_is_not_followed(void **ctx)
{
    CLEANUP(buf_done) struct buf tar = {0};
    const struct room *room = *ctx;
    struct reason why = {{0}};
    assert_int_equal(symlinkat("/tmp", room->dir, "sub"), 0);
    assert_int_equal(symlinkat("/tmp/holdfast-unpack-out", room->dir, "file"), 0);
    put(&tar, "sub/holdfast-unpack-out", '0', "x");
    assert_true(unpack(room, &tar, &why) != ST_OK);
    tar.len = 0;
    put(&tar, "file", '0', "x");
    assert_true(unpack(room, &tar, &why) != ST_OK);
    assert_int_equal(access("/tmp/holdfast-unpack-out", F_OK), -1);
}

static void limits_are_kept(void **ctx)
{
    CLEANUP(buf_done) struct buf many = {0}, big = {0}, deep = {0};
    const struct room *room = *ctx;
    struct reason why = {{0}};
    char name[32];
    for (unsigned i = 0; i <= limits.entries_max; i++) {
        (void)snprintf(name, sizeof name, "f%u", i);
        put(&many, name, '0', "");
    }
    put_end(&many);
    assert_status(unpack(room, &many, &why), ST_TOO_BIG);
    assert_non_null(strstr(why.text, "more than 100 entries"));
    put_header(&big, "big", '0', 0644, 2 << 20);
    (void)!buf_extend(&big, 2 << 20);
    memset(big.data + BLOCK, 0, 2 << 20);
    assert_status(unpack(room, &big, &why), ST_TOO_BIG);
    assert_non_null(strstr(why.text, "more than 1048576 bytes"));
    for (unsigned i = 0; i < UNPACK_DEPTH_MAX + 1; i++)
        buf_add_str(&deep, "d/");
    buf_add_u8(&deep, 0);
    assert_status(worker_path_check((const char *)deep.data, &why), ST_INVALID);
    assert_non_null(strstr(why.text, "too deep"));
}

static void what_is_no_archive_is_refused(void **ctx)
{
    CLEANUP(buf_done) struct buf tar = {0}, gz = {0}, empty = {0};
    const struct room *room = *ctx;
    struct reason why = {{0}};
    put(&tar, "a", '0', "some text");
    put_end(&tar);
    assert_status(worker_unpack(buf_bytes(&tar), room->dir, &limits, &why), ST_INVALID);
    assert_status(worker_unpack((struct bytes){0}, room->dir, &limits, &why), ST_INVALID);
    gzip(&tar, &gz);
    for (size_t len = 1; len < gz.len; len++) {
        void *own = NULL;
        assert_int_equal(set_up(&own), 0);
        const struct room *fresh = own;
        assert_status(worker_unpack(bytes_of(gz.data, len), fresh->dir, &limits, &why), ST_INVALID);
        assert_int_equal(tear_down(&own), 0);
    }
    tar.data[0] ^= 1; /* the checksum is wrong */
    assert_status(unpack(room, &tar, &why), ST_INVALID);
    assert_non_null(strstr(why.text, "checksum"));
    assert_status(unpack(room, &empty, &why), ST_INVALID);
    put_header(&empty, "a", '0', 0644, 5000); /* its content is missing */
    assert_status(unpack(room, &empty, &why), ST_INVALID);
    assert_non_null(strstr(why.text, "ends too early"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_and_folders_are_unpacked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_names_of_pax_and_gnu_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_gzip_members_are_one_archive, set_up, tear_down),
        cmocka_unit_test(hostile_entries_are_refused_with_the_reason),
        cmocka_unit_test_setup_teardown(a_link_in_the_folder_is_not_followed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(limits_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_archive_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
