/* The part of the router that belongs to one thread. Inside src/router. */
#ifndef HOLDFAST_ROUTER_PIPELINE_WORKER_H
#define HOLDFAST_ROUTER_PIPELINE_WORKER_H

#include "auth/registry/registry_cache.h"
#include "router/openapi/openapi_cache.h"
#include "router/pipeline/parking.h"
#include "router/request/dialect.h"
#include "router/router.h"
#include "text/random.h"

#include <stdatomic.h>

enum { WORKER_IDS = 64 };

struct router_worker {
    const struct router *router;
    struct env *env;
    struct state *state;
    struct barrier_cipher *cipher;
    /* Rights of tokens, by the kind of the tokens; NULL: no policies give such tokens rights. */
    struct acl_cache *acls[TOKEN_KINDS];
    struct registry_kind registry_acls; /* of acls[TOKEN_REGISTRY] */
    struct audit audit;
    struct token_cache *tokens;
    struct identity_cache *identities;
    struct mount_cache *mounts;
    struct openapi_cache docs;
    struct quotas *quotas;
    struct lease_quotas *lease_quotas;
    struct dialect_map dialects;
    unsigned running, inflight_max;
    struct list requests_under_way; /* pipes of the requests in progress */
    /* Random bytes for the ids of the next requests: one system call fetches the bytes of many ids.
     * The ids are no secrets. */
    uint8_t ids[WORKER_IDS][TEXT_UUID_RANDOM];
    unsigned n_ids;
    struct parking parking;
    struct histogram latency[ROUTER_CLASSES];
    atomic_ullong requests, forwards, reruns, refused, parsed_bytes;
};

#endif
