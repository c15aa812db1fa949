/* Runs: made, read, listed. Actions are in platform_run_act.c, steps in platform_step.c. */
#include "api/platform/platform_run.h"
#include "api/platform/platform.h"
#include "api/platform/platform_rows.h"

#define TYPE "runs"

enum { VARIABLES_MAX = 100, KEY_MAX_BYTES = 256, TARGETS_MAX = 100 };

static const struct platform_attr run_attrs[] = {
    {.name = "message", .max = 1000, .preset = "\"Queued by the API\""},
    {.name = "is-destroy", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "refresh", .value = PLATFORM_FLAG, .preset = "true"},
    {.name = "refresh-only", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "auto-apply", .value = PLATFORM_FLAG},
    {.name = "plan-only", .value = PLATFORM_FLAG},
    {.name = "save-plan", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "allow-empty-apply", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "allow-config-generation", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "debugging-mode", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "target-addrs", .value = PLATFORM_TEXTS, .max = TARGETS_MAX, .preset = "[]"},
    {.name = "replace-addrs", .value = PLATFORM_TEXTS, .max = TARGETS_MAX, .preset = "[]"},
    {.name = "variables",
     .value = PLATFORM_ANY,
     .preset = "[]",
     .help = "Objects with `key` and `value`; a value is a literal of the language."},
    {.name = "terraform-version", .max = 64},
    {.name = "status", .traits = PLATFORM_SHOWN, .preset = "\"pending\""},
    {.name = "status-timestamps", .value = PLATFORM_ANY, .traits = PLATFORM_SHOWN, .preset = "{}"},
    {.name = "has-changes", .value = PLATFORM_FLAG, .traits = PLATFORM_SHOWN, .preset = "false"},
    {.name = "source", .traits = PLATFORM_SHOWN, .preset = "\"tfe-api\""},
    {.name = "trigger-reason", .traits = PLATFORM_SHOWN, .preset = "\"manual\""},
};
const struct platform_kind platform_run_kind = {
    .type = TYPE, .prefix = "run-", .noun = "run", .attrs = run_attrs, .n = ARRAY_LEN(run_attrs)};

/* Showing */

static enum status put_queue_position(struct platform_view *view, const struct platform_object *run)
{
    struct state_iter iter;
    struct bytes prefix;
    int64_t position = 0, n = 0;
    if (platform_run_status(run) == RUN_PENDING) {
        TRY(platform_run_prefix(view->req->txn, "queue", run->parent, &prefix));
        TRY(state_scan(view->req->txn, prefix, (struct bytes){0}, &iter));
        while (position == 0 && state_iter_next(&iter)) {
            n++;
            const char *id = platform_run_key_id(view->req->txn, iter.key);
            if (id == NULL)
                return ST_NOMEM;
            if (strcmp(id, run->id) == 0)
                position = n;
        }
    }
    text_member_int(view->w, "position-in-queue", position);
    return ST_OK;
}

static void put_cancel(struct text_writer *w, const struct platform_object *run)
{
    int64_t cancel_ms = platform_number(run->links, "cancel-ms");
    if (cancel_ms != 0) {
        text_member_time(w, "canceled-at", cancel_ms);
        text_member_time(w, "force-cancel-available-at", cancel_ms + PLATFORM_COOL_OFF_MS);
    } else {
        text_member_null(w, "canceled-at");
        text_member_null(w, "force-cancel-available-at");
    }
}

static void put_actions(struct text_writer *w, const struct platform_flow *flow)
{
    static const struct {
        const char *name;
        enum run_event event;
    } actions[] = {{"is-cancelable", RUN_CANCEL},
                   {"is-confirmable", RUN_CONFIRM},
                   {"is-discardable", RUN_DISCARD},
                   {"is-force-cancelable", RUN_FORCE_CANCEL}};
    text_key(w, "actions");
    text_open_object(w);
    for (size_t i = 0; i < ARRAY_LEN(actions); i++)
        text_member_bool(w, actions[i].name, platform_run_takes(flow, actions[i].event));
    text_close(w);
}

