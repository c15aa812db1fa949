/* Versions of the state of a workspace: made whole or for an upload, read, copied back. The server
 * reads the content when it arrives, so a version is complete when the upload's reply is sent. */
#include "api/platform/platform_state.h"
#include "api/platform/platform.h"
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_lock.h"
#include "api/platform/platform_rows.h"
#include "api/platform/platform_run.h"
#include "api/platform/platform_signed.h"
#include "base/fs.h"
#include "text/encode.h"

#define TYPE "state-versions"

static const struct platform_attr state_attrs[] = {
    {.name = "serial", .value = PLATFORM_NUMBER, .traits = PLATFORM_REQUIRED, .min = 0},
    {.name = "md5", .traits = PLATFORM_REQUIRED, .max = 32},
    {.name = "status", .traits = PLATFORM_SHOWN, .preset = "\"pending\""},
    {.name = "size", .value = PLATFORM_NUMBER, .traits = PLATFORM_SHOWN, .preset = "0"},
    {.name = "state-version", .value = PLATFORM_NUMBER, .traits = PLATFORM_SHOWN, .preset = "4"},
    {.name = "terraform-version", .traits = PLATFORM_SHOWN, .preset = "\"\""},
    {.name = "resources-processed",
     .value = PLATFORM_FLAG,
     .traits = PLATFORM_SHOWN,
     .preset = "false"},
    {.name = "resources", .value = PLATFORM_ANY, .traits = PLATFORM_SHOWN, .preset = "[]"},
    {.name = "modules", .value = PLATFORM_ANY, .traits = PLATFORM_SHOWN, .preset = "{}"},
    {.name = "providers", .value = PLATFORM_ANY, .traits = PLATFORM_SHOWN, .preset = "{}"},
    {.name = "intermediate", .value = PLATFORM_FLAG, .preset = "false"},
};
const struct platform_kind platform_state_kind = {.type = TYPE,
                                                  .prefix = "sv-",
                                                  .noun = "state version",
                                                  .attrs = state_attrs,
                                                  .n = ARRAY_LEN(state_attrs)};

static bool has_status(const struct platform_object *state, const char *status)
{
    return strcmp(platform_text(state->attrs, "status"), status) == 0;
}

/* URLs: of the content of a complete version, and, in the reply that makes a version, of uploads.
 */
static enum status put_urls(struct platform_view *view, const struct platform_object *state)
{
    struct text_writer *w = view->w;
    const char *url = NULL;
    bool uploads = platform_flag(state->links, "uploads");
    if (has_status(state, "finalized"))
        TRY(platform_signed_url(view->req, "GET", state->id, "state", &url));
    text_member_str(w, "hosted-state-download-url", url);
    text_member_null(w, "hosted-json-state-download-url");
    url = NULL;
    if (uploads)
        TRY(platform_signed_url(view->req, "PUT", state->id, "state", &url));
    text_member_str(w, "hosted-state-upload-url", url);
    url = NULL;
    if (uploads)
        TRY(platform_signed_url(view->req, "PUT", state->id, "json-state", &url));
    text_member_str(w, "hosted-json-state-upload-url", url);
    return ST_OK;
}

static enum status show_state_more(struct platform_view *view, const struct platform_object *object)
{
    struct text_writer *w = view->w;
    text_member_time(w, "created-at", object->created_ms);
    text_member_str(w, "lineage", platform_text(object->links, "lineage"));
    text_member_null(w, "vcs-commit-sha");
    text_member_null(w, "vcs-commit-url");
    text_member_null(w, "billable-rum-count");
    return put_urls(view, object);
}

static enum status outputs_of(struct state_txn *txn, const struct platform_object *state,
                              struct platform_objects *ret_outputs)
{
    TRY(platform_object_children(txn, state->id, "state-version-outputs", ret_outputs));
    platform_sort_by_name(ret_outputs);
    return ST_OK;
}

static enum status show_state_relations(struct platform_view *view,
                                        const struct platform_object *object)
{
    struct platform_objects outputs;
    TRY(outputs_of(view->req->txn, object, &outputs));
    platform_put_one(view, "run", "runs", platform_text(object->links, "run"));
    platform_put_one(view, "created-by", "users", platform_text(object->links, "created-by"));
    platform_put_one(view, "workspace", "workspaces", object->parent);
    platform_put_many(view, "outputs");
    for (size_t i = 0; i < outputs.n; i++)
        platform_put_item(view, "state-version-outputs", outputs.items[i].id);
    platform_put_many_end(view);
    return ST_OK;
}

