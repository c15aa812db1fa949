/* Allocations: list, read, services, checks (B2, B3, B4). */
#include "api/scheduler/sched_show.h"
#include "api/scheduler/sched_spec.h"
#include "api/scheduler/scheduler.h"
#include "front/scheduler/scheduler.h"
#include "front/scheduler/scheduler_rights.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PREFIX_MAX = 36, TOKEN_MAX = 64 };

/* Finding one */

enum status sched_alloc_find(struct req *req, const char *absent, struct sched_alloc *ret_alloc)
{
    const char *id = req_param(req, "id");
    if (strlen(id) != SCHED_UUID_LEN)
        return req_fail(req, ST_REFUSED,
                        "alloc lookup failed: index error: UUID must be 36 characters");
    enum status st = sched_alloc_load(req->txn, id, ret_alloc);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_NOT_FOUND, absent, id);
    return st;
}

static enum status watch_alloc(struct req *req)
{
    const char *id = req_param(req, "id");
    struct bytes key;
    if (strlen(id) != SCHED_UUID_LEN)
        return ST_OK;
    TRY(sched_key(req->arena, "sched-alloc", id, "", &key));
    return req_watch_prefix(req, key);
}

enum status sched_alloc_spec(struct state_txn *txn, const struct sched_alloc *alloc,
                             const struct text_value **ret_spec)
{
    uint64_t created;
    enum status st =
        sched_spec_load(txn, alloc->plan.job, alloc->plan.job_version, ret_spec, &created);
    if (st != ST_NOT_FOUND)
        return st;
    *ret_spec = NULL; /* the job was purged */
    return ST_OK;
}

struct sched_spec_read {
    const char *job;
    uint64_t version;
    const struct text_value *spec;
};

static enum status note_spec(struct state_txn *txn, struct sched_specs *specs,
                             const struct sched_spec_read *read)
{
    if (specs->n == specs->room) {
        size_t room = specs->room != 0 ? 2 * specs->room : 16;
        struct sched_spec_read *more = arena_alloc(txn->arena, room * sizeof *more);
        if (more == NULL)
            return ST_NOMEM;
        if (specs->n != 0)
            memcpy(more, specs->items, specs->n * sizeof *more);
        specs->items = more;
        specs->room = room;
    }
    specs->items[specs->n++] = *read;
    return ST_OK;
}

enum status sched_specs_get(struct state_txn *txn, struct sched_specs *specs,
                            const struct sched_alloc *alloc, const struct text_value **ret_spec)
{
    struct sched_spec_read read = {.job = alloc->plan.job, .version = alloc->plan.job_version};
    for (size_t i = specs->n; i > 0; i--) { /* lists are in the order of time: the latest first */
        const struct sched_spec_read *known = &specs->items[i - 1];
        if (known->version == read.version && strcmp(known->job, read.job) == 0) {
            *ret_spec = known->spec;
            return ST_OK;
        }
    }
    TRY(sched_alloc_spec(txn, alloc, &read.spec));
    TRY(note_spec(txn, specs, &read));
    *ret_spec = read.spec;
    return ST_OK;
}

static enum status alloc_read(struct req *req)
{
    const struct text_value *spec;
    struct sched_alloc alloc;
    TRY(watch_alloc(req));
    TRY(sched_alloc_find(req, "alloc not found", &alloc));
    TRY(sched_alloc_spec(req->txn, &alloc, &spec));
    struct text_writer w = req_reply_begin(req);
    sched_show_alloc(&alloc, spec, &w);
    return req_reply_end(req);
}

/* A registration as its node reported it, with the versions of the allocation. */
static void sched_alloc_put_service(struct text_writer *w, const struct text_value *service,
                                    const struct sched_alloc *alloc)
{
    text_open_object(w);
    TEXT_FOR (member, service) {
        text_key_bytes(w, member->name);
        text_put_value(w, member);
    }
    text_key(w, "CreateIndex");
    text_put_uint(w, alloc->created);
    text_key(w, "ModifyIndex");
    text_put_uint(w, alloc->modified);
    text_close(w);
}

static enum status alloc_services(struct req *req)
{
    struct sched_alloc alloc;
    TRY(watch_alloc(req));
    TRY(sched_alloc_find(req, "allocation not found", &alloc));
    struct text_writer w = req_reply_begin(req);
    bool gone = alloc.plan.desired != SCHED_RUN || sched_client_ended(alloc.report.status);
    const struct text_value *list = NULL;
    if (!gone && alloc.report.services[0] != '\0')
        TRY(text_json_parse(req->arena, bytes_str(alloc.report.services), &list, NULL));
    text_open_list(&w);
    for (const struct text_value *s = list != NULL ? list->first : NULL; s != NULL; s = s->next)
        sched_alloc_put_service(&w, s, &alloc);
    text_close(&w);
    return req_reply_end(req);
}

