"""Operations of the OpenAPI document, and the operation that each recorded request called."""

import re
import urllib.parse

import schema

VERBS = ("get", "head", "post", "put", "patch", "delete")
HOME = "secrets"  # the API whose paths no other document has
PLACES = {"": "/", "kv1": "/kv/", "kv2": "/secret/", "cubbyhole": "/cubbyhole/",
          "transform": "/transform/", "ssh": "/ssh/", "userpass": "/auth/userpass/",
          "approle": "/auth/approle/"}


def ranks(path, many):
    """How literal a path is, from the first segment on: the most literal one serves a request (route_index.h)."""
    segments = path.strip("/").split("/")
    last = len(segments) - 1
    kind = {True: lambda at: 3 if at == last else 2, False: lambda at: 1}
    return tuple(kind[name[1:-1] in many](at) if name.startswith("{") else 0
                 for at, name in enumerate(segments))


class Operation:
    def __init__(self, path, verb, item):
        self.spec, self.path, self.verb = item[verb], path, verb
        self.method = "HEAD" if verb == "head" else self.spec["x-holdfast-method"]
        self.auth = self.spec["x-holdfast-auth"]
        self.dr_token = self.spec.get("x-holdfast-dr-token", False)
        self.astray = self.spec.get("x-holdfast-astray", False)
        many = {p["name"] for p in item.get("parameters", ()) if "slashes" in p.get("description", "")}
        self.rank = (self.astray, ranks(path, many))
        pattern = ""
        for literal, name in re.findall(r"([^{]+)|\{([^}]*)\}", path.rstrip("/")):
            pattern += re.escape(literal) if literal else "(.*)" if name in many else "([^/]+)"
        # "{path}" may be nothing, and then lacks the slash before it too.
        pattern = re.sub(r"/\(\.\*\)$", "(?:/.*)?", pattern)
        self.pattern = re.compile(pattern + "/?")

    def __str__(self):
        return f"{self.method} {self.path}"

    def body(self):
        return {} if self.method in ("POST", "PUT", "PATCH") else None

    def sample(self):
        path = re.sub(r"\{[^}]*\}", "sample", self.path)
        return "/v1" + (path.rstrip("/") if self.method != "LIST" else path)

    def response(self, document, status):
        responses = self.spec["responses"]
        found = responses.get(str(status))
        if found is None and (status >= 400 or "$ref" not in responses["default"]):
            found = responses["default"]
        return found and schema.resolve(document, found)


class Operations(list):
    """All operations of a document."""

    def __init__(self, operations):
        super().__init__(operations)
        self.chosen = {}  # (path, methods, base): the operation, or None

    def choose(self, path, methods, base):
        """The first row that fits, as the server chooses."""
        asked = path, methods, base
        if asked not in self.chosen:
            fits = [op for op in self if op.method in methods and op.path.startswith(base)
                    and op.pattern.fullmatch(path)]
            self.chosen[asked] = min(fits, key=lambda op: op.rank, default=None)
        return self.chosen[asked]


def operations(document):
    return Operations(
        Operation(path, verb, item)
        for path, item in document["paths"].items()
        for verb in VERBS
        if verb in item
    )


def api_of(record, firsts):
    """The API that a record was for: that of its listener, or the one whose paths begin so."""
    if record["api"] is not None:
        return record["api"]
    first = record["path"].split("/")[0]
    return next((api for api, segments in firsts.items() if first in segments), HOME)


def of_api(api, documents, records):
    """The records of calls for one API, with the kind of their token. Only the home has mounts."""
    firsts = {name: {path.split("/")[1] for path in document["paths"]}
              for name, document in documents.items() if name != HOME}
    mine = [record | {"token": record["tokens"][api]} for record in records
            if api_of(record, firsts) == api]
    fixed = {} if api == HOME else {"engine": ""}
    return [r | fixed | ({"rest": r["path"]} if fixed else {}) for r in mine]


def method_of(record):
    query = urllib.parse.parse_qs(record["query"])
    if record["method"] == "GET" and "help" in query:
        return "HELP"
    truths = ("1", "t", "T", "true", "TRUE", "True")
    if record["method"] == "SCAN" or (
        record["method"] == "GET"
        and any(query.get(name, ["0"])[0] in truths for name in ("list", "scan"))
    ):
        return "LIST"
    return record["method"]


def match(found, record):
    """The operation a record asked for, as the server chooses: the first row that fits."""
    base = PLACES.get(record["engine"])
    if base is None:
        return None
    path, method = base + record["rest"], method_of(record)
    methods = (method, "POST") if method == "PUT" else (method,)
    return found.choose(path, methods, base)
