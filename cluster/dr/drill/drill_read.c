#include "cluster/dr/drill/drill_read.h"

#include "auth/policy.h"
#include "auth/token_record.h"
#include "base/mem.h"
#include "mount/mount.h"
#include "state/state_core.h"

#include <stdio.h>

/* Values that no ring encrypts: records of the barrier, which were opened before, and the mark of a
 * restore. */
static bool is_raw(const struct store_item *item)
{
    return item->value.len == 0 || bytes_eq(item->key, BYTES(BARRIER_SEAL)) ||
           bytes_eq(item->key, BYTES(BARRIER_KEYRING)) ||
           bytes_eq(item->key, BYTES(STATE_RESTORED)) ||
           bytes_has_prefix(item->key, BYTES(BARRIER_LINKS));
}

static void print_key(struct bytes key, char to[DR_DRILL_KEY_MAX])
{
    enum { WIDEST = 4 };
    size_t n = 0;
    for (size_t i = 0; i < key.len && n + WIDEST < DR_DRILL_KEY_MAX; i++) {
        uint8_t c = key.data[i];
        if (c >= ' ' && c <= '~' && c != '\\')
            to[n++] = (char)c;
        else
            n += (size_t)snprintf(to + n, DR_DRILL_KEY_MAX - n, "\\x%02x", c);
    }
    ASSERT(n < DR_DRILL_KEY_MAX);
    to[n] = '\0';
}

void drill_name(struct dr_drill *drill, struct bytes key, const char *problem)
{
    char text[DR_DRILL_KEY_MAX];
    if (drill->n_damage == DR_DRILL_NAMED)
        return;
    print_key(key, text);
    for (unsigned i = 0; i < drill->n_damage; i++)
        if (strcmp(drill->damage[i].key, text) == 0)
            return;
    struct dr_drill_damage *to = &drill->damage[drill->n_damage++];
    memcpy(to->key, text, sizeof text);
    to->problem = problem;
}

/* The kind of a key "s/ns/ID/KIND/REST"; *ret_rest is REST. Empty: another key. */
static struct bytes kind_of(struct bytes key, struct bytes *ret_rest)
{
    const struct bytes head = BYTES("s/ns/"), none = {0};
    if (!bytes_has_prefix(key, head))
        return none;
    struct bytes rest = bytes_from(key, head.len);
    const uint8_t *slash = memchr(rest.data, '/', rest.len);
    if (slash == NULL)
        return none;
    rest = bytes_from(rest, (size_t)(slash - rest.data) + 1);
    slash = rest.len != 0 ? memchr(rest.data, '/', rest.len) : NULL;
    if (slash == NULL)
        return none;
    size_t len = (size_t)(slash - rest.data);
    *ret_rest = bytes_from(rest, len + 1);
    return bytes_of(rest.data, len);
}

static enum status read_policy(struct arena *arena, struct bytes plain)
{
    struct policy_record record;
    struct policy *policy = NULL;
    TRY(policy_decode(arena, plain, &record));
    enum status st = policy_compile(record.text, &policy, NULL);
    policy_free(policy);
    return st == ST_OK || st == ST_NOMEM ? st : ST_CORRUPT;
}

/* Decode the records without which a promoted cluster serves no client. */
static enum status read_record(struct drill_reader *r, struct bytes key, struct bytes plain)
{
    struct bytes rest = {0}, kind = kind_of(key, &rest);
    if (bytes_eq(kind, BYTES("mount"))) {
        const struct mount_place place = {.key = key, .path = rest};
        struct mount mount;
        r->out->mounts++;
        return mount_decode(&r->arena, &place, plain, &mount);
    }
    if (bytes_eq(kind, BYTES("policy"))) {
        r->out->policies++;
        return read_policy(&r->arena, plain);
    }
    if (bytes_eq(kind, BYTES("token"))) {
        struct auth_token token;
        r->out->tokens++;
        return token_record_read(plain, &r->arena, &token);
    }
    return ST_OK;
}

static enum status decrypt(struct drill_reader *r, const struct store_item *item, size_t *ret_len)
{
    struct store_retain_parts parts;
    TRY(store_retain_split(item->value, &parts));
    buf_clear(&r->plain);
    uint8_t *room = buf_extend(&r->plain, parts.head.len + 1);
    if (room == NULL)
        return ST_NOMEM;
    enum status st = barrier_decrypt(r->cipher, item->key, parts.head, room, ret_len);
    return st == ST_NOT_FOUND ? ST_CORRUPT : st; /* the copy's ring has every term of the copy */
}

enum status drill_read(struct drill_reader *r, const struct store_item *item)
{
    struct dr_drill *out = r->out;
    size_t len = 0;
    out->keys++;
    if (is_raw(item))
        return ST_OK;
    enum status st = decrypt(r, item, &len);
    const char *problem = "the value does not decrypt";
    if (st == ST_OK) {
        out->decrypted++;
        out->bytes += len;
        st = read_record(r, item->key, bytes_of(r->plain.data, len));
        problem = "the record is malformed";
        arena_clear(&r->arena);
    }
    if (st != ST_CORRUPT)
        return st;
    out->unreadable++;
    drill_name(out, item->key, problem);
    return ST_OK;
}

void drill_reader_done(struct drill_reader *r)
{
    if (r->plain.data != NULL)
        mem_wipe(r->plain.data, r->plain.cap);
    buf_done(&r->plain);
    arena_done(&r->arena);
}
