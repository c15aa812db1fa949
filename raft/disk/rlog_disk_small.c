/* The small files of a replica: the vote file, the identity, and the record of an install.
 *
 * The vote file (`slot`), written A then B, each durable before the next step; set_term returns
 * after B: A and B equal          no write was interrupted A one ahead of B       a write stopped
 * between the two: A counts, though set_term may not have returned one bad                the other
 * has everything that set_term returned for: B is written only after A is durable, and set_term
 * returns only after B is durable both bad, or apart     the disk lost or damaged what it had
 * acknowledged: refuse */
#include "base/trace.h"
#include "raft/disk/rlog_disk_internal.h"

enum { COPIES = 2, SMALL_BYTES = COPIES * SMALL_BLOCK };

/* Write both copies at once. Only for a file that gets its name when it is complete. */
static enum status small_create(struct fs *fs, const char *path, const uint8_t *block)
{
    const struct bytes parts[COPIES] = {bytes_of(block, SMALL_BLOCK), bytes_of(block, SMALL_BLOCK)};
    struct fs_file *file = NULL;
    TRY(fs_open(fs, path, FS_WRITE | FS_CREATE, &file));
    enum status st = fs_set_size(file, 0);
    if (st == ST_OK)
        st = fs_write_at(file, parts, COPIES, 0);
    if (st == ST_OK)
        st = disk_sync(file);
    fs_close(file);
    return st;
}

/* The missing part of a short file reads as zero, which no checksum accepts. */
static enum status small_read(struct fs *fs, const char *path, uint8_t blocks[SMALL_BYTES])
{
    struct fs_file *file = NULL;
    size_t got = 0;
    memset(blocks, 0, SMALL_BYTES);
    TRY(fs_open(fs, path, FS_READ, &file));
    enum status st = fs_read_at(file, blocks, SMALL_BYTES, 0, &got);
    fs_close(file);
    return st;
}

enum status vote_file_create(struct fs *fs, const char *path, uint64_t id)
{
    uint8_t block[SMALL_BLOCK];
    vote_file_encode(&(struct vote_record){.seq = 1}, id, block);
    return small_create(fs, path, block);
}

static void vote_file_judge(const uint8_t *blocks, uint64_t id, struct vote_file_found *found)
{
    struct vote_record a, b;
    bool a_good = vote_file_decode(blocks, id, &a),
         b_good = vote_file_decode(blocks + SMALL_BLOCK, id, &b);
    *found = (struct vote_file_found){.fell_back = a_good != b_good};
    if (!a_good && !b_good) {
        found->corrupt = true;
        found->why = "slot: both copies of term and vote are damaged";
        return;
    }
    found->record = a_good ? a : b;
    if (!a_good || !b_good) {
        found->why = a_good ? "slot: copy 2 (offset 4096) is damaged, copy 1 has term and vote"
                            : "slot: copy 1 (offset 0) is damaged, copy 2 has term and vote";
        return;
    }
    bool equal = a.seq == b.seq && a.term == b.term && a.vote == b.vote && a.log_seq == b.log_seq;
    if (equal || (a.seq == b.seq + 1 && a.term >= b.term))
        return;
    found->corrupt = true;
    found->why = "slot: the two copies are too far apart, an acknowledged write was lost";
}

enum status vote_file_load(struct rlog_disk *disk, struct vote_file_found *ret)
{
    char path[DISK_PATH_MAX];
    uint8_t blocks[SMALL_BYTES];
    disk_path(disk, path, "slot");
    enum status st = small_read(disk->fs, path, blocks);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    vote_file_judge(blocks, disk->identity.id, ret);
    if (st == ST_NOT_FOUND)
        ret->why = "slot: the file is missing";
    return ST_OK;
}

