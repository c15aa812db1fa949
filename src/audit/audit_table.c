/* A set is built from the records of the state and replaced as a whole.
 *
 *   lock       guards `shown` and `leaving`; held for a few instructions
 *   building   held while a set is built and published; taken before `lock`
 *
 * A use is shared by successive sets: an unchanged device stays open. The last set that has a use
 * closes its device. */
#include "audit/audit_table.h"
#include "audit/device.h"
#include "audit/places.h"
#include "audit/sink_path.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/trace.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* One enabled device, referenced by sets. */
struct table;

enum { LEAVING_MAX = 32 };

struct use {
    struct table *table;
    struct audit_use shown;
    _Atomic unsigned refs;
    const char *uuid; /* of the entry; "" for a device of the configuration file */
    struct arena arena;
};

struct built {
    struct audit_set set;
    bool keyed; /* has the devices of the state, and salts; false: the node was sealed */
    bool lacks; /* a device could not be made, and is tried again */
    _Atomic uint64_t generation; /* the newest state that has no other devices */
    uint64_t shared, local;      /* of the state that was read, see state_changed */
    struct use *uses[AUDIT_SET_MAX];
    struct audit_header headers[AUDIT_HEADERS_MAX];
    struct arena arena;
};

struct table {
    struct audit_table head;
    const struct audit_places *places;
    pthread_mutex_t lock, building;
    struct built *shown;
    /* devices that were closed and whose threads have not ended yet; under `lock` */
    struct audit_device *leaving[LEAVING_MAX];
    unsigned n_leaving;
    struct use *declared[AUDIT_DECLARED_MAX];
    unsigned n_declared;
    _Atomic bool mute;
};

static struct table *table_of(const struct audit_table *table)
{
    return CONTAINER_OF(table, struct table, head);
}

/* Uses and sets */

/* Forget the devices that have ended since they were closed. The lock is held. */
static void leaving_prune(struct table *t)
{
    unsigned n = 0;
    ASSERT(t->n_leaving <= LEAVING_MAX);
    for (unsigned i = 0; i < t->n_leaving; i++)
        if (audit_device_is_over(t->leaving[i]))
            audit_device_unref(t->leaving[i]);
        else
            t->leaving[n++] = t->leaving[i];
    t->n_leaving = n;
}

/* Close a device that no set has any more. A thread that hangs is remembered, so that the end of
 * the process can take back what it holds. */
static void use_leave(struct table *t, struct audit_device *device)
{
    bool kept = false;
    audit_device_close(device);
    pthread_mutex_lock(&t->lock);
    leaving_prune(t);
    if (t->n_leaving < LEAVING_MAX) {
        t->leaving[t->n_leaving++] = device;
        kept = true;
    }
    pthread_mutex_unlock(&t->lock);
    if (kept)
        return;
    (void)audit_device_join(device, 0); /* too many hang: nothing waits for this one */
    audit_device_unref(device);
}

static void use_unref(struct use *use)
{
    ASSERT(use == NULL || use->refs > 0);
    if (use == NULL || atomic_fetch_sub(&use->refs, 1) != 1)
        return;
    if (use->shown.device != NULL)
        use_leave(use->table, use->shown.device);
    arena_done(&use->arena);
    mem_free(use);
}

static void built_release(struct audit_set *set)
{
    struct built *built = CONTAINER_OF(set, struct built, set);
    ASSERT(set->refs == 0);
    for (unsigned i = 0; i < built->set.n_uses; i++)
        use_unref(built->uses[i]);
    arena_done(&built->arena);
    mem_free(built);
}

static struct built *built_new(void)
{
    struct built *built = mem_zalloc(sizeof *built);
    if (built == NULL)
        return NULL;
    built->set.refs = 1;
    built->set.release = built_release;
    built->set.headers = built->headers;
    return built;
}

/* Takes over the caller's reference. */
static void built_add(struct built *built, struct use *use)
{
    struct audit_set *set = &built->set;
    ASSERT(set->n_uses < AUDIT_SET_MAX && set->n <= set->n_uses);
    built->uses[set->n_uses] = use;
    set->uses[set->n_uses++] = &use->shown;
    ASSERT(use->refs > 0);
    if (use->shown.device != NULL)
        set->devices[set->n++] = use->shown.device;
}

