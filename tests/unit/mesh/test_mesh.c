#include "cluster/mesh/mesh_internal.h"
#include "mesh/mesh_nodes.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

static void frames_pass_both_ways(void **ctx)
{
    struct world *w = *ctx;
    start_linked(w, 2);
    send_str(&w->nodes[0], 2, "question", false);
    run_until(w, received_one, &w->nodes[1]);
    assert_int_equal(w->nodes[1].from, 1);
    assert_string_equal(w->nodes[1].from_name, "n1");
    assert_true(bytes_eq(buf_bytes(&w->nodes[1].last), BYTES("question")));
    send_str(&w->nodes[1], 1, "answer", true);
    run_until(w, received_one, &w->nodes[0]);
    assert_true(bytes_eq(buf_bytes(&w->nodes[0].last), BYTES("answer")));
}

static void three_nodes_reach_each_other(void **ctx)
{
    struct world *w = *ctx;
    start_linked(w, 3);
    for (unsigned i = 0; i < 3; i++) {
        struct node *to = &w->nodes[(i + 1) % 3];
        to->received = 0;
        send_str(&w->nodes[i], to->member.id, "x", false);
        run_until(w, received_one, to);
        assert_int_equal(to->from, i + 1);
    }
}

static void the_largest_frame_arrives_whole(void **ctx)
{
    struct world *w = *ctx;
    CLEANUP(buf_done) struct buf large = {0};
    start_linked(w, 2);
    uint8_t *at = buf_extend(&large, MESH_FRAME_MAX);
    for (size_t i = 0; i < MESH_FRAME_MAX; i++)
        at[i] = (uint8_t)(i * 7 >> 3);
    struct bytes parts[] = {bytes_of(at, 5), bytes_of(at + 5, 0),
                            bytes_of(at + 5, MESH_FRAME_MAX - 5)};
    mesh_send(w->nodes[0].mesh, 2, parts, 3, true);
    run_until(w, received_one, &w->nodes[1]);
    assert_true(bytes_eq(buf_bytes(&w->nodes[1].last), buf_bytes(&large)));
}

static void what_was_flushed_has_left(void **ctx)
{
    struct world *w = *ctx;
    start_linked(w, 2);
    send_str(&w->nodes[0], 2, "x", true);
    mesh_flush(w->nodes[0].mesh);
    stop(w, 0); /* which drops what has not */
    run_until(w, received_one, &w->nodes[1]);
}

static bool received_all(void *ctx)
{
    return ((struct node *)ctx)->received == 200;
}

static void frames_of_one_lane_stay_in_order(void **ctx)
{
    struct world *w = *ctx;
    start_linked(w, 2);
    for (unsigned i = 0; i < 200; i++) {
        uint8_t number = (uint8_t)i;
        struct bytes part = bytes_of(&number, 1);
        mesh_send(w->nodes[0].mesh, 2, &part, 1, false);
    }
    run_until(w, received_all, &w->nodes[1]);
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(w->nodes[1].all.data[i], i);
}

static struct mesh_peer_stats peer_of(struct node *node, const char *name)
{
    struct mesh_peer_stats peers[MESH_PEERS_COUNTED_MAX];
    unsigned n = mesh_stats_peers(node->mesh, peers, ARRAY_LEN(peers));
    for (unsigned i = 0; i < n; i++)
        if (strcmp(peers[i].name, name) == 0)
            return peers[i];
    return (struct mesh_peer_stats){.name = ""};
}

static bool four_links(void *ctx)
{
    return peer_of(ctx, "n2").links == 4;
}

static bool no_links(void *ctx)
{
    return peer_of(ctx, "n2").links == 0;
}

static bool dialled_in_vain(void *ctx)
{
    return peer_of(ctx, "n2").connects_failed >= 2;
}

static void what_a_peer_gets_and_gives_is_counted(void **ctx)
{
    struct world *w = *ctx;
    start_linked(w, 2);
    run_until(w, four_links, &w->nodes[0]);
    uint64_t before = peer_of(&w->nodes[1], "n1").bytes_received;
    w->nodes[1].received = 0;
    send_str(&w->nodes[0], 2, "twelve bytes", false);
    run_until(w, received_one, &w->nodes[1]);
    assert_int_equal(peer_of(&w->nodes[1], "n1").bytes_received, before + 12);
    assert_true(peer_of(&w->nodes[0], "n2").frames_sent >= 1);
    assert_true(peer_of(&w->nodes[0], "n2").bytes_sent >= 12);
    assert_int_equal(peer_of(&w->nodes[0], "n2").reconnects, 0);
    stop(w, 1);
    run_until(w, no_links, &w->nodes[0]);
    run_until(w, dialled_in_vain, &w->nodes[0]);
    send_str(&w->nodes[0], 2, "lost", false);
    assert_true(peer_of(&w->nodes[0], "n2").frames_dropped >= 1);
}

