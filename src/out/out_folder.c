/* A folder of authorities: the certificates of all files in it, whatever their names. libcurl and
 * OpenSSL read only files that `openssl rehash` has named. */
#include "crypto/cert.h"
#include "out/out_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILES_MAX = 1024,
    FILE_BYTES_MAX = 256 * 1024, /* a longer file is left out: it is no file of certificates */
    TOTAL_BYTES_MAX = 4 * 1024 * 1024,
};

#define BEGINS "-----BEGIN CERTIFICATE-----"
#define ENDS "-----END CERTIFICATE-----"

/* Append the certificates of a file's text. Keys and other blocks are left out, and so is a
 * malformed certificate: libcurl would refuse all of them. */
static void add_certificates(struct bytes text, struct buf *out)
{
    const uint8_t *begin, *end;
    while (text.len != 0 && (begin = memmem(text.data, text.len, BEGINS, strlen(BEGINS))) != NULL) {
        text = bytes_from(text, (size_t)(begin - text.data));
        end = memmem(text.data, text.len, ENDS, strlen(ENDS));
        if (end == NULL)
            return;
        size_t len = (size_t)(end - begin) + strlen(ENDS);
        uint8_t fingerprint[32];
        if (cert_fingerprint(bytes_of(begin, len), fingerprint) == ST_OK) {
            buf_add(out, bytes_of(begin, len));
            buf_add_u8(out, '\n');
        }
        text = bytes_from(text, len);
    }
}

/* A file that cannot be read is left out, as OpenSSL leaves it out. A link leads to a file: the
 * system's folders consist of links. ST_NOMEM. */
static enum status add_file(int folder, const char *name, struct buf *out)
{
    ASSERT(name[0] != '\0');
    CLEANUP(buf_done) struct buf text = {0};
    uint8_t piece[4096];
    struct stat about;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return ST_OK;
    bool fits = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size <= FILE_BYTES_MAX;
    ssize_t n = 0;
    while (fits && text.len <= FILE_BYTES_MAX && (n = read(fd, piece, sizeof piece)) > 0)
        buf_add(&text, bytes_of(piece, (size_t)n));
    (void)close(fd); /* nothing was written */
    TRY(buf_status(&text));
    if (fits && n == 0)
        add_certificates(buf_bytes(&text), out);
    return buf_status(out);
}

enum status out_folder_read(const char *path, struct buf *out, struct reason *reason)
{
    const struct dirent *entry;
    enum status st = ST_OK;
    unsigned files = 0;
    size_t before = out->len;
    DIR *folder = opendir(path);
    ASSERT(path[0] != '\0');
    if (folder == NULL) {
        reason_set(reason, "the folder of authorities %.150s cannot be read", path);
        return ST_INVALID;
    }
    while (st == ST_OK && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        if (++files > FILES_MAX || out->len > TOTAL_BYTES_MAX) {
            reason_set(reason, "the folder of authorities %.150s has more than %d files or %d MiB",
                       path, FILES_MAX, TOTAL_BYTES_MAX >> 20);
            st = ST_INVALID;
        } else {
            st = add_file(dirfd(folder), entry->d_name, out);
        }
    }
    (void)closedir(folder); /* nothing was written */
    if (st == ST_OK && out->len == before) {
        reason_set(reason, "the folder of authorities %.150s has no certificate in PEM form", path);
        st = ST_INVALID;
    }
    return st;
}

enum status out_folder_file(const char *path, struct buf *out, struct reason *reason)
{
    size_t before = out->len;
    TRY(add_file(AT_FDCWD, path, out));
    if (out->len != before)
        return ST_OK;
    reason_set(reason, "the file of authorities %.150s cannot be read, or has no certificate",
               path);
    return ST_INVALID;
}
