/* Checking and mending the hashes of the tree, and comparing with the primary anew. Each path
 * exists for a cluster of clients, and below dr/secondary with a DR operation token. */
#include "api/replication/replication_internal.h"
#include "cluster/dr/check.h"
#include "text/encode.h"

struct report_out {
    bool corrupted_root;
    struct bytes corrupted_tree_map;
    int64_t last_corruption_check_epoch;
};
static const struct field report_fields[] = {
    FIELD(struct report_out, corrupted_root, BOOL),
    FIELD(struct report_out, corrupted_tree_map, JSON),
    FIELD(struct report_out, last_corruption_check_epoch, TIME),
};
static const struct schema report_schema = SCHEMA(struct report_out, report_fields);
struct check_out {
    const void *merkle_corruption_report;
    const char *node;
};
static const struct field check_fields[] = {
    FIELD(struct check_out, merkle_corruption_report, OBJECT, .sub = &report_schema),
    FIELD(struct check_out, node, STRING, .help = "The node whose tree was checked."),
};
static const struct schema replication_check_reply = SCHEMA(struct check_out, check_fields);

/* Pages with damage: {"5":{"corrupted":true,"subpages":[28]}}; null without. */
static void put_pages(struct buf *out, const struct dr_check_tree *tree)
{
    bool any = false;
    ASSERT(tree->corrupted == (tree->n != 0));
    if (!tree->corrupted) {
        buf_add_str(out, "null");
        return;
    }
    buf_add_u8(out, '{');
    for (unsigned page = 0; page < 256; page++) {
        bool first = true;
        for (unsigned sub = 0; sub < 256; sub++) {
            if ((tree->subpages[page][sub / 8] >> sub % 8 & 1) == 0)
                continue;
            if (first)
                buf_add_format(out, "%s\"%u\":{\"corrupted\":true,\"subpages\":[%u", any ? "," : "",
                               page, sub);
            else
                buf_add_format(out, ",%u", sub);
            first = false;
            any = true;
        }
        if (!first)
            buf_add_str(out, "]}");
    }
    buf_add_u8(out, '}');
}

static void put_tree(struct buf *out, const char *number, const char *type,
                     const struct dr_check_tree *tree)
{
    char root[TEXT_BASE64_LEN(DR_ROOT_BYTES) + 1];
    (void)text_base64_put(bytes_of(tree->root, sizeof tree->root), TEXT_BASE64, root);
    buf_add_format(out,
                   "\"%s\":{\"tree_type\":\"%s\",\"root_hash\":\"%s\","
                   "\"corrupted_subtree_root\":%s,\"corrupted_index_tuples_map\":",
                   number, type, root, tree->corrupted ? "true" : "false");
    put_pages(out, tree);
    buf_add_u8(out, '}');
}

static enum status run_check(struct req *req, bool mend, struct dr_check **ret_check)
{
    struct dr_check *check = arena_alloc(req->arena, sizeof *check);
    ASSERT(!req_in_txn(req));
    if (check == NULL)
        return ST_NOMEM;
    enum status st = req->host->node_ops->dr_check(req->host->node, mend, check);
    if (st == ST_BUSY)
        return req_fail(req, ST_BUSY, "another check of the tree runs: try again later");
    *ret_check = check;
    return st;
}

static enum status check_outside(struct req *req)
{
    CLEANUP(buf_done) struct buf map = {0};
    struct dr_check *check = NULL;
    struct node_status *node = req_node(req);
    ASSERT(req->route != NULL);
    if (node == NULL)
        return ST_NOMEM;
    TRY(run_check(req, false, &check));
    ASSERT(check != NULL);
    buf_add_u8(&map, '{');
    put_tree(&map, "1", "replicated", &check->replicated);
    buf_add_u8(&map, ',');
    put_tree(&map, "2", "local", &check->local);
    buf_add_u8(&map, '}');
    TRY(buf_status(&map));
    const struct report_out report = {
        .corrupted_root = check->replicated.corrupted || check->local.corrupted,
        .corrupted_tree_map = buf_bytes(&map),
        .last_corruption_check_epoch = check->ended_ms,
    };
    return req_reply(req, &(struct check_out){&report, node->name});
}

static enum status reindex_outside(struct req *req)
{
    struct dr_check *check = NULL;
    return run_check(req, true, &check);
}

/* The work follows outside of the transaction. */
static enum status replication_check(struct req *req)
{
    ASSERT(req_in_txn(req));
    return replication_in_root(req);
}

