#include "raft/txn/rlog_content.h"
#include "raft/txn/rlog_machine_wal.h"
#include "raft/txn/rlog_wal.h"

#include "base/mem.h"

struct rlog_machine_load {
    struct rlog_machine *m;
    struct rlog_machine next; /* counters that were read from the header */
    struct rlog_content *content;
};

static void on_header(void *ctx, const struct rlog_machine *counters)
{
    ((struct rlog_machine_load *)ctx)->next = *counters;
}

static void on_key(void *ctx, const struct store_item *item)
{
    struct rlog_machine_load *l = ctx;
    store_load_put(l->m->store, item->key, item->value, item->created, item->modified);
}

static void on_newest(void *ctx, struct bytes at, uint64_t version)
{
    struct rlog_machine_load *l = ctx;
    store_raise_newest(l->m->store, at, version);
}

enum status rlog_machine_load_begin(struct rlog_machine *m, struct rlog_machine_load **ret)
{
    struct rlog_machine_load *l = mem_zalloc(sizeof *l);
    if (l == NULL)
        return ST_NOMEM;
    l->m = m;
    const struct rlog_content_visit visit = {on_header, on_key, on_newest, l};
    enum status st = rlog_content_begin(&visit, &l->content);
    if (st != ST_OK) {
        mem_free(l);
        return st;
    }
    store_load_reset(m->store); /* also drops the staged tree */
    m->stage = 0;
    m->staging = m->cloned = false; /* the counters stay until the new ones are published with the content */
    *ret = l;
    return ST_OK;
}

enum status rlog_machine_load_piece(struct rlog_machine_load *l, struct bytes content)
{
    ASSERT(l->content != NULL);
    return rlog_content_piece(l->content, content);
}

enum status rlog_machine_load_end(struct rlog_machine_load *l)
{
    struct rlog_machine *m = l->m;
    enum status st = rlog_content_end(l->content);
    ASSERT(!m->staging);
    ASSERT(m->stage == 0);

    if (st != ST_OK) {
        store_load_reset(m->store);
        l->next = (struct rlog_machine){0};
    }
    l->next.store = m->store;
    l->next.wal = m->wal;
    *m = l->next;
    m->following = rlog_machine_wal_following(m);
    if (st == ST_OK)
        store_publish(m->store, m->version);
    if (m->wal != NULL)
        rlog_wal_reset(m->wal, m->version);
    mem_free(l);
    return st;
}
