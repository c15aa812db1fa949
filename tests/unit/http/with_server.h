/* Shared by tests of the HTTP server: a server with a different handler at each path. */
#ifndef HOLDFAST_TEST_HTTP_WITH_SERVER_H
#define HOLDFAST_TEST_HTTP_WITH_SERVER_H

#include "http/harness.h"
#include "http/hostile.h"

#define TALK(literal) talk(BYTES(literal))
#define CLOSE "Connection: close\r\n"

extern const struct http_handler server_handler;
extern struct harness h;         /* runs it */
extern atomic_int gone_requests; /* clients that left while their request was held */
extern atomic_int stream_status; /* how the last streamed body broke off */

int server_setup(void **ctx);
int server_teardown(void **ctx);

/* Say `in` on a new connection and return all that comes back until the peer ends. */
char *talk(struct bytes in);
/* Replace the value of each Date header by as many 'x'. How many there were. */
size_t undate(char *text);
#define UNDATED "\r\nDate: xxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
void assert_has(const char *text, const char *word);
void await_no_connection(void);

#define TEST(name) cmocka_unit_test_setup_teardown(name, server_setup, server_teardown)

#endif
