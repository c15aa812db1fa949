/* A descent goes from the root to the place of the change and makes every inner node on the way
 * writable. So the links on the way stay valid until the change is made. The prefix of the node at
 * hand begins at key byte `from` and ends at `at`; all bytes of the key before `from` are equal. */
#include "store/tree.h"
#include "base/plant.h"
#include "store/read.h"

static void adopt(struct store_writer *w, const struct store_node *node)
{
    ASSERT(store_node_birth(node) == w->batch);
    store_weight_add(&w->reclaim.live, node);
}

static void retire(struct store_writer *w, struct store_node *node)
{
    if (store_node_birth(node) <= w->shared)
        store_dead_note(&w->parted, node);
    else
        store_reclaim_retire(&w->reclaim, node, w->batch);
}

/* The same node with another prefix, for another place in the tree. */
static struct store_node *move(struct store_writer *w, struct store_node *node, struct bytes prefix)
{
    struct store_node *copy = store_node_clone(node, store_birth_of(w), prefix, 0);
    adopt(w, copy);
    retire(w, node);
    return copy;
}

/* Make the inner node at `link` editable, with space for `room` more children, and raise its newest
 * version. */
static struct store_inner *writable(struct store_writer *w, struct store_node **link, unsigned room,
                                    uint64_t version)
{
    struct store_node *node = *link;
    struct store_inner *inner = store_inner_of(node);
    ASSERT(store_node_birth(node) <= w->batch);
    if (store_node_birth(node) != w->batch || (room != 0 && store_inner_full(inner))) {
        *link = store_node_clone(node, store_birth_of(w), store_node_prefix(node), room);
        adopt(w, *link);
        retire(w, node);
        inner = store_inner_of(*link);
    }
    inner->node.newest = MAX(inner->node.newest, version);
    return inner;
}

/* The new content of `key`: a value, or a subtree from another tree. */
struct put {
    struct store_writer *w;
    struct bytes key;
    uint32_t keys;    /* keys of the new content */
    uint64_t version; /* taken over by the nodes on the way there */
    const struct store_change *change;
    struct store_node *subtree;
};

/* `old`, or NULL, is what has the key now. */
static struct store_node *leaf_new(const struct put *p, size_t from, const struct store_node *old)
{
    const struct store_change *c = p->change;
    struct bytes suffix = {0};
    if (old != NULL && c->retain.len != 0)
        suffix = store_retain_cut(&c->retain, store_leaf_value(store_leaf_of(old)));
    struct store_leaf *leaf =
        store_leaf_new(store_birth_of(p->w), bytes_from(p->key, from), c->value, suffix);
    uint64_t created = old != NULL ? store_leaf_of(old)->created : c->modified;
    leaf->created = c->restored ? c->created : created;
    leaf->modified = leaf->node.newest = c->modified;
    adopt(p->w, &leaf->node);
    return &leaf->node;
}

static struct store_node *branch_new(const struct put *p, size_t from)
{
    if (p->subtree != NULL)
        return move(p->w, p->subtree, bytes_from(p->key, from));
    return leaf_new(p, from, NULL);
}

/* Make a leaf in place of `old`, which has the same key; NULL: there was none. */
static struct store_node *leaf_over(const struct put *p, struct store_node *old, size_t from)
{
    ASSERT(p->subtree == NULL);
    struct store_node *leaf = leaf_new(p, from, old);
    if (old != NULL)
        retire(p->w, old);
    return leaf;
}

/* The node at `link` shares only the first `same` bytes of its prefix with key[from..]. Put a new
 * inner node in its place; the old node and the new branch become its children. */
static void edge_split(const struct put *p, struct store_node **link, size_t from, size_t same)
{
    struct store_writer *w = p->w;
    struct store_node *old = *link;
    struct bytes prefix = store_node_prefix(old);
    ASSERT(same <= prefix.len);
    struct store_inner *inner = store_inner_new(store_birth_of(w), bytes_of(prefix.data, same), 2);
    inner->node.newest = MAX(old->newest, p->version);
    inner->node.keys = store_node_keys(old) + p->keys;
    adopt(w, &inner->node);
    if (same == prefix.len) {
        ASSERT(old->kind == STORE_LEAF);
        inner->own = move(w, old, BYTES(""));
    } else {
        uint8_t byte = prefix.data[same];
        store_inner_insert(inner, byte, move(w, old, bytes_from(prefix, same + 1)));
    }
    size_t at = from + same;
    if (at == p->key.len)
        inner->own = leaf_over(p, NULL, at);
    else
        store_inner_insert(inner, p->key.data[at], branch_new(p, at + 1));
    *link = &inner->node;
}

