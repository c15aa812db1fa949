/* Questions about the row of a request; false before the row is known. Inside src/router. */
#ifndef HOLDFAST_ROUTER_PIPELINE_PIPE_ROW_H
#define HOLDFAST_ROUTER_PIPELINE_PIPE_ROW_H

#include "router/pipeline/pipe.h"

static inline bool pipe_has_flag(const struct pipe *p, unsigned flag)
{
    return p->req.route != NULL && (p->req.route->flags & flag) != 0;
}

static inline bool pipe_has_place(const struct pipe *p, enum route_place place)
{
    return p->req.route != NULL && p->req.route->place == place;
}

static inline bool pipe_needs_active(const struct pipe *p)
{
    return pipe_has_place(p, PLACE_ACTIVE) || pipe_has_place(p, PLACE_ACTIVE_OR_LOCAL);
}

static inline bool pipe_has_who(const struct pipe *p, enum route_who who)
{
    return p->req.route != NULL && p->req.route->who == who;
}

/* Whether the route is served in the condition `when` (enum route_when). */
static inline bool pipe_is_served(const struct pipe *p, unsigned when)
{
    return p->req.route != NULL && (p->req.route->when & when) != 0;
}

static inline bool pipe_has_index(const struct pipe *p, enum route_indexed index)
{
    return p->req.route != NULL && p->req.route->index == index;
}

static inline bool pipe_uploads(const struct pipe *p)
{
    return p->req.route != NULL && p->req.route->input == INPUT_UPLOAD;
}

/* Whether the request is served from this node's state, without a confirmed read. */
static inline bool pipe_is_local(const struct pipe *p)
{
    return p->place == PIPE_HERE_ALONE || p->req.mode == REQ_STALE || pipe_has_place(p, PLACE_NODE);
}

#endif
