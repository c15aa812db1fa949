#include "api/scheduler/sched_node_view.h"
#include "api/scheduler/sched_spec.h"

#include <math.h>
#include <stdio.h>

static bool has_port(const struct node_view *view, int64_t port)
{
    return (view->ports[port / 64] >> (port % 64) & 1) != 0;
}

static void take_port(struct node_view *view, int64_t port)
{
    if (port > 0 && port < SCHED_PORTS)
        view->ports[port / 64] |= UINT64_C(1) << (port % 64);
}

void ask_of(const struct text_value *spec, const struct text_value *group, struct ask *ret_ask)
{
    const struct text_value *tasks = text_get(group, "Tasks");
    *ret_ask = (struct ask){.spec = spec, .group = group};
    TEXT_FOR (task, tasks) {
        const struct text_value *r = text_get(task, "Resources");
        ret_ask->cpu += (uint64_t)spec_int(r, "CPU");
        ret_ask->memory_mb += (uint64_t)spec_int(r, "MemoryMB");
    }
    ret_ask->disk_mb = (uint64_t)spec_int(text_get(group, "EphemeralDisk"), "SizeMB");
}

/* Count what an allocation takes. */
static enum status add_taken(struct state_txn *txn, const char *id, const char *job,
                             struct node_view *view)
{
    const struct text_value *ports = NULL;
    struct sched_alloc alloc;
    TRY(sched_alloc_load(txn, id, &alloc));
    if (sched_client_ended(alloc.report.status))
        return ST_OK;
    view->cpu += alloc.plan.cpu;
    view->memory_mb += alloc.plan.memory_mb;
    view->disk_mb += alloc.plan.disk_mb;
    view->of_job += alloc.plan.desired == SCHED_RUN && strcmp(alloc.plan.job, job) == 0;
    if (alloc.plan.ports[0] == '\0')
        return ST_OK;
    TRY(text_json_parse(txn->arena, bytes_str(alloc.plan.ports), &ports, NULL));
    TEXT_FOR (port, ports)
        take_port(view, spec_int(port, "Value"));
    return ST_OK;
}

enum status node_view_load(struct state_txn *txn, const char *id, const char *job,
                           struct node_view *ret_view)
{
    struct sched_ids ids;
    memset(ret_view, 0, sizeof *ret_view);
    TRY(sched_node_load(txn, id, &ret_view->node));
    TRY(text_json_parse(txn->arena, bytes_str(ret_view->node.facts), &ret_view->facts, NULL));
    if (ret_view->node.status != SCHED_NODE_READY || ret_view->node.ineligible)
        return ST_OK;
    TRY(sched_ids_of(txn, "sched-node-alloc", id, &ids));
    for (size_t i = 0; i < ids.n; i++)
        TRY(add_taken(txn, ids.items[i], job, ret_view));
    return ST_OK;
}

/* Feasibility */

