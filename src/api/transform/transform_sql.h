/* Rows in stores outside of the cluster.
 *
 * The operations on values run twice. The first run, in the handler's transaction, notes which rows
 * it needs, and what it writes. Then the stores are asked, once each; then the items that needed
 * rows run again, without a transaction, and find them; then the stores are written.
 *
 *   handler ──▶ read the stores in order ──▶ second run ──▶ write all stores ──▶ reply
 *                     └──────────────── failed: 502 ────────────┘
 *
 * Reading goes from store to store while rows are missing. A write is complete when all stores have
 * it. What a failed request has written is harmless: a token that no client got, or one that an
 * equal convergent encode finds again. */
#ifndef HOLDFAST_API_TRANSFORM_TRANSFORM_SQL_H
#define HOLDFAST_API_TRANSFORM_TRANSFORM_SQL_H

#include "api/transform/transform_store.h"
#include "api/transform/transform_token.h"
#include "router/request/req_wait.h"

enum { TRANSFORM_SQL_MS = OUT_SQL_JOB_MS, TRANSFORM_HITS_MAX = 10000 };

struct transform_sql_store {
    const char *name, *pool, *label;
    struct transform_store store;
    struct out_sql_limits limits;
};

/* A row with its key in the table. */
struct transform_sql_row {
    uint8_t lookup[TRANSFORM_DIGEST];
    struct transform_row row;
};

struct transform_digest {
    uint8_t bytes[TRANSFORM_DIGEST];
};

/* A list in the arena of the request. */
struct transform_list {
    void *items;
    size_t n;
};

/* The stores outside of one transformation, and what a request asks of them. */
struct transform_sql {
    struct transform_tokens *t;
    struct transform_sql_store *stores;
    size_t n_stores;
    struct transform_list wants;  /* of struct transform_digest: look-up keys of rows to read */
    struct transform_list prints; /* of struct transform_digest: fingerprints to look for */
    struct transform_list found;  /* of struct transform_sql_row: rows read, ordered by key */
    struct transform_list hits;   /* of struct transform_sql_row: found by fingerprint */
    struct transform_list writes; /* of struct transform_sql_row */
    struct transform_list tombs;  /* of struct transform_digest: rows to wipe */
    /* kept for the second run; `ring` of the tokens is wiped with the transaction */
    struct transform_ring ring;
    struct transform_list keys; /* of struct transform_kept_key */
    bool sorted;
    bool only_missing; /* a live row stays, whatever the new one has */
};
struct transform_kept_key {
    uint32_t version;
    uint8_t key[TRANSFORM_KEY_BYTES];
};

/* Load the stores outside of a transformation; t->sql stays NULL where there are none. */
NODISCARD enum status transform_sql_open(struct transform_tokens *t,
                                         const struct field_strings *stores);
/* In the first run: note a row, or the rows with a fingerprint, that the second run needs. */
NODISCARD enum status transform_sql_want(struct transform_sql *sql,
                                         const uint8_t lookup[TRANSFORM_DIGEST]);
NODISCARD enum status transform_sql_want_print(struct transform_sql *sql,
                                               const uint8_t print[TRANSFORM_DIGEST]);
/* In the second run. ST_NOT_FOUND. */
NODISCARD enum status transform_sql_find(struct transform_sql *sql,
                                         const uint8_t lookup[TRANSFORM_DIGEST],
                                         struct transform_row *ret_row);
/* Note a row to write, copied, or to wipe. */
NODISCARD enum status transform_sql_write(struct transform_sql *sql,
                                          const uint8_t lookup[TRANSFORM_DIGEST],
                                          const struct transform_row *row);
NODISCARD enum status transform_sql_tomb(struct transform_sql *sql,
                                         const uint8_t lookup[TRANSFORM_DIGEST]);
/* At the end of the first run: keep the keys that the second one needs. */
NODISCARD enum status transform_sql_keep(struct transform_sql *sql);
/* Begin and end the second run. */
void transform_sql_resume(struct transform_sql *sql);
void transform_sql_suspend(struct transform_sql *sql);
/* The key of a version, of those kept. ST_NOT_FOUND. */
NODISCARD enum status transform_sql_key(const struct transform_sql *sql, uint32_t version,
                                        uint8_t ret_key[TRANSFORM_KEY_BYTES]);
/* Append room for an item of `size` bytes. NULL: no memory. */
void *transform_list_add(struct arena *arena, struct transform_list *list, size_t size);

/* transform_sql_text.c: statements. Each runs on a connection of a job. */
NODISCARD enum status transform_sql_read_rows(struct transform_sql *sql,
                                              const struct transform_sql_store *store,
                                              struct out_sql_conn *conn, struct reason *reason);
NODISCARD enum status transform_sql_read_hits(struct transform_sql *sql,
                                              const struct transform_sql_store *store,
                                              struct out_sql_conn *conn, struct reason *reason);
NODISCARD enum status transform_sql_write_rows(struct transform_sql *sql,
                                               const struct transform_sql_store *store,
                                               struct out_sql_conn *conn, struct reason *reason);
NODISCARD enum status transform_sql_wipe_rows(struct transform_sql *sql,
                                              const struct transform_sql_store *store,
                                              struct out_sql_conn *conn, struct reason *reason);
/* transform_sql_tidy.c: begin to wipe rows of the store whose end has passed, if that is due. */
void transform_sql_tidy(const struct transform_sql_store *store, int64_t now_ms);

/* Order rows by key, one for each key, before they are written. */
void transform_sql_order_writes(struct transform_sql *sql);
/* Whether a row that was wanted is still missing. */
bool transform_sql_misses(struct transform_sql *sql);

/* transform_sql_chain.c: the way of a request through its stores. */
struct transform_chain {
    struct req *req;
    struct req_wait *wait;
    struct transform_sql **all; /* of the request */
    size_t n;
    /* The second run, on any thread, after the reads. */
    enum status (*again)(struct transform_chain *chain, struct reason *reason);
    /* at: the number of the next step of a phase; step i is of all[i / STORES_MAX] */
    enum { TRANSFORM_READING, TRANSFORM_WRITING } phase;
    size_t at;
    struct out_sql_job job;
    struct transform_sql *sql; /* of the job */
    const struct transform_sql_store *store;
    enum status status;
    const char *name; /* of the store that failed; NULL: no store failed */
    struct reason reason;
};
/* Begin; ends with req_wait_done. */
void transform_chain_start(struct transform_chain *chain);
/* After that: ST_OK, or a status with the request's error. */
NODISCARD enum status transform_chain_result(const struct transform_chain *chain);

#endif
