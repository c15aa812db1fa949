/* The content of a state: what is read of it, once, off the loops. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_CONTENT_H
#define HOLDFAST_API_PLATFORM_PLATFORM_CONTENT_H

#include "api/platform/platform_object.h"
#include "crypto/digest.h"

enum { PLATFORM_OUTPUTS_MAX = 5000, PLATFORM_OUTPUT_BYTES_MAX = 2 * 1024 * 1024 };

struct platform_content {
    struct bytes raw;
    char md5[2 * CRYPTO_MD5_BYTES + 1];
    int64_t version, resources; /* format of the file; managed resources, without data */
    const char *terraform_version;
    const struct text_value *summary; /* attributes `resources`, `modules`, `providers` */
    struct platform_content_output {
        const char *name;
        const struct text_value *attrs; /* value, type, detailed-type, sensitive */
    } * outputs;
    size_t n_outputs;
};

/* Read the bytes of a state file. All lies in `arena`; `raw` is borrowed. ST_REFUSED with a reason:
 * the bytes are no state file. ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status platform_content_read(struct arena *arena, struct bytes raw,
                                            struct platform_content *ret_content,
                                            struct reason *why);

#endif
