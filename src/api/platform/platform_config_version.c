/* Configuration versions: archives that clients upload, and that runs read. */
#include "api/platform/platform.h"
#include "api/platform/platform_rows.h"
#include "api/platform/platform_run.h"
#include "api/platform/platform_signed.h"
#include "api/platform/platform_upload.h"
#include "text/time.h"

#define TYPE "configuration-versions"

static const struct platform_attr config_attrs[] = {
    {.name = "auto-queue-runs", .value = PLATFORM_FLAG, .preset = "true"},
    {.name = "speculative", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "provisional", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "status", .traits = PLATFORM_SHOWN, .preset = "\"pending\""},
    {.name = "status-timestamps", .value = PLATFORM_ANY, .traits = PLATFORM_SHOWN, .preset = "{}"},
    {.name = "source", .traits = PLATFORM_SHOWN, .preset = "\"tfe-api\""},
    {.name = "error", .traits = PLATFORM_SHOWN},
    {.name = "error-message", .traits = PLATFORM_SHOWN},
    {.name = "changed-files", .value = PLATFORM_ANY, .traits = PLATFORM_SHOWN, .preset = "[]"},
};
const struct platform_kind platform_config_kind = {.type = TYPE,
                                                   .prefix = "cv-",
                                                   .noun = "configuration version",
                                                   .attrs = config_attrs,
                                                   .n = ARRAY_LEN(config_attrs)};

static bool is_status(const struct platform_object *config, const char *status)
{
    return strcmp(platform_text(config->attrs, "status"), status) == 0;
}

/* The URL of the upload stands in the reply that makes the version alone. */
static enum status show_config_more(struct platform_view *view,
                                    const struct platform_object *object)
{
    const char *url = NULL;
    if (platform_flag(object->links, "uploads"))
        TRY(platform_signed_url(view->req, "PUT", object->id, "configuration", &url));
    text_member_str(view->w, "upload-url", url);
    text_member_time(view->w, "created-at", object->created_ms);
    return ST_OK;
}

static enum status show_config_relations(struct platform_view *view,
                                         const struct platform_object *object)
{
    platform_put_one(view, "workspace", "workspaces", object->parent);
    platform_put_one(view, "ingress-attributes", "ingress-attributes", "");
    return ST_OK;
}

/* There is no version control: the relationship is null. */
static enum status include_ingress(struct platform_view *view, const struct platform_object *object)
{
    (void)view;
    (void)object;
    return ST_OK;
}
static const struct platform_include config_includes[] = {{"ingress_attributes", include_ingress}};

const struct platform_resource platform_config_version = {.kind = &platform_config_kind,
                                                          .path = TYPE "/",
                                                          .more = show_config_more,
                                                          .relations = show_config_relations,
                                                          .includes = config_includes,
                                                          .n_includes = ARRAY_LEN(config_includes)};

static enum status set_status(struct req *req, struct platform_object *config, const char *status)
{
    struct arena *arena = req->arena;
    struct text_value *times = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0});
    const struct text_value *former = text_get(config->attrs, "status-timestamps");
    uint8_t text[TEXT_TIME_MAX];
    const char *now = arena_str(arena, bytes_of(text, text_time(req->now_ms, text)));
    const char *name = arena_concat(arena, status, "-at");
    if (times == NULL || now == NULL || name == NULL)
        return ST_NOMEM;
    if (former != NULL && former->kind == TEXT_OBJECT)
        TEXT_FOR (v, former)
            TRY(platform_set(arena, times, (const char *)v->name.data, v));
    TRY(platform_set_text(arena, times, name, now));
    config->updated_ms = req->now_ms;
    TRY(platform_set(arena, config->attrs, "status-timestamps", times));
    return platform_set_text(arena, config->attrs, "status", status);
}

static enum status config_create(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_input input;
    struct platform_object config;
    TRY(platform_who(req, &who));
    TRY(platform_ws_find(req, &who, req_param(req, "ws"), PLATFORM_WS_PLAN, &place));
    TRY(platform_input_read(req, &platform_config_kind, true, &input));
    TRY(platform_object_new(req, TYPE, platform_config_kind.prefix, &config));
    TRY(platform_input_apply(req, &platform_config_kind, &input, true, config.attrs));
    if (platform_flag(config.attrs, "speculative") &&
        !platform_flag(place.ws.attrs, "speculative-enabled"))
        return platform_refuse(req, "speculative", "the workspace allows no speculative plans");
    config.parent = place.ws.id;
    TRY(platform_set_text(req->arena, config.links, "created-by",
                          who.owner == PLATFORM_USER ? who.id : ""));
    TRY(platform_set_flag(req->arena, config.links, "applies",
                          (place.rights & PLATFORM_WS_APPLY) != 0));
    TRY(platform_upload_room(req));
    TRY(platform_signed_key(req));
    TRY(platform_age_add(req->txn, place.ws.id, config.created_ms, config.id));
    TRY(platform_object_add(req->txn, &config));
    TRY(platform_set_flag(req->arena, config.links, "uploads", true)); /* in this reply */
    return platform_reply_one(req, &who, &platform_config_version, &config, 201);
}

