/* The budget of replies that are not written yet, as a transport offers it to the router. */
#ifndef HOLDFAST_ROUTER_REPLY_ROOM_H
#define HOLDFAST_ROUTER_REPLY_ROOM_H

#include "base/status.h"

#include <stddef.h>

/* A longer reply is counted before it waits for anything else. */
enum { REPLY_UNHELD_MAX = 16 * 1024 };

struct router_request;

/* Both functions count for the client and the token (`payer`) of the request. */
struct reply_room {
    /* Whether one more reply has room. ST_BUSY: ask again later. ST_LIMITED: too many requests wait
     * for room, so refuse this one. */
    enum status (*find)(struct router_request *request);
    /* Count the memory of a long reply. */
    void (*hold)(struct router_request *request, size_t bytes);
};

#endif
