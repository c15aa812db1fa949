/* The worker: runs plans and applies of the platform's runs on this machine. A client of the HTTP
 * API, a process of its own: providers are programs of strangers. */
#ifndef HOLDFAST_WORKER_WORKER_H
#define HOLDFAST_WORKER_WORKER_H

/* Run with a configuration file until SIGTERM or SIGINT, which end the job under way first. Returns
 * the exit code. */
int worker_run(const char *config);

#endif
