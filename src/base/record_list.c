/* The list of the program's records: the linker gathers what RECORD_LISTED puts into a section. */
#include "base/record.h"

/* Of the linker; NULL where a program links no record. */
extern const struct record *const __start_holdfast_records[] __attribute__((weak));
extern const struct record *const __stop_holdfast_records[] __attribute__((weak));

const struct record *record_at(size_t i)
{
    size_t n = (size_t)(__stop_holdfast_records - __start_holdfast_records);
    return i < n ? __start_holdfast_records[i] : NULL;
}

const struct record *record_of_name(struct bytes name)
{
    const struct record *record;
    for (size_t i = 0; (record = record_at(i)) != NULL; i++)
        if (bytes_eq(bytes_str(record->name), name))
            return record;
    return NULL;
}

/* Whether the pattern of a record covers a key: '*' is a segment, '/' at the end is any end. */
static bool covers(const char *pattern, struct bytes key)
{
    size_t at = 0;
    ASSERT(*pattern != '\0');
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '*') {
            size_t start = at;
            while (at < key.len && key.data[at] != '/')
                at++;
            if (at == start)
                return false;
        } else if (at == key.len || key.data[at++] != (uint8_t)*pattern) {
            return false;
        }
    }
    return at == key.len || (at != 0 && pattern[-1] == '/');
}

const struct record *record_of_key(struct bytes key)
{
    const struct record *record, *best = NULL;
    for (size_t i = 0; (record = record_at(i)) != NULL; i++)
        if (record->key != NULL && covers(record->key, key) &&
            (best == NULL || strlen(record->key) > strlen(best->key)))
            best = record;
    return best;
}
