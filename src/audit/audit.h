/* Audit: a record of every request before it has any effect, and of every reply before it is sent
 * (PROTOCOL R20).
 *
 * A record is one line of JSON. Every enabled device is offered it; at least one must accept it,
 * else the request fails. Tokens appear as their HMAC, so that lines can be compared but not used;
 * paths, policies and errors are in clear; bodies are left out.
 *
 * An audit belongs to one worker; it is used on that worker's thread alone. */
#ifndef HOLDFAST_AUDIT_AUDIT_H
#define HOLDFAST_AUDIT_AUDIT_H

#include "barrier/barrier.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"

enum audit_kind { AUDIT_REQUEST, AUDIT_REPLY };

/* The recorded facts; NULL and empty where unknown. Borrowed until `done`. */
struct audit_facts {
    enum audit_kind kind;
    int64_t time_ms;
    const char *request_id, *operation, *ns, *peer;
    struct bytes path;
    struct bytes token; /* in clear; recorded as its HMAC */
    const char *accessor, *display_name, *token_type;
    const char *const *policies;
    size_t n_policies;
    const char *mount_type;
    int status;        /* of the reply */
    const char *error; /* of the reply */
};

/* One offer of a line to one device. */
struct audit_write {
    struct bytes line; /* without a line end; valid until `done` */
    /* To be called once, on the worker's thread, never from inside the device's write. */
    void (*done)(struct audit_write *write, enum status st);
    struct audit_op *op;
};

/* Embedded in its owner. */
struct audit_device {
    const char *name;
    void (*write)(struct audit_device *device, struct audit_write *write);
    struct list link;
};

enum { AUDIT_DEVICES_MAX = 8 };

struct audit {
    struct list devices;
    unsigned n_devices;
};
/* Without devices. */
void audit_init(struct audit *audit);
/* ST_NO_SPACE: AUDIT_DEVICES_MAX are enabled. */
NODISCARD enum status audit_enable(struct audit *audit, struct audit_device *device);
/* Without a device every record counts as accepted, and none needs to be made. */
static inline bool audit_enabled(const struct audit *audit)
{
    return audit->n_devices != 0;
}

/* One record on its way. Embedded; zero-initialise and set `done`. */
struct audit_op {
    /* ST_OK: a device accepted it. ST_IO: none did. Last touch. */
    void (*done)(struct audit_op *op, enum status st);
    struct audit_write writes[AUDIT_DEVICES_MAX]; /* one for each device */
    unsigned waiting, accepted;                   /* devices */
    struct buf line;
};
/* Offer a record to every device; at least one is enabled. `cipher` makes the HMACs; a token cannot
 * be recorded while the barrier is sealed and is then left out. ST_OK: `done` follows.
 * ST_NOMEM, ST_CRYPTO: it does not. */
NODISCARD enum status audit_record(struct audit *audit, struct barrier_cipher *cipher,
                                   const struct audit_facts *facts, struct audit_op *op);

#endif
