/* Pins: the published generations that readers hold. No lock is needed to pin or unpin.
 *
 * A reader writes the newest generation into a slot of its own, then checks whether this generation
 * is still the newest; if not, the reader tries again. The writer publishes, then reads the slots.
 * All four accesses are sequentially consistent, so either the reader sees the newer generation or
 * the writer sees the slot. So if the writer finds an older generation in no slot, no reader will
 * ever hold that generation again. */
#ifndef HOLDFAST_STORE_PINS_H
#define HOLDFAST_STORE_PINS_H

#include "store/version.h"

#include <stdatomic.h>

enum { STORE_PIN_DEADLINE_MS = 60000 };

struct store_slot {
    _Atomic uint64_t generation; /* 0: free */
    _Atomic(const char *) owner; /* the rest is for reports: a mixed reading does no harm */
    _Atomic uint64_t since_ms;   /* when the writer first saw the pin; 0: not yet */
    _Atomic uint32_t deadline_ms;
    _Atomic bool reported;
    uint8_t apart[32]; /* slots of two readers share no cache line */
};

struct store_pins {
    struct store_slot *slots;
    void *memory;          /* block that `slots` lies in, aligned */
    _Atomic unsigned used; /* slots from this index on were never taken */
    _Atomic uint64_t now_ms;
};

/* The generations held at one moment, ascending, each once. */
struct store_held {
    uint64_t generation[STORE_PINS_MAX];
    size_t n;
};

/* ST_NOMEM. */
NODISCARD enum status store_pins_init(struct store_pins *pins);
void store_pins_done(struct store_pins *pins);

/* Hold the newest generation, which is read from `published`. ST_BUSY when all slots are taken. */
NODISCARD enum status store_pins_take(struct store_pins *pins, const _Atomic uint64_t *published,
                                      uint64_t *ret_generation, unsigned *ret_slot);
/* Move a held slot on to the newest generation. */
uint64_t store_pins_renew(struct store_pins *pins, const _Atomic uint64_t *published,
                          unsigned slot);
void store_pins_describe(struct store_pins *pins, unsigned slot, const char *owner,
                         uint32_t deadline_ms);
void store_pins_give(struct store_pins *pins, unsigned slot);

/* The generations that are pinned. Any thread. To judge which older generations are still needed,
 * call this after the publication of the newer one. */
void store_pins_held(const struct store_pins *pins, struct store_held *ret_held);
/* Some held generation g with birth ≤ g < death: the lowest one. 0 when there is none. */
uint64_t store_held_between(const struct store_held *held, uint64_t birth, uint64_t death);

/* For the writer: set the clock, note new pins, and report each pin that is held beyond its
 * deadline. Returns the number of pins held. */
unsigned store_pins_tick(struct store_pins *pins, uint64_t now_ms);
void store_pins_stats(const struct store_pins *pins, uint64_t *ret_pins, uint64_t *ret_oldest_ms);

#endif
