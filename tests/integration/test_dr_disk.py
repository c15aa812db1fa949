"""A secondary whose disk is full."""

import contextlib
import subprocess

from activation import become_primary, call, status
from test_dr_fencing import One, follow
from test_dr_pair import await_equal, seen


class OnSmallDisk(One):
    """One whose data lies on a disk of a few MiB."""

    mebibytes = 160

    def __enter__(self):
        self.node.data.mkdir(mode=0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.mebibytes}m,mode=0700", "tmpfs",
                        str(self.node.data)], check=True)
        return super().__enter__()

    def __exit__(self, *error):
        if self.node.alive:
            self.node.kill()
        subprocess.run(["umount", str(self.node.data)], check=True)
        return super().__exit__(*error)


def test_a_full_disk_of_the_secondary_hurts_the_secondary_alone():
    with One() as primary, OnSmallDisk() as other:
        become_primary(primary)
        follow(primary, other, "c")
        filler = other.node.data / "filler"
        with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 65536)
        for i in range(300):  # more than the log has reserved
            call(primary.node, "PUT", "/v1/kv/disk", {"x": f"{i:07}" * 100000}, status=204)
            if not other.node.alive or "no space" in other.node.log_text().lower():
                break
        wanted = status(primary.node)["version"]
        assert not other.node.alive or seen(other.node).get("version", 0) < wanted
        filler.unlink()
        if not other.node.alive:
            other.node.start()
        other.await_until(lambda: seen(other.node).get("version", 0) >= wanted)
        await_equal(primary, other)
