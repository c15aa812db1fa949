#include "api/sys/sys.h"

static const int64_t SYSTEM_TTL_S = 2764800; /* 768 hours */

static void put_config(struct text_writer *w, const struct mount *mount)
{
    text_key(w, "config");
    text_open_object(w);
    text_member_int(w, "default_lease_ttl",
                    mount->default_lease_ttl_s != 0 ? mount->default_lease_ttl_s : SYSTEM_TTL_S);
    text_member_int(w, "max_lease_ttl",
                    mount->max_lease_ttl_s != 0 ? mount->max_lease_ttl_s : SYSTEM_TTL_S);
    text_member_bool(w, "force_no_cache", false);
    text_close(w);
}

/* Members of a mount, in an object that is open. */
static void put_mount(struct text_writer *w, const struct mount *mount)
{
    text_member_str(w, "type", mount->type);
    text_member_str(w, "description", mount->description);
    text_member_str(w, "accessor", mount->accessor);
    text_member_str(w, "uuid", mount->uuid);
    put_config(w, mount);
    text_key(w, "options");
    if (mount->options.n == 0) {
        text_put_null(w);
    } else {
        text_open_object(w);
        for (size_t i = 0; i < mount->options.n; i++)
            text_member_str(w, mount->options.pairs[2 * i], mount->options.pairs[2 * i + 1]);
        text_close(w);
    }
    text_member_bool(w, "local", false);
    text_member_bool(w, "seal_wrap", false);
    text_member_bool(w, "external_entropy_access", false);
}

struct listing {
    struct req *req;
    struct text_writer w;
};

static enum status put_one(void *ctx, const struct mount *mount)
{
    struct listing *listing = ctx;
    if (auth_capabilities(listing->req->token, bytes_str(mount->path)) == 0)
        return ST_OK;
    text_key(&listing->w, mount->path);
    text_open_object(&listing->w);
    put_mount(&listing->w, mount);
    text_close(&listing->w);
    return ST_OK;
}

enum status sys_ui_mounts(struct req *req)
{
    struct listing listing = {.req = req, .w = req_reply_begin(req)};
    text_open_object(&listing.w);
    text_key(&listing.w, "secret");
    text_open_object(&listing.w);
    TRY(mount_each(req->txn, req->ns, put_one, &listing));
    text_close(&listing.w);
    text_key(&listing.w, "auth");
    text_open_object(&listing.w);
    text_key(&listing.w, "token/");
    text_open_object(&listing.w);
    text_member_str(&listing.w, "type", "token");
    text_member_str(&listing.w, "description", "token based credentials");
    text_member_null(&listing.w, "options");
    text_close(&listing.w);
    text_close(&listing.w);
    text_close(&listing.w);
    return req_reply_end(req);
}

/* No mount and no access look the same. */
static enum status refuse(struct req *req, const char *path)
{
    return req_fail(req, ST_DENIED,
                    "preflight capability check returned 403, please ensure client's policies "
                    "grant access to path \"%.100s/\"",
                    path);
}

enum status sys_ui_mount(struct req *req)
{
    const char *path = req_param(req, "path");
    struct mount mount;

    if (auth_capabilities(req->token, bytes_str(path)) == 0)
        return refuse(req, path);
    enum status st = mount_find(req->txn, req->ns, bytes_str(path), &mount);
    if (st == ST_NOT_FOUND)
        return refuse(req, path);
    TRY(st);
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_str(&w, "path", mount.path);
    put_mount(&w, &mount);
    text_close(&w);
    return req_reply_end(req);
}
