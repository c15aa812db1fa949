#include "api/scheduler/sched_record.h"

#include "state/ns_key.h"
#include "state/state_record.h"
#include "text/json.h"
#include "text/random.h"

#include <inttypes.h>
#include <stdio.h>

static const struct record_field job_fields[] = {
    RECORD_FIELD(struct sched_job, version, VARINT),
    RECORD_FIELD(struct sched_job, stop, U8),
    RECORD_FIELD(struct sched_job, submit_ms, U64),
};
static const struct record job_record = {RECORD(struct sched_job, job_fields),
                                         .name = "scheduler/job", .key = "s/ns/*/sched-job/",
                                         .newest = 1};
RECORD_LISTED(job_record);

static const struct record_field plan_fields[] = {
    RECORD_FIELD(struct sched_plan, eval, TEXT0),
    RECORD_FIELD(struct sched_plan, name, TEXT0),
    RECORD_FIELD(struct sched_plan, node, TEXT0),
    RECORD_FIELD(struct sched_plan, node_name, TEXT0),
    RECORD_FIELD(struct sched_plan, job, TEXT0),
    RECORD_FIELD(struct sched_plan, group, TEXT0),
    RECORD_FIELD(struct sched_plan, job_version, VARINT),
    RECORD_FIELD(struct sched_plan, desired, U8, .max = SCHED_DESIRED - 1),
    RECORD_FIELD(struct sched_plan, desired_text, TEXT0),
    RECORD_FIELD(struct sched_plan, transition, U32),
    RECORD_FIELD(struct sched_plan, previous, TEXT0,
                 .help = "the allocation that this one replaces"),
    RECORD_FIELD(struct sched_plan, next, TEXT0, .help = "the allocation that replaces this one"),
    RECORD_FIELD(struct sched_plan, followup, TEXT0, .help = "the evaluation that will replace it"),
    RECORD_FIELD(struct sched_plan, tracker, TEXT0, .help = "JSON"),
    RECORD_FIELD(struct sched_plan, metrics, TEXT0, .help = "JSON"),
    RECORD_FIELD(struct sched_plan, ports, TEXT0, .help = "JSON"),
    RECORD_FIELD(struct sched_plan, cpu, VARINT),
    RECORD_FIELD(struct sched_plan, memory_mb, VARINT),
    RECORD_FIELD(struct sched_plan, disk_mb, VARINT),
    RECORD_FIELD(struct sched_plan, created_ms, U64),
    RECORD_FIELD(struct sched_plan, modified_ms, U64),
};
static const struct record plan_record = {RECORD(struct sched_plan, plan_fields),
                                          .name = "scheduler/plan",
                                          .key = "s/ns/*/sched-alloc/*/plan", .newest = 1};
RECORD_LISTED(plan_record);

static const struct record_field report_fields[] = {
    RECORD_FIELD(struct sched_report, status, U8, .max = SCHED_CLIENTS - 1),
    RECORD_FIELD(struct sched_report, text, TEXT0),
    RECORD_FIELD(struct sched_report, states, TEXT0, .help = "JSON"),
    RECORD_FIELD(struct sched_report, services, TEXT0, .help = "JSON"),
    RECORD_FIELD(struct sched_report, checks, TEXT0, .help = "JSON"),
    RECORD_FIELD(struct sched_report, modified_ms, U64),
};
static const struct record report_record = {RECORD(struct sched_report, report_fields),
                                            .name = "scheduler/report",
                                            .key = "s/ns/*/sched-alloc/*/node", .newest = 1};
RECORD_LISTED(report_record);

static const struct record_field eval_fields[] = {
    RECORD_FIELD(struct sched_eval, type, TEXT0),
    RECORD_FIELD(struct sched_eval, trigger, TEXT0),
    RECORD_FIELD(struct sched_eval, job, TEXT0),
    RECORD_FIELD(struct sched_eval, node, TEXT0),
    RECORD_FIELD(struct sched_eval, status, U8, .max = SCHED_EVAL_STATUSES - 1),
    RECORD_FIELD(struct sched_eval, text, TEXT0),
    RECORD_FIELD(struct sched_eval, previous, TEXT0),
    RECORD_FIELD(struct sched_eval, next, TEXT0),
    RECORD_FIELD(struct sched_eval, blocked, TEXT0),
    RECORD_FIELD(struct sched_eval, failed, TEXT0, .help = "JSON"),
    RECORD_FIELD(struct sched_eval, queued, TEXT0, .help = "JSON"),
    RECORD_FIELD(struct sched_eval, job_modified, VARINT),
    RECORD_FIELD(struct sched_eval, priority, VARINT),
    RECORD_FIELD(struct sched_eval, created_ms, U64),
    RECORD_FIELD(struct sched_eval, modified_ms, U64),
    RECORD_FIELD(struct sched_eval, wait_until_ms, U64, .help = "not before this time"),
};
static const struct record eval_record = {RECORD(struct sched_eval, eval_fields),
                                          .name = "scheduler/eval", .key = "s/ns/*/sched-eval/",
                                          .newest = 1};