static void put_run_permissions(struct text_writer *w, unsigned rights)
{
    static const struct {
        const char *name;
        unsigned right;
    } map[] = {
        {"can-apply", PLATFORM_WS_APPLY},        {"can-cancel", PLATFORM_WS_APPLY},
        {"can-comment", PLATFORM_WS_PLAN},       {"can-discard", PLATFORM_WS_APPLY},
        {"can-force-cancel", PLATFORM_WS_ADMIN}, {"can-force-execute", PLATFORM_WS_ADMIN},
        {"can-override-policy-check", 0},
    };
    text_key(w, "permissions");
    text_open_object(w);
    for (size_t i = 0; i < ARRAY_LEN(map); i++)
        text_member_bool(w, map[i].name, (rights & map[i].right) != 0);
    text_close(w);
}

static enum status show_run_more(struct platform_view *view, const struct platform_object *object)
{
    struct platform_who who = *view->who;
    struct platform_place place;
    struct platform_flow flow;
    TRY(platform_flow_load(view->req->txn, view->req->now_ms, object->id, &flow));
    enum status st = platform_ws_find(view->req, &who, object->parent, 0, &place);
    TRY(st);
    text_member_time(view->w, "created-at", object->created_ms);
    TRY(put_queue_position(view, object));
    put_cancel(view->w, object);
    put_actions(view->w, &flow);
    put_run_permissions(view->w, place.rights);
    return ST_OK;
}

static enum status show_run_relations(struct platform_view *view,
                                      const struct platform_object *object)
{
    const struct text_value *links = object->links;
    platform_put_one(view, "workspace", "workspaces", object->parent);
    platform_put_one(view, "plan", "plans", platform_text(links, "plan"));
    platform_put_one(view, "apply", "applies", platform_text(links, "apply"));
    platform_put_one(view, "configuration-version", "configuration-versions",
                     platform_text(links, "cv"));
    platform_put_one(view, "created-by", "users", platform_text(links, "created-by"));
    platform_put_one(view, "confirmed-by", "users", platform_text(links, "confirmed-by"));
    platform_put_many(view, "policy-checks");
    platform_put_many_end(view);
    platform_put_many(view, "task-stages");
    platform_put_many_end(view);
    return ST_OK;
}

static enum status include_of(struct platform_view *view, const struct platform_object *run,
                              const char *link, const struct platform_resource *resource)
{
    struct platform_object object;
    const char *id = platform_text(run->links, link);
    if (id[0] == '\0')
        return ST_OK;
    enum status st = resource == &platform_user
                         ? platform_user_load(view->req->txn, id, &object)
                         : platform_object_load(view->req->txn, resource->kind->type, id, &object);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    return platform_view_add(view, resource, &object);
}

static enum status include_plan(struct platform_view *view, const struct platform_object *run)
{
    return include_of(view, run, "plan", &platform_plan);
}

static enum status include_apply(struct platform_view *view, const struct platform_object *run)
{
    return include_of(view, run, "apply", &platform_apply);
}

static enum status include_config(struct platform_view *view, const struct platform_object *run)
{
    return include_of(view, run, "cv", &platform_config_version);
}

static enum status include_run_creator(struct platform_view *view,
                                       const struct platform_object *run)
{
    return include_of(view, run, "created-by", &platform_user);
}

static enum status include_confirmer(struct platform_view *view, const struct platform_object *run)
{
    return include_of(view, run, "confirmed-by", &platform_user);
}

static enum status include_ws(struct platform_view *view, const struct platform_object *run)
{
    struct platform_object ws;
    TRY(platform_object_load(view->req->txn, "workspaces", run->parent, &ws));
    return platform_view_add(view, &platform_ws, &ws);
}

static enum status include_org(struct platform_view *view, const struct platform_object *run)
{
    struct platform_object ws, org;
    TRY(platform_object_load(view->req->txn, "workspaces", run->parent, &ws));
    TRY(platform_object_load(view->req->txn, "organizations", ws.parent, &org));
    const struct platform_object shown = platform_org_shown(&org);
    return platform_view_add(view, &platform_org, &shown);
}

/* Parts that no run has: the relationship is empty. */
static enum status include_nothing(struct platform_view *view, const struct platform_object *run)
{
    (void)view;
    (void)run;
    return ST_OK;
}

