"""The audit trail of every cluster of the tests, joined with the calls that its nodes answered.

Each node of a cluster has an audit device, a file in the node's folder. The search for leaks
(leaks.py) reads that file too. When a cluster ends, every answered call must stand in the trail of
one node: one record of the request, then one of the reply. Standard library only."""

import collections
import json
import urllib.parse

NAME = "of-all-tests"
FILE = "audit.log"
PATH_MAX = 2000  # what of a path is compared: a record cuts one that is too long
PROBLEMS_MAX = 20  # shown for one cluster

# Not recorded: probes, as upstream.
UNRECORDED = (
    "sys/health",
    "sys/leader",
    "sys/seal-status",
    "sys/init",
    "sys/replication/status",
    "sys/replication/dr/status",
    "sys/replication/performance/status",
)

watched = {}  # port of a node: the calls of its cluster


class Calls:
    """The answered calls of one cluster."""

    def __init__(self):
        self.answered = []
        self.kills = collections.Counter()  # name of a node: how often it was killed
        self.nameless = collections.Counter()  # (path, status) of answers that have no id

    def note(self, port, method, target, answer):
        path = path_of(target)
        # an unwrapped answer has the id of the request that made it
        unwrapped = path == "sys/wrapping/unwrap" and answer.status == 200
        request_id = None if unwrapped else id_of(answer)
        if request_id and answer.status < 500:
            self.answered.append((port, method, path, answer.status, request_id))
        elif unwrapped or answer.status == 204:
            self.nameless[path, answer.status] += 1


def id_of(answer):
    """The id in the head of an error or in the envelope of a success."""
    told = answer.headers.get("X-Secrets-Request-ID")
    if told is None and answer.status == 200 and (answer.body or b"").startswith(b"{"):
        envelope = json.loads(answer.body)
        told = envelope.get("request_id") if "lease_duration" in envelope else None
    return told


def path_of(target):
    """The path as records show it, whichever way it is spelled."""
    raw = urllib.parse.unquote(target.partition("?")[0], errors="replace")
    path = "/".join(part for part in raw.split("/") if part)
    return path.removeprefix("v1/")


def watch(port, calls):
    watched[port] = calls


def note(port, method, target, answer):
    if port in watched:
        watched[port].note(port, method, target, answer)


def device(folder):
    """The block of a node's configuration that declares its audit device."""
    return {"file": {NAME: {"options": {"file_path": str(folder / FILE), "write_timeout": "60s"}}}}


class Trail:
    """All records of all nodes of a cluster, also of nodes that left it."""

    def __init__(self, folder):
        self.kinds = collections.defaultdict(list)  # id of a request: [(node, kind of the record)]
        self.paths = {}
        self.ended = collections.Counter()  # (path, status) of the records of replies
        self.problems = []
        self.torn = collections.defaultdict(list)  # name of a node: lines that are no record
        for path in sorted(folder.glob(f"*/{FILE}")):
            self.read(path.parent.name, path)

    def read(self, name, path):
        with open(path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    record = json.loads(line)
                except ValueError:
                    self.torn[name].append(f"line {number} is no record: {line[:200]!r}")
                    continue
                request_id = record["request"]["id"]
                self.kinds[request_id].append((name, record["type"]))
                self.paths[request_id] = record["request"].get("path", "")
                if record["type"] == "response":
                    place = path_of(self.paths[request_id])[:PATH_MAX]
                    self.ended[place, record["response"]["http_status"]] += 1

    def judge(self, calls):
        # The kernel may end a write between two pages when its process is killed: one line a kill.
        for name, lines in self.torn.items():
            self.problems += [f"{name}: {line}" for line in lines[calls.kills[name]:]]
        for port, method, path, status, request_id in calls.answered:
            if path in UNRECORDED:
                continue
            found = [kind for _, kind in self.kinds.get(request_id, [])]
            if status == 429 and not found:  # as the settings of the rate limits say
                continue
            places = {name for name, _ in self.kinds.get(request_id, [])}
            # A repeated reply has the id of the first try, whose node ended before it recorded one.
            if calls.kills and found == ["request"] and self.ended[path[:PATH_MAX], status]:
                continue
            if found != ["request", "response"] or len(places) != 1:
                self.problems.append(
                    f"{method} {path} at port {port}, answered with {status}: records {found} "
                    f"of {sorted(places)}")
            elif path_of(self.paths[request_id])[:PATH_MAX] != path[:PATH_MAX]:
                self.problems.append(
                    f"{method} {path}: recorded with the path {self.paths[request_id]!r}")
        for (path, status), count in calls.nameless.items():
            if path not in UNRECORDED and self.ended[path[:PATH_MAX], status] < count:
                self.problems.append(f"{path}: {count} answers with {status}, recorded "
                                     f"{self.ended[path[:PATH_MAX], status]} times")
        for request_id, records in self.kinds.items():
            kinds = [kind for _, kind in records]
            if kinds[0] != "request" or len(kinds) > 2:
                self.problems.append(f"records {kinds} of {self.paths[request_id]!r}")
        return self.problems


def of_cluster(cluster):
    """What the trail of a cluster lacks or has too much."""
    problems = Trail(cluster.dir).judge(cluster.calls)
    more = [f"and {len(problems) - PROBLEMS_MAX} more"] if len(problems) > PROBLEMS_MAX else []
    return [f"trail: {text}" for text in problems[:PROBLEMS_MAX]] + more
