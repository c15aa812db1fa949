/* Counters, in all and for each peer: the loop's thread counts, any thread reads.
 *
 * A peer's row belongs to its name and stays for as long as the mesh: readers need no lock. */
#include "cluster/mesh/mesh_internal.h"

#include <stdio.h>

static uint64_t get(_Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

struct mesh_peer_row *mesh_peer_row(struct mesh *mesh, const char *name)
{
    unsigned n = atomic_load_explicit(&mesh->n_rows, memory_order_relaxed);
    ASSERT(n <= MESH_ROWS_MAX);
    for (unsigned i = 0; i < n; i++)
        if (strcmp(mesh->rows[i].name, name) == 0)
            return &mesh->rows[i];
    if (n == MESH_ROWS_MAX) /* the last row counts all further names */
        return &mesh->rows[MESH_ROWS_MAX - 1];
    struct mesh_peer_row *row = &mesh->rows[n];
    (void)snprintf(row->name, sizeof row->name, "%s",
                   n == MESH_ROWS_MAX - 1 ? "others" : name); /* no longer than a name may be */
    atomic_store_explicit(&mesh->n_rows, n + 1, memory_order_release);
    return row;
}

unsigned mesh_stats_peers(struct mesh *mesh, struct mesh_peer_stats *ret_peers, unsigned max)
{
    unsigned n = MIN(atomic_load_explicit(&mesh->n_rows, memory_order_acquire), max);
    ASSERT(n <= MESH_ROWS_MAX);
    for (unsigned i = 0; i < n; i++) {
        struct mesh_peer_row *row = &mesh->rows[i];
        ret_peers[i] = (struct mesh_peer_stats){
            .links = get(&row->links),
            .reconnects = get(&row->reconnects),
            .connects_failed = get(&row->connects_failed),
            .frames_sent = get(&row->frames_sent),
            .frames_received = get(&row->frames_received),
            .frames_dropped = get(&row->frames_dropped),
            .bytes_sent = get(&row->bytes_sent),
            .bytes_received = get(&row->bytes_received),
        };
        memcpy(ret_peers[i].name, row->name, sizeof row->name);
    }
    return n;
}

void mesh_stats(struct mesh *mesh, struct mesh_stats *ret_stats)
{
    struct mesh_counters *c = &mesh->count;
    *ret_stats = (struct mesh_stats){
        .frames_sent = get(&c->frames_sent),
        .frames_received = get(&c->frames_received),
        .bytes_sent = get(&c->bytes_sent),
        .bytes_received = get(&c->bytes_received),
        .frames_dropped_full = get(&c->dropped_full),
        .frames_dropped_unconnected = get(&c->dropped_unconnected),
        .links_out = get(&c->links_out),
        .links_in = get(&c->links_in),
        .connects = get(&c->connects),
        .connects_failed = get(&c->connects_failed),
        .accepts = get(&c->accepts),
        .accepts_refused = get(&c->accepts_refused),
        .peers_gone = get(&c->peers_gone),
        .http_accepted = get(&c->http_accepted),
        .cert_not_after_s = atomic_load_explicit(&c->cert_not_after_s, memory_order_relaxed),
    };
}
