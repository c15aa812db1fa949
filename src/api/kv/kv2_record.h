/* The stored form of a version 2 secret: its metadata, its versions, and the data of the newest
 * version if that is short. Earlier records of the secret may be appended to the record, newest
 * first. Each earlier record holds the data of the version that was the newest when that record was
 * stored.
 *
 *   u8 format = 3
 *   u8 flags: 1 cas_required, 2 max_versions, 4 delete_after, 8 custom metadata,
 *             16 metadata_cas_required, 32 metadata version
 *   varint newest, varint n, varint created_ms, varint updated_ms - created_ms
 *   [varint max_versions] [varint delete_after_s] [varint metadata version]
 *   [varint pairs, n × (block name, block value)]
 *   n versions, oldest first:
 *     varint (created_ms - that of the version before, or of the record) × 16 + ended × 8
 *            + deleted × 4 + place
 *     [varint deleted_ms - created_ms]
 *     [block data, when the place is KV2_INLINE]
 *     [varint bytes of its record as stored, when it is KV2_APPENDED]
 *
 * Encoding is canonical: a record that can be decoded encodes to the same bytes. Times are cluster
 * time. */
#ifndef HOLDFAST_API_KV_KV2_RECORD_H
#define HOLDFAST_API_KV_KV2_RECORD_H

#include "text/schema.h"

enum {
    KV2_VERSIONS_DEFAULT = 10,
    KV2_VERSIONS_MAX = 65536,
    KV2_INLINE_MAX = 1024,   /* bytes of data in the record of a secret */
    KV2_APPENDED_MAX = 2048, /* bytes of earlier records that are appended to a record */
};

enum kv2_place {
    KV2_DESTROYED, /* the data is gone */
    KV2_INLINE,    /* the data is in the record: the newest version alone */
    KV2_SEPARATE,  /* the data has a key of its own */
    KV2_APPENDED,  /* the data is in an earlier record, appended to this one */
};

struct kv2_version {
    int64_t created_ms, deleted_ms; /* deleted_ms 0: never; may lie in the future */
    bool ended; /* deleted by a request, at once: the clock of a later leader does not matter */
    enum kv2_place place;
    struct bytes data;   /* KV2_INLINE: compact JSON */
    struct bytes sealed; /* the stored record that holds the data. kv2_record_decode sets only its
                          * length, for a version that is KV2_APPENDED; kv2_load sets the bytes */
};

struct kv2_record {
    uint64_t newest; /* number of the last version; 0: there was none */
    int64_t created_ms, updated_ms;
    uint64_t max_versions;     /* 0: not set */
    int64_t delete_after_s;    /* 0: not set */
    uint64_t metadata_version; /* how often its settings were written */
    bool cas_required, metadata_cas_required;
    struct field_map custom;
    struct kv2_version *versions; /* newest - n + 1 … newest */
    size_t n;
};

/* ST_NOMEM. */
NODISCARD enum status kv2_record_encode(const struct kv2_record *record, struct buf *out);
/* Read a record. The record borrows from `stored`, which lies in the arena. `versions` has room for
 * one more version. ST_CORRUPT; ST_NOMEM. */
NODISCARD enum status kv2_record_decode(struct bytes stored, struct arena *arena,
                                        struct kv2_record *ret_record);

/* The version with this number. NULL: the version never existed, or was dropped. */
struct kv2_version *kv2_record_version(const struct kv2_record *record, uint64_t number);
/* Whether the data of a version can be read at `now_ms`. */
bool kv2_version_lives(const struct kv2_version *version, int64_t now_ms);

#endif