static void a_small_frame_overtakes_bulk(void **ctx)
{
    struct world *w = *ctx;
    static uint8_t zeroes[4 * 1024 * 1024];
    struct bytes bulk = bytes_of(zeroes, sizeof zeroes);
    start_linked(w, 2);
    mesh_send(w->nodes[0].mesh, 2, &bulk, 1, true);
    send_str(&w->nodes[0], 2, "small", false);
    run_until(w, received_one, &w->nodes[1]);
    assert_true(bytes_eq(buf_bytes(&w->nodes[1].last), BYTES("small")));
}

static size_t waiting(struct node *from, uint64_t to, bool accepted)
{
    return mesh_link_find(from->mesh, to, false, accepted)->queue_bytes;
}

static void small_frames_share_a_link(void **ctx)
{
    struct world *w = *ctx;
    start_linked(w, 2);
    send_str(&w->nodes[0], 2, "question", false);
    assert_true(waiting(&w->nodes[0], 2, false) > 0);
    send_str(&w->nodes[1], 1, "answer", false);
    assert_true(waiting(&w->nodes[1], 1, true) > 0);
    assert_int_equal(waiting(&w->nodes[1], 1, false), 0);
    mesh_link_close(mesh_link_find(w->nodes[1].mesh, 1, false, true), "for the test");
    send_str(&w->nodes[1], 1, "answer", false);
    assert_true(waiting(&w->nodes[1], 1, false) > 0);
}

static void a_frame_to_nobody_is_counted(void **ctx)
{
    struct world *w = *ctx;
    start(w, 0);
    send_str(&w->nodes[0], 77, "x", false);
    assert_int_equal(stats(&w->nodes[0]).frames_dropped_unconnected, 1);
}

static void a_node_answers_one_it_does_not_know(void **ctx)
{
    struct world *w = *ctx;
    start(w, 0);
    start(w, 1);
    introduce(w, 0); /* n1 knows n2, and n2 nobody */
    w->nodes[1].received = 0;
    for (unsigned tries = 0; w->nodes[1].received == 0; tries++) {
        assert_true(tries < 1000);
        send_str(&w->nodes[0], 2, "hello", false);
        run_for(w, 1);
    }
    send_str(&w->nodes[1], 1, "answer", false);
    run_until(w, received_one, &w->nodes[0]);
    assert_int_equal(w->nodes[0].from, 2);
}

static bool gone_reported(void *ctx)
{
    return ((struct node *)ctx)->gone != 0;
}

static void a_node_that_ends_is_found_gone_once(void **ctx)
{
    struct world *w = *ctx;
    start_linked(w, 2);
    stop(w, 1);
    run_until(w, gone_reported, &w->nodes[0]);
    assert_int_equal(w->nodes[0].gone_id, 2);
    run_for(w, 200); /* more refused calls */
    assert_int_equal(w->nodes[0].gone, 1);
    assert_int_equal(stats(&w->nodes[0]).peers_gone, 1);
}

static bool both_took_over(void *ctx)
{
    struct world *w = ctx;
    return strstr(logged, "two processes use the identity of node n2") != NULL &&
           strstr(logged, "links to n1 at") != NULL && stats(&w->nodes[0]).links_in != 0;
}

/* A copied data directory that was started too. */
static void two_processes_of_one_identity_are_named_and_dial_less_often(void **ctx)
{
    struct world *w = *ctx;
    start(w, 0);
    start(w, 1);
    struct mesh_options copy = options_of(w, 1, "a");
    copy.events.ctx = &w->nodes[2];
    copy.address = "127.0.0.1:0";
    start_with(w, 2, &copy);
    for (unsigned i = 1; i < 3; i++)
        mesh_members(w->nodes[i].mesh, &w->nodes[0].member, 1);
    run_until(w, both_took_over, w);
    run_for(w, 2500);
    uint64_t before = stats(&w->nodes[0]).accepts;
    run_for(w, 1500);
    assert_in_range(stats(&w->nodes[0]).accepts - before, 0, 12); /* dozens without a pause */
}

static bool called_in_vain(void *ctx)
{
    return stats(ctx).connects_failed >= 4;
}

