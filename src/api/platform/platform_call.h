/* Calls of URLs that clients gave: one try, bounded, signed. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_CALL_H
#define HOLDFAST_API_PLATFORM_PLATFORM_CALL_H

#include "api/platform/platform_object.h"

enum { PLATFORM_CALL_BODY_MAX = 8 * 1024, PLATFORM_CALL_FIELDS_MAX = 64 };

struct platform_call {
    const char *url;
    struct bytes body;            /* JSON */
    const char *key;              /* of the signature; "": the header is empty or absent */
    const char *const *signature; /* names of the headers of the signature; NULL: none is sent */
    size_t n_signature;
    const char *delivery; /* id, sent as PLATFORM_CALL_DELIVERY; NULL: none */
};
#define PLATFORM_CALL_DELIVERY "X-Infra-Delivery-Id"

/* The reply to a call. Texts are in the arena, and valid UTF-8. */
struct platform_answer {
    int status;                 /* 0: no reply */
    const char *body;           /* the first bytes; without a reply why there is none */
    struct text_value *headers; /* names in lower case, each with a list of values */
};

/* Call a URL and wait; blocks. ST_OK, also without a reply; ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status platform_call_send(struct arena *arena, const struct platform_call *call,
                                         struct platform_answer *ret_answer);

#endif