static enum status copy_map(struct arena *arena, const struct field_map *from, struct field_map *to)
{
    const char **pairs = arena_alloc(arena, (2 * from->n + 1) * sizeof *pairs);
    ASSERT(from->n == 0 || from->pairs != NULL);
    if (pairs == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < 2 * from->n; i++) {
        pairs[i] = arena_str(arena, bytes_str(from->pairs[i]));
        if (pairs[i] == NULL)
            return ST_NOMEM;
    }
    *to = (struct field_map){.pairs = pairs, .n = from->n, .given = true};
    return ST_OK;
}

static enum status copy_text(struct arena *arena, const char *from, const char **to)
{
    *to = arena_str(arena, bytes_str(from != NULL ? from : ""));
    return *to != NULL ? ST_OK : ST_NOMEM;
}

static enum status use_fill(struct use *use, const struct audit_entry *entry)
{
    TRY(copy_text(&use->arena, entry->uuid, &use->uuid));
    TRY(copy_text(&use->arena, entry->path, &use->shown.path));
    TRY(copy_text(&use->arena, entry->type, &use->shown.type));
    TRY(copy_text(&use->arena, entry->description, &use->shown.description));
    TRY(copy_map(&use->arena, &entry->options, &use->shown.options));
    use->shown.local = entry->local;
    return ST_OK;
}

/* Start the device of a use. ST_INVALID with a reason; ST_NOMEM, ST_CRYPTO. */
static enum status use_start(const struct table *t, struct use *use, const uint8_t *salt,
                             struct reason *why)
{
    struct audit_device_options options = {
        .path = use->shown.path, .salt = salt, .places = t->places};
    struct reason changed;
    ASSERT(use->shown.device == NULL && t->places != NULL);
    TRY(audit_options_parse(use->shown.type, &use->shown.options, &options.options, why));
    if (use->shown.declared)
        TRY(audit_places_check(t->places, &options.options, why));
    audit_places_narrow(t->places, &options.options, &changed);
    if (changed.text[0] != '\0')
        trace(TRACE_WARN, "audit", "device %s: %s", use->shown.path, changed.text);
    return audit_device_new(&options, &use->shown.device);
}

static struct use *use_new(struct table *t, const struct audit_entry *entry)
{
    struct use *use = mem_zalloc(sizeof *use);
    ASSERT(entry->path != NULL);
    if (use == NULL)
        return NULL;
    use->refs = 1;
    use->table = t;
    if (use_fill(use, entry) == ST_OK)
        return use;
    use_unref(use);
    return NULL;
}

/* Building a set from the state */

struct building {
    struct table *table;
    const struct built *before;
    struct built *built;
};

static struct use *find_use(const struct built *before, const struct audit_entry *entry)
{
    ASSERT(entry->uuid != NULL);
    for (unsigned i = 0; i < before->set.n_uses; i++) {
        struct use *use = before->uses[i];
        if (use->shown.device != NULL && !use->shown.declared &&
            strcmp(use->uuid, entry->uuid) == 0 && strcmp(use->shown.path, entry->path) == 0)
            return use;
    }
    return NULL;
}

static bool is_declared(const struct table *t, const char *path)
{
    for (unsigned i = 0; i < t->n_declared; i++)
        if (audit_paths_overlap(t->declared[i]->shown.path, path))
            return true;
    return false;
}

/* Whether the set before has said the same of this use: a retry logs nothing anew. */
static bool failed_before(const struct built *before, const struct use *use)
{
    ASSERT(use->shown.why != NULL);
    for (unsigned i = 0; i < before->set.n_uses; i++) {
        const struct use *other = before->uses[i];
        if (other->shown.why != NULL && strcmp(other->shown.path, use->shown.path) == 0 &&
            strcmp(other->uuid, use->uuid) == 0 && strcmp(other->shown.why, use->shown.why) == 0)
            return true;
    }
    return false;
}

