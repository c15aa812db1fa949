/* The certificate files of the cluster port.
 *
 * A key and its certificate are two files, and no file system replaces two files atomically. Both
 * new files are written beside the old ones; then the key is renamed, then the certificate:
 *
 *   NAME-key.pem.new and NAME.pem.new      not begun: the old pair is in use
 *   NAME.pem.new alone                     the key is new: rename the certificate too */
#include "cluster/membership/certificate/cert_files.h"

#include "base/fs.h"
#include "crypto/cert.h"
#include "crypto/tls.h"
#include "loop/loop.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

/* A path, split into its directory and the file's name. */
struct place {
    struct fs *fs;
    const char *name;
    char fresh[NAME_MAX + 1]; /* name of the new file in the same directory */
};

static void place_done(struct place *place)
{
    loop_fs_free(place->fs);
}

static enum status place_of(const char *path, struct place *ret_place, struct reason *reason)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t len = slash == NULL ? 0 : (size_t)(slash - path);
    struct place place = {.name = slash == NULL ? path : slash + 1};
    int n = snprintf(place.fresh, sizeof place.fresh, "%s.new", place.name);
    if (len >= sizeof dir || n < 0 || (size_t)n >= sizeof place.fresh) {
        reason_set(reason, "%.128s: the path is too long", path);
        return ST_INVALID;
    }
    n = snprintf(dir, sizeof dir, "%.*s", slash == NULL || len == 0 ? 1 : (int)len,
                 slash == NULL ? "." : path);
    ASSERT(n > 0 && (size_t)n < sizeof dir);
    TRY(loop_fs_new(dir, &place.fs, reason));
    *ret_place = place;
    return ST_OK;
}

static enum status write_fresh(const struct place *place, struct bytes content)
{
    struct fs_file *file = NULL;
    ASSERT(place->fresh[0] != '\0');
    ASSERT(content.len != 0);
    TRY(fs_open(place->fs, place->fresh, FS_WRITE | FS_CREATE, &file));
    enum status st = fs_set_size(file, 0);
    if (st == ST_OK)
        st = fs_write_at(file, &content, 1, 0);
    if (st == ST_OK)
        st = fs_sync(file);
    fs_close(file);
    return st;
}

static enum status take_over(const struct place *place)
{
    TRY(fs_rename(place->fs, place->fresh, place->name));
    return fs_sync_dir(place->fs, "");
}

static enum status say_file(enum status st, const char *path, struct reason *reason)
{
    if (st != ST_OK)
        reason_set(reason, "%.200s: %s", path, status_text(st));
    return st;
}

enum status cert_file_put(const char *path, struct bytes content, struct reason *reason)
{
    CLEANUP(place_done) struct place place = {0};
    TRY(place_of(path, &place, reason));
    enum status st = write_fresh(&place, content);
    if (st == ST_OK)
        st = take_over(&place);
    return say_file(st, path, reason);
}

bool cert_file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

enum status cert_files_replace(const struct member_options *o, struct bytes key, struct bytes cert,
                               struct reason *reason)
{
    CLEANUP(place_done) struct place key_place = {0}, cert_place = {0};
    ASSERT(key.len != 0);
    ASSERT(cert.len != 0);
    TRY(place_of(o->key_file, &key_place, reason));
    TRY(place_of(o->cert_file, &cert_place, reason));
    TRY(say_file(write_fresh(&key_place, key), o->key_file, reason));
    TRY(say_file(write_fresh(&cert_place, cert), o->cert_file, reason));
    TRY(say_file(fs_sync_dir(cert_place.fs, ""), o->cert_file, reason));
    TRY(say_file(take_over(&key_place), o->key_file, reason));
    return say_file(take_over(&cert_place), o->cert_file, reason);
}

static bool place_has(const struct place *place, const char *name)
{
    struct fs_file *file = NULL;
    if (fs_open(place->fs, name, FS_READ, &file) != ST_OK)
        return false;
    fs_close(file);
    return true;
}

enum status cert_files_settle(const struct member_options *o, struct reason *reason)
{
    CLEANUP(place_done) struct place key = {0}, cert = {0};
    TRY(place_of(o->key_file, &key, reason));
    TRY(place_of(o->cert_file, &cert, reason));
    if (place_has(&cert, cert.fresh) && !place_has(&key, key.fresh))
        return say_file(take_over(&cert), o->cert_file, reason);
    return ST_OK;
}

enum status cert_files_authority(const struct member_options *o, uint8_t ret_sha256[32],
                                 struct reason *reason)
{
    CLEANUP(buf_done) struct buf pem = {0};
    TRY(tls_pem_read(o->ca_file, &pem, reason));
    if (cert_fingerprint(buf_bytes(&pem), ret_sha256) != ST_OK) {
        reason_set(reason, "%s: no PEM certificate found", o->ca_file);
        return ST_INVALID;
    }
    return ST_OK;
}