RECORD_LISTED(eval_record);

static const struct record_field node_fields[] = {
    RECORD_FIELD(struct sched_node, name, TEXT0),
    RECORD_FIELD(struct sched_node, datacenter, TEXT0),
    RECORD_FIELD(struct sched_node, pool, TEXT0),
    RECORD_FIELD(struct sched_node, class_name, TEXT0),
    RECORD_FIELD(struct sched_node, accessor, TEXT0, .help = "of the node's token"),
    RECORD_FIELD(struct sched_node, facts, TEXT0, .help = "JSON"),
    RECORD_FIELD(struct sched_node, cpu, VARINT),
    RECORD_FIELD(struct sched_node, memory_mb, VARINT),
    RECORD_FIELD(struct sched_node, disk_mb, VARINT),
};
static const struct record node_record = {RECORD(struct sched_node, node_fields),
                                          .name = "scheduler/node", .key = "s/ns/*/sched-node/",
                                          .newest = 1};
RECORD_LISTED(node_record);

static const struct record_field now_fields[] = {
    RECORD_FIELD(struct sched_node, status, U8, .max = SCHED_NODE_STATUSES - 1),
    RECORD_FIELD(struct sched_node, ineligible, U8),
    RECORD_FIELD(struct sched_node, status_ms, U64),
};
static const struct record now_record = {RECORD(struct sched_node, now_fields),
                                         .name = "scheduler/node-now",
                                         .key = "s/ns/*/sched-node-now/", .newest = 1};
RECORD_LISTED(now_record);

/* Names */

const char *sched_desired_name(unsigned desired)
{
    static const char *const names[] = {"run", "stop", "evict"};
    ASSERT(desired < ARRAY_LEN(names));
    return names[desired];
}

static const char *const clients[] = {"pending", "running", "complete",
                                      "failed",  "lost",    "unknown"};

const char *sched_client_name(unsigned status)
{
    ASSERT(status < ARRAY_LEN(clients));
    return clients[status];
}

bool sched_client_find(struct bytes name, uint8_t *ret_status)
{
    for (uint8_t i = 0; i < ARRAY_LEN(clients); i++)
        if (text_is(name, clients[i])) {
            *ret_status = i;
            return true;
        }
    return false;
}

bool sched_client_ended(unsigned status)
{
    return status == SCHED_COMPLETE || status == SCHED_FAILED || status == SCHED_LOST;
}

const char *sched_eval_status_name(unsigned status)
{
    static const char *const names[] = {"pending", "blocked", "complete", "failed", "canceled"};
    ASSERT(status < ARRAY_LEN(names));
    return names[status];
}

const char *sched_node_status_name(unsigned status)
{
    static const char *const names[] = {"initializing", "ready", "down"};
    ASSERT(status < ARRAY_LEN(names));
    return names[status];
}

/* Keys */

enum status sched_key(struct arena *arena, const char *kind, const char *first, const char *second,
                      struct bytes *ret_key)
{
    return state_ns_key(arena, STATE_NS_ROOT, kind, bytes_str(first), second, ret_key);
}

static enum status spec_key(struct arena *arena, const char *id, uint64_t version,
                            struct bytes *ret_key)
{
    char text[17];
    (void)snprintf(text, sizeof text, "%016" PRIx64, version); /* has its length always */
    return sched_key(arena, "sched-spec", text, id, ret_key);
}

static enum status put(struct state_txn *txn, const char *kind, const char *id,
                       const struct record *record, const void *from)
{
    struct bytes key;
    TRY(sched_key(txn->arena, kind, id, NULL, &key));
    return state_put_record(txn, key, record, from);
}

/* Read a record and its versions. */
static enum status get(struct state_txn *txn, struct bytes key, const struct record *record,
                       void *ret, struct state_value *ret_value)
{
    TRY(state_get(txn, key, ret_value));
    return record_decode(record, ret_value->value, txn->arena, ret);
}

enum status sched_uuid(struct state_txn *txn, const char **ret_uuid)
{
    char *uuid = arena_alloc(txn->arena, SCHED_UUID_LEN + 1);
    if (uuid == NULL)
        return ST_NOMEM;
    text_uuid(state_env(txn->state), uuid);
    *ret_uuid = uuid;
    return ST_OK;
}

