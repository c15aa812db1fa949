/* The step of a run (platform_run.h, platform_run_table.h). */
#include "api/platform/platform.h"
#include "api/platform/platform_lock.h"
#include "api/platform/platform_log.h"
#include "api/platform/platform_outbox.h"
#include "api/platform/platform_run.h"
#include "state/blob.h"
#include "state/feature.h"
#include "state/ns_key.h"
#include "text/time.h"

#define KEYS STATE_SHARED "platform/"

enum { EVENTS_MAX = 100 };

/* Keys */

enum status platform_run_prefix(struct state_txn *txn, const char *kind, const char *of,
                                struct bytes *ret_prefix)
{
    const char *text = arena_format(txn->arena, KEYS "%s/%s%s", kind, of, of[0] != '\0' ? "/" : "");
    if (text == NULL)
        return ST_NOMEM;
    *ret_prefix = bytes_str(text);
    return ST_OK;
}

enum status platform_run_key(struct state_txn *txn, const char *kind, const char *of,
                             int64_t time_ms, const char *id, struct bytes *ret_key)
{
    char time[STATE_TIME_DIGITS + 1];
    state_time_text(MAX(time_ms, INT64_C(1)), time);
    const char *text =
        arena_format(txn->arena, KEYS "%s/%s%s%s/%s", kind, of, of[0] != '\0' ? "/" : "", time, id);
    if (text == NULL)
        return ST_NOMEM;
    *ret_key = bytes_str(text);
    return ST_OK;
}

const char *platform_run_key_id(struct state_txn *txn, struct bytes key)
{
    const uint8_t *slash = memrchr(key.data, '/', key.len);
    ASSERT(slash != NULL);
    return arena_str(txn->arena, bytes_from(key, (size_t)(slash + 1 - key.data)));
}

/* Loading */

enum run_status platform_run_status(const struct platform_object *run)
{
    enum run_status status = RUN_ERRORED;
    (void)run_status_find(platform_text(run->attrs, "status"), &status); /* we wrote the name */
    return status;
}

enum status platform_flow_load(struct state_txn *txn, int64_t now_ms, const char *run,
                               struct platform_flow *ret_flow)
{
    struct platform_flow *flow = ret_flow;
    *flow =
        (struct platform_flow){.txn = txn, .now_ms = now_ms, .actor = "", .comment = "", .why = ""};
    TRY(platform_object_load(txn, "runs", run, &flow->run));
    TRY(platform_object_load(txn, "workspaces", flow->run.parent, &flow->ws));
    TRY(platform_object_load(txn, "plans", platform_text(flow->run.links, "plan"), &flow->plan));
    return platform_object_load(txn, "applies", platform_text(flow->run.links, "apply"),
                                &flow->apply);
}

enum status platform_flow_of_phase(struct state_txn *txn, int64_t now_ms, const char *phase,
                                   struct platform_flow *ret_flow)
{
    struct platform_object object;
    TRY(platform_object_load(txn, NULL, phase, &object));
    bool known = strcmp(object.type, "plans") == 0 || strcmp(object.type, "applies") == 0;
    return known ? platform_flow_load(txn, now_ms, object.parent, ret_flow) : ST_NOT_FOUND;
}

enum status platform_flow_put(struct platform_flow *flow)
{
    flow->run.updated_ms = flow->now_ms;
    TRY(platform_object_put(flow->txn, "", &flow->run));
    TRY(platform_object_put(flow->txn, "", &flow->plan));
    TRY(platform_object_put(flow->txn, "", &flow->apply));
    if (!flow->ws_changed)
        return ST_OK;
    flow->ws_changed = false;
    return platform_object_put(flow->txn, flow->ws.name, &flow->ws);
}

/* Guards */

bool platform_run_passes(const struct platform_object *run)
{
    return platform_flag(run->attrs, "plan-only") || platform_flag(run->attrs, "save-plan");
}

