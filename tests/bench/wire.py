"""One HTTP/1.1 connection that sends each request in one piece: what the server does for it is the
same every time, which http.client's separate writes do not give. Standard library only."""

import re
import socket


def request(method, path, token="", body=b"", header="X-Secrets-Token"):
    """The bytes of a request; a body is JSON."""
    body = body.encode() if isinstance(body, str) else body
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    if token:
        head += f"{header}: {token}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""
        self.body = b""  # of the last answer

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def more(self):
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("closed by the server")
        self.rest += data

    def answer(self):
        """The status of the next answer; bodies have a Content-Length."""
        while (end := self.rest.find(b"\r\n\r\n")) < 0:
            self.more()
        head = self.rest[:end].decode()
        length = re.search(r"^content-length:\s*(\d+)", head, re.I | re.M)
        size = end + 4 + (int(length[1]) if length else 0)
        while len(self.rest) < size:
            self.more()
        self.body, self.rest = self.rest[end + 4:size], self.rest[size:]
        return int(head.split()[1])

    def call(self, data):
        self.send(data)
        return self.answer()
