/* Configurations in the form that libraft stores in a CHANGE entry:
 *
 *   u8 1 · u64 members · { u64 id · text · 0 · u8 role } · zeroes up to a multiple of 8
 *
 * text: the id as 16 hex digits, the name and the address, separated by single spaces. The id is
 * repeated because libraft wants every text to differ, and a node that rejoins keeps its name and
 * address under a new id. libraft's own decoder reads past the end of a short buffer, so libraft
 * gets only bytes that passed the decoder in this file. */
#include "base/buf.h"
#include "raft/core/rlog_core.h"

#include <stdio.h>

enum {
    CONF_FORMAT = 1,
    CONF_TEXT_MAX = 16 + 1 + 63 + 1 + 127,
};

static int role_to_raft(enum rlog_role role)
{
    switch (role) {
    case RLOG_SPARE: return RAFT_SPARE;
    case RLOG_STANDBY: return RAFT_STANDBY;
    case RLOG_VOTER: return RAFT_VOTER;
    }
    return -1;
}

static bool role_from_raft(uint8_t role, enum rlog_role *ret_role)
{
    if (role != RAFT_SPARE && role != RAFT_STANDBY && role != RAFT_VOTER)
        return false;
    *ret_role = role == RAFT_SPARE ? RLOG_SPARE : role == RAFT_VOTER ? RLOG_VOTER : RLOG_STANDBY;
    return true;
}

/* Whether a word is printable, has no space, and ends within `size`. */
static bool word_valid(const char *word, size_t size)
{
    size_t len = strnlen(word, size);
    if (len == 0 || len == size)
        return false;
    for (size_t i = 0; i < len; i++)
        if (word[i] <= ' ' || word[i] > '~')
            return false;
    return true;
}

static bool conf_valid(const struct rlog_conf *conf)
{
    if (conf->n == 0 || conf->n > RLOG_MEMBERS_MAX || rlog_conf_voters(conf) == 0)
        return false;
    for (unsigned i = 0; i < conf->n; i++) {
        const struct rlog_member *m = &conf->members[i];
        if (m->id == 0 || role_to_raft(m->role) < 0 || rlog_conf_find(conf, m->id) != m)
            return false;
        if (!word_valid(m->name, sizeof m->name) || !word_valid(m->address, sizeof m->address))
            return false;
    }
    return true;
}

static bool text_parse(struct bytes text, struct rlog_member *m)
{
    char copy[CONF_TEXT_MAX + 1], id[17];
    if (text.len > CONF_TEXT_MAX || text.len < 16 + 4)
        return false;
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    /* sixteen digits always fit */
    (void)snprintf(id, sizeof id, "%016llx", (unsigned long long)m->id);
    if (memcmp(copy, id, 16) != 0 || copy[16] != ' ')
        return false;
    char *name = copy + 17, *space = strchr(name, ' ');
    if (space == NULL)
        return false;
    *space = '\0';
    if (!word_valid(name, sizeof m->name) || !word_valid(space + 1, sizeof m->address))
        return false;
    memset(m->name, 0, sizeof m->name);
    memset(m->address, 0, sizeof m->address);
    memcpy(m->name, name, strlen(name));
    memcpy(m->address, space + 1, strlen(space + 1));
    return true;
}

static bool member_read(struct reader *r, struct rlog_member *m)
{
    m->id = reader_u64(r);
    const uint8_t *end = r->failed ? NULL : memchr(r->at, 0, reader_left(r));
    if (end == NULL)
        return false;
    struct bytes text = reader_take(r, (size_t)(end - r->at));
    (void)reader_u8(r); /* skip the terminator that was just found */
    uint8_t role = reader_u8(r);
    return !r->failed && text_parse(text, m) && role_from_raft(role, &m->role);
}

enum status rlog_conf_decode(struct bytes encoded, struct rlog_conf *ret_conf)
{
    struct reader r = reader_of(encoded);
    struct rlog_conf conf = {0};

    if (encoded.len == 0 || encoded.len > RLOG_CONF_MAX || encoded.len % 8 != 0)
        return ST_INVALID;
    if (reader_u8(&r) != CONF_FORMAT)
        return ST_INVALID;
    uint64_t n = reader_u64(&r);
    if (r.failed || n == 0 || n > RLOG_MEMBERS_MAX)
        return ST_INVALID;
    for (; conf.n < n; conf.n++)
        if (!member_read(&r, &conf.members[conf.n]))
            return ST_INVALID;
    if (reader_left(&r) >= 8)
        return ST_INVALID;
    while (reader_left(&r) > 0)
        if (reader_u8(&r) != 0)
            return ST_INVALID;
    if (!conf_valid(&conf))
        return ST_INVALID;
    *ret_conf = conf;
    return ST_OK;
}

static size_t member_write(const struct rlog_member *m, uint8_t *at)
{
    char text[CONF_TEXT_MAX + 1];
    int len = snprintf(text, sizeof text, "%016llx %s %s", (unsigned long long)m->id, m->name,
                       m->address);
    ASSERT(len > 0 && (size_t)len < sizeof text);
    le64_put(at, m->id);
    memcpy(at + 8, text, (size_t)len + 1);
    at[8 + len + 1] = (uint8_t)role_to_raft(m->role);
    return 8 + (size_t)len + 2;
}

enum status rlog_conf_encode(const struct rlog_conf *conf, struct rlog_conf_bytes *ret)
{
    uint8_t out[RLOG_CONF_MAX + 8 + CONF_TEXT_MAX + 2] = {0};
    size_t len = 9;

    if (!conf_valid(conf))
        return ST_INVALID;
    out[0] = CONF_FORMAT;
    le64_put(out + 1, conf->n);
    for (unsigned i = 0; i < conf->n; i++) {
        len += member_write(&conf->members[i], out + len);
        if (len > RLOG_CONF_MAX)
            return ST_TOO_BIG;
    }
    len = (len + 7) / 8 * 8;
    ASSERT(len <= RLOG_CONF_MAX);
    ret->len = (uint32_t)len;
    memcpy(ret->bytes, out, len);
    return ST_OK;
}

const struct rlog_member *rlog_conf_find(const struct rlog_conf *conf, uint64_t id)
{
    for (unsigned i = 0; i < conf->n; i++)
        if (conf->members[i].id == id)
            return &conf->members[i];
    return NULL;
}

unsigned rlog_conf_voters(const struct rlog_conf *conf)
{
    unsigned voters = 0;
    for (unsigned i = 0; i < conf->n; i++)
        voters += conf->members[i].role == RLOG_VOTER;
    return voters;
}

bool rlog_conf_sole_voter(const struct rlog_conf *conf, uint64_t id)
{
    const struct rlog_member *self = rlog_conf_find(conf, id);
    return self != NULL && self->role == RLOG_VOTER && rlog_conf_voters(conf) == 1;
}
