/* Reading a survivor, and writing the replica that follows it. rlog_recover.h has the rules. */
#include "raft/replica/rlog_recover.h"

#include "base/crc32c.h"
#include "base/mem.h"
#include "base/plant.h"
#include "raft/core/rlog_core.h"
#include "raft/disk/rlog_disk_found.h"
#include "raft/snapshot/rlog_snap_format.h"
#include "raft/txn/rlog_txn.h"

enum { BATCH_ENTRIES_MAX = 4096, BATCH_BYTES = 4 << 20, COPY_BYTES = 1 << 20 };

struct rlog_survivor {
    struct rlog_disk *disk; /* the old folder, for reading */
    struct fs_file *lock;
    struct rlog_loaded loaded;
    struct rlog_survey survey;
};

/* Folders */

static void folder_free(struct rlog_disk *disk)
{
    if (disk == NULL)
        return;
    tail_done(&disk->tail);
    fs_close(disk->vote_file);
    (void)pthread_mutex_destroy(&disk->lock); /* no thread holds the lock */
    mem_free(disk);
}

/* A folder for blocking calls: no queue, no timer, no thread. */
static enum status folder_new(struct fs *fs, const char *dir, struct rlog_disk **ret)
{
    ASSERT(strlen(dir) > 0);
    if (strlen(dir) >= DISK_DIR_MAX)
        return ST_INVALID;
    struct rlog_disk *disk = mem_zalloc(sizeof *disk);
    if (disk == NULL)
        return ST_NOMEM;
    if (pthread_mutex_init(&disk->lock, NULL) != 0) {
        mem_free(disk);
        return ST_NOMEM;
    }
    disk->fs = fs;
    disk->snapshots_kept = 1;
    disk->segment_bytes = SEGMENT_DEFAULT;
    disk->group_bytes = BATCH_BYTES;
    memcpy(disk->dir, dir, strlen(dir) + 1);
    *ret = disk;
    return ST_OK;
}

/* Read the identity without repairing a damaged copy. */
static enum status identity_look(struct rlog_disk *disk, struct reason *reason)
{
    char path[DISK_PATH_MAX];
    uint8_t *data = NULL;
    size_t n = 0;
    disk_path(disk, path, "identity");
    enum status st = file_read(disk->fs, path, (uint64_t)2 * SMALL_BLOCK, &data, &n);
    reason_set(reason, st == ST_NOT_FOUND ? "%s: there is no replica here" : "%s: cannot be read",
               disk->dir);
    TRY(st);
    bool good = (n >= SMALL_BLOCK && identity_decode(data, &disk->identity)) ||
                (n >= 2 * SMALL_BLOCK && identity_decode(data + SMALL_BLOCK, &disk->identity));
    mem_free(data);
    if (good)
        return ST_OK;
    reason_set(reason, "%s/identity: both copies are damaged", disk->dir);
    return ST_CORRUPT;
}

/* Surveys */

static void add_member(struct rlog_survey *s, const struct rlog_member *m)
{
    for (unsigned i = 0; i < s->n_members; i++)
        if (s->members[i].id == m->id)
            return;
    ASSERT(s->n_members < RLOG_SURVIVOR_MEMBERS_MAX);
    s->members[s->n_members++] = *m;
}

/* The newest configuration at or below `index`: of an entry, else of the snapshot. False: none. */
static bool conf_before(const struct rlog_loaded *l, uint64_t index, struct rlog_conf *conf,
                        uint64_t *ret_index)
{
    const struct rlog_snapshot_meta *snap = &l->snapshot;
    ASSERT(l->first > 0);
    for (uint64_t i = l->n; i > 0; i--) {
        const struct rlog_entry *e = &l->entries[i - 1];
        uint64_t at = l->first + i - 1;
        if (at > index || at <= snap->index || e->type != RLOG_CHANGE)
            continue;
        *ret_index = at;
        return rlog_conf_decode(e->data, conf) == ST_OK;
    }
    *ret_index = snap->conf_index;
    return snap->index != 0 &&
           rlog_conf_decode(bytes_of(snap->conf, snap->conf_len), conf) == ST_OK;
}

