#include "client/client.h"

#include "text/hcl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum status client_read_file(const char *path, size_t max, struct buf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return status_from_errno(errno);
    enum status st = ST_OK;
    size_t before = out->len;
    for (ssize_t n = 1; n != 0 && st == ST_OK;) {
        char part[16 * 1024];
        n = read(fd, part, sizeof part);
        if (n < 0 && errno == EINTR)
            continue;
        if (n > 0)
            buf_add(out, bytes_of(part, (size_t)n));
        st = n < 0 ? ST_IO : out->len - before > max ? ST_TOO_BIG : buf_status(out);
    }
    (void)close(fd); /* the file was only read */
    return st;
}

enum status client_write_all(int fd, struct bytes text)
{
    while (text.len != 0) {
        ssize_t n = write(fd, text.data, text.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? status_from_errno(errno) : ST_IO;
        text = bytes_from(text, (size_t)n);
    }
    return ST_OK;
}

/* Make the new name of a file durable. */
static enum status sync_folder(const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    int n = slash == NULL ? snprintf(folder, sizeof folder, ".")
                          : snprintf(folder, sizeof folder, "%.*s/", (int)(slash - path), path);
    int fd =
        n > 0 && (size_t)n < sizeof folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0)
        return ST_IO;
    enum status st = fsync(fd) == 0 ? ST_OK : status_from_errno(errno);
    (void)close(fd); /* nothing was written through it */
    return st;
}

enum status client_write_file(const char *path, struct bytes text)
{
    char next[4096];
    int n = snprintf(next, sizeof next, "%s.new", path);
    if (n < 0 || (size_t)n >= sizeof next)
        return ST_INVALID;
    int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return status_from_errno(errno);
    enum status st = client_write_all(fd, text);
    if (st == ST_OK && fsync(fd) != 0)
        st = status_from_errno(errno);
    if (close(fd) != 0 && st == ST_OK)
        st = status_from_errno(errno);
    if (st == ST_OK && rename(next, path) != 0)
        st = status_from_errno(errno);
    if (st == ST_OK)
        return sync_folder(path);
    (void)unlink(next); /* a later write replaces what stays */
    return st;
}

void client_trim(struct buf *text)
{
    while (text->len > 0 && text->data[text->len - 1] <= ' ')
        text->len--;
}

enum status client_load_config(const char *path, const struct schema *schema, struct arena *arena,
                               void *ret_config, struct reason *why)
{
    CLEANUP(buf_done) struct buf text = {0};
    const struct text_value *root;
    struct schema_fault fault = {.field = ""};
    enum status st = client_read_file(path, CLIENT_FILE_MAX, &text);
    if (st != ST_OK) {
        reason_set(why, "%s: %s", path, status_text(st));
        return st;
    }
    TRY(text_hcl_parse(arena, buf_bytes(&text), &root, why));
    st = schema_decode(schema, root, arena, ret_config, &fault);
    const struct text_value *unknown = schema_unknown(schema, root, NULL);
    if (st == ST_OK && unknown != NULL) {
        reason_set(why, "line %u: %.*s is no field", unknown->line, (int)unknown->name.len,
                   (const char *)unknown->name.data);
        return ST_INVALID;
    }
    if (st != ST_OK)
        reason_set(why, "line %u: %s: %s", fault.line, fault.field, fault.why.text);
    return st;
}