static unsigned guards_of(const struct platform_flow *flow)
{
    const struct text_value *attrs = flow->run.attrs;
    int64_t cancel_ms = platform_number(flow->run.links, "cancel-ms");
    bool changes = platform_flag(attrs, "has-changes") || platform_flag(attrs, "allow-empty-apply");
    const bool holds[RUN_GUARDS] = {
        [RUN_NOTHING_TO_APPLY] = platform_flag(attrs, "plan-only") || !changes,
        [RUN_SAVES] = platform_flag(attrs, "save-plan"),
        [RUN_AUTO_APPLIES] = platform_flag(attrs, "auto-apply"),
        [RUN_WAS_CANCELED] = cancel_ms != 0,
        [RUN_COOLED_OFF] = cancel_ms != 0 && flow->now_ms >= cancel_ms + PLATFORM_COOL_OFF_MS,
        [RUN_UNLOCKED] = !platform_is_locked(&flow->ws),
    };
    unsigned guards = 0;
    for (unsigned i = 0; i < RUN_GUARDS; i++)
        guards |= (unsigned)holds[i] << i;
    return guards;
}

bool platform_run_takes(const struct platform_flow *flow, enum run_event event)
{
    return run_row_find(platform_run_status(&flow->run), event, guards_of(flow)) != NULL;
}

/* Times */

static enum status set_time(struct platform_flow *flow, struct platform_object *object,
                            const char *name)
{
    struct arena *arena = flow->txn->arena;
    const struct text_value *former = text_get(object->attrs, "status-timestamps");
    struct text_value *times = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0});
    uint8_t text[TEXT_TIME_MAX];
    const char *now = arena_str(arena, bytes_of(text, text_time(flow->now_ms, text)));
    if (times == NULL || now == NULL)
        return ST_NOMEM;
    if (former != NULL && former->kind == TEXT_OBJECT)
        TEXT_FOR (v, former)
            TRY(platform_set(arena, times, (const char *)v->name.data, v));
    TRY(platform_set_text(arena, times, name, now));
    return platform_set(arena, object->attrs, "status-timestamps", times);
}

/* Note what happened, for run-events. */
static enum status note_event(struct platform_flow *flow, const char *action)
{
    struct arena *arena = flow->txn->arena;
    const struct text_value *former = text_get(flow->run.links, "events");
    struct text_value *events = text_value_new(arena, NULL, TEXT_LIST, (struct bytes){0});
    if (events == NULL)
        return ST_NOMEM;
    if (former != NULL && former->kind == TEXT_LIST && former->n < EVENTS_MAX)
        TEXT_FOR (v, former) {
            struct text_value *copy = text_value_new(arena, events, v->kind, v->name);
            if (copy == NULL)
                return ST_NOMEM;
            copy->first = v->first;
            copy->last = v->last;
            copy->n = v->n;
        }
    struct text_value *event = text_value_new(arena, events, TEXT_OBJECT, (struct bytes){0});
    if (event == NULL)
        return ST_NOMEM;
    TRY(platform_set_text(arena, event, "action", action));
    TRY(platform_set_text(arena, event, "by", flow->actor));
    TRY(platform_set_text(arena, event, "text", flow->why[0] != '\0' ? flow->why : flow->comment));
    TRY(platform_set_number(arena, event, "at", flow->now_ms));
    return platform_set(arena, flow->run.links, "events", events);
}

/* Phases */

static enum run_phase_status phase_status(const struct platform_object *phase)
{
    const char *name = platform_text(phase->attrs, "status");
    for (unsigned i = 0; i <= RUN_PHASE_UNREACHABLE; i++)
        if (strcmp(run_phase_status_name((enum run_phase_status)i), name) == 0)
            return (enum run_phase_status)i;
    return RUN_PHASE_ERRORED;
}

/* The key of a phase that waits for a worker. */
static enum status job_key(struct platform_flow *flow, const struct platform_object *phase,
                           struct bytes *ret_key)
{
    bool plan = strcmp(phase->type, "plans") == 0;
    const char *rank = !plan ? "0" : platform_flag(flow->run.attrs, "plan-only") ? "2" : "1";
    const char *pool = platform_text(flow->run.links, "pool");
    const char *of = arena_format(flow->txn->arena, "%s/%s", pool, rank);
    if (of == NULL)
        return ST_NOMEM;
    return platform_run_key(flow->txn, "job", of, flow->run.created_ms, phase->id, ret_key);
}

