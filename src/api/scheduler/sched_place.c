/* One evaluation: what a job has is compared with what it asks for; what is too much is stopped,
 * what is missing is placed. All of it is one transaction: its preconditions are the job, its
 * allocations, and every node that it looked at with what is taken there. So nothing is placed
 * twice or over capacity, also with two active nodes at once. */
#include "api/scheduler/sched_node_view.h"
#include "api/scheduler/sched_spec.h"
#include "api/scheduler/scheduler.h"

#include <stdio.h>
#include <stdlib.h>

enum { NODES_MAX = 1024, PLACED_MAX = 200 };

struct placer {
    struct state_txn *txn;
    struct sched_eval *eval;
    int64_t now_ms;
    struct sched_job job;
    bool gone; /* the job is stopped or purged */
    struct sched_alloc *allocs;
    bool *keeps; /* the allocation keeps its name */
    size_t n_allocs;
    struct sched_specs specs; /* of their versions */
    struct node_view **nodes;
    size_t n_nodes;
    struct buf failed; /* JSON: Metrics of groups that were not placed whole */
    unsigned placed;
    bool more; /* too many for one transaction: the evaluation goes on */
};

/* Present allocations */

/* Stage that an allocation shall stop. */
static enum status stop(struct placer *p, struct sched_alloc *alloc, const char *why)
{
    alloc->plan.desired = SCHED_STOP;
    alloc->plan.desired_text = why;
    alloc->plan.modified_ms = p->now_ms;
    return sched_plan_put(p->txn, alloc);
}

/* Stage that an allocation is lost with its node. */
static enum status lose(struct placer *p, struct sched_alloc *alloc)
{
    alloc->report.status = SCHED_LOST;
    alloc->report.text = "alloc is lost since its node is down";
    alloc->report.modified_ms = p->now_ms;
    TRY(sched_report_put(p->txn, alloc));
    return stop(p, alloc, "alloc is lost since its node is down");
}

/* The index in an allocation's name, "job.group[3]". */
static int64_t index_of(const struct sched_alloc *alloc)
{
    const char *open = strrchr(alloc->plan.name, '[');
    return open != NULL ? strtol(open + 1, NULL, 10) : -1;
}

static enum status same_group(struct placer *p, const struct sched_alloc *alloc,
                              const struct text_value *group, bool *ret_same)
{
    CLEANUP(buf_done) struct buf x = {0}, y = {0};
    struct text_writer v = {.out = &x, .plain = true}, w = {.out = &y, .plain = true};
    const struct text_value *spec;
    TRY(sched_specs_get(p->txn, &p->specs, alloc, &spec));
    text_put_value(&v, spec_group(spec, alloc->plan.group));
    text_put_value(&w, group);
    TRY(buf_status(&x));
    TRY(buf_status(&y));
    /* a count does not change what runs */
    const struct text_value *old = spec_group(spec, alloc->plan.group);
    bool counts = old != NULL && spec_int(old, "Count") != spec_int(group, "Count");
    *ret_same = counts || bytes_eq(buf_bytes(&x), buf_bytes(&y));
    return ST_OK;
}

/* An allocation of another version of the job: in place, or anew. */
static enum status update(struct placer *p, struct sched_alloc *alloc,
                          const struct text_value *group, bool *ret_keeps)
{
    bool same;
    *ret_keeps = true;
    if (alloc->plan.job_version == p->job.version)
        return ST_OK;
    TRY(same_group(p, alloc, group, &same));
    if (!same && !sched_client_ended(alloc->report.status)) {
        *ret_keeps = false;
        return stop(p, alloc, "alloc is being updated due to job update");
    }
    alloc->plan.job_version = p->job.version;
    return sched_plan_put(p->txn, alloc);
}

