#include "cluster/membership/bootstrap/initial_members.h"

#include "base/record.h"

static const uint8_t no_nonce[INITIAL_NONCE_BYTES];

static bool known(const uint8_t *nonce)
{
    return memcmp(nonce, no_nonce, INITIAL_NONCE_BYTES) != 0;
}

static struct initial_member *find(struct initial_members *f, struct bytes name)
{
    for (unsigned i = 0; i < f->n; i++)
        if (bytes_eq(bytes_str(f->members[i].name), name))
            return &f->members[i];
    return NULL;
}

void initial_members_init(struct initial_members *f, const char *const *names, unsigned n,
                          unsigned self, const uint8_t nonce[INITIAL_NONCE_BYTES])
{
    ASSERT(n <= INITIAL_MEMBERS_MAX && self <= n);
    *f = (struct initial_members){.n = n, .self = self};
    for (unsigned i = 0; i < n; i++) {
        size_t len = strlen(names[i]);
        ASSERT(len > 0 && len < INITIAL_NAME_MAX);
        memcpy(f->members[i].name, names[i], len + 1);
    }
    if (self < n)
        memcpy(f->members[self].nonce, nonce, INITIAL_NONCE_BYTES);
}

static const struct record_field member_fields[] = {
    RECORD_FIELD(struct initial_member, name, TEXT),
    RECORD_FIELD(struct initial_member, nonce, FIXED, .help = "zeros: not known"),
};
static const struct record member_record = {RECORD(struct initial_member, member_fields),
                                            .name = "member/initial"};

static const struct record_field said_fields[] = {
    RECORD_FIELD(struct initial_members, done, U8,
                 .help = "the sender formed the cluster or joined"),
    RECORD_ARRAY("members", struct initial_members, members, n, LIST8, &member_record),
};
static const struct record said_record = {RECORD(struct initial_members, said_fields),
                                          .name = "member/bootstrap",
                                          .where = "A frame FRAME_BOOTSTRAP", .newest = 1};
RECORD_LISTED(said_record);

static const struct record saved_record = {.fields = said_fields + 1,
                                           .n = 1,
                                           .size = sizeof(struct initial_members),
                                           .name = "member/nonces",
                                           .where = "Part of member/step",
                                           .newest = 1,
                                           .crc = true};
RECORD_LISTED(saved_record);

void initial_members_say(const struct initial_members *f, struct buf *out)
{
    record_encode(&said_record, f, out); /* the caller looks at buf_status */
}

enum status initial_members_hear(struct initial_members *f, const char *name, struct bytes said,
                                 bool *ret_asks)
{
    struct initial_member *peer = find(f, bytes_str(name));
    struct initial_members sent = {0};
    ASSERT(f->n <= INITIAL_MEMBERS_MAX);
    ASSERT(f->self <= f->n);
    if (record_decode(&said_record, said, NULL, &sent) != ST_OK)
        return ST_INVALID;
    const struct initial_member *theirs = find(&sent, bytes_str(name));
    const struct initial_member *mine =
        f->self < f->n ? find(&sent, bytes_str(f->members[f->self].name)) : NULL;
    *ret_asks = f->done && !sent.done;
    if (peer == NULL || f->done || peer == &f->members[f->self])
        return ST_OK;
    peer->heard = true;
    peer->formed = sent.done;
    peer->knows_me =
        mine != NULL && memcmp(mine->nonce, f->members[f->self].nonce, INITIAL_NONCE_BYTES) == 0;
    if (theirs != NULL)
        memcpy(peer->nonce, theirs->nonce, INITIAL_NONCE_BYTES);
    return ST_OK;
}

enum initial_verdict initial_members_verdict(const struct initial_members *f)
{
    bool all = f->self < f->n;
    ASSERT(f->n <= INITIAL_MEMBERS_MAX);
    ASSERT(f->self <= f->n);
    if (f->done || !all)
        return INITIAL_JOIN;
    for (unsigned i = 0; i < f->n; i++) {
        const struct initial_member *peer = &f->members[i];
        if (i == f->self)
            continue;
        if (peer->heard && peer->formed && !peer->knows_me)
            return INITIAL_JOIN;
        all = all && peer->heard && known(peer->nonce);
    }
    return all ? INITIAL_FORM : INITIAL_WAIT;
}

void initial_members_save(const struct initial_members *f, struct buf *out)
{
    record_encode(&saved_record, f, out); /* the caller looks at buf_status */
}

enum status initial_members_load(struct initial_members *f, struct bytes saved)
{
    struct initial_members found = {0};
    ASSERT(f->n <= INITIAL_MEMBERS_MAX);
    TRY(record_decode(&saved_record, saved, NULL, &found));
    for (unsigned i = 0; i < found.n; i++) {
        struct initial_member *peer = find(f, bytes_str(found.members[i].name));
        if (peer != NULL)
            memcpy(peer->nonce, found.members[i].nonce, INITIAL_NONCE_BYTES);
    }
    return ST_OK;
}