enum status platform_lease_set(struct state_txn *txn, struct platform_object *phase,
                               int64_t until_ms)
{
    struct bytes key;
    int64_t former_ms = platform_number(phase->links, "lease-ms");
    if (former_ms == until_ms)
        return ST_OK;
    if (former_ms != 0) {
        TRY(platform_run_key(txn, "lease", "", former_ms, phase->id, &key));
        TRY(state_delete(txn, key));
    }
    TRY(platform_set_number(txn->arena, phase->links, "lease-ms", until_ms));
    if (until_ms == 0)
        return ST_OK;
    TRY(platform_run_key(txn, "lease", "", until_ms, phase->id, &key));
    return state_put_name(txn, key, false);
}

/* Take the phase from its worker: lease, claim and token end. */
static enum status end_claim(struct platform_flow *flow, struct platform_object *phase)
{
    const struct auth_scope scope = {.txn = flow->txn,
                                     .cipher = flow->txn->cipher,
                                     .ns = STATE_NS_ROOT,
                                     .now_ms = flow->now_ms,
                                     .kind = TOKEN_PLATFORM};
    const char *token = platform_text(phase->links, "token");
    TRY(platform_lease_set(flow->txn, phase, 0));
    if (token[0] != '\0')
        TRY(platform_token_end(&scope, token));
    TRY(platform_set_text(flow->txn->arena, phase->links, "token", ""));
    return ST_OK;
}

static enum status move_phase(struct platform_flow *flow, struct platform_object *phase,
                              enum run_status to)
{
    static const char *const times[] = {
        [RUN_PHASE_PENDING] = "pending-at",   [RUN_PHASE_QUEUED] = "queued-at",
        [RUN_PHASE_RUNNING] = "started-at",   [RUN_PHASE_FINISHED] = "finished-at",
        [RUN_PHASE_ERRORED] = "errored-at",   [RUN_PHASE_CANCELED] = "canceled-at",
        [RUN_PHASE_UNREACHABLE] = "ended-at",
    };
    bool plan = strcmp(phase->type, "plans") == 0;
    enum run_phase_status before = phase_status(phase);
    enum run_phase_status after = run_phase_after(to, plan, before);
    struct bytes key;
    if (before == after)
        return ST_OK;
    if (before == RUN_PHASE_QUEUED) {
        TRY(job_key(flow, phase, &key));
        TRY(state_delete(flow->txn, key));
    }
    if (before == RUN_PHASE_RUNNING)
        TRY(end_claim(flow, phase));
    if (after == RUN_PHASE_QUEUED) {
        TRY(job_key(flow, phase, &key));
        TRY(state_put_name(flow->txn, key, false));
    }
    if (after > RUN_PHASE_RUNNING)
        TRY(platform_log_end(flow->txn, phase->id, before == RUN_PHASE_RUNNING ? flow->why : ""));
    TRY(platform_set_text(flow->txn->arena, phase->attrs, "status", run_phase_status_name(after)));
    phase->updated_ms = flow->now_ms;
    TRY(set_time(flow, phase, times[after]));
    return to == RUN_FORCE_CANCELED && before == RUN_PHASE_RUNNING
               ? set_time(flow, phase, "force-canceled-at")
               : ST_OK;
}

/* The lock */

static enum status set_run_lock(struct platform_flow *flow, const char *type, const char *id)
{
    struct arena *arena = flow->txn->arena;
    flow->ws_changed = true;
    TRY(platform_set_text(arena, flow->ws.links, "locked-type", type));
    TRY(platform_set_text(arena, flow->ws.links, "locked-by", id));
    return platform_set_text(arena, flow->ws.links, "locked-reason", "");
}

/* Take or give back the lock as the new status asks. *ret_freed: the lock is free now. */
static enum status move_lock(struct platform_flow *flow, enum run_status to, bool *ret_freed)
{
    const char *holder = platform_text(flow->ws.links, "locked-by");
    bool own = strcmp(holder, flow->run.id) == 0;
    bool passes = platform_flag(flow->run.attrs, "plan-only") ||
                  (platform_flag(flow->run.attrs, "save-plan") && to < RUN_CONFIRMED);
    bool wants = run_state_of(to)->holds_lock && !passes;
    if (wants && !own && holder[0] == '\0')
        return set_run_lock(flow, "runs", flow->run.id);
    if (wants || !own)
        return ST_OK;
    *ret_freed = true;
    return set_run_lock(flow, "", "");
}

