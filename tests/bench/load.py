"""Load on a server: wrk for closed loops, bench_open for a fixed rate or number of requests.

Both are given the same bytes of one request, in which eight '#' become a number."""

import base64
import json
import os
import re
import ssl
import subprocess
import urllib.request

from measure import SECONDS
from nodes import BENCH, TIED, VALUE, VALUE2
from wire import request

NUMBER = "########"
CONNECTIONS = 64
KEYS = 10000
PROGRAMS = BENCH / "tests" / "bench"

SCRIPT = """
local before, after = %s, %s
local n = 0
request = function()
    n = n + 1
    return before .. string.format("%%08d", n %% %d) .. after
end
"""

PAIRS = """
local create, before, after = %s, %s, %s
local made = {}
request = function()
    local token = table.remove(made)
    return token and before .. token .. after or create
end
response = function(status, headers, body)
    made[#made + 1] = body:match('"client_token":"([^"]+)"')
end
"""


def base64_of(text):
    return base64.b64encode(text.encode()).decode()


# As many bytes of key and value as ours have. Digits are base64 too, whatever they stand for.
ETCD_KEY = f'"key":"{base64_of("bench/")}{NUMBER}"'
ETCD_PUT = request("POST", "/v3/kv/put", "",
                   f'{{{ETCD_KEY},"value":"{base64_of(4 * "0123456789abcdef")}"}}')
ETCD_GET = request("POST", "/v3/kv/range", "", f"{{{ETCD_KEY}}}")


def kv1_put(token):
    return request("PUT", f"/v1/kv/bench/{NUMBER}", token, VALUE)


def kv2_put(token):
    return request("PUT", f"/v1/kv2/data/bench/{NUMBER}", token, VALUE2)


def kv2_get(token):
    return request("GET", f"/v1/kv2/data/bench/{NUMBER}", token)


def token_create(token):
    return request("POST", "/v1/auth/token/create", token, '{"ttl":"1h"}')


def token_revoke(token, bearer_len):
    """The number stands for the bearer; the length of the body is that with a bearer."""
    room = request("POST", "/v1/auth/token/revoke", token, '{"token":"' + bearer_len * "#" + '"}')
    return room.replace(bearer_len * b"#", NUMBER.encode())


def run(command, timeout_s):
    return subprocess.run([*TIED, *map(str, command)], capture_output=True, text=True, check=True,
                          timeout=timeout_s).stdout


def lua(data):
    """The bytes as a string of Lua."""
    return '"' + "".join(f"\\{byte:03d}" for byte in data) + '"'


def wrk(url, data, connections=CONNECTIONS, seconds=None, keys=KEYS, failures=False):
    """Requests a second, p50 and p99 in ms. An answer that is not 2xx ends the run, unless
    `failures`: then they are counted."""
    before, found, after = data.partition(NUMBER.encode())
    script = SCRIPT % (lua(before), lua(after), keys) if found else \
        f"request = function() return {lua(data)} end"
    return wrk_script(url, script, connections, seconds, failures)


def wrk_pairs(url, create, revoke):
    """Pairs a second: each request revokes a token that an earlier one created, or creates one."""
    before, _, after = revoke.partition(NUMBER.encode())
    # a bearer is as long as the number that stands for it in `revoke`: see token_revoke
    found = wrk_script(url, PAIRS % (lua(create), lua(before), lua(after)))
    return {**found, "rate": found["rate"] / 2}


def wrk_script(url, script, connections=CONNECTIONS, seconds=None, failures=False):
    seconds = max(1, round(seconds or SECONDS))
    path = BENCH / "load.lua"
    path.write_text(script)
    out = run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "--latency",
               "-s", path, url], seconds + 60)
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    assert failures or (not failed and "Socket errors" not in out), out

    def latency(percent):
        number, unit = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s|m)\b", out).groups()
        return float(number) * {"us": 1e-3, "ms": 1, "s": 1e3, "m": 6e4}[unit]

    return {"rate": float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]),
            "p50_ms": latency(50), "p99_ms": latency(99), "failed": int(failed[1]) if failed else 0}


def bench_open(port, data, connections, rate, seconds, count=0, keys=KEYS):
    """Latencies in us from when each request was due; with rate 0 a closed loop."""
    path = BENCH / "request"
    path.write_bytes(data)
    return json.loads(run([PROGRAMS / "bench_open", port, connections, rate, seconds, count, keys,
                           path], seconds + 60))


def fill(port, data, count):
    """`count` requests, as fast as they go."""
    done = bench_open(port, data, CONNECTIONS, 0, 900, count, max(count, 1))
    assert done["answered"] == count, done
    return done


def environment():
    return {**os.environ, "GOTOOLCHAIN": "local"}


def post(url, body, timeout_s=10):
    """A JSON answer; certificates are not looked at."""
    context = ssl._create_unverified_context()
    asked = urllib.request.Request(url, json.dumps(body).encode(),
                                   {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=timeout_s, context=context) as answer:
        return json.load(answer)
