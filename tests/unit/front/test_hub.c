/* Connections that left HTTP: who gives way to whom. */
#include "support.h"

#include "front/hub/hub.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000 };

/* The connection of a client; the hub has the other end. */
static int client_of(struct http_taken *taken)
{
    int fds[2];
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    *taken = (struct http_taken){.fd = fds[1]};
    return fds[0];
}

static void on_greeted(void *ctx, enum status st, struct http_taken *taken, struct bytes token)
{
    (void)taken;
    (void)token;
    atomic_store((atomic_int *)ctx, (int)st + 1);
}

/* Read until the hub ends the connection. */
static void await_end(int fd)
{
    char text[256];
    for (;;) {
        struct pollfd wanted = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&wanted, 1, PATIENCE_MS), 1);
        if (read(fd, text, sizeof text) <= 0)
            return;
    }
}

static void the_oldest_stranger_gives_way(void **ctx)
{
    static atomic_int outcomes[HUB_STRANGERS_MAX + 1];
    static int clients[HUB_STRANGERS_MAX + 1];
    struct http_taken taken;
    (void)ctx;
    for (size_t i = 0; i < HUB_STRANGERS_MAX; i++) {
        clients[i] = client_of(&taken);
        hub_greet(&taken, BYTES("accepted"), on_greeted, &outcomes[i]);
    }
    assert_int_equal(atomic_load(&outcomes[0]), 0);
    clients[HUB_STRANGERS_MAX] = client_of(&taken);
    hub_greet(&taken, BYTES("accepted"), on_greeted, &outcomes[HUB_STRANGERS_MAX]);
    await_end(clients[0]);
    assert_int_equal(atomic_load(&outcomes[0]), (int)ST_CLOSED + 1);
    assert_int_equal(atomic_load(&outcomes[1]), 0);
    assert_int_equal(atomic_load(&outcomes[HUB_STRANGERS_MAX]), 0);

    int refused = client_of(&taken); /* one that reads its refusal is a stranger too */
    hub_say(&taken, BYTES("refused"));
    await_end(clients[1]);
    assert_int_equal(atomic_load(&outcomes[1]), (int)ST_CLOSED + 1);
    assert_int_equal(atomic_load(&outcomes[2]), 0);
    (void)close(refused);
    for (size_t i = 0; i <= HUB_STRANGERS_MAX; i++)
        (void)close(clients[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_oldest_stranger_gives_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
