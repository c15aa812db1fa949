/* Reading a connection string never fails badly. Its first byte chooses the driver. No user name or
 * password changes the server that a string means, and nothing opens a socket or a file. */
#include "out/sql/sql_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum status parse(struct arena *arena, enum out_sql_driver driver, const char *text,
                         const char *user, const char *password, struct sql_name *ret)
{
    struct reason why = {""};
    const struct out_sql_target target = {
        .driver = driver, .text = text, .username = user, .password = password, .tls_ca = ""};
    enum status st = sql_name_parse(&target, arena, ret, &why);
    ASSERT(st == ST_OK || (st == ST_INVALID && why.text[0] != '\0'));
    ASSERT(strstr(why.text, password) == NULL || strstr(text, password) != NULL);
    return st;
}

static bool equal(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char hostile[] = "@:/?&#%41 '\\{{password}}=host";
    CLEANUP(arena_done) struct arena arena = {0};
    struct sql_name plain, odd;
    if (size == 0)
        return 0;
    enum out_sql_driver driver = (data[0] & 1) != 0 ? OUT_SQL_MYSQL : OUT_SQL_POSTGRES;
    const char *text = arena_str(&arena, bytes_of(data + 1, size - 1));
    ASSERT(text != NULL);
    enum status st = parse(&arena, driver, text, "user", "a password of mine", &plain);
    ASSERT(parse(&arena, driver, text, hostile, hostile, &odd) == st);
    if (st != ST_OK)
        return 0;
    ASSERT(plain.host[0] != '\0' && !plain.is_socket && plain.port != 0);
    ASSERT(plain.root_file == NULL && plain.cert_file == NULL && plain.key_file == NULL);
    ASSERT(equal(plain.host, odd.host) && plain.port == odd.port && plain.tls == odd.tls);
    ASSERT(equal(plain.options, odd.options) && equal(odd.password, hostile));
    return 0;
}
