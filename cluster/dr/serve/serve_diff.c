/* A difference sync: the secondary compares the hashes of a pinned version with its own, names what
 * it lacks, and gets these keys as content, as in serve_sync.c.
 *
 * The pin holds memory of the primary, so it lasts for the comparison and until the keys are in a
 * file, and no longer than PIN_MS: then the secondary begins anew, or takes the whole state. */
#include "cluster/dr/serve/serve_internal.h"

#include "base/mem.h"
#include "base/trace.h"
#include "cluster/dr/diff/dr_diff.h"
#include "state/state_core.h"

#include <inttypes.h>
#include <time.h>

enum { DIFF_WAIT_MS = 500, PIN_MS = 5 * 60 * 1000 };

struct diff {
    struct dr_outgoing out;
    struct dr_diff_parts parts;
    uint64_t floor, asked;
    int64_t until_ms; /* end of the pin */
    uint8_t *room;    /* for content of a block */
};

static enum status send_nodes(void *ctx, struct bytes nodes)
{
    struct diff *d = ctx;
    return dr_conn_send_list(d->out.s->conn, DR_DIFF_NODES, nodes, false,
                             dr_conn_now_ms() + DR_SEND_MS);
}

/* Version of the last restore: no newest version is below it, on neither side. */
static uint64_t restored_at(const struct store_pin *pin)
{
    struct store_item item;
    return store_get(pin, BYTES(STATE_RESTORED), &item) == ST_OK ? item.modified : 0;
}

/* Version at which this cluster was promoted. The record is written by the promotion alone. */
static uint64_t promoted_at(const struct store_pin *pin)
{
    struct store_item item;
    uint64_t version = 0;
    if (store_get(pin, BYTES(DR_PROMOTED), &item) != ST_OK)
        return 0;
    for (size_t i = 0; i < item.value.len && i < 19; i++)
        version = version * 10 + (uint64_t)(item.value.data[i] - '0');
    return version;
}

static enum status tell_begin(struct diff *d)
{
    const struct rlog_machine_dump *dump = &d->out.dump;
    d->floor = MIN(restored_at(&dump->pin), dump->version);
    struct dr_frame frame = {.type = DR_DIFF_BEGIN,
                             .diff_begin = {.version = dump->version,
                                            .floor = d->floor,
                                            .keys = d->out.keys,
                                            .fork = promoted_at(&dump->pin),
                                            .time_ms = dump->time_ms}};
    return dr_conn_send(d->out.s->conn, &frame, dr_conn_now_ms() + DR_SEND_MS);
}

/* The secondary chooses the floor, by the flag of a question: where the histories differ, newest
 * versions are not compared. */
static enum status take_list(struct diff *d, const struct dr_frame *frame, bool *ret_last)
{
    const struct dr_block *block = &frame->diff_list.block;
    if (frame->type != DR_DIFF_ASK && frame->type != DR_DIFF_WANT)
        return ST_INVALID;
    struct bytes list = bytes_of(d->room, block->raw_bytes);
    TRY(dr_block_unpack(block, d->room));
    if (frame->type == DR_DIFF_WANT) {
        *ret_last = frame->diff_list.flag;
        return dr_diff_parts_add(&d->parts, list);
    }
    d->asked++;
    uint64_t floor = frame->diff_list.flag ? d->out.dump.version : d->floor;
    return d->parts.n == 0 ? dr_diff_answer(&d->out.dump.pin, floor, list, send_nodes, d)
                           : ST_INVALID;
}

/* Wait until the bandwidth allows the next answer. */
static void await_rate(struct dr_session *s)
{
    unsigned ms = dr_session_pause_ms(s);
    const struct timespec pause = {.tv_nsec = ms * 1000000L};
    static_assert(DR_JUDGE_MS < 1000, "the longest pause is below a second");
    if (ms != 0)
        (void)nanosleep(&pause, NULL); /* a signal ends the pause early */
}

/* Answer until the secondary has told everything that it wants. */
static enum status answer_all(struct diff *d)
{
    struct dr_frame frame;
    bool last = false;
    d->until_ms = dr_conn_now_ms() + PIN_MS;
    while (!last) {
        TRY(dr_session_check(d->out.s));
        if (dr_conn_now_ms() >= d->until_ms)
            return ST_TIMEOUT;
        await_rate(d->out.s);
        enum status st = dr_conn_receive(d->out.s->conn, dr_conn_now_ms() + DIFF_WAIT_MS, &frame);
        if (st == ST_TIMEOUT)
            continue;
        TRY(st);
        TRY(take_list(d, &frame, &last));
    }
    return dr_diff_parts_end(&d->parts);
}

static enum status diff_serve(struct diff *d)
{
    struct dr_session *s = d->out.s;
    TRY(dr_outgoing_pin(&d->out));
    TRY(tell_begin(d));
    TRY(answer_all(d));
    d->out.dump.parted = true;
    d->out.dump.parts = d->parts.parts;
    d->out.dump.n_parts = d->parts.n;
    trace(TRACE_INFO, "dr",
          "secondary %s at %s syncs the difference to version %" PRIu64 ": %" PRIu64
          " questions, %zu places",
          s->peer.name.id, dr_conn_address(s->conn), d->out.dump.version, d->asked, d->parts.n);
    return dr_outgoing_send(&d->out);
}

enum status dr_session_diff(struct dr_session *s)
{
    struct diff d = {.room = NULL};
    TRY(dr_outgoing_init(&d.out, s));
    d.room = mem_alloc(DR_RAW_MAX);
    enum status st = d.room != NULL ? diff_serve(&d) : ST_NOMEM;
    dr_outgoing_done(&d.out);
    dr_diff_parts_done(&d.parts);
    mem_free(d.room);
    return st;
}