static bool sched_node_view_glob(const char *pattern, const char *text)
{
    const char *star = NULL, *mark = NULL;
    while (*text != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            mark = text;
        } else if (*pattern == *text) {
            pattern++, text++;
        } else if (star != NULL) {
            pattern = star + 1;
            text = ++mark;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static bool in_datacenters(const struct node_view *view, const struct text_value *spec)
{
    const struct text_value *list = text_get(spec, "Datacenters");
    TEXT_FOR (item, list)
        if (sched_node_view_glob((const char *)item->text.data, view->node.datacenter))
            return true;
    return false;
}

/* The value of "${attr.NAME}" and the like, or the text itself; NULL: the node has no such value.
 */
static const char *sched_node_view_value_of(const struct node_view *view, const char *target)
{
    static const struct {
        const char *begin, *member;
    } maps[] = {{"${attr.", "Attributes"}, {"${meta.", "Meta"}};
    char name[128];
    size_t len = strlen(target);
    if (len < 3 || target[0] != '$' || target[len - 1] != '}' || len >= sizeof name)
        return target;
    if (strcmp(target, "${node.datacenter}") == 0)
        return view->node.datacenter;
    if (strcmp(target, "${node.class}") == 0)
        return view->node.class_name;
    if (strcmp(target, "${node.pool}") == 0)
        return view->node.pool;
    if (strcmp(target, "${node.unique.id}") == 0)
        return view->node.id;
    if (strcmp(target, "${node.unique.name}") == 0)
        return view->node.name;
    for (size_t i = 0; i < ARRAY_LEN(maps); i++) {
        size_t begin = strlen(maps[i].begin);
        if (strncmp(target, maps[i].begin, begin) != 0)
            continue;
        memcpy(name, target + begin, len - begin - 1);
        name[len - begin - 1] = '\0';
        const struct text_value *v = text_get(text_get(view->facts, maps[i].member), name);
        return v != NULL && v->kind == TEXT_STRING ? (const char *)v->text.data : NULL;
    }
    return NULL;
}

static bool constraint_fits(const struct node_view *view, const struct text_value *constraint)
{
    const char *left = sched_node_view_value_of(view, spec_text(constraint, "LTarget"));
    const char *right = sched_node_view_value_of(view, spec_text(constraint, "RTarget"));
    const char *operand = spec_text(constraint, "Operand");
    if (strcmp(operand, "distinct_hosts") == 0)
        return view->of_job == 0 || strcmp(spec_text(constraint, "RTarget"), "false") == 0;
    if (strcmp(operand, "is_set") == 0)
        return left != NULL;
    if (strcmp(operand, "is_not_set") == 0)
        return left == NULL;
    bool same = left != NULL && right != NULL && strcmp(left, right) == 0;
    return strcmp(operand, "!=") == 0 || strcmp(operand, "not") == 0 ? !same : same;
}

/* The first constraint that the node breaks; NULL: none. */
static const char *broken(const struct node_view *view, const struct text_value *of)
{
    const struct text_value *list = text_get(of, "Constraints");
    if (list == NULL || list->kind != TEXT_LIST)
        return NULL;
    TEXT_FOR (constraint, list)
        if (!constraint_fits(view, constraint)) {
            const char *left = spec_text(constraint, "LTarget");
            return left[0] != '\0' ? left : spec_text(constraint, "Operand");
        }
    return NULL;
}

static const char *why_filtered(const struct node_view *view, const struct ask *ask)
{
    const struct text_value *tasks = text_get(ask->group, "Tasks");
    const struct text_value *attributes = text_get(view->facts, "Attributes");
    const char *why = broken(view, ask->spec);
    char name[160];
    if (!in_datacenters(view, ask->spec))
        return "datacenter";
    if (why == NULL)
        why = broken(view, ask->group);
    for (const struct text_value *t = tasks->first; t != NULL && why == NULL; t = t->next) {
        (void)snprintf(name, sizeof name, "driver.%.140s", spec_text(t, "Driver"));
        const struct text_value *driver = text_get(attributes, name);
        why = driver == NULL || !text_is(driver->text, "1") ? "missing drivers" : broken(view, t);
    }
    return why;
}

static const char *why_exhausted(const struct node_view *view, const struct ask *ask)
{
    if (view->cpu + ask->cpu > view->node.cpu)
        return "cpu";
    if (view->memory_mb + ask->memory_mb > view->node.memory_mb)
        return "memory";
    if (view->disk_mb + ask->disk_mb > view->node.disk_mb)
        return "disk";
    const struct text_value *networks = text_get(ask->group, "Networks");
    TEXT_FOR (network, networks) {
        const struct text_value *ports = text_get(network, "ReservedPorts");
        TEXT_FOR (port, ports) {
            int64_t n = spec_int(port, "Value");
            if (n <= 0 || n >= SCHED_PORTS || has_port(view, n))
                return "network: port collision";
        }
    }
    return NULL;
}

/* BestFit of B10: the fuller the node, the better. */
static double fit(const struct node_view *view, const struct ask *ask)
{
    double cpu = 1 - (double)(view->cpu + ask->cpu) / (double)view->node.cpu;
    double memory = 1 - (double)(view->memory_mb + ask->memory_mb) / (double)view->node.memory_mb;
    double score = 20 - (pow(10, cpu) + pow(10, memory));
    return fmin(fmax(score, 0), 18) / 18;
}

double node_view_score(const struct node_view *view, const struct ask *ask, struct finding *finding)
{
    if (view->node.status != SCHED_NODE_READY || view->node.ineligible ||
        strcmp(view->node.pool, spec_text(ask->spec, "NodePool")) != 0)
        return -1;
    finding->in_pool++;
    finding->evaluated++;
    const char *why = why_filtered(view, ask);
    if (why != NULL) {
        finding->filtered++;
        finding->why_filtered = why;
        return -1;
    }
    why = why_exhausted(view, ask);
    if (why != NULL) {
        finding->exhausted++;
        finding->why_exhausted = why;
        return -1;
    }
    double spread = (double)view->of_job / (double)MAX(spec_int(ask->group, "Count"), INT64_C(1));
    return fmax(fit(view, ask) - spread, 0);
}

/* Write one port. */
static void put_port(struct text_writer *w, const struct node_view *view,
                     const struct text_value *port, int64_t value)
{
    const char *address = sched_node_view_value_of(view, "${attr.unique.network.ip-address}");
    text_open_object(w);
    text_member_str(w, "Label", spec_text(port, "Label"));
    text_member_int(w, "Value", value);
    text_member_int(w, "To", spec_int(port, "To"));
    text_member_str(w, "HostIP", address != NULL ? address : "127.0.0.1");
    text_close(w);
}

static int64_t free_port(const struct node_view *view)
{
    for (int64_t n = SCHED_PORT_FIRST; n < SCHED_PORT_END; n++)
        if (!has_port(view, n))
            return n;
    return 0;
}

enum status node_view_take(struct arena *arena, struct node_view *view, const struct ask *ask,
                           const char **ret_ports)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct text_writer w = {.out = &text, .plain = true};
    const struct text_value *networks = text_get(ask->group, "Networks");
    text_open_list(&w);
    TEXT_FOR (network, networks) {
        const struct text_value *reserved = text_get(network, "ReservedPorts");
        const struct text_value *dynamic = text_get(network, "DynamicPorts");
        TEXT_FOR (port, reserved) {
            take_port(view, spec_int(port, "Value"));
            put_port(&w, view, port, spec_int(port, "Value"));
        }
        TEXT_FOR (port, dynamic) {
            int64_t n = free_port(view);
            if (n == 0)
                return ST_BUSY;
            take_port(view, n);
            put_port(&w, view, port, n);
        }
    }
    text_close(&w);
    TRY(buf_status(&text));
    view->cpu += ask->cpu;
    view->memory_mb += ask->memory_mb;
    view->disk_mb += ask->disk_mb;
    view->of_job++;
    *ret_ports = arena_str(arena, buf_bytes(&text));
    return *ret_ports != NULL ? ST_OK : ST_NOMEM;
}
