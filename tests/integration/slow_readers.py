"""Clients that ask and never read the reply."""

import contextlib
import resource
import socket
import ssl

RCVBUF = 4096
DOCUMENT = "GET /v1/sys/internal/specs/openapi HTTP/1.1\r\nHost: a\r\n\r\n"


def addresses(n):
    """`n` addresses of this machine that no other test uses."""
    return [f"127.9.{i // 250}.{1 + i % 250}" for i in range(n)]


class SlowReaders:
    """Connections, each from the next of `sources`, with one request each or more."""

    def __init__(self, port, sources, tls=None):
        self.port, self.sources, self.tls = port, sources, tls
        self.open, self.refused = [], 0

    def __enter__(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 16384)), hard))
        return self

    def __exit__(self, *failure):
        self.close()

    def close(self):
        for connection in self.open:
            connection.close()
        self.open = []

    def dial(self):
        source = self.sources[(len(self.open) + self.refused) % len(self.sources)]
        tcp = socket.socket()
        try:
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RCVBUF)
            tcp.settimeout(20)
            tcp.bind((source, 0))
            tcp.connect(("127.0.0.1", self.port))
            return self.tls.wrap_socket(tcp, server_hostname="127.0.0.1") if self.tls else tcp
        except OSError:
            tcp.close()
            raise

    def ask(self, n, request):
        """Open `n` connections and send `request` on each."""
        for _ in range(n):
            try:
                connection = self.dial()
            except OSError:
                self.refused += 1
                continue
            with contextlib.suppress(OSError):  # a refused connection may be closed already
                connection.sendall(request.encode())
            self.open.append(connection)

    def cut(self):
        """How many connections the node has closed."""
        n = 0
        for connection in self.open:
            connection.settimeout(0)
            try:
                while connection.recv(65536):
                    pass
                n += 1
            except (ssl.SSLWantReadError, BlockingIOError):
                pass
            except OSError:
                n += 1
        return n
