/* A core with two hostile peers: frames, time and disk in any order. A frame that decodes encodes
 * to the same bytes again; the core refuses, follows or stops with a message, but never breaks one
 * of its invariants.
 *
 * Input: a run of { u8 what; } with, for a frame, { u8 peer; u16 length; bytes }. */
#include "base/mem.h"
#include "base/trace.h"
#include "raft/replica/rlog_wire.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum what { WHAT_FRAME, WHAT_TIME, WHAT_WRITTEN, WHAT_SUBMIT, WHAT_TICK, WHATS };

struct target {
    struct rlog_core core;
    uint64_t seq, now;
    bool failed;
};

static enum status on_persist(void *ctx, uint64_t term, uint64_t vote)
{
    (void)ctx;
    (void)term;
    (void)vote;
    return ST_OK;
}

static uint64_t on_append(void *ctx, uint64_t index, const struct rlog_entry *e, unsigned n)
{
    (void)index;
    ASSERT(n > 0 && e[n - 1].term > 0);
    return ++((struct target *)ctx)->seq;
}

static void on_send(void *ctx, uint64_t to, const struct rlog_message *m)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct rlog_frame frame = {.kind = RLOG_FRAME_CORE, .core = *m};
    (void)ctx;
    ASSERT(to != 0 && to != 1);
    rlog_wire_encode(&frame, &out);
}

static void on_peer(void *ctx, uint64_t to)
{
    (void)ctx;
    ASSERT(to != 0);
}

static void on_nothing(void *ctx)
{
    (void)ctx;
}

static void on_apply(void *ctx, uint64_t index, const struct rlog_entry *e)
{
    (void)ctx;
    ASSERT(index > 0 && e->data.len > 0);
}

static void on_fatal(void *ctx, enum status why, const struct reason *reason)
{
    ASSERT(why != ST_OK && reason->text[0] != '\0');
    ((struct target *)ctx)->failed = true;
}

static struct rlog_entry entry_make(struct bytes data, enum rlog_entry_type type)
{
    struct rlog_block *block = rlog_block_new(data.len);
    ASSERT(block != NULL);
    memcpy(rlog_block_data(block), data.data, data.len);
    return (struct rlog_entry){1, type, bytes_of(rlog_block_data(block), data.len), block};
}

static void target_start(struct target *t)
{
    struct rlog_conf conf = {.n = 3};
    struct rlog_conf_bytes encoded;
    for (unsigned i = 0; i < 3; i++) {
        conf.members[i] = (struct rlog_member){.id = i + 1, .role = RLOG_VOTER};
        (void)snprintf(conf.members[i].name, sizeof conf.members[i].name, "n%u", i + 1);
        (void)snprintf(conf.members[i].address, sizeof conf.members[i].address, "h%u:1", i + 1);
    }
    if (rlog_conf_encode(&conf, &encoded) != ST_OK)
        ASSERT(false);
    struct rlog_entry entries[3] = {entry_make(bytes_of(encoded.bytes, encoded.len), RLOG_CHANGE),
                                    entry_make(BYTES("one"), RLOG_COMMAND),
                                    entry_make(BYTES("two"), RLOG_COMMAND)};
    struct rlog_loaded loaded = {.term = 1, .first = 1, .n = 3, .entries = entries};
    struct rlog_core_options o = {.ops = {on_persist, on_append, on_send, on_peer, on_nothing,
                                          on_nothing, on_nothing, on_apply, on_fatal, t},
                                  .id = 1,
                                  .election_ms = 100,
                                  .heartbeat_ms = 10,
                                  .seed = 7};
    t->now = 1000;
    if (rlog_core_init(&t->core, &o) != ST_OK || rlog_core_start(&t->core, &loaded, 0, t->now))
        ASSERT(false);
    for (unsigned i = 0; i < 3; i++)
        rlog_block_unref(entries[i].block);
}

static void frame_same(const struct rlog_frame *frame, struct bytes bytes)
{
    CLEANUP(buf_done) struct buf out = {0};
    rlog_wire_encode(frame, &out);
    if (frame->kind == RLOG_FRAME_CORE && frame->core.raft.type == RAFT_APPEND_ENTRIES)
        for (unsigned i = 0; i < frame->core.raft.append_entries.n_entries; i++)
            buf_add(&out, frame->entries[i].data);
    if (frame->kind == RLOG_FRAME_CHUNK)
        buf_add(&out, frame->chunk.data);
    ASSERT(bytes_eq(buf_bytes(&out), bytes));
}

static void feed_frame(struct target *t, struct reader *r)
{
    struct rlog_frame frame;
    uint64_t peer = 2 + (reader_u8(r) & 1);
    size_t len = reader_u16(r), left = reader_left(r);
    struct bytes bytes = reader_take(r, MIN(len, left));
    if (rlog_wire_decode(bytes, &frame) != ST_OK)
        return;
    frame_same(&frame, bytes);
    if (frame.kind == RLOG_FRAME_CORE)
        rlog_core_receive(&t->core, peer, &frame.core, t->now);
    else if (frame.kind == RLOG_FRAME_COMMIT)
        rlog_core_notified(&t->core, peer, frame.ask.term, frame.ask.commit, t->now);
    rlog_frame_done(&frame);
}

static void submit(struct target *t)
{
    uint64_t index;
    struct rlog_entry e = entry_make(BYTES("command"), RLOG_COMMAND);
    enum status st = rlog_core_submit(&t->core, RLOG_COMMAND, &e, t->now, &index);
    ASSERT(st == ST_OK || st == ST_NOT_LEADER || st == ST_CLOSED);
    rlog_block_unref(e.block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct target *t = mem_zalloc(sizeof *t);
    struct reader r = reader_of(bytes_of(data, size));
    ASSERT(t != NULL);
    trace_set_level(TRACE_OFF);
    target_start(t);
    while (reader_left(&r) > 0 && !r.failed && !t->failed) {
        switch (reader_u8(&r) % WHATS) {
        case WHAT_FRAME: feed_frame(t, &r); break;
        case WHAT_TIME:
            t->now = MAX(t->now, t->core.timeout_ms);
            rlog_core_timeout(&t->core, t->now);
            break;
        case WHAT_WRITTEN: rlog_core_written(&t->core, t->seq, t->now); break;
        case WHAT_SUBMIT: submit(t); break;
        case WHAT_TICK: t->now++; break;
        }
    }
    rlog_core_done(&t->core);
    mem_free(t);
    return 0;
}