/* Jobs */

enum status sched_spec_load(struct state_txn *txn, const char *id, uint64_t version,
                            const struct text_value **ret_spec, uint64_t *ret_modified)
{
    struct state_value value;
    struct bytes key;
    TRY(spec_key(txn->arena, id, version, &key));
    TRY(state_get(txn, key, &value));
    *ret_modified = value.modified;
    enum status st = text_json_parse(txn->arena, value.value, ret_spec, NULL);
    return st == ST_INVALID ? ST_CORRUPT : st;
}

enum status sched_job_load(struct state_txn *txn, const char *id, struct sched_job *ret_job)
{
    struct sched_job job = {.id = id};
    struct state_value value;
    struct bytes key;
    size_t len = strlen(id);
    if (len == 0 || len > SCHED_JOB_ID_MAX)
        return ST_NOT_FOUND;
    TRY(sched_key(txn->arena, "sched-job", id, NULL, &key));
    TRY(get(txn, key, &job_record, &job, &value));
    job.created = value.created;
    job.modified = value.modified;
    TRY(sched_spec_load(txn, id, job.version, &job.spec, &job.spec_modified));
    *ret_job = job;
    return ST_OK;
}

enum status sched_job_put(struct state_txn *txn, const struct sched_job *job)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct text_writer w = {.out = &text, .plain = true};
    struct bytes key;
    TRY(put(txn, "sched-job", job->id, &job_record, job));
    TRY(spec_key(txn->arena, job->id, job->version, &key));
    text_put_value(&w, job->spec);
    TRY(buf_status(&text));
    return state_put(txn, key, buf_bytes(&text));
}

/* Allocations */

enum status sched_alloc_load(struct state_txn *txn, const char *id, struct sched_alloc *ret_alloc)
{
    struct sched_alloc alloc = {.id = id, .report = {"No tasks have started", "", "", "", 0, 0}};
    struct state_value value;
    struct bytes key;
    TRY(sched_key(txn->arena, "sched-alloc", id, "plan", &key));
    TRY(get(txn, key, &plan_record, &alloc.plan, &value));
    alloc.created = value.created;
    alloc.plan_modified = alloc.modified = value.modified;
    TRY(sched_key(txn->arena, "sched-alloc", id, "node", &key));
    enum status st = get(txn, key, &report_record, &alloc.report, &value);
    if (st == ST_OK)
        alloc.modified = MAX(alloc.modified, value.modified);
    else if (st != ST_NOT_FOUND)
        return st;
    *ret_alloc = alloc;
    return ST_OK;
}

enum status sched_plan_put(struct state_txn *txn, const struct sched_alloc *alloc)
{
    struct bytes key;
    TRY(sched_key(txn->arena, "sched-alloc", alloc->id, "plan", &key));
    TRY(state_put_record(txn, key, &plan_record, &alloc->plan));
    TRY(sched_key(txn->arena, "sched-node-alloc", alloc->plan.node, alloc->id, &key));
    enum status st = state_exists(txn, key);
    if (st != ST_NOT_FOUND)
        return st;
    TRY(state_put_name(txn, key, false));
    TRY(sched_key(txn->arena, "sched-job-alloc", alloc->plan.job, alloc->id, &key));
    return state_put_name(txn, key, false);
}

enum status sched_report_put(struct state_txn *txn, const struct sched_alloc *alloc)
{
    struct bytes key;
    TRY(sched_key(txn->arena, "sched-alloc", alloc->id, "node", &key));
    return state_put_record(txn, key, &report_record, &alloc->report);
}

/* The id of an allocation in a key of the kind: behind the owner, or before "/plan". Empty: the key
 * belongs to another owner. */
static struct bytes id_in(struct bytes key, struct bytes prefix, bool all)
{
    struct bytes rest = bytes_from(key, prefix.len);
    if (all && rest.len == SCHED_UUID_LEN + sizeof "/plan" - 1 && rest.data[rest.len - 1] == 'n')
        return bytes_of(rest.data, SCHED_UUID_LEN);
    return !all && rest.len == SCHED_UUID_LEN ? rest : (struct bytes){0};
}