static enum status survey_members(struct rlog_survivor *s, struct reason *reason)
{
    struct rlog_survey *v = &s->survey;
    struct rlog_conf conf;
    uint64_t former;
    ASSERT(v->n_members == 0);
    if (!conf_before(&s->loaded, v->last.index, &conf, &v->conf_index)) {
        reason_set(reason, "%s: the log has no valid list of members", s->disk->dir);
        return ST_CORRUPT;
    }
    for (unsigned i = 0; i < conf.n; i++)
        add_member(v, &conf.members[i]);
    v->n_newest = v->n_members;
    ASSERT(v->n_newest > 0);
    /* A list that a snapshot covers was committed. Any other may have been replaced elsewhere. */
    if (v->conf_index > v->snapshot_index &&
        conf_before(&s->loaded, v->conf_index - 1, &conf, &former))
        for (unsigned i = 0; i < conf.n; i++)
            add_member(v, &conf.members[i]);
    return ST_OK;
}

static uint32_t entry_check(const struct rlog_entry *e)
{
    uint8_t head[9];
    le64_put(head, e->term);
    head[8] = (uint8_t)e->type;
    uint32_t crc = crc32c(crc32c(0, bytes_of(head, sizeof head)), e->data);
    return crc != 0 ? crc : 1; /* 0 says that the entry is not here */
}

static enum status survey(struct rlog_survivor *s, struct reason *reason)
{
    struct rlog_survey *v = &s->survey;
    const struct rlog_loaded *l = &s->loaded;
    ASSERT(l->first > 0);
    *v = (struct rlog_survey){.identity = s->disk->identity,
                              .term = l->term,
                              .snapshot_index = l->snapshot.index,
                              .torn = l->torn};
    v->last.index = l->first + l->n - 1;
    v->last.term = l->n != 0 ? l->entries[l->n - 1].term : l->prev_term;
    v->last.check = l->n != 0 ? entry_check(&l->entries[l->n - 1]) : 0;
    return survey_members(s, reason);
}

static enum status survivor_read(struct rlog_survivor *s, struct reason *reason)
{
    TRY(identity_look(s->disk, reason));
    reason_set(reason, "%s: cannot be read", s->disk->dir);
    TRY(disk_examine(s->disk, NULL, &s->loaded));
    if (s->loaded.corrupt) {
        reason_set(reason, "%s/%s", s->disk->dir, s->loaded.reason.text);
        return ST_CORRUPT;
    }
    return survey(s, reason);
}

void rlog_survivor_close(struct rlog_survivor *s)
{
    if (s == NULL)
        return;
    rlog_loaded_done(&s->loaded);
    folder_free(s->disk); /* the lock comes last: until then no other process reads the folder */
    fs_close(s->lock);
    mem_free(s);
}

static enum status survivor_lock(struct rlog_survivor *s, struct reason *reason)
{
    char path[DISK_PATH_MAX];
    struct fs_file *file = NULL;
    ASSERT(s->lock == NULL);
    disk_path(s->disk, path, "lock");
    enum status st = fs_open(s->disk->fs, path, FS_READ, &file); /* a lock would create the file */
    fs_close(file);
    reason_set(reason, st == ST_NOT_FOUND ? "%s: there is no replica here" : "%s: cannot be opened",
               s->disk->dir);
    TRY(st);
    st = fs_lock(s->disk->fs, path, &s->lock);
    if (st == ST_BUSY)
        reason_set(reason, "%s: in use by another process: stop the node first", s->disk->dir);
    return st;
}

