/* The file `founding` is one record. Format 1 has neither flag nor folder. Format 2 has the flag,
 * and format 3 the folder of the replica too. A removed node asks for no vote: its flag tells
 * instead whether the cluster was recovered without it. A build that does not know this meaning
 * treats such a node like any removed one. */
#include "cluster/membership/bootstrap/step_file.h"

#include "base/record.h"

#include <stdio.h>

#define STEP_FILE_NEW "founding.new"

enum { STEP_BYTES_MAX = 4096 };

struct step_bytes {
    enum step step;
    uint64_t id, folder;
    struct bytes initial;
    bool flag;
};
static const struct record_field step_fields[] = {
    RECORD_FIELD(struct step_bytes, step, U8, .max = STEPS - 1, .help = "bootstrap.c draws them"),
    RECORD_FIELD(struct step_bytes, id, U64, .help = "raft id"),
    RECORD_FIELD(struct step_bytes, initial, BLOCK, .help = "member/nonces"),
    RECORD_FIELD(struct step_bytes, flag, U8, .since = 2,
                 .help = "the node wants no vote; of a removed node: the cluster was recovered "
                         "without it"),
    RECORD_FIELD(struct step_bytes, folder, U64, .since = 3,
                 .help = "number in the name of the replica's folder"),
};
static const struct record step_file_record = {
    RECORD(struct step_bytes, step_fields), .name = "member/step", .where = "The file `founding`",
    .newest = 3, .crc = true};
RECORD_LISTED(step_file_record);

void step_folder(uint64_t folder, char ret_name[MEMBER_RAFT_DIR_MAX])
{
    int len = folder == 0 ? snprintf(ret_name, MEMBER_RAFT_DIR_MAX, MEMBER_RAFT_DIR)
                          : snprintf(ret_name, MEMBER_RAFT_DIR_MAX, MEMBER_RAFT_DIR "-%016llx",
                                     (unsigned long long)folder);
    ASSERT(len > 0 && len < MEMBER_RAFT_DIR_MAX);
}

static enum status step_encode(const struct step_record *record, struct bytes initial,
                               struct buf *out)
{
    const struct step_bytes bytes = {
        .step = record->step,
        .id = record->id,
        .folder = record->folder,
        .initial = initial,
        .flag = record->step == STEP_REMOVED ? record->superseded : record->non_voter,
    };
    ASSERT(!record->superseded || record->step == STEP_REMOVED);
    TRY(record_encode(&step_file_record, &bytes, out));
    ASSERT(out->len <= STEP_BYTES_MAX);
    return ST_OK;
}

enum status step_file_save(struct fs *fs, const struct step_record *record,
                           const struct initial_members *initial)
{
    CLEANUP(buf_done) struct buf nonces = {0}, file = {0};
    struct fs_file *f;
    ASSERT(record->id != 0);
    initial_members_save(initial, &nonces);
    TRY(buf_status(&nonces));
    TRY(step_encode(record, buf_bytes(&nonces), &file));
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
    struct step_bytes bytes = {0};
    TRY(record_decode(&step_file_record, file, NULL, &bytes));
    TRY(initial_members_load(initial, bytes.initial));
    bool removed = bytes.step == STEP_REMOVED;
    *ret = (struct step_record){.step = bytes.step,
                                .id = bytes.id,
                                .folder = bytes.folder,
                                .non_voter = bytes.flag && !removed,
                                .superseded = bytes.flag && removed};
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