static enum status include_outputs(struct platform_view *view, const struct platform_object *object)
{
    struct platform_objects outputs;
    TRY(outputs_of(view->req->txn, object, &outputs));
    for (size_t i = 0; i < outputs.n; i++)
        TRY(platform_view_add(view, &platform_output, &outputs.items[i]));
    return ST_OK;
}

static enum status include_creator(struct platform_view *view, const struct platform_object *object)
{
    struct platform_object user;
    enum status st =
        platform_user_load(view->req->txn, platform_text(object->links, "created-by"), &user);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    return platform_view_add(view, &platform_user, &user);
}

static enum status load_run(struct platform_view *view, const struct platform_object *object,
                            struct platform_object *ret_run)
{
    return platform_object_load(view->req->txn, "runs", platform_text(object->links, "run"),
                                ret_run);
}

static enum status include_run(struct platform_view *view, const struct platform_object *object)
{
    struct platform_object run;
    enum status st = load_run(view, object, &run);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    return platform_view_add(view, &platform_run, &run);
}

static enum status include_run_creator(struct platform_view *view,
                                       const struct platform_object *object)
{
    struct platform_object run;
    enum status st = load_run(view, object, &run);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    return include_creator(view, &run);
}

static enum status include_run_config(struct platform_view *view,
                                      const struct platform_object *object)
{
    struct platform_object run, config;
    enum status st = load_run(view, object, &run);
    if (st == ST_OK)
        st = platform_object_load(view->req->txn, "configuration-versions",
                                  platform_text(run.links, "cv"), &config);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    return platform_view_add(view, &platform_config_version, &config);
}

static const struct platform_include state_includes[] = {
    {"outputs", include_outputs},
    {"created_by", include_creator},
    {"run", include_run},
    {"run.created_by", include_run_creator},
    {"run.configuration_version", include_run_config},
};

const struct platform_resource platform_state = {.kind = &platform_state_kind,
                                                 .path = "state-versions/",
                                                 .more = show_state_more,
                                                 .relations = show_state_relations,
                                                 .includes = state_includes,
                                                 .n_includes = ARRAY_LEN(state_includes)};

enum status platform_state_current(struct state_txn *txn, const struct platform_object *ws,
                                   struct platform_object *ret_state)
{
    return platform_object_load(txn, TYPE, platform_text(ws->links, "current-state"), ret_state);
}

/* Creation */

/* A state in the body is decoded before the transaction. */
static enum status state_prepare(struct req *req)
{
    struct platform_storing *storing = arena_zalloc(req->arena, sizeof *storing);
    const struct text_value *text =
        text_get(text_get(text_get(req->data, "data"), "attributes"), "state");
    if (storing == NULL)
        return ST_NOMEM;
    req->prepared = storing;
    if (text == NULL || text->kind == TEXT_NULL || text->text.len == 0)
        return ST_OK;
    if (text->kind != TEXT_STRING)
        return platform_refuse(req, "state", "base64 is expected");
    uint8_t *raw = arena_alloc(req->arena, TEXT_BASE64_BYTES(text->text.len));
    size_t len;
    if (raw == NULL)
        return ST_NOMEM;
    if (text_base64_parse(text->text, raw, &len) != ST_OK)
        return platform_refuse(req, "state", "base64 is expected");
    if (len > platform_config()->blob_bytes_max)
        return req_fail(req, ST_TOO_BIG, "a state has at most %llu bytes",
                        (unsigned long long)platform_config()->blob_bytes_max);
    storing->content.raw = bytes_of(raw, len);
    return ST_OK;
}

static enum status check_room(struct req *req)
{
    return blob_total(req->txn) < platform_config()->blob_bytes_total_max
               ? ST_OK
               : req_fail(req, ST_NO_SPACE,
                          "the states take all the room that the configuration "
                          "gives them");
}

static enum status need_lock(struct req *req, const struct platform_who *who,
                             const struct platform_object *ws)
{
    return platform_holds_lock(who, ws)
               ? ST_OK
               : req_fail(req, ST_EXISTS, "the workspace must be locked by the sender");
}

