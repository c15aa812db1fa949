#include "auth/policy_list.h"
#include "auth/policy.h"

#include <stdlib.h>

bool policy_list_has(const struct field_strings *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->items[i], name) == 0)
            return true;
    return false;
}

bool policy_list_is_root(const struct field_strings *list)
{
    return list->n == 1 && strcmp(list->items[0], AUTH_POLICY_ROOT) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The stored form of a name; "" for a blank name. */
static enum status clean_name(struct arena *arena, const char *text, const char **ret_name,
                              struct reason *why)
{
    *ret_name = "";
    if (text[strspn(text, " \t")] == '\0')
        return ST_OK;
    enum status st = policy_name(arena, bytes_str(text), ret_name);
    if (st == ST_INVALID)
        reason_set(why, "policies: a name is too long or not printable");
    return st;
}

/* Sort the names and remove duplicates. Returns their number. */
static size_t sort_names(const char **items, size_t n)
{
    size_t kept = 0;
    if (n != 0)
        qsort(items, n, sizeof *items, by_name);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || strcmp(items[kept - 1], items[i]) != 0)
            items[kept++] = items[i];
    ASSERT(kept <= n);
    return kept;
}

enum status policy_list_clean(struct arena *arena, const struct field_strings *list,
                              bool add_default, struct field_strings *ret_list, struct reason *why)
{
    const char **items = arena_alloc(arena, (list->n + 1) * sizeof *items);
    size_t n = 0;
    if (items == NULL)
        return ST_NOMEM;
    if (list->n > POLICY_LIST_MAX) {
        reason_set(why, "policies: more than %d", POLICY_LIST_MAX);
        return ST_INVALID;
    }
    for (size_t i = 0; i < list->n; i++) {
        TRY(clean_name(arena, list->items[i], &items[n], why));
        if (strcmp(items[n], AUTH_POLICY_ROOT) == 0) {
            items[0] = AUTH_POLICY_ROOT;
            *ret_list = (struct field_strings){.items = items, .n = 1, .given = true};
            return ST_OK;
        }
        n += items[n][0] != '\0';
    }
    ASSERT(n <= list->n); /* the list has room for one more */
    if (add_default)
        items[n++] = POLICY_DEFAULT;
    *ret_list = (struct field_strings){.items = items, .n = sort_names(items, n), .given = true};
    return ST_OK;
}

enum status policy_list_exists(struct state_txn *txn, const char *ns, const char *name)
{
    struct bytes key;
    ASSERT(name[0] != '\0');
    if (policy_builtin(bytes_str(name)) != NULL || strcmp(name, AUTH_POLICY_ROOT) == 0)
        return ST_OK;
    TRY(policy_key(txn->arena, ns, bytes_str(name), &key));
    return state_exists(txn, key);
}
