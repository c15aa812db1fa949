/* Reading the log back: every segment in order, every batch checked against the one before.
 *
 * Damage does not stop the reading. Every batch says where it stands (its first index, the term
 * before it), so reading goes on at the next whole batch and forgets the entries before that batch.
 * The caller decides whether the damage matters, because the caller knows which index a verified
 * snapshot covers. */
#include "base/mem.h"
#include "base/plant.h"
#include "raft/disk/rlog_disk_found.h"

#include <stdarg.h>

struct file_seen {
    uint64_t number;
    bool headed;
    struct segment_header header;
};

struct finder {
    struct fs *fs;
    const char *dir;
    uint64_t id;
    const struct log_watch *watch;
    struct file_seen *files;
    size_t n_files, cap_files;
    bool void_before; /* the next header or batch begins a new log */
    bool stop;        /* a planted bug: everything after the damage is forgotten */
    struct log_found *found;
};

static void drop_entries(struct log_found *f, size_t keep)
{
    while (f->n > keep) {
        f->n--;
        rlog_block_unref(f->entries[f->n].block);
    }
}

void log_found_done(struct log_found *f)
{
    drop_entries(f, 0);
    mem_free(f->entries);
    mem_free(f->segments);
    mem_free(f->image);
    mem_free(f->unused);
    *f = (struct log_found){0};
}

static uint64_t last_of(const struct log_found *f)
{
    return f->base + f->n - 1;
}

/* Term of the entry before `index`, which is at most one behind the last. */
static uint64_t term_before(const struct log_found *f, uint64_t index)
{
    ASSERT(index >= f->base && index <= last_of(f) + 1);
    return index == f->base ? f->prev_term : f->entries[index - 1 - f->base].term;
}

/* Report damage, unless damage was reported before. */
static void damage(struct finder *d, uint64_t number, uint64_t off, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void damage(struct finder *d, uint64_t number, uint64_t off, const char *format, ...)
{
    struct log_found *f = d->found;
    char why[160];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why, sizeof why, format, args); /* a text that is too long is cut */
    va_end(args);
    struct reason reason;
    reason_set(&reason, "log/%016llx.seg, offset %llu, after entry %llu: %s",
               (unsigned long long)number, (unsigned long long)off,
               (unsigned long long)(f->n != 0 || f->base != 0 ? last_of(f) : 0), why);
    if (d->watch != NULL && d->watch->note != NULL)
        d->watch->note(d->watch->ctx, reason.text);
    if (planted(PLANT_R13_AMNESIA)) {
        f->torn = d->stop = true;
        return;
    }
    if (!f->damaged)
        f->reason = reason;
    f->damaged = true;
    f->lost_end = true;
    d->void_before = true;
}

static void begin_at(struct log_found *f, uint64_t base, uint64_t prev_term)
{
    drop_entries(f, 0);
    f->base = base;
    f->prev_term = prev_term;
    for (size_t i = 0; i < f->n_segments; i++)
        f->segments[i].last = 0;
}

static enum status add_entry(struct log_found *f, const struct rlog_entry *entry)
{
    if (f->n == f->cap) {
        size_t cap = f->cap != 0 ? f->cap * 2 : 256;
        struct rlog_entry *entries = mem_realloc(f->entries, cap * sizeof *entries);
        if (entries == NULL)
            return ST_NOMEM;
        f->entries = entries;
        f->cap = cap;
    }
    ASSERT(f->n < f->cap);
    f->entries[f->n++] = *entry;
    rlog_block_ref(entry->block);
    return ST_OK;
}

/* Whether a whole batch can follow what was read; NULL when it can. */
static const char *batch_fault(const struct log_found *f, const struct batch_header *h)
{
    if (h->first > last_of(f) + 1)
        return "a batch leaves out entries";
    if (((h->flags & BATCH_TRUNCATE) != 0) != (h->first <= last_of(f)))
        return "a batch does not fit the end of the log";
    if (h->first >= f->base && h->prev_term != term_before(f, h->first))
        return "a batch follows an entry of another term";
    return NULL;
}

