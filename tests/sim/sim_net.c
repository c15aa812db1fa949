#include "sim_net.h"

#include <stdlib.h>

enum { LINK_BYTES_MAX = 64 << 20 };

void sim_net_init(struct sim_net *net, struct core *core, uint64_t stream)
{
    *net = (struct sim_net){.core = core,
                            .rng = rng_make(core->seed, stream),
                            .delay_ns_min = 100 * SIM_US,
                            .delay_ns_max = 1 * SIM_MS,
                            .ns_per_kib = 1 * SIM_US};
    list_init(&net->flying);
}

static void frame_free(struct frame *frame)
{
    frame->net->flying_bytes[frame->from][frame->to] -= frame->len;
    core_cancel(frame->net->core, &frame->event);
    list_remove(&frame->link);
    free(frame);
}

void sim_net_done(struct sim_net *net)
{
    while (!list_empty(&net->flying))
        frame_free(CONTAINER_OF(net->flying.next, struct frame, link));
}

void sim_net_heal(struct sim_net *net)
{
    memset(net->cut, 0, sizeof net->cut);
}

static uint64_t delay(struct sim_net *net)
{
    if (rng_chance(&net->rng, net->late_permille))
        return rng_between(&net->rng, net->delay_ns_min, MAX(net->delay_ns_min, net->late_ns_max));
    return rng_between(&net->rng, net->delay_ns_min, net->delay_ns_max);
}

uint64_t sim_net_delay(struct sim_net *net, unsigned from, unsigned to)
{
    if (from != to && (net->cut[from][to] || rng_chance(&net->rng, net->lose_permille)))
        return 0;
    return from != to ? delay(net) : 1 * SIM_US;
}

static void on_arrival(struct event *event)
{
    struct frame *frame = CONTAINER_OF(event, struct frame, event);
    struct sim_net *net = frame->net;
    uint64_t again_ns = 0;
    if (net->process(net->ctx, frame->to) == frame->to_process)
        again_ns = net->deliver(net->ctx, frame);
    if (again_ns != 0)
        core_at(net->core, event, again_ns);
    else
        frame_free(frame);
}

static void frame_post(struct sim_net *net, const struct sim_route *route,
                       const struct bytes *parts, unsigned n)
{
    size_t len = 0, at = 0;
    for (unsigned i = 0; i < n; i++)
        len += parts[i].len;
    if (net->flying_bytes[route->from][route->to] + len > LINK_BYTES_MAX)
        return;
    struct frame *frame = sim_alloc(sizeof *frame + len);
    frame->event.fire = on_arrival;
    frame->net = net;
    frame->from = route->from;
    frame->to = route->to;
    frame->from_id = route->from_id;
    frame->to_process = net->process(net->ctx, route->to);
    frame->len = len;
    for (unsigned i = 0; i < n; at += parts[i++].len)
        if (parts[i].len != 0)
            memcpy(frame->data + at, parts[i].data, parts[i].len);
    net->flying_bytes[route->from][route->to] += len;
    list_push(&net->flying, &frame->link);
    uint64_t at_ns = net->core->now_ns + delay(net) + len / 1024 * net->ns_per_kib;
    uint64_t *newest = &net->newest_ns[route->from][route->to][route->bulk];
    if (net->ordered)
        at_ns = MAX(at_ns, *newest);
    *newest = MAX(at_ns, *newest);
    core_at(net->core, &frame->event, at_ns);
}

void sim_net_send(struct sim_net *net, const struct sim_route *route, const struct bytes *parts,
                  unsigned n)
{
    ASSERT(route->from < SLOTS && route->to < SLOTS);
    net->sent++;
    bool lost = net->cut[route->from][route->to] || rng_chance(&net->rng, net->lose_permille);
    if (lost || net->process(net->ctx, route->to) == 0) {
        net->lost++;
        return;
    }
    frame_post(net, route, parts, n);
    if (rng_chance(&net->rng, net->repeat_permille)) {
        net->repeated++;
        frame_post(net, route, parts, n);
    }
}
