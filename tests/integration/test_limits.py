"""Bounds that an operator sets or relies on: bytes of state, of a value, of memory, connections."""

import asyncio
import bisect
import json
import math
import os
import threading
import time

from cluster import Cluster, call_on

MIB = 1 << 20


def put(node, key, value, deadline):
    """The first answer that is not about a change of leader."""
    while True:
        answer = node.call("PUT", f"/v1/kv/{key}", value)
        if answer.status != 503:
            return answer
        assert time.monotonic() < deadline, answer.body
        time.sleep(0.1)


def test_a_full_state_takes_deletes_until_there_is_room():
    with Cluster(config={"state_bytes_max": MIB}) as cluster:
        deadline = time.monotonic() + 300
        pad, kept = "x" * 10_000, []
        for n in range(1000):
            answer = put(cluster.nodes[n % 3], f"full/{n}", {"n": n, "pad": pad}, deadline)
            if answer.status != 204:
                break
            kept.append(n)
        assert answer.status == 507, answer.body
        assert "the state is full" in answer.json["errors"][0]
        assert 50 < len(kept) < 1000
        for node in cluster.nodes:
            refused = put(node, "full/more", {"n": 1}, deadline)
            assert (refused.status, refused.json["errors"]) == (507, answer.json["errors"])
            assert node.call("GET", "/v1/kv/full/0").data["n"] == 0
        # Another node can lead a full cluster, and is known to the others.
        before = cluster.active()
        before.kill()
        after = cluster.active()
        other = next(node for node in cluster.nodes if node not in (before, after))
        while other.call("GET", "/v1/sys/leader").json["leader_address"] != after.url:
            assert time.monotonic() < deadline, "the new leader's address is not known"
            time.sleep(0.1)
        before.start()
        cluster.await_up()
        assert put(before, "full/more", {"n": 1}, deadline).status == 507
        for n in kept[::2]:
            while (answer := cluster.nodes[n % 3].call("DELETE", f"/v1/kv/full/{n}")).status != 204:
                assert answer.status == 503 and time.monotonic() < deadline, answer.body
                time.sleep(0.1)
        assert put(cluster.nodes[1], "full/more", {"n": 2}, deadline).status == 204
        for node in cluster.nodes:
            assert node.call("GET", "/v1/kv/full/more").data == {"n": 2}
            names = node.call("LIST", "/v1/kv/full").data["keys"]
            assert sorted(names) == sorted([str(n) for n in kept[1::2]] + ["more"])
        cluster.await_equal_roots()


def fill(node, deadline):
    """Write below kv/full/ until the state has 100 KiB too much, so that it stays full for a while."""
    for n in range(4):
        assert put(node, f"full/{n}", {"pad": "x" * 290_000}, deadline).status == 204
    assert put(node, "full/4", {"n": 1}, deadline).status == 507


def answered(node, method, path, body=None, token=None):
    """The first answer that is not about a change of leader."""
    deadline = time.monotonic() + 300
    while (answer := node.call(method, path, body, token=token)).status == 503:
        assert time.monotonic() < deadline, answer.body
        time.sleep(0.1)
    return answer


def new_token(node, token=None, **fields):
    answer = answered(node, "POST", "/v1/auth/token/create", fields, token)
    assert answer.status == 200, answer.body
    return answer.json["auth"]


def usable(node, token):
    return answered(node, "GET", "/v1/auth/token/lookup-self", token=token).status == 200


