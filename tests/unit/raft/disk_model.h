/* Appends entries to a disk world, and judges the log that was loaded. */
#ifndef HOLDFAST_TESTS_UNIT_RAFT_DISK_MODEL_H
#define HOLDFAST_TESTS_UNIT_RAFT_DISK_MODEL_H

#include "raft/disk_world.h"

static inline size_t model_size(uint64_t tag)
{
    static const uint16_t sizes[] = {0, 8, 30, 420, 440, 460, 900, 1500, 3000, 100, 60, 1};
    return sizes[tag * 7 % ARRAY_LEN(sizes)];
}

static inline void model_content(uint64_t tag, uint8_t *out)
{
    struct rng rng = {tag};
    for (size_t i = 0, n = model_size(tag); i < n; i++)
        out[i] = tag % 5 == 0 ? 0 : (uint8_t)rng_next(&rng); /* zeros look like unwritten space */
}

static inline struct rlog_entry model_make(uint64_t tag, uint64_t term)
{
    struct rlog_block *block = rlog_block_new(model_size(tag));
    assert_non_null(block);
    model_content(tag, rlog_block_data(block));
    return (struct rlog_entry){.term = term,
                               .type = (enum rlog_entry_type)(1 + tag % 3),
                               .data = bytes_of(rlog_block_data(block), model_size(tag)),
                               .block = block};
}

static inline void model_check_entry(const struct rlog_entry *have, const struct model_entry *want)
{
    struct rlog_entry e = model_make(want->tag, want->term);
    assert_int_equal(have->term, e.term);
    assert_int_equal(have->type, e.type);
    assert_bytes(have->data, e.data);
    rlog_block_unref(e.block);
}

/* Append `n` fresh entries from `index` on, in the world's term; world_set_term raises it. */
static inline void world_append(struct world *w, uint64_t index, unsigned n)
{
    struct rlog_entry entries[16];
    struct model_state *now = &w->states[w->issued], *next = &w->states[w->issued + 1];
    assert_true(n <= ARRAY_LEN(entries) && w->issued + 1 < WORLD_STATES);
    assert_true(index <= now->last + 1 && index + n < WORLD_ENTRIES);
    next->entries = calloc(WORLD_ENTRIES, sizeof *next->entries);
    assert_non_null(next->entries);
    memcpy(next->entries, now->entries, index * sizeof *next->entries);
    for (unsigned i = 0; i < n; i++) {
        next->entries[index + i] = (struct model_entry){w->term, ++w->tag};
        entries[i] = model_make(w->tag, w->term);
    }
    next->last = index + n - 1;
    w->issued++;
    assert_int_equal(rlog_disk_append(w->disk, index, entries, n), w->issued);
    rlog_disk_write(w->disk);
    for (unsigned i = 0; i < n; i++)
        rlog_block_unref(entries[i].block);
}

static inline void world_add(struct world *w, unsigned n)
{
    world_append(w, w->states[w->issued].last + 1, n);
}

static inline enum status world_set_term(struct world *w, uint64_t term, uint64_t vote)
{
    w->term_tried = term;
    w->vote_tried = vote;
    TRY(rlog_disk_set_term(w->disk, term, vote));
    w->term = w->term_done = term;
    w->vote_done = vote;
    return ST_OK;
}

/* Whether the loaded log is that of `state`, apart from what was compacted. */
static inline bool model_matches(const struct rlog_loaded *l, const struct model_state *state)
{
    if (l->first + l->n != state->last + 1)
        return false;
    for (uint64_t i = 0; i < l->n; i++) {
        const struct model_entry *want = &state->entries[l->first + i];
        if (l->entries[i].term != want->term || l->entries[i].data.len != model_size(want->tag))
            return false;
    }
    return true;
}

static inline void model_check_content(const struct rlog_loaded *l, const struct model_state *state)
{
    for (uint64_t i = 0; i < l->n; i++)
        model_check_entry(&l->entries[i], &state->entries[l->first + i]);
    if (l->first > 1)
        assert_int_equal(l->prev_term, state->entries[l->first - 1].term);
}

/* Judge what was loaded, and go on from there. */
static inline void world_check(struct world *w)
{
    const struct rlog_loaded *l = &w->loaded;
    if (l->corrupt)
        fail_msg("corrupt: %s", l->reason.text);
    uint64_t k = w->issued + 1;
    do
        k--;
    while (k > w->written && !model_matches(l, &w->states[k]));
    if (!model_matches(l, &w->states[k]))
        fail_msg("loaded entries %llu to %llu, written %llu to %llu", (unsigned long long)l->first,
                 (unsigned long long)(l->first + l->n - 1), 1ULL,
                 (unsigned long long)w->states[w->written].last);
    model_check_content(l, &w->states[k]);
    assert_true(l->first <= l->snapshot.index + 1);
    bool done = l->term == w->term_done && l->vote == w->vote_done;
    bool tried = l->term == w->term_tried && l->vote == w->vote_tried;
    assert_true(done || tried);
    w->term_done = w->term_tried = l->term;
    w->vote_done = w->vote_tried = l->vote;

    struct model_state kept = w->states[k];
    w->states[k].entries = w->states[0].entries;
    w->states[0] = kept;
    world_states_drop(w, 1);
    w->issued = w->written = 0;
}

static inline void world_open(struct world *w)
{
    enum status st = world_try_open(w);
    if (st != ST_OK)
        fail_msg("open: %s: %s", status_name(st), w->reason.text);
    world_check(w);
}

static inline void world_reopen(struct world *w)
{
    world_close(w);
    world_open(w);
}

/* Make the replica and open it. */
static inline struct world *world_begin(void)
{
    struct world *w = world_new();
    assert_status(world_create(w), ST_OK);
    world_open(w);
    assert_status(world_set_term(w, 1, 0), ST_OK);
    return w;
}

#endif
