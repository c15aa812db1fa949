/* Projects: folders of workspaces. Each organization has a default one. */
#include "api/platform/platform.h"
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_rows.h"

#define TYPE "projects"

static const struct platform_attr project_attrs[] = {
    {.name = "name",
     .traits = PLATFORM_REQUIRED,
     .min = 3,
     .max = 40,
     .check = platform_check_project_name},
    {.name = "description", .preset = "\"\"", .max = 256},
};
const struct platform_kind platform_project_kind = {.type = TYPE,
                                                    .prefix = "prj-",
                                                    .noun = "project",
                                                    .attrs = project_attrs,
                                                    .n = ARRAY_LEN(project_attrs)};

static enum status show_project_more(struct platform_view *view,
                                     const struct platform_object *object)
{
    text_member_time(view->w, "created-at", object->created_ms);
    return ST_OK;
}

static enum status show_project_relations(struct platform_view *view,
                                          const struct platform_object *object)
{
    struct platform_object org;
    TRY(platform_object_load(view->req->txn, "organizations", object->parent, &org));
    platform_put_one(view, "organization", "organizations", org.name);
    return ST_OK;
}

static const struct platform_resource project_shown = {.kind = &platform_project_kind,
                                                       .path = "projects/",
                                                       .more = show_project_more,
                                                       .relations = show_project_relations};

enum status platform_project_default(struct req *req, struct platform_object *org)
{
    struct platform_object project;
    TRY(platform_object_new(req, TYPE, platform_project_kind.prefix, &project));
    project.parent = org->id;
    project.name = "Default Project";
    TRY(platform_set_text(req->arena, project.attrs, "name", project.name));
    TRY(platform_set_text(req->arena, project.attrs, "description", ""));
    TRY(platform_set_text(req->arena, org->links, "default-project", project.id));
    return platform_object_add(req->txn, &project);
}

static enum status projects_list(struct req *req)
{
    struct platform_who who;
    struct platform_object org;
    struct platform_objects all;
    size_t n = 0;
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_SEE, &org));
    TRY(platform_object_children(req->txn, org.id, TYPE, &all));
    const char *names = platform_parameter(req, "filter[names]");
    const char *q = platform_parameter(req, "q");
    for (size_t i = 0; i < all.n; i++)
        if ((names[0] == '\0' || strcmp(names, all.items[i].name) == 0) &&
            strstr(all.items[i].name, q) != NULL)
            all.items[n++] = all.items[i];
    all.n = n;
    platform_sort_by_name(&all);
    return platform_reply_list(req, &who, &project_shown, &all, false);
}

static enum status project_create(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_object org, project;
    TRY(platform_who(req, &who));
    TRY(platform_org_find(req, &who, req_param(req, "org"), PLATFORM_ORG_MANAGE_PROJECTS, &org));
    TRY(platform_input_read(req, &platform_project_kind, false, &input));
    TRY(platform_object_new(req, TYPE, platform_project_kind.prefix, &project));
    TRY(platform_input_apply(req, &platform_project_kind, &input, true, project.attrs));
    project.parent = org.id;
    project.name = platform_text(project.attrs, "name");
    enum status st = platform_object_add(req->txn, &project);
    if (st == ST_EXISTS)
        return platform_refuse(req, "name", "has already been taken");
    TRY(st);
    return platform_reply_one(req, &who, &project_shown, &project, 201);
}

static enum status find_project(struct req *req, struct platform_who *who, unsigned rights,
                                struct platform_object *ret_org,
                                struct platform_object *ret_project)
{
    TRY(platform_who(req, who));
    TRY(platform_object_load(req->txn, TYPE, req_param(req, "id"), ret_project));
    return platform_org_of(req, who, ret_project->parent, rights, ret_org);
}

static enum status project_read(struct req *req)
{
    struct platform_who who;
    struct platform_object org, project;
    TRY(find_project(req, &who, PLATFORM_ORG_SEE, &org, &project));
    return platform_reply_one(req, &who, &project_shown, &project, 0);
}

static enum status project_update(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    struct platform_object org, project;
    TRY(find_project(req, &who, PLATFORM_ORG_MANAGE_PROJECTS, &org, &project));
    const char *before = project.name;
    TRY(platform_input_read(req, &platform_project_kind, true, &input));
    TRY(platform_input_apply(req, &platform_project_kind, &input, false, project.attrs));
    project.name = platform_text(project.attrs, "name");
    project.updated_ms = req->now_ms;
    enum status st = platform_object_put(req->txn, before, &project);
    if (st == ST_EXISTS)
        return platform_refuse(req, "name", "has already been taken");
    TRY(st);
    return platform_reply_one(req, &who, &project_shown, &project, 0);
}

static enum status project_delete(struct req *req)
{
    struct platform_who who;
    struct platform_object org, project;
    struct platform_objects all;
    TRY(find_project(req, &who, PLATFORM_ORG_MANAGE_PROJECTS, &org, &project));
    if (strcmp(project.id, platform_text(org.links, "default-project")) == 0)
        return req_fail(req, ST_REFUSED, "the default project cannot be deleted");
    TRY(platform_object_children(req->txn, org.id, "workspaces", &all));
    for (size_t i = 0; i < all.n; i++)
        if (strcmp(platform_text(all.items[i].links, "project"), project.id) == 0)
            return req_fail(req, ST_REFUSED, "the project has workspaces: move or delete them");
    return platform_object_delete(req->txn, &project);
}

static const struct platform_row
    listed = {&platform_project_kind, PLATFORM_LIST, "organization: see", false, false},
    shown = {&platform_project_kind, PLATFORM_ONE, "organization: see", false, false},
    made = {&platform_project_kind, PLATFORM_ONE, "organization: manage projects", true, true},
    changed = {&platform_project_kind, PLATFORM_ONE, "organization: manage projects", true, false},
    dropped = {NULL, PLATFORM_NOTHING, "organization: manage projects", false, false};

static const struct route project_routes[] = {
    PLATFORM_GET("organizations/:org/projects", projects_list, listed,
                 "The projects of an organization."),
    PLATFORM_MAKE("organizations/:org/projects", project_create, made, .help = "Create a project."),
    PLATFORM_GET("projects/:id", project_read, shown, "A project."),
    PLATFORM_PATCH("projects/:id", project_update, changed, .help = "Change a project."),
    PLATFORM_ACT(DELETE, "projects/:id", project_delete, dropped,
                 .help = "Delete a project without workspaces."),
};

const struct route_table platform_project_table = {project_routes, ARRAY_LEN(project_routes)};