def test_in_a_full_state_everything_can_still_be_ended():
    with Cluster(config={"state_bytes_max": MIB}) as cluster:
        deadline, node = time.monotonic() + 300, cluster.standbys()[0]
        accessors = "/v1/auth/token/accessors"
        tokens = [new_token(node, ttl="1h") for _ in range(4)]
        children = [new_token(node, token["client_token"], ttl="1h") for token in tokens]
        short = new_token(node, ttl="15s")
        limited = new_token(node, num_uses=4)["client_token"]
        cluster.mount("kv2", {"version": "2"})
        settled = {"data": {"a": "1"}}
        for path in ("kv2/data/a", "kv2/data/b"):
            while (answer := answered(node, "PUT", f"/v1/{path}", settled)).status == 400:
                time.sleep(0.1)
            assert answer.status == 200, answer.body
        rules = {"policy": 'path "kv/*" { capabilities = ["read"] }'}
        assert answered(node, "PUT", "/v1/sys/policies/acl/some", rules).status == 204
        fill(node, deadline)

        ends = [
            ("revoke", {"token": tokens[0]["client_token"]}, None),
            ("revoke-accessor", {"accessor": tokens[1]["accessor"]}, None),
            ("revoke-self", None, tokens[2]["client_token"]),
            ("revoke-orphan", {"token": tokens[3]["client_token"]}, None),
        ]
        for path, body, by in ends:
            answer = answered(node, "POST", f"/v1/auth/token/{path}", body, by)
            assert answer.status == 204, (path, answer.body)
        for node in cluster.nodes:
            assert not any(usable(node, token["client_token"]) for token in tokens)
            have = [usable(node, child["client_token"]) for child in children]
            assert have == [False, False, False, True]  # the last one's parent left it
        gone = {token["accessor"] for token in (*tokens, *children[:3], short)}
        while gone & set(answered(node, "GET", accessors + "?list=true").data["keys"]):
            assert time.monotonic() < deadline, "what was revoked or has expired is still there"
            time.sleep(0.2)
        assert answered(node, "GET", "/v1/kv/full/0", token=limited).status == 200
        assert answered(node, "PUT", "/v1/kv/full/more", {"n": 1}, limited).status == 507
        assert answered(node, "DELETE", "/v1/sys/policies/acl/some").status == 204
        assert answered(node, "DELETE", "/v1/kv2/data/a").status == 204
        assert answered(node, "PUT", "/v1/kv2/destroy/b", {"versions": [1]}).status == 204
        assert answered(node, "DELETE", "/v1/kv2/metadata/a").status == 204
        assert answered(node, "PUT", "/v1/kv2/data/c", settled).status == 507
        assert answered(node, "POST", "/v1/sys/rotate").status in (200, 204)
        assert put(node, "full/more", {"n": 1}, deadline).status == 507  # to the end
        sealed = cluster.standbys()[0]
        assert answered(sealed, "POST", "/v1/sys/seal").status == 204
        assert sealed.health() == 503
        assert answered(cluster.active(), "DELETE", "/v1/sys/mounts/kv2").status == 204
        assert answered(cluster.active(), "DELETE", "/v1/kv/full/0").status == 204


def test_a_value_of_exactly_one_mebibyte_is_the_largest(cluster):
    fits = {"x": "y" * (MIB - len('{"x":""}'))}
    for node in cluster.nodes:
        assert node.call("PUT", "/v1/kv/largest", fits).status == 204
        for size in (MIB + 1, 2 * MIB, 5 * MIB):
            longer = {"x": "y" * (size - len('{"x":""}'))}
            answer = node.call("PUT", "/v1/kv/largest", longer)
            assert answer.status == 413 and answer.json["errors"], answer.body[:200]
    for node in cluster.nodes:
        assert node.call("GET", "/v1/kv/largest").data == fits


