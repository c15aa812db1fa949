#include "auth/acl_cache.h"
#include "base/mem.h"
#include "base/plant.h"

enum {
    BUCKETS = 4096, /* number of buckets, a power of two */
    ACLS_MAX = 4096,
    BYTES_MAX = 64 * 1024 * 1024,
};

/* One stored policy, compiled. It lives as long as an ACL that was made from it. */
struct shared_policy {
    struct shared_policy *next; /* next policy in the bucket */
    void *policy;
    struct state_stamp stamp; /* stamp of the stored record; all zero: a built-in policy */
    struct bytes key;         /* key of the record in the state */
    uint64_t hash;
    size_t refs;
    int64_t expire_ms; /* time of expiry; 0: never */
    /* the policy is in its bucket: the newest version of its key that this cache read */
    bool listed;
};

struct acl_part {
    struct state_stamp stamp;     /* stamp of the stored record; all zero: no record is stored */
    struct shared_policy *policy; /* the compiled policy; NULL: there is none */
};

struct acl_ref {
    struct acl_cache *cache; /* cache that owns the entry */
    void *acl;               /* NULL: an entry that was not filled */
    struct list link;        /* link in the list of recent use; the last entry is the most recent */
    struct acl_ref *next;    /* next ACL in the bucket */
    struct bytes names; /* namespace and a zero; then the names with a zero each, or their text */
    bool has_text;      /* `names` ends in the text of struct acl_names */
    uint64_t hash;
    uint64_t newest;   /* newest change below the prefix of all policies when the ACL was checked */
    uint64_t view;     /* state_view in which the ACL was last checked; 0: none */
    int64_t expire_ms; /* when the first of the ACL's policies expires; 0: never */
    size_t refs;       /* one reference for each user, and one while the ACL is listed */
    size_t n;
    struct acl_part parts[];
};

struct acl_cache {
    const struct acl_kind *kind;
    uint64_t seed;
    struct list recent;
    struct acl_cache_counters counters;
    struct acl_ref *acls[BUCKETS];
    struct shared_policy *policies[BUCKETS];
};

static struct acl_ref root_ref; /* only the address is used; the fields stay untouched */

enum status acl_cache_new(struct env *env, const struct acl_kind *kind,
                          struct acl_cache **ret_cache)
{
    struct acl_cache *cache = mem_zalloc(sizeof *cache);
    if (cache == NULL)
        return ST_NOMEM;
    cache->kind = kind;
    env_random(env, &cache->seed, sizeof cache->seed);
    list_init(&cache->recent);
    *ret_cache = cache;
    return ST_OK;
}

const void *acl_ref_get(const struct acl_ref *ref)
{
    return ref == &root_ref ? acl_of_root() : ref->acl;
}

void acl_cache_counters(const struct acl_cache *cache, struct acl_cache_counters *ret_counters)
{
    *ret_counters = cache->counters;
}

static struct shared_policy **policy_bucket(struct acl_cache *cache, uint64_t hash)
{
    return &cache->policies[hash % BUCKETS];
}

static struct acl_ref **acl_bucket(struct acl_cache *cache, uint64_t hash)
{
    return &cache->acls[hash % BUCKETS];
}

/* Policies */

static size_t policy_bytes(const struct acl_cache *cache, const struct shared_policy *shared)
{
    return sizeof *shared + cache->kind->bytes(shared->policy);
}

static void shared_unlist(struct acl_cache *cache, struct shared_policy *shared)
{
    struct shared_policy **at = policy_bucket(cache, shared->hash);
    if (!shared->listed)
        return;

    while (*at != shared)
        at = &(*at)->next;
    *at = shared->next;
    shared->listed = false;
}

static void shared_drop(struct acl_cache *cache, struct shared_policy *shared)
{
    if (shared == NULL)
        return;
    ASSERT(shared->refs > 0);
    if (--shared->refs != 0)
        return;
    shared_unlist(cache, shared);
    ASSERT(cache->counters.policies > 0);
    ASSERT(cache->counters.bytes >= policy_bytes(cache, shared));
    cache->counters.bytes -= policy_bytes(cache, shared);
    cache->counters.policies--;
    cache->kind->free(shared->policy);
    mem_free((void *)(uintptr_t)shared->key.data);
    mem_free(shared);
}