enum status rlog_survivor_open(struct fs *fs, const char *dir, struct rlog_survivor **ret_survivor,
                               struct rlog_survey *ret_survey, struct reason *reason)
{
    ASSERT(dir[0] != '\0');
    reason_set(reason, "out of memory");
    struct rlog_survivor *s = mem_zalloc(sizeof *s);
    if (s == NULL)
        return ST_NOMEM;
    enum status st = folder_new(fs, dir, &s->disk);
    if (st == ST_OK)
        st = survivor_lock(s, reason);
    if (st == ST_OK)
        st = survivor_read(s, reason);
    if (st != ST_OK) {
        rlog_survivor_close(s);
        return st;
    }
    *ret_survey = s->survey;
    *ret_survivor = s;
    return ST_OK;
}

enum status rlog_position_judge(const struct rlog_position *mine, const struct rlog_position *other)
{
    bool newer = other->term != mine->term ? other->term > mine->term : other->index > mine->index;
    bool same = other->term == mine->term && other->index == mine->index;
    if (newer && !planted(PLANT_RECOVER_OLD_LOG))
        return ST_CONFLICT;
    if (same && mine->check != 0 && other->check != 0 && mine->check != other->check)
        return ST_CORRUPT;
    return ST_OK;
}

/* The new replica */

struct writing {
    const struct rlog_survivor *from;
    const struct rlog_recover_plan *plan;
    struct rlog_disk *disk;
    uint64_t id, term; /* raft id of the new replica; term of the entries that end its log */
    struct rlog_conf_bytes conf;
    uint64_t next; /* index of the next entry to write */
    const struct rlog_entry **entries;
    struct rlog_entry changed; /* stands for every CHANGE of the old log */
    struct reason *reason;
};

static enum status judge_others(const struct writing *w)
{
    const struct rlog_position *mine = &w->from->survey.last;
    ASSERT(w->plan->n_others <= RLOG_SURVIVOR_MEMBERS_MAX);
    for (unsigned i = 0; i < w->plan->n_others; i++) {
        const struct rlog_position *other = &w->plan->others[i];
        enum status st = rlog_position_judge(mine, other);
        if (st == ST_CONFLICT)
            reason_set(w->reason,
                       "this log ends at entry %llu of term %llu, but the log of another survivor "
                       "goes on to entry %llu of term %llu: recover there",
                       (unsigned long long)mine->index, (unsigned long long)mine->term,
                       (unsigned long long)other->index, (unsigned long long)other->term);
        else if (st == ST_CORRUPT)
            reason_set(w->reason,
                       "entry %llu of term %llu differs between this log and another survivor's: "
                       "one of them is damaged",
                       (unsigned long long)mine->index, (unsigned long long)mine->term);
        TRY(st);
    }
    return ST_OK;
}

/* The only configuration of the new replica: itself, as a voter. */
static enum status conf_make(struct writing *w)
{
    const struct rlog_survey *v = &w->from->survey;
    struct rlog_conf conf = {.n = 1};
    for (unsigned i = 0; i < v->n_members; i++)
        if (v->members[i].id == v->identity.id)
            conf.members[0] = v->members[i];
    if (conf.members[0].id == 0) {
        reason_set(w->reason, "%s: raft id %llu is no member of its own log", w->from->disk->dir,
                   (unsigned long long)v->identity.id);
        return ST_INVALID;
    }
    conf.members[0].id = w->id;
    conf.members[0].role = RLOG_VOTER;
    return rlog_conf_encode(&conf, &w->conf);
}

/* An empty replica. Its term must not be older than its log, so the vote file comes first. */
static enum status folder_make(struct writing *w)
{
    struct fs *fs = w->from->disk->fs;
    struct env files = {.fs = fs}; /* create and wipe use the files alone */
    struct rlog_identity identity = w->from->survey.identity;
    struct vote_file_found found;
    ASSERT(w->disk == NULL && w->term > w->from->survey.last.term);
    identity.id = w->id;
    TRY(rlog_disk_wipe(&files, w->plan->dir, w->reason));
    TRY(rlog_disk_create(&files, w->plan->dir, &identity, w->reason));
    TRY(folder_new(fs, w->plan->dir, &w->disk));
    w->disk->identity = identity;
    reason_set(w->reason, "%s/slot: it cannot be written", w->plan->dir);
    TRY(vote_file_load(w->disk, &found));
    w->disk->vote_record = found.record;
    struct vote_record record = {.seq = found.record.seq + 1, .term = w->term, .vote = w->id};
    return vote_file_write(w->disk, &record);
}