/* Replace the entries from h->first on. ST_CORRUPT: the payload is not well-formed. */
static enum status batch_apply(struct finder *d, const struct batch_header *h, struct bytes payload,
                               struct rlog_block *block)
{
    struct log_found *f = d->found;
    struct rlog_entry entry;
    uint64_t term = h->prev_term;
    bool bad = false;
    if (h->first < f->base)
        begin_at(f, h->first, h->prev_term);
    ASSERT(h->first >= f->base);
    ASSERT(f->n_segments > 0);
    drop_entries(f, (size_t)(h->first - f->base));
    for (size_t i = 0; i < f->n_segments; i++)
        f->segments[i].last = MIN(f->segments[i].last, h->first - 1);
    f->truncations += (h->flags & BATCH_TRUNCATE) != 0;
    uint32_t n = 0;
    for (; entry_next(&payload, &entry, &bad); n++) {
        if (entry.term < term)
            return ST_CORRUPT;
        term = entry.term;
        entry.block = block;
        TRY(add_entry(f, &entry));
    }
    if (bad || n != h->n)
        return ST_CORRUPT;
    if (n != 0)
        f->segments[f->n_segments - 1].last = last_of(f);
    return ST_OK;
}

/* Add one whole batch to the log. A batch that does not fit the log is damage; reading goes on
 * behind that batch. */
static enum status batch_take(struct finder *d, const struct segment_image *image, uint64_t off,
                              const struct batch_found *b)
{
    struct log_found *f = d->found;
    const struct batch_header *h = &b->header;
    ASSERT(b->state == BATCH_OK);
    ASSERT(f->n_segments > 0);
    uint64_t number = f->segments[f->n_segments - 1].number;
    struct rlog_block *block = rlog_block_new(h->bytes);
    if (block == NULL)
        return ST_NOMEM;
    batch_payload(image, off, h, rlog_block_data(block));
    struct bytes payload = bytes_of(rlog_block_data(block), h->bytes);
    if (d->watch != NULL && d->watch->batch != NULL)
        d->watch->batch(d->watch->ctx, off, b, payload);

    if (d->void_before) {
        begin_at(f, h->first, h->prev_term);
        d->void_before = f->lost_end = false;
    }
    const char *fault = batch_fault(f, h);
    /* If reading began anew inside the range of a truncation, the truncation looks like an append.
     */
    if (fault != NULL && f->n == 0 && h->first == f->base && h->prev_term == f->prev_term)
        fault = NULL;
    enum status st = fault == NULL ? batch_apply(d, h, payload, block) : ST_OK;
    rlog_block_unref(block);
    if (st == ST_CORRUPT)
        fault = "the entries of a batch are not well-formed";
    else if (st != ST_OK)
        return st;
    f->seq = h->seq;
    f->chain = b->chain_after;
    f->last_batch = off;
    f->last_marked = (h->flags & BATCH_MARK) != 0;
    if (fault != NULL)
        damage(d, number, off, "%s", fault);
    return ST_OK;
}

/* The segment that follows decides the meaning of the end of this one. */
enum next_segment {
    NEXT_NONE,    /* the segment is the end of the log: a torn write is possible */
    NEXT_FOLLOWS, /* the next segment's header says where this segment ends */
    NEXT_UNKNOWN, /* the next segment is damaged or missing, which is reported there */
};

static void end_found(struct finder *d, const struct batch_found *b, uint64_t off,
                      enum next_segment next)
{
    ASSERT(b->state != BATCH_OK);
    ASSERT(d->found->n_segments > 0);
    uint64_t number = d->found->segments[d->found->n_segments - 1].number;
    unsigned long long seq = d->found->seq + 1;
    if (d->watch != NULL && d->watch->batch != NULL && b->state != BATCH_END)
        d->watch->batch(d->watch->ctx, off, b, (struct bytes){0});
    if (b->state == BATCH_DAMAGED)
        damage(d, number, b->bad_at, "%s (batch %llu)", b->why, seq);
    else if (next == NEXT_FOLLOWS)
        damage(d, number, off, "it ends before the segment after it says (batch %llu)", seq);
    else if (b->state == BATCH_TORN && next == NEXT_UNKNOWN)
        damage(d, number, b->bad_at, "a batch is not complete (batch %llu)", seq);
    else
        d->found->torn |= b->state == BATCH_TORN;
}

/* Read all batches of a segment up to `end`. */
static enum status batches_read(struct finder *d, const struct segment_image *image, uint64_t end,
                                enum next_segment next)
{
    struct log_found *f = d->found;
    uint64_t off = SECTOR;
    f->last_batch = 0;
    f->end = off;
    while (!d->stop) {
        f->end = off;
        if (off == end)
            break;
        struct batch_want want = {off, end, f->seq + 1, f->chain, d->void_before};
        struct batch_found b = batch_find(image, &want);
        if (b.state == BATCH_OK) {
            TRY(batch_take(d, image, off, &b));
            off = b.end;
            continue;
        }
        end_found(d, &b, off, next);
        if (b.state != BATCH_DAMAGED || b.resume_at == 0)
            break;
        off = b.resume_at;
    }
    return ST_OK;
}

