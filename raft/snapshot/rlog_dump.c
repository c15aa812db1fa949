/* Explains a replica's directory, or one snapshot file, as text. Locks and changes nothing. Reports
 * damage, and shows as much as possible around it. */
#include "base/mem.h"
#include "raft/disk/rlog_disk_found.h"
#include "raft/snapshot/rlog_archive.h"
#include "raft/snapshot/rlog_snap_format.h"
#include "raft/txn/rlog_describe.h"

#include <stdarg.h>

enum { LINE_BYTES = 512, HEX_BYTES = 33, SNAPSHOT_LINES_MAX = 100000 };

struct dump {
    struct rlog_disk *disk;
    void (*line)(void *ctx, const char *text);
    void *ctx;
};

static void say(const struct dump *d, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void say(const struct dump *d, const char *format, ...)
{
    char text[LINE_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args); /* a line that is too long is cut */
    va_end(args);
    /* replace odd bytes: a name in a damaged file may hold anything */
    for (char *c = text; *c != '\0'; c++)
        if (*c < 0x20 || *c > 0x7E)
            *c = '?';
    d->line(d->ctx, text);
}

/* Two blocks, zeros where the file is short. False when there is no file to read. */
static bool read_copies(struct dump *d, const char *name, uint8_t copies[2 * SMALL_BLOCK])
{
    char path[DISK_PATH_MAX];
    uint8_t *data = NULL;
    size_t n = 0;
    disk_path(d->disk, path, "%s", name);
    memset(copies, 0, 2 * SMALL_BLOCK);
    enum status st = file_read(d->disk->fs, path, 2 * SMALL_BLOCK, &data, &n);
    if (st != ST_OK) {
        if (st != ST_NOT_FOUND || strcmp(name, "install") != 0)
            say(d, "%s: %s", name, status_text(st));
        return false;
    }
    memcpy(copies, data, n);
    mem_free(data);
    return true;
}

static void dump_identity(struct dump *d)
{
    uint8_t copies[2 * SMALL_BLOCK];
    struct rlog_identity id;
    char hex[HEX_BYTES];
    if (!read_copies(d, "identity", copies))
        return;
    for (int i = 0; i < 2; i++) {
        if (!identity_decode(copies + i * SMALL_BLOCK, &id)) {
            say(d, "identity: copy %d is damaged", i + 1);
            continue;
        }
        d->disk->identity = id;
        for (int b = 0; b < 16; b++)
            /* cannot be cut: the text has 33 bytes */
            (void)snprintf(hex + 2 * b, 3, "%02x", id.cluster[b]);
        say(d, "identity: copy %d: node %s, raft id %llu, cluster %s", i + 1, id.name,
            (unsigned long long)id.id, hex);
    }
}

/* Without an identity the raft id is what a segment claims; its checksums then prove the claim. */
static enum status guess_id(void *ctx, const char *name)
{
    struct dump *d = ctx;
    char path[DISK_PATH_MAX];
    uint8_t *sector = NULL;
    size_t n = 0;
    uint64_t number;
    struct segment_header h;
    if (!segment_name_parse(name, &number) || d->disk->identity.id != 0)
        return ST_OK;
    segment_path(d->disk, number, path);
    TRY(file_read(d->disk->fs, path, SECTOR, &sector, &n));
    if (n == SECTOR && segment_header_read(sector, &h) == ST_OK &&
        sector_read(sector, segment_salt(h.id, number), 0).state == SECTOR_WHOLE) {
        d->disk->identity.id = h.id;
        say(d, "log/%s says it is of raft id %llu", name, (unsigned long long)h.id);
    }
    mem_free(sector);
    return ST_OK;
}

static void dump_vote_file(struct dump *d)
{
    uint8_t copies[2 * SMALL_BLOCK];
    struct vote_record r;
    struct install_record in;
    if (read_copies(d, "slot", copies))
        for (int i = 0; i < 2; i++) {
            if (vote_file_decode(copies + i * SMALL_BLOCK, d->disk->identity.id, &r))
                say(d, "slot: copy %d: write %llu, term %llu, vote %llu, log durable to batch %llu",
                    i + 1, (unsigned long long)r.seq, (unsigned long long)r.term,
                    (unsigned long long)r.vote, (unsigned long long)r.log_seq);
            else
                say(d, "slot: copy %d is damaged", i + 1);
        }
    if (read_copies(d, "install", copies)) {
        if (install_decode(copies, d->disk->identity.id, &in) ||
            install_decode(copies + SMALL_BLOCK, d->disk->identity.id, &in))
            say(d, "install: of a snapshot at entry %llu, term %llu, was begun",
                (unsigned long long)in.index, (unsigned long long)in.term);
        else
            say(d, "install: damaged");
    }
}

static void on_segment(void *ctx, uint64_t number, const struct segment_header *h)
{
    say(ctx,
        "log/%016llx.seg: %llu bytes, begins at entry %llu (term before it %llu) with batch %llu%s",
        (unsigned long long)number, (unsigned long long)h->size, (unsigned long long)h->start,
        (unsigned long long)h->prev_term, (unsigned long long)h->seq,
        (h->flags & SEGMENT_RESET) != 0 ? "; everything before is void" : "");
}

/* A line about what an entry or a snapshot holds, below the line about itself. */
static void say_below(void *ctx, const char *text)
{
    say(ctx, "      %s", text);
}

static void say_commands(struct dump *d, uint64_t index, struct bytes payload)
{
    const struct rlog_lines lines = {say_below, d};
    struct rlog_entry e;
    bool bad = false;
    for (; entry_next(&payload, &e, &bad); index++) {
        if (e.type != RLOG_COMMAND)
            continue;
        say(d, "    entry %llu", (unsigned long long)index);
        rlog_entry_describe(e.data, &lines);
    }
}

static void say_entries(const struct dump *d, const struct batch_found *b, uint64_t off,
                        struct bytes payload)
{
    struct rlog_entry e;
    const struct batch_header *h = &b->header;
    uint64_t changes = 0, first_term = 0, last_term = 0;
    bool bad = false;
    while (entry_next(&payload, &e, &bad)) {
        first_term = first_term == 0 ? e.term : first_term;
        last_term = e.term;
        changes += e.type == RLOG_CHANGE;
    }
    say(d, "  %8llu batch %llu: entries %llu to %llu, term %llu to %llu, %u bytes%s%s%s",
        (unsigned long long)off, (unsigned long long)h->seq, (unsigned long long)h->first,
        (unsigned long long)(h->first + h->n - 1), (unsigned long long)first_term,
        (unsigned long long)last_term, h->bytes,
        (h->flags & BATCH_TRUNCATE) != 0 ? ", replaces what was there" : "",
        changes != 0 ? ", changes the membership" : "", bad ? ", not well-formed" : "");
}

static void on_batch(void *ctx, uint64_t off, const struct batch_found *b, struct bytes payload)
{
    struct dump *d = ctx;
    const struct batch_header *h = &b->header;
    unsigned long long at = off, seq = h->seq, first = h->first;
    if (b->state != BATCH_OK)
        say(d, "  %8llu %s: %s at offset %llu", at, b->state == BATCH_TORN ? "torn" : "damaged",
            b->why, (unsigned long long)b->bad_at);
    else if ((h->flags & BATCH_MARK) != 0)
        say(d, "  %8llu batch %llu: mark%s, next entry %llu", at, seq,
            (h->flags & BATCH_CLEAN) != 0 ? " of a clean end" : "", first);
    else if (h->n == 0)
        say(d, "  %8llu batch %llu: entries from %llu on are removed", at, seq, first);
    else
        say_entries(d, b, off, payload);
    if (b->state == BATCH_OK && h->n > 0)
        say_commands(d, h->first, payload);
}

static void on_note(void *ctx, const char *text)
{
    say(ctx, "  damage: %s", text);
}

static enum status dump_snapshot_name(void *ctx, const char *name)
{
    struct dump *d = ctx;
    char path[DISK_PATH_MAX];
    struct fs_file *file = NULL;
    struct reason reason;
    struct rlog_snapshot_meta meta;
    uint64_t index, term;
    if (!snapshot_name_parse(name, &index, &term))
        return ST_OK;
    disk_path(d->disk, path, "snap/%s", name);
    TRY(fs_open(d->disk->fs, path, FS_READ, &file));
    enum status st = snap_verify(file, &meta, &reason);
    fs_close(file);
    if (st == ST_OK)
        say(d, "snap/%s: entries up to %llu, term %llu, configuration of entry %llu, %llu bytes",
            name, (unsigned long long)meta.index, (unsigned long long)meta.term,
            (unsigned long long)meta.conf_index, (unsigned long long)meta.bytes);
    else
        say(d, "snap/%s: damaged: %s", name, reason.text);
    return st == ST_CORRUPT ? ST_OK : st;
}

/* Print the result that opening the directory would have. */
static enum status dump_verdict(struct dump *d)
{
    struct log_watch watch = {.segment = on_segment, .batch = on_batch, .note = on_note, .ctx = d};
    struct rlog_loaded loaded;
    TRY(disk_examine(d->disk, &watch, &loaded));
    bool corrupt = loaded.corrupt;
    if (corrupt)
        say(d, "verdict: corrupt: %s", loaded.reason.text);
    else
        say(d, "verdict: good: term %llu, vote %llu, snapshot to %llu, log %llu to %llu%s%s%s%s",
            (unsigned long long)loaded.term, (unsigned long long)loaded.vote,
            (unsigned long long)loaded.snapshot.index, (unsigned long long)loaded.first,
            (unsigned long long)(loaded.first + loaded.n - 1),
            loaded.torn ? "; a torn write at the end will be cut" : "",
            loaded.vote_file_fell_back ? "; one copy of the vote file will be rewritten" : "",
            loaded.snapshot_fell_back ? "; the newest snapshot is damaged" : "",
            loaded.reset ? "; the log will begin anew behind the snapshot" : "");
    rlog_loaded_done(&loaded);
    return corrupt ? ST_CORRUPT : ST_OK;
}

static enum status dump_dir(struct dump *d)
{
    char path[DISK_PATH_MAX];
    disk_path(d->disk, path, "log");
    TRY(fs_list(d->disk->fs, path, guess_id, d)); /* print no guess when the identity is known */
    dump_vote_file(d);
    disk_path(d->disk, path, "snap");
    TRY(fs_list(d->disk->fs, path, dump_snapshot_name, d));
    return dump_verdict(d);
}

enum status rlog_dump_log(struct fs *fs, const char *dir, void (*line)(void *ctx, const char *text),
                          void *ctx)
{
    if (strlen(dir) == 0 || strlen(dir) >= DISK_DIR_MAX)
        return ST_INVALID;
    struct rlog_disk *disk = mem_zalloc(sizeof *disk);
    struct dump d = {.disk = disk, .line = line, .ctx = ctx};
    if (disk == NULL || pthread_mutex_init(&disk->lock, NULL) != 0) {
        mem_free(disk);
        return ST_NOMEM;
    }
    disk->fs = fs;
    disk->snapshots_kept = 1;
    memcpy(disk->dir, dir, strlen(dir) + 1);
    dump_identity(&d);
    enum status st = dump_dir(&d);
    (void)pthread_mutex_destroy(&disk->lock); /* no thread holds the lock */
    mem_free(disk);
    return st;
}

/* Lines about the content, up to a number; the rest is checked all the same. */
struct content_lines {
    const struct dump *dump;
    unsigned n;
};

static void on_content_line(void *ctx, const char *text)
{
    struct content_lines *lines = ctx;
    if (lines->n < SNAPSHOT_LINES_MAX)
        say(lines->dump, "      %s", text);
    else if (lines->n == SNAPSHOT_LINES_MAX)
        say(lines->dump, "      …");
    lines->n += lines->n <= SNAPSHOT_LINES_MAX;
}

static enum status read_chunks(const struct dump *d, struct snap_scan *scan,
                               struct rlog_content *reader)
{
    struct bytes content;
    enum status said = ST_OK; /* damage of the content is reported once, the file's goes on */
    while (!scan->ended) {
        uint64_t off = scan->off, chunk = scan->chunks;
        enum status st = snap_scan_next(scan, &content);
        if (st == ST_CORRUPT)
            say(d, "damaged: %s", scan->reason.text);
        TRY(st);
        if (scan->ended)
            break;
        say(d, "  %10llu chunk %llu: %zu bytes of content in %llu", (unsigned long long)off,
            (unsigned long long)chunk, content.len, (unsigned long long)(scan->off - off));
        st = rlog_content_piece(reader, content);
        if (st != ST_OK && said == ST_OK)
            say(d, "      content cannot be read: %s", status_text(st));
        said = st;
    }
    say(d, "whole: %llu chunks, %llu bytes of content", (unsigned long long)scan->chunks,
        (unsigned long long)scan->content);
    return ST_OK;
}

static enum status dump_chunks(const struct dump *d, struct snap_scan *scan)
{
    struct content_lines content_lines = {.dump = d};
    const struct rlog_lines lines = {on_content_line, &content_lines};
    const struct rlog_content_visit visit = rlog_content_describe(&lines);
    struct rlog_content *reader = NULL;

    TRY(rlog_content_begin(&visit, &reader));
    enum status st = read_chunks(d, scan, reader);
    enum status whole = rlog_content_end(reader);
    if (st == ST_OK && whole != ST_OK)
        say(d, "content is not whole: %s", status_text(whole));
    return st;
}

static enum status dump_scan(const struct dump *d, struct fs_file *file)
{
    struct snap_scan scan;
    enum status st = snap_scan_init(&scan, file);
    if (st == ST_CORRUPT)
        say(d, "damaged: %s", scan.reason.text);
    if (st == ST_OK) {
        const struct rlog_snapshot_meta *m = &scan.meta;
        say(d,
            "snapshot of entries up to %llu, term %llu; configuration of entry %llu, %u bytes; "
            "file of %llu bytes",
            (unsigned long long)m->index, (unsigned long long)m->term,
            (unsigned long long)m->conf_index, m->conf_len, (unsigned long long)m->bytes);
        st = dump_chunks(d, &scan);
    }
    snap_scan_done(&scan);
    return st;
}

/* An archive being read: its keys are said as they come, before the end has proved them. */
struct archive_dump {
    const struct dump *d;
    struct fs_file *file;
    uint64_t at, n_keys;
    bool brief; /* the keys are not printed */
};

static enum status archive_read(void *ctx, void *room, size_t n, size_t *ret_n)
{
    struct archive_dump *a = ctx;
    TRY(fs_read_at(a->file, room, n, a->at, ret_n));
    a->at += *ret_n;
    return ST_OK;
}

static enum status archive_key(void *ctx, const struct store_item *item)
{
    struct archive_dump *a = ctx;
    if (a->n_keys++ < SNAPSHOT_LINES_MAX && !a->brief)
        say(a->d, "  %.*s (%zu bytes), created %llu, changed %llu", (int)MIN(item->key.len, 300u),
            (const char *)item->key.data, item->value.len, (unsigned long long)item->created,
            (unsigned long long)item->modified);
    return ST_OK;
}

static enum status dump_archive(const struct dump *d, struct fs_file *file, bool brief)
{
    struct archive_dump a = {.d = d, .file = file, .brief = brief};
    const struct rlog_archive_in in = {.read = archive_read, .key = archive_key, .ctx = &a};
    struct rlog_archive_found *found = mem_zalloc(sizeof *found);
    struct reason why = {{0}};
    if (found == NULL)
        return ST_NOMEM;
    enum status st = rlog_archive_read(&in, found, &why);
    if (a.n_keys > SNAPSHOT_LINES_MAX && !brief)
        say(d, "  … and %llu keys more", (unsigned long long)(a.n_keys - SNAPSHOT_LINES_MAX));
    const struct rlog_archive_facts *f = &found->facts;
    if (f->cluster[0] != '\0')
        say(d, "archive of cluster %s: entries up to %llu, term %llu; version %llu", f->cluster,
            (unsigned long long)f->index, (unsigned long long)f->term,
            (unsigned long long)f->version);
    if (st == ST_OK)
        say(d,
            "whole: %llu keys, %llu bytes of content; only a cluster can check which root key "
            "sealed it",
            (unsigned long long)found->n_keys, (unsigned long long)found->state_bytes);
    else
        say(d, "damaged: %s", why.text[0] != '\0' ? why.text : status_text(st));
    mem_free(found);
    return st == ST_INVALID || st == ST_UNSUPPORTED ? ST_CORRUPT : st;
}

enum status rlog_dump_snapshot(struct fs *fs, const char *path,
                               void (*line)(void *ctx, const char *text), void *ctx)
{
    static const uint8_t gzip[] = {0x1F, 0x8B};
    struct dump d = {.line = line, .ctx = ctx};
    struct fs_file *file = NULL;
    uint8_t head[sizeof gzip];
    size_t n = 0;
    TRY(fs_open(fs, path, FS_READ, &file));
    enum status st = fs_read_at(file, head, sizeof head, 0, &n);
    if (st == ST_OK)
        st = n == sizeof gzip && memcmp(head, gzip, sizeof gzip) == 0
                 ? dump_archive(&d, file, false)
                 : dump_scan(&d, file);
    fs_close(file);
    return st;
}

enum status rlog_verify_archive(struct fs *fs, const char *path,
                                void (*line)(void *ctx, const char *text), void *ctx)
{
    struct dump d = {.line = line, .ctx = ctx};
    struct fs_file *file = NULL;
    TRY(fs_open(fs, path, FS_READ, &file));
    enum status st = dump_archive(&d, file, true);
    fs_close(file);
    return st;
}
