#include "node/reseal.h"

#include "base/trace.h"
#include "state/state_core.h"

#include <stdatomic.h>
#include <stdio.h>

/* Whether this node is active and its previous key wraps the root key. */
static bool is_pending(const struct reseal *r)
{
    struct seal_info info;
    const struct seal *seal = r->seal;
    if (r->host->active_term == 0 || r->host->stopping || seal == NULL || seal->previous == NULL)
        return false;
    return state_seal_info(rlog_store(r->host->rlog), &info) == ST_OK && info.type == SEAL_STATIC &&
           strcmp(info.id, seal->previous->id) == 0;
}

/* Add the name of a member to the list of those that the change waits for. */
static void add_name(char *list, size_t room, const char *name)
{
    size_t len = strlen(list);
    /* a list that is cut off is still useful */
    (void)snprintf(list + len, room - len, "%s%s", len != 0 ? ", " : "", name);
}

/* The members that are not known to be configured for this node's key. */
static void list_missing(const struct reseal *r, const struct rlog_status *raft, char *ret_list,
                         size_t room)
{
    ASSERT(raft->n_members <= RLOG_MEMBERS_MAX && room > 0);
    ret_list[0] = '\0';
    for (unsigned i = 0; i < raft->n_members; i++) {
        const struct rlog_member *m = &raft->members[i];
        if (m->id != r->host->id && !peers_has_seal(r->peers, m->id, r->host->options->seal_mark))
            add_name(ret_list, room, m->name);
    }
}

static void keep_why(struct reseal *r, const struct reason *why)
{
    bool news = strcmp(why->text, r->why.text) != 0; /* written by this thread alone */
    pthread_mutex_lock(&r->lock);
    r->why = *why;
    pthread_mutex_unlock(&r->lock);
    if (news && why->text[0] != '\0')
        trace(TRACE_WARN, "node", "%s", why->text);
}

static void reseal_changed(void *self, const struct rlog_status *raft)
{
    struct reseal *r = self;
    struct reason why = {{0}};
    char missing[96];
    bool due = false;
    ASSERT(part_on_thread(r->host));
    if (is_pending(r)) {
        list_missing(r, raft, missing, sizeof missing);
        due = missing[0] == '\0' && raft->members_committed;
        if (missing[0] != '\0')
            reason_set(&why,
                       "the cluster keeps the seal key '%.40s' until these members are started "
                       "with '%.40s', or removed: %s",
                       r->seal->previous->id, r->seal->id, missing);
    }
    keep_why(r, &why);
    atomic_store(&r->due, due);
}

bool reseal_is_due(const struct reseal *r)
{
    return atomic_load(&r->due);
}

void reseal_why(struct reseal *r, struct reason *ret_why)
{
    pthread_mutex_lock(&r->lock);
    *ret_why = r->why;
    pthread_mutex_unlock(&r->lock);
}

static enum status reseal_start(void *self, struct part_host *host)
{
    struct reseal *r = self;
    ASSERT(r->host == NULL && r->peers != NULL);
    if (pthread_mutex_init(&r->lock, NULL) != 0)
        return ST_NOMEM;
    r->host = host;
    return ST_OK;
}

void reseal_done(struct reseal *r)
{
    if (r->host != NULL)
        (void)pthread_mutex_destroy(&r->lock); /* no thread holds the lock */
    r->host = NULL;
}

const struct part reseal_part = {
    .name = "reseal", .start = reseal_start, .changed = reseal_changed};