/* The use of an entry whose device cannot be made says why; it still counts as enabled. */
static void use_fails(struct building *b, struct use *use, enum status st, const struct reason *why)
{
    const char *text = why->text[0] != '\0' ? why->text : status_text(st);
    ASSERT(st != ST_OK && use->shown.device == NULL);
    use->shown.why = arena_str(&use->arena, bytes_str(text));
    if (use->shown.why == NULL)
        use->shown.why = "";
    b->built->lacks = b->built->lacks || (st != ST_INVALID && st != ST_CORRUPT);
    if (!failed_before(b->before, use))
        trace(TRACE_ERROR, "audit", "device %s cannot be opened: %s", use->shown.path, text);
}

static enum status table_add_entry(void *ctx, const struct audit_entry *entry)
{
    struct building *b = ctx;
    ASSERT(b->built->set.n_uses <= AUDIT_SET_MAX);
    struct reason why = {{0}};
    uint8_t salt[AUDIT_ENTRY_SALT];
    if (is_declared(b->table, entry->path)) {
        trace(TRACE_WARN, "audit",
              "device %s is not opened: the configuration file has a device at this path",
              entry->path);
        return ST_OK;
    }
    if (b->built->set.n_uses == AUDIT_SET_MAX)
        return ST_CORRUPT; /* the API refuses more */
    struct use *use = entry->type != NULL ? find_use(b->before, entry) : NULL;
    if (use != NULL) {
        (void)atomic_fetch_add(&use->refs, 1); /* the earlier count does not matter */
        built_add(b->built, use);
        return ST_OK;
    }
    use = use_new(b->table, entry);
    if (use == NULL)
        return ST_NOMEM;
    ASSERT(!use->shown.declared);
    enum status st = entry->type != NULL ? audit_entry_salt(entry, salt) : ST_CORRUPT;
    if (st == ST_OK)
        st = use_start(b->table, use, salt, &why);
    mem_wipe(salt, sizeof salt);
    if (st == ST_OK)
        trace(TRACE_INFO, "audit", "device %s (%s) is enabled", use->shown.path, use->shown.type);
    else
        use_fails(b, use, st, &why);
    built_add(b->built, use);
    return ST_OK;
}

static void add_declared(struct table *t, struct built *built)
{
    for (unsigned i = 0; i < t->n_declared; i++) {
        (void)atomic_fetch_add(&t->declared[i]->refs, 1); /* the earlier count does not matter */
        built_add(built, t->declared[i]);
    }
}

/* Give the devices of the configuration file their salts. A salt follows from the path and a key of
 * the cluster, so it is the same on every node and after every start. No bearer begins with a zero
 * byte, so no salt is the name of a token. */
static enum status salt_declared(struct table *t, struct barrier_cipher *cipher)
{
    ASSERT(t->n_declared <= AUDIT_DECLARED_MAX);
    for (unsigned i = 0; i < t->n_declared; i++) {
        CLEANUP(buf_done) struct buf message = {0};
        uint8_t salt[BARRIER_MAC_BYTES];
        static_assert((int)BARRIER_MAC_BYTES == (int)AUDIT_SALT_BYTES, "a MAC is a salt");
        buf_add_u8(&message, 0);
        buf_add_format(&message, "audit/%s", t->declared[i]->shown.path);
        TRY(buf_status(&message));
        TRY(barrier_mac(cipher, buf_bytes(&message), salt));
        enum status st = audit_device_salt(t->declared[i]->shown.device, salt);
        mem_wipe(salt, sizeof salt);
        TRY(st);
    }
    return ST_OK;
}

static void table_publish(struct table *t, struct built *built)
{
    ASSERT(built->set.n_uses >= t->n_declared);
    pthread_mutex_lock(&t->lock);
    struct built *before = t->shown;
    t->shown = built;
    pthread_mutex_unlock(&t->lock);
    for (unsigned i = 0; before != NULL && i < before->set.n_uses; i++) {
        bool kept = before->uses[i]->shown.device == NULL; /* was never open */
        for (unsigned k = 0; k < built->set.n_uses; k++)
            kept = kept || built->uses[k] == before->uses[i];
        if (!kept)
            trace(TRACE_INFO, "audit", "device %s is closed", before->uses[i]->shown.path);
    }
    if (before != NULL)
        audit_set_unref(&before->set);
}

