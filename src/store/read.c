/* A descent looks at a node whose prefix begins at key byte `from`; all before is equal. */
#include "store/read.h"

const struct store_leaf *store_read_leaf(const struct store_node *root, struct bytes key)
{
    const struct store_node *node = root;
    size_t from = 0;
    while (node != NULL && bytes_has_prefix(bytes_from(key, from), store_node_prefix(node))) {
        size_t at = from + node->prefix_len;
        if (node->kind == STORE_LEAF)
            return at == key.len ? store_leaf_of(node) : NULL;
        const struct store_inner *inner = store_inner_of(node);
        if (at == key.len)
            return inner->own != NULL ? store_leaf_of(inner->own) : NULL;
        node = store_inner_child(inner, key.data[at]);
        from = at + 1;
    }
    return NULL;
}

const struct store_node *store_read_top(const struct store_node *root, struct bytes prefix,
                                        size_t *ret_hidden)
{
    const struct store_node *node = root;
    size_t from = 0;
    while (node != NULL) {
        struct bytes rest = bytes_from(prefix, from), edge = store_node_prefix(node);
        if (rest.len <= edge.len) {
            *ret_hidden = rest.len;
            return bytes_has_prefix(edge, rest) ? node : NULL;
        }
        if (node->kind == STORE_LEAF || !bytes_has_prefix(rest, edge))
            return NULL;
        size_t at = from + edge.len;
        node = store_inner_child(store_inner_of(node), prefix.data[at]);
        from = at + 1;
    }
    return NULL;
}

/* The newest version of a node whose key is key[0..from) and then its prefix. */
static uint64_t answer(const struct store_view *view, const struct store_node *node,
                       struct bytes key, size_t from)
{
    if (view->floor == NULL)
        return node->newest;
    struct bytes keep = store_node_prefix(view->floor), edge = store_node_prefix(node);
    size_t before = MIN(keep.len, from);
    bool kept = keep.len != 0 &&
                bytes_eq(bytes_of(key.data, before), bytes_of(keep.data, before)) &&
                bytes_has_prefix(edge, bytes_from(keep, before));
    return kept ? node->newest : MAX(node->newest, view->floor->newest);
}

uint64_t store_read_newest(const struct store_view *view, struct bytes prefix)
{
    const struct store_node *node = view->root;
    uint64_t nearest = view->newest;
    size_t from = 0;
    while (node != NULL) {
        struct bytes rest = bytes_from(prefix, from), edge = store_node_prefix(node);
        if (rest.len <= edge.len)
            return bytes_has_prefix(edge, rest) ? answer(view, node, prefix, from) : nearest;
        if (!bytes_has_prefix(rest, edge))
            return nearest;
        nearest = answer(view, node, prefix, from);
        if (node->kind == STORE_LEAF)
            return nearest;
        size_t at = from + edge.len;
        node = store_inner_child(store_inner_of(node), prefix.data[at]);
        from = at + 1;
    }
    return nearest;
}

void store_read_item(const struct store_leaf *leaf, struct bytes key, struct store_item *ret_item)
{
    *ret_item = (struct store_item){
        .key = key,
        .value = store_leaf_value(leaf),
        .created = leaf->created,
        .modified = leaf->modified,
    };
}

enum status store_get(const struct store_pin *pin, struct bytes key, struct store_item *ret_item)
{
    const struct store_leaf *leaf = store_read_leaf(pin->root, key);
    if (leaf == NULL)
        return ST_NOT_FOUND;
    store_read_item(leaf, key, ret_item);
    return ST_OK;
}

uint64_t store_newest(const struct store_pin *pin, struct bytes prefix)
{
    struct store_view view = {pin->root, pin->floor, pin->newest};
    return store_read_newest(&view, prefix);
}

uint64_t store_count(const struct store_pin *pin, struct bytes prefix)
{
    size_t hidden;
    const struct store_node *top = store_read_top(pin->root, prefix, &hidden);
    return top != NULL ? store_node_keys(top) : 0;
}

struct store_place store_place_top(const struct store_pin *pin)
{
    return (struct store_place){
        .node = pin->root,
        .above = pin->newest,
        .newest = pin->root != NULL ? pin->root->newest : pin->newest,
    };
}

struct store_place store_place_below(const struct store_place *place, struct bytes more)
{
    const struct store_node *node = place->node;
    size_t hidden = place->hidden;
    uint64_t above = place->above;
    ASSERT(node == NULL || hidden <= node->prefix_len);
    while (node != NULL) {
        struct bytes edge = bytes_from(store_node_prefix(node), hidden);
        ASSERT(edge.len <= STORE_KEY_MAX);
        if (more.len <= edge.len && bytes_has_prefix(edge, more))
            return (struct store_place){node, hidden + more.len, above, node->newest};
        if (more.len <= edge.len || !bytes_has_prefix(more, edge))
            break;
        above = node->newest;
        if (node->kind == STORE_LEAF)
            break;
        node = store_inner_child(store_inner_of(node), more.data[edge.len]);
        more = bytes_from(more, edge.len + 1);
        hidden = 0;
    }
    return (struct store_place){.above = above, .newest = above};
}

uint64_t store_place_modified(const struct store_place *place)
{
    const struct store_node *node = place->node;
    if (node == NULL || place->hidden != node->prefix_len)
        return 0;
    if (node->kind != STORE_LEAF)
        node = store_inner_of(node)->own;
    return node != NULL ? store_leaf_of(node)->modified : 0;
}
