/* The trees of segments. A node stands for the segments from the root to it. A search walks down
 * the path and asks the rows of each node that it passes; `route_fit` decides about a row, the tree
 * only rules rows out. */
#include "router/table/route_index.h"

#include "base/mem.h"

/* A row in a tree. */
struct entry {
    const struct route_api *api;
    const struct route *route;
    size_t skip; /* length of the API's prefix, which is not part of the row's pattern */
    /* of a pattern without parameters, with its prefix: a path of this length that reached the
     * pattern's node is the pattern; 0: there are parameters */
    size_t literal_len;
};

struct entries {
    struct entry *items;
    size_t n, room;
};

enum { CHILD_LISTS = 8 };

struct node {
    struct bytes segment;               /* part of a pattern or prefix */
    struct node *children[CHILD_LISTS]; /* literals below this node, by child_list */
    struct node *next;                  /* in the same list */
    struct node *param;                 /* below this node: any segment that is a name */
    struct entries ends;                /* rows whose pattern ends here */
    struct entries tails;               /* rows that continue with "*name/literal" */
    struct entries rests;               /* rows that continue with "*name" or "+name" */
    /* the first API whose prefix ends here; a prefix that ends in '/' has all paths below */
    const struct route_api *has_all, *has_this;
};

struct tree {
    const struct dialect *dialect; /* of fixed paths; NULL: a tree of `api` */
    const struct route_api *api;
    struct node root;
};

struct route_index {
    struct arena arena; /* all nodes and entries */
    struct tree *trees;
    size_t n, room;
};

static struct bytes first_segment(const char *text)
{
    return bytes_of(text, (size_t)(strchrnul(text, '/') - text));
}

/* The text after the first segment, whose length is `n`. */
static const char *after(const char *text, size_t n)
{
    return text + n + (text[n] == '/');
}

static const char *after_segment(const char *text)
{
    return after(text, first_segment(text).len);
}

/* Making an index */

static enum status keep_entry(struct arena *arena, struct entries *list, const struct entry *entry)
{
    ASSERT(entry->api != NULL && entry->route != NULL);
    ASSERT(list->n <= list->room);
    if (list->n == list->room) {
        size_t room = list->room != 0 ? list->room * 2 : 2;
        struct entry *items = arena_alloc(arena, room * sizeof *items);
        if (items == NULL)
            return ST_NOMEM;
        if (list->n != 0)
            memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->room = room;
    }
    ASSERT(list->n < list->room);
    list->items[list->n++] = *entry;
    return ST_OK;
}

static unsigned child_list(struct bytes segment)
{
    ASSERT(segment.len != 0);
    return (unsigned)(segment.len + segment.data[0] + segment.data[segment.len - 1]) % CHILD_LISTS;
}

static struct node *literal_child(const struct node *node, struct bytes segment)
{
    if (segment.len == 0)
        return NULL;
    struct node *child = node->children[child_list(segment)];
    while (child != NULL && !bytes_eq(child->segment, segment))
        child = child->next;
    return child;
}

/* The node below `node` for the first segment of `pattern`, made if it does not exist. */
static enum status go_below(struct arena *arena, struct node *node, const char *pattern,
                            struct node **ret_child)
{
    bool named = *pattern == ':';
    struct bytes segment = first_segment(pattern);
    struct node *child = named ? node->param : literal_child(node, segment);
    ASSERT(pattern[0] != '/' && node != NULL);
    ASSERT(segment.len != 0);
    if (child == NULL) {
        child = arena_zalloc(arena, sizeof *child);
        if (child == NULL)
            return ST_NOMEM;
        child->segment = segment;
        if (named) {
            node->param = child; /* rows of one place spell the parameter in one form */
        } else {
            child->next = node->children[child_list(segment)];
            node->children[child_list(segment)] = child;
        }
    }
    *ret_child = child;
    return ST_OK;
}

/* Whether two rows in the same list of a node cannot both serve: same method, and the same literals
 * after a rest. */
