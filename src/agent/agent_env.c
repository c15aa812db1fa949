/* The surroundings of a task: its folders, its environment, and texts with ${…} in them (B12). */
#include "agent/agent_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { VARIABLES_MAX = 256, EXPANDED_MAX = 64 * 1024 };

struct list_of {
    struct arena *arena;
    char **items;
    size_t n;
    bool failed;
};

static void add(struct list_of *l, const char *name, const char *value)
{
    char *text = arena_format(l->arena, "%s=%s", name, value);
    if (text == NULL || l->n == VARIABLES_MAX) {
        l->failed = true;
        return;
    }
    l->items[l->n++] = text;
}

/* Under both spellings. */
static void add_both(struct list_of *l, const char *name, const char *value)
{
    static const char *const begins[] = {"NOMAD_", "SCHEDULER_"};
    for (size_t i = 0; i < ARRAY_LEN(begins); i++) {
        const char *full = arena_format(l->arena, "%s%s", begins[i], name);
        if (full != NULL)
            add(l, full, value);
    }
}

const char *task_dir(struct arena *arena, const struct task *task)
{
    return arena_format(arena, "%s/%s", task->alloc->dir, task->name);
}

int64_t alloc_port(const struct alloc *alloc, const char *label, const char **ret_address)
{
    const struct text_value *shared =
        text_get(text_get(alloc->spec, "AllocatedResources"), "Shared");
    const struct text_value *ports = text_get(shared, "Ports");
    if (ports == NULL || ports->kind != TEXT_LIST)
        return 0;
    TEXT_FOR (port, ports)
        if (strcmp(member_text(port, "Label"), label) == 0) {
            *ret_address = member_text(port, "HostIP");
            return member_int(port, "Value");
        }
    return 0;
}

static void add_ports(struct list_of *l, const struct alloc *alloc)
{
    const struct text_value *shared =
        text_get(text_get(alloc->spec, "AllocatedResources"), "Shared");
    const struct text_value *ports = text_get(shared, "Ports");
    if (ports == NULL || ports->kind != TEXT_LIST)
        return;
    TEXT_FOR (port, ports) {
        const char *label = member_text(port, "Label"), *ip = member_text(port, "HostIP");
        const char *n = arena_number(l->arena, (uint64_t)member_int(port, "Value"));
        const char *const begins[] = {"PORT_", "HOST_PORT_", "IP_", "ADDR_"};
        const char *address = arena_format(l->arena, "%s:%s", ip, n != NULL ? n : "");
        for (size_t i = 0; i < ARRAY_LEN(begins); i++) {
            const char *name = arena_format(l->arena, "%s%s", begins[i], label);
            if (name != NULL && n != NULL && address != NULL)
                add_both(l, name, i < 2 ? n : i == 2 ? ip : address);
        }
    }
}

static void add_meta(struct list_of *l, const struct text_value *of)
{
    const struct text_value *meta = text_get(of, "Meta");
    if (meta == NULL || meta->kind != TEXT_OBJECT)
        return;
    TEXT_FOR (item, meta) {
        const char *name =
            arena_format(l->arena, "META_%.*s", (int)item->name.len, (const char *)item->name.data);
        if (name != NULL)
            add_both(l, name, (const char *)item->text.data);
    }
}

