#include "base/buf.h"
#include "base/fs.h"
#include "base/mem.h"
#include "cluster/mesh/mesh_pki.h"
#include "crypto/cert.h"
#include "crypto/crypto.h"
#include "crypto/tls.h"
#include "loop/loop.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define assert_status(expression, expected) \
    assert_string_equal(status_name(expression), status_name(expected))

struct place {
    char root[64];
    struct fs *fs;
    struct mesh_pki pki;
};

static int setup(void **ctx)
{
    static struct place place;
    place = (struct place){.root = "/tmp/mesh_pki.XXXXXX"};
    *ctx = &place;
    if (mkdtemp(place.root) == NULL || loop_fs_new(place.root, &place.fs, NULL) != ST_OK)
        return -1;
    place.pki = (struct mesh_pki){place.fs, "tls", time(NULL)};
    return crypto_init(NULL) == ST_OK ? 0 : -1;
}

static enum status remove_one(void *ctx, const char *name)
{
    struct place *place = ctx;
    char path[512];
    (void)snprintf(path, sizeof path, "%s/tls/%s", place->root, name);
    return unlink(path) == 0 ? ST_OK : ST_IO;
}

static int teardown(void **ctx)
{
    struct place *place = *ctx;
    char dir[128];
    (void)snprintf(dir, sizeof dir, "%s/tls", place->root);
    if (fs_list(place->fs, "tls", remove_one, place) == ST_OK && rmdir(dir) != 0)
        return -1;
    loop_fs_free(place->fs);
    return rmdir(place->root);
}

static enum status count_one(void *ctx, const char *name)
{
    int *n = ctx;
    (void)name;
    ++*n;
    return ST_OK;
}

static int count_files(struct place *place)
{
    int n = 0;
    assert_status(fs_list(place->fs, "tls", count_one, &n), ST_OK);
    return n;
}

static const char *file(struct place *place, const char *name)
{
    static char paths[8][256];
    static unsigned turn;
    char *path = paths[turn++ % ARRAY_LEN(paths)];
    (void)snprintf(path, sizeof paths[0], "%s/tls/%s", place->root, name);
    return path;
}

static const struct mesh_node_names two[] = {{.name = "n1"}, {.name = "n2"}};

static void bootstrap(struct place *place)
{
    struct reason reason = {""};
    enum status st = mesh_bootstrap(&place->pki, two, 2, &reason);
    assert_string_equal(reason.text, "");
    assert_status(st, ST_OK);
}

static bool handshake(struct tls_options server, struct tls_options client,
                      struct tls_target target)
{
    struct tls_ctx *server_ctx = NULL, *client_ctx = NULL;
    struct tls_conn *ends[2] = {NULL, NULL};
    uint8_t plain[8];
    size_t n;
    server.server = true;
    assert_status(tls_ctx_new(&server, &server_ctx, NULL), ST_OK);
    assert_status(tls_ctx_new(&client, &client_ctx, NULL), ST_OK);
    assert_status(tls_conn_new(client_ctx, &target, &ends[0]), ST_OK);
    assert_status(tls_conn_new(server_ctx, NULL, &ends[1]), ST_OK);
    for (int i = 0; i < 6; i++) {
        CLEANUP(buf_done) struct buf out = {0};
        tls_take_out(ends[i % 2], &out);
        assert_status(tls_feed(ends[1 - i % 2], buf_bytes(&out)), ST_OK);
        if (tls_read(ends[1 - i % 2], plain, sizeof plain, &n) != ST_OK)
            break;
    }
    bool open = tls_conn_phase(ends[0]) == TLS_OPEN && tls_conn_phase(ends[1]) == TLS_OPEN;
    tls_conn_free(ends[0]);
    tls_conn_free(ends[1]);
    tls_ctx_unref(server_ctx);
    tls_ctx_unref(client_ctx);
    return open;
}

static struct tls_options node(struct place *place, const char *name)
{
    char cert[64], key[64];
    (void)snprintf(cert, sizeof cert, "%s.pem", name);
    (void)snprintf(key, sizeof key, "%s-key.pem", name);
    return (struct tls_options){.client_cert = TLS_CLIENT_CERT_REQUIRED,
                                .cert.path = file(place, cert),
                                .key.path = file(place, key),
                                .ca.path = file(place, "ca.pem")};
}

static void nodes_of_a_new_cluster_trust_each_other(void **ctx)
{
    struct place *place = *ctx;
    struct mesh_identity n1, n2;
    char uri[MESH_URI_MAX];
    bootstrap(place);
    assert_int_equal(count_files(place), 12);
    assert_status(mesh_identity_read(file(place, "n1.pem"), &n1, NULL), ST_OK);
    assert_status(mesh_identity_read(file(place, "n2.pem"), &n2, NULL), ST_OK);
    assert_string_equal(n1.name, "n1");
    assert_string_equal(n2.name, "n2");
    assert_memory_equal(n1.cluster, n2.cluster, sizeof n1.cluster);
    mesh_uri(&n1, uri);
    assert_true(handshake(node(place, "n1"), node(place, "n2"), (struct tls_target){.uri = uri}));
}

