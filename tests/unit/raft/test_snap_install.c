/* Installing a snapshot of a peer: the file is checked and installed, and a new log begins behind
 * it. The power is lost, or a call fails, at every point. */
#include "raft/disk_model.h"

#include "base/mem.h"

enum { AT = 100, TERM = 3 };

/* The raw bytes of another node's snapshot file at index AT. */
static struct bytes peers_file(uint8_t *buf, size_t room)
{
    struct world *peer = world_begin();
    struct rlog_snapshot_meta meta = {.index = AT, .term = TERM, .conf_index = 4, .conf_len = 2};
    struct rlog_snap_writer *s = NULL;
    struct rlog_snap_reader *r = NULL;
    uint64_t bytes = 0;
    size_t n = 0;
    assert_status(world_set_term(peer, TERM, 0), ST_OK);
    while (peer->states[peer->issued].last < AT)
        world_add(peer, 10);
    world_run(peer);
    assert_status(rlog_snap_create(peer->disk, &meta, &s), ST_OK);
    for (unsigned i = 0; i < 300; i++)
        assert_status(rlog_snap_write(s, BYTES("content of the state machine ")), ST_OK);
    assert_status(rlog_snap_commit(s, &bytes), ST_OK);
    assert_status(rlog_snap_open(peer->disk, AT, TERM, &r, &meta), ST_OK);
    assert_int_equal(meta.bytes, bytes);
    while (n < bytes) { /* as it is sent: in pieces */
        size_t got = 0;
        assert_status(rlog_snap_read_raw(r, buf + n, MIN((size_t)1000, room - n), n, &got), ST_OK);
        assert_true(got > 0);
        n += got;
    }
    rlog_snap_close(r);
    world_free(peer);
    return bytes_of(buf, n);
}

static uint8_t file_buf[64 * 1024];
static struct bytes file;

static int group_setup(void **ctx)
{
    (void)ctx;
    file = peers_file(file_buf, sizeof file_buf);
    return 0;
}

static struct world *world_behind(void)
{
    struct world *w = world_begin();
    for (unsigned i = 0; i < 6; i++) {
        world_add(w, 4);
        world_run(w);
    }
    assert_status(world_set_term(w, TERM, 0), ST_OK);
    w->fs->calls = 0;
    return w;
}

static enum status receive(struct world *w, struct bytes raw, struct rlog_snap_writer **ret)
{
    struct rlog_snapshot_meta meta;
    TRY(rlog_snap_receive_create(w->disk, ret));
    enum status st = ST_OK;
    for (size_t at = 0; at < raw.len && st == ST_OK; at += 3000)
        st =
            rlog_snap_receive_write(*ret, bytes_of(raw.data + at, MIN((size_t)3000, raw.len - at)));
    if (st == ST_OK)
        st = rlog_snap_receive_verify(*ret, &meta);
    if (st == ST_OK) {
        assert_int_equal(meta.index, AT);
        assert_int_equal(meta.term, TERM);
        assert_int_equal(meta.conf_len, 2);
        return ST_OK;
    }
    rlog_snap_abort(*ret);
    return st;
}

static enum status install(struct world *w)
{
    struct rlog_snap_writer *s = NULL;
    TRY(receive(w, file, &s));
    return rlog_snap_receive_install(s);
}

/* Either the old state, whole, or the snapshot with an empty log behind it. */
static bool is_installed(struct world *w)
{
    if (w->loaded.corrupt)
        fail_msg("corrupt: %s", w->loaded.reason.text);
    if (w->loaded.snapshot.index == 0) {
        world_check(w);
        return false;
    }
    assert_int_equal(w->loaded.snapshot.index, AT);
    assert_int_equal(w->loaded.first, AT + 1);
    assert_int_equal(w->loaded.prev_term, TERM);
    assert_int_equal(w->loaded.n, 0);
    return true;
}

/* From here on the model continues behind the snapshot. */
static void model_install(struct world *w)
{
    world_states_drop(w, 1);
    w->states[0].last = AT;
    w->states[0].entries[AT] = (struct model_entry){TERM, 0};
    w->issued = w->written = 0;
}

static void go_on(struct world *w)
{
    if (is_installed(w))
        model_install(w);
    world_add(w, 5);
    world_run(w);
    world_reopen(w);
    assert_false(w->loaded.reset);
}

static void an_installed_snapshot_begins_the_log_anew(void **ctx)
{
    (void)ctx;
    struct world *w = world_behind();
    assert_status(install(w), ST_OK);
    model_install(w);
    uint64_t seq = rlog_disk_append(w->disk, AT + 1, NULL, 0); /* numbers go on */
    rlog_disk_write(w->disk);
    w->issued = seq;
    world_run(w);
    assert_int_equal(w->written, seq);
    world_close(w);
    assert_status(world_try_open(w), ST_OK);
    assert_true(is_installed(w));
    go_on(w);
    world_free(w);
}

static void writes_queued_before_an_install_are_void(void **ctx)
{
    (void)ctx;
    struct world *w = world_behind();
    world_add(w, 3);
    world_add(w, 3);
    assert_status(install(w), ST_OK);
    world_run(w);
    assert_int_equal(w->written, w->issued);
    world_close(w);
    assert_status(world_try_open(w), ST_OK);
    assert_true(is_installed(w));
    go_on(w);
    world_free(w);
}