static enum status copy_rest(struct fs_file *from, struct fs_file *to)
{
    uint64_t at = SNAP_HEADER;
    size_t got = 0;
    uint8_t *piece = mem_alloc(COPY_BYTES);
    enum status st = piece != NULL ? ST_OK : ST_NOMEM;
    do {
        if (st == ST_OK)
            st = fs_read_at(from, piece, COPY_BYTES, at, &got);
        struct bytes part = bytes_of(piece, got);
        if (st == ST_OK && got != 0)
            st = fs_write_at(to, &part, 1, at);
        at += got;
    } while (st == ST_OK && got != 0);
    mem_free(piece);
    return st;
}

/* Copy the content of the snapshot behind a header with the new configuration. */
static enum status copy_open(struct writing *w, struct fs_file *from, struct fs_file *to)
{
    uint8_t header[SNAP_HEADER];
    struct rlog_snapshot_meta meta = w->from->loaded.snapshot;
    struct bytes part = bytes_of(header, sizeof header);
    ASSERT(meta.index > 0 && w->conf.len > 0);
    meta.conf_len = w->conf.len;
    memset(meta.conf, 0, sizeof meta.conf);
    memcpy(meta.conf, w->conf.bytes, w->conf.len);
    snap_header_encode(&meta, header);
    TRY(fs_set_size(to, 0));
    TRY(fs_write_at(to, &part, 1, 0));
    TRY(copy_rest(from, to));
    return disk_sync(to); /* write_log reads the copy back */
}

static enum status snapshot_copy(struct writing *w)
{
    const struct rlog_snapshot_meta *meta = &w->from->loaded.snapshot;
    char source[DISK_PATH_MAX], target[DISK_PATH_MAX];
    struct fs_file *from = NULL, *to = NULL;
    if (meta->index == 0)
        return ST_OK;
    ASSERT(w->disk->identity.id == w->id);
    snapshot_path(w->from->disk, meta->index, meta->term, source);
    snapshot_path(w->disk, meta->index, meta->term, target);
    reason_set(w->reason, "%s: the snapshot cannot be copied", w->plan->dir);
    enum status st = fs_open(w->disk->fs, source, FS_READ, &from);
    if (st == ST_OK)
        st = fs_open(w->disk->fs, target, FS_READ | FS_WRITE | FS_CREATE, &to);
    if (st == ST_OK)
        st = copy_open(w, from, to);
    fs_close(from);
    fs_close(to);
    TRY(st);
    return disk_sync_dir(w->disk, "snap");
}

static enum status write_entries(struct writing *w, unsigned n, uint64_t bytes)
{
    struct batch_plan plan = {.first = w->next, .entries = w->entries, .n = n, .bytes = bytes};
    ASSERT(n <= BATCH_ENTRIES_MAX);
    if (n == 0)
        return ST_OK;
    w->next += n;
    return tail_write(w->disk, &plan, w->reason);
}

/* The entries behind the snapshot, each configuration replaced by the new one. */
static enum status copy_log(struct writing *w)
{
    const struct rlog_loaded *l = &w->from->loaded;
    uint64_t bytes = 0;
    unsigned n = 0;
    w->next = MAX(l->first, l->snapshot.index + 1);
    ASSERT(w->disk->tail.last + 1 == w->next);
    for (uint64_t i = w->next - l->first; i < l->n; i++) {
        const struct rlog_entry *e = &l->entries[i];
        uint64_t size = ENTRY_HEADER + (e->type == RLOG_CHANGE ? w->conf.len : e->data.len);
        bool change = e->type == RLOG_CHANGE;
        if (n == BATCH_ENTRIES_MAX || bytes + size > BATCH_BYTES || (change && n != 0)) {
            TRY(write_entries(w, n, bytes));
            n = 0;
            bytes = 0;
        }
        if (change) { /* in a batch of its own, because the entry is made here */
            w->changed.term = e->term;
            w->entries[0] = &w->changed;
            TRY(write_entries(w, 1, size));
            continue;
        }
        w->entries[n++] = e;
        bytes += size;
    }
    return write_entries(w, n, bytes);
}