/* Keys of the run itself, and what only an open run has. */
static enum status move_keys(struct platform_flow *flow, enum run_status from, enum run_status to)
{
    struct state_txn *txn = flow->txn;
    struct bytes key;
    if (from == RUN_PENDING) {
        TRY(platform_run_key(txn, "queue", flow->ws.id, flow->run.created_ms, flow->run.id, &key));
        TRY(state_delete(txn, key));
    }
    if (!run_state_of(to)->final)
        return ST_OK;
    TRY(platform_run_key(txn, "open", flow->ws.parent, flow->run.created_ms, flow->run.id, &key));
    TRY(state_delete(txn, key));
    const char *file = platform_text(flow->plan.links, "plan-file");
    if (file[0] == '\0')
        return ST_OK;
    TRY(blob_delete(txn, file));
    return platform_set_text(txn->arena, flow->plan.links, "plan-file", "");
}

/* Stage one row of the table in the flow's objects. */
static enum status take_row(struct platform_flow *flow, const struct run_row *row, bool *freed)
{
    const struct run_state *state = run_state_of(row->to);
    struct arena *arena = flow->txn->arena;
    if (row->to != row->from) {
        TRY(platform_set_text(arena, flow->run.attrs, "status", state->name));
        TRY(set_time(flow, &flow->run, state->time));
        TRY(move_phase(flow, &flow->plan, row->to));
        TRY(move_phase(flow, &flow->apply, row->to));
        TRY(move_lock(flow, row->to, freed));
        TRY(move_keys(flow, row->from, row->to));
        TRY(note_event(flow, state->name));
    }
    if (row->event == RUN_START)
        TRY(platform_set_number(arena, flow->run.links, "epoch",
                                (int64_t)state_restored(flow->txn)));
    if (row->event == RUN_START && !platform_flag(flow->run.attrs, "plan-only")) {
        flow->ws_changed = true;
        TRY(platform_set_text(arena, flow->ws.links, "current-run", flow->run.id));
    }
    if (row->event == RUN_CONFIRM)
        TRY(platform_set_text(arena, flow->run.links, "confirmed-by", flow->actor));
    if (row->event == RUN_CANCEL && platform_number(flow->run.links, "cancel-ms") == 0) {
        TRY(platform_set_number(arena, flow->run.links, "cancel-ms", flow->now_ms));
        if (row->to == row->from)
            TRY(note_event(flow, "cancel_requested"));
    }
    return platform_outbox_tell(flow, row->told);
}

/* Stage a step with what follows by itself. *ret_freed: the lock of the workspace became free. */
static enum status take_step(struct platform_flow *flow, enum run_event event, bool *ret_freed)
{
    const struct run_row *row =
        run_row_find(platform_run_status(&flow->run), event, guards_of(flow));
    *ret_freed = false;
    if (row == NULL)
        return ST_EXISTS;
    while (row != NULL) {
        TRY(take_row(flow, row, ret_freed));
        flow->why = "";
        if (row->to == row->from)
            break;
        row = run_row_find(row->to, RUN_GO_ON, guards_of(flow));
    }
    return platform_flow_put(flow);
}

enum status platform_run_step(struct platform_flow *flow, enum run_event event)
{
    bool freed;
    TRY(take_step(flow, event, &freed));
    return freed ? platform_run_next(flow->txn, flow->now_ms, flow->ws.id) : ST_OK;
}

enum status platform_run_replace(struct platform_flow *holder, const char *next)
{
    struct platform_flow flow;
    bool freed;
    TRY(take_step(holder, RUN_DISCARD, &freed));
    TRY(platform_flow_load(holder->txn, holder->now_ms, next, &flow));
    flow.actor = holder->actor;
    return take_step(&flow, RUN_START, &freed);
}

/* Restores */

#define EMPTIED KEYS "outbox-restored"
#define RESTORED KEYS "restored"

/* Whether `key` does not have the version of the last restore yet. */
static enum status is_behind(struct state_txn *txn, struct bytes key, uint64_t version,
                             bool *ret_behind)
{
    struct state_value value;
    int64_t known = 0;
    enum status st = state_get(txn, key, &value);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    if (st == ST_OK && text_int_parse(value.value, &known) != ST_OK)
        return ST_CORRUPT;
    *ret_behind = (uint64_t)known < version;
    return ST_OK;
}

