/* Entities that a worker read recently, each with what shows that it is current. */
#include "auth/identity/identity_internal.h"
#include "base/list.h"
#include "base/mem.h"
#include "state/ns_key.h"

enum { BUCKETS = 4096, ENTITIES_MAX = 4096, BYTES_MAX = 64 * 1024 * 1024 };

/* The newest changes of what an entity means. */
struct marks {
    struct state_stamp entity;         /* of the record of the present id */
    uint64_t members, aliases, groups; /* newest below the prefixes */
};

struct identity_ref {
    struct identity_cache *cache;
    struct identity_ref *next; /* in the bucket */
    struct list link;          /* by recent use; the last entry is the most recent */
    struct arena arena;
    struct identity identity;
    const char *ns, *id;              /* id: by which the entity was asked for */
    const struct state_stamp *stamps; /* of the groups */
    struct marks marks;
    uint64_t hash, view; /* view: state_view in which the entry was checked last; 0: none */
    size_t refs;
};

struct identity_cache {
    struct list recent;
    uint64_t serial;
    size_t n, bytes;
    struct identity_ref *buckets[BUCKETS];
};

enum status identity_cache_new(struct identity_cache **ret_cache)
{
    struct identity_cache *cache = mem_zalloc(sizeof *cache);
    if (cache == NULL)
        return ST_NOMEM;
    list_init(&cache->recent);
    *ret_cache = cache;
    return ST_OK;
}

const struct identity *identity_ref_get(const struct identity_ref *ref)
{
    return &ref->identity;
}

void identity_ref_drop(struct identity_ref *ref)
{
    if (ref == NULL)
        return;
    ASSERT(ref->refs > 0);
    if (--ref->refs != 0)
        return;
    arena_done(&ref->arena);
    mem_free(ref);
}

static void unlist(struct identity_ref *ref)
{
    struct identity_cache *cache = ref->cache;
    struct identity_ref **at = &cache->buckets[ref->hash % BUCKETS];
    while (*at != ref)
        at = &(*at)->next;
    *at = ref->next;
    list_remove(&ref->link);
    ASSERT(cache->n > 0 && cache->bytes >= ref->arena.bytes);
    cache->n--;
    cache->bytes -= ref->arena.bytes;
    identity_ref_drop(ref);
}

static void enlist(struct identity_ref *ref)
{
    struct identity_cache *cache = ref->cache;
    struct identity_ref **bucket = &cache->buckets[ref->hash % BUCKETS];
    ASSERT(list_empty(&ref->link) && ref->refs == 1);
    ref->next = *bucket;
    *bucket = ref;
    list_push(&cache->recent, &ref->link);
    ref->refs++;
    cache->n++;
    cache->bytes += ref->arena.bytes;
    while ((cache->n > ENTITIES_MAX || cache->bytes > BYTES_MAX) &&
           cache->recent.next != &ref->link)
        unlist(CONTAINER_OF(cache->recent.next, struct identity_ref, link));
}

void identity_cache_free(struct identity_cache *cache)
{
    if (cache == NULL)
        return;
    while (!list_empty(&cache->recent))
        unlist(CONTAINER_OF(cache->recent.next, struct identity_ref, link));
    mem_free(cache);
}

static enum status newest_below(struct state_txn *txn, const char *ns, const char *kind,
                                const char *first, uint64_t *ret_newest)
{
    struct bytes prefix;
    TRY(state_ns_key(txn->arena, ns, kind, bytes_str(first), first[0] != '\0' ? "" : NULL,
                     &prefix));
    return state_newest(txn, prefix, ret_newest);
}

static enum status stamp_of(struct state_txn *txn, const char *ns, enum identity_kind kind,
                            const char *id, struct state_stamp *ret_stamp)
{
    struct bytes key;
    TRY(identity_key(txn->arena, ns, kind, id, &key));
    return state_stamp(txn, key, ret_stamp);
}

/* The marks as the transaction sees them. `present` is the id of the entity. ST_NOT_FOUND: it does
 * not exist. */
static enum status marks_of(struct state_txn *txn, const char *ns, const char *present,
                            struct marks *ret)
{
    ASSERT(present[0] != '\0');
    TRY(stamp_of(txn, ns, IDENTITY_ENTITY, present, &ret->entity));
    TRY(newest_below(txn, ns, "member", present, &ret->members));
    TRY(newest_below(txn, ns, "has-alias", present, &ret->aliases));
    return newest_below(txn, ns, "group", "", &ret->groups);
}

static bool same_stamp(struct state_stamp a, struct state_stamp b)
{
    return a.modified == b.modified && a.seal == b.seal;
}

