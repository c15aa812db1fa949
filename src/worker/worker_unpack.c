/* inflate -> blocks of 512 bytes -> headers and content. Nothing is sought: each block is read
 * once, and counted before it is used. */
#include "worker/worker_unpack.h"

#include "base/mem.h"
#include "client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { BLOCK = 512, OUT_BYTES = 64 * 1024, WINDOW_GZIP = 15 + 16 };

struct unpack {
    z_stream z;
    const struct unpack_limits *limits;
    struct reason *why;
    uint8_t *out;    /* OUT_BYTES: inflated, not yet used */
    size_t from, to; /* of `out` */
    uint64_t bytes;  /* inflated so far */
    uint32_t entries;
    bool ended; /* the last member of the gzip file has ended */
    int dir;
    struct buf long_name; /* of the next entry, from pax or GNU records */
    bool has_size;
    uint64_t size; /* of the next entry, from a pax record */
};

struct entry {
    char name[UNPACK_NAME_MAX + 1];
    char type;
    uint64_t size;
    bool executable;
};

static enum status bad(const struct unpack *u, const char *what)
{
    reason_set(u->why, "the configuration archive is malformed: %s", what);
    return ST_INVALID;
}

static enum status refuse(const struct unpack *u, const struct entry *e, const char *what)
{
    reason_set(u->why, "the configuration archive has %s: %.160s", what, e->name);
    return ST_INVALID;
}

static enum status io_failed(const struct unpack *u, const char *name)
{
    enum status st = status_from_errno(errno);
    reason_set(u->why, "unpacking %.160s: %s", name, strerror(errno));
    return st;
}

/* Bytes */

static enum status inflate_more(struct unpack *u)
{
    u->from = u->to = 0;
    u->z.next_out = u->out;
    u->z.avail_out = OUT_BYTES;
    while (u->z.avail_out == OUT_BYTES && !u->ended) {
        int rc = inflate(&u->z, Z_NO_FLUSH);
        if (rc == Z_STREAM_END && u->z.avail_in == 0)
            u->ended = true;
        else if (rc == Z_STREAM_END && inflateReset(&u->z) != Z_OK)
            return ST_INTERNAL;
        else if (rc == Z_MEM_ERROR)
            return ST_NOMEM;
        else if (rc != Z_OK && rc != Z_STREAM_END)
            return bad(u, u->z.avail_in == 0 ? "it ends too early" : "not gzip");
    }
    u->to = OUT_BYTES - u->z.avail_out;
    u->bytes += u->to;
    if (u->bytes <= u->limits->bytes_max)
        return ST_OK;
    reason_set(u->why, "the configuration has more than %llu bytes unpacked",
               (unsigned long long)u->limits->bytes_max);
    return ST_TOO_BIG;
}

/* The next bytes, 1 to `max` of them; none at the end. They are valid until the next call. */
static enum status next_part(struct unpack *u, size_t max, struct bytes *ret_part)
{
    if (u->from == u->to && !u->ended)
        TRY(inflate_more(u));
    size_t n = MIN(u->to - u->from, max);
    *ret_part = bytes_of(u->out + u->from, n);
    u->from += n;
    return ST_OK;
}

/* ST_NOT_FOUND: the archive ends before the first byte. */
static enum status tar_block(struct unpack *u, uint8_t block[BLOCK])
{
    for (size_t have = 0; have < BLOCK;) {
        struct bytes part;
        TRY(next_part(u, BLOCK - have, &part));
        if (part.len == 0)
            return have == 0 ? ST_NOT_FOUND : bad(u, "it ends too early");
        memcpy(block + have, part.data, part.len);
        have += part.len;
    }
    return ST_OK;
}

/* Pass `size` bytes and the padding behind them to a file, a buffer, or nothing. */
static enum status read_content(struct unpack *u, uint64_t size, int fd, struct buf *to)
{
    uint64_t padding = (BLOCK - size % BLOCK) % BLOCK;
    for (uint64_t left = size + padding; left != 0;) {
        struct bytes part;
        TRY(next_part(u, (size_t)MIN(left, (uint64_t)OUT_BYTES), &part));
        if (part.len == 0)
            return bad(u, "it ends too early");
        uint64_t content = left > padding ? left - padding : 0;
        struct bytes use = bytes_of(part.data, (size_t)MIN(content, (uint64_t)part.len));
        if (fd >= 0)
            TRY(client_write_all(fd, use));
        if (to != NULL)
            buf_add(to, use);
        left -= part.len;
    }
    return to != NULL ? buf_status(to) : ST_OK;
}

