/* Where a stream begins: at a version that this cluster had, and made by the same record (PROTOCOL
 * R19). A cluster that lost a majority, or went back to an older copy of its disks, writes versions
 * a second time. */
#include "cluster/dr/serve/serve_internal.h"

#include "cluster/membership/wait.h"
#include "raft/txn/rlog_wal.h"

enum { CONFIRM_MS = 5000, APPLY_MS = 1000 };

/* A linearizable read: afterwards this node has every write that was acknowledged before. */
struct confirm {
    struct env_task task;
    struct wait wait;
    struct rlog_read read;
    struct part_host *host;
};

static void on_confirmed(struct rlog_read *read, enum status st)
{
    struct confirm *c = CONTAINER_OF(read, struct confirm, read);
    wait_end(&c->wait, st);
}

static void confirm_on_raft(struct env_task *task)
{
    struct confirm *c = CONTAINER_OF(task, struct confirm, task);
    if (c->host->stopping || c->host->replica_closed) {
        wait_end(&c->wait, ST_CLOSED);
        return;
    }
    c->read.done = on_confirmed;
    c->read.deadline_ms = env_mono_ms(c->host->env) + CONFIRM_MS;
    rlog_read(c->host->rlog, &c->read);
}

static bool refuse(struct dr_session *s, struct dr_refuse *r, enum dr_refusal code)
{
    *r = (struct dr_refuse){.code = (uint8_t)code, .epoch = s->role.epoch};
    return false;
}

bool dr_session_place(struct dr_session *s, struct dr_refuse *ret_refuse)
{
    struct rlog_wal *wal = rlog_wal(s->dr->host->rlog);
    struct rlog_wal_place place;
    if (s->hello.purpose != DR_STREAM)
        return true;
    enum status st = rlog_wal_find(wal, s->hello.position, &place);
    if (st == ST_NOT_FOUND) {
        struct confirm c = {.task = {.run = confirm_on_raft}, .host = s->dr->host};
        if (wait_for(&c.wait, s->dr->host->env, &c.task) != ST_OK)
            return refuse(s, ret_refuse, DR_REFUSE_BUSY); /* another node may know */
        rlog_wal_wait(wal, s->hello.position - 1, APPLY_MS, &s->stop);
        st = rlog_wal_find(wal, s->hello.position, &place);
    }
    if (st == ST_NOT_FOUND)
        return refuse(s, ret_refuse, DR_REFUSE_AHEAD);
    s->record_ms = place.time_ms;
    bool same =
        place.time_ms == 0 || s->hello.record_ms == 0 || place.time_ms == s->hello.record_ms;
    return same ? true : refuse(s, ret_refuse, DR_REFUSE_DIVERGED);
}