static enum status sched_place_judge(struct placer *p, struct sched_alloc *alloc, bool *ret_keeps)
{
    const struct text_value *group = p->gone ? NULL : spec_group(p->job.spec, alloc->plan.group);
    struct sched_node node;
    bool ended = sched_client_ended(alloc->report.status);
    *ret_keeps = false;
    if (alloc->plan.desired != SCHED_RUN)
        return ST_OK;
    enum status st = sched_node_load(p->txn, alloc->plan.node, &node);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    bool down = st == ST_NOT_FOUND || node.status == SCHED_NODE_DOWN;
    if (down && !ended)
        return lose(p, alloc);
    if (group == NULL || index_of(alloc) >= spec_int(group, "Count"))
        return stop(p, alloc, "alloc not needed due to job update");
    if ((alloc->plan.transition & SCHED_MIGRATE) != 0)
        return stop(p, alloc, "alloc is being migrated");
    if (alloc->report.status == SCHED_FAILED && strcmp(alloc->plan.followup, p->eval->id) == 0)
        return stop(p, alloc, "alloc was rescheduled because it failed");
    return update(p, alloc, group, ret_keeps);
}

static enum status judge_all(struct placer *p)
{
    struct sched_ids ids;
    TRY(sched_ids_of(p->txn, "sched-job-alloc", p->eval->job, &ids));
    p->n_allocs = ids.n;
    p->allocs = arena_alloc(p->txn->arena, (ids.n + 1) * sizeof *p->allocs);
    p->keeps = arena_zalloc(p->txn->arena, ids.n + 1);
    if (p->allocs == NULL || p->keeps == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < ids.n; i++) {
        TRY(sched_alloc_load(p->txn, ids.items[i], &p->allocs[i]));
        TRY(sched_place_judge(p, &p->allocs[i], &p->keeps[i]));
    }
    return ST_OK;
}

/* Missing allocations */

static enum status load_nodes(struct placer *p)
{
    struct sched_ids ids;
    if (p->nodes != NULL)
        return ST_OK;
    TRY(sched_ids_of(p->txn, "sched-node", "", &ids));
    p->n_nodes = MIN(ids.n, (size_t)NODES_MAX);
    p->nodes = arena_alloc(p->txn->arena, (p->n_nodes + 1) * sizeof(struct node_view *));
    if (p->nodes == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < p->n_nodes; i++) {
        p->nodes[i] = arena_alloc(p->txn->arena, sizeof **p->nodes);
        if (p->nodes[i] == NULL)
            return ST_NOMEM;
        TRY(node_view_load(p->txn, ids.items[i], p->eval->job, p->nodes[i]));
    }
    return ST_OK;
}

static void put_count(struct text_writer *w, const char *name, const char *key, unsigned n)
{
    text_key(w, name);
    if (n == 0) {
        text_put_raw(w, BYTES("null"));
        return;
    }
    text_open_object(w);
    text_member_int(w, key, n);
    text_close(w);
}

static void put_metrics(struct text_writer *w, const struct placer *p, const struct finding *f,
                        const struct node_view *best)
{
    text_open_object(w);
    text_member_int(w, "NodesEvaluated", f->evaluated);
    text_member_int(w, "NodesFiltered", f->filtered);
    text_member_int(w, "NodesInPool", f->in_pool);
    text_member_str(w, "NodePool", p->gone ? "" : spec_text(p->job.spec, "NodePool"));
    text_key(w, "NodesAvailable");
    text_put_raw(w, BYTES("{}"));
    text_member_null(w, "ClassFiltered");
    put_count(w, "ConstraintFiltered", f->why_filtered, f->filtered);
    text_member_int(w, "NodesExhausted", f->exhausted);
    text_member_null(w, "ClassExhausted");
    put_count(w, "DimensionExhausted", f->why_exhausted, f->exhausted);
    text_member_null(w, "QuotaExhausted");
    text_member_null(w, "ResourcesExhausted");
    text_member_null(w, "Scores");
    text_key(w, "ScoreMetaData");
    text_open_list(w);
    if (best != NULL) {
        char score[32];
        int len = snprintf(score, sizeof score, "%.6f", f->score);
        struct bytes text = bytes_of(score, (size_t)len);
        text_open_object(w);
        text_member_str(w, "NodeID", best->node.id);
        text_key(w, "Scores");
        text_open_object(w);
        text_key(w, "binpack");
        text_put_raw(w, text);
        text_close(w);
        text_key(w, "NormScore");
        text_put_raw(w, text);
        text_close(w);
    }
    text_close(w);
    text_member_int(w, "AllocationTime", 0);
    text_member_int(w, "CoalescedFailures", 0);
    text_close(w);
}

