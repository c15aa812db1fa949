/* The modules of this server. The order of the list is the order in which initialisation makes
 * their mounts and duties run. */
#include "api/absent/absent.h"
#include "api/approle/approle.h"
#include "api/auditing/auditing.h"
#include "api/cubbyhole/cubbyhole.h"
#include "api/describe/describe.h"
#include "api/identity/identity.h"
#include "api/kv/kv.h"
#include "api/leases/leases.h"
#include "api/members/members.h"
#include "api/mounts/mounts.h"
#include "api/nodes/nodes.h"
#include "api/outgoing/outgoing.h"
#include "api/platform/platform.h"
#include "api/policies/policies.h"
#include "api/registry/registry.h"
#include "api/replication/replication.h"
#include "api/scheduler/scheduler.h"
#include "api/seal/seal.h"
#include "api/settings/settings.h"
#include "api/ssh/ssh.h"
#include "api/stores/stores.h"
#include "api/token/token.h"
#include "api/tools/tools.h"
#include "api/transform/transform.h"
#include "api/userpass/userpass.h"
#include "server/server.h"

#ifdef HOLDFAST_MORE_MODULE /* a build for tests adds one module here (CMakeLists.txt) */
extern const struct module HOLDFAST_MORE_MODULE;
#endif

static const struct module *const modules[] = {
    &token_module,         &cubbyhole_module, &mounts_module,   &seal_module,
    &members_module,       &policies_module,  &leases_module,   &auditing_module,
    &replication_module,   &nodes_module,     &settings_module, &tools_module,
    &describe_module,      &absent_module,    &kv_module,       &registry_module,
    &transform_module,     &ssh_module,       &identity_module, &userpass_module,
    &approle_module,       &outgoing_module,  &platform_module, &scheduler_module,
    &stores_module,
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
    ssh_settings_in(&(struct ssh_settings){.sign_requires_create = config->ssh_sign_requires_create,
                                           .fips = config->fips,
                                           .key_id_prefix = config->ssh_key_id_prefix});
    ASSERT(n == 0 || (config->blocks != NULL && n == config->blocks->n));
}

void modules_metrics(struct metric_out *out)
{
    for (size_t i = 0; i < server_modules.n; i++)
        if (server_modules.items[i]->metrics != NULL)
            server_modules.items[i]->metrics(out);
}