static enum status read_state(struct table *t, struct state_txn *txn, struct built *built)
{
    struct building b = {.table = t, .before = t->shown, .built = built};
    ASSERT(built->set.n_uses == 0 && built->set.n_headers == 0);
    built->keyed = true;
    built->generation = state_generation(txn);
    built->shared = state_changed(txn, BYTES(AUDIT_SHARED_PREFIX));
    built->local = state_changed(txn, BYTES(AUDIT_LOCAL_PREFIX));
    add_declared(t, built);
    TRY(audit_entry_each(txn, table_add_entry, &b));
    ASSERT(built->set.n <= built->set.n_uses);
    return audit_header_list(txn, &built->arena, built->headers, &built->set.n_headers);
}

/* Whether a set has every device that the version of `txn` has. The next transaction of the same
 * version, or of an older one, need not look again. */
static bool is_current(struct built *shown, const struct state_txn *txn)
{
    uint64_t generation = state_generation(txn);
    ASSERT(shown->keyed || shown->generation == 0);
    if (!shown->keyed)
        return false;
    if (generation <= shown->generation)
        return true;
    if (state_changed(txn, BYTES(AUDIT_SHARED_PREFIX)) != shown->shared ||
        state_changed(txn, BYTES(AUDIT_LOCAL_PREFIX)) != shown->local)
        return false;
    shown->generation = generation; /* another thread may have noted a later one: no harm */
    return true;
}

static enum status table_build(struct table *t, struct state_txn *txn, bool retry)
{
    if (is_current(t->shown, txn) && !(retry && t->shown->lacks))
        return ST_OK;
    struct built *built = built_new();
    ASSERT(t->shown != NULL);
    if (built == NULL)
        return ST_NOMEM;
    enum status st = read_state(t, txn, built);
    if (st == ST_OK)
        st = salt_declared(t, state_cipher(txn->state));
    if (st == ST_OK)
        table_publish(t, built);
    else
        audit_set_unref(&built->set);
    return st;
}

/* Read the newest state, in a transaction of its own: the request gets no precondition. */
static enum status table_follow(struct table *t, struct state *state, bool retry)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct state_txn txn = {0};
    TRY(state_begin(state, &arena, NULL, &txn));
    pthread_mutex_lock(&t->building);
    enum status st = table_build(t, &txn, retry);
    pthread_mutex_unlock(&t->building);
    state_end(&txn);
    return st;
}

static struct built *take_shown(struct table *t)
{
    pthread_mutex_lock(&t->lock);
    struct built *shown = t->shown;
    (void)audit_set_ref(&shown->set);
    pthread_mutex_unlock(&t->lock);
    return shown;
}

static enum status table_get(struct audit_table *table, struct state_txn *txn,
                             struct audit_set **ret_set)
{
    struct table *t = table_of(table);
    struct built *shown = take_shown(t);
    ASSERT(txn == NULL || txn->open);
    if (txn == NULL || is_current(shown, txn)) {
        *ret_set = &shown->set;
        return ST_OK;
    }
    audit_set_unref(&shown->set);
    TRY(table_follow(t, txn->state, false));
    shown = take_shown(t);
    ASSERT(shown->set.n <= shown->set.n_uses);
    if (!shown->keyed) { /* the node was sealed meanwhile */
        audit_set_unref(&shown->set);
        return ST_SEALED;
    }
    *ret_set = &shown->set;
    return ST_OK;
}

/* Sealing and watching */

static void wipe_salt(struct audit_device *device)
{
    enum status st = audit_device_salt(device, NULL);
    ASSERT(st == ST_OK); /* nothing is allocated */
}

