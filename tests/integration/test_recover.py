"""A cluster again out of what is left after a majority is lost for good."""

import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from cluster import HOLDFAST, PATIENCE_S, Cluster
from test_members import await_voters


def recover(node, *words, code=0):
    """The command on the data directory of a node. Both outputs as one text."""
    done = subprocess.run([HOLDFAST, "operator", "raft", "recover", *words, str(node.data)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == code, done.stdout
    return done.stdout


def position(node):
    return recover(node, "-position").strip()


def files(node):
    """{path: content} of all that a node keeps."""
    return {str(path.relative_to(node.data)): path.read_bytes()
            for path in sorted(node.data.rglob("*")) if path.is_file()}


def put(node, first, last):
    for n in range(first, last):
        answer = node.call("PUT", f"/v1/kv/recover/{n}", {"n": n})
        assert answer.status == 204, answer.body


def check(node, first, last):
    for n in range(first, last):
        answer = node.call("GET", f"/v1/kv/recover/{n}")
        assert answer.status == 200 and answer.data["n"] == n, (node.name, n, answer.body)


def lose(*nodes):
    """The machines are gone."""
    for node in nodes:
        if node.alive:
            node.kill()
        shutil.rmtree(node.data)


def await_said(node, text, since=0):
    deadline = time.monotonic() + PATIENCE_S
    while text not in node.log_text()[since:]:
        assert time.monotonic() < deadline, node.log_text()[-2000:]
        assert node.alive, node.log_text()[-2000:]
        time.sleep(0.05)


def test_the_last_of_three_nodes_becomes_a_cluster_again():
    with Cluster() as cluster:
        one, two, three = cluster.nodes
        put(cluster.active(), 0, 50)
        cluster.await_equal_roots()
        one.stop()
        lose(two, three)
        before = files(one)
        shown = recover(one)
        assert "last entry" in shown and "node2 was not mentioned" in shown
        shown = recover(one, "-lost=node2", "-lost=node3")
        assert "Dropped from the cluster: node2 node3" in shown and "Nothing was changed" in shown
        assert files(one) == before
        recover(one, "-lost=node2", "-lost=node3", "-apply")
        assert {name: content for name, content in files(one).items()
                if name.startswith("raft/")} == {
                    name: content for name, content in before.items() if name.startswith("raft/")}
        dumped = subprocess.run([HOLDFAST, "dump", "log", str(one.data)], text=True, check=True,
                                capture_output=True).stdout
        assert "l/core/recovered/0000000000000003" in dumped
        one.start()
        cluster.await_health({200}, [one])
        put(one, 50, 60)
        check(one, 0, 60)
        two.start()
        three.start()
        cluster.await_up()
        for node in cluster.nodes:
            check(node, 0, 60)
        await_voters(cluster, ["node1", "node2", "node3"])
        one.stop()
        put(cluster.active(), 60, 70)


def test_the_better_of_two_survivors_is_recovered():
    """Five nodes lose three. Each acknowledged write is on one of the two that are left."""
    with Cluster(size=5) as cluster:
        active = cluster.active()
        others = [node for node in cluster.nodes if node is not active]
        behind, best, *lost = others
        lost.append(active)
        put(active, 0, 20)
        cluster.await_equal_roots()
        behind.kill()
        lost[0].kill()  # each write needs the three nodes that are left
        put(active, 20, 60)
        for node in (active, lost[1], best):
            node.kill()
        lose(*lost)
        names = [f"-lost={node.name}" for node in lost]
        words = {node: position(node) for node in (behind, best)}

        assert "goes on to entry" in recover(behind, f"-survivor={words[best]}", *names, "-apply",
                                             code=1)
        assert f"{behind.name} was not mentioned" in recover(best, *names, "-apply", code=1)
        typo = words[behind][:-1] + ("0" if words[behind][-1] != "0" else "1")
        assert "mistyped" in recover(best, f"-survivor={typo}", *names, "-apply", code=1)
        assert "no position" in recover(best, "-survivor=nonsense", code=1)
        assert "no member" in recover(best, "-lost=node9", code=1)
        assert "named twice" in recover(best, "-lost=" + behind.name, "-lost=" + behind.name, code=1)
        assert "this node" in recover(best, f"-lost={best.name}", f"-survivor={words[behind]}",
                                      *names, "-apply", code=1)
        recover(best, f"-survivor={words[behind]}", *names, "-apply")
        assert "recovered already" in recover(best, f"-survivor={words[behind]}", *names, "-apply",
                                              code=1)
        best.start()
        cluster.await_health({200}, [best])
        assert "in use" in recover(best, code=1)
        check(best, 0, 60)

        # the other survivor
        assert "-survivor" in recover(behind, "-join", "-apply", code=1)
        recover(behind, "-join", f"-survivor={words[best]}")
        recover(behind, "-join", f"-survivor={words[best]}", "-apply")
        for node in (behind, *lost):
            node.start()
        cluster.await_up()
        for node in cluster.nodes:
            check(node, 0, 60)
        assert (behind.data / "raft" / "identity").exists()


def test_a_command_killed_at_any_moment_is_run_again():
    with Cluster() as cluster:
        one = cluster.nodes[0]
        put(cluster.active(), 0, 50)
        cluster.await_equal_roots()
        for node in cluster.nodes:
            node.kill()
        words = [HOLDFAST, "operator", "raft", "recover", "-lost=node2", "-lost=node3", "-apply",
                 str(one.data)]
        killed = 0
        for ms in range(0, 100, 4):
            with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
                time.sleep(ms / 1000)
                run.kill()
                killed += run.wait() == -signal.SIGKILL
        assert killed
        again = subprocess.run(words, capture_output=True, text=True, check=False)
        assert again.returncode == 0 or "recovered already" in again.stderr, again.stderr
        assert "recovered already" in recover(one, code=1)
        one.start()
        cluster.await_health({200}, [one])
        check(one, 0, 50)
        assert len(list(one.data.glob("raft*"))) == 2  # nothing is left of the other attempts


def test_a_majority_needs_no_recovery():
    with Cluster() as cluster:
        cluster.await_equal_roots()
        for node in cluster.nodes:
            node.stop()
        one, two, three = cluster.nodes
        word = position(two)
        assert "2 of 3 voters are left" in recover(
            one, f"-survivor={word}", f"-lost={three.name}", "-apply", code=1)
        for node in cluster.nodes:
            node.start()
        cluster.await_up()


def test_a_member_that_comes_back_from_the_dead_is_refused_and_says_so():
    with Cluster() as cluster:
        one, two, three = cluster.nodes
        put(cluster.active(), 0, 20)
        cluster.await_equal_roots()
        for node in cluster.nodes:
            node.kill()
        recover(one, "-lost=node2", "-lost=node3", "-apply")
        one.start()
        cluster.await_health({200}, [one])
        put(one, 20, 30)
        # two of the former three: by their own log they are a majority
        two.start()
        three.start()
        for node in (two, three):
            await_said(node, "the cluster was recovered without this node's data")
        cluster.await_health({530}, [two, three])
        put(one, 30, 40)
        for node in (two, three):
            node.kill()
            mark = len(node.log_text())  # what the first start said does not count
            node.start()
            await_said(node, "the cluster was recovered without this node's data", mark)
            cluster.await_health({530}, [node])
            assert "recover -join" in node.log_text()[mark:]
            assert "was removed from the cluster" not in node.log_text()[mark:]
            node.stop()
        # what they have is given up, or not
        assert "recovered without node2" in recover(two, "-survivor=" + position(three), "-lost=node1", "-apply",
                                        code=1)
        recover(two, "-join", "-lost=node2", "-apply")
        recover(three, "-join", "-lost=node3", "-apply")
        two.start()
        three.start()
        cluster.await_up()
        for node in cluster.nodes:
            check(node, 0, 40)


@pytest.mark.parametrize("part", ["log", "slot", "identity", "founding"])
def test_damage_is_named(part):
    with Cluster() as cluster:
        one = cluster.nodes[0]
        put(cluster.active(), 0, 50)
        cluster.await_equal_roots()
        for node in cluster.nodes:
            node.kill()
        path = {"log": sorted(one.data.glob("raft/log/*.seg"))[0], "slot": one.data / "raft/slot",
                "identity": one.data / "raft/identity", "founding": one.data / "founding"}[part]
        content = bytearray(path.read_bytes())
        for at in range(0, 8192 if part != "founding" else 8, 512 if part == "log" else 4):
            if part != "log" or 1024 <= at < 4096:
                content[at] ^= 0x10
        path.write_bytes(content)
        before = files(one)
        said = recover(one, "-lost=node2", "-lost=node3", "-apply", code=1)
        assert part in said and re.search("damaged|corrupt|does not match", said), said
        assert files(one) == before
        assert not list(one.data.glob("raft-*"))


def test_the_files_of_another_user_are_not_written(tmp_path):
    """They would belong to the wrong one, and the node could not read them."""
    other = tmp_path
    if os.geteuid() == 0:
        os.chown(other, 65534, 65534)
    else:
        other = "/"
    done = subprocess.run([HOLDFAST, "operator", "raft", "recover", "-apply", str(other)], text=True,
                          capture_output=True, check=False)
    assert done.returncode == 1 and "run this command as that user" in done.stderr


def test_a_directory_without_a_replica_is_refused(tmp_path):
    done = subprocess.run([HOLDFAST, "operator", "raft", "recover", str(tmp_path)], text=True,
                          capture_output=True, check=False)
    assert done.returncode == 1 and "no node has run" in done.stderr
    done = subprocess.run([HOLDFAST, "operator", "raft", "recover", str(tmp_path / "none")],
                          text=True, capture_output=True, check=False)
    assert done.returncode == 1 and not (tmp_path / "none").exists()


def test_shares_unseal_a_recovered_node():
    class Shared(Cluster):
        init_body = {"secret_shares": 3, "secret_threshold": 2}

        def init(self):
            self.await_formed()
            made = self.nodes[0].call("PUT", "/v1/sys/init", self.init_body).json
            self.token, self.keys = made["root_token"], made["keys"]
            for node in self.nodes:
                self.unseal(node)
            self.await_up()
            self.mount("kv", {"version": "1"})

        def unseal(self, node):
            for key in self.keys[:2]:
                answer = node.call("PUT", "/v1/sys/unseal", {"key": key})
                assert answer.status == 200, answer.body

    with Shared(config={"seal": None}) as cluster:
        one, two, three = cluster.nodes
        put(cluster.active(), 0, 20)
        cluster.await_equal_roots()
        one.stop()
        lose(two, three)
        recover(one, "-lost=node2", "-lost=node3", "-apply")
        one.start()
        cluster.await_health({503}, [one])
        cluster.unseal(one)
        cluster.await_health({200}, [one])
        check(one, 0, 20)
        put(one, 20, 30)