enum status vote_file_write(struct rlog_disk *disk, const struct vote_record *record)
{
    char path[DISK_PATH_MAX];
    uint8_t block[SMALL_BLOCK];
    ASSERT(record->seq > 0);
    ASSERT(record->seq >= disk->vote_record.seq);
    ASSERT(record->term >= disk->vote_record.term);
    vote_file_encode(record, disk->identity.id, block);
    if (disk->vote_file == NULL) {
        disk_path(disk, path, "slot");
        TRY(fs_open(disk->fs, path, FS_READ | FS_WRITE | FS_DSYNC, &disk->vote_file));
    }
    for (uint64_t copy = 0; copy < COPIES; copy++)
        TRY(disk_write(disk->vote_file, bytes_of(block, sizeof block), copy * SMALL_BLOCK));
    disk->vote_record = *record;
    return ST_OK;
}

/* Write under a temporary name, then rename: the file is either whole or absent. */
static enum status small_replace(struct fs *fs, const char *dir, const char *name,
                                 const uint8_t *block)
{
    char path[DISK_PATH_MAX], temporary[DISK_PATH_MAX];
    ASSERT(strlen(dir) < DISK_DIR_MAX && strlen(name) < 32);
    (void)snprintf(path, sizeof path, "%s/%s", dir, name); /* cannot be cut: `dir` is bounded */
    (void)snprintf(temporary, sizeof temporary, "%s/%s.tmp", dir, name); /* `dir` is bounded */
    TRY(small_create(fs, temporary, block));
    TRY(fs_rename(fs, temporary, path));
    return fs_sync_dir(fs, dir);
}

enum status identity_create(struct fs *fs, const char *dir, const struct rlog_identity *identity)
{
    uint8_t block[SMALL_BLOCK];
    identity_encode(identity, block);
    return small_replace(fs, dir, "identity", block);
}

enum status identity_load(struct fs *fs, const char *dir, struct rlog_identity *ret)
{
    char path[DISK_PATH_MAX];
    uint8_t blocks[SMALL_BYTES];
    struct rlog_identity a, b;
    (void)snprintf(path, sizeof path, "%s/identity", dir); /* cannot be cut: callers bound `dir` */
    TRY(small_read(fs, path, blocks));
    bool a_good = identity_decode(blocks, &a), b_good = identity_decode(blocks + SMALL_BLOCK, &b);
    if (!a_good && !b_good)
        return ST_CORRUPT;
    if (a_good && b_good && memcmp(blocks, blocks + SMALL_BLOCK, SMALL_BLOCK) != 0)
        return ST_CORRUPT;
    *ret = a_good ? a : b;
    if (a_good && b_good)
        return ST_OK;
    trace(TRACE_WARN, "raft", "%s: one copy is damaged, the other is used; rewriting it", path);
    return identity_create(fs, dir, ret);
}

enum status install_begin(struct rlog_disk *disk, const struct install_record *record)
{
    uint8_t block[SMALL_BLOCK];
    install_encode(record, disk->identity.id, block);
    return small_replace(disk->fs, disk->dir, "install", block);
}

enum status install_end(struct rlog_disk *disk)
{
    char path[DISK_PATH_MAX];
    disk_path(disk, path, "install");
    enum status st = fs_unlink(disk->fs, path);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    return disk_sync_dir(disk, "");
}

enum status install_load(struct rlog_disk *disk, struct install_record *ret)
{
    char path[DISK_PATH_MAX];
    uint8_t blocks[SMALL_BYTES];
    struct install_record found = {0};
    disk_path(disk, path, "install");
    enum status st = small_read(disk->fs, path, blocks);
    if (st != ST_NOT_FOUND)
        TRY(st);
    /* The record is damaged and proves nothing: the log is judged without it. */
    bool whole = install_decode(blocks, disk->identity.id, &found) ||
                 install_decode(blocks + SMALL_BLOCK, disk->identity.id, &found);
    if (st == ST_OK && !whole)
        trace(TRACE_WARN, "raft", "%s is damaged and ignored", path);
    *ret = found;
    return ST_OK;
}
