"""Activation of DR secondaries, for tests: tokens, the cluster port without a certificate, and
servers that stand in the way."""

import base64
import contextlib
import http.client
import http.server
import json
import socket
import ssl
import subprocess
import threading

DR = "/v1/sys/replication/dr"
TOKEN = f"{DR}/primary/secondary-token"
ENABLE = f"{DR}/secondary/enable"
UPDATE = f"{DR}/secondary/update-primary"
BOOTSTRAP = f"{DR}/primary/bootstrap"
UNWRAP = "/v1/sys/wrapping/unwrap"


def status(node):
    answer = node.call("GET", f"{DR}/status", token="")
    assert answer.status == 200
    return answer.data


def call(node, method, path, body=None, token=None, status=200):
    answer = node.call(method, path, body, token=token)
    assert answer.status == status, (method, path, answer.status, answer.body)
    return answer


def error(answer, status, *words):
    """The first error of a refusal, which has these words."""
    assert answer.status == status, (answer.status, answer.body)
    text = answer.json["errors"][0]
    for word in words:
        assert word in text, text
    return text


def become_primary(cluster, **body):
    cluster.await_feature_level()
    call(cluster.nodes[0], "POST", f"{DR}/primary/enable", body)
    cluster.await_until(lambda: all(status(n)["mode"] == "primary" for n in cluster.nodes))


def make_token(cluster, secondary, node=None, **body):
    node = node or cluster.nodes[0]
    info = call(node, "POST", TOKEN, {"id": secondary, **body}).json["wrap_info"]
    return info["token"]


def ca_of(cluster):
    return str(cluster.dir / "tls" / "tls-ca.pem")


def enable(node, token, primary, **body):
    return node.call("POST", ENABLE, {"token": token, "ca_file": ca_of(primary), **body})


def unwrap(node, token):
    """The bundle, as the secondary would get it."""
    return call(node, "POST", UNWRAP, {}, token).data


def claims_of(token):
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def with_der_signature(token):
    """The same JWT with the signature in ASN.1 DER, as older servers made it."""
    head, claims, signature = token.split(".")
    raw = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
    assert len(raw) == 132

    def number(data):
        data = data.lstrip(b"\0") or b"\0"
        data = b"\0" + data if data[0] & 0x80 else data
        return b"\x02" + bytes([len(data)]) + data

    inside = number(raw[:66]) + number(raw[66:])
    length = bytes([len(inside)]) if len(inside) < 128 else b"\x81" + bytes([len(inside)])
    der = b"\x30" + length + inside
    return f"{head}.{claims}.{base64.urlsafe_b64encode(der).decode().rstrip('=')}"


def at_cluster_port(node, method, path, body=None):
    """A request to a cluster port from a peer without a certificate."""
    context = ssl.create_default_context(cafile=str(node.cluster.dir / "tls" / "ca.pem"))
    context.check_hostname = False
    context.set_alpn_protocols(["http/1.1"])
    connection = http.client.HTTPSConnection(
        "127.0.0.1", node.cluster_port, timeout=60, context=context)
    try:
        text = json.dumps(body) if body is not None else None
        connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    finally:
        connection.close()


def new_pair():
    """A new P-256 key and its public half, PEM."""
    private = subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout"],
                             check=True, capture_output=True).stdout
    public = subprocess.run(["openssl", "pkey", "-pubout"], input=private, check=True,
                            capture_output=True).stdout
    return private.decode(), public.decode()


def new_key():
    return new_pair()[1]


def claim(bundle, **over):
    """What a secondary sends to the cluster port."""
    box = subprocess.run(["openssl", "genpkey", "-algorithm", "X25519", "-outform", "DER"],
                         check=True, capture_output=True).stdout
    public = subprocess.run(["openssl", "pkey", "-inform", "DER", "-pubout", "-outform", "DER"],
                            input=box, check=True, capture_output=True).stdout[-32:]
    return {"id": bundle["id"], "secret": bundle["secret"], "public_key": new_key(),
            "box_key": base64.b64encode(public).decode(), "version": 1, "feature": 1000,
            "protocol": 1} | over


@contextlib.contextmanager
def api(reply):
    """An API in clear; `reply(path, body)` gives status, headers and body of each reply. Yields the
    URL and the list of the bodies that came."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            seen.append(self.rfile.read(int(self.headers["Content-Length"])))
            code, headers, body = reply(self.path, seen[-1])
            self.send_response(code)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def wrapped(bundle):
    """The reply of unwrapping."""
    return 200, {}, json.dumps({"request_id": "x", "data": bundle}).encode()


class Relay:
    """A cluster port before that of a node, with the node's certificate. It hands each request on
    once `open` is set, and loses the first replies."""

    def __init__(self, node, losses=0, opened=True):
        self.node, self.losses, self.asked = node, losses, []
        self.open, self.knocked = threading.Event(), threading.Event()
        if opened:
            self.open.set()
        tls = node.cluster.dir / "tls"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls / f"{node.name}.pem", tls / f"{node.name}-key.pem")
        context.set_alpn_protocols(["http/1.1"])
        relay = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                relay.serve(self)

            def log_message(self, *args):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def finish_request(self, request, address):
                with contextlib.suppress(OSError):
                    super().finish_request(context.wrap_socket(request, server_side=True), address)

            def handle_error(self, request, address):
                pass  # the peer has gone

        self.server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def serve(self, handler):
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        self.asked.append(body)
        self.knocked.set()
        if not self.open.wait(120):
            return
        code, answer = at_cluster_port(self.node, "POST", handler.path, body)
        if self.losses > 0:
            self.losses -= 1
            handler.close_connection = True
            return
        text = json.dumps(answer).encode()
        handler.send_response(code)
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.server.shutdown()
        self.server.server_close()


def operation_token(nodes, keys):
    """A DR operation token, by shares that are given to one node after the other."""
    attempt = f"{DR}/secondary/generate-operation-token"
    begun = call(nodes[0], "POST", f"{attempt}/attempt", {}, "").json
    for i, key in enumerate(keys[: begun["required"]]):
        body = {"key": key, "nonce": begun["nonce"]}
        last = call(nodes[i % len(nodes)], "POST", f"{attempt}/update", body, "").json
    encoded = last["encoded_token"]
    mixed = base64.b64decode(encoded + "=" * (-len(encoded) % 4))
    return bytes(a ^ b for a, b in zip(mixed, begun["otp"].encode(), strict=True)).decode()


def await_mode(cluster, mode):
    cluster.await_until(lambda: all(status(n)["mode"] == mode for n in cluster.nodes if n.alive))