static void a_node_never_seen_is_not_gone(void **ctx)
{
    struct world *w = *ctx;
    start(w, 0);
    start(w, 1);
    w->nodes[1].member.id = 2;
    struct mesh_member n2 = w->nodes[1].member;
    stop(w, 1);
    mesh_members(w->nodes[0].mesh, &n2, 1);
    run_until(w, called_in_vain, &w->nodes[0]);
    assert_int_equal(w->nodes[0].gone, 0);
}

static void links_come_back_after_a_restart(void **ctx)
{
    struct world *w = *ctx;
    start_linked(w, 2);
    for (unsigned round = 1; round <= 2; round++) {
        stop(w, 1);
        run_until(w, gone_reported, &w->nodes[0]);
        start(w, 1);
        introduce(w, 1);
        run_until(w, all_linked, w);
        w->nodes[1].received = 0;
        send_str(&w->nodes[0], 2, "again", true);
        run_until(w, received_one, &w->nodes[1]);
        assert_int_equal(w->nodes[0].gone, 1);
        w->nodes[0].gone = 0;
    }
}

static bool alone(void *ctx)
{
    struct mesh_stats s = stats(ctx);
    return s.links_in == 0 && s.links_out == 0;
}

/* n2 in a process of its own, which runs until it is killed; its port goes to `out`. */
static void run_child(struct world *w, int out)
{
    assert_status(loop_new(NULL, &w->env), ST_OK);
    start(w, 1);
    uint16_t port = mesh_port(w->nodes[1].mesh);
    assert_int_equal(write(out, &port, sizeof port), sizeof port);
    loop_run(w->env);
    _exit(1);
}

static pid_t start_child(struct world *w)
{
    int ends[2];
    uint16_t port = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        run_child(w, ends[1]);
    assert_int_equal(read(ends[0], &port, sizeof port), sizeof port);
    assert_int_equal(close(ends[0]) | close(ends[1]), 0);
    w->nodes[1].member = (struct mesh_member){.id = 2, .name = "n2"};
    (void)snprintf(w->nodes[1].member.address, MESH_ADDRESS_MAX, "127.0.0.1:%u", (unsigned)port);
    return pid;
}

static bool linked_out(void *ctx)
{
    return stats(ctx).links_out == 2;
}

