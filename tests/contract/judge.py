"""What is wrong with recorded calls by the OpenAPI document: each function gives sentences.

A call is a pair of the operation it asked for (None: none) and its record."""

import json

import routes
import schema

ENVELOPE = {"request_id", "lease_id", "renewable", "lease_duration", "data", "wrap_info", "warnings",
            "auth", "mount_type"}
# The replies of an operation to a client without the right.
REFUSED = {"secrets": {403, 400, 404, 413, 503}, "registry": {400, 401, 403, 404, 413, 429, 500, 503},
           "scheduler": {400, 403, 404, 413, 429, 500, 503}}


def is_wrapped(body):
    return isinstance(body, dict) and bool(body.get("wrap_info")) and set(body) <= ENVELOPE


def is_failed_batch(status, body):
    """Whether the reply has the results of a batch of which an item failed."""
    data = body.get("data") if isinstance(body, dict) else None
    return status >= 400 and isinstance(data, dict) and "batch_results" in data


def beside_data(body):
    """Members that stand beside those of an envelope must be those of its data."""
    data = body.get("data") if isinstance(body.get("data"), dict) else {}
    return [f"$.{name}: is not the member of data" for name, value in body.items()
            if name not in ENVELOPE | {"errors"} and (name not in data or data[name] != value)]


def fault(document, op, record):
    """What is wrong with one answer, or None."""
    status, body = record["status"], record["body"]
    response = op.response(document, status)
    if status in (307, 429) and response is None:
        return None
    if response is None:
        if op.dr_token and status == 204:
            return None  # a write; the reply belongs to the reads of a DR secondary
        return f"{status} is not said"
    content = response.get("content", {})
    if record["method"] == "HEAD" or body is None:
        return None
    if not content or not body:
        return "a body" if body else "no body" if content else None
    raw = [kind for kind in content if kind != "application/json"]
    if any((record["type"] or "").startswith(kind) for kind in raw):
        return None
    if record["type"] != "application/json" or "application/json" not in content:
        return f"type {record['type']}"
    value = json.loads(body)
    if is_wrapped(value) or is_failed_batch(status, value):
        return None
    wrong = schema.check(document, content["application/json"]["schema"], value)
    if isinstance(value, dict) and ENVELOPE <= set(value):
        wrong += beside_data(value)
    return wrong or None


def off_schema(document, calls):
    faults = {}
    for op, record in calls:
        wrong = fault(document, op, record) if op is not None else None
        if wrong:
            faults.setdefault(f"{op} {record['status']} ({record['client']})",
                              f"/{record['path']}: {wrong} {(record['body'] or '')[:300]}")
    return [f"{op}: {text}" for op, text in sorted(faults.items())]


def has_list_of_errors(record):
    try:
        body = json.loads(record["body"])
    except ValueError:
        return False
    return isinstance(body, dict) and isinstance(body.get("errors"), list)


def is_bare_text(record):
    return record["type"] == "text/plain; charset=utf-8" and record["body"].strip() not in ("", "{}")


EXPLAINS = {"secrets": has_list_of_errors, "registry": is_bare_text, "scheduler": is_bare_text}


def unexplained(calls, api="secrets"):
    """Replies of 400 or above without an error in the form of the API, whatever was asked for."""
    return sorted({
        f"{r['method']} {r['path']}: {r['status']} {r['body'][:200]}" for _, r in calls
        if r["status"] >= 400 and r["method"] != "HEAD" and r["body"] is not None
        and not EXPLAINS[api](r)
    })


NO_OPERATION = ("HELP", "OPTIONS")  # of any path: what can be asked, and by which pages


def unknown(calls):
    """What is served but not in the document."""
    return sorted({
        f"{r['method']} {r['path']}"
        for op, r in calls
        if op is None and r["status"] < 300 and r["engine"] is not None
        and routes.method_of(r) not in NO_OPERATION
    })


# Operations that cannot succeed with the modules that are built in. tests/unit/sample calls each of
# them with success.
# Called by a node itself, without HTTP: every client is refused.
INTERNAL = {"POST /sys/seal/rewrap"}
# Their success is a WebSocket, which no record has: an ordinary request is a 400.
UPGRADES = {"GET /client/allocation/{id}/exec", "GET /client/node/link", "GET /client/node/session/{session}"}
# A refusal that does not tell whether the object exists: 500, as upstream has it.
HIDES = {"GET /allocation/{id}"}
NEEDS_A_MODULE = {
    "POST /sys/replication/dr/primary/bootstrap": "a secondary, which calls it at the cluster port",
    "POST /sys/auth/{path}": "an auth method besides token",
    "POST /sys/leases/renew": "leases that are no tokens",
    "POST /sys/leases/renew/{lease_id}": "leases that are no tokens",
    "POST /sys/renew": "leases that are no tokens",
    "POST /sys/renew/{lease_id}": "leases that are no tokens",
}


def never_called(found, calls):
    good = {
        op for op, r in calls
        if op is not None and (r["status"] < 300
                               or (str(op) in NEEDS_A_MODULE and r["status"] == 400)
                               or (str(op) in UPGRADES and r["status"] in (400, 403, 404))
                               or (str(op) in INTERNAL and r["status"] == 403)
                               or (op.astray and 400 <= r["status"] < 500))
    }
    return [str(op) for op in found if op not in good]


def untried(found, calls, api="secrets"):
    """Who was not tried with no token, a powerless one and a good one, or not refused."""
    seen = {}
    for op, r in calls:
        if op is not None:
            seen.setdefault((op, r["token"]), set()).add(r["status"])
    wrong = []
    for op in found:
        for kind in ("none", "powerless", "good"):
            codes = seen.get((op, kind), set())
            if not codes:
                wrong.append(f"{op}: not tried with {kind}")
            elif kind == "none" and op.dr_token:
                if not codes & {400, 403}:
                    wrong.append(f"{op}: never refused without a token")
            elif kind != "good" and op.auth == "token" and not codes <= REFUSED[api]:
                wrong.append(f"{op}: {sorted(codes)} with {kind}")
            elif kind != "good" and op.auth == "token" and 403 not in codes and str(op) not in HIDES:
                wrong.append(f"{op}: never refused with {kind}")
            elif kind == "none" and op.auth == "none" and codes == {403} and str(op) not in INTERNAL:
                wrong.append(f"{op}: refused without a token")
    return wrong