/* The version that the body describes; not stored yet. */
static enum status new_state(struct req *req, const struct platform_who *who,
                             const struct platform_object *ws, struct platform_object *ret_state)
{
    struct platform_input input;
    TRY(platform_input_read(req, &platform_state_kind, false, &input));
    TRY(platform_object_new(req, TYPE, platform_state_kind.prefix, ret_state));
    TRY(platform_input_apply(req, &platform_state_kind, &input, true, ret_state->attrs));
    const struct text_value *lineage = text_get(input.attributes, "lineage");
    if (lineage != NULL && lineage->kind != TEXT_NULL && lineage->kind != TEXT_STRING)
        return platform_refuse(req, "lineage", "a text is expected");
    const char *text = platform_text(input.attributes, "lineage");
    if (strlen(text) > 200)
        return platform_refuse(req, "lineage", "is too long");
    ret_state->parent = ws->id;
    TRY(platform_set_text(req->arena, ret_state->links, "lineage", text));
    TRY(platform_set_text(req->arena, ret_state->links, "locker", who->id));
    if (who->owner == PLATFORM_RUN)
        TRY(platform_set_text(req->arena, ret_state->links, "run", who->id));
    return platform_set_text(req->arena, ret_state->links, "created-by",
                             who->owner == PLATFORM_USER ? who->id : "");
}

/* A client that got no reply sends the same request again: it gets the same version. */
static enum status find_same(struct req *req, const struct platform_object *ws,
                             const struct platform_object *wanted,
                             struct platform_object *ret_state)
{
    struct platform_object pending;
    TRY(platform_object_load(req->txn, TYPE, platform_text(ws->links, "pending-state"), &pending));
    bool same =
        has_status(&pending, "pending") &&
        platform_number(pending.attrs, "serial") == platform_number(wanted->attrs, "serial") &&
        strcmp(platform_text(pending.attrs, "md5"), platform_text(wanted->attrs, "md5")) == 0 &&
        strcmp(platform_text(pending.links, "lineage"), platform_text(wanted->links, "lineage")) ==
            0 &&
        strcmp(platform_text(pending.links, "locker"), platform_text(wanted->links, "locker")) == 0;
    if (!same)
        return ST_NOT_FOUND;
    *ret_state = pending;
    return ST_OK;
}

static enum status begin_upload(struct req *req, struct platform_object *ws,
                                struct platform_object *state)
{
    struct platform_object former;
    enum status st = find_same(req, ws, state, &former);
    if (st == ST_OK)
        *state = former;
    else if (st != ST_NOT_FOUND)
        return st;
    else {
        TRY(platform_object_add(req->txn, state));
        TRY(platform_set_text(req->arena, ws->links, "pending-state", state->id));
        TRY(platform_object_put(req->txn, ws->name, ws));
    }
    return platform_set_flag(req->arena, state->links, "uploads", true); /* only in this reply */
}

static enum status state_create(struct req *req)
{
    struct platform_storing *storing = req->prepared;
    struct platform_who who;
    struct platform_place place;
    TRY(platform_who(req, &who));
    TRY(platform_ws_find(req, &who, req_param(req, "ws"), PLATFORM_WS_WRITE_STATE, &place));
    TRY(new_state(req, &who, &place.ws, &storing->state));
    TRY(need_lock(req, &who, &place.ws));
    TRY(check_room(req));
    const struct text_value *attributes = text_get(text_get(req->data, "data"), "attributes");
    storing->forced = platform_flag(attributes, "force");
    storing->is_new = true;
    TRY(platform_storing_check(req, &place.ws, &storing->state, storing->forced));
    TRY(platform_signed_key(req));
    if (storing->content.raw.len != 0)
        return ST_OK;
    req_skip_outside(req);
    TRY(platform_set_flag(req->arena, storing->state.links, "forced", storing->forced));
    TRY(begin_upload(req, &place.ws, &storing->state));
    return platform_reply_one(req, &who, &platform_state, &storing->state, 201);
}

static enum status state_outside(struct req *req)
{
    const struct platform_storing *storing = req->prepared;
    return platform_storing_read(req, storing->content.raw);
}

static enum status state_finish(struct req *req)
{
    struct platform_storing *storing = req->prepared;
    struct platform_who who;
    bool done;
    TRY(platform_storing_turn(req, &done));
    if (!done)
        return ST_OK;
    TRY(platform_who(req, &who));
    return platform_reply_one(req, &who, &platform_state, &storing->state, 201);
}

