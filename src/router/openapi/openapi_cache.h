/* The OpenAPI document for requests without a token, kept as text and as gzip: rendering the
 * document costs a hundred times as much as sending it. Each worker has a cache of its own. Inside
 * src/router. */
#ifndef HOLDFAST_ROUTER_OPENAPI_OPENAPI_CACHE_H
#define HOLDFAST_ROUTER_OPENAPI_OPENAPI_CACHE_H

#include "base/shared.h"
#include "base/status.h"
#include "router/request/dialect.h"

enum { OPENAPI_NS_MAX = 64 };

/* One form of the document: with the mounts of one namespace at one version. */
struct openapi_page {
    char ns[OPENAPI_NS_MAX];
    uint64_t version;
    struct shared *text, *gzip; /* the page as text and compressed; NULL: not made yet */
};

struct openapi_cache {
    struct openapi_page named, generic; /* page with the mounts; page with every engine once */
    /* pages of the dialects without mounts, by their places in dialect_map.dialects */
    struct openapi_page others[DIALECTS_MAX];
};

/* Free the pages; the cache is empty then. */
void openapi_cache_done(struct openapi_cache *cache);

/* Whether the page was made for this namespace and version. */
bool openapi_page_is(const struct openapi_page *page, const char *ns, uint64_t version);
/* Keep a copy of `text`. A failure leaves the page empty. ST_NOMEM; ST_TOO_BIG: such a namespace is
 * not kept. */
NODISCARD enum status openapi_page_put(struct openapi_page *page, const char *ns, uint64_t version,
                                       struct bytes text);

/* Whether the header Accept-Encoding allows gzip. */
bool openapi_takes_gzip(struct bytes accept_encoding);

#endif