static bool collide(const struct route *a, const struct route *b)
{
    const char *rest_a = strpbrk(a->path, "*+"), *rest_b = strpbrk(b->path, "*+");
    const char *tail_a = rest_a != NULL ? strchr(rest_a, '/') : NULL;
    const char *tail_b = rest_b != NULL ? strchr(rest_b, '/') : NULL;
    bool same_tail = (tail_a == NULL && tail_b == NULL) ||
                     (tail_a != NULL && tail_b != NULL && strcmp(tail_a, tail_b) == 0);
    bool some = rest_a != NULL && rest_b != NULL && *rest_a != *rest_b;
    return a->method == b->method && a->kind == b->kind && same_tail && !some;
}

static enum status enter_row(struct arena *arena, struct node *node, const struct entry *entry,
                             struct reason *why)
{
    ASSERT(node != NULL && entry->route->path != NULL);
    const char *pattern = entry->route->path;
    while (*pattern != '\0' && !route_is_rest(pattern)) {
        TRY(go_below(arena, node, pattern, &node));
        pattern = after_segment(pattern);
    }
    struct entries *list = *pattern == '\0'               ? &node->ends
                           : strchr(pattern, '/') != NULL ? &node->tails
                                                          : &node->rests;
    for (size_t i = 0; i < list->n; i++)
        if (collide(list->items[i].route, entry->route)) {
            reason_set(why, "route %s %s%s: there are two rows for it",
                       http_method_name(entry->route->method),
                       entry->api->prefix != NULL ? entry->api->prefix : "", entry->route->path);
            return ST_INVALID;
        }
    return keep_entry(arena, list, entry);
}

static struct tree *tree_of(const struct route_index *index, const struct dialect *dialect,
                            const struct route_api *api)
{
    for (size_t i = 0; i < index->n; i++)
        if (index->trees[i].dialect == dialect && index->trees[i].api == api)
            return &index->trees[i];
    return NULL;
}

static enum status need_tree(struct route_index *index, const struct dialect *dialect,
                             const struct route_api *api, struct tree **ret_tree)
{
    ASSERT((dialect != NULL) != (api != NULL)); /* fixed paths have a dialect, mounts an API */
    *ret_tree = tree_of(index, dialect, api);
    if (*ret_tree != NULL)
        return ST_OK;
    if (index->n == index->room) {
        size_t room = index->room != 0 ? index->room * 2 : 8;
        struct tree *trees = arena_alloc(&index->arena, room * sizeof *trees);
        if (trees == NULL)
            return ST_NOMEM;
        if (index->n != 0)
            memcpy(trees, index->trees, index->n * sizeof *trees);
        index->trees = trees;
        index->room = room;
    }
    *ret_tree = &index->trees[index->n++];
    **ret_tree = (struct tree){.dialect = dialect, .api = api};
    return ST_OK;
}

/* Step from the root to the node of an API's prefix, and note there which API has it. */
static enum status enter_prefix(struct arena *arena, const struct route_api *api,
                                struct node **node)
{
    const char *prefix = api->prefix;
    size_t len = strlen(prefix);
    ASSERT(prefix[0] != '/');
    for (const char *at = prefix; *at != '\0'; at = after_segment(at)) {
        ASSERT(*at != ':' && !route_is_rest(at));
        TRY(go_below(arena, *node, at, node));
    }
    ASSERT(api->dialect != NULL && *node != NULL);
    bool all = len == 0 || prefix[len - 1] == '/';
    const struct route_api **has = all ? &(*node)->has_all : &(*node)->has_this;
    if (*has == NULL)
        *has = api;
    return ST_OK;
}

static enum status add_api(struct route_index *index, const struct route_api *api,
                           struct reason *why)
{
    struct tree *tree;
    bool fixed = api->prefix != NULL;
    ASSERT(fixed == (api->dialect != NULL));
    TRY(need_tree(index, api->dialect, fixed ? NULL : api, &tree));
    struct node *node = &tree->root;
    if (fixed)
        TRY(enter_prefix(&index->arena, api, &node));
    const struct route *route;
    for (struct route_walk walk = {0}; (route = route_next(api, &walk)) != NULL;) {
        size_t skip = fixed ? strlen(api->prefix) : 0;
        bool literal = strpbrk(route->path, ":*+") == NULL;
        const struct entry entry = {api, route, skip, literal ? skip + strlen(route->path) : 0};
        TRY(route_check(route, why));
        TRY(enter_row(&index->arena, node, &entry, why));
    }
    return ST_OK;
}