/* Uploads */

static uint64_t upload_max(const struct router_host *host)
{
    (void)host; /* a limit of its own */
    return platform_config()->blob_bytes_max;
}

static enum status upload(struct req *req)
{
    struct platform_object ws;
    struct platform_storing *storing = arena_zalloc(req->arena, sizeof *storing);
    const char *id = req_param(req, "id");
    if (storing == NULL)
        return ST_NOMEM;
    TRY(platform_signed_check(req, id, "state"));
    TRY(platform_object_load(req->txn, TYPE, id, &storing->state));
    TRY(platform_object_load(req->txn, "workspaces", storing->state.parent, &ws));
    if (!has_status(&storing->state, "pending"))
        return req_fail(req, ST_EXISTS, "the content of this version was sent already");
    TRY(check_room(req));
    storing->forced = platform_flag(storing->state.links, "forced");
    req->prepared = storing;
    return ST_OK;
}

static enum status upload_outside(struct req *req)
{
    size_t len = (size_t)req->files.upload_bytes, got = 0;
    uint8_t *raw = arena_alloc(req->arena, len + 1);
    if (raw == NULL)
        return ST_NOMEM;
    if (len != 0)
        TRY(fs_read_at(req->files.upload, raw, len, 0, &got));
    return got == len ? platform_storing_read(req, bytes_of(raw, len)) : ST_IO;
}

static enum status upload_finish(struct req *req)
{
    bool done;
    return platform_storing_turn(req, &done);
}

/* The form for people, which clients send besides: it follows from the state, and is not kept. */
static enum status upload_json(struct req *req)
{
    struct platform_object state;
    const char *id = req_param(req, "id");
    TRY(platform_signed_check(req, id, "json-state"));
    return platform_object_load(req->txn, TYPE, id, &state);
}

static enum status upload_json_outside(struct req *req)
{
    (void)req; /* the router closes the file */
    return ST_OK;
}

static enum status download(struct req *req)
{
    struct platform_object state, ws;
    struct bytes content;
    const char *id = req_param(req, "id");
    TRY(platform_signed_check(req, id, "state"));
    TRY(platform_object_load(req->txn, TYPE, id, &state));
    TRY(platform_object_load(req->txn, "workspaces", state.parent, &ws));
    TRY(blob_read(req->txn, platform_text(state.links, "blob"), &content));
    return req_reply_raw(req, "application/octet-stream", content); /* audit records its length */
}

/* Reading */

static enum status find_state(struct req *req, struct platform_who *who, const char *id,
                              struct platform_object *ret_state)
{
    struct platform_place place;
    TRY(platform_who(req, who));
    TRY(platform_object_load(req->txn, TYPE, id, ret_state));
    return platform_ws_find(req, who, ret_state->parent, PLATFORM_WS_READ_STATE, &place);
}

static enum status state_read(struct req *req)
{
    struct platform_who who;
    struct platform_object state;
    TRY(find_state(req, &who, req_param(req, "id"), &state));
    return platform_reply_one(req, &who, &platform_state, &state, 0);
}

static enum status state_current(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_object state;
    TRY(platform_who(req, &who));
    TRY(platform_ws_find(req, &who, req_param(req, "ws"), PLATFORM_WS_READ_STATE, &place));
    TRY(platform_state_current(req->txn, &place.ws, &state));
    return platform_reply_one(req, &who, &platform_state, &state, 0);
}

static enum status states_list(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_object org, ws;
    struct platform_objects all;
    size_t n = 0;
    const char *org_name = platform_parameter(req, "filter[organization][name]");
    const char *ws_name = platform_parameter(req, "filter[workspace][name]");
    const char *status = platform_parameter(req, "filter[status]");
    TRY(platform_who(req, &who));
    if (org_name[0] == '\0' || ws_name[0] == '\0')
        return req_fail(req, ST_REFUSED,
                        "filter[organization][name] and filter[workspace][name] are required");
    TRY(platform_org_find(req, &who, org_name, PLATFORM_ORG_SEE, &org));
    TRY(platform_object_named(req->txn, org.id, "workspaces", ws_name, &ws));
    TRY(platform_ws_find(req, &who, ws.id, PLATFORM_WS_READ_STATE, &place));
    TRY(platform_object_children(req->txn, ws.id, TYPE, &all));
    for (size_t i = 0; i < all.n; i++)
        if (status[0] == '\0' ? has_status(&all.items[i], "finalized")
                              : has_status(&all.items[i], status))
            all.items[n++] = all.items[i];
    all.n = n;
    platform_sort_by_time(&all);
    return platform_reply_list(req, &who, &platform_state, &all, false);
}

