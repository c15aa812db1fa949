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

# Not recorded: probes, as upstream. Of sys/init only reads are.
UNRECORDED = (
    "livez",
    "readyz",
    "activez",
    "sys/health",
    "sys/leader",
    "sys/seal-status",
    "sys/replication/status",
    "sys/replication/dr/status",
    "sys/replication/performance/status",
)
# Statuses of replies that the HTTP server gives before it knows a path.
UNREAD = (408, 412, 413, 414, 431)

ROOTS = ("v1/", "api/v2/", ".well-known/", "app/", "lantern/")  # of the APIs; the last one is of the sample

watched = {}  # port of a node: the calls of its cluster


class Calls:
    """The answered calls of one cluster."""

    def __init__(self):
        self.answered = []
        self.kills = collections.Counter()  # name of a node: how often it was killed
        self.nameless = collections.Counter()  # (path, status) of answers that have no id

    def note(self, port, method, target, answer):
        path = path_of(target)
        if is_unrecorded(method, path):
            return
        # an unwrapped answer has the id of the request that made it
        unwrapped = path == "sys/wrapping/unwrap" and answer.status == 200
        request_id = None if unwrapped else id_of(answer)
        if request_id and answer.status < 500:
            self.answered.append((port, method, path, answer.status, request_id))
        elif answer.status < 500 and not request_id and not ended_early(method, answer):
            self.nameless[path, answer.status] += 1


def is_unrecorded(method, path):
    return path in UNRECORDED or (path == "sys/init" and method in ("GET", "HEAD"))


def ended_early(method, answer):
    """Whether an answer without an id is one that no record is made for: a redirect, a preflight, a
    refusal by a rate limit, and what the HTTP server or a listener refuses by itself. The secrets
    service itself gives each of its errors an id; the errors of other APIs are no JSON."""
    preflight = method == "OPTIONS" and "Access-Control-Allow-Methods" in answer.headers
    is_json = answer.headers.get("Content-Type", "").startswith("application/json")
    return (answer.status in (307, 429, *UNREAD) or preflight
            or (answer.status >= 400 and is_json))


def id_of(answer):
    """The id in the head of an error or in the envelope of a success."""
    told = answer.headers.get("X-Secrets-Request-ID")
    if told is None and 200 <= answer.status < 300 and (answer.body or b"").startswith(b"{"):
        envelope = json.loads(answer.body)
        told = envelope.get("request_id") if "lease_duration" in envelope else None
    return told


def spelled(path):
    """The path in one of its spellings."""
    raw = urllib.parse.unquote(path, errors="replace")
    return "/".join(part for part in raw.split("/") if part)


def path_of(target):
    """The path as records show it, whichever way it is spelled: below the root of an API."""
    path = spelled(target.partition("?")[0])
    root = next((root for root in ROOTS if path.startswith(root)), "")
    return path.removeprefix(root)


def recorded_path(path):
    """A record has the whole path only where no API has it."""
    return path_of(path) if path.startswith("/") else spelled(path)


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
                    place = recorded_path(self.paths[request_id])[:PATH_MAX]
                    self.ended[place, record["response"]["http_status"]] += 1

    def judge(self, calls):
        # The kernel may end a write between two pages when its process is killed: one line a kill.
        for name, lines in self.torn.items():
            self.problems += [f"{name}: {line}" for line in lines[calls.kills[name]:]]
        for port, method, path, status, request_id in calls.answered:
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
            elif recorded_path(self.paths[request_id])[:PATH_MAX] != path[:PATH_MAX]:
                self.problems.append(
                    f"{method} {path}: recorded with the path {self.paths[request_id]!r}")
        named = collections.Counter(
            (path[:PATH_MAX], status) for _, _, path, status, _ in calls.answered)
        for (path, status), count in calls.nameless.items():
            place = path[:PATH_MAX], status
            if self.ended[place] < count + named[place]:
                self.problems.append(f"{path}: {count} answers with {status} and no id, and "
                                     f"{named[place]} with one; recorded {self.ended[place]} times")
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