/* Whether the groups of the entity are as they were. */
static enum status groups_check(const struct identity_ref *ref, struct state_txn *txn,
                                bool *ret_same)
{
    ASSERT(ref->identity.n_groups == 0 || ref->stamps != NULL);
    *ret_same = true;
    for (size_t i = 0; i < ref->identity.n_groups && *ret_same; i++) {
        struct state_stamp stamp;
        enum status st = stamp_of(txn, ref->ns, IDENTITY_GROUP, ref->identity.groups[i].id, &stamp);
        if (st != ST_NOT_FOUND)
            TRY(st);
        *ret_same = st == ST_OK && same_stamp(stamp, ref->stamps[i]);
    }
    return ST_OK;
}

/* Whether the id that the client's token has still leads to the same entity. */
static enum status id_check(const struct identity_ref *ref, struct state_txn *txn, bool *ret_same)
{
    struct state_stamp stamp;
    const char *target;
    ASSERT(ref->id != NULL && ref->identity.entity.id != NULL);
    *ret_same = true;
    if (strcmp(ref->id, ref->identity.entity.id) == 0)
        return ST_OK;
    *ret_same = false;
    enum status st = stamp_of(txn, ref->ns, IDENTITY_ENTITY, ref->id, &stamp);
    if (st != ST_NOT_FOUND)
        return st;
    st = identity_find_id(txn, ref->ns, "merged", ref->id, NULL, &target);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    *ret_same = strcmp(target, ref->identity.entity.id) == 0;
    return ST_OK;
}

/* Whether an entry agrees with the state of the transaction. */
static enum status entity_cache_check(struct identity_ref *ref, struct state_txn *txn,
                                      bool *ret_same)
{
    struct marks now;
    uint64_t view = state_view(txn);
    ASSERT(ref->identity.serial != 0);
    *ret_same = view != 0 && ref->view == view;
    if (*ret_same)
        return ST_OK;
    TRY(id_check(ref, txn, ret_same));
    if (!*ret_same)
        return ST_OK;
    enum status st = marks_of(txn, ref->ns, ref->identity.entity.id, &now);
    *ret_same = st == ST_OK && same_stamp(now.entity, ref->marks.entity) &&
                now.members == ref->marks.members && now.aliases == ref->marks.aliases;
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    if (*ret_same && now.groups != ref->marks.groups)
        TRY(groups_check(ref, txn, ret_same));
    if (*ret_same) {
        ref->marks = now;
        ref->view = view;
    }
    return ST_OK;
}

static enum status entity_cache_fill(struct identity_ref *ref, struct state_txn *txn,
                                     const char *ns, const char *id)
{
    struct identity_reading r = {.txn = txn, .ns = ns, .arena = &ref->arena, .out = &ref->identity};
    ref->ns = arena_str(&ref->arena, bytes_str(ns));
    ref->id = arena_str(&ref->arena, bytes_str(id));
    if (ref->ns == NULL || ref->id == NULL)
        return ST_NOMEM;
    TRY(identity_gather(&r, id));
    ASSERT(ref->identity.n_groups <= r.room);
    ref->stamps = r.stamps;
    ref->view = state_view(txn);
    return marks_of(txn, ns, ref->identity.entity.id, &ref->marks);
}

static struct identity_ref *find(struct identity_cache *cache, uint64_t hash, const char *ns,
                                 const char *id)
{
    for (struct identity_ref *ref = cache->buckets[hash % BUCKETS]; ref != NULL; ref = ref->next)
        if (ref->hash == hash && strcmp(ref->id, id) == 0 && strcmp(ref->ns, ns) == 0)
            return ref;
    return NULL;
}

enum status identity_hold(struct identity_cache *cache, struct state_txn *txn, const char *ns,
                          const char *id, struct identity_ref **ret_ref)
{
    bool same = false;
    if (id[0] == '\0' || strlen(id) > IDENTITY_NAME_MAX)
        return ST_NOT_FOUND;
    uint64_t hash = bytes_hash_from(bytes_hash(bytes_str(ns)), bytes_str(id));
    struct identity_ref *ref = find(cache, hash, ns, id);
    if (ref != NULL)
        TRY(entity_cache_check(ref, txn, &same));
    if (same) {
        list_remove(&ref->link);
        list_push(&cache->recent, &ref->link);
        ref->refs++;
        *ret_ref = ref;
        return ST_OK;
    }
    struct identity_ref *fresh = mem_zalloc(sizeof *fresh);
    if (fresh == NULL)
        return ST_NOMEM;
    fresh->cache = cache;
    fresh->hash = hash;
    fresh->refs = 1;
    list_init(&fresh->link);
    enum status st = entity_cache_fill(fresh, txn, ns, id);
    if (st != ST_OK) {
        identity_ref_drop(fresh);
        return st;
    }
    fresh->identity.serial = ++cache->serial;
    ASSERT(fresh->refs == 1);
    if (ref != NULL)
        unlist(ref);
    if (fresh->marks.entity.modified != 0) /* a staged record has no stamp */
        enlist(fresh);
    *ret_ref = fresh;
    return ST_OK;
}