static const struct platform_include run_includes[] = {
    {"plan", include_plan},
    {"apply", include_apply},
    {"configuration_version", include_config},
    {"created_by", include_run_creator},
    {"confirmed_by", include_confirmer},
    {"workspace", include_ws},
    {"workspace.organization", include_org},
    {"configuration_version.ingress_attributes", include_nothing},
    {"cost_estimate", include_nothing},
    {"policy_checks", include_nothing},
    {"task_stages", include_nothing},
    {"run_events", include_nothing},
};
const struct platform_resource platform_run = {.kind = &platform_run_kind,
                                               .path = TYPE "/",
                                               .more = show_run_more,
                                               .relations = show_run_relations,
                                               .includes = run_includes,
                                               .n_includes = ARRAY_LEN(run_includes)};

/* Creation */

/* Keys become names of variables of the tool: nothing else may stand there. */
static bool is_variable_name(struct bytes key)
{
    for (size_t i = 0; i < key.len; i++) {
        uint8_t c = key.data[i];
        bool letter = ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
        bool other = (c >= '0' && c <= '9') || c == '-';
        if (!letter && (i == 0 || !other))
            return false;
    }
    return key.len != 0 && key.len <= KEY_MAX_BYTES;
}

static enum status check_variables(struct req *req, const struct text_value *list)
{
    if (list == NULL || list->kind == TEXT_NULL)
        return ST_OK;
    if (list->kind != TEXT_LIST || list->n > VARIABLES_MAX)
        return platform_refuse(req, "variables", "a list of at most %d objects is expected",
                               VARIABLES_MAX);
    TEXT_FOR (v, list) {
        const struct text_value *key = text_get(v, "key"), *value = text_get(v, "value");
        if (v->kind != TEXT_OBJECT || key == NULL || key->kind != TEXT_STRING || value == NULL ||
            value->kind != TEXT_STRING)
            return platform_refuse(req, "variables", "each needs the texts `key` and `value`");
        if (!is_variable_name(key->text))
            return platform_refuse(req, "variables", "\"%.40s\" is no name of a variable",
                                   (const char *)key->text.data);
        if (value->text.len != 0 && memchr(value->text.data, 0, value->text.len) != NULL)
            return platform_refuse(req, "variables", "a value has a zero character");
    }
    return ST_OK;
}

/* Find the configuration that the run shall use. */
static enum status choose_config(struct req *req, const struct platform_input *input,
                                 const struct platform_object *ws,
                                 struct platform_object *ret_config)
{
    const char *id = platform_input_related_id(input, "configuration-version");
    enum status st = id[0] != '\0'
                         ? platform_object_load(req->txn, "configuration-versions", id, ret_config)
                         : platform_config_newest(req->txn, ws, ret_config);
    if (st == ST_OK && id[0] != '\0' &&
        (strcmp(ret_config->parent, ws->id) != 0 ||
         strcmp(platform_text(ret_config->attrs, "status"), "uploaded") != 0))
        st = ST_NOT_FOUND;
    return st == ST_NOT_FOUND
               ? req_fail(req, ST_REFUSED, "/data/relationships/configuration-version: %s",
                          id[0] != '\0' ? "there is no such uploaded version"
                                        : "the workspace has no uploaded configuration version")
               : st;
}

/* Runs that have not ended are never deleted by their age: there is a bound for them. */
static enum status check_open_runs(struct req *req, const struct platform_object *ws)
{
    struct bytes queue, open;
    TRY(platform_run_prefix(req->txn, "queue", ws->id, &queue));
    TRY(platform_run_prefix(req->txn, "open", ws->parent, &open));
    if (state_count(req->txn, open) >= PLATFORM_OPEN_MAX)
        return req_fail(req, ST_REFUSED, "%d runs of the organization have not ended",
                        PLATFORM_OPEN_MAX);
    return state_count(req->txn, queue) < PLATFORM_QUEUE_MAX
               ? ST_OK
               : req_fail(req, ST_REFUSED, "the queue of the workspace has %d runs",
                          PLATFORM_QUEUE_MAX);
}