static void forget_state(struct table *t)
{
    pthread_mutex_lock(&t->building);
    struct built *built = t->shown->keyed ? built_new() : NULL;
    ASSERT(built == NULL || !built->keyed);
    if (built != NULL) { /* without memory, the next watch tries again */
        add_declared(t, built);
        for (unsigned i = 0; i < t->n_declared; i++)
            wipe_salt(t->declared[i]->shown.device);
        table_publish(t, built);
    }
    pthread_mutex_unlock(&t->building);
}

static bool is_up(enum audit_standing standing)
{
    return standing == AUDIT_OPENING || standing == AUDIT_OK;
}

/* Whether the device takes a record that no other one takes. */
static bool takes_records(const struct audit_use *use)
{
    struct audit_device_state state;
    if (use->device == NULL)
        return false;
    audit_device_state(use->device, &state);
    return is_up(state.standing) || state.standing == AUDIT_RESTING;
}

static void table_judge(struct table *t)
{
    struct built *shown = take_shown(t);
    ASSERT(shown->set.n <= shown->set.n_uses);
    bool any = shown->set.n_uses == 0;
    for (unsigned i = 0; i < shown->set.n_uses; i++)
        any = any || takes_records(shown->set.uses[i]);
    audit_set_unref(&shown->set);
    bool was = atomic_exchange(&t->mute, !any);
    if (was == any)
        trace(any ? TRACE_INFO : TRACE_ERROR, "audit", "%s",
              any ? "a device takes records again" : "no device takes records: requests fail");
}

void audit_table_watch(struct audit_table *table, struct state *state)
{
    struct table *t = table_of(table);
    ASSERT(t->n_declared <= AUDIT_DECLARED_MAX);
    if (state == NULL || barrier_is_sealed(barrier_of(state_cipher(state)))) {
        forget_state(t);
    } else {
        enum status st = table_follow(t, state, true);
        if (st != ST_OK && st != ST_SEALED)
            trace(TRACE_ERROR, "audit", "the devices cannot be read: %s", status_text(st));
    }
    table_judge(t);
}

bool audit_table_is_mute(const struct audit_table *table)
{
    return atomic_load(&table_of(table)->mute);
}

/* Start and end */

enum status audit_table_new(const struct audit_places *places, struct audit_table **ret_table)
{
    struct table *t = mem_zalloc(sizeof *t);
    ASSERT(places != NULL);
    if (t == NULL)
        return ST_NOMEM;
    t->head.get = table_get;
    t->places = places;
    t->head.places = places;
    t->shown = built_new();
    if (t->shown == NULL || pthread_mutex_init(&t->lock, NULL) != 0) {
        mem_free(t->shown);
        mem_free(t);
        return ST_NOMEM;
    }
    if (pthread_mutex_init(&t->building, NULL) != 0) {
        (void)pthread_mutex_destroy(&t->lock); /* no thread holds the lock */
        mem_free(t->shown);
        mem_free(t);
        return ST_NOMEM;
    }
    ASSERT(t->shown->set.refs == 1 && !t->shown->keyed);
    *ret_table = &t->head;
    return ST_OK;
}

