/* Shared by the files record*.c. */
#ifndef HOLDFAST_BASE_RECORD_INTERNAL_H
#define HOLDFAST_BASE_RECORD_INTERNAL_H

#include "base/record.h"

/* The formats as numbers, whether the record has a format byte or a protocol. */
static inline uint8_t record_oldest(const struct record *record)
{
    return record->oldest != 0 ? record->oldest : 1;
}

static inline uint8_t record_least(const struct record *record)
{
    return record->least != 0 ? record->least : record_oldest(record);
}

static inline bool record_is_number(enum record_kind kind)
{
    return kind <= RECORD_VARINT || kind == RECORD_FLAG;
}

static inline bool record_is_list(enum record_kind kind)
{
    return kind >= RECORD_LIST8;
}

/* The greatest value, length or number of items of a field. */
uint64_t record_max(const struct record_field *field);
/* The value of a number; the length of a block or text; the number of items of a list. */
uint64_t record_amount(const struct record_field *field, const void *from);
/* The bytes of a text or block. */
struct bytes record_content(const struct record_field *field, const void *from);
/* The item of a list. */
const void *record_item(const struct record_field *field, const void *from, uint64_t i);
/* Whether the value is the one of a record without the field. */
bool record_is_preset(const struct record_field *field, const void *from);
/* The format that the struct is encoded in. */
uint8_t record_format_of(const struct record *record, const void *from);

#endif