static void clients_trust_the_other_ca_only(void **ctx)
{
    struct place *place = *ctx;
    struct tls_options server = {.cert.path = file(place, "tls-n1.pem"),
                                 .key.path = file(place, "tls-n1-key.pem")};
    struct tls_options client = {.ca.path = file(place, "tls-ca.pem")};
    struct tls_target target = {.host = "127.0.0.1"};
    bootstrap(place);
    assert_true(handshake(server, client, target));
    target.host = "n1";
    assert_true(handshake(server, client, target));
    client.ca.path = file(place, "ca.pem");
    assert_false(handshake(server, client, target));
}

static void a_clients_certificate_is_no_node(void **ctx)
{
    struct place *place = *ctx;
    struct tls_options client = node(place, "n2");
    struct mesh_identity identity;
    struct reason reason;
    client.cert.path = file(place, "tls-n2.pem");
    client.key.path = file(place, "tls-n2-key.pem");
    bootstrap(place);
    assert_false(handshake(node(place, "n1"), client, (struct tls_target){0}));
    assert_status(mesh_identity_read(client.cert.path, &identity, &reason), ST_INVALID);
}

static void a_node_is_added_later(void **ctx)
{
    struct place *place = *ctx;
    static const char *const hosts[] = {"n3.example.org", "192.0.2.3"};
    const struct mesh_node_names n3 = {.name = "n3", .hosts = hosts, .n_hosts = 2};
    struct mesh_identity n1, added;
    struct reason reason;
    bootstrap(place);
    assert_status(mesh_bootstrap_node(&place->pki, &n3, NULL), ST_OK);
    assert_status(mesh_identity_read(file(place, "n1.pem"), &n1, NULL), ST_OK);
    assert_status(mesh_identity_read(file(place, "n3.pem"), &added, NULL), ST_OK);
    assert_memory_equal(n1.cluster, added.cluster, sizeof n1.cluster);
    assert_true(handshake(node(place, "n1"), node(place, "n3"), (struct tls_target){0}));
    struct tls_options server = {.cert.path = file(place, "tls-n3.pem"),
                                 .key.path = file(place, "tls-n3-key.pem")};
    struct tls_options client = {.ca.path = file(place, "tls-ca.pem")};
    assert_true(handshake(server, client, (struct tls_target){.host = "n3.example.org"}));
    assert_true(handshake(server, client, (struct tls_target){.host = "192.0.2.3"}));
    assert_status(mesh_bootstrap_node(&place->pki, &n3, &reason), ST_EXISTS);
    assert_string_equal(reason.text, "tls/n3-key.pem: already exists");
}

static void nothing_is_replaced(void **ctx)
{
    struct place *place = *ctx;
    struct reason reason;
    bootstrap(place);
    assert_status(mesh_bootstrap(&place->pki, two, 2, &reason), ST_EXISTS);
    assert_string_equal(reason.text, "tls/tls-n1-key.pem: already exists");
}

/* Each allocation of adding a node fails in turn: it is reported, no node's file is changed, and
 * the node can be added after. */
static void running_out_of_memory_is_reported_and_leaves_room_to_try_again(void **ctx)
{
    struct place *place = *ctx;
    bool used = true;
    uint64_t n = 1;
    bootstrap(place);
    int before = count_files(place);
    for (; used; n++) {
        char name[16];
        struct reason reason = {""};
        struct mesh_identity identity;
        (void)snprintf(name, sizeof name, "m%llu", (unsigned long long)n);
        const struct mesh_node_names added = {.name = name};
        (void)mem_fail_nth(n);
        enum status st = mesh_bootstrap_node(&place->pki, &added, &reason);
        if (st == ST_OK) {
            (void)snprintf(name, sizeof name, "m%llu.pem", (unsigned long long)n);
            st = mesh_identity_read(file(place, name), &identity, &reason);
            before += 4;
        }
        used = mem_fail_nth(0);
        if (used)
            assert_status(st, ST_NOMEM);
        else
            assert_status(st, ST_OK);
        assert_int_equal(count_files(place), before);
    }
    assert_true(n > 4);
}

static void an_added_node_needs_the_ca(void **ctx)
{
    struct place *place = *ctx;
    struct reason reason;
    assert_status(mesh_bootstrap_node(&place->pki, &two[0], &reason), ST_NOT_FOUND);
    assert_string_equal(reason.text, "tls/ca-key.pem: not found");
}