/* Headers (POSIX.1-2001, pax, "ustar Interchange Format") */

/* A number in octal, or in base 256 as GNU tar writes large ones. */
static enum status tar_number(const struct unpack *u, const uint8_t *at, size_t len,
                              uint64_t *ret_n)
{
    uint64_t n = 0;
    size_t i = 0;
    if (at[0] & 0x80) {
        n = at[0] & 0x7f;
        for (i = 1; i < len; i++) {
            if (n >> 55 != 0)
                return bad(u, "a number is too large");
            n = n << 8 | at[i];
        }
        *ret_n = n;
        return ST_OK;
    }
    while (i < len && at[i] == ' ')
        i++;
    for (; i < len && at[i] >= '0' && at[i] <= '7'; i++)
        n = n << 3 | (uint64_t)(at[i] - '0');
    for (; i < len; i++)
        if (at[i] != ' ' && at[i] != '\0')
            return bad(u, "a number is no octal number");
    *ret_n = n;
    return ST_OK;
}

static bool is_zero(const uint8_t block[BLOCK])
{
    for (size_t i = 0; i < BLOCK; i++)
        if (block[i] != 0)
            return false;
    return true;
}

static enum status check_sum(const struct unpack *u, const uint8_t block[BLOCK])
{
    uint64_t sum = 0, said;
    TRY(tar_number(u, block + 148, 8, &said));
    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? (uint64_t)' ' : block[i];
    return sum == said ? ST_OK : bad(u, "a header has another checksum");
}

/* The name: of a record before, else of the header, behind its prefix. */
static enum status read_name(struct unpack *u, const uint8_t block[BLOCK], struct entry *e)
{
    const char *name = (const char *)block, *prefix = (const char *)block + 345;
    bool ustar = memcmp(block + 257, "ustar\0", 6) == 0;
    if (u->long_name.len != 0) {
        if (u->long_name.len > UNPACK_NAME_MAX)
            return bad(u, "a name is too long");
        memcpy(e->name, u->long_name.data, u->long_name.len);
        e->name[u->long_name.len] = '\0';
        buf_clear(&u->long_name);
        return ST_OK;
    }
    int prefix_len = ustar ? (int)strnlen(prefix, 155) : 0;
    (void)snprintf(e->name, sizeof e->name, "%.*s%s%.*s", prefix_len, prefix, /* 256 at most */
                   prefix_len != 0 ? "/" : "", (int)strnlen(name, 100), name);
    return ST_OK;
}

static enum status read_header(struct unpack *u, const uint8_t block[BLOCK], struct entry *e)
{
    uint64_t mode;
    TRY(check_sum(u, block));
    TRY(tar_number(u, block + 100, 8, &mode));
    TRY(tar_number(u, block + 124, 12, &e->size));
    e->executable = (mode & 0100) != 0;
    e->type = (char)block[156];
    return ST_OK;
}

/* Records "LENGTH KEY=VALUE\n". Only path and size matter. */
static enum status read_pax(struct unpack *u, struct bytes text)
{
    while (text.len != 0) {
        const uint8_t *space = memchr(text.data, ' ', MIN(text.len, (size_t)8));
        int64_t len = 0;
        if (space == NULL ||
            text_int_parse(bytes_of(text.data, (size_t)(space - text.data)), &len) != ST_OK)
            return bad(u, "a pax record");
        size_t head = (size_t)(space - text.data) + 1;
        if (len <= (int64_t)head || (uint64_t)len > text.len || text.data[len - 1] != '\n')
            return bad(u, "a pax record");
        struct bytes record = bytes_of(text.data + head, (size_t)len - head - 1);
        text = bytes_from(text, (size_t)len);
        if (bytes_has_prefix(record, BYTES("path="))) {
            buf_clear(&u->long_name);
            buf_add(&u->long_name, bytes_from(record, 5));
        } else if (bytes_has_prefix(record, BYTES("size="))) {
            int64_t size;
            if (text_int_parse(bytes_from(record, 5), &size) != ST_OK || size < 0)
                return bad(u, "a pax record");
            u->size = (uint64_t)size;
            u->has_size = true;
        } else if (bytes_has_prefix(record, BYTES("GNU.sparse."))) {
            return bad(u, "sparse files are refused");
        }
    }
    return buf_status(&u->long_name);
}

