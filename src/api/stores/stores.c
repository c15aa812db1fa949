#include "api/stores/stores.h"

#include "out/sql/sql.h"
#include "text/config_block.h"

struct block {
    bool allow_sockets;
    struct field_strings file_directories;
};
static const struct field block_fields[] = {
    FIELD(struct block, allow_sockets, BOOL,
          .help = "Let connection strings of token stores name Unix sockets of this machine."),
    FIELD(struct block, file_directories, STRINGS,
          .help = "Absolute folders. Files in connection strings of token stores, as sslcert, must "
                  "lie below one."),
};
static const struct schema stores_block_schema = SCHEMA(struct block, block_fields);

static const char *check_stores_block(const void *fields)
{
    const struct block *block = fields;
    for (size_t i = 0; i < block->file_directories.n; i++) {
        const char *path = block->file_directories.items[i];
        if (path[0] != '/' || strstr(path, "..") != NULL)
            return "file_directories: absolute paths without \"..\" are expected";
    }
    return NULL;
}

static struct out_sql_policy policy; /* set before threads start */

static void configure(const void *fields)
{
    const struct block *block = fields;
    policy = (struct out_sql_policy){.allow_sockets = block->allow_sockets,
                                     .directories = block->file_directories.items,
                                     .n_directories = block->file_directories.n};
    out_sql_set_policy(&policy);
}

static const struct config_block config_block = {"stores", &stores_block_schema,
                                                 check_stores_block};

const struct module stores_module = {
    .name = "stores", .config = &config_block, .configure = configure, .metrics = out_sql_metrics};
