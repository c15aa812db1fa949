/* Variables of a run: a file for the tool, and its environment. */
#ifndef HOLDFAST_WORKER_VARS_H
#define HOLDFAST_WORKER_VARS_H

#include "base/arena.h"
#include "base/buf.h"
#include "text/value.h"

enum { WORKER_VARIABLES_MAX = 2000 };

/* Whether `value` is one expression as far as brackets, strings, here documents and line ends tell:
 * nothing in it ends the expression and begins something else. ST_INVALID with the reason, which
 * does not repeat the value. */
NODISCARD enum status worker_hcl_check(struct bytes value, struct reason *why);

/* Append `"text"`, which HCL 2 reads as exactly this text. ST_INVALID: it holds U+0000. */
NODISCARD enum status worker_hcl_quote(struct bytes text, struct buf *out);

/* Append a file of the variables of the category "terraform": the members of `variables`, a list of
 * {key, value, category, hcl}. If a key occurs twice, the later one counts. ST_INVALID: a key is no
 * name or a value is malformed, with the key in the reason; ST_TOO_BIG, ST_NOMEM. */
NODISCARD enum status worker_variables_file(const struct text_value *variables, struct buf *out,
                                            struct reason *why);

/* Variables of the environment in the making. */
struct worker_env {
    struct arena *arena;
    char **items; /* "NAME=value", ended by NULL; in the arena */
    size_t n, max;
};

/* ST_NOMEM. */
NODISCARD enum status worker_env_init(struct worker_env *env, struct arena *arena);
/* Add or replace. ST_TOO_BIG: more than WORKER_VARIABLES_MAX; ST_NOMEM. */
NODISCARD enum status worker_env_set(struct worker_env *env, const char *name, const char *value);
/* Add the variables of the category "env". Those that decide what the worker itself relies on
 * (TF_CLI_CONFIG_FILE, TF_DATA_DIR, TF_INPUT, TF_IN_AUTOMATION, TF_WORKSPACE, CHECKPOINT_DISABLE)
 * are passed over. ST_INVALID: a key is no name, or a value holds U+0000. */
NODISCARD enum status worker_env_variables(struct worker_env *env,
                                           const struct text_value *variables, struct reason *why);

#endif