/* A header that describes the next one: pax records, or a long name of GNU tar. */
static enum status read_extension(struct unpack *u, const struct entry *e)
{
    CLEANUP(buf_done) struct buf text = {0};
    if (e->size > UNPACK_RECORD_MAX)
        return bad(u, "a record is too long");
    TRY(read_content(u, e->size, -1, &text));
    if (e->type == 'g')
        return ST_OK; /* comments of git; names of all entries are nonsense */
    if (e->type == 'x')
        return read_pax(u, buf_bytes(&text));
    buf_clear(&u->long_name);
    buf_add(&u->long_name, bytes_of(text.data, strnlen((const char *)text.data, text.len)));
    return buf_status(&u->long_name);
}

/* Names and folders */

enum status worker_path_check(const char *path, struct reason *why)
{
    unsigned depth = 0;
    size_t len = strlen(path);
    const char *wrong = len > UNPACK_NAME_MAX ? "is too long"
                        : path[0] == '/'      ? "is absolute"
                                              : NULL;
    for (const char *c = path; *c != '\0' && wrong == NULL; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            wrong = "has a control character";
    for (const char *part = path; *part != '\0' && wrong == NULL;) {
        size_t n = strcspn(part, "/");
        if (n == 2 && part[0] == '.' && part[1] == '.')
            wrong = "has \"..\"";
        else if (n > 255)
            wrong = "has a part that is too long";
        else if (++depth > UNPACK_DEPTH_MAX)
            wrong = "is too deep";
        part += n + (part[n] == '/');
    }
    if (wrong == NULL)
        return ST_OK;
    reason_set(why, "%.160s", wrong);
    return ST_INVALID;
}

/* The folder that holds the entry, made if it is missing; `*ret_last` is the entry's own name, ""
 * if the path is that of the folder itself. */
static enum status open_parent(const struct unpack *u, const char *path, int *ret_fd,
                               char ret_last[256])
{
    int at = fcntl(u->dir, F_DUPFD_CLOEXEC, 3);
    ret_last[0] = '\0';
    while (at >= 0 && *path != '\0') {
        size_t n = strcspn(path, "/");
        bool skip = n == 0 || (n == 1 && path[0] == '.');
        if (!skip && ret_last[0] != '\0') {
            if (mkdirat(at, ret_last, 0700) != 0 && errno != EEXIST)
                break;
            int next = openat(at, ret_last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (next < 0)
                break;
            (void)close(at); /* a folder that was only looked into */
            at = next;
        }
        if (!skip)
            (void)snprintf(ret_last, 256, "%.*s", (int)n, path); /* at most 255 */
        path += n + (path[n] == '/');
    }
    if (at < 0 || *path != '\0') {
        enum status st = io_failed(u, path);
        if (at >= 0)
            (void)close(at); /* a folder that was only looked into */
        return st;
    }
    *ret_fd = at;
    return ST_OK;
}

static enum status unpack_folder(const struct unpack *u, const struct entry *e, int parent,
                                 const char *last)
{
    struct stat found;
    if (last[0] == '\0' || mkdirat(parent, last, 0700) == 0)
        return ST_OK;
    if (errno != EEXIST || fstatat(parent, last, &found, AT_SYMLINK_NOFOLLOW) != 0)
        return io_failed(u, e->name);
    return S_ISDIR(found.st_mode) ? ST_OK : refuse(u, e, "a name twice");
}

static enum status unpack_file(struct unpack *u, const struct entry *e, int parent,
                               const char *last)
{
    if (last[0] == '\0')
        return refuse(u, e, "a file without a name");
    int fd = openat(parent, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    e->executable ? 0700 : 0600);
    if (fd < 0)
        return errno == EEXIST ? refuse(u, e, "a name twice") : io_failed(u, e->name);
    enum status st = read_content(u, e->size, fd, NULL);
    if (st != ST_OK && u->why->text[0] == '\0')
        reason_set(u->why, "unpacking %.160s: %s", e->name, status_text(st));
    if (close(fd) != 0 && st == ST_OK)
        st = io_failed(u, e->name);
    return st;
}

/* The fault of an entry's kind; NULL: the entry may be unpacked. */
static const char *kind_refused(char type)
{
    switch (type) {
    case '\0':
    case '0':
    case '7':
    case '5': return NULL;
    case '1':
    case '2': return "a link, which is refused";
    case '3':
    case '4': return "a device, which is refused";
    case '6': return "a pipe, which is refused";
    default: return "an entry of an unknown kind";
    }
}

static enum status unpack_entry(struct unpack *u, const uint8_t block[BLOCK], struct entry *e)
{
    struct reason wrong = {{0}};
    char last[256], text[288];
    int parent = -1;
    TRY(read_name(u, block, e));
    if (u->has_size)
        e->size = u->size;
    u->has_size = false;
    if (kind_refused(e->type) != NULL)
        return refuse(u, e, kind_refused(e->type));
    if (worker_path_check(e->name, &wrong) != ST_OK) {
        (void)snprintf(text, sizeof text, "a name that %.200s", wrong.text); /* short texts */
        for (char *c = e->name; *c != '\0'; c++)
            if ((unsigned char)*c < ' ' || *c == 0x7f)
                *c = '?'; /* the reason goes to a log */
        return refuse(u, e, text);
    }
    size_t len = strlen(e->name);
    bool folder = e->type == '5' || (e->type == '\0' && len != 0 && e->name[len - 1] == '/');
    TRY(open_parent(u, e->name, &parent, last));
    enum status st = folder ? unpack_folder(u, e, parent, last) : unpack_file(u, e, parent, last);
    (void)close(parent); /* a folder that was only looked into */
    return st == ST_OK && folder ? read_content(u, e->size, -1, NULL) : st;
}

/* Read what is behind the entries, so that the checksum of gzip is compared too. */
static enum status read_rest(struct unpack *u)
{
    struct bytes part = BYTES("more");
    while (part.len != 0)
        TRY(next_part(u, OUT_BYTES, &part));
    return ST_OK;
}

static enum status unpack_all(struct unpack *u)
{
    uint8_t block[BLOCK];
    for (;;) {
        struct entry e = {.name = ""};
        enum status st = tar_block(u, block);
        if (st == ST_NOT_FOUND && u->entries != 0)
            return ST_OK; /* writers exist that leave out the zero blocks */
        if (st == ST_NOT_FOUND)
            return bad(u, "it is empty");
        TRY(st);
        if (is_zero(block))
            return read_rest(u);
        if (++u->entries > u->limits->entries_max) {
            reason_set(u->why, "the configuration has more than %u entries",
                       (unsigned)u->limits->entries_max);
            return ST_TOO_BIG;
        }
        TRY(read_header(u, block, &e));
        bool extends = e.type == 'x' || e.type == 'g' || e.type == 'L';
        TRY(extends ? read_extension(u, &e) : unpack_entry(u, block, &e));
    }
}

enum status worker_unpack(struct bytes archive, int dir, const struct unpack_limits *limits,
                          struct reason *why)
{
    struct unpack u = {.limits = limits, .why = why, .dir = dir, .out = mem_alloc(OUT_BYTES)};
    if (u.out == NULL)
        return ST_NOMEM;
    if (archive.len == 0 || archive.len > UINT32_MAX || inflateInit2(&u.z, WINDOW_GZIP) != Z_OK) {
        mem_free(u.out);
        reason_set(why, "the configuration archive is empty or too large");
        return ST_INVALID;
    }
    u.z.next_in = (Bytef *)(uintptr_t)archive.data;
    u.z.avail_in = (uInt)archive.len;
    enum status st = unpack_all(&u);
    (void)inflateEnd(&u.z); /* the stream was initialised */
    buf_done(&u.long_name);
    mem_free(u.out);
    return st;
}
