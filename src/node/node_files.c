/* The certificate files of the cluster port.
 *
 * A key and its certificate are two files, and no system replaces two at once. Both new ones are
 * written beside the old ones first; then the key takes its place, then the certificate:
 *
 *   NAME-key.pem.new and NAME.pem.new      not begun: the old pair is in use
 *   NAME.pem.new alone                     the key is the new one: the certificate follows */
#include "node/node_internal.h"

#include "base/fs.h"
#include "crypto/cert.h"
#include "crypto/tls.h"
#include "loop/loop.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

/* A path in two: the directory's files, and the name there. */
struct place {
    struct fs *fs;
    const char *name;
    char fresh[NAME_MAX + 1]; /* the new file beside it */
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
    (void)snprintf(dir, sizeof dir, "%.*s", slash == NULL || len == 0 ? 1 : (int)len,
                   slash == NULL ? "." : path); /* fits */
    TRY(loop_fs_new(dir, &place.fs, reason));
    *ret_place = place;
    return ST_OK;
}

static enum status write_fresh(const struct place *place, struct bytes content)
{
    struct fs_file *file = NULL;
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

static enum status told(enum status st, const char *path, struct reason *reason)
{
    if (st != ST_OK)
        reason_set(reason, "%.200s: %s", path, status_text(st));
    return st;
}

enum status node_file_put(const char *path, struct bytes content, struct reason *reason)
{
    CLEANUP(place_done) struct place place = {0};
    TRY(place_of(path, &place, reason));
    enum status st = write_fresh(&place, content);
    if (st == ST_OK)
        st = take_over(&place);
    return told(st, path, reason);
}

bool node_file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

enum status node_files_replace(struct node *n, struct bytes key, struct bytes cert,
                               struct reason *reason)
{
    CLEANUP(place_done) struct place key_place = {0}, cert_place = {0};
    TRY(place_of(n->options.key_file, &key_place, reason));
    TRY(place_of(n->options.cert_file, &cert_place, reason));
    TRY(told(write_fresh(&key_place, key), n->options.key_file, reason));
    TRY(told(write_fresh(&cert_place, cert), n->options.cert_file, reason));
    TRY(told(fs_sync_dir(cert_place.fs, ""), n->options.cert_file, reason));
    TRY(told(take_over(&key_place), n->options.key_file, reason));
    return told(take_over(&cert_place), n->options.cert_file, reason);
}

static bool has(const struct place *place, const char *name)
{
    struct fs_file *file = NULL;
    if (fs_open(place->fs, name, FS_READ, &file) != ST_OK)
        return false;
    fs_close(file);
    return true;
}

enum status node_files_settle(struct node *n, struct reason *reason)
{
    CLEANUP(place_done) struct place key = {0}, cert = {0};
    TRY(place_of(n->options.key_file, &key, reason));
    TRY(place_of(n->options.cert_file, &cert, reason));
    if (has(&cert, cert.fresh) && !has(&key, key.fresh))
        return told(take_over(&cert), n->options.cert_file, reason);
    return ST_OK;
}

enum status node_files_authority(struct node *n, struct reason *reason)
{
    CLEANUP(buf_done) struct buf pem = {0};
    uint8_t hash[sizeof n->status.ca_sha256];
    TRY(tls_pem_read(n->options.ca_file, &pem, reason));
    if (cert_fingerprint(buf_bytes(&pem), hash) != ST_OK) {
        reason_set(reason, "%s: no PEM certificate found", n->options.ca_file);
        return ST_INVALID;
    }
    pthread_mutex_lock(&n->lock);
    memcpy(n->status.ca_sha256, hash, sizeof hash);
    pthread_mutex_unlock(&n->lock);
    return ST_OK;
}