/* Rollback: the content of an earlier version as a new one. */

static enum status rollback(struct req *req)
{
    static const struct platform_kind any = {.type = TYPE};
    struct platform_storing *storing = arena_zalloc(req->arena, sizeof *storing);
    struct platform_who who;
    struct platform_place place;
    struct platform_input input;
    struct platform_object from, current;
    if (storing == NULL)
        return ST_NOMEM;
    TRY(platform_who(req, &who));
    TRY(platform_ws_find(req, &who, req_param(req, "ws"), PLATFORM_WS_WRITE_STATE, &place));
    TRY(platform_input_read(req, &any, false, &input));
    enum status st = platform_object_load(
        req->txn, TYPE, platform_input_related_id(&input, "rollback-state-version"), &from);
    if (st == ST_OK && (strcmp(from.parent, place.ws.id) != 0 || !has_status(&from, "finalized")))
        st = ST_NOT_FOUND;
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_REFUSED,
                        "/data/relationships/rollback-state-version: there is no "
                        "such version");
    TRY(st);
    TRY(need_lock(req, &who, &place.ws));
    TRY(check_room(req));
    TRY(platform_state_current(req->txn, &place.ws, &current));
    TRY(blob_read(req->txn, platform_text(from.links, "blob"), &storing->content.raw));
    TRY(platform_object_new(req, TYPE, platform_state_kind.prefix, &storing->state));
    struct platform_object *state = &storing->state;
    int64_t serial = platform_number(current.attrs, "serial");
    if (serial == INT64_MAX)
        return req_fail(req, ST_EXISTS, "the serial of the current version is the greatest one");
    state->parent = place.ws.id;
    TEXT_FOR (v, from.attrs)
        TRY(platform_set(req->arena, state->attrs, (const char *)v->name.data, v));
    TRY(platform_set_number(req->arena, state->attrs, "serial", serial + 1));
    TRY(platform_set_text(req->arena, state->links, "lineage",
                          platform_text(current.links, "lineage")));
    TRY(platform_set_text(req->arena, state->links, "locker", who.id));
    TRY(platform_set_text(req->arena, state->links, "created-by",
                          who.owner == PLATFORM_USER ? who.id : ""));
    storing->is_new = storing->forced = true;
    req->prepared = storing;
    return ST_OK;
}

static const struct platform_row listed = {&platform_state_kind, PLATFORM_LIST,
                                           "workspace: read states", false, false},
                                 shown = {&platform_state_kind, PLATFORM_ONE,
                                          "workspace: read states", false, false},
                                 made = {&platform_state_kind, PLATFORM_ONE,
                                         "workspace: write states", true, true};

static const struct route state_routes[] = {
    PLATFORM_MAKE("workspaces/:ws/state-versions", state_create, made, .prepare = state_prepare,
                  .outside = state_outside, .finish = state_finish, .flags = ROUTE_LONG,
                  .help = "Store a version of the state, or begin its upload."),
    PLATFORM_SEND(PATCH, "workspaces/:ws/state-versions", rollback, made, .statuses = "201",
                  .outside = state_outside, .finish = state_finish, .flags = ROUTE_LONG,
                  .help = "Store the content of an earlier version as a new one."),
    PLATFORM_GET("workspaces/:ws/current-state-version", state_current, shown,
                 "The current version of the state."),
    PLATFORM_GET("state-versions", states_list, listed,
                 "The versions of the workspace that the filters name."),
    PLATFORM_GET("state-versions/:id", state_read, shown, "A version of the state."),
};
const struct route_table platform_state_table = {state_routes, ARRAY_LEN(state_routes)};

