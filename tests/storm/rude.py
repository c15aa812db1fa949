"""Clients that hang up: in a handshake, a head, a body, before an answer or within one."""

import random
import socket
import ssl
import struct
import threading

SNAPSHOT = "/v1/sys/storage/raft/snapshot"
SPELLINGS = [SNAPSHOT, "/v1/sys/storage/raft/%73napshot", "//v1/sys/storage//raft/snapshot",
             "/%761/sys%2Fstorage/raft/snapshot-force", SNAPSHOT + "/"]
PATIENCE_S = 5


class Rude(threading.Thread):
    def __init__(self, cluster, number, stop, seed):
        super().__init__(daemon=True)
        self.cluster, self.stop_event = cluster, stop
        self.random = random.Random(seed + 1000 + number)
        self.done = dict.fromkeys(
            ["handshake", "head", "body", "chunks", "upload", "unread", "half read", "pipeline",
             "large body", "cluster port"], 0)

    def run(self):
        while not self.stop_event.is_set():
            what = self.random.choice(list(self.done))
            node = self.random.choice(self.cluster.nodes)
            try:
                getattr(self, what.replace(" ", "_"))(node)
                self.done[what] += 1
            except (OSError, ssl.SSLError):
                self.stop_event.wait(0.1)  # the node is down, or hung up first

    def tcp(self, port):
        sock = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        if self.random.random() < 0.5:  # a reset instead of an orderly end
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return sock

    def say(self, node, *parts, read=0):
        """Send the parts, read a little, hang up."""
        with self.tcp(node.client_port) as tcp:
            with self.cluster.tls.wrap_socket(tcp, server_hostname="127.0.0.1") as tls:
                for part in parts:
                    tls.sendall(part)
                    self.stop_event.wait(self.random.choice([0, 0, 0.001, 0.05]))
                if read:
                    tls.recv(read)

    def start_line(self, method, path, headers=""):
        return (f"{method} {path} HTTP/1.1\r\nHost: x\r\nX-Vault-Token: {self.cluster.token}\r\n"
                f"{headers}").encode()

    def with_body(self, method, path, length):
        return self.start_line(method, path, f"Content-Length: {length}\r\n\r\n")

    def handshake(self, node):
        with self.tcp(node.client_port) as tcp:
            tcp.sendall(self.random.choice([b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\n", b"\x16"]))

    def head(self, node):
        text = self.start_line("GET", "/v1/kv/chaos/w0-1", "\r\n")
        self.say(node, text[:self.random.randrange(len(text))])

    def body(self, node):
        self.say(node, self.with_body("PUT", "/v1/kv/rude", 1000), b'{"a":"b')

    def chunks(self, node):
        head = self.start_line("PUT", "/v1/kv/rude", "Transfer-Encoding: chunked\r\n\r\n")
        self.say(node, head, b"4\r\n{\"a\"\r\n", self.random.choice([b"zz\r\n", b"1000\r\nab", b"1\r\n:\r\n"]))

    def upload(self, node):
        junk = self.random.randbytes(self.random.randrange(100_000))
        head = self.with_body("POST", self.random.choice(SPELLINGS),
                              len(junk) + self.random.choice([0, 0, 1000]))
        self.say(node, head, junk, read=self.random.choice([0, 1000]))

    def unread(self, node):
        self.say(node, self.with_body("PUT", "/v1/kv/rude", 7) + b'{"a":1}')

    def half_read(self, node):
        path = self.random.choice([SNAPSHOT, "/v1/sys/internal/specs/openapi", "/v1/sys/metrics"])
        self.say(node, self.start_line("GET", path, "\r\n"), read=1000)

    def pipeline(self, node):
        one = self.start_line("GET", "/v1/kv/chaos/w0-1", "\r\n")
        self.say(node, one * 20, read=self.random.choice([0, 100]))

    def large_body(self, node):
        """One that goes through a standby piece by piece."""
        head = self.with_body("PUT", "/v1/kv/rude", 3_000_000)
        self.say(node, head, *[b"[" + b"1," * 50_000] * self.random.randrange(1, 20))

    def cluster_port(self, node):
        with self.tcp(node.cluster_port) as tcp:
            tcp.sendall(self.random.randbytes(self.random.randrange(1, 500)))
