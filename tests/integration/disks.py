"""Small disks for the data of nodes, and how much space is left on them. Needs root."""

import contextlib
import os
import shutil
import subprocess

MIB = 1 << 20


@contextlib.contextmanager
def small_disks(cluster, mebibytes):
    """The data of each node of a running cluster moves to a disk of its own; the nodes are started
    again, and have ended when the disks go."""
    mounted = []
    try:
        for node in cluster.nodes:
            assert node.stop() == 0
            kept = node.dir / "kept"
            shutil.move(node.data, kept)
            node.data.mkdir(mode=0o700)
            options = f"size={mebibytes}m,mode=0700"
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(node.data)], check=True
            )
            mounted.append(node.data)
            shutil.copytree(kept, node.data, dirs_exist_ok=True)
        cluster.start()
        cluster.await_up()
        yield
    finally:
        for node in cluster.nodes:
            if node.alive:
                node.kill()
        for path in mounted:
            subprocess.run(["umount", str(path)], check=True)


def free_bytes(node):
    have = os.statvfs(node.data)
    return have.f_bavail * have.f_frsize


def ballast(node, leave):
    """Fill the node's disk but for so many bytes."""
    with open(node.data / "ballast", "wb") as file:
        file.write(bytes(max(0, free_bytes(node) - leave)))


def drop_ballast(node):
    (node.data / "ballast").unlink()


class Disk:
    """A small disk that is mounted at a path of its own."""

    def __init__(self, path):
        self.path, self.ballast = path, path / "ballast"

    def fill(self):
        """Until no page is left."""
        with open(self.ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass

    def make_room(self):
        self.ballast.unlink()


@contextlib.contextmanager
def small_disk(path, kibibytes):
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(path)],
                   check=True)
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)  # a node may have a file open there