static enum status shared_load(struct acl_cache *cache, struct state_txn *txn, const char *ns,
                               struct bytes name, struct shared_policy *shared)
{
    const struct acl_kind *kind = cache->kind;
    struct bytes key;
    TRY(kind->key(kind, txn->arena, ns, name, &key));
    uint8_t *copy = mem_alloc(key.len);
    if (copy == NULL)
        return ST_NOMEM;
    enum status st = kind->load(kind, txn, ns, name, &shared->policy, &shared->expire_ms);
    if (st != ST_OK) {
        mem_free(copy);
        return st;
    }
    ASSERT(shared->policy != NULL);
    memcpy(copy, key.data, key.len);
    shared->key = bytes_of(copy, key.len);
    return ST_OK;
}

static enum status shared_add(struct acl_cache *cache, struct state_txn *txn, const char *ns,
                              struct bytes name, struct shared_policy **ret_shared)
{
    struct shared_policy *shared = mem_zalloc(sizeof *shared);
    if (shared == NULL)
        return ST_NOMEM;
    enum status st = shared_load(cache, txn, ns, name, shared);
    if (st != ST_OK) {
        mem_free(shared);
        return st;
    }
    cache->counters.bytes += policy_bytes(cache, shared);
    cache->counters.policies++;
    cache->counters.compiled++;
    shared->refs = 1;
    *ret_shared = shared;
    return ST_OK;
}

static bool same_stamp(struct state_stamp a, struct state_stamp b)
{
    return a.modified == b.modified && a.seal == b.seal;
}

static enum status stamp_of(struct state_txn *txn, struct bytes key, struct state_stamp *ret_stamp)
{
    enum status st = state_stamp(txn, key, ret_stamp);
    if (st == ST_NOT_FOUND) {
        *ret_stamp = (struct state_stamp){0};
        return ST_OK;
    }
    ASSERT(st != ST_OK || ret_stamp->modified != 0); /* the record is not a staged one */
    return st;
}

/* Set the stamp of a named policy, and its compiled form with a reference; NULL: no such policy. */
static enum status get_policy(struct acl_cache *cache, struct state_txn *txn, const char *ns,
                              struct bytes name, struct acl_part *ret_part)
{
    struct bytes key;
    TRY(cache->kind->key(cache->kind, txn->arena, ns, name, &key));
    TRY(stamp_of(txn, key, &ret_part->stamp));
    uint64_t hash = bytes_hash_from(cache->seed, key);
    struct shared_policy **bucket = policy_bucket(cache, hash), *shared = *bucket;
    while (shared != NULL && !bytes_eq(shared->key, key))
        shared = shared->next;
    if (shared != NULL && same_stamp(shared->stamp, ret_part->stamp)) {
        shared->refs++;
        ret_part->policy = shared;
        return ST_OK;
    }
    struct shared_policy *fresh = NULL;
    enum status st = shared_add(cache, txn, ns, name, &fresh);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    ASSERT(fresh != NULL);
    if (shared != NULL) {
        ASSERT(shared->listed);
        shared_unlist(cache, shared);
    }
    fresh->stamp = ret_part->stamp;
    fresh->hash = hash;
    fresh->listed = true;
    fresh->next = *bucket;
    *bucket = fresh;
    ret_part->policy = fresh;
    return ST_OK;
}

/* ACLs */

static size_t ref_bytes(const struct acl_ref *ref)
{
    return sizeof *ref + ref->n * sizeof ref->parts[0] + ref->names.len +
           (ref->acl != NULL ? ref->cache->kind->acl_bytes(ref->acl) : 0);
}

static void ref_free(struct acl_ref *ref)
{
    struct acl_cache *cache = ref->cache;
    cache->kind->acl_free(ref->acl);
    for (size_t i = 0; i < ref->n; i++)
        shared_drop(cache, ref->parts[i].policy);
    mem_free((void *)(uintptr_t)ref->names.data);
    mem_free(ref);
}

void acl_ref_drop(struct acl_ref *ref)
{
    if (ref == NULL || ref == &root_ref)
        return;
    ASSERT(ref->refs > 0);
    if (--ref->refs != 0)
        return;
    ASSERT(ref->cache->counters.acls > 0);
    ASSERT(ref->cache->counters.bytes >= ref_bytes(ref));
    ref->cache->counters.bytes -= ref_bytes(ref);
    ref->cache->counters.acls--;
    ref_free(ref);
}

static void ref_unlist(struct acl_ref *ref)
{
    struct acl_ref **at = acl_bucket(ref->cache, ref->hash);
    ASSERT(!list_empty(&ref->link));
    while (*at != ref)
        at = &(*at)->next;
    *at = ref->next;
    list_remove(&ref->link);
    acl_ref_drop(ref);
}