static enum status configs_list(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_objects all;
    TRY(platform_who(req, &who));
    TRY(platform_ws_find(req, &who, req_param(req, "ws"), PLATFORM_WS_SEE, &place));
    TRY(platform_object_children(req->txn, place.ws.id, TYPE, &all));
    platform_sort_by_time(&all);
    return platform_reply_list(req, &who, &platform_config_version, &all, false);
}

static enum status find_config(struct req *req, struct platform_who *who, const char *id,
                               unsigned rights, struct platform_object *ret_config)
{
    struct platform_place place;
    TRY(platform_who(req, who));
    TRY(platform_object_load(req->txn, TYPE, id, ret_config));
    return platform_ws_find(req, who, ret_config->parent, rights, &place);
}

/* The id of the path: of a version, or of a run that has one. */
static enum status id_of_path(struct req *req, const char **ret_id)
{
    struct platform_object run;
    *ret_id = req_param(req, "id");
    if (!bytes_has_prefix(req->path, BYTES("runs/")))
        return ST_OK;
    TRY(platform_object_load(req->txn, "runs", *ret_id, &run));
    *ret_id = platform_text(run.links, "cv");
    return ST_OK;
}

static enum status config_read(struct req *req)
{
    struct platform_who who;
    struct platform_object config;
    const char *id;
    TRY(id_of_path(req, &id));
    TRY(find_config(req, &who, id, PLATFORM_WS_SEE, &config));
    return platform_reply_one(req, &who, &platform_config_version, &config, 0);
}

static enum status reply_content(struct req *req, const struct platform_object *config)
{
    struct bytes content;
    if (!is_status(config, "uploaded"))
        return ST_NOT_FOUND;
    TRY(blob_read(req->txn, platform_text(config->links, "blob"), &content));
    return req_reply_raw(req, "application/gzip", content);
}

static enum status config_download(struct req *req)
{
    struct platform_who who;
    struct platform_object config;
    const char *id;
    TRY(id_of_path(req, &id));
    TRY(find_config(req, &who, id, PLATFORM_WS_SEE, &config));
    return reply_content(req, &config);
}

static enum status blob_download(struct req *req)
{
    struct platform_object config, ws;
    const char *id = req_param(req, "id");
    TRY(platform_signed_check(req, id, "configuration"));
    TRY(platform_object_load(req->txn, TYPE, id, &config));
    TRY(platform_object_load(req->txn, "workspaces", config.parent, &ws));
    return reply_content(req, &config);
}

/* Whether a run that has not ended reads the version. */
static enum status is_used(struct req *req, const struct platform_object *config, bool *ret_used)
{
    struct platform_object run;
    const char *id = platform_text(config->links, "run"); /* the latest */
    *ret_used = false;
    enum status st =
        id[0] != '\0' ? platform_object_load(req->txn, "runs", id, &run) : ST_NOT_FOUND;
    if (st == ST_OK)
        *ret_used = !run_state_of(platform_run_status(&run))->final;
    return st == ST_NOT_FOUND ? ST_OK : st;
}

static enum status config_archive(struct req *req)
{
    struct platform_who who;
    struct platform_object config;
    bool used;
    TRY(find_config(req, &who, req_param(req, "id"), PLATFORM_WS_APPLY, &config));
    TRY(is_used(req, &config, &used));
    if (used || !is_status(&config, "uploaded"))
        return req_fail(req, ST_EXISTS, "the configuration version cannot be archived: %s",
                        used ? "a run needs it" : "it is not uploaded");
    TRY(blob_delete(req->txn, platform_text(config.links, "blob")));
    TRY(platform_set_text(req->arena, config.links, "blob", ""));
    TRY(set_status(req, &config, "archived"));
    req->reply.http = 202;
    return platform_object_put(req->txn, "", &config);
}

/* Uploads */

struct config_upload {
    struct platform_upload upload;
    const char *id;
};

static enum status find_pending(struct req *req, const char *id, struct platform_object *ret_config,
                                struct platform_object *ret_ws)
{
    TRY(platform_object_load(req->txn, TYPE, id, ret_config));
    TRY(platform_object_load(req->txn, "workspaces", ret_config->parent, ret_ws));
    return is_status(ret_config, "pending")
               ? ST_OK
               : req_fail(req, ST_EXISTS, "the content of this version was sent already");
}