enum status route_index_new(const struct module_list *modules, struct reason *why,
                            struct route_index **ret_index)
{
    const struct route_api *api;
    struct route_index *index = mem_zalloc(sizeof *index);
    ASSERT(modules->n != 0);
    if (index == NULL)
        return ST_NOMEM;
    for (struct module_walk walk = {0}; (api = module_next_api(modules, &walk)) != NULL;) {
        enum status st = add_api(index, api, why);
        if (st == ST_OK)
            continue;
        route_index_free(index);
        return st;
    }
    *ret_index = index;
    return ST_OK;
}

void route_index_free(struct route_index *index)
{
    if (index == NULL)
        return;
    arena_done(&index->arena);
    mem_free(index);
}

/* Searching */

struct search {
    const char *path; /* whole */
    size_t path_len;
    enum http_method method;
    struct arena *arena;
    struct route_found *found;
    const struct entry *refuses; /* the first row that fits and only refuses; NULL: none yet */
    struct route_others serving, astray;
    bool ended; /* by rows of a narrow API */
};

static void add_methods(struct route_others *others, const struct route *route)
{
    others->methods |= route_methods(route);
    others->open = others->open && route_is_open(route);
}

/* Compare the path with the pattern of a row at the node that the path reached. As route_fit. */
static enum status fit(struct search *s, const struct entry *entry)
{
    struct route_params *params = &s->found->params;
    params->n = 0;
    if (entry->literal_len != 0 && entry->literal_len == s->path_len)
        return ST_OK;
    return route_fit(entry->route->path, s->path + entry->skip, s->arena, params);
}

/* A row fits the path and does not take the method. Of a narrow API it ends the search, unless the
 * path has a slash after the whole pattern: such a path is an empty name of a wider pattern. */
static void refuse_by(struct search *s, const struct entry *entry)
{
    bool slash = entry->literal_len != 0 && entry->literal_len != s->path_len;
    bool narrow = entry->api->narrow && entry->route->kind == ROW_SERVES;
    if (narrow && slash)
        return;
    s->ended |= narrow;
    add_methods(entry->route->kind == ROW_ASTRAY ? &s->astray : &s->serving, entry->route);
}

/* Ask the rows of a list. ST_OK: a row serves the request. ST_UNSUPPORTED: rows of a narrow API fit
 * and serve other methods alone. ST_NOT_FOUND; ST_NOMEM. */
static enum status ask_rows(struct search *s, const struct entries *list)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct entry *entry = &list->items[i];
        const struct route *route = entry->route;
        if (s->path_len < entry->skip) /* the path is the prefix without its slash */
            continue;
        if (entry->skip != 0 && s->path[entry->skip - 1] != '/' && s->path[entry->skip] != '\0')
            continue; /* a prefix without a slash at its end is a whole path */
        enum status st = fit(s, entry);
        if (st == ST_NOT_FOUND)
            continue;
        TRY(st);
        bool takes = route_takes(route, s->method);
        if (takes && route->kind == ROW_SERVES) {
            s->found->api = entry->api;
            s->found->route = route;
            return ST_OK;
        }
        if (takes)
            s->refuses = s->refuses != NULL ? s->refuses : entry;
        else
            refuse_by(s, entry);
    }
    return s->ended ? ST_UNSUPPORTED : ST_NOT_FOUND;
}

