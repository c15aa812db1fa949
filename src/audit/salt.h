/* The salt of a device, shared by the thread that renders a batch and by those that replace the
 * salt or ask for a hash meanwhile. Reference counted; wiped with the last reference. Private to
 * src/audit. */
#ifndef HOLDFAST_AUDIT_SALT_H
#define HOLDFAST_AUDIT_SALT_H

#include "audit/device.h"

#include <stdatomic.h>

struct salt {
    _Atomic unsigned refs;
    struct hmac *hmac; /* for the thread of the device alone: keeps recent results */
    uint8_t key[AUDIT_SALT_BYTES];
};

/* With one reference. ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status salt_new(const uint8_t key[AUDIT_SALT_BYTES], struct salt **ret_salt);

static inline struct salt *salt_ref(struct salt *salt)
{
    if (salt != NULL)
        (void)atomic_fetch_add(&salt->refs, 1); /* the earlier count does not matter */
    return salt;
}

void salt_unref(struct salt *salt); /* NULL is allowed */

/* As audit_device_hash; NULL: ST_NOT_FOUND. Any thread. */
NODISCARD enum status salt_hash(const struct salt *salt, struct bytes input,
                                char ret_text[AUDIT_HMAC_LEN + 1]);

#endif