/* The entries of the new term: the configuration, and the transaction of the caller. */
static enum status end_log(struct writing *w)
{
    CLEANUP(buf_done) struct buf command = {0};
    TRY(rlog_entry_encode(RLOG_FEATURE_FIRST, 0, &w->plan->txn, 1, &command));
    ASSERT(w->next == w->from->survey.last.index + 1);
    struct rlog_entry end = {.term = w->term, .type = RLOG_COMMAND, .data = buf_bytes(&command)};
    w->changed.term = w->term;
    w->entries[0] = &w->changed;
    w->entries[1] = &end;
    TRY(write_entries(w, 2, 2 * ENTRY_HEADER + w->conf.len + end.data.len));
    TRY(tail_mark(w->disk, BATCH_CLEAN, w->reason));
    struct vote_record record = w->disk->vote_record;
    record.seq++;
    record.log_seq = w->disk->tail.seq;
    return vote_file_write(w->disk, &record);
}

static enum status write_log(struct writing *w)
{
    struct rlog_loaded empty;
    ASSERT(w->entries == NULL);
    w->changed =
        (struct rlog_entry){.type = RLOG_CHANGE, .data = bytes_of(w->conf.bytes, w->conf.len)};
    TRY(disk_load(w->disk, &empty, w->reason));
    bool fits =
        !empty.corrupt && empty.n == 0 && empty.snapshot.index == w->from->loaded.snapshot.index;
    rlog_loaded_done(&empty);
    if (!fits) {
        reason_set(w->reason, "%s: the copied snapshot cannot be used", w->plan->dir);
        return ST_CORRUPT;
    }
    w->entries = mem_alloc(BATCH_ENTRIES_MAX * sizeof *w->entries);
    enum status st = w->entries != NULL ? copy_log(w) : ST_NOMEM;
    if (st == ST_OK)
        st = end_log(w);
    mem_free(w->entries);
    return st;
}

/* Read the new folder as a start will. */
static enum status verify_new(struct writing *w, struct rlog_position *ret_last)
{
    struct rlog_survivor back = {0};
    ASSERT(w->disk->tail.last == w->from->survey.last.index + 2);
    TRY(folder_new(w->disk->fs, w->plan->dir, &back.disk));
    enum status st = survivor_read(&back, w->reason);
    if (st == ST_OK && (back.survey.last.index != w->from->survey.last.index + 2 ||
                        back.survey.last.term != w->term || back.survey.n_members != 1 ||
                        back.survey.identity.id != w->id)) {
        reason_set(w->reason, "%s: what was written is not what is read", w->plan->dir);
        st = ST_CORRUPT;
    }
    *ret_last = back.survey.last;
    rlog_loaded_done(&back.loaded);
    folder_free(back.disk);
    return st;
}

enum status rlog_survivor_recover(struct rlog_survivor *survivor,
                                  const struct rlog_recover_plan *plan,
                                  struct rlog_position *ret_last, struct reason *reason)
{
    struct writing w = {.from = survivor,
                        .plan = plan,
                        .id = planted(PLANT_RECOVER_SAME_ID) ? survivor->survey.identity.id
                                                             : plan->id,
                        .term = survivor->survey.term + 1,
                        .reason = reason};
    ASSERT(plan->id != 0);
    ASSERT(plan->id != survivor->survey.identity.id);
    ASSERT(strcmp(plan->dir, survivor->disk->dir) != 0);
    TRY(judge_others(&w));
    TRY(conf_make(&w));
    enum status st = folder_make(&w);
    if (st == ST_OK)
        st = snapshot_copy(&w);
    if (st == ST_OK)
        st = write_log(&w);
    if (st == ST_OK)
        st = verify_new(&w, ret_last);
    folder_free(w.disk);
    return st;
}
