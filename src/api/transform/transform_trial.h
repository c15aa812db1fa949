/* Whether encoded values can be decoded: the pattern must find the encoded parts again. */
#ifndef HOLDFAST_API_TRANSFORM_TRANSFORM_TRIAL_H
#define HOLDFAST_API_TRANSFORM_TRANSFORM_TRIAL_H

#include "api/transform/transform_record.h"
#include "text/regex.h"

/* Whether the groups of `text` together are those of `spans`, so that decoding `text` reads what
 * was encoded. `spans` are as regex_match gives them. ST_NOMEM. */
NODISCARD enum status transform_finds_again(const struct regex *regex, struct bytes text,
                                            const struct regex_span *spans, bool *ret_finds);

/* Warn if a value of a template may not match the pattern again once its groups have other symbols
 * of the alphabet, in encode_format. A trial with a few values: it can miss a case, and encoding
 * warns then. ST_NOMEM; as transform_alphabet_load, but an alphabet that is missing is no error. */
NODISCARD enum status transform_try_template(struct req *req,
                                             const struct transform_template *template,
                                             const struct regex *regex);

#endif
