/* Parts of the configuration that a node reads again while it runs (router_host.reload).
 *
 * router_host.reload blocks, on any thread. ST_OK: the part is in use. RELOAD_CLUSTER and
 * RELOAD_AUDIT only begin the work, and the log tells the result. Another status, with a reason
 * that names the file: the part that was in use stays. */
#ifndef HOLDFAST_ROUTER_RELOAD_H
#define HOLDFAST_ROUTER_RELOAD_H

enum router_reload {
    RELOAD_LOG_LEVEL, /* the log level of the configuration file */
    RELOAD_LISTENER,  /* the certificates of all listeners */
    RELOAD_CLUSTER,   /* the certificate of the cluster port */
    RELOAD_AUDIT,     /* open the sinks of audit devices again */
};

#endif
