/* Tables of fields. A table says how a tree (value.h) is decoded into a C struct, how a struct is
 * written as JSON, and what each field means. Decoding converts between strings, numbers and
 * booleans. Members of a reply stand in the order of its table.
 *
 *   struct sign { const char *key; int64_t ttl; };
 *   static const struct field sign_fields[] = {
 *       FIELD(struct sign, key, STRING, .required = true, .help = "Key to sign."),
 *       FIELD(struct sign, ttl, DURATION, .preset = "30s", .help = "Validity."),
 *   };
 *   const struct schema sign_schema = SCHEMA(struct sign, sign_fields);
 *
 * A member whose C type does not fit its kind does not compile.
 *
 * A reply may hold lists and maps of other structs:
 *
 *   struct peer { const char *name; bool leader; };        {"peers":{"a":{"leader":true}}}
 *   struct peers { struct field_list peers; };
 *   static const struct field peer_fields[] = {FIELD(struct peer, leader, BOOL)};
 *   static const struct schema peer_schema = SCHEMA_NAMED(struct peer, name, peer_fields);
 *   static const struct field peers_fields[] = {
 *       FIELD(struct peers, peers, TABLE, .sub = &peer_schema)};
 */
#ifndef HOLDFAST_TEXT_SCHEMA_H
#define HOLDFAST_TEXT_SCHEMA_H

#include "text/json.h"

/* A list of strings in the arena. `given` is false when the list is absent, true when it is empty.
 */
struct field_strings {
    const char *const *items;
    size_t n;
    bool given;
};

/* Pairs of strings: `n` different names, each followed by its value. */
struct field_map {
    const char *const *pairs;
    size_t n;
    bool given;
};

/* An array of `n` structs of one schema. */
struct field_list {
    const void *items;
    size_t n;
};

/* The kind of a field, and the C type of its member. Decoding accepts a string in place of a number
 * or a boolean, and the reverse, if the content allows. null counts as absent. So does an empty
 * string in place of a boolean, number, duration or size: clients in Go send one for a field that
 * is not given. */
enum field_kind {
    FIELD_STRING,   /* const char *, NULL when absent; never holds a zero character */
    FIELD_BOOL,     /* bool */
    FIELD_INT,      /* int64_t */
    FIELD_DURATION, /* int64_t whole seconds: number, "90", "1h30m", "2d"; never negative */
    FIELD_SIZE,     /* uint64_t bytes: number, "64MiB" */
    FIELD_STRINGS,  /* struct field_strings: list, or "a,b" */
    FIELD_MAP,      /* struct field_map: object, or list of "k=v" whose last of a name counts */
    FIELD_VALUE,    /* const struct text_value *, NULL when absent */
    /* The kinds from here on are for replies: they are encoded, never decoded. */
    FIELD_OBJECT, /* const void *: a struct of `sub`; NULL is written as null */
    FIELD_UINT,   /* uint64_t */
    FIELD_BYTES,  /* struct bytes: a string */
    FIELD_TIME,   /* int64_t ms: a string, see text_time */
    FIELD_DIGITS, /* const char *: a number as JSON writes it */
    FIELD_JSON,   /* struct bytes: an object as JSON text, written without a check */
    FIELD_TREE,   /* const struct text_value *: an object; NULL is written as null */
    FIELD_LIST,   /* struct field_list: structs of `sub`; without `sub` an empty list of objects */
    /* struct field_list: an object with one member for each struct of `sub`. The struct contains
     * the member's name, see SCHEMA_NAMED. */
    FIELD_TABLE,
    FIELD_OTHERS, /* FIELD_TABLE whose members stand in the parent object; the field has no name */
};
#define FIELD_C_STRING const char *
#define FIELD_C_BOOL bool
#define FIELD_C_INT int64_t
#define FIELD_C_DURATION int64_t
#define FIELD_C_SIZE uint64_t
#define FIELD_C_STRINGS struct field_strings
#define FIELD_C_MAP struct field_map
#define FIELD_C_VALUE const struct text_value *
#define FIELD_C_OBJECT const void *
#define FIELD_C_UINT uint64_t
#define FIELD_C_BYTES struct bytes
#define FIELD_C_TIME int64_t
#define FIELD_C_DIGITS const char *
#define FIELD_C_JSON struct bytes
#define FIELD_C_TREE const struct text_value *
#define FIELD_C_LIST struct field_list
#define FIELD_C_TABLE struct field_list
#define FIELD_C_OTHERS struct field_list

struct schema;

