#include "front/relay.h"

#include "text/value.h"

#include <stdio.h>

void relay_id_put(const struct rlog_request_id *id, char ret_text[RELAY_ID_TEXT])
{
    for (size_t i = 0; i < sizeof id->bytes; i++)
        (void)snprintf(ret_text + 2 * i, 3, "%02x", id->bytes[i]); /* two digits and a zero fit */
    (void)snprintf(ret_text + 32, RELAY_ID_TEXT - 32, "-%llu",
                   (unsigned long long)id->issued); /* a number of 20 digits fits */
}

enum status relay_id_parse(struct bytes text, struct rlog_request_id *ret_id)
{
    struct rlog_request_id id = {0};
    int64_t issued;
    if (text.len < 34 || text.data[32] != '-')
        return ST_INVALID;
    for (size_t i = 0; i < sizeof id.bytes; i++) {
        unsigned high = text_hex_digit(text.data[2 * i]),
                 low = text_hex_digit(text.data[2 * i + 1]);
        if (high > 15 || low > 15)
            return ST_INVALID;
        id.bytes[i] = (uint8_t)(high << 4 | low);
    }
    TRY(text_int_parse(bytes_from(text, 33), &issued));
    if (issued < 0)
        return ST_INVALID;
    id.issued = (uint64_t)issued;
    *ret_id = id;
    return ST_OK;
}

static const struct {
    const char *word;
    enum reply_kind kind;
} answers[] = {{"data", REPLY_DATA}, {"bare", REPLY_BARE}, {"raw ", REPLY_RAW}};

const char *relay_answer_text(struct arena *arena, const struct reply_answer *answer)
{
    size_t i = 0;
    while (i < ARRAY_LEN(answers) && answers[i].kind != answer->kind)
        i++;
    ASSERT(i < ARRAY_LEN(answers));
    ASSERT((answer->kind == REPLY_RAW) == (answer->type != NULL));
    return arena_format(arena, "%s%s", answers[i].word,
                        answer->kind == REPLY_RAW ? answer->type : "");
}

enum status relay_answer_parse(struct arena *arena, struct bytes text,
                               struct reply_answer *ret_answer)
{
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        struct bytes word = bytes_str(answers[i].word);
        bool raw = answers[i].kind == REPLY_RAW;
        if (!bytes_has_prefix(text, word) || (text.len > word.len) != raw)
            continue;
        ret_answer->kind = answers[i].kind;
        ret_answer->type = raw ? arena_str(arena, bytes_from(text, word.len)) : NULL;
        return raw && ret_answer->type == NULL ? ST_NOMEM : ST_OK;
    }
    return ST_INVALID;
}

enum status relay_retry_parse(struct bytes text, enum status *ret_retry)
{
    static const enum status known[] = {ST_NOT_LEADER, ST_UNKNOWN_OUTCOME};
    if (text.len == 0) {
        *ret_retry = ST_OK;
        return ST_OK;
    }
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (text_is(text, status_name(known[i]))) {
            *ret_retry = known[i];
            return ST_OK;
        }
    return ST_INVALID;
}