/* Complete the attributes from workspace and configuration; refuse those that do not fit together.
 */
static enum status settle_run(struct req *req, const struct platform_object *ws,
                              const struct platform_object *config, unsigned rights,
                              struct platform_object *run)
{
    struct text_value *attrs = run->attrs;
    bool speculative = platform_flag(config->attrs, "speculative");
    const struct text_value *auto_apply = text_get(attrs, "auto-apply");
    bool asked = auto_apply != NULL && auto_apply->kind == TEXT_BOOL;
    bool applies = asked ? auto_apply->truth : platform_flag(ws->attrs, "auto-apply");
    bool plan_only = speculative || platform_flag(attrs, "plan-only");
    if (platform_flag(attrs, "is-destroy") && platform_flag(attrs, "refresh-only"))
        return platform_refuse(req, "is-destroy", "cannot be combined with refresh-only");
    if (platform_flag(attrs, "refresh-only") && !platform_flag(attrs, "refresh"))
        return platform_refuse(req, "refresh", "must be true with refresh-only");
    if (plan_only && platform_flag(attrs, "save-plan"))
        return platform_refuse(req, "save-plan", "a plan-only run saves no plan");
    if (!plan_only && platform_text(attrs, "terraform-version")[0] != '\0')
        return platform_refuse(req, "terraform-version", "can be set for plan-only runs alone");
    if (platform_flag(attrs, "is-destroy") && !platform_flag(ws->attrs, "allow-destroy-plan"))
        return platform_refuse(req, "is-destroy", "the workspace allows no destroy plans");
    if (plan_only && !platform_flag(ws->attrs, "speculative-enabled"))
        return platform_refuse(req, "plan-only", "the workspace allows no speculative plans");
    TRY(check_variables(req, text_get(attrs, "variables")));
    TRY(platform_set_flag(req->arena, attrs, "plan-only", plan_only));
    /* without the right to apply there is no apply by itself */
    bool may = (rights & PLATFORM_WS_APPLY) != 0 && !plan_only;
    TRY(platform_set_flag(req->arena, attrs, "auto-apply", applies && may));
    return ST_OK;
}

static enum status make_phases(struct req *req, struct platform_flow *flow)
{
    static const struct platform_input nothing = {0};
    TRY(platform_object_new(req, "plans", platform_plan_kind.prefix, &flow->plan));
    TRY(platform_object_new(req, "applies", platform_apply_kind.prefix, &flow->apply));
    TRY(platform_input_apply(req, &platform_plan_kind, &nothing, true, flow->plan.attrs));
    TRY(platform_input_apply(req, &platform_apply_kind, &nothing, true, flow->apply.attrs));
    flow->plan.parent = flow->apply.parent = flow->run.id;
    TRY(platform_set_text(req->arena, flow->run.links, "plan", flow->plan.id));
    return platform_set_text(req->arena, flow->run.links, "apply", flow->apply.id);
}

/* The pool whose workers run it. */
static enum status choose_pool(struct req *req, struct platform_flow *flow)
{
    const char *mode = platform_text(flow->ws.attrs, "execution-mode");
    const char *pool = PLATFORM_POOL_DEFAULT;
    if (strcmp(mode, "local") == 0)
        return req_fail(req, ST_REFUSED,
                        "/data/relationships/workspace: its execution mode is local: runs are "
                        "made on the clients' machines");
    if (strcmp(mode, "agent") == 0)
        pool = platform_text(flow->ws.links, "agent-pool");
    if (pool[0] == '\0')
        return req_fail(req, ST_REFUSED, "/data/relationships/workspace: it has no agent pool");
    return platform_set_text(req->arena, flow->run.links, "pool", pool);
}