struct field {
    const char *name;
    struct bytes key; /* the name as a JSON key: "\"name\":" */
    enum field_kind kind;
    size_t offset;
    size_t has; /* offset of a bool that says whether the field was given; 0: no such bool */
    const char *preset; /* the value of an absent field, written as a string */
    const char *help;
    const struct schema *sub;
    bool required;
    /* Refuse a boolean in place of a number, a duration or a string that holds one, and an empty
     * string in place of a number or a duration: for a field whose absence removes a limit or a
     * check. */
    bool exact;
    bool blank; /* encoding: a time of 0 is written as "" */
    /* Encoding: leave out a member that is empty, 0 or false. A field with `has` is left out when
     * the bool is false. */
    bool omit;
    /* Encoding: write null for a NULL string, an empty map, a list not given, or a time of 0. */
    bool null;
    bool hidden;   /* a secret: help and logs never show the value */
    bool reloaded; /* in a configuration: a reload applies a new value */
};

struct schema {
    const struct field *fields;
    size_t n, size; /* number of fields; bytes of the struct */
    bool fold_case; /* member names are compared without regard to case */
    /* A value must have the JSON type of its field, as clients and servers in Go decode: no 5 or
     * true for a string, no 1 or "true" for a boolean, no "a,b" for a list. null counts as absent.
     */
    bool typed;
    /* For structs of a FIELD_TABLE: `name` is the offset of the struct's name, a const char *. If
     * the only field has the name "", a struct is written as the value of that field, not as an
     * object. */
    bool named;
    size_t name;
    const void **blank; /* cache of the struct that an empty object decodes to; NULL: no cache */
};

/* Multiplying by zero only lets _Generic refuse a wrong type. */
#define FIELD_NAMED(text, type, member, kind_, ...)                                  \
    {                                                                                \
        .name = (text), .key = {(const uint8_t *)"\"" text "\":", sizeof(text) + 2}, \
        .kind = FIELD_##kind_,                                                       \
        .offset = offsetof(type, member) +                                           \
                  0 * (size_t) _Generic(((type *)0)->member, FIELD_C_##kind_ : 1),   \
        __VA_ARGS__                                                                  \
    }
#define FIELD(type, member, kind_, ...) FIELD_NAMED(#member, type, member, kind_, __VA_ARGS__)
#define SCHEMA(type, table)                                                             \
    {                                                                                   \
        .fields = (table), .n = sizeof(table) / sizeof(table)[0], .size = sizeof(type), \
        .blank = &(const void *){NULL},                                                 \
    }

#define SCHEMA_NAMED(type, member, table)                                               \
    {                                                                                   \
        .fields = (table), .n = sizeof(table) / sizeof(table)[0], .size = sizeof(type), \
        .named = true,                                                                  \
        .name = offsetof(type, member) +                                                \
                0 * (size_t) _Generic(((type *)0)->member, FIELD_C_STRING : 1),         \
    }
/* A schema whose only field is a FIELD_ITSELF, for a reply that is no object: a string or a list.
 */
#define SCHEMA_ITSELF(type, table)                                                      \
    {                                                                                   \
        .fields = (table), .n = sizeof(table) / sizeof(table)[0], .size = sizeof(type), \
        .named = true                                                                   \
    }
/* The only field of a struct that is written as the value of this field, see `named`. */
#define FIELD_ITSELF(type, member, kind_, ...) FIELD_NAMED("", type, member, kind_, __VA_ARGS__)

/* A field that could not be decoded, the line of its value, and why. */
struct schema_fault {
    char field[64];
    uint32_t line;
    struct reason why;
};

/* Fill *ret_struct (schema->size bytes, written even on failure) from `object`; NULL: an empty
 * object. Strings borrow from the tree or the arena. Members that the table does not have are
 * ignored, see schema_unknown. ST_INVALID with the fault; ST_NOMEM. */
NODISCARD enum status schema_decode(const struct schema *schema, const struct text_value *object,
                                    struct arena *arena, void *ret_struct,
                                    struct schema_fault *ret_fault);

/* The first member after `after` (NULL: from the start) whose name no field has; NULL: none. */
const struct text_value *schema_unknown(const struct schema *schema,
                                        const struct text_value *object,
                                        const struct text_value *after);

/* The field with the name; NULL: there is none. */
const struct field *schema_field(const struct schema *schema, struct bytes name);

/* Whether a struct is written as the value of its only field, see FIELD_ITSELF. */
bool schema_is_value(const struct schema *schema);

/* Write the struct as an object, its members in the order of the table. */
void schema_encode(const struct schema *schema, const void *from, struct text_writer *w);

/* Whether a field has the same value in two structs, or was given in neither. Not for FIELD_VALUE,
 * kinds of replies and secrets. */
bool field_same(const struct field *field, const void *one, const void *other);

/* The JSON type an OpenAPI document gives for a kind: "string", "integer" … */
const char *field_kind_json(enum field_kind kind);

/* Read a boolean as FIELD_BOOL does: a boolean, a number or a string. ST_INVALID. */
NODISCARD enum status text_to_bool(const struct text_value *v, bool *ret_truth);
/* Read a boolean as Go's strconv.ParseBool does: 1 t T TRUE true True, 0 f F FALSE false False.
 * ST_INVALID. */
NODISCARD enum status text_bool_parse(struct bytes text, bool *ret_truth);

#endif
