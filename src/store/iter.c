/* The ordered walk. iter->key[0..depth) is the key of the innermost node of the path. The path may
 * have dropped its outermost nodes (first_frame > 0); the walk finds them again from the root. */
#include "store/read.h"

static struct store_frame *top_of(struct store_iter *iter)
{
    ASSERT(iter->n_frames > iter->first_frame);
    return &iter->frames[(iter->n_frames - 1) % STORE_ITER_FRAMES];
}

/* `node`, whose prefix begins at key byte `from`, with `next` as in a frame. */
static void push(struct store_iter *iter, const struct store_node *node, size_t from, unsigned next)
{
    struct bytes prefix = store_node_prefix(node);
    ASSERT(from + prefix.len <= STORE_KEY_MAX);
    if (prefix.len != 0)
        memcpy(iter->key + from, prefix.data, prefix.len);
    if (iter->n_frames - iter->first_frame == STORE_ITER_FRAMES)
        iter->first_frame++;
    iter->frames[iter->n_frames++ % STORE_ITER_FRAMES] = (struct store_frame){
        .node = node,
        .next = (uint16_t)next,
        .depth = (uint16_t)(from + prefix.len),
    };
}

/* Start again at the first key >= `bound`; with `beyond`, at the first key that is greater than
 * `bound` and does not begin with `bound`. `bound` begins with the walk's prefix. `bound` may lie
 * in iter->key: until its last use, each byte that is written there equals the byte of `bound`. */
static void seek(struct store_iter *iter, struct bytes bound, bool beyond)
{
    const struct store_node *node = iter->root;
    size_t from = 0; /* node's prefix begins here; all before is equal to bound */
    ASSERT(bound.len >= iter->prefix_len);
    iter->n_frames = iter->first_frame = 0;
    while (node != NULL) {
        struct bytes rest = bytes_from(bound, from), edge = store_node_prefix(node);
        size_t same = bytes_common_len(rest, edge), at = from + edge.len;
        if (same == rest.len) { /* everything below begins with bound */
            if (!beyond)
                push(iter, node, from, 0);
            return;
        }
        if (same < edge.len) {
            if (edge.data[same] > rest.data[same] && from + same >= iter->prefix_len)
                push(iter, node, from, 0);
            return;
        }
        if (node->kind == STORE_LEAF)
            return;
        uint8_t byte = bound.data[at];
        const struct store_inner *inner = store_inner_of(node);
        if (edge.len != 0)
            memcpy(iter->key + from, edge.data, edge.len);
        if (at >= iter->prefix_len)
            push(iter, node, from, store_inner_after(inner, byte) + 1);
        node = store_inner_child(inner, byte);
        iter->key[at] = byte;
        from = at + 1;
    }
}

void store_iter_init(struct store_iter *iter, const struct store_pin *pin, struct bytes prefix,
                     struct bytes from)
{
    iter->root = pin->root;
    iter->item = (struct store_item){0};
    iter->newest = 0;
    iter->prefix_len = prefix.len;
    iter->key_len = 0;
    iter->n_frames = iter->first_frame = 0;
    if (prefix.len > STORE_KEY_MAX)
        return;
    if (bytes_has_prefix(from, prefix))
        seek(iter, from, false);
    else if (bytes_cmp(from, prefix) < 0)
        seek(iter, prefix, false);
}

/* The top frame is done. */
static void pop(struct store_iter *iter)
{
    size_t depth = top_of(iter)->depth;
    iter->n_frames--;
    if (iter->n_frames == iter->first_frame && iter->first_frame > 0)
        seek(iter, bytes_of(iter->key, depth), true);
}

/* The next leaf; its key is iter->key[0..key_len). NULL at the end. Sets iter->newest. */
static inline const struct store_node *next_leaf(struct store_iter *iter)
{
    while (iter->n_frames > iter->first_frame) {
        struct store_frame *frame = top_of(iter);
        const struct store_node *node = frame->node;
        iter->key_len = frame->depth;
        if (node->kind == STORE_LEAF) {
            iter->n_frames--; /* the parent is still in the ring, or the frame is the last */
            ASSERT(iter->n_frames > iter->first_frame || iter->first_frame == 0);
            iter->newest = node->newest;
            return node;
        }
        const struct store_inner *inner = store_inner_of(node);
        if (frame->next == 0) {
            frame->next = 1;
            iter->newest = 0;
            if (inner->own != NULL)
                return inner->own;
        }
        unsigned at = frame->next - 1U;
        uint8_t byte;
        const struct store_node *child = store_inner_next(inner, &at, &byte);
        frame->next = (uint16_t)(at + 1);
        if (child == NULL) {
            pop(iter);
            continue;
        }
        iter->key[frame->depth] = byte;
        push(iter, child, frame->depth + 1U, 0);
    }
    return NULL;
}

bool store_iter_next(struct store_iter *iter)
{
    const struct store_node *node = next_leaf(iter);
    if (node == NULL)
        return false;
    store_read_item(store_leaf_of(node), bytes_of(iter->key, iter->key_len), &iter->item);
    return true;
}

void store_iter_skip(struct store_iter *iter, struct bytes skip)
{
    ASSERT(skip.len <= iter->key_len);
    ASSERT(skip.len == 0 || memcmp(skip.data, iter->key, skip.len) == 0);
    while (iter->n_frames > iter->first_frame && top_of(iter)->depth >= skip.len)
        iter->n_frames--;
    if (iter->n_frames > iter->first_frame || iter->first_frame == 0)
        return;
    iter->first_frame = iter->n_frames = 0;
    if (skip.len >= iter->prefix_len)
        seek(iter, skip, true);
}
