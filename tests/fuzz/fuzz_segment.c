/* Any bytes as the files of a replica's log: vote file and two segments. Checksums of the sectors
 * are made right first when the first byte is odd, so that what lies behind them is reached. */
#include "base/crc32c.h"
#include "raft/disk/rlog_disk_found.h"
#include "ram_files.h"

enum { SIZE_MAX_BYTES = 256 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ignore_line(void *ctx, const char *text)
{
    size_t *n = ctx;
    *n += strlen(text);
}

static void fix_sectors(uint8_t *data, size_t size, uint64_t number)
{
    uint32_t salt = segment_salt(77, number);
    for (size_t s = 0; (s + 1) * SECTOR <= size; s++) {
        uint8_t *at = data + s * SECTOR;
        if (le16_get(at + 510) == SECTOR_MARK)
            le32_put(at + 506, crc32c(salt ^ (uint32_t)s, bytes_of(at, 506)));
    }
}

/* What was loaded fits together whatever the bytes. */
static void check(struct fs *fs)
{
    struct log_found found;
    if (log_find(fs, "d", 77, NULL, &found) != ST_OK)
        return;
    uint64_t term = found.prev_term;
    for (size_t i = 0; i < found.n; i++) {
        ASSERT(found.entries[i].term >= term);
        ASSERT(found.entries[i].type >= RLOG_COMMAND && found.entries[i].type <= RLOG_CHANGE);
        term = found.entries[i].term;
    }
    ASSERT(found.n == 0 || found.base > 0);
    log_found_done(&found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t copy[SIZE_MAX_BYTES];
    uint8_t identity[SMALL_BLOCK], vote_file[SMALL_BLOCK];
    struct rlog_identity id = {.name = "n1", .id = 77};
    struct vote_record record = {.seq = 3, .term = 9, .vote = 1, .log_seq = 1};
    struct ram_fs ram;
    size_t said = 0;

    if (size < 4 || size > sizeof copy)
        return 0;
    memcpy(copy, data, size);
    size_t first = MIN((size_t)le16_get(data + 2) * SECTOR, size - 4);
    if ((data[0] & 1) != 0) {
        fix_sectors(copy + 4, first, 1);
        fix_sectors(copy + 4 + first, size - 4 - first, 2);
    }
    identity_encode(&id, identity);
    vote_file_encode(&record, id.id, vote_file);
    ram_init(&ram);
    ram_add(&ram, "d", "identity", bytes_of(identity, sizeof identity));
    ram_add(&ram, "d", "slot",
            (data[1] & 1) != 0 ? bytes_of(copy, size) : bytes_of(vote_file, sizeof vote_file));
    ram_add(&ram, "d/log", "0000000000000001.seg", bytes_of(copy + 4, first));
    ram_add(&ram, "d/log", "0000000000000002.seg", bytes_of(copy + 4 + first, size - 4 - first));
    check(&ram.fs);
    enum status st = rlog_dump_log(&ram.fs, "d", ignore_line, &said);
    ASSERT(st == ST_OK || st == ST_CORRUPT || st == ST_NOMEM);
    ASSERT(said > 0);
    return 0;
}
