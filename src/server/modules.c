/* The modules of this server. The order of the list is the order in which initialisation makes
 * their mounts and duties run. */
#include "api/cubbyhole/cubbyhole.h"
#include "api/kv/kv.h"
#include "api/sys/sys.h"
#include "api/token/token.h"
#include "server/server.h"

static const struct module *const modules[] = {
    &token_module,
    &cubbyhole_module,
    &sys_module,
    &kv_module,
};

const struct module_list server_modules = {modules, ARRAY_LEN(modules)};