/* The new content is in the tree: count its keys in the first `n` inner nodes above it. */
static void count_put(const struct put *p, size_t n)
{
    struct store_inner **above = p->w->above;
    for (size_t i = 0; i < n; i++)
        above[i]->node.keys += p->keys;
}

/* Put the new content at its place. A put over a key that is in the tree changes no count. */
static void leaf_put(const struct put *p, struct store_tree *tree)
{
    struct store_node **link = &tree->root;
    struct store_inner **above = p->w->above;
    size_t from = 0, n_above = 0;
    tree->newest = MAX(tree->newest, p->version);
    while (*link != NULL) {
        struct store_node *node = *link;
        struct bytes rest = bytes_from(p->key, from), edge = store_node_prefix(node);
        size_t same = bytes_common_len(rest, edge), at = from + edge.len;
        bool leaf = node->kind == STORE_LEAF;
        if (leaf && same == edge.len && same == rest.len) {
            *link = leaf_over(p, node, from);
            return;
        }
        if (leaf || same < edge.len) {
            edge_split(p, link, from, same);
            count_put(p, n_above);
            return;
        }
        ASSERT(n_above <= from);
        if (same == rest.len) {
            struct store_inner *inner = writable(p->w, link, 0, p->version);
            above[n_above++] = inner;
            if (inner->own == NULL)
                count_put(p, n_above);
            inner->own = leaf_over(p, inner->own, at);
            return;
        }
        uint8_t byte = p->key.data[at];
        unsigned index = store_inner_index(store_inner_of(node), byte);
        bool absent = index == STORE_NO_CHILD;
        struct store_inner *inner = writable(p->w, link, absent, p->version);
        above[n_above++] = inner;
        if (absent) {
            store_inner_insert(inner, byte, branch_new(p, at + 1));
            count_put(p, n_above);
            return;
        }
        link = store_inner_slot_at(inner, byte, index);
        from = at + 1;
    }
    *link = branch_new(p, from);
}

void store_tree_put(struct store_writer *w, struct store_tree *tree,
                    const struct store_change *change)
{
    ASSERT(change->key.len <= STORE_KEY_MAX);
    struct put p = {
        .w = w, .key = change->key, .keys = 1, .version = change->modified, .change = change};
    leaf_put(&p, tree);
}

void store_tree_graft(struct store_writer *w, struct store_tree *tree, struct bytes prefix,
                      struct store_node *top, size_t hidden)
{
    struct bytes tail = bytes_from(store_node_prefix(top), hidden);
    uint8_t key[STORE_KEY_MAX];
    size_t len = prefix.len + tail.len, found;
    ASSERT(len <= sizeof key);
    ASSERT(store_read_top(tree->root, prefix, &found) == NULL);
    if (prefix.len != 0)
        memcpy(key, prefix.data, prefix.len);
    if (tail.len != 0)
        memcpy(key + prefix.len, tail.data, tail.len);
    struct put p = {.w = w,
                    .key = bytes_of(key, len),
                    .keys = store_node_keys(top),
                    .version = top->newest,
                    .subtree = top};
    leaf_put(&p, tree);
}

/* The inner node at `link` lost its own value or a child. If only one child or value is left, that
 * one takes the place of the inner node and inherits its newest version. */
static void inner_collapse(struct store_writer *w, struct store_node **link)
{
    struct store_node *node = *link;
    struct store_inner *inner = store_inner_of(node);
    if (store_node_children(node) + (inner->own != NULL) >= 2)
        return;
    struct store_node *only = inner->own;
    struct bytes prefix = store_node_prefix(node);
    size_t len = prefix.len;
    if (len != 0)
        memcpy(w->scratch, prefix.data, len);
    if (only == NULL) {
        unsigned next = 0;
        ASSERT(len < STORE_KEY_MAX);
        only = store_inner_next(inner, &next, &w->scratch[len]);
        ASSERT(only != NULL);
        struct bytes tail = store_node_prefix(only);
        ASSERT(len + 1 + tail.len <= STORE_KEY_MAX);
        if (tail.len != 0)
            memcpy(w->scratch + len + 1, tail.data, tail.len);
        len += 1 + tail.len;
    }
    struct store_node *merged = move(w, only, bytes_of(w->scratch, len));
    merged->newest = MAX(merged->newest, node->newest);
    *link = merged;
    retire(w, node);
}