static void an_install_may_be_cut_at_any_call(void **ctx)
{
    unsigned installed = 0, reset = 0, kept = 0;
    (void)ctx;
    for (uint64_t n = 1;; n++) {
        bool ended = false;
        for (uint64_t seed = 0; seed < 6; seed++) {
            struct world *w = world_behind();
            w->fs->crash_at = n;
            enum status st = install(w);
            ended = !w->fs->dead;
            assert_true(ended == (st == ST_OK));
            if (seed == 0 && !ended) { /* killed by itself: what was done stays visible */
                world_close(w);
                memfs_exit(w->fs);
            } else {
                world_crash(w, n * 100 + seed);
            }
            assert_status(world_try_open(w), ST_OK);
            reset += w->loaded.reset;
            bool is = is_installed(w);
            assert_true(is || !ended);
            installed += is;
            kept += !is;
            go_on(w);
            world_free(w);
        }
        if (ended)
            break;
    }
    assert_true(installed > 5 && kept > 5 && reset > 0);
}

static void the_end_of_an_install_may_be_cut_again(void **ctx)
{
    (void)ctx;
    for (uint64_t n = 8;; n++) {
        bool ended = false, opened = false;
        for (uint64_t m = 1; !opened; m++) {
            struct world *w = world_behind();
            w->fs->crash_at = n;
            ended = install(w) == ST_OK;
            world_crash(w, n);
            w->fs->crash_at = m;
            enum status st = world_try_open(w);
            opened = !w->fs->dead;
            if (st == ST_OK)
                (void)is_installed(w);
            world_crash(w, m);
            assert_status(world_try_open(w), ST_OK);
            go_on(w);
            world_free(w);
        }
        if (ended)
            break;
    }
}

static void an_install_may_fail_at_any_call(void **ctx)
{
    (void)ctx;
    for (uint64_t n = 1;; n++) {
        struct world *w = world_behind();
        w->fs->fail_at = n;
        enum status st = install(w);
        bool ended = w->fs->calls < n;
        assert_true(st == ST_OK || !ended);
        world_close(w);
        memfs_exit(w->fs);
        assert_status(world_try_open(w), ST_OK);
        go_on(w);
        world_free(w);
        if (ended)
            break;
    }
}

static void nothing_is_written_after_a_failed_install(void **ctx)
{
    (void)ctx;
    struct world *w = world_behind();
    struct rlog_snap_writer *s = NULL;
    assert_status(receive(w, file, &s), ST_OK);
    w->fs->fail_at = w->fs->calls + 1;
    assert_status(rlog_snap_receive_install(s), ST_IO);
    world_add(w, 1);
    world_run(w);
    assert_int_equal(w->fatals, 1);
    assert_true(w->written < w->issued);
    world_free(w);
}

static void a_damaged_transfer_is_refused_and_leaves_nothing(void **ctx)
{
    static uint8_t bad[sizeof file_buf];
    (void)ctx;
    struct world *w = world_behind();
    struct rlog_snap_writer *s = NULL;
    for (size_t off = 0; off <= file.len; off += 5) {
        memcpy(bad, file.data, file.len);
        bad[off < file.len ? off : 0] ^= (uint8_t)(1U << off % 8);
        assert_status(receive(w, bytes_of(bad, file.len), &s), ST_CORRUPT);
        assert_status(receive(w, bytes_of(file.data, off < file.len ? off : 0), &s), ST_CORRUPT);
        assert_status(fs_sync_dir(&w->fs->fs, "d/snap"), ST_OK);
    }
    for (unsigned i = 0; i < w->fs->now.n; i++)
        assert_null(strstr(w->fs->now.all[i].path, "snap/"));
    world_free(w);
}

/* The received file rots between its rename and the reset of the log: the state before is whole. */
static void a_damaged_file_of_a_cut_install_is_dropped(void **ctx)
{
    static const char path[] = "d/snap/0000000000000064-0000000000000003.snap";
    unsigned seen = 0;
    (void)ctx;
    for (uint64_t n = 1; n < 60; n++) {
        struct world *w = world_behind();
        w->fs->crash_at = n;
        bool ended = install(w) == ST_OK;
        world_close(w);
        memfs_exit(w->fs);
        bool named = memfs_inode(w->fs, path) != NULL;
        bool begun = memfs_inode(w->fs, "d/install") != NULL;
        if (named)
            memfs_flip(w->fs, path, 4200, 1);
        assert_status(world_try_open(w), ST_OK);
        assert_true(!w->loaded.corrupt || named);
        if (named && begun && !w->loaded.corrupt) {
            world_check(w);
            world_reopen(w);
            assert_null(memfs_inode(w->fs, path));
            seen++;
        }
        world_free(w);
        if (ended)
            break;
    }
    assert_true(seen > 0);
}

static void an_install_without_memory_fails_cleanly(void **ctx)
{
    (void)ctx;
    for (uint64_t n = 1;; n++) {
        struct world *w = world_behind();
        (void)mem_fail_nth(n);
        enum status st = install(w);
        bool used = mem_fail_nth(0);
        assert_true(used == (st == ST_NOMEM));
        world_close(w);
        assert_status(world_try_open(w), ST_OK);
        go_on(w);
        world_free(w);
        if (!used)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_installed_snapshot_begins_the_log_anew),
        cmocka_unit_test(writes_queued_before_an_install_are_void),
        cmocka_unit_test(an_install_may_be_cut_at_any_call),
        cmocka_unit_test(the_end_of_an_install_may_be_cut_again),
        cmocka_unit_test(an_install_may_fail_at_any_call),
        cmocka_unit_test(nothing_is_written_after_a_failed_install),
        cmocka_unit_test(a_damaged_transfer_is_refused_and_leaves_nothing),
        cmocka_unit_test(a_damaged_file_of_a_cut_install_is_dropped),
        cmocka_unit_test(an_install_without_memory_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, group_setup, NULL);
}
