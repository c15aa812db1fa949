/* The file `founding`:
 *
 *   u8 format · u8 step · u64 raft id · block nonces · what the format adds · u32 CRC-32C
 *
 *   format 1  nothing more
 *   format 2  u8 1: the node asks for no vote
 *   format 3  u8 whether the node asks for no vote · u64 number of the replica's folder
 *
 * A removed node asks for nothing: its byte tells instead whether the cluster was recovered without
 * it. A build that does not know this meaning treats such a node like any removed one. */
#include "cluster/membership/bootstrap/step_file.h"

#include "base/buf.h"
#include "base/crc32c.h"

#include <stdio.h>

#define STEP_FILE_NEW "founding.new"

enum { STEP_FORMAT = 1, STEP_FORMAT_FLAG = 2, STEP_FORMAT_FOLDER = 3, STEP_BYTES_MAX = 4096 };

void step_folder(uint64_t folder, char ret_name[MEMBER_RAFT_DIR_MAX])
{
    int len = folder == 0 ? snprintf(ret_name, MEMBER_RAFT_DIR_MAX, MEMBER_RAFT_DIR)
                          : snprintf(ret_name, MEMBER_RAFT_DIR_MAX, MEMBER_RAFT_DIR "-%016llx",
                                     (unsigned long long)folder);
    ASSERT(len > 0 && len < MEMBER_RAFT_DIR_MAX);
}

static void step_encode(const struct step_record *record, struct bytes initial, struct buf *out)
{
    bool flag = record->step == STEP_REMOVED ? record->superseded : record->non_voter;
    uint8_t format = record->folder != 0 ? STEP_FORMAT_FOLDER
                     : flag              ? STEP_FORMAT_FLAG
                                         : STEP_FORMAT;
    ASSERT(record->step < STEPS);
    ASSERT(!record->superseded || record->step == STEP_REMOVED);
    buf_add_u8(out, format);
    buf_add_u8(out, (uint8_t)record->step);
    buf_add_u64(out, record->id);
    buf_add_block(out, initial);
    if (format != STEP_FORMAT)
        buf_add_u8(out, flag ? 1 : 0);
    if (format == STEP_FORMAT_FOLDER)
        buf_add_u64(out, record->folder);
    buf_add_u32(out, crc32c(0, buf_bytes(out)));
    ASSERT(out->len <= STEP_BYTES_MAX);
}

enum status step_file_save(struct fs *fs, const struct step_record *record,
                           const struct initial_members *initial)
{
    CLEANUP(buf_done) struct buf nonces = {0}, file = {0};
    struct fs_file *f;
    ASSERT(record->id != 0);
    initial_members_save(initial, &nonces);
    TRY(buf_status(&nonces));
    step_encode(record, buf_bytes(&nonces), &file);
    TRY(buf_status(&file));
    TRY(fs_open(fs, STEP_FILE_NEW, FS_WRITE | FS_CREATE, &f));
    struct bytes content = buf_bytes(&file);
    enum status st = fs_set_size(f, 0);
    if (st == ST_OK)
        st = fs_write_at(f, &content, 1, 0);
    if (st == ST_OK)
        st = fs_sync(f);
    fs_close(f);
    TRY(st);
    TRY(fs_rename(fs, STEP_FILE_NEW, STEP_FILE));
    return fs_sync_dir(fs, "");
}

static enum status step_decode(struct bytes file, struct step_record *ret,
                               struct initial_members *initial)
{
    struct step_record record = {0};
    if (file.len < 4 ||
        crc32c(0, bytes_of(file.data, file.len - 4)) != le32_get(file.data + file.len - 4))
        return ST_CORRUPT;
    struct reader r = reader_of(bytes_of(file.data, file.len - 4));
    uint8_t format = reader_u8(&r), step = reader_u8(&r), flag = 0;
    record.id = reader_u64(&r);
    struct bytes nonces = reader_block(&r);
    if (format == STEP_FORMAT_FLAG || format == STEP_FORMAT_FOLDER)
        flag = reader_u8(&r);
    if (format == STEP_FORMAT_FOLDER)
        record.folder = reader_u64(&r);
    bool known = format == STEP_FORMAT || (format == STEP_FORMAT_FLAG && flag == 1) ||
                 (format == STEP_FORMAT_FOLDER && flag <= 1 && record.folder != 0);
    if (reader_end(&r) != ST_OK || !known || step >= STEPS)
        return ST_CORRUPT;
    TRY(initial_members_load(initial, nonces));
    ASSERT(step < STEPS);
    record.step = step;
    record.non_voter = flag == 1 && step != STEP_REMOVED;
    record.superseded = flag == 1 && step == STEP_REMOVED;
    *ret = record;
    return ST_OK;
}

enum status step_file_load(struct fs *fs, struct step_record *ret_record,
                           struct initial_members *initial)
{
    uint8_t bytes[STEP_BYTES_MAX];
    struct fs_file *f;
    size_t len = 0;
    ASSERT(initial->n <= INITIAL_MEMBERS_MAX);
    TRY(fs_open(fs, STEP_FILE, FS_READ, &f));
    enum status st = fs_read_at(f, bytes, sizeof bytes, 0, &len);
    fs_close(f);
    TRY(st);
    return step_decode(bytes_of(bytes, len), ret_record, initial);
}