/* Find the key, and note in w->way the index of the child in each inner node on the way. */
static bool way_find(struct store_writer *w, const struct store_node *node, struct bytes key)
{
    size_t from = 0;
    for (size_t n = 0; node != NULL; n++) {
        size_t at = from + node->prefix_len;
        if (!bytes_has_prefix(bytes_from(key, from), store_node_prefix(node)))
            return false;
        if (node->kind == STORE_LEAF)
            return at == key.len;
        const struct store_inner *inner = store_inner_of(node);
        if (at == key.len)
            return inner->own != NULL;
        unsigned index = store_inner_index(inner, key.data[at]);
        if (index == STORE_NO_CHILD)
            return false;
        ASSERT(n <= from);
        w->way[n] = (uint8_t)index;
        node = inner->child[index];
        from = at + 1;
    }
    return false;
}

/* Take `child`, the child at `byte`, away from the inner node at `above`; NULL: the root from the
 * tree. */
static struct store_node *unlink_child(struct store_writer *w, struct store_tree *tree,
                                       struct store_node **above, struct store_node *child,
                                       uint8_t byte)
{
    if (above == NULL) {
        ASSERT(child == tree->root);
        tree->root = NULL;
        return child;
    }
    store_inner_remove(store_inner_of(*above), byte);
    inner_collapse(w, above);
    return child;
}

bool store_tree_delete(struct store_writer *w, struct store_tree *tree, struct bytes key,
                       uint64_t version)
{
    struct store_node **link = &tree->root, **above = NULL;
    size_t from = 0;
    if (!way_find(w, tree->root, key))
        return false;
    tree->newest = MAX(tree->newest, version);
    for (size_t n = 0; (*link)->kind != STORE_LEAF; n++) {
        size_t at = from + (*link)->prefix_len;
        struct store_inner *inner = writable(w, link, 0, version);
        inner->node.keys--;
        if (at == key.len) {
            retire(w, inner->own);
            inner->own = NULL;
            inner_collapse(w, link);
            return true;
        }
        above = link;
        link = store_inner_slot_at(inner, key.data[at], w->way[n]);
        from = at + 1;
    }
    retire(w, unlink_child(w, tree, above, *link, from > 0 ? key.data[from - 1] : 0));
    return true;
}

struct store_node *store_tree_cut(struct store_writer *w, struct store_tree *tree,
                                  struct bytes prefix, uint64_t version, size_t *ret_hidden)
{
    struct store_node **link = &tree->root, **above = NULL;
    size_t from = 0;
    const struct store_node *top = store_read_top(tree->root, prefix, ret_hidden);
    if (top == NULL)
        return NULL;
    uint32_t keys = planted(PLANT_COUNT_DRIFT) ? 0 : store_node_keys(top);
    tree->newest = MAX(tree->newest, version);
    while (from + (*link)->prefix_len < prefix.len) {
        size_t at = from + (*link)->prefix_len;
        struct store_inner *inner = writable(w, link, 0, version);
        inner->node.keys -= keys;
        above = link;
        link = store_inner_slot(inner, prefix.data[at]);
        from = at + 1;
    }
    return unlink_child(w, tree, above, *link, from > 0 ? prefix.data[from - 1] : 0);
}

static void raise_node(struct store_writer *w, struct store_node **link, uint64_t version)
{
    if ((*link)->kind != STORE_LEAF) {
        (void)writable(w, link, 0, version); /* raises; a copy is at the link */
        return;
    }
    if (store_node_birth(*link) != w->batch)
        *link = move(w, *link, store_node_prefix(*link));
    (*link)->newest = MAX((*link)->newest, version);
}

void store_tree_raise(struct store_writer *w, struct store_tree *tree, struct bytes prefix,
                      uint64_t version)
{
    struct store_node **link = &tree->root;
    size_t from = 0;
    tree->newest = MAX(tree->newest, version);
    while (link != NULL && *link != NULL) {
        struct bytes rest = bytes_from(prefix, from), edge = store_node_prefix(*link);
        size_t same = bytes_common_len(rest, edge), at = from + edge.len;
        if (same < rest.len && same < edge.len)
            return; /* parts from prefix: the lowest node above has been raised */
        raise_node(w, link, version);
        if (same == rest.len || (*link)->kind == STORE_LEAF)
            return;
        link = store_inner_slot(store_inner_of(*link), prefix.data[at]);
        from = at + 1;
    }
}