def memory_bytes(node):
    """The most that the process has held at once."""
    for line in open(f"/proc/{node.process.pid}/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


class LargeWriter(threading.Thread):
    """Writes values of a mebibyte at a key of its own through all nodes in turn."""

    ROUNDS = 6 if os.environ.get("HOLDFAST_LONG") else 3

    def __init__(self, cluster, number):
        super().__init__(daemon=True)
        self.cluster, self.number = cluster, number
        self.acked = self.sent = 0
        self.wrong = []

    @property
    def path(self):
        return f"/v1/kv/large/{self.number}"

    def run(self):
        pad = "z" * (MIB - 64)
        for n in range(1, self.ROUNDS + 1):
            self.sent = n
            node = self.cluster.nodes[(n + self.number) % 3]
            try:
                answer = node.call("PUT", self.path, {"n": n, "pad": pad}, timeout_s=120)
            except OSError:
                continue  # it may or may not be there
            if answer.status == 204:
                self.acked = n
            elif answer.status < 500:
                self.wrong.append((answer.status, answer.body[:200]))


def test_64_connections_with_values_of_a_mebibyte():
    with Cluster(config={"snapshot_log_bytes": 64 * MIB}) as cluster:
        writers = [LargeWriter(cluster, n) for n in range(64)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(300)
            assert not writer.is_alive()
        assert [fault for writer in writers for fault in writer.wrong] == []
        assert sum(writer.acked > 0 for writer in writers) > 32, "hardly anything was taken"
        cluster.await_up()
        for node in cluster.nodes:
            connection = node.connect()
            for writer in writers:
                answer = call_on(connection, "GET", writer.path, None, cluster.token)
                have = answer.data["n"] if answer.status == 200 else 0
                assert answer.status == 200 or writer.acked == 0, answer.body[:200]
                assert writer.acked <= have <= writer.sent
                assert have == 0 or len(answer.data["pad"]) == MIB - 64
            connection.close()
        cluster.await_equal_roots()
        # State 64; a log of all that was written, 192, where snapshots are slow; requests and answers
        # on their way, some of them more than once. On a busy machine it comes to 900.
        print([memory_bytes(node) // MIB for node in cluster.nodes], "MiB at most")
        for node in cluster.nodes:
            assert memory_bytes(node) < 1536 * MIB


class Register:
    """What clients of one key saw: writes and reads with the times around them."""

    def __init__(self):
        self.writes = {0: (-math.inf, -math.inf)}  # number: (sent, acknowledged)
        self.reads = []  # (sent, answered, number)

    def check(self):
        """No read shows what was overwritten before it began, or what was not yet written."""
        done = sorted((end, start) for start, end in self.writes.values() if end < math.inf)
        latest, newest = [], -math.inf  # the latest start among writes that ended by then
        for _, start in done:
            newest = max(newest, start)
            latest.append(newest)
        ends = [end for end, _ in done]
        for start, end, number in self.reads:
            wrote, acknowledged = self.writes[number]
            assert wrote < end, f"{number} was read before it was written"
            before = bisect.bisect_left(ends, start)
            overwritten = latest[before - 1] if before else -math.inf
            assert overwritten <= acknowledged, f"{number} was read after it was overwritten"


async def ask(streams, request):
    """One request on a kept connection: (status, body)."""
    reader, writer = streams
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return int(head.split(b" ")[1]), await reader.readexactly(length)


def request(method, cluster, body=b""):
    return (
        f"{method} /v1/kv/hot HTTP/1.1\r\nHost: a\r\nX-Secrets-Token: {cluster.token}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


async def hot_client(cluster, streams, number, register, deadline):
    """Write once and read once, until both were answered."""
    for method in ("PUT", "GET"):
        body = json.dumps({"n": number}).encode() if method == "PUT" else b""
        while True:
            start = time.monotonic()
            if method == "PUT":
                sent = register.writes.get(number, (start,))[0]
                register.writes[number] = (sent, math.inf)
            status, answer = await ask(streams, request(method, cluster, body))
            now = time.monotonic()
            if status in (200, 204, 404):
                break
            assert status >= 500 and now < deadline, (status, answer)
            await asyncio.sleep(0.2)
        if method == "PUT":
            register.writes[number] = (sent, now)
        else:
            register.reads.append((start, now, json.loads(answer)["data"]["n"]))


async def hot_key(cluster, count, register):
    deadline = time.monotonic() + 400
    gate = asyncio.Semaphore(100)  # handshakes at once

    async def connect(number):
        async with gate:
            port = cluster.nodes[number % 3].client_port
            return await asyncio.wait_for(
                asyncio.open_connection(
                    "127.0.0.1", port, ssl=cluster.tls, server_hostname="127.0.0.1",
                    ssl_handshake_timeout=120,
                ),
                120,
            )

    streams = await asyncio.gather(*(connect(n) for n in range(1, count + 1)))
    await asyncio.gather(
        *(hot_client(cluster, s, n + 1, register, deadline) for n, s in enumerate(streams))
    )
    for _, writer in streams:
        writer.transport.abort()


def test_two_thousand_connections_on_one_key():
    count, register = 2000, Register()
    with Cluster() as cluster:
        assert cluster.active().call("PUT", "/v1/kv/hot", {"n": 0}).status == 204
        asyncio.run(hot_key(cluster, count, register))
        assert len(register.writes) == count + 1 and len(register.reads) == count
        register.check()
        last = {node.call("GET", "/v1/kv/hot").data["n"] for node in cluster.nodes}
        assert len(last) == 1
        cluster.await_equal_roots()