static enum status note_version(struct state_txn *txn, struct bytes key, uint64_t version)
{
    const char *text = arena_number(txn->arena, version);
    return text != NULL ? state_put(txn, key, bytes_str(text)) : ST_NOMEM;
}

/* Whether a restore has nothing of the platform to follow: no run is open, no row waits. */
static bool is_quiet(const struct state_txn *txn)
{
    return state_count(txn, BYTES(KEYS "open/")) == 0 &&
           state_count(txn, BYTES(PLATFORM_OUTBOX)) == 0;
}

/* The first run after a restore notes its version. While the duty has still to follow the restore,
 * a new run would be told about to an outbox that is emptied next: ST_BUSY. */
static enum status note_restore(struct state_txn *txn)
{
    uint64_t version = state_restored(txn);
    bool behind;
    TRY(is_behind(txn, BYTES(RESTORED), version, &behind));
    if (!behind)
        return ST_OK;
    if (!is_quiet(txn))
        return ST_BUSY;
    TRY(note_version(txn, BYTES(EMPTIED), version));
    return note_version(txn, BYTES(RESTORED), version);
}

/* Entering and starting */

enum status platform_run_enter(struct platform_flow *flow)
{
    struct state_txn *txn = flow->txn;
    struct bytes key;
    TRY(note_restore(txn));
    TRY(platform_object_add(txn, &flow->run));
    TRY(platform_object_add(txn, &flow->plan));
    TRY(platform_object_add(txn, &flow->apply));
    TRY(platform_run_key(txn, "open", flow->ws.parent, flow->run.created_ms, flow->run.id, &key));
    TRY(state_put_name(txn, key, false));
    TRY(platform_run_key(txn, "queue", flow->ws.id, flow->run.created_ms, flow->run.id, &key));
    TRY(state_put_name(txn, key, false));
    TRY(set_time(flow, &flow->run, run_state_of(RUN_PENDING)->time));
    TRY(note_event(flow, "created"));
    TRY(platform_outbox_tell(flow, RUN_TOLD_CREATED));
    if (platform_run_passes(&flow->run))
        return platform_run_step(flow, RUN_START);
    TRY(platform_flow_put(flow));
    enum status st = platform_run_next(txn, flow->now_ms, flow->ws.id);
    return st != ST_OK ? st : platform_object_load(txn, "runs", flow->run.id, &flow->run);
}

enum status platform_run_next(struct state_txn *txn, int64_t now_ms, const char *ws)
{
    struct platform_object workspace;
    struct platform_flow flow;
    struct state_iter iter;
    struct bytes prefix;
    TRY(platform_object_load(txn, "workspaces", ws, &workspace));
    if (platform_is_locked(&workspace))
        return ST_OK;
    TRY(platform_run_prefix(txn, "queue", ws, &prefix));
    TRY(state_scan(txn, prefix, (struct bytes){0}, &iter));
    while (state_iter_next(&iter)) {
        const char *id = platform_run_key_id(txn, iter.key);
        if (id == NULL)
            return ST_NOMEM;
        enum status st = platform_flow_load(txn, now_ms, id, &flow);
        if (st == ST_OK)
            return platform_run_step(&flow, RUN_START);
        if (st != ST_NOT_FOUND)
            return st;
    }
    return ST_OK;
}

enum status platform_run_forget(const struct auth_scope *scope,
                                const struct platform_object *object)
{
    struct state_txn *txn = scope->txn;
    struct platform_object phase = *object;
    struct bytes key;
    bool run = strcmp(object->type, "runs") == 0;
    if (strcmp(object->type, "plans") == 0 || strcmp(object->type, "applies") == 0) {
        const char *token = platform_text(object->links, "token");
        TRY(platform_lease_set(txn, &phase, 0));
        return token[0] != '\0' ? platform_token_end(scope, token) : ST_OK;
    }
    if (!run && strcmp(object->type, "configuration-versions") != 0)
        return ST_OK;
    TRY(platform_run_key(txn, "age", object->parent, object->created_ms, object->id, &key));
    TRY(state_delete(txn, key));
    if (!run)
        return ST_OK;
    struct platform_flow flow = {.txn = txn, .run = *object};
    const char *phases[] = {platform_text(object->links, "plan"),
                            platform_text(object->links, "apply")};
    TRY(platform_run_key(txn, "queue", object->parent, object->created_ms, object->id, &key));
    TRY(state_delete(txn, key));
    TRY(platform_run_key(txn, "open", platform_text(object->links, "org"), object->created_ms,
                         object->id, &key));
    TRY(state_delete(txn, key));
    for (unsigned i = 0; i < ARRAY_LEN(phases); i++) {
        phase = (struct platform_object){.id = phases[i], .type = i == 0 ? "plans" : "applies"};
        TRY(job_key(&flow, &phase, &key));
        TRY(state_delete(txn, key));
    }
    return ST_OK;
}