static enum status alloc_checks(struct req *req)
{
    struct sched_alloc alloc;
    TRY(sched_alloc_find(req, "Unknown allocation \"%s\"", &alloc));
    struct text_writer w = req_reply_begin(req);
    text_put_raw(&w, bytes_str(alloc.report.checks[0] != '\0' ? alloc.report.checks : "{}"));
    return req_reply_end(req);
}

/* Listing */

/* Parameters of the list. */
struct list_in {
    const char *prefix, *next_token, *per_page, *filter, *resources, *task_states, *reverse;
};
static const struct field list_fields[] = {
    FIELD(struct list_in, prefix, STRING, .preset = "",
          .help = "An even number of hex digits of the ID."),
    FIELD(struct list_in, next_token, STRING, .preset = "",
          .help = "Where the page begins: the header NextToken of the last page."),
    FIELD(struct list_in, per_page, STRING, .preset = "", .help = "Most entries; 0: all."),
    FIELD(struct list_in, filter, STRING, .preset = "", .help = "Not built: refused."),
    FIELD(struct list_in, resources, STRING, .preset = "",
          .help = "True: with AllocatedResources."),
    FIELD(struct list_in, task_states, STRING, .preset = "", .help = "False: without TaskStates."),
    FIELD(struct list_in, reverse, STRING, .preset = "", .help = "True: the newest first."),
};
const struct schema sched_list_schema = SCHEMA(struct list_in, list_fields);

struct listing {
    char prefix[PREFIX_MAX + 1]; /* hex digits alone */
    bool by_id, reverse, states, resources;
    int64_t per_page;
    struct bytes token;
};

static enum status read_prefix(struct req *req, struct listing *l)
{
    const struct list_in *in = req_body(req);
    struct bytes prefix = bytes_str(in->prefix);
    size_t n = 0;
    l->by_id = prefix.len != 0;
    bool fits = prefix.len <= PREFIX_MAX;
    for (size_t i = 0; fits && i < prefix.len; i++) {
        if (prefix.data[i] == '-')
            continue;
        if (text_hex_digit(prefix.data[i]) > 15)
            return req_fail(req, ST_REFUSED, "alloc lookup failed: index error: Invalid UUID: %.*s",
                            (int)prefix.len, (const char *)prefix.data);
        uint8_t c = prefix.data[i];
        l->prefix[n++] = (char)(c >= 'A' && c <= 'F' ? c | 0x20 : c);
    }
    l->prefix[n] = '\0';
    if (!fits)
        return req_fail(req, ST_REFUSED,
                        "alloc lookup failed: index error: Invalid UUID length: %zu", prefix.len);
    if (n % 2 != 0)
        return req_fail(req, ST_REFUSED,
                        "alloc lookup failed: index error: UUID (without hyphens) "
                        "must be even length");
    return ST_OK;
}

static enum status read_listing(struct req *req, struct listing *l)
{
    const struct list_in *in = req_body(req);
    struct bytes page = bytes_str(in->per_page);
    *l = (struct listing){.token = bytes_str(in->next_token)};
    l->reverse = strcmp(in->reverse, "true") == 0;
    TRY(read_prefix(req, l));
    if (page.len != 0 && (text_int_parse(page, &l->per_page) != ST_OK || l->per_page > INT32_MAX))
        return req_fail(req, ST_INVALID, "Expect a number for `per_page` query string parameter");
    if (in->filter[0] != '\0')
        return req_fail(req, ST_INVALID,
                        "filter expressions are not built in holdfast: see "
                        "docs/compatibility.md");
    TRY(scheduler_truth(req, "task_states", in->task_states, true, &l->states));
    return scheduler_truth(req, "resources", in->resources, false, &l->resources);
}

/* Whether the id begins with the hex digits. */
static bool has_prefix(const char *id, const char *prefix)
{
    for (; *prefix != '\0'; id++) {
        if (*id == '-')
            continue;
        if (*id != *prefix)
            return false;
        prefix++;
    }
    return true;
}

static int by_id(const void *a, const void *b)
{
    const struct sched_alloc *x = a, *y = b;
    return strcmp(x->id, y->id);
}

static int by_creation(const void *a, const void *b)
{
    const struct sched_alloc *x = a, *y = b;
    return x->created != y->created ? (x->created < y->created ? -1 : 1) : strcmp(x->id, y->id);
}

/* Where an allocation lies in the order of the list, relative to a token. */
static int against_token(const struct sched_alloc *alloc, const struct listing *l)
{
    struct bytes id = l->token;
    int64_t index = 0;
    const uint8_t *dot = memchr(id.data, '.', id.len);
    if (!l->by_id && dot != NULL) {
        if (text_int_parse(bytes_of(id.data, (size_t)(dot - id.data)), &index) != ST_OK)
            index = 0;
        id = bytes_from(id, (size_t)(dot + 1 - id.data));
        if (alloc->created != (uint64_t)index)
            return alloc->created < (uint64_t)index ? -1 : 1;
    }
    return bytes_cmp(bytes_str(alloc->id), id);
}