static struct node_view *sched_place_choose(const struct placer *p, const struct ask *ask,
                                            struct finding *f)
{
    struct node_view *best = NULL;
    for (size_t i = 0; i < p->n_nodes; i++) {
        double score = node_view_score(p->nodes[i], ask, f);
        if (score < 0 || (best != NULL && score <= f->score))
            continue;
        best = p->nodes[i];
        f->score = score;
    }
    return best;
}

/* The events of a replacement's tracker. */
static enum status track(struct placer *p, const struct sched_alloc *old, const char **ret_tracker)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct text_writer w = {.out = &text, .plain = true};
    const struct text_value *before = NULL;
    bool counted =
        old->report.status == SCHED_FAILED || (old->plan.transition & SCHED_RESCHEDULE) != 0;
    *ret_tracker = old->plan.tracker;
    if (!counted)
        return ST_OK;
    if (old->plan.tracker[0] != '\0')
        TRY(text_json_parse(p->txn->arena, bytes_str(old->plan.tracker), &before, NULL));
    const struct text_value *events = text_get(before, "Events");
    text_open_object(&w);
    text_key(&w, "Events");
    text_open_list(&w);
    size_t skip = events != NULL && events->n > 4 ? events->n - 4 : 0;
    for (const struct text_value *e = events != NULL ? events->first : NULL; e != NULL; e = e->next)
        if (skip > 0)
            skip--;
        else
            text_put_value(&w, e);
    text_open_object(&w);
    text_member_int(&w, "RescheduleTime", p->now_ms * 1000000);
    text_member_str(&w, "PrevAllocID", old->id);
    text_member_str(&w, "PrevNodeID", old->plan.node);
    text_member_int(&w, "Delay", 0);
    text_close(&w);
    text_close(&w);
    text_member_str(&w, "LastReschedule", "ok");
    text_close(&w);
    TRY(buf_status(&text));
    *ret_tracker = arena_str(p->txn->arena, buf_bytes(&text));
    return *ret_tracker != NULL ? ST_OK : ST_NOMEM;
}

/* The allocation that the new one of a name replaces: the newest that has no successor. */
static struct sched_alloc *predecessor(const struct placer *p, const char *name)
{
    struct sched_alloc *newest = NULL;
    for (size_t i = 0; i < p->n_allocs; i++) {
        struct sched_alloc *a = &p->allocs[i];
        if (p->keeps[i] || a->plan.next[0] != '\0' || strcmp(a->plan.name, name) != 0)
            continue;
        if (newest == NULL || a->plan.created_ms > newest->plan.created_ms)
            newest = a;
    }
    return newest;
}

/* Stage one new allocation on a node. */
static enum status sched_place_put_alloc(struct placer *p, const struct ask *ask, const char *name,
                                         struct node_view *node, const struct finding *f)
{
    CLEANUP(buf_done) struct buf metrics = {0};
    struct text_writer w = {.out = &metrics, .plain = true};
    struct sched_alloc *old = predecessor(p, name);
    struct sched_alloc new = {.id = NULL};
    new.plan = (struct sched_plan){.eval = p->eval->id,
                                   .name = name,
                                   .node = node->node.id,
                                   .node_name = node->node.name,
                                   .job = p->eval->job,
                                   .group = spec_text(ask->group, "Name"),
                                   .desired_text = "",
                                   .previous = old != NULL ? old->id : "",
                                   .next = "",
                                   .followup = "",
                                   .tracker = "",
                                   .job_version = p->job.version,
                                   .cpu = ask->cpu,
                                   .memory_mb = ask->memory_mb,
                                   .disk_mb = ask->disk_mb,
                                   .created_ms = p->now_ms,
                                   .modified_ms = p->now_ms};
    TRY(sched_uuid(p->txn, &new.id));
    TRY(node_view_take(p->txn->arena, node, ask, &new.plan.ports));
    put_metrics(&w, p, f, node);
    TRY(buf_status(&metrics));
    new.plan.metrics = arena_str(p->txn->arena, buf_bytes(&metrics));
    if (new.plan.metrics == NULL)
        return ST_NOMEM;
    if (old != NULL) {
        TRY(track(p, old, &new.plan.tracker));
        old->plan.next = new.id;
        TRY(sched_plan_put(p->txn, old));
    }
    p->placed++;
    return sched_plan_put(p->txn, &new);
}