/* `path`: the segments below `node`. The depth is bounded by the depth of the tree. */
static enum status search(struct search *s, const struct node *node, const char *path)
{
    enum status st = ST_NOT_FOUND;
    if (*path == '\0') {
        st = ask_rows(s, &node->ends);
    } else {
        struct bytes segment = first_segment(path);
        const struct node *child = literal_child(node, segment);
        if (child != NULL)
            st = search(s, child, after(path, segment.len));
        if (st == ST_NOT_FOUND && node->param != NULL &&
            route_takes_name(node->param->segment, segment))
            st = search(s, node->param, after(path, segment.len));
    }
    if (st == ST_NOT_FOUND)
        st = ask_rows(s, &node->tails);
    if (st == ST_NOT_FOUND)
        st = ask_rows(s, &node->rests);
    return st;
}

/* No row that serves took the request: a row that refuses does, unless rows serve the path by other
 * methods. */
static enum status conclude(struct search *s)
{
    struct route_found *found = s->found;
    if (s->serving.methods == 0 && s->refuses != NULL) {
        const struct entry *entry = s->refuses;
        found->api = entry->api;
        found->route = entry->route;
        return route_fit(entry->route->path, s->path + entry->skip, s->arena, &found->params);
    }
    found->params.n = 0;
    if (s->serving.methods == 0 && s->astray.methods == 0)
        return ST_NOT_FOUND;
    found->others = s->serving.methods != 0 ? s->serving : s->astray;
    return ST_UNSUPPORTED;
}

static enum status find_in(const struct tree *tree, enum http_method method, struct bytes path,
                           struct arena *arena, struct route_found *ret_found)
{
    struct search s = {.path = (const char *)path.data,
                       .path_len = path.len,
                       .method = method,
                       .arena = arena,
                       .found = ret_found,
                       .serving = {.open = true},
                       .astray = {.open = true}};
    ASSERT(path.data != NULL && path.data[path.len] == 0);
    ret_found->others = (struct route_others){0};
    ret_found->params.n = 0;
    enum status st = search(&s, &tree->root, s.path);
    return st == ST_NOT_FOUND || st == ST_UNSUPPORTED ? conclude(&s) : st;
}

/* The API whose prefix has the path: the longest prefix counts. */
static const struct route_api *owner(const struct tree *tree, const char *path)
{
    const struct route_api *api = NULL;
    const struct node *node = &tree->root;
    while (*path != '\0') {
        struct bytes segment = first_segment(path);
        node = literal_child(node, segment);
        if (node == NULL)
            return api;
        bool below = path[segment.len] == '/';
        path = after(path, segment.len);
        if (below && node->has_all != NULL)
            api = node->has_all;
        if (!below && node->has_this != NULL)
            api = node->has_this;
    }
    return api;
}

const struct route_api *route_owner(const struct route_index *index, const struct dialect *dialect,
                                    struct bytes path)
{
    const struct tree *tree = tree_of(index, dialect, NULL);
    ASSERT(path.data != NULL && path.data[path.len] == 0);
    return tree != NULL ? owner(tree, (const char *)path.data) : NULL;
}

const struct route_api *route_engine(const struct route_index *index, const struct mount *mount)
{
    const char first = mount->type[0]; /* comparing one byte rules most APIs out */
    for (size_t i = 0; i < index->n; i++) {
        const struct route_api *api = index->trees[i].api;
        if (api != NULL && api->type[0] == first && module_serves(api, mount))
            return api;
    }
    return NULL;
}

enum status route_find(const struct route_index *index, const struct dialect *dialect,
                       enum http_method method, struct bytes path, struct arena *arena,
                       struct route_found *ret_found)
{
    const struct tree *tree = tree_of(index, dialect, NULL);
    *ret_found = (struct route_found){0};
    if (tree == NULL)
        return ST_NOT_FOUND;
    enum status st = find_in(tree, method, path, arena, ret_found);
    if (st != ST_OK && st != ST_NOMEM)
        ret_found->api = owner(tree, (const char *)path.data);
    return st;
}

enum status route_find_below(const struct route_index *index, const struct route_api *api,
                             enum http_method method, struct bytes path, struct arena *arena,
                             struct route_found *ret_found)
{
    const struct tree *tree = tree_of(index, NULL, api);
    ASSERT(tree != NULL);
    *ret_found = (struct route_found){.api = api};
    return find_in(tree, method, path, arena, ret_found);
}