static enum status config_upload(struct req *req)
{
    struct platform_object config, ws;
    struct config_upload *upload = arena_zalloc(req->arena, sizeof *upload);
    const char *id = req_param(req, "id");
    if (upload == NULL)
        return ST_NOMEM;
    TRY(platform_signed_check(req, id, "configuration"));
    TRY(find_pending(req, id, &config, &ws));
    TRY(platform_upload_room(req));
    upload->id = arena_str(req->arena, bytes_str(id));
    req->prepared = upload;
    return upload->id != NULL ? ST_OK : ST_NOMEM;
}

/* The worker unpacks the archive, with its own checks; here it must look like one. */
static enum status config_upload_outside(struct req *req)
{
    struct config_upload *upload = req->prepared;
    TRY(platform_upload_read(req, &upload->upload));
    struct bytes raw = upload->upload.raw;
    return raw.len > 18 && raw.data[0] == 0x1f && raw.data[1] == 0x8b
               ? ST_OK
               : req_fail(req, ST_REFUSED, "a tar archive compressed by gzip is expected");
}

static enum status config_upload_finish(struct req *req)
{
    struct config_upload *upload = req->prepared;
    struct platform_object config, ws;
    bool done;
    TRY(platform_upload_turn(req, &upload->upload, &done));
    if (!done)
        return ST_OK;
    TRY(find_pending(req, upload->id, &config, &ws));
    TRY(platform_set_text(req->arena, config.links, "blob", upload->upload.blob));
    TRY(set_status(req, &config, "uploaded"));
    if (!platform_flag(config.attrs, "provisional") &&
        !platform_flag(config.attrs, "speculative")) {
        TRY(platform_set_text(req->arena, ws.links, "current-config", config.id));
        TRY(platform_object_put(req->txn, ws.name, &ws));
    }
    TRY(platform_object_put(req->txn, "", &config));
    return platform_flag(config.attrs, "auto-queue-runs")
               ? platform_run_of_config(req, &ws, &config)
               : ST_OK;
}

enum status platform_config_newest(struct state_txn *txn, const struct platform_object *ws,
                                   struct platform_object *ret_config)
{
    TRY(platform_object_load(txn, TYPE, platform_text(ws->links, "current-config"), ret_config));
    return is_status(ret_config, "uploaded") ? ST_OK : ST_NOT_FOUND;
}

static const struct platform_row listed = {&platform_config_kind, PLATFORM_LIST, "workspace: see",
                                           false, false},
                                 shown = {&platform_config_kind, PLATFORM_ONE, "workspace: see",
                                          false, false},
                                 made = {&platform_config_kind, PLATFORM_ONE, "workspace: plan",
                                         true, true},
                                 read_whole = {NULL, PLATFORM_NOTHING, "workspace: see", false,
                                               false},
                                 acted = {NULL, PLATFORM_NOTHING, "workspace: apply", false, false};

static const struct route config_routes[] = {
    PLATFORM_RUN_MAKE("workspaces/:ws/" TYPE, config_create, made,
                      .help = "Begin the upload of a configuration."),
    PLATFORM_GET("workspaces/:ws/" TYPE, configs_list, listed,
                 "The configuration versions of a workspace, the newest first."),
    PLATFORM_GET(TYPE "/:id", config_read, shown, "A configuration version."),
    PLATFORM_GET("runs/:id/configuration-version", config_read, shown,
                 "The configuration version of a run."),
    PLATFORM_RAW(TYPE "/:id/download", config_download, WHO_ANY_TOKEN, &read_whole,
                 .help = "The archive as it was uploaded."),
    PLATFORM_RAW("runs/:id/configuration-version/download", config_download, WHO_ANY_TOKEN,
                 &read_whole, .help = "The archive of a run."),
    PLATFORM_RUN_ACT(POST, TYPE "/:id/actions/archive", config_archive, acted, .statuses = "202",
                     .help = "Delete the archive of a configuration version, and keep the rest."),
    {.method = METHOD_PUT,
     .path = "blobs/:id/configuration",
     .handler = config_upload,
     .outside = config_upload_outside,
     .finish = config_upload_finish,
     .who = WHO_ANYONE,
     .input = INPUT_UPLOAD,
     .upload_bytes_max = platform_upload_max,
     .flags = ROUTE_LONG,
     .feature = PLATFORM_RUNS_FEATURE,
     .help = "Upload the archive of a configuration version; the URL is signed."},
    PLATFORM_RAW("blobs/:id/configuration", blob_download, WHO_ANYONE, NULL,
                 .help = "The archive of a configuration version; the URL is signed."),
};
const struct route_table platform_config_table = {config_routes, ARRAY_LEN(config_routes)};
