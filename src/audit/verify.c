#include "audit/verify.h"
#include "audit/chain.h"
#include "audit/record.h"
#include "text/encode.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static_assert(VERIFY_HASH_LEN == TEXT_HEX_LEN(CRYPTO_SHA256_BYTES), "a hash in hex");

enum { CHUNK = 1 << 18 };

/* A line is no longer than a record whose texts are all hidden and escaped. */
#define LINE_MAX_BYTES ((size_t)8 * AUDIT_RECORD_BYTES_MAX)

struct verify {
    struct chain_check check;
    struct audit_verdict verdict;
    bool over; /* the line behind the one that does not fit was seen, too */
};

/* Copy the value of the first member "time" of the line. */
static void put_time(struct bytes line, char ret_time[VERIFY_TIME_MAX + 1])
{
    static const char key[] = "\"time\":\"";
    const uint8_t *at = memmem(line.data, line.len, key, strlen(key));
    ret_time[0] = '\0';
    if (at == NULL)
        return;
    struct bytes rest = bytes_from(line, (size_t)(at - line.data) + strlen(key));
    const uint8_t *end = memchr(rest.data, '"', MIN(rest.len, (size_t)VERIFY_TIME_MAX + 1));
    if (end == NULL)
        return;
    size_t len = (size_t)(end - rest.data);
    ASSERT(len <= VERIFY_TIME_MAX);
    for (size_t i = 0; i < len; i++)
        if (strchr("0123456789TZ:.+-", rest.data[i]) == NULL || rest.data[i] == '\0')
            return; /* not printed: the file may come from anywhere */
    memcpy(ret_time, rest.data, len);
    ret_time[len] = '\0';
}

static void judge_line(struct verify *v, struct bytes line, bool whole)
{
    const char *wrong = chain_check_line(&v->check, line, whole);
    if (v->verdict.wrong != NULL) {
        v->verdict.goes_on = wrong == NULL;
        v->over = true;
        return;
    }
    v->verdict.line++;
    v->verdict.wrong = wrong;
    if (wrong != NULL)
        return;
    struct audit_verdict *d = &v->verdict;
    if (d->lines++ == 0) {
        d->first = v->check.first;
        put_time(line, d->begin);
    }
    ASSERT(d->lines == v->check.lines);
    d->last = v->check.last.n;
    put_time(line, d->end);
    text_hex_put(bytes_of(v->check.last.hash, sizeof v->check.last.hash), d->last_hash);
}

/* Take all whole lines at the front of `text`. */
static void take_lines(struct verify *v, struct buf *text, size_t searched)
{
    size_t from = 0;
    ASSERT(searched <= text->len);
    while (!v->over && searched < text->len) {
        const uint8_t *end = memchr(text->data + searched, '\n', text->len - searched);
        if (end == NULL)
            break;
        searched = (size_t)(end - text->data) + 1;
        judge_line(v, bytes_of(text->data + from, searched - 1 - from), true);
        from = searched;
    }
    buf_consume(text, from);
}

static enum status take_file(struct verify *v, int fd)
{
    CLEANUP(buf_done) struct buf text = {0};
    while (!v->over) {
        size_t before = text.len;
        uint8_t *at = buf_extend(&text, CHUNK);
        if (at == NULL || text.len > LINE_MAX_BYTES)
            return ST_NOMEM;
        ssize_t n = read(fd, at, CHUNK);
        text.len = before + (size_t)MAX(n, 0);
        ASSERT(text.len <= text.cap);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ST_IO;
        if (n == 0)
            break;
        take_lines(v, &text, before);
    }
    if (!v->over && text.len != 0)
        judge_line(v, buf_bytes(&text), false);
    return ST_OK;
}

static enum status take_path(struct verify *v, const char *path, struct reason *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum status st = fd >= 0 ? ST_OK : ST_IO;
    ASSERT(!v->over);
    if (v->verdict.wrong == NULL) {
        v->verdict.file = path;
        v->verdict.line = 0;
    }
    if (st == ST_OK)
        st = take_file(v, fd);
    if (st == ST_IO)
        reason_set(why, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        (void)close(fd); /* was only read */
    return st;
}

enum status audit_verify(const char *const *files, size_t n, struct audit_verdict *ret_verdict,
                         struct reason *why)
{
    struct verify v = {.over = false};
    ASSERT(n > 0);
    TRY(crypto_sha256_new(&v.check.hash));
    enum status st = ST_OK;
    for (size_t i = 0; i < n && st == ST_OK && !v.over; i++)
        st = take_path(&v, files[i], why);
    crypto_sha256_free(v.check.hash);
    ASSERT(st != ST_OK || v.verdict.file != NULL);
    if (st == ST_OK)
        *ret_verdict = v.verdict;
    return st;
}
