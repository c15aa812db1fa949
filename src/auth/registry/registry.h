/* Constants that rules, policies and tokens of the registry share. */
#ifndef HOLDFAST_AUTH_REGISTRY_H
#define HOLDFAST_AUTH_REGISTRY_H

/* Feature level of every record of the registry. Builds before know neither its tokens nor its
 * paths. */
enum { REGISTRY_FEATURE = 3 };

#endif
