/* Paths of a replica's directory, and the few ways its files are written. */
#include "base/mem.h"
#include "base/plant.h"
#include "raft/disk/rlog_disk_internal.h"

#include <stdarg.h>

enum { ZERO_PIECE = 64 * 1024, ZERO_PARTS = 16 };

void disk_path(const struct rlog_disk *disk, char path[DISK_PATH_MAX], const char *format, ...)
{
    va_list args;
    int n = snprintf(path, DISK_PATH_MAX, "%s/", disk->dir);
    ASSERT(n > 0 && n < DISK_DIR_MAX + 2);
    va_start(args, format);
    int more = vsnprintf(path + n, (size_t)(DISK_PATH_MAX - n), format, args);
    va_end(args);
    ASSERT(more >= 0 && more < DISK_PATH_MAX - n);
}

void segment_path(const struct rlog_disk *disk, uint64_t number, char path[DISK_PATH_MAX])
{
    disk_path(disk, path, "log/%016llx.seg", (unsigned long long)number);
}

void spare_path(const struct rlog_disk *disk, uint64_t number, char path[DISK_PATH_MAX])
{
    disk_path(disk, path, "log/spare-%016llx", (unsigned long long)number);
}

/* Parse sixteen lower-case hexadecimal digits. */
static bool hex_parse(const char *text, uint64_t *ret)
{
    uint64_t v = 0;
    for (int i = 0; i < 16; i++) {
        char c = text[i];
        bool digit = c >= '0' && c <= '9', letter = c >= 'a' && c <= 'f';
        if (!digit && !letter)
            return false;
        v = v << 4 | (uint64_t)(digit ? c - '0' : c - 'a' + 10);
    }
    *ret = v;
    return true;
}

bool segment_name_parse(const char *name, uint64_t *ret_number)
{
    uint64_t number;
    if (!hex_parse(name, &number) || strcmp(name + 16, ".seg") != 0 || number == 0)
        return false;
    *ret_number = number;
    return true;
}

bool snapshot_name_parse(const char *name, uint64_t *ret_index, uint64_t *ret_term)
{
    uint64_t index, term;
    if (!hex_parse(name, &index) || name[16] != '-' || !hex_parse(name + 17, &term) ||
        strcmp(name + 33, ".snap") != 0 || index == 0)
        return false;
    *ret_index = index;
    *ret_term = term;
    return true;
}

/* The planted bug: an error of the medium is taken for a success. */
enum status disk_final(enum status st)
{
    return st == ST_IO && planted(PLANT_R12_SYNC_IGNORED) ? ST_OK : st;
}

unsigned segment_flags(uint64_t size)
{
    return FS_WRITE | (segment_in_blocks(size) ? FS_DIRECT : 0);
}

enum status disk_write(struct fs_file *file, struct bytes data, uint64_t off)
{
    return disk_final(fs_write_at(file, &data, 1, off));
}

enum status disk_sync(struct fs_file *file)
{
    return disk_final(fs_sync(file));
}

enum status disk_sync_dir(const struct rlog_disk *disk, const char *sub)
{
    char path[DISK_PATH_MAX];
    disk_path(disk, path, "%s", sub);
    return disk_final(fs_sync_dir(disk->fs, path));
}

enum status disk_zero_piece(struct fs_file *file, uint64_t off, uint64_t n)
{
    static const _Alignas(FS_BLOCK) uint8_t zeros[ZERO_PIECE];
    for (uint64_t end = off + n; off < end;) {
        struct bytes parts[ZERO_PARTS];
        uint64_t at = off;
        size_t used = 0;
        for (; used < ZERO_PARTS && at < end; used++) {
            parts[used] = bytes_of(zeros, (size_t)MIN((uint64_t)ZERO_PIECE, end - at));
            at += parts[used].len;
        }
        TRY(disk_final(fs_write_at(file, parts, used, off)));
        off = at;
    }
    return ST_OK;
}

enum status disk_zero(struct fs *fs, const char *path, uint64_t size)
{
    struct fs_file *file = NULL;
    TRY(fs_open(fs, path, segment_flags(size) | FS_CREATE, &file));
    enum status st = disk_zero_piece(file, 0, size);
    if (st == ST_OK)
        st = disk_sync(file);
    fs_close(file);
    return st;
}

enum status file_read(struct fs *fs, const char *path, uint64_t max, uint8_t **ret_data,
                      size_t *ret_size)
{
    struct fs_file *file = NULL;
    uint64_t size = 0;
    size_t got = 0;
    TRY(fs_open(fs, path, FS_READ, &file));
    enum status st = fs_size(file, &size);
    size_t want = (size_t)MIN(size, max);
    uint8_t *data = st == ST_OK ? mem_alloc(want) : NULL;
    if (st == ST_OK && data == NULL)
        st = ST_NOMEM;
    if (st == ST_OK)
        st = fs_read_at(file, data, want, 0, &got);
    fs_close(file);
    if (st != ST_OK) {
        mem_free(data);
        return st;
    }
    *ret_data = data;
    *ret_size = got;
    return ST_OK;
}

void disk_free_check(struct rlog_disk *disk)
{
    uint64_t left = 0;
    if (fs_free_bytes(disk->fs, &left) == ST_OK)
        disk->full = left < disk->reserve_bytes;
}