void acl_cache_clear(struct acl_cache *cache)
{
    while (cache != NULL && !list_empty(&cache->recent))
        ref_unlist(CONTAINER_OF(cache->recent.next, struct acl_ref, link));
}

void acl_cache_free(struct acl_cache *cache)
{
    if (cache == NULL)
        return;
    acl_cache_clear(cache);
    ASSERT(cache->counters.acls == 0 && cache->counters.policies == 0);
    ASSERT(cache->counters.bytes == 0);
    mem_free(cache);
}

static void ref_list(struct acl_ref *ref)
{
    struct acl_cache *cache = ref->cache;
    struct acl_ref **bucket = acl_bucket(cache, ref->hash);
    ASSERT(list_empty(&ref->link));
    ASSERT(ref->refs == 1); /* the user's reference; the next line adds the list's */
    ref->next = *bucket;
    *bucket = ref;
    list_push(&cache->recent, &ref->link);
    ref->refs++;
    cache->counters.bytes += ref_bytes(ref);
    cache->counters.acls++;
    while ((cache->counters.acls > ACLS_MAX || cache->counters.bytes > BYTES_MAX) &&
           cache->recent.next != &ref->link)
        ref_unlist(CONTAINER_OF(cache->recent.next, struct acl_ref, link));
}

static bool is_named(const struct acl_ref *ref, const char *ns, const struct acl_names *names)
{
    const struct field_strings *list = &names->list;
    struct bytes rest = ref->names, text = names->text;
    if (ref->n != list->n || ref->has_text != (text.len != 0))
        return false;
    if (ref->has_text) {
        size_t len = strlen(ns) + 1;
        return rest.len == len + text.len && memcmp(rest.data, ns, len) == 0 &&
               memcmp(rest.data + len, text.data, text.len) == 0;
    }
    for (size_t i = 0; i <= list->n; i++) {
        struct bytes name = bytes_str(i == 0 ? ns : list->items[i - 1]);
        if (rest.len <= name.len || memcmp(rest.data, name.data, name.len + 1) != 0)
            return false;
        rest = bytes_from(rest, name.len + 1);
    }
    return rest.len == 0;
}

static struct acl_ref *ref_find(struct acl_cache *cache, uint64_t hash, const char *ns,
                                const struct acl_names *names)
{
    for (struct acl_ref *ref = *acl_bucket(cache, hash); ref != NULL; ref = ref->next)
        if (ref->hash == hash && is_named(ref, ns, names))
            return ref;
    return NULL;
}

static enum status copy_names(struct acl_ref *ref, const char *ns, const struct acl_names *names)
{
    const struct field_strings *list = &names->list;
    struct bytes text = names->text;
    size_t n = text.len == 0 ? list->n : 0, len = strlen(ns) + 1 + text.len;
    for (size_t i = 0; i < n; i++)
        len += strlen(list->items[i]) + 1;
    uint8_t *copy = mem_alloc(len), *to = copy;
    if (copy == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i <= n; i++) {
        struct bytes name = bytes_str(i == 0 ? ns : list->items[i - 1]);
        memcpy(to, name.data, name.len + 1);
        to += name.len + 1;
    }
    ASSERT(to + text.len == copy + len);
    if (text.len != 0)
        memcpy(to, text.data, text.len);
    ref->has_text = text.len != 0;
    ref->names = bytes_of(copy, len);
    return ST_OK;
}

static bool has_expired(int64_t expire_ms, int64_t now_ms)
{
    return expire_ms != 0 && now_ms >= expire_ms;
}

/* Fill a new entry with the named policies that exist and have not expired. "root" is the root
 * policy only when it is alone in a list, so this function skips "root". */
static enum status ref_make(struct acl_ref *ref, struct state_txn *txn, const char *ns,
                            const struct acl_names *names)
{
    const struct field_strings *list = &names->list;
    const struct acl_kind *kind = ref->cache->kind;
    const void **policies = arena_alloc(txn->arena, (list->n + 1) * sizeof *policies);
    size_t n = 0;
    ASSERT(ref->n == list->n); /* `ref` has one part for each name */
    if (policies == NULL)
        return ST_NOMEM;
    TRY(copy_names(ref, ns, names));
    for (size_t i = 0; i < list->n; i++) {
        struct bytes name = bytes_str(list->items[i]);
        if (name.len == 0 || text_is(name, AUTH_POLICY_ROOT))
            continue;
        TRY(get_policy(ref->cache, txn, ns, name, &ref->parts[i]));
        const struct shared_policy *shared = ref->parts[i].policy;
        if (shared == NULL || has_expired(shared->expire_ms, names->now_ms))
            continue;
        policies[n++] = shared->policy;
        if (shared->expire_ms != 0 && (ref->expire_ms == 0 || shared->expire_ms < ref->expire_ms))
            ref->expire_ms = shared->expire_ms;
    }
    return kind->merge(kind, policies, n, names->identity, &ref->acl);
}