static enum status put_entries(struct req *req, const struct sched_alloc *allocs, size_t n,
                               const struct listing *l)
{
    struct text_writer w = req_reply_begin(req);
    struct sched_specs specs = {.n = 0};
    int64_t given = 0;
    text_open_list(&w);
    for (size_t k = 0; k < n && l->per_page >= 0; k++) {
        const struct sched_alloc *alloc = &allocs[l->reverse ? n - 1 - k : k];
        int order = l->token.len != 0 ? against_token(alloc, l) : 0;
        if (l->reverse ? order > 0 : order < 0)
            continue;
        if (l->per_page != 0 && given == l->per_page) {
            req->reply.next_page =
                l->by_id ? alloc->id
                         : arena_format(req->arena, "%" PRIu64 ".%s", alloc->created, alloc->id);
            break;
        }
        const struct text_value *spec;
        TRY(sched_specs_get(req->txn, &specs, alloc, &spec));
        const struct sched_stub how = {l->states, l->resources, 0, spec_text(spec, "Type")};
        sched_show_stub(alloc, &how, &w);
        if (l->resources)
            sched_show_resources(alloc, spec, &w);
        text_close(&w);
        given++;
    }
    text_close(&w);
    return req_reply_end(req);
}

/* List allocations of `ids` that the parameters choose. */
static enum status list_ids(struct req *req, const struct sched_ids *ids)
{
    struct listing l;
    size_t n = 0;
    TRY(read_listing(req, &l));
    struct sched_alloc *allocs = arena_alloc(req->arena, (ids->n + 1) * sizeof *allocs);
    if (allocs == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < ids->n; i++)
        if (has_prefix(ids->items[i], l.prefix))
            TRY(sched_alloc_load(req->txn, ids->items[i], &allocs[n++]));
    qsort(allocs, n, sizeof *allocs, l.by_id ? by_id : by_creation);
    return put_entries(req, allocs, n, &l);
}

static enum status alloc_list(struct req *req)
{
    struct sched_ids ids;
    struct bytes prefix;
    TRY(sched_key(req->arena, "sched-alloc", "", NULL, &prefix));
    TRY(req_watch_prefix(req, prefix));
    TRY(sched_ids_of(req->txn, "sched-alloc", "", &ids));
    return list_ids(req, &ids);
}

enum status sched_allocs_of(struct req *req, const char *kind, const char *owner)
{
    struct sched_ids ids;
    struct bytes prefix;
    TRY(sched_key(req->arena, "sched-alloc", "", NULL, &prefix));
    TRY(req_watch_prefix(req, prefix));
    TRY(sched_ids_of(req->txn, kind, owner, &ids));
    return list_ids(req, &ids);
}

static const struct scheduler_row list_row = {
    .permission = "namespace:read-job", .caps = SCHEDULER_READ_JOB, .collection = true};
static const struct scheduler_row read_row = {.permission = "namespace:read-job",
                                              .caps = SCHEDULER_READ_JOB,
                                              .any_namespace = true,
                                              .hides = true};
static const struct scheduler_row services_row = {.permission = "namespace:read-job",
                                                  .caps = SCHEDULER_READ_JOB};

static const struct route list_routes[] = {
    {.method = METHOD_GET,
     .path = "",
     .handler = alloc_list,
     .of_dialect = &list_row,
     .index = INDEX_BLOCKS,
     .feature = SCHEDULER_FEATURE,
     .body = &sched_list_schema,
     .shape = "[obj]", /* task states and resources are written as they are stored */
     .help = "List allocations."},
};
const struct route_table sched_alloc_list_table = {list_routes, ARRAY_LEN(list_routes)};

static const struct route read_routes[] = {
    {.method = METHOD_GET,
     .path = ":id",
     .handler = alloc_read,
     .of_dialect = &read_row,
     .index = INDEX_BLOCKS,
     .feature = SCHEDULER_FEATURE,
     .shape = "obj", /* contains a job as its client wrote it */
     .help = "Read an allocation."},
    {.method = METHOD_GET,
     .path = ":id/services",
     .handler = alloc_services,
     .of_dialect = &services_row,
     .index = INDEX_BLOCKS,
     .feature = SCHEDULER_FEATURE,
     .shape = "[obj]", /* as the node reported them */
     .help = "List the services that an allocation registered."},
    {.method = METHOD_GET,
     .path = ":id/checks",
     .handler = alloc_checks,
     .of_dialect = &services_row,
     .feature = SCHEDULER_FEATURE,
     .shape = "obj", /* as the node reported them */
     .help = "The latest results of an allocation's checks."},
};
const struct route_table sched_alloc_read_table = {read_routes, ARRAY_LEN(read_routes)};

static const struct route check_routes[] = {
    {.method = METHOD_GET,
     .path = "allocation/:id/checks",
     .handler = alloc_checks,
     .of_dialect = &services_row,
     .feature = SCHEDULER_FEATURE,
     .shape = "obj", /* as the node reported them */
     .help = "As allocation/:id/checks."},
};
const struct route_table sched_client_checks_table = {check_routes, ARRAY_LEN(check_routes)};