static enum status replication_check_secondary(struct req *req)
{
    struct dr_role role;
    return replication_need_secondary(req, &role);
}

static enum status warn(struct req *req, const char *text)
{
    req_warn(req, "%s", text);
    return ST_OK;
}

static enum status warn_reindexed(struct req *req)
{
    struct node_status *node = req_node(req);
    if (node == NULL)
        return ST_NOMEM;
    req_warn(req, "The hashes of the tree of %s were computed anew. Its log names what was wrong.",
             node->name);
    return ST_OK;
}

static enum status replication_reindex(struct req *req)
{
    TRY(replication_check(req));
    return warn_reindexed(req);
}

static enum status replication_reindex_secondary(struct req *req)
{
    TRY(replication_check_secondary(req));
    return warn_reindexed(req);
}

/* A secondary compares its state with its primary's, repairs it and follows anew. */
static enum status replication_recover(struct req *req)
{
    struct dr_role role;
    struct reason why = {{0}};
    ASSERT(req_in_txn(req));
    TRY(replication_in_root(req));
    TRY(dr_role_read(req->txn, &role));
    if (role.mode != DR_MODE_SECONDARY || role.phase == DR_PHASE_IDLE)
        return warn(req, "This cluster follows no primary: nothing is to be recovered.");
    if (role.phase == DR_PHASE_SYNCING)
        return warn(req, "This cluster syncs with its primary already.");
    struct dr_primary primary = {.epoch = role.epoch, .id = role.id, .address = role.address};
    memcpy(primary.set, role.set, sizeof primary.set);
    TRY(replication_result(req, dr_role_resync(req->txn, &primary, &why), &why));
    return warn(req, "This cluster compares its state with its primary's, and follows anew.");
}

static enum status replication_recover_secondary(struct req *req)
{
    struct dr_role role;
    TRY(replication_need_secondary(req, &role));
    return replication_recover(req);
}

#define CHECK_HELP                                                                                 \
    "Compute the hash of every node of the active node's tree anew, at one version and without a " \
    "lock, and compare with the stored hashes."
#define REINDEX_HELP                                                                             \
    "Compute the hash of every node of the active node's tree anew, and replace those that are " \
    "wrong. The status shows the progress. Damage that this uncovers on a secondary is found "   \
    "when "                                                                                      \
    "the roots are compared next, and repaired from the primary. The members diff, force and "   \
    "skip_flush of older clients change nothing."
#define RECOVER_HELP \
    "Let a secondary compare its state with its primary's, repair the difference and follow anew."

static const struct route check_routes[] = {
    {.method = METHOD_POST,
     .path = "replication/merkle-check",
     .handler = replication_check,
     .outside = check_outside,
     .place = PLACE_ACTIVE,
     .flags = ROUTE_SUDO | ROUTE_LONG,
     .reply = &replication_check_reply,
     .help = CHECK_HELP},
    {.method = METHOD_POST,
     .path = "replication/dr/secondary/merkle-check",
     .handler = replication_check_secondary,
     .outside = check_outside,
     .place = PLACE_ACTIVE,
     .who = WHO_DR_TOKEN,
     .flags = ROUTE_LONG,
     .body = &req_dr_authority_schema,
     .reply = &replication_check_reply,
     .help = CHECK_HELP},
    {.method = METHOD_POST,
     .path = "replication/reindex",
     .handler = replication_reindex,
     .outside = reindex_outside,
     .place = PLACE_ACTIVE,
     .flags = ROUTE_SUDO | ROUTE_LONG,
     .body = &req_dr_authority_schema,
     .help = REINDEX_HELP},
    {.method = METHOD_POST,
     .path = "replication/dr/secondary/reindex",
     .handler = replication_reindex_secondary,
     .outside = reindex_outside,
     .place = PLACE_ACTIVE,
     .who = WHO_DR_TOKEN,
     .flags = ROUTE_LONG,
     .body = &req_dr_authority_schema,
     .help = REINDEX_HELP},
    {.method = METHOD_POST,
     .path = "replication/recover",
     .handler = replication_recover,
     .place = PLACE_ACTIVE,
     .flags = ROUTE_SUDO,
     .help = RECOVER_HELP},
    {.method = METHOD_POST,
     .path = "replication/dr/secondary/recover",
     .handler = replication_recover_secondary,
     .place = PLACE_ACTIVE,
     .who = WHO_DR_TOKEN,
     .body = &req_dr_authority_schema,
     .help = RECOVER_HELP},
};

const struct route_table replication_check_table = {check_routes, ARRAY_LEN(check_routes)};