/* Whether the transaction sees the same policies as those that the ACL was made from. */
static enum status ref_check(const struct acl_ref *ref, struct state_txn *txn, const char *ns,
                             const struct field_strings *names, bool *ret_same)
{
    ASSERT(ref->n == names->n);
    *ret_same = true;
    for (size_t i = 0; i < ref->n && *ret_same; i++) {
        struct bytes key, name = bytes_str(names->items[i]);
        struct state_stamp stamp;
        if (name.len == 0 || text_is(name, AUTH_POLICY_ROOT))
            continue;
        TRY(ref->cache->kind->key(ref->cache->kind, txn->arena, ns, name, &key));
        TRY(stamp_of(txn, key, &stamp));
        *ret_same = same_stamp(stamp, ref->parts[i].stamp);
    }
    return ST_OK;
}

static struct acl_ref *ref_give(struct acl_ref *ref)
{
    ASSERT(!list_empty(&ref->link) && ref->refs > 0);
    list_remove(&ref->link);
    list_push(&ref->cache->recent, &ref->link);
    ref->refs++;
    ref->cache->counters.hits++;
    return ref;
}

static uint64_t hash_of(const struct acl_cache *cache, const char *ns,
                        const struct acl_names *names)
{
    uint64_t hash = cache->seed ^ names->hash;
    for (size_t i = 0; i < names->list.n && names->text.len == 0; i++)
        hash = bytes_hash_from(hash, bytes_str(names->list.items[i]));
    return bytes_hash_from(hash, bytes_str(ns));
}

enum status acl_cache_get(struct acl_cache *cache, struct state_txn *txn, const char *ns,
                          const struct acl_names *names, struct acl_ref **ret_ref)
{
    const struct field_strings *list = &names->list;
    struct bytes prefix;
    uint64_t newest;
    bool same = false;

    ASSERT(names->text.len != 0 || (names->hash == 0 && names->identity == NULL));
    if (cache->kind->has_root && list->n == 1 && strcmp(list->items[0], AUTH_POLICY_ROOT) == 0) {
        *ret_ref = &root_ref;
        return ST_OK;
    }
    uint64_t hash = hash_of(cache, ns, names);
    struct acl_ref *ref = ref_find(cache, hash, ns, names);
    uint64_t view = state_view(txn);
    bool expired = ref != NULL && has_expired(ref->expire_ms, names->now_ms);
    bool seen = ref != NULL && (ref->view == view || planted(PLANT_WORKER_OLD_POLICY));
    if (seen && !expired && view != 0) {
        *ret_ref = ref_give(ref);
        return ST_OK;
    }
    TRY(cache->kind->key(cache->kind, txn->arena, ns, (struct bytes){0}, &prefix));
    TRY(state_newest(txn, prefix, &newest));
    if (ref != NULL && !expired && ref->newest != newest)
        TRY(ref_check(ref, txn, ns, list, &same));
    if (ref != NULL && !expired &&
        (ref->newest == newest || same || planted(PLANT_R3_POLICY_ELSEWHERE) ||
         (planted(PLANT_CACHE_PAST_RESTORE) && newest == state_restored(txn)))) {
        ref->newest = newest;
        ref->view = view;
        *ret_ref = ref_give(ref);
        return ST_OK;
    }

    struct acl_ref *fresh = mem_zalloc(sizeof *fresh + list->n * sizeof fresh->parts[0]);
    if (fresh == NULL)
        return ST_NOMEM;
    *fresh = (struct acl_ref){
        .cache = cache, .hash = hash, .newest = newest, .view = view, .refs = 1, .n = list->n};
    list_init(&fresh->link);
    enum status st = ref_make(fresh, txn, ns, names);
    if (st != ST_OK) {
        ref_free(fresh);
        return st;
    }
    if (ref != NULL)
        ref_unlist(ref);
    ref_list(fresh);
    ASSERT(fresh->refs == 2); /* one reference for the caller, one for the list */
    cache->counters.built++;
    *ret_ref = fresh;
    return ST_OK;
}