static void names_that_would_collide_are_refused(void **ctx)
{
    static const char *const bad[] = {"ca", "tls-n1", "n1-key", "", ".n1", "a/b", "a b", "-n"};
    struct place *place = *ctx;
    struct mesh_node_names same[] = {{.name = "n1"}, {.name = "N1"}};
    struct reason reason;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct mesh_node_names one = {.name = bad[i]};
        assert_status(mesh_bootstrap(&place->pki, &one, 1, &reason), ST_INVALID);
    }
    assert_status(mesh_bootstrap(&place->pki, same, 2, &reason), ST_INVALID);
    assert_string_equal(reason.text, "node \"N1\" is named twice");
    assert_status(mesh_bootstrap(&place->pki, same, 0, &reason), ST_INVALID);
    static const char *const hosts[17] = {[0 ... 16] = "h"};
    struct mesh_node_names many[65], wide = {.name = "n1", .hosts = hosts, .n_hosts = 17};
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = (struct mesh_node_names){.name = "n1"};
    assert_status(mesh_bootstrap(&place->pki, many, ARRAY_LEN(many), &reason), ST_INVALID);
    assert_non_null(strstr(reason.text, "1 to 64 nodes"));
    assert_status(mesh_bootstrap(&place->pki, &wide, 1, &reason), ST_INVALID);
    assert_non_null(strstr(reason.text, "too many hosts"));
}

static void read_pair(struct place *place, const char *name, struct cert_pair *ret_pair)
{
    char key[64], cert[64];
    (void)snprintf(key, sizeof key, "%s-key.pem", name);
    (void)snprintf(cert, sizeof cert, "%s.pem", name);
    assert_status(tls_pem_read(file(place, cert), &ret_pair->cert, NULL), ST_OK);
    assert_status(tls_pem_read(file(place, key), &ret_pair->key, NULL), ST_OK);
}

static void an_authority_is_that_of_its_cluster(void **ctx)
{
    struct place *place = *ctx;
    CLEANUP(cert_pair_done) struct cert_pair ca = {0}, n1 = {0};
    struct mesh_identity identity;
    struct reason reason = {""};
    bootstrap(place);
    assert_status(mesh_identity_read(file(place, "n1.pem"), &identity, NULL), ST_OK);
    read_pair(place, "ca", &ca);
    read_pair(place, "n1", &n1);
    assert_status(mesh_authority_check(&ca, identity.cluster, &reason), ST_OK);
    assert_status(mesh_authority_check(&n1, identity.cluster, &reason), ST_INVALID);
    struct cert_pair crossed = {.cert = ca.cert, .key = n1.key}; /* nothing could be signed */
    assert_status(mesh_authority_check(&crossed, identity.cluster, &reason), ST_INVALID);
    identity.cluster[15] ^= 1;
    assert_status(mesh_authority_check(&ca, identity.cluster, &reason), ST_INVALID);
    assert_non_null(strstr(reason.text, "this cluster"));
}

static void uris_are_read_strictly(void **ctx)
{
    static const char *const bad[] = {
        "",
        "holdfast://",
        "holdfast://00112233445566778899aabbccddeeff",
        "holdfast://00112233445566778899aabbccddeeff/node/",
        "holdfast://00112233445566778899AABBCCDDEEFF/node/n1",
        "holdfast://00112233445566778899aabbccddeef/node/n1",
        "holdfast://00112233445566778899aabbccddeeff0/node/n1",
        "holdfast://00112233445566778899aabbccddeeff/node/n1/x",
        ("holdfast://00112233445566778899aabbccddeeff/node/"
         "x123456789x123456789x123456789x123456789x123456789x123456789x123"),
        "https://00112233445566778899aabbccddeeff/node/n1",
    };
    static const char longest[] = "holdfast://00112233445566778899aabbccddeeff/node/"
                                  "x123456789x123456789x123456789x123456789x123456789x123456789x12";
    static const char good[] = "holdfast://00112233445566778899aabbccddeeff/node/n-1.x_y";
    struct mesh_identity identity;
    char uri[MESH_URI_MAX];
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_status(mesh_uri_parse(bad[i], &identity), ST_INVALID);
    assert_status(mesh_uri_parse(longest, &identity), ST_OK);
    assert_int_equal(strlen(identity.name), MESH_NAME_MAX - 1);
    assert_status(mesh_uri_parse(good, &identity), ST_OK);
    assert_string_equal(identity.name, "n-1.x_y");
    assert_int_equal(identity.cluster[15], 0xff);
    mesh_uri(&identity, uri);
    assert_string_equal(uri, good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nodes_of_a_new_cluster_trust_each_other, setup, teardown),
        cmocka_unit_test_setup_teardown(clients_trust_the_other_ca_only, setup, teardown),
        cmocka_unit_test_setup_teardown(a_clients_certificate_is_no_node, setup, teardown),
        cmocka_unit_test_setup_teardown(a_node_is_added_later, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(
            running_out_of_memory_is_reported_and_leaves_room_to_try_again, setup, teardown),
        cmocka_unit_test_setup_teardown(an_added_node_needs_the_ca, setup, teardown),
        cmocka_unit_test_setup_teardown(names_that_would_collide_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(an_authority_is_that_of_its_cluster, setup, teardown),
        cmocka_unit_test_setup_teardown(uris_are_read_strictly, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