/* Stage a run whose attributes are set. */
static enum status enter_run(struct req *req, struct platform_flow *flow,
                             struct platform_object *config, const char *creator)
{
    struct arena *arena = req->arena;
    const char *base;
    flow->run.parent = flow->ws.id;
    flow->actor = creator;
    TRY(platform_base_url(req, &base));
    TRY(choose_pool(req, flow));
    TRY(check_open_runs(req, &flow->ws));
    TRY(make_phases(req, flow));
    TRY(platform_set_text(arena, flow->run.links, "cv", config->id));
    TRY(platform_set_text(arena, flow->run.links, "created-by", creator));
    TRY(platform_set_text(arena, flow->run.links, "base", base));
    TRY(platform_set_text(arena, flow->run.links, "org", flow->ws.parent));
    TRY(platform_set_text(arena, config->links, "run", flow->run.id));
    TRY(platform_object_put(req->txn, "", config));
    TRY(platform_age_add(req->txn, flow->ws.id, flow->run.created_ms, flow->run.id));
    return platform_run_enter(flow);
}

static struct platform_flow flow_of(const struct req *req, const struct platform_object *ws)
{
    return (struct platform_flow){
        .txn = req->txn, .now_ms = req->now_ms, .actor = "", .comment = "", .why = "", .ws = *ws};
}

static enum status run_create(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_input input;
    struct platform_object config;
    TRY(platform_who(req, &who));
    TRY(platform_input_read(req, &platform_run_kind, false, &input));
    const char *ws = platform_input_related_id(&input, "workspace");
    if (ws[0] == '\0')
        return req_fail(req, ST_REFUSED, "/data/relationships/workspace: is required");
    TRY(platform_ws_find(req, &who, ws, PLATFORM_WS_PLAN, &place));
    struct platform_flow flow = flow_of(req, &place.ws);
    TRY(platform_object_new(req, TYPE, platform_run_kind.prefix, &flow.run));
    TRY(platform_input_apply(req, &platform_run_kind, &input, true, flow.run.attrs));
    TRY(choose_config(req, &input, &place.ws, &config));
    TRY(settle_run(req, &place.ws, &config, place.rights, &flow.run));
    TRY(enter_run(req, &flow, &config, who.owner == PLATFORM_USER ? who.id : ""));
    return platform_reply_one(req, &who, &platform_run, &flow.run, 201);
}

enum status platform_run_of_config(struct req *req, const struct platform_object *ws,
                                   const struct platform_object *config)
{
    static const struct platform_input nothing = {0};
    struct platform_flow flow = flow_of(req, ws);
    struct platform_object own = *config;
    unsigned rights = platform_flag(config->links, "applies") ? PLATFORM_WS_APPLY : 0;
    if (strcmp(platform_text(ws->attrs, "execution-mode"), "local") == 0)
        return ST_OK; /* an upload without a run is no error */
    TRY(platform_object_new(req, TYPE, platform_run_kind.prefix, &flow.run));
    TRY(platform_input_apply(req, &platform_run_kind, &nothing, true, flow.run.attrs));
    TRY(platform_set_text(req->arena, flow.run.attrs, "source", "tfe-configuration-version"));
    TRY(platform_set_text(req->arena, flow.run.attrs, "message", "Queued by an upload"));
    TRY(settle_run(req, ws, config, rights, &flow.run));
    return enter_run(req, &flow, &own, platform_text(config->links, "created-by"));
}

/* Reading */

static enum status run_read(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_object run;
    TRY(platform_who(req, &who));
    TRY(platform_object_load(req->txn, TYPE, req_param(req, "id"), &run));
    TRY(platform_ws_find(req, &who, run.parent, PLATFORM_WS_SEE, &place));
    return platform_reply_one(req, &who, &platform_run, &run, 0);
}

/* Whether a list with commas has a word; an empty list has every word. */
static bool in_list(const char *list, const char *word)
{
    size_t len = strlen(word);
    bool empty = list[0] == '\0';
    while (*list != '\0') {
        size_t n = strcspn(list, ",");
        if (n == len && memcmp(list, word, n) == 0)
            return true;
        list += n + (list[n] == ',');
    }
    return empty;
}

static const char *operation_of(const struct platform_object *run)
{
    const struct text_value *attrs = run->attrs;
    return platform_flag(attrs, "plan-only")           ? "plan_only"
           : platform_flag(attrs, "save-plan")         ? "save_plan"
           : platform_flag(attrs, "refresh-only")      ? "refresh_only"
           : platform_flag(attrs, "is-destroy")        ? "destroy"
           : platform_flag(attrs, "allow-empty-apply") ? "empty_apply"
                                                       : "plan_and_apply";
}