static bool is_taken(const struct placer *p, const char *name)
{
    for (size_t i = 0; i < p->n_allocs; i++)
        if (p->keeps[i] && strcmp(p->allocs[i].plan.name, name) == 0)
            return true;
    return false;
}

static enum status place_group(struct placer *p, const struct text_value *group,
                               struct text_writer *failed)
{
    struct ask ask;
    ask_of(p->job.spec, group, &ask);
    for (int64_t i = 0; i < spec_int(group, "Count") && !p->more; i++) {
        struct finding f = {.why_filtered = "", .why_exhausted = ""};
        const char *name = arena_format(p->txn->arena, "%s.%s[%lld]", p->job.id,
                                        spec_text(group, "Name"), (long long)i);
        if (name == NULL)
            return ST_NOMEM;
        if (is_taken(p, name))
            continue;
        TRY(load_nodes(p));
        struct node_view *node = sched_place_choose(p, &ask, &f);
        enum status st = node != NULL ? sched_place_put_alloc(p, &ask, name, node, &f) : ST_BUSY;
        if (st == ST_BUSY) {
            text_key(failed, spec_text(group, "Name"));
            put_metrics(failed, p, &f, NULL);
            return ST_OK;
        }
        TRY(st);
        p->more = p->placed == PLACED_MAX;
    }
    return ST_OK;
}

/* The end */

/* Whether another evaluation of the job waits for capacity. */
static enum status has_blocked(struct placer *p, bool *ret_has)
{
    struct sched_ids ids;
    *ret_has = false;
    TRY(sched_ids_of(p->txn, "sched-blocked", "", &ids));
    for (size_t i = 0; i < ids.n && !*ret_has; i++) {
        struct sched_eval eval;
        TRY(sched_eval_load(p->txn, ids.items[i], &eval));
        *ret_has = strcmp(eval.job, p->eval->job) == 0 && strcmp(eval.id, p->eval->id) != 0;
    }
    return ST_OK;
}

/* Some groups were not placed whole: an evaluation waits for capacity. */
static enum status block(struct placer *p)
{
    struct sched_eval *eval = p->eval, blocked = *eval;
    bool has;
    eval->failed = arena_str(p->txn->arena, buf_bytes(&p->failed));
    if (eval->failed == NULL)
        return ST_NOMEM;
    TRY(has_blocked(p, &has));
    if (has)
        return ST_OK;
    if (strcmp(eval->trigger, "queued-allocs") == 0) {
        eval->status = SCHED_EVAL_BLOCKED;
        return ST_OK;
    }
    TRY(sched_uuid(p->txn, &blocked.id));
    blocked.trigger = "queued-allocs";
    blocked.text = "created to place remaining allocations";
    blocked.previous = eval->id;
    blocked.status = SCHED_EVAL_BLOCKED;
    blocked.wait_until_ms = 0;
    blocked.created_ms = blocked.modified_ms = p->now_ms;
    eval->blocked = blocked.id;
    return sched_eval_put(p->txn, &blocked);
}

static enum status sched_place_carry_out(struct placer *p)
{
    struct text_writer failed = {.out = &p->failed, .plain = true};
    enum status st = sched_job_load(p->txn, p->eval->job, &p->job);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    p->gone = st == ST_NOT_FOUND || p->job.stop;
    TRY(judge_all(p));
    text_open_object(&failed);
    if (!p->gone) {
        const struct text_value *groups = text_get(p->job.spec, "TaskGroups");
        TEXT_FOR (group, groups)
            TRY(place_group(p, group, &failed));
    }
    text_close(&failed);
    TRY(buf_status(&p->failed));
    p->eval->modified_ms = p->now_ms;
    if (!p->more)
        p->eval->status = SCHED_EVAL_COMPLETE;
    if (!p->more && p->failed.len > 2)
        TRY(block(p));
    return sched_eval_put(p->txn, p->eval);
}

enum status sched_place(struct state_txn *txn, struct sched_eval *eval, int64_t now_ms)
{
    struct placer p = {.txn = txn, .eval = eval, .now_ms = now_ms};
    enum status st = sched_place_carry_out(&p);
    buf_done(&p.failed);
    return st;
}