/* Duties */

enum status platform_leases_end(struct state_txn *txn, int64_t now_ms)
{
    struct state_walk walk;
    struct platform_flow flow;
    struct bytes prefix;
    char now[STATE_TIME_DIGITS + 1];
    bool restored;
    TRY(platform_run_prefix(txn, "lease", "", &prefix));
    state_walk(txn, prefix, &walk);
    if (now_ms <= 0 || !state_walk_next(&walk))
        return ST_OK;
    TRY(is_behind(txn, BYTES(RESTORED), state_restored(txn), &restored));
    if (restored) /* the duty below has the word */
        return ST_OK;
    state_time_text(now_ms, now);
    if (memcmp(walk.key.data + prefix.len, now, STATE_TIME_DIGITS) > 0)
        return ST_OK;
    const char *id = platform_run_key_id(txn, walk.key);
    struct bytes key = bytes_of(arena_dup(txn->arena, walk.key), walk.key.len);
    if (id == NULL || key.data == NULL)
        return ST_NOMEM;
    TRY(state_delete(txn, key));
    enum status st = platform_flow_of_phase(txn, now_ms, id, &flow);
    if (st != ST_OK) /* the workspace was deleted under its run */
        return st == ST_NOT_FOUND ? ST_OK : st;
    flow.why = "The worker was lost: its lease ended. The run is not taken up again.";
    st = platform_run_step(&flow, RUN_LOSE);
    return st == ST_EXISTS ? ST_OK : st;
}

/* The first run that was under way in the restored state; those that began since have its version.
 * ST_NOT_FOUND: there are no more. */
static enum status find_under_way(struct state_txn *txn, int64_t now_ms, uint64_t version,
                                  struct platform_flow *ret_flow)
{
    struct state_walk walk;
    struct bytes prefix;
    TRY(platform_run_prefix(txn, "open", "", &prefix));
    state_walk(txn, prefix, &walk);
    while (state_walk_next(&walk)) {
        const char *id = platform_run_key_id(txn, walk.key);
        if (id == NULL)
            return ST_NOMEM;
        enum status st = platform_flow_load(txn, now_ms, id, ret_flow);
        if (st != ST_OK && st != ST_NOT_FOUND)
            return st;
        if (st == ST_OK && run_state_of(platform_run_status(&ret_flow->run))->under_way &&
            (uint64_t)platform_number(ret_flow->run.links, "epoch") < version)
            return ST_OK;
    }
    return ST_NOT_FOUND;
}

enum status platform_runs_restored(struct state_txn *txn, int64_t now_ms)
{
    struct platform_flow flow;
    uint64_t version = state_restored(txn);
    bool full, behind, raised;
    if (version == 0 || is_quiet(txn))
        return ST_OK;
    TRY(state_has_feature(txn, PLATFORM_RUNS_FEATURE, &raised));
    if (!raised)
        return ST_OK;
    TRY(is_behind(txn, BYTES(EMPTIED), version, &full));
    if (full) { /* the rows are about the past */
        TRY(platform_outbox_empty(txn));
        return note_version(txn, BYTES(EMPTIED), version);
    }
    TRY(is_behind(txn, BYTES(RESTORED), version, &behind));
    if (!behind)
        return ST_OK;
    enum status st = find_under_way(txn, now_ms, version, &flow);
    if (st == ST_OK) {
        flow.why = "The state was restored while the run was under way.";
        return platform_run_step(&flow, RUN_LOSE);
    }
    return st == ST_NOT_FOUND ? note_version(txn, BYTES(RESTORED), version) : st;
}
