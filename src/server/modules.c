/* The modules of this server. The order of the list is the order in which initialisation makes
 * their mounts and duties run. */
#include "api/cubbyhole/cubbyhole.h"
#include "api/kv/kv.h"
#include "api/registry/registry.h"
#include "api/sys/sys.h"
#include "api/token/token.h"
#include "server/server.h"

#ifdef HOLDFAST_MORE_MODULE /* a build for tests adds one module here (CMakeLists.txt) */
extern const struct module HOLDFAST_MORE_MODULE;
#endif

static const struct module *const modules[] = {
    &token_module,         &cubbyhole_module, &sys_module, &kv_module, &registry_module,
#ifdef HOLDFAST_MORE_MODULE
    &HOLDFAST_MORE_MODULE,
#endif
};

const struct module_list server_modules = {modules, ARRAY_LEN(modules)};

const struct config_blocks *modules_blocks(void)
{
    static struct config_blocks blocks;
    if (blocks.n != 0)
        return &blocks;
    for (size_t i = 0; i < server_modules.n; i++) {
        if (server_modules.items[i]->config == NULL)
            continue;
        ASSERT(blocks.n < CONFIG_BLOCKS_MAX && server_modules.items[i]->configure != NULL);
        blocks.items[blocks.n++] = server_modules.items[i]->config;
    }
    return &blocks;
}

void modules_configure(const struct config *config)
{
    size_t n = 0;
    for (size_t i = 0; i < server_modules.n; i++)
        if (server_modules.items[i]->config != NULL)
            server_modules.items[i]->configure(config->block_data[n++]);
    ASSERT(n == 0 || (config->blocks != NULL && n == config->blocks->n));
}

void modules_metrics(struct metric_out *out)
{
    for (size_t i = 0; i < server_modules.n; i++)
        if (server_modules.items[i]->metrics != NULL)
            server_modules.items[i]->metrics(out);
}
