/* Documents of the engine, and the record with a key. */
#ifndef HOLDFAST_API_TRANSFORM_TRANSFORM_RECORD_H
#define HOLDFAST_API_TRANSFORM_TRANSFORM_RECORD_H

#include "api/transform/transform_object.h"
#include "crypto/fpe/fpe.h"

enum {
    TRANSFORM_KEY_BYTES = 32,
    TRANSFORM_PATTERN_MAX = 4096,
    TRANSFORM_VALUE_MAX = 64 * 1024,
};

struct transform_role {
    struct field_strings transformations;
};
extern const struct schema transform_role_schema;

struct transform_alphabet {
    const char *alphabet;
};
extern const struct schema transform_alphabet_schema;

struct transform_template {
    const char *type, *pattern, *alphabet, *encode_format;
    struct field_map decode_formats;
};
extern const struct schema transform_template_schema;

#define TRANSFORM_FPE "fpe"
#define TRANSFORM_MASKING "masking"
#define TRANSFORM_TOKENIZATION "tokenization"
#define TRANSFORM_DEFAULT "default" /* values of mapping_mode */
#define TRANSFORM_EXPORTABLE "exportable"
#define TRANSFORM_INTERNAL "builtin/internal" /* the store in the state */

struct transform_transformation {
    const char *type, *template, *tweak_source, *masking_character, *fpe_algorithm;
    struct field_strings allowed_roles;
    bool deletion_allowed, has_deletion_allowed;
    /* of tokenization */
    const char *mapping_mode;
    struct field_strings stores;
    int64_t max_ttl;
    bool convergent, has_convergent, has_max_ttl;
};
extern const struct schema transform_transformation_schema;
/* Create or change the transformation in the path. `type` NULL: the request says it, or the stored
 * transformation has it. `key` NULL: the server makes the key of a new one. */
NODISCARD enum status transform_write(struct req *req, const char *type,
                                      const struct transform_transformation *in,
                                      const uint8_t *key);
/* Check `allowed_roles`. ST_INVALID with the request's error. */
NODISCARD enum status transform_check_roles(struct req *req, const struct field_strings *roles);

/* The key and the internal tweak of a transformation, for all its life. */
struct transform_secret {
    uint8_t key[TRANSFORM_KEY_BYTES], tweak[FPE_TWEAK_BYTES];
};
NODISCARD enum status transform_secret_load(struct req *req, const char *name,
                                            struct transform_secret *ret_secret);

/* Load an object, or give a built-in one. As transform_load. */
NODISCARD enum status transform_alphabet_load(struct req *req, const char *name,
                                              struct transform_alphabet *ret_alphabet);
NODISCARD enum status transform_template_load(struct req *req, const char *name,
                                              struct transform_template *ret_template);

#endif
