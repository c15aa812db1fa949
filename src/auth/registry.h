/* What the parts of the registry share: rules, policies and tokens of this folder, and the API. */
#ifndef HOLDFAST_AUTH_REGISTRY_H
#define HOLDFAST_AUTH_REGISTRY_H

/* Feature level of every record of the registry. Builds before know neither its tokens nor its
 * paths. */
enum { REGISTRY_FEATURE = 3 };

#endif