/* Compare a segment's header with the end of the segment before. */
static void header_take(struct finder *d, const struct file_seen *file,
                        const struct file_seen *prev)
{
    struct log_found *f = d->found;
    const struct segment_header *h = &file->header;
    ASSERT(file->headed);
    if (d->watch != NULL && d->watch->segment != NULL)
        d->watch->segment(d->watch->ctx, file->number, h);
    if ((h->flags & SEGMENT_RESET) != 0) {
        begin_at(f, h->start, h->prev_term);
        f->damaged = f->lost_end = d->void_before = false;
    } else if (prev != NULL && prev->number + 1 != file->number) {
        damage(d, prev->number + 1, 0, "this segment is missing");
    } else if (prev != NULL && !d->void_before &&
               (h->start != last_of(f) + 1 || h->prev_term != term_before(f, h->start) ||
                h->seq != f->seq + 1 || h->chain != f->chain)) {
        damage(d, file->number, 0, "the segment does not continue the one before it");
    }
    if (d->void_before || f->base == 0) {
        begin_at(f, h->start, h->prev_term);
        d->void_before = f->lost_end = false;
    }
    f->seq = h->seq - 1;
    f->chain = h->chain;
}

/* Begin the list of segments anew behind a gap: the segments before the gap are not needed, or the
 * log is corrupt. */
static enum status add_segment(struct log_found *f, const struct segment *segment)
{
    if (f->n_segments != 0 && f->segments[f->n_segments - 1].number + 1 != segment->number)
        f->n_segments = 0;
    if (f->n_segments == f->segments_cap) {
        size_t cap = f->segments_cap != 0 ? f->segments_cap * 2 : 16;
        struct segment *segments = mem_realloc(f->segments, cap * sizeof *segments);
        if (segments == NULL)
            return ST_NOMEM;
        f->segments = segments;
        f->segments_cap = cap;
    }
    ASSERT(f->n_segments < f->segments_cap);
    f->segments[f->n_segments++] = *segment;
    return ST_OK;
}

static void file_path(const struct finder *d, uint64_t number, char path[DISK_PATH_MAX])
{
    int n = snprintf(path, DISK_PATH_MAX, "%s/log/%016llx.seg", d->dir, (unsigned long long)number);
    ASSERT(n > 0 && n < DISK_PATH_MAX);
}

/* The content, at most `size` bytes, padded to a sector. Replaces the image kept so far. */
static enum status image_read(struct finder *d, uint64_t number, uint64_t size,
                              struct segment_image *ret)
{
    struct log_found *f = d->found;
    char path[DISK_PATH_MAX];
    uint8_t *data = NULL;
    size_t got = 0;
    file_path(d, number, path);
    mem_free(f->image);
    f->image = NULL;
    TRY(file_read(d->fs, path, size, &data, &got));
    ASSERT(got <= size);
    size_t whole = (got + SECTOR - 1) / SECTOR * SECTOR;
    if (got < whole) {
        uint8_t *more = mem_realloc(data, whole);
        if (more == NULL) {
            mem_free(data);
            return ST_NOMEM;
        }
        data = more;
        memset(data + got, 0, whole - got);
    }
    f->image = data;
    f->image_size = got;
    *ret = (struct segment_image){data, whole, segment_salt(d->id, number)};
    return ST_OK;
}

static enum status segment_read(struct finder *d, size_t i, size_t n_used)
{
    struct log_found *f = d->found;
    ASSERT(i < n_used);
    ASSERT(n_used <= d->n_files);
    const struct file_seen *file = &d->files[i], *prev = i > 0 ? &d->files[i - 1] : NULL;
    const struct file_seen *next = i + 1 < n_used ? &d->files[i + 1] : NULL;
    struct segment_image image;
    if (!file->headed) {
        damage(d, file->number, 0, "the header of the segment is damaged");
        return ST_OK;
    }
    header_take(d, file, prev);
    if (d->stop)
        return ST_OK;
    uint64_t size = file->header.size, end = size;
    TRY(add_segment(f, &(struct segment){.number = file->number, .size = size}));
    TRY(image_read(d, file->number, size, &image));
    if (f->image_size < size)
        damage(d, file->number, f->image_size, "the file is shorter than its header says");
    bool follows = next != NULL && next->headed && next->number == file->number + 1;
    if (follows && next->header.prev_end >= SECTOR && next->header.prev_end <= size)
        end = next->header.prev_end;
    return batches_read(d, &image, MIN(end, image.size),
                        follows        ? NEXT_FOLLOWS
                        : next != NULL ? NEXT_UNKNOWN
                                       : NEXT_NONE);
}