enum status sched_ids_of(struct state_txn *txn, const char *kind, const char *owner,
                         struct sched_ids *ret_ids)
{
    struct state_iter *iter = arena_alloc(txn->arena, sizeof *iter);
    bool all = owner[0] == '\0';
    struct bytes prefix;
    TRY(sched_key(txn->arena, kind, owner, all ? NULL : "", &prefix));
    size_t room = (size_t)state_count(txn, prefix) + 1;
    *ret_ids = (struct sched_ids){arena_alloc(txn->arena, room * sizeof(char *)), 0};
    if (iter == NULL || ret_ids->items == NULL)
        return ST_NOMEM;
    TRY(state_scan(txn, prefix, (struct bytes){0}, iter));
    while (state_iter_next(iter) && ret_ids->n < room) {
        struct bytes id = id_in(iter->key, prefix, all && strcmp(kind, "sched-alloc") == 0);
        if (id.len == 0)
            continue;
        const char *text = arena_str(txn->arena, id);
        if (text == NULL)
            return ST_NOMEM;
        ret_ids->items[ret_ids->n++] = text;
    }
    return ST_OK;
}

/* Evaluations */

enum status sched_eval_load(struct state_txn *txn, const char *id, struct sched_eval *ret_eval)
{
    struct sched_eval eval = {.id = id};
    struct state_value value;
    struct bytes key;
    TRY(sched_key(txn->arena, "sched-eval", id, NULL, &key));
    TRY(get(txn, key, &eval_record, &eval, &value));
    eval.created = value.created;
    eval.modified = value.modified;
    *ret_eval = eval;
    return ST_OK;
}

static enum status queue(struct state_txn *txn, const char *kind, const char *id, bool in)
{
    struct bytes key;
    TRY(sched_key(txn->arena, kind, id, NULL, &key));
    return in ? state_put_name(txn, key, false) : state_delete(txn, key);
}

enum status sched_eval_put(struct state_txn *txn, const struct sched_eval *eval)
{
    TRY(put(txn, "sched-eval", eval->id, &eval_record, eval));
    TRY(queue(txn, "sched-queue", eval->id, eval->status == SCHED_EVAL_PENDING));
    return queue(txn, "sched-blocked", eval->id, eval->status == SCHED_EVAL_BLOCKED);
}

static int64_t priority_of(const struct text_value *spec)
{
    int64_t n = 50;
    const struct text_value *v = text_get(spec, "Priority");
    return v != NULL && text_to_int(v, &n) == ST_OK && n > 0 ? n : 50;
}

enum status sched_evaluate(struct state_txn *txn, int64_t now_ms, const struct sched_job *job,
                           const struct sched_cause *cause, const char **ret_id)
{
    const struct text_value *type = text_get(job->spec, "Type");
    struct sched_eval eval = {.type = type != NULL ? (const char *)type->text.data : "service",
                              .trigger = cause->trigger,
                              .job = job->id,
                              .node = cause->node != NULL ? cause->node : "",
                              .text = "",
                              .previous = "",
                              .next = "",
                              .blocked = "",
                              .failed = "",
                              .queued = "",
                              .job_modified = job->spec_modified,
                              .priority = (uint64_t)priority_of(job->spec),
                              .created_ms = now_ms,
                              .modified_ms = now_ms,
                              .wait_until_ms = cause->wait_until_ms};
    TRY(sched_uuid(txn, &eval.id));
    *ret_id = eval.id;
    return sched_eval_put(txn, &eval);
}

enum status sched_unblock(struct state_txn *txn, int64_t now_ms)
{
    struct sched_ids ids;
    TRY(sched_ids_of(txn, "sched-blocked", "", &ids));
    for (size_t i = 0; i < ids.n; i++) {
        struct sched_eval eval;
        TRY(sched_eval_load(txn, ids.items[i], &eval));
        eval.status = SCHED_EVAL_PENDING;
        eval.modified_ms = now_ms;
        TRY(sched_eval_put(txn, &eval));
    }
    return ST_OK;
}

/* Nodes */

enum status sched_node_load(struct state_txn *txn, const char *id, struct sched_node *ret_node)
{
    struct sched_node node = {.id = id};
    struct state_value value;
    struct bytes key;
    if (strlen(id) != SCHED_UUID_LEN)
        return ST_NOT_FOUND;
    TRY(sched_key(txn->arena, "sched-node", id, NULL, &key));
    TRY(get(txn, key, &node_record, &node, &value));
    node.created = value.created;
    node.modified = value.modified;
    TRY(sched_key(txn->arena, "sched-node-now", id, NULL, &key));
    TRY(get(txn, key, &now_record, &node, &value));
    node.modified = MAX(node.modified, value.modified);
    *ret_node = node;
    return ST_OK;
}

enum status sched_node_put(struct state_txn *txn, const struct sched_node *node)
{
    return put(txn, "sched-node", node->id, &node_record, node);
}

enum status sched_node_now_put(struct state_txn *txn, const struct sched_node *node)
{
    return put(txn, "sched-node-now", node->id, &now_record, node);
}
