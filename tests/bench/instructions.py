"""`tests/bench/run instructions`: instructions per request against the figures kept in
instructions.txt; ends with "N passed, N failed". With --update it writes that file instead."""

import itertools
import json
import platform
import re
import subprocess

import callgrind
from nodes import TOP, VALUE, VALUE2, Nodes
from wire import Connection, request

FILE = TOP / "tests" / "bench" / "instructions.txt"
KEYS = 20  # few: warming up gives each all the versions it may have
MORE = 0.02  # of which one is noise: the order in which threads wake each other
RUNS = 5  # of which --update keeps the highest: hash seeds, drawn by each process, cost up to 2 %
MORE_ELSEWHERE = 0.30  # where compiler and libraries differ from those of the file
HEAD = """\
# Instructions a request costs a node that is its whole cluster: one connection, one request after
# the other, KV values of 64 bytes, a token with one policy.
# Kept by `tests/bench/run instructions --update`.
"""


def token_pairs(token, connection):
    """By turns, a token is created and revoked: the figure is the mean of both, with the work that
    the node does later because of them. The server draws the bearer, as for most clients."""
    def make(i, made=itertools.count()):
        if next(made) % 2 == 0:
            return request("POST", "/v1/auth/token/create", token, '{"ttl":"1h"}')
        bearer = json.loads(connection.body)["auth"]["client_token"]
        return request("POST", "/v1/auth/token/revoke", token, f'{{"token":"{bearer}"}}')
    return make


def requests(token, connection):
    """What is counted, in this order: reads find what the writes before them left."""
    def kv(method, path, body=""):
        return lambda i: request(method, f"/v1/{path}{i % KEYS}", token, body)

    return {
        "health": lambda i: request("GET", "/v1/sys/health"),
        "write_v1": kv("PUT", "kv/bench/", VALUE),
        "write_v2": kv("PUT", "kv2/data/bench/", VALUE2),
        "read_v1": kv("GET", "kv/bench/"),
        "read_v2": kv("GET", "kv2/data/bench/"),
        "list_v2": lambda i: request("LIST", "/v1/kv2/metadata/bench", token),
        "lookup_self": lambda i: request("GET", "/v1/auth/token/lookup-self", token),
        "token": token_pairs(token, connection),
    }


def measure(most):
    """{name: instructions}; `most` has those above which a figure is looked at more closely."""
    with Nodes(size=1, config={"workers": 1}, start=callgrind.start) as cluster:
        node = cluster.nodes[0]
        cluster.await_feature_level()  # what is stored has its newest form
        connection = Connection(node.client_port)
        return {
            name: callgrind.per_request([node], connection, make, most.get(name))
            for name, make in requests(cluster.client, connection).items()
        }


def here():
    """The system, compiler and processor that the figures depend on."""
    release = platform.freedesktop_os_release()
    gcc = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=True)
    return f"{release['ID']} {release['VERSION_ID']}, gcc {gcc.stdout.strip()}, {platform.machine()}"


def kept():
    """The platform and the figures of the file."""
    text = FILE.read_text()
    figures = {name: int(n) for name, n in re.findall(r"^(\w+) +(\d+)$", text, re.M)}
    return re.search(r"^# on (.*)$", text, re.M)[1], figures


def update(found):
    lines = "".join(f"{name:12} {n:9.0f}\n" for name, n in found.items())
    FILE.write_text(f"{HEAD}# on {here()}\n{lines}")
    print(lines, end="")
    return 0


def bounds():
    """The figures of the file, and how much more a request may cost here."""
    platform_kept, figures = kept()
    return figures, MORE if platform_kept == here() else MORE_ELSEWHERE


def compare(found):
    figures, more = bounds()
    failed = len(figures.keys() - found.keys())
    print(f"{'':12} {'kept':>9} {'now':>9}   at most {100 * more:+.0f} %")
    for name in found:
        change = found[name] / figures[name] - 1 if name in figures else float("inf")
        good = change <= more
        failed += not good
        print(f"{name:12} {figures.get(name, 0):9} {found[name]:9.0f}   {100 * change:+5.1f} %"
              f"{'' if good else '  FAILED'}")
    if failed:
        print("find out why; if it is worth it: tests/bench/run instructions --update")
    print(f"{len(found) - failed} passed, {failed} failed")
    return int(failed > 0)


def main(arguments):
    assert arguments in ([], ["--update"]), "instructions [--update]"
    if arguments:
        found = [measure({}) for _ in range(RUNS)]
        return update({name: max(each[name] for each in found) for name in found[0]})
    figures, more = bounds()
    most = {name: n * (1 + more / 2) for name, n in figures.items()}
    found = measure(most)
    if any(found[name] > n * (1 + more) for name, n in figures.items() if name in found):
        again = measure(most)
        found = {name: min(n, again[name]) for name, n in found.items()}
    return compare(found)