static void add_facts(struct list_of *l, const struct task *task)
{
    const struct alloc *alloc = task->alloc;
    const struct text_value *job = text_get(alloc->spec, "Job");
    const struct text_value *resources = text_get(task->spec, "Resources");
    const char *index = strrchr(alloc->name, '['), *dir = task_dir(l->arena, task);
    char number[32], text[AGENT_UUID_LEN + 1];
    const char *const folders[][2] = {{"TASK_DIR", "local"}, {"SECRETS_DIR", "secrets"}};
    const char *shared = arena_format(l->arena, "%s/alloc", alloc->dir);
    if (shared != NULL)
        add_both(l, "ALLOC_DIR", shared);
    for (size_t i = 0; i < ARRAY_LEN(folders) && dir != NULL; i++) {
        const char *full = arena_format(l->arena, "%s/%s", dir, folders[i][1]);
        if (full != NULL)
            add_both(l, folders[i][0], full);
    }
    add_both(l, "ALLOC_ID", alloc->id);
    (void)snprintf(text, sizeof text, "%.8s", alloc->id);
    add_both(l, "SHORT_ALLOC_ID", text);
    add_both(l, "ALLOC_NAME", alloc->name);
    (void)snprintf(number, sizeof number, "%ld", index != NULL ? strtol(index + 1, NULL, 10) : 0);
    add_both(l, "ALLOC_INDEX", number);
    add_both(l, "TASK_NAME", task->name);
    add_both(l, "GROUP_NAME", member_text(alloc->spec, "TaskGroup"));
    add_both(l, "JOB_ID", member_text(alloc->spec, "JobID"));
    add_both(l, "JOB_NAME", member_text(job, "Name"));
    add_both(l, "DC", agent.config.datacenter);
    add_both(l, "REGION", "global");
    add_both(l, "NAMESPACE", "default");
    (void)snprintf(number, sizeof number, "%lld", (long long)member_int(resources, "CPU"));
    add_both(l, "CPU_LIMIT", number);
    (void)snprintf(number, sizeof number, "%lld", (long long)member_int(resources, "MemoryMB"));
    add_both(l, "MEMORY_LIMIT", number);
    add_ports(l, alloc);
    add_meta(l, job);
    add_meta(l, alloc->group);
    add_meta(l, task->spec);
}

static const char *find(char *const *env, const char *name, size_t len)
{
    for (; *env != NULL; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

const char *task_expand(struct arena *arena, char *const *env, const char *text)
{
    CLEANUP(buf_done) struct buf out = {0};
    while (*text != '\0') {
        const char *open = strstr(text, "${"), *close = open != NULL ? strchr(open, '}') : NULL;
        if (close == NULL || out.len > EXPANDED_MAX) {
            buf_add_str(&out, text);
            break;
        }
        const char *name = open + 2;
        size_t len = (size_t)(close - name);
        if (len > 4 && strncmp(name, "env[", 4) == 0) { /* env["NAME"] */
            name += 5;
            len = len > 7 ? len - 7 : 0;
        }
        const char *value = find(env, name, len);
        buf_add(&out, bytes_of(text, (size_t)(open - text)));
        if (value != NULL)
            buf_add_str(&out, value);
        else
            buf_add(&out, bytes_of(open, (size_t)(close + 1 - open)));
        text = close + 1;
    }
    return buf_status(&out) == ST_OK ? arena_str(arena, buf_bytes(&out)) : NULL;
}

char **task_env(struct arena *arena, const struct task *task)
{
    struct list_of l = {.arena = arena};
    const struct text_value *own = text_get(task->spec, "Env");
    l.items = arena_zalloc(arena, (VARIABLES_MAX + 1) * sizeof(char *));
    if (l.items == NULL)
        return NULL;
    add(&l, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    add_facts(&l, task);
    if (own != NULL && own->kind == TEXT_OBJECT)
        TEXT_FOR (item, own) {
            const char *name = arena_str(arena, item->name);
            const char *value = task_expand(arena, l.items, (const char *)item->text.data);
            if (name != NULL && value != NULL)
                add(&l, name, value);
        }
    return l.failed ? NULL : l.items;
}

bool task_make_dirs(const struct task *task)
{
    static const char *const shared[] = {"", "/alloc", "/alloc/logs", "/alloc/tmp", "/alloc/data"};
    static const char *const own[] = {"", "/local", "/secrets", "/private", "/tmp"};
    CLEANUP(arena_done) struct arena arena = {0};
    const char *dir = task_dir(&arena, task);
    if (dir == NULL)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(shared) + ARRAY_LEN(own); i++) {
        bool mine = i >= ARRAY_LEN(shared);
        const char *path = arena_format(&arena, "%s%s", mine ? dir : task->alloc->dir,
                                        mine ? own[i - ARRAY_LEN(shared)] : shared[i]);
        bool narrow =
            mine && (strstr(path, "/secrets") != NULL || strstr(path, "/private") != NULL);
        if (path == NULL || (mkdir(path, narrow ? 0700 : 0755) != 0 && errno != EEXIST))
            return false;
    }
    return true;
}