/* There is no loop any more whose clock could be asked. */
static int64_t mono_ms(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        abort(); /* the clock exists */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void device_end(struct audit_device *device, int64_t end_ms)
{
    ASSERT(end_ms > 0);
    if (!audit_device_join(device, MAX(end_ms - mono_ms(), INT64_C(0))))
        trace(TRACE_WARN, "audit", "a device hangs: its last records are lost");
}

void audit_table_close(struct audit_table *table)
{
    struct table *t = table_of(table);
    struct audit_set *set = &t->shown->set;
    ASSERT(set->refs > 0 && t->n_leaving <= LEAVING_MAX);
    for (unsigned i = 0; i < set->n; i++)
        audit_device_close(set->devices[i]);
    int64_t end_ms = mono_ms() + AUDIT_END_MS;
    for (unsigned i = 0; i < set->n; i++)
        device_end(set->devices[i], end_ms);
    for (unsigned i = 0; i < t->n_leaving; i++)
        device_end(t->leaving[i], end_ms);
}

void audit_table_free(struct audit_table *table)
{
    if (table == NULL)
        return;
    struct table *t = table_of(table);
    ASSERT(t->shown != NULL && t->n_declared <= AUDIT_DECLARED_MAX);
    audit_set_unref(&t->shown->set);
    for (unsigned i = 0; i < t->n_declared; i++)
        use_unref(t->declared[i]);
    for (unsigned i = 0; i < t->n_leaving; i++)
        audit_device_unref(t->leaving[i]);
    (void)pthread_mutex_destroy(&t->building); /* no thread uses the table */
    (void)pthread_mutex_destroy(&t->lock);     /* no thread uses the table */
    mem_free(t);
}

bool audit_paths_overlap(const char *one, const char *other)
{
    return bytes_has_prefix(bytes_str(one), bytes_str(other)) ||
           bytes_has_prefix(bytes_str(other), bytes_str(one));
}

const char *audit_file_of(const char *type, const struct field_map *options)
{
    const char *path = NULL;
    if (strcmp(type, audit_type_name(AUDIT_FILE)) != 0)
        return NULL;
    for (size_t i = 0; i < options->n; i++)
        if (strcmp(options->pairs[2 * i], "file_path") == 0)
            path = options->pairs[2 * i + 1];
    ASSERT(options->n == 0 || options->pairs != NULL);
    bool repeats = path == NULL || path[0] == '\0' || audit_options_name_of(path) != NULL;
    return repeats ? NULL : path;
}

const struct audit_use *audit_use_of_file(const struct audit_set *set,
                                          const struct audit_entry *entry)
{
    const char *path = audit_file_of(entry->type, &entry->options);
    ASSERT(set->n_uses <= AUDIT_SET_MAX);
    for (unsigned i = 0; path != NULL && i < set->n_uses; i++) {
        const struct audit_use *use = set->uses[i];
        const char *other = audit_file_of(use->type, &use->options);
        if (other != NULL && sink_path_same(other, path))
            return use;
    }
    return NULL;
}

enum status audit_table_declare(struct audit_table *table, const struct audit_entry *entry,
                                struct reason *why)
{
    struct table *t = table_of(table);
    ASSERT(t->n_declared <= AUDIT_DECLARED_MAX && !t->shown->keyed);
    if (t->n_declared == AUDIT_DECLARED_MAX) {
        reason_set(why, "more than %d audit devices", AUDIT_DECLARED_MAX);
        return ST_INVALID;
    }
    if (is_declared(t, entry->path)) {
        reason_set(why, "path already in use");
        return ST_INVALID;
    }
    const struct audit_use *other = audit_use_of_file(&t->shown->set, entry);
    if (other != NULL) {
        reason_set(why, "file_path: the device %s writes this file", other->path);
        return ST_INVALID;
    }
    struct use *use = use_new(t, entry);
    if (use == NULL)
        return ST_NOMEM;
    use->shown.declared = true;
    enum status st = use_start(t, use, NULL, why);
    if (st != ST_OK) {
        use_unref(use);
        return st;
    }
    ASSERT(use->shown.device != NULL);
    t->declared[t->n_declared++] = use;
    (void)atomic_fetch_add(&use->refs, 1); /* the earlier count does not matter */
    built_add(t->shown, use);
    return ST_OK;
}

void audit_table_reopen(struct audit_table *table)
{
    struct built *shown = take_shown(table_of(table));
    for (unsigned i = 0; i < shown->set.n; i++)
        audit_device_reopen(shown->set.devices[i]);
    audit_set_unref(&shown->set);
}

/* Standing, hashes and figures of the devices */

const char *audit_use_status(const struct audit_use *use, struct reason *ret_why)
{
    static const char *const names[] = {[AUDIT_OPENING] = "opening",
                                        [AUDIT_OK] = "open",
                                        [AUDIT_FAILING] = "failing",
                                        [AUDIT_LATE] = "late",
                                        [AUDIT_RESTING] = "resting"};
    struct audit_device_state state = {.standing = AUDIT_FAILING};
    if (use->device != NULL)
        audit_device_state(use->device, &state);
    else
        reason_set(&state.why, "%s", use->why);
    ASSERT(state.standing < ARRAY_LEN(names));
    *ret_why = is_up(state.standing) ? (struct reason){{0}} : state.why;
    return names[state.standing];
}

enum status audit_use_hash(const struct audit_use *use, struct bytes input,
                           char ret_text[AUDIT_HMAC_LEN + 1])
{
    return use->device != NULL ? audit_device_hash(use->device, input, ret_text) : ST_NOT_FOUND;
}

enum { LABEL_BYTES = AUDIT_ENTRY_PATH_MAX + 16 };

/* A label may not contain a quote, a backslash or a line end. */
static void put_label(const struct audit_use *use, char ret_label[LABEL_BYTES])
{
    (void)snprintf(ret_label, LABEL_BYTES, "device=\"%s", use->path); /* the text fits */
    for (char *c = ret_label + strlen("device=\""); *c != '\0'; c++)
        if (*c == '"' || *c == '\\' || *c < ' ')
            *c = '_';
    strncat(ret_label, "\"", LABEL_BYTES - strlen(ret_label) - 1);
}

static void read_states(const struct built *shown, struct audit_device_state states[AUDIT_SET_MAX])
{
    ASSERT(shown->set.n_uses <= AUDIT_SET_MAX);
    for (unsigned i = 0; i < shown->set.n_uses; i++) {
        states[i] = (struct audit_device_state){.standing = AUDIT_FAILING};
        if (shown->set.uses[i]->device != NULL)
            audit_device_state(shown->set.uses[i]->device, &states[i]);
    }
}

void audit_table_metrics(struct audit_table *table, struct metric_out *out)
{
#define COLUMN(member) offsetof(struct audit_device_state, member)
    static const struct {
        const char *name;
        enum metric_kind kind;
        const char *help;
        size_t at;
    } columns[] = {
        {"holdfast_audit_records_total", METRIC_COUNTER, "Records that the audit device wrote.",
         COLUMN(records)},
        {"holdfast_audit_written_bytes_total", METRIC_COUNTER, "Bytes that the audit device wrote.",
         COLUMN(bytes)},
        {"holdfast_audit_writes_total", METRIC_COUNTER,
         "Writes of the audit device; a write holds all records that waited.", COLUMN(writes)},
        {"holdfast_audit_failures_total", METRIC_COUNTER,
         "Writes and openings of the audit device that failed.", COLUMN(failures)},
        {"holdfast_audit_dropped_total", METRIC_COUNTER,
         "Records that the audit device did not take because it was late or "
         "rested.",
         COLUMN(dropped)},
        {"holdfast_audit_rotations_total", METRIC_COUNTER, "Files that the audit device rotated.",
         COLUMN(rotations)},
        {"holdfast_audit_queued_bytes", METRIC_GAUGE,
         "Bytes of records that wait for the audit device.", COLUMN(queued_bytes)},
    };
#undef COLUMN
    struct table *t = table_of(table);
    struct built *shown = take_shown(t);
    struct audit_device_state states[AUDIT_SET_MAX];
    char labels[AUDIT_SET_MAX][LABEL_BYTES];

    ASSERT(shown->set.n_uses <= AUDIT_SET_MAX);
    read_states(shown, states);
    metric_one(out, "holdfast_audit_mute", METRIC_GAUGE,
               "1 while audit devices are enabled and none of this node takes records.",
               atomic_load(&t->mute));
    metric_start(out, "holdfast_audit_device_up", METRIC_GAUGE,
                 "1 while the audit device takes records on this node, 0 while it fails, is late "
                 "or rests.");
    for (unsigned i = 0; i < shown->set.n_uses; i++) {
        put_label(shown->set.uses[i], labels[i]);
        metric_value(out, labels[i], is_up(states[i].standing));
    }
    for (size_t c = 0; c < ARRAY_LEN(columns) && shown->set.n_uses != 0; c++) {
        metric_start(out, columns[c].name, columns[c].kind, columns[c].help);
        for (unsigned i = 0; i < shown->set.n_uses; i++) {
            uint64_t value;
            memcpy(&value, (const char *)&states[i] + columns[c].at, sizeof value);
            metric_value(out, labels[i], value);
        }
    }
    audit_set_unref(&shown->set);
}