static const char *group_of(const struct platform_object *run)
{
    const struct run_state *state = run_state_of(platform_run_status(run));
    return state->final ? "final"
           : platform_run_status(run) == RUN_PLANNED ||
                   platform_run_status(run) == RUN_PLANNED_AND_SAVED
               ? "discardable"
               : "non_final";
}

static bool fits_group(const struct req *req, const struct platform_object *run)
{
    const char *group = platform_parameter(req, "filter[status_group]");
    return in_list(group, group_of(run)) ||
           (strcmp(group, "non_final") == 0 && strcmp(group_of(run), "final") != 0);
}

static bool is_listed(const struct req *req, const struct platform_object *run)
{
    const char *operation = platform_parameter(req, "filter[operation]");
    const char *search = platform_parameter(req, "search[basic]");
    bool hidden = operation[0] == '\0' && platform_flag(run->attrs, "plan-only");
    return !hidden && in_list(operation, operation_of(run)) && fits_group(req, run) &&
           in_list(platform_parameter(req, "filter[status]"),
                   platform_text(run->attrs, "status")) &&
           in_list(platform_parameter(req, "filter[source]"),
                   platform_text(run->attrs, "source")) &&
           (strstr(run->id, search) != NULL ||
            strstr(platform_text(run->attrs, "message"), search) != NULL);
}

static void keep_listed(const struct req *req, struct platform_objects *all)
{
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++)
        if (is_listed(req, &all->items[i]))
            all->items[n++] = all->items[i];
    all->n = n;
    platform_sort_by_time(all);
}

static enum status ws_runs(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_objects all;
    TRY(platform_who(req, &who));
    TRY(platform_ws_find(req, &who, req_param(req, "ws"), PLATFORM_WS_SEE, &place));
    TRY(platform_object_children(req->txn, place.ws.id, TYPE, &all));
    keep_listed(req, &all);
    return platform_reply_list(req, &who, &platform_run, &all, false);
}

static enum status add_all(struct req *req, struct platform_objects *found,
                           const struct platform_objects *more)
{
    struct platform_object *all = arena_alloc(req->arena, (found->n + more->n + 1) * sizeof *all);
    if (all == NULL)
        return ST_NOMEM;
    if (found->n != 0)
        memcpy(all, found->items, found->n * sizeof *all);
    if (more->n != 0)
        memcpy(all + found->n, more->items, more->n * sizeof *all);
    found->items = all;
    found->n += more->n;
    return ST_OK;
}

static enum status org_runs(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_objects workspaces, found = {0};
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_SEE, &place.org));
    TRY(platform_org_rights(req, &who, &place.org, &place.org_rights));
    TRY(platform_object_children(req->txn, place.org.id, "workspaces", &workspaces));
    for (size_t i = 0; i < workspaces.n; i++) {
        struct platform_objects own;
        place.ws = workspaces.items[i];
        TRY(platform_ws_rights(req, &who, &place));
        if ((place.rights & PLATFORM_WS_SEE) == 0)
            continue;
        TRY(platform_object_children(req->txn, place.ws.id, TYPE, &own));
        TRY(add_all(req, &found, &own));
    }
    keep_listed(req, &found);
    return platform_reply_list(req, &who, &platform_run, &found, false);
}

/* The runs of an organization that have not ended, in the order of their creation. */
static enum status open_runs(struct req *req, const struct platform_object *org,
                             struct platform_objects *ret_runs)
{
    struct state_iter iter;
    struct bytes prefix;
    TRY(platform_run_prefix(req->txn, "open", org->id, &prefix));
    size_t room = (size_t)state_count(req->txn, prefix), n = 0;
    ret_runs->items = arena_alloc(req->arena, (room + 1) * sizeof *ret_runs->items);
    if (ret_runs->items == NULL)
        return ST_NOMEM;
    TRY(state_scan(req->txn, prefix, (struct bytes){0}, &iter));
    while (n < room && state_iter_next(&iter)) {
        const char *id = platform_run_key_id(req->txn, iter.key);
        if (id == NULL)
            return ST_NOMEM;
        enum status st = platform_object_load(req->txn, TYPE, id, &ret_runs->items[n]);
        if (st != ST_OK && st != ST_NOT_FOUND)
            return st;
        n += st == ST_OK;
    }
    ret_runs->n = n;
    return ST_OK;
}

