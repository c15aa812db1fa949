"""A bad line between two clusters: a TCP proxy before the cluster port of a primary."""

import contextlib
import random
import socket
import threading
import time

TO_PRIMARY, TO_SECONDARY = "to the primary", "to the secondary"


class Link:
    """Passes connections on, both ways, as its members say. They may change at any time."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.target = None   # port of the primary
        self.up = True       # else: no new connection, and those that there are end
        self.held = set()    # directions in which nothing passes, and nothing ends
        self.delay_s = 0     # of each piece
        self.rate = 0        # bytes a second and direction; 0: any
        self.losses = 0      # how often a connection breaks, of 1 a piece
        self.flips = 0       # pieces of which a bit is flipped
        self.accepted = 0    # connections
        self.passed = {TO_PRIMARY: 0, TO_SECONDARY: 0}
        self.random = random.Random(7)
        self.open = set()
        self.ended = False
        self.threads = [threading.Thread(target=self.accept, daemon=True)]
        self.threads[0].start()

    def accept(self):
        while not self.ended:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            if not self.up:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.target), timeout=10)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            self.accepted += 1
            self.open |= {near, far}
            for a, b, way in ((near, far, TO_PRIMARY), (far, near, TO_SECONDARY)):
                thread = threading.Thread(target=self.pump, args=(a, b, way), daemon=True)
                self.threads.append(thread)
                thread.start()

    def pump(self, source, sink, way):
        with contextlib.suppress(OSError):
            while piece := source.recv(4096 if self.rate else 65536):
                while way in self.held and not self.ended:
                    time.sleep(0.01)
                if self.flips > 0 and way == TO_SECONDARY:
                    self.flips -= 1
                    at = len(piece) // 2
                    piece = piece[:at] + bytes([piece[at] ^ 8]) + piece[at + 1:]
                if self.losses and self.random.random() < self.losses:
                    break
                if self.delay_s or self.rate:
                    time.sleep(self.delay_s + (len(piece) / self.rate if self.rate else 0))
                sink.sendall(piece)
                self.passed[way] += len(piece)
        self.shut(source, sink)

    def shut(self, *sockets):
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
            self.open.discard(one)

    def cut(self):
        self.up = False
        self.shut(*list(self.open))

    def heal(self):
        """As a good line."""
        self.up, self.delay_s, self.rate, self.losses = True, 0, 0, 0
        self.held.clear()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.ended = True
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()
        for thread in self.threads:
            thread.join(10)