/* A segment without a header, behind the last segment that has a header: its first write was never
 * completed. */
static enum status unused_read(struct finder *d, uint64_t number)
{
    struct log_found *f = d->found;
    struct segment_image image;
    uint64_t bad_at = 0;
    uint8_t *kept = f->image;
    size_t kept_size = f->image_size;
    bool torn = false;
    f->image = NULL;
    enum status st = image_read(d, number, SEGMENT_MAX, &image);
    if (st == ST_OK && !d->stop && !segment_unused(&image, f->seq + 1, &torn, &bad_at))
        damage(d, number, bad_at, "the header of the segment is damaged");
    f->torn_unused |= torn;
    mem_free(f->image);
    f->image = kept;
    f->image_size = kept_size;
    return st;
}

/* List all segments except the run of segments in use. */
static enum status list_unused(struct finder *d, size_t n_used)
{
    struct log_found *f = d->found;
    uint64_t first = f->n_segments != 0 ? f->segments[0].number : UINT64_MAX;
    ASSERT(n_used <= d->n_files);
    f->unused = mem_alloc(d->n_files * sizeof *f->unused);
    if (f->unused == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < d->n_files; i++) {
        if (i >= n_used)
            TRY(unused_read(d, d->files[i].number));
        if (i >= n_used && i > 0 && d->files[i].number != d->files[i - 1].number + 1 && !d->stop)
            damage(d, d->files[i - 1].number + 1, 0, "this segment is missing");
        if (i >= n_used || d->files[i].number < first)
            f->unused[f->n_unused++] = d->files[i].number;
    }
    return ST_OK;
}

static enum status name_take(void *ctx, const char *name)
{
    struct finder *d = ctx;
    uint64_t number;
    if (!segment_name_parse(name, &number))
        return ST_OK;
    if (d->n_files == d->cap_files) {
        size_t cap = d->cap_files != 0 ? d->cap_files * 2 : 16;
        struct file_seen *files =
            cap <= DISK_SEGMENTS_MAX ? mem_realloc(d->files, cap * sizeof *files) : NULL;
        if (files == NULL)
            return ST_NOMEM;
        d->files = files;
        d->cap_files = cap;
    }
    ASSERT(d->n_files == 0 || d->files[d->n_files - 1].number < number); /* fs_list sorts */
    d->files[d->n_files++] = (struct file_seen){.number = number};
    return ST_OK;
}

static enum status header_look(struct finder *d, struct file_seen *file)
{
    char path[DISK_PATH_MAX];
    uint8_t *sector = NULL;
    size_t got = 0;
    file_path(d, file->number, path);
    TRY(file_read(d->fs, path, SECTOR, &sector, &got));
    ASSERT(got <= SECTOR);
    if (got == SECTOR) {
        struct sector_info s = sector_read(sector, segment_salt(d->id, file->number), 0);
        file->headed = s.state == SECTOR_WHOLE && s.kind == SECTOR_SEGMENT &&
                       segment_header_read(sector, &file->header) == ST_OK &&
                       file->header.id == d->id && file->header.number == file->number;
    }
    mem_free(sector);
    return ST_OK;
}

static enum status find(struct finder *d)
{
    char path[DISK_PATH_MAX];
    size_t n_used = 0;
    int n = snprintf(path, sizeof path, "%s/log", d->dir);
    ASSERT(n > 0 && n < DISK_DIR_MAX + 8);
    enum status st = fs_list(d->fs, path, name_take, d);
    if (st != ST_NOT_FOUND)
        TRY(st);
    for (size_t i = 0; i < d->n_files; i++) {
        TRY(header_look(d, &d->files[i]));
        n_used = d->files[i].headed ? i + 1 : n_used;
    }
    for (size_t i = 0; i < n_used && !d->stop; i++)
        TRY(segment_read(d, i, n_used));
    if (d->stop)
        n_used = MIN(n_used, d->found->n_segments);
    return list_unused(d, n_used);
}

enum status log_find(struct fs *fs, const char *dir, uint64_t id, const struct log_watch *watch,
                     struct log_found *ret)
{
    struct finder d = {.fs = fs, .dir = dir, .id = id, .watch = watch, .found = ret};
    *ret = (struct log_found){0};
    enum status st = find(&d);
    mem_free(d.files);
    if (st != ST_OK)
        log_found_done(ret);
    return st;
}
