#include "barrier/mac_memo.h"

#include "base/mem.h"
#include "crypto/siphash.h"

/* A result of the HMAC. Each tag has one slot: a new entry evicts the old one. */
struct slot {
    bool kept;
    struct siphash_tag tag;
    uint8_t mac[BARRIER_MAC_BYTES];
};

struct mac_memo {
    uint8_t key[SIPHASH_KEY_BYTES];
    struct slot slots[MAC_MEMO_SLOTS];
};

enum status mac_memo_new(struct env *env, struct mac_memo **ret_memo)
{
    struct mac_memo *memo = mem_zalloc(sizeof *memo);
    if (memo == NULL)
        return ST_NOMEM;
    env_random(env, memo->key, sizeof memo->key);
    *ret_memo = memo;
    return ST_OK;
}

void mac_memo_free(struct mac_memo *memo)
{
    if (memo == NULL)
        return;
    mem_wipe(memo, sizeof *memo);
    mem_free(memo);
}

static size_t slot_of(struct siphash_tag tag)
{
    return tag.words[0] % MAC_MEMO_SLOTS;
}

bool mac_memo_get(const struct mac_memo *memo, struct bytes message,
                  uint8_t ret_mac[BARRIER_MAC_BYTES])
{
    struct siphash_tag tag = siphash(memo->key, message);
    const struct slot *slot = &memo->slots[slot_of(tag)];
    if (!slot->kept || !siphash_tag_eq(slot->tag, tag))
        return false;
    memcpy(ret_mac, slot->mac, sizeof slot->mac);
    return true;
}

void mac_memo_put(struct mac_memo *memo, struct bytes message, const uint8_t mac[BARRIER_MAC_BYTES])
{
    struct siphash_tag tag = siphash(memo->key, message);
    struct slot *slot = &memo->slots[slot_of(tag)];
    *slot = (struct slot){.kept = true, .tag = tag};
    memcpy(slot->mac, mac, sizeof slot->mac);
}
