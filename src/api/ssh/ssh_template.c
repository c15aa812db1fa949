/* Templates of roles: "{{identity.entity.name}}" and the like. */
#include "api/ssh/ssh.h"

enum status ssh_template_fill(struct req *req, const char *text, const char **ret_text,
                              bool *ret_filled)
{
    struct bytes filled;
    ASSERT(req->token != NULL);
    *ret_text = text;
    *ret_filled = strstr(text, "{{") == NULL;
    if (*ret_filled || req->identity == NULL)
        return ST_OK;
    enum status st = identity_fill(req->identity, req->arena, bytes_str(text), &filled);
    *ret_filled = st == ST_OK;
    if (st == ST_OK)
        *ret_text = (const char *)filled.data;
    return st == ST_NOT_FOUND ? ST_OK : st;
}

bool ssh_template_is_sound(const char *text)
{
    for (const char *at = text; (at = strstr(at, "{{")) != NULL;) {
        const char *end = strstr(at + 2, "}}");
        if (end == NULL)
            return false;
        at += 2;
        at += strspn(at, " ");
        size_t len = (size_t)(end - at);
        while (len > 0 && at[len - 1] == ' ')
            len--;
        if (len == 0 || memmem(at, len, "{{", 2) != NULL ||
            strncmp(at, "identity.", strlen("identity.")) != 0)
            return false;
        for (size_t i = 0; i < len; i++)
            if ((uint8_t)at[i] <= ' ' || at[i] == '{' || at[i] == '}' || at[i] == ',')
                return false;
        at = end + 2;
    }
    return true;
}
