"""`holdfast audit verify`, beside an implementation of the chain that shares nothing with it."""
import hashlib
import json
import subprocess

from cluster import HOLDFAST

ZERO = "0" * 64


def link(body, n, prev):
    """The line of a record, and its hash (src/audit/chain.h)."""
    digest = hashlib.sha256(bytes.fromhex(prev) + n.to_bytes(8, "big") + body.encode()).hexdigest()
    member = json.dumps({"n": n, "prev": prev, "hash": digest}, separators=(",", ":"))
    return f'{body[:-1]},"chain":{member}}}\n', digest


def body_of(n):
    return f'{{"time":"2026-01-01T00:00:{n:02}Z","n":{n}}}'


def verify(*files):
    return subprocess.run([HOLDFAST, "audit", "verify", *files], capture_output=True, text=True,
                          timeout=60)


def test_verify_says_what_is_covered_and_names_the_line_that_does_not_fit(tmp_path):
    lines, prev = [], ZERO
    for n in range(1, 21):
        line, prev = link(body_of(n), n, prev)
        lines.append(line)
    old, new = tmp_path / "audit.log.20260101T000000.000000Z", tmp_path / "audit.log"
    old.write_text("".join(lines[:12]))
    new.write_text("".join(lines[12:]))

    good = verify(old, new)
    assert good.returncode == 0, good.stderr
    assert "20 lines fit: records 1 to 20, from 2026-01-01T00:00:01Z to 2026-01-01T00:00:20Z" \
        in good.stdout
    assert f"hash of record 20: {prev}" in good.stdout
    assert "records 13 to 20" in verify(new).stdout

    wrong_order = verify(new, old)
    assert wrong_order.returncode == 2
    assert f"{old}:1: does not follow the line before" in wrong_order.stderr

    new.write_text("".join(lines[12:15]) + lines[15].replace('"n":16,"chain"', '"n":15,"chain"') + "".join(lines[16:]))
    changed = verify(old, new)
    assert changed.returncode == 2
    assert "15 lines fit: records 1 to 15" in changed.stdout
    assert f"{new}:4: changed" in changed.stderr

    new.write_text("".join(lines[12:15]) + '{"time":"2026-01\n' + "".join(lines[15:]))
    torn = verify(old, new)
    assert torn.returncode == 2
    assert f"{new}:4: has no link of the chain" in torn.stderr
    assert "no line is missing here" in torn.stderr

    absent = verify(tmp_path / "none.log")
    assert absent.returncode == 1
    assert "No such file" in absent.stderr
    assert verify().returncode == 1
    new.write_text("")
    assert verify(new).returncode == 2