static const struct route blob_routes[] = {
    {.method = METHOD_PUT,
     .path = "blobs/:id/state",
     .handler = upload,
     .outside = upload_outside,
     .finish = upload_finish,
     .who = WHO_ANYONE,
     .input = INPUT_UPLOAD,
     .upload_bytes_max = upload_max,
     .flags = ROUTE_LONG,
     .feature = PLATFORM_FEATURE,
     .help = "Upload the content of a version; the URL is signed."},
    {.method = METHOD_PUT,
     .path = "blobs/:id/json-state",
     .handler = upload_json,
     .outside = upload_json_outside,
     .who = WHO_ANYONE,
     .input = INPUT_UPLOAD,
     .upload_bytes_max = upload_max,
     .flags = ROUTE_LONG,
     .feature = PLATFORM_FEATURE,
     .help = "Upload the second form of a version, which is not kept; the URL is signed."},
    PLATFORM_RAW("blobs/:id/state", download, WHO_ANYONE, NULL,
                 .help = "The content of a version; the URL is signed."),
};
const struct route_table platform_blob_table = {blob_routes, ARRAY_LEN(blob_routes)};

/* Outputs */

static const struct platform_attr output_attrs[] = {
    {.name = "sensitive", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "type"},
    {.name = "value", .value = PLATFORM_ANY},
    {.name = "detailed-type", .value = PLATFORM_ANY},
};
const struct platform_kind platform_output_kind = {.type = "state-version-outputs",
                                                   .prefix = "wsout-",
                                                   .noun = "output",
                                                   .attrs = output_attrs,
                                                   .n = ARRAY_LEN(output_attrs)};

static enum status show_output_more(struct platform_view *view,
                                    const struct platform_object *object)
{
    text_member_str(view->w, "name", object->name);
    return ST_OK;
}

const struct platform_resource platform_output = {
    .kind = &platform_output_kind, .path = "state-version-outputs/", .more = show_output_more};

static enum status outputs_list(struct req *req)
{
    struct platform_who who;
    struct platform_object state;
    struct platform_place place;
    struct platform_objects all;
    TRY(platform_who(req, &who));
    TRY(platform_object_load(req->txn, TYPE, req_param(req, "id"), &state));
    TRY(platform_ws_find(req, &who, state.parent, PLATFORM_WS_READ_OUTPUTS, &place));
    TRY(outputs_of(req->txn, &state, &all));
    return platform_reply_list(req, &who, &platform_output, &all, false);
}

static enum status output_read(struct req *req)
{
    struct platform_who who;
    struct platform_object output, state;
    struct platform_place place;
    TRY(platform_who(req, &who));
    TRY(platform_object_load(req->txn, "state-version-outputs", req_param(req, "id"), &output));
    TRY(platform_object_load(req->txn, TYPE, output.parent, &state));
    TRY(platform_ws_find(req, &who, state.parent, PLATFORM_WS_READ_OUTPUTS, &place));
    return platform_reply_one(req, &who, &platform_output, &output, 0);
}

/* For everyone who sees the workspace: the values that are sensitive are hidden. */
static enum status current_outputs(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_object state;
    struct platform_objects all;
    TRY(platform_who(req, &who));
    TRY(platform_ws_find(req, &who, req_param(req, "ws"), PLATFORM_WS_SEE, &place));
    TRY(platform_state_current(req->txn, &place.ws, &state));
    TRY(outputs_of(req->txn, &state, &all));
    for (size_t i = 0; i < all.n; i++)
        if (platform_flag(all.items[i].attrs, "sensitive"))
            TRY(platform_set_null(req->arena, all.items[i].attrs, "value"));
    return platform_reply_list(req, &who, &platform_output, &all, true);
}

static const struct platform_row outputs_listed = {&platform_output_kind, PLATFORM_LIST,
                                                   "workspace: read outputs", false, false},
                                 output_shown = {&platform_output_kind, PLATFORM_ONE,
                                                 "workspace: read outputs", false, false},
                                 current_listed = {&platform_output_kind, PLATFORM_LIST,
                                                   "workspace: see", false, false};

static const struct route output_routes[] = {
    PLATFORM_GET("state-versions/:id/outputs", outputs_list, outputs_listed,
                 "The outputs of a version."),
    PLATFORM_GET("state-version-outputs/:id", output_read, output_shown,
                 "An output, also a sensitive one."),
    PLATFORM_GET("workspaces/:ws/current-state-version-outputs", current_outputs, current_listed,
                 "The outputs of the current version, without sensitive values."),
};
const struct route_table platform_output_table = {output_routes, ARRAY_LEN(output_routes)};