static enum status runs_queue(struct req *req)
{
    struct platform_who who;
    struct platform_object org;
    struct platform_objects all;
    size_t n = 0;
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_SEE, &org));
    TRY(open_runs(req, &org, &all));
    for (size_t i = 0; i < all.n; i++) {
        struct platform_object ws = {.id = all.items[i].parent};
        bool sees;
        TRY(platform_ws_sees(req, &who, &ws, &sees));
        if (sees)
            all.items[n++] = all.items[i];
    }
    all.n = n;
    return platform_reply_list(req, &who, &platform_run, &all, false);
}

static enum status runs_capacity(struct req *req)
{
    struct platform_who who;
    struct platform_object org;
    struct platform_objects all;
    int64_t pending = 0, running = 0;
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_SEE, &org));
    TRY(open_runs(req, &org, &all));
    for (size_t i = 0; i < all.n; i++) {
        enum run_status status = platform_run_status(&all.items[i]);
        running += status == RUN_PLANNING || status == RUN_APPLYING;
        pending += status == RUN_PENDING || status == RUN_PLAN_QUEUED || status == RUN_APPLY_QUEUED;
    }
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_key(&w, "data");
    text_open_object(&w);
    text_member_str(&w, "id", org.name);
    text_member_str(&w, "type", "organization-capacity");
    text_key(&w, "attributes");
    text_open_object(&w);
    text_member_int(&w, "pending", pending);
    text_member_int(&w, "running", running);
    text_close(&w);
    text_close(&w);
    text_close(&w);
    return req_reply_end(req);
}

static enum status admin_runs(struct req *req)
{
    struct platform_who who;
    struct platform_objects orgs, workspaces, found = {0};
    TRY(platform_who_admin(req, &who));
    TRY(platform_object_children(req->txn, PLATFORM_ROOT, "organizations", &orgs));
    for (size_t i = 0; i < orgs.n; i++) {
        TRY(platform_object_children(req->txn, orgs.items[i].id, "workspaces", &workspaces));
        for (size_t k = 0; k < workspaces.n; k++) {
            struct platform_objects own;
            TRY(platform_object_children(req->txn, workspaces.items[k].id, TYPE, &own));
            TRY(add_all(req, &found, &own));
        }
    }
    keep_listed(req, &found);
    return platform_reply_list(req, &who, &platform_run, &found, false);
}

static const struct platform_row
    listed = {&platform_run_kind, PLATFORM_LIST, "workspace: see", false, false},
    org_listed = {&platform_run_kind, PLATFORM_LIST, "organization: see", false, false},
    admin_listed = {&platform_run_kind, PLATFORM_LIST, "site administrator", false, false},
    shown = {&platform_run_kind, PLATFORM_ONE, "workspace: see", false, false},
    made = {&platform_run_kind, PLATFORM_ONE, "workspace: plan", true, true},
    measured = {NULL, PLATFORM_NOTHING, "organization: see", false, false};

static const struct route run_routes[] = {
    PLATFORM_RUN_MAKE(TYPE, run_create, made, .help = "Create a run."),
    PLATFORM_GET(TYPE "/:id", run_read, shown, "A run."),
    PLATFORM_GET("workspaces/:ws/runs", ws_runs, listed,
                 "The runs of a workspace, the newest first; plan-only ones where "
                 "filter[operation] names them."),
    PLATFORM_GET("organizations/:org/runs", org_runs, org_listed,
                 "The runs of all workspaces that the sender sees."),
    PLATFORM_GET("organizations/:org/runs/queue", runs_queue, org_listed,
                 "The runs of an organization that have not ended."),
    PLATFORM_GET("organizations/:org/capacity", runs_capacity, measured,
                 "How many runs of an organization wait, and how many run."),
    PLATFORM_GET("admin/runs", admin_runs, admin_listed, "The runs of all organizations."),
};
const struct route_table platform_run_table = {run_routes, ARRAY_LEN(run_routes)};