static void only_a_process_that_ended_is_gone(void **ctx)
{
    struct world *w = *ctx;
    pid_t pid = start_child(w);
    start(w, 0);
    mesh_members(w->nodes[0].mesh, &w->nodes[1].member, 1);
    run_until(w, linked_out, &w->nodes[0]);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    run_for(w, 100);
    assert_int_equal(w->nodes[0].gone, 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    run_until(w, gone_reported, &w->nodes[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(w->nodes[0].gone, 1);
}

static void an_expired_certificate_is_reported(void **ctx)
{
    struct world *w = *ctx;
    struct mesh_options options = options_of(w, 1, "old");
    start_with(w, 1, &options);
    assert_non_null(strstr(logged, "n2.pem has expired: other nodes will refuse it"));
    assert_true(stats(&w->nodes[1]).cert_not_after_s < time(NULL));
}

static void a_removed_member_is_disconnected(void **ctx)
{
    struct world *w = *ctx;
    start_linked(w, 2);
    mesh_members(w->nodes[1].mesh, NULL, 0);
    w->nodes[0].refuse_id = 2;
    mesh_members(w->nodes[0].mesh, NULL, 0);
    run_until(w, alone, &w->nodes[0]);
    run_until(w, alone, &w->nodes[1]);
    assert_int_equal(w->nodes[0].gone, 0);
}

static bool was_refused(void *ctx)
{
    struct node *node = ctx;
    return node->refusals != 0;
}

static void a_removed_node_is_refused_by_name(void **ctx)
{
    struct world *w = *ctx;
    start_linked(w, 2);
    w->nodes[0].removed = "n2";
    mesh_members(w->nodes[0].mesh, NULL, 0);
    run_until(w, was_refused, &w->nodes[1]);
    assert_string_equal(w->nodes[1].refused_by, "n1");
    assert_int_equal(w->nodes[0].refusals, 0);
}

static bool was_superseded(void *ctx)
{
    const struct node *node = ctx;
    return node->supersedings != 0;
}

static void a_node_from_before_a_recovery_is_told(void **ctx)
{
    struct world *w = *ctx;
    start(w, 0);
    start(w, 1);
    w->nodes[0].superseded = 2;
    introduce(w, 1);
    run_until(w, was_superseded, &w->nodes[1]);
    assert_string_equal(w->nodes[1].refused_by, "n1");
    assert_int_equal(w->nodes[1].refusals, 0);
    assert_int_equal(w->nodes[0].supersedings, 0);
}

static bool connects_failed(void *ctx)
{
    return stats(ctx).connects_failed != 0;
}

static void assert_never_linked(struct world *w, const char *why)
{
    run_until(w, connects_failed, &w->nodes[0]);
    run_for(w, 50);
    assert_int_equal(stats(&w->nodes[0]).links_out, 0);
    assert_non_null(strstr(logged, why));
    assert_int_equal(w->nodes[1].received, 0);
}

/* The node that dials judges the reply as the accepting node judges the hello. */
static void a_peer_of_an_older_feature_level_is_not_linked(void **ctx)
{
    struct world *w = *ctx;
    struct mesh_options older = options_of(w, 1, "a");
    start(w, 0);
    older.feature = 1;
    start_with(w, 1, &older);
    w->nodes[0].feature = 2;
    introduce(w, 0);
    assert_never_linked(w, "its build is older than the cluster's feature level: upgrade it");
}

static bool is_unlinked(void *ctx)
{
    return !mesh_linked(((struct node *)ctx)->mesh, 2);
}

static void a_linked_peer_is_dropped_when_the_feature_level_rises(void **ctx)
{
    struct world *w = *ctx;
    start_linked(w, 2);
    assert_int_equal(mesh_feature(w->nodes[0].mesh, 2), 2);
    assert_int_equal(mesh_feature(w->nodes[0].mesh, 9), 0);
    w->nodes[0].feature = 2;
    introduce(w, 0);
    assert_true(mesh_linked(w->nodes[0].mesh, 2));
    w->nodes[0].feature = 3;
    introduce(w, 0);
    run_until(w, is_unlinked, &w->nodes[0]);
    assert_non_null(strstr(logged, "its build is older than the cluster's feature level"));
}

static void a_peer_with_another_id_is_not_linked(void **ctx)
{
    struct world *w = *ctx;
    start(w, 0);
    start(w, 1);
    w->nodes[1].member.id = 9;
    introduce(w, 0);
    run_until(w, connects_failed, &w->nodes[0]);
    run_for(w, 50);
    assert_int_equal(stats(&w->nodes[0]).links_out, 0);
    assert_int_equal(stats(&w->nodes[1]).links_in, 0);
}

static void a_node_known_by_name_speaks_as_the_id_it_has(void **ctx)
{
    struct world *w = *ctx;
    struct mesh_options options = options_of(w, 1, "a");
    options.id = 0x123456;
    start(w, 0);
    start_with(w, 1, &options);
    struct mesh_member n2 = w->nodes[1].member;
    n2.id = 2; /* what it was once */
    n2.any_id = true;
    mesh_members(w->nodes[0].mesh, &n2, 1);
    run_until(w, linked_out, &w->nodes[0]);
    send_str(&w->nodes[0], 2, "by the old id", false);
    run_until(w, received_one, &w->nodes[1]);
    send_str(&w->nodes[1], 1, "answer", false);
    run_until(w, received_one, &w->nodes[0]);
    assert_int_equal(w->nodes[0].from, 0x123456);
    w->nodes[1].received = 0;
    send_str(&w->nodes[0], 0x123456, "by the new id", false);
    run_until(w, received_one, &w->nodes[1]);
    stop(w, 1);
    run_until(w, gone_reported, &w->nodes[0]);
    assert_int_equal(w->nodes[0].gone_id, 0x123456);
}

static void a_node_known_by_name_may_not_speak_for_another(void **ctx)
{
    struct world *w = *ctx;
    start(w, 0);
    start(w, 1);
    w->nodes[0].refuse_id = 2; /* which it answers as */
    struct mesh_member n2 = w->nodes[1].member;
    n2.id = 3;
    n2.any_id = true;
    mesh_members(w->nodes[0].mesh, &n2, 1);
    assert_never_linked(w, "another node answered");
}

static void an_address_of_another_node_is_not_linked(void **ctx)
{
    struct world *w = *ctx;
    start(w, 0);
    start(w, 1);
    (void)snprintf(w->nodes[1].member.name, MESH_NAME_MAX, "n3");
    introduce(w, 0);
    assert_never_linked(w, "the peer's certificate is not for");
}

static void a_node_of_another_cluster_is_not_linked(void **ctx)
{
    struct world *w = *ctx;
    start(w, 0);
    struct mesh_options options = options_of(w, 1, "b");
    start_with(w, 1, &options);
    introduce(w, 0);
    assert_never_linked(w, "self-signed certificate in certificate chain");
    assert_int_equal(stats(&w->nodes[1]).links_in, 0);
}

static void a_host_name_is_looked_up(void **ctx)
{
    struct world *w = *ctx;
    start(w, 0);
    start(w, 1);
    (void)snprintf(w->nodes[1].member.address, MESH_ADDRESS_MAX, "localhost:%u",
                   (unsigned)mesh_port(w->nodes[1].mesh));
    introduce(w, 0);
    introduce(w, 1);
    run_until(w, all_linked, w);
}

static bool has_both_links(void *ctx)
{
    return stats(ctx).links_out == 2;
}

/* n1 knows n2 at `stored`, and by its configuration where it really is. */
static void link_by_other(struct world *w, const char *stored)
{
    struct mesh_member n2;
    start(w, 0);
    start(w, 1);
    n2 = w->nodes[1].member;
    (void)snprintf(n2.other, sizeof n2.other, "%s", n2.address);
    (void)snprintf(n2.address, sizeof n2.address, "%s", stored);
    mesh_members(w->nodes[0].mesh, &n2, 1);
    run_until(w, has_both_links, &w->nodes[0]);
    assert_int_equal(stats(&w->nodes[1]).links_in, 2);
}

static void a_peer_is_found_at_its_other_address(void **ctx)
{
    link_by_other(*ctx, "127.0.0.1:1");
}

static void a_name_that_is_not_known_leads_to_the_other_address(void **ctx)
{
    link_by_other(*ctx, "no-such-host.invalid:8201");
}

static void another_node_at_the_first_address_leads_to_the_other(void **ctx)
{
    struct world *w = *ctx;
    start(w, 2);
    link_by_other(w, w->nodes[2].member.address);
    assert_int_equal(stats(&w->nodes[2]).links_in, 0);
}

static void a_peer_that_moves_is_dialled_where_it_is_now(void **ctx)
{
    struct world *w = *ctx;
    start_linked(w, 2);
    uint64_t connects = stats(&w->nodes[0]).connects;
    struct mesh_member n2 = w->nodes[1].member;
    (void)snprintf(n2.other, sizeof n2.other, "%s", n2.address);
    (void)snprintf(n2.address, sizeof n2.address, "127.0.0.1:1");
    mesh_members(w->nodes[0].mesh, &n2, 1); /* its links are still where it is */
    run_for(w, 50);
    assert_int_equal(stats(&w->nodes[0]).connects, connects);
    n2.other[0] = '\0';
    mesh_members(w->nodes[0].mesh, &n2, 1);
    run_until(w, called_in_vain, &w->nodes[0]);
    assert_int_equal(stats(&w->nodes[0]).links_out, 0);
    introduce(w, 0);
    run_until(w, all_linked, w);
    assert_int_equal(w->nodes[0].gone, 0);
}

static void closing_while_connecting_leaves_nothing(void **ctx)
{
    struct world *w = *ctx;
    start(w, 0);
    start(w, 1);
    (void)snprintf(w->nodes[1].member.address, MESH_ADDRESS_MAX, "localhost:%u",
                   (unsigned)mesh_port(w->nodes[1].mesh));
    introduce(w, 0);
    for (unsigned i = 0; i < 5; i++)
        run_for(w, 1); /* somewhere in the middle; the sanitizer counts what is left */
    stop(w, 0);
}

static void starting_says_what_is_wrong(void **ctx)
{
    struct world *w = *ctx;
    struct mesh *mesh = NULL;
    struct reason reason;
    struct mesh_options options = options_of(w, 0, "a");
    options.address = "127.0.0.1";
    assert_status(mesh_start(&options, &mesh, &reason), ST_INVALID);
    assert_string_equal(reason.text, "cluster address \"127.0.0.1\": not of the form host:port");
    start(w, 1);
    options.address = w->nodes[1].member.address;
    assert_status(mesh_start(&options, &mesh, &reason), ST_IO);
    assert_non_null(strstr(reason.text, "address already in use"));
    options = options_of(w, 0, "a");
    options.cert_path = file(w, "a", "tls-n1", ".pem");
    assert_status(mesh_start(&options, &mesh, &reason), ST_INVALID);
    assert_non_null(strstr(reason.text, "not the certificate of a node of a cluster"));
    options = options_of(w, 0, "a");
    options.key_path = file(w, "a", "n2", "-key.pem");
    assert_status(mesh_start(&options, &mesh, &reason), ST_INVALID);
    assert_non_null(strstr(reason.text, "the key does not belong to the certificate"));
    assert_null(mesh);
}

static int rto_max_ms(int fd)
{
    int ms = 0;
    socklen_t len = sizeof ms;
    (void)getsockopt(fd, IPPROTO_TCP, MESH_TCP_RTO_MAX_MS, &ms, &len);
    return ms; /* 0: this kernel does not know it */
}

static void a_link_resumes_soon_after_a_cut_where_the_kernel_can(void **ctx)
{
    (void)ctx;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    int before = rto_max_ms(fd);
    assert_int_equal(mesh_tune_socket(fd, 10000), 0);
    assert_int_equal(rto_max_ms(fd), before == 0 ? 0 : MESH_RESUME_MS);
    assert_int_equal(close(fd), 0);
}

static void a_reload_keeps_the_name(void **ctx)
{
    struct world *w = *ctx;
    struct reason reason = {""};
    start_linked(w, 2);
    assert_status(mesh_reload(w->nodes[0].mesh, &reason), ST_OK);
    send_str(&w->nodes[0], 2, "still here", false);
    run_until(w, received_one, &w->nodes[1]);
}

static void running_out_of_memory_is_survived(void **ctx)
{
    struct world *w = *ctx;
    bool used = true;
    for (uint64_t n = 1; used && n < 300; n++) {
        w->nodes[0].received = w->nodes[1].received = 0;
        start(w, 0);
        start(w, 1);
        bool was = mem_fail_nth(n);
        introduce(w, 0);
        introduce(w, 1);
        for (unsigned tries = 0; w->nodes[1].received == 0; tries++) {
            assert_true(tries < 5000);
            send_str(&w->nodes[0], 2, "x", tries % 2 == 0);
            run_for(w, 1);
            if (tries % 100 == 50)
                introduce(w, 0); /* a peer that did not fit into memory is introduced again */
        }
        used = mem_fail_nth(0);
        assert_true(was);
        stop(w, 0);
        stop(w, 1);
    }
    assert_false(used);
}

#define node_test(f) cmocka_unit_test_setup_teardown(f, nodes_init, nodes_done)

int main(void)
{
    const struct CMUnitTest tests[] = {
        node_test(frames_pass_both_ways),
        node_test(three_nodes_reach_each_other),
        node_test(the_largest_frame_arrives_whole),
        node_test(what_was_flushed_has_left),
        node_test(frames_of_one_lane_stay_in_order),
        node_test(what_a_peer_gets_and_gives_is_counted),
        node_test(a_small_frame_overtakes_bulk),
        node_test(small_frames_share_a_link),
        node_test(a_frame_to_nobody_is_counted),
        node_test(a_node_answers_one_it_does_not_know),
        node_test(a_node_that_ends_is_found_gone_once),
        node_test(two_processes_of_one_identity_are_named_and_dial_less_often),
        node_test(a_node_never_seen_is_not_gone),
        node_test(links_come_back_after_a_restart),
        node_test(only_a_process_that_ended_is_gone),
        node_test(an_expired_certificate_is_reported),
        node_test(a_removed_member_is_disconnected),
        node_test(a_removed_node_is_refused_by_name),
        node_test(a_node_from_before_a_recovery_is_told),
        node_test(a_peer_with_another_id_is_not_linked),
        node_test(a_peer_of_an_older_feature_level_is_not_linked),
        node_test(a_linked_peer_is_dropped_when_the_feature_level_rises),
        node_test(a_node_known_by_name_speaks_as_the_id_it_has),
        node_test(a_node_known_by_name_may_not_speak_for_another),
        node_test(an_address_of_another_node_is_not_linked),
        node_test(a_node_of_another_cluster_is_not_linked),
        node_test(a_host_name_is_looked_up),
        node_test(a_peer_is_found_at_its_other_address),
        node_test(a_name_that_is_not_known_leads_to_the_other_address),
        node_test(another_node_at_the_first_address_leads_to_the_other),
        node_test(a_peer_that_moves_is_dialled_where_it_is_now),
        node_test(closing_while_connecting_leaves_nothing),
        node_test(starting_says_what_is_wrong),
        node_test(a_reload_keeps_the_name),
        cmocka_unit_test(a_link_resumes_soon_after_a_cut_where_the_kernel_can),
        node_test(running_out_of_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, world_init, world_done);
}
