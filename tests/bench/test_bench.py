"""What the figures of tests/bench rest on."""

import http.server
import itertools
import os
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, os.path.dirname(__file__))

import callgrind  # noqa: E402
import instructions  # noqa: E402
import load  # noqa: E402
import measure  # noqa: E402
import rows_dr  # noqa: E402
import stacks  # noqa: E402

STALL_S = 0.5
CALLS = 20
IO_SETUP = {"x86_64": 206}.get(os.uname().machine, 0)  # 0: by the generic table


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(measure, "results", [])
    monkeypatch.setattr(measure, "raw_data", {})
    monkeypatch.setattr(measure, "ROUNDS", 3)


class Stalling(http.server.BaseHTTPRequestHandler):
    """Answers at once, but for one request for which everybody waits."""

    protocol_version = "HTTP/1.1"
    lock = threading.Lock()
    seen = 0

    def do_GET(self):
        with Stalling.lock:
            Stalling.seen += 1
            if Stalling.seen == 300:
                time.sleep(STALL_S)
        self.send_response(404 if self.path == "/absent" else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def stalling():
    Stalling.seen = 0
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stalling)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_stall_counts_for_every_request_that_was_due_meanwhile(stalling):
    got = load.bench_open(stalling, load.request("GET", "/"), 2, 200, 3)
    # 100 requests were due in the stall: half of them waited for at least half of it.
    late = sum(n for us, n in got["histogram"] if us >= 1e6 * STALL_S / 2.1)
    assert late >= 45
    assert got["max_us"] >= 0.9e6 * STALL_S


def test_an_answer_that_is_an_error_ends_the_load(stalling):
    with pytest.raises(subprocess.CalledProcessError):
        load.bench_open(stalling, load.request("GET", "/absent"), 2, 0, 1)


def test_so_many_requests_are_sent_as_asked_for(stalling):
    assert load.bench_open(stalling, load.request("GET", "/"), 2, 0, 60, count=77)["answered"] == 77


@pytest.mark.parametrize("call", [
    "os.fdatasync(fd)", "os.fsync(fd)", "os.pwrite(dsync, b'x', 0)",
    "os.pwritev(fd, [b'x'], 0, os.RWF_DSYNC)"])
def test_a_slower_disk_slows_what_waits_for_the_disk(tmp_path, call):
    assert slowed(tmp_path, call, 0.02) >= 0.02 * CALLS


def test_a_slower_disk_leaves_writes_alone_that_do_not_wait_for_it(tmp_path):
    # Ten seconds, had they waited.
    assert slowed(tmp_path, "os.pwrite(fd, b'x', 0)", 0.5) < 0.5 * CALLS


def test_a_slower_disk_has_no_writes_that_nobody_waits_for():
    program = ("import ctypes; context = ctypes.c_ulong(0)\n"
               f"print(ctypes.CDLL(None).syscall({IO_SETUP}, 1, ctypes.byref(context)))\n")
    command = [load.PROGRAMS / "slow_sync", 1, sys.executable, "-c", program]
    assert load.run(command, 60).strip() == "-1"


def slowed(folder, call, by_s):
    """Seconds that CALLS of the calls take on a disk that is slower by so much."""
    program = (f"import os, time; f = {str(folder / 'file')!r}\n"
               "fd = os.open(f, os.O_CREAT | os.O_RDWR)\n"
               "dsync = os.open(f, os.O_RDWR | os.O_DSYNC)\n"
               "start = time.monotonic()\n"
               f"for _ in range({CALLS}): {call}\n"
               "print(time.monotonic() - start)\n")
    command = [load.PROGRAMS / "slow_sync", int(1e6 * by_s), sys.executable, "-c", program]
    return float(load.run(command, 120))


def test_a_slower_disk_keeps_the_status_of_its_program():
    done = subprocess.run([load.PROGRAMS / "slow_sync", "1000", "sh", "-c", "exit 7"], timeout=60)
    assert done.returncode == 7


def ceilings(*rates):
    rest = iter(rates)
    return lambda: next(rest)


def test_a_round_in_which_the_ceiling_moved_is_made_up_for():
    count = iter(range(10))
    kept = measure.rounds("row", {"a": lambda: {"rate": next(count)}},
                          ceilings(100, 101, 150, 151, 152))
    assert [each["a"]["rate"] for each in kept] == [0, 2, 3]
    assert len(measure.raw_data["row"]["rounds"][0]["discarded"]) == 1


def test_all_rounds_count_where_the_ceiling_never_stands_still(capsys):
    kept = measure.rounds("row", {"a": lambda: {"rate": 1}}, ceilings(1, 2, 4, 8, 16))
    assert len(kept) == 4
    assert "all count" in capsys.readouterr().out


@pytest.mark.parametrize("values, most, verdict", [
    ([3.9, 4, 9], False, "pass"), ([1, 3.9, 9], False, "miss"),
    ([0, 4, 9], True, "pass"), ([0, 4.1, 9], True, "miss")])
def test_the_median_is_held_against_the_gate(capsys, values, most, verdict):
    measure.result("row", values, "of-it", 4, 4, most=most)
    assert capsys.readouterr().out.split()[-1] == verdict


def test_instructions_may_rise_by_two_percent_and_no_more(monkeypatch, tmp_path):
    monkeypatch.setattr(instructions, "FILE", tmp_path / "figures")
    assert instructions.update({"read": 1000.0, "write": 2000.0}) == 0
    assert instructions.compare({"read": 1019.0, "write": 1500.0}) == 0
    assert instructions.compare({"read": 1021.0, "write": 2000.0}) == 1
    assert instructions.compare({"read": 1000.0}) == 1
    assert instructions.compare({"read": 1000.0, "write": 2000.0, "list": 1.0}) == 1


class Answering:
    def call(self, _):
        return 200


def counting(monkeypatch, idle, rounds):
    """callgrind, with a node that does this in a second of idling and in the rounds, a second each."""
    counts = iter([idle, *rounds])
    seconds = itertools.count()
    monkeypatch.setattr(callgrind, "control", lambda *_: None)
    monkeypatch.setattr(callgrind, "collected", lambda _: next(counts))
    monkeypatch.setattr(callgrind.time, "sleep", lambda _: None)
    monkeypatch.setattr(callgrind.time, "monotonic", lambda: next(seconds))


@pytest.mark.parametrize("costs, most, least", [
    ([9, 8, 9, 1], None, 8), ([9, 8, 9, 9, 5, 1], 6, 5), ([7, 8, 9, 1], 7, 7),
    ([9] * callgrind.ROUNDS_MAX, 8, 9)])
def test_a_figure_that_is_too_high_is_measured_again(monkeypatch, costs, most, least):
    counting(monkeypatch, idle=0, rounds=[callgrind.COUNTED * cost for cost in costs])
    assert callgrind.per_request([None], Answering(), str, most) == least


def test_what_an_idle_node_does_is_taken_off(monkeypatch):
    monkeypatch.setattr(callgrind, "COUNTED", 10)
    counting(monkeypatch, idle=50, rounds=[50 + 800, 50 + 700, 50 + 900])
    assert callgrind.per_request([None], Answering(), str) == 70


SAMPLES = """holdfast  100/101   1.5: cpu-clock:
\tffff1 tcp_sendmsg+0x1f ([kernel.kallsyms])
\t  551 handle<int>+0x2 (/opt/holdfast)
\t  551 handle<int>+0x9 (/opt/holdfast)
\t  550 run+0x10 (/opt/holdfast)

hf log  200/201   1.6: cpu-clock:
\t  7f1 malloc+0x1 (/usr/lib/libc.so.6)

"""


def test_a_difference_is_measured_in_bytes(capsys, monkeypatch):
    monkeypatch.setattr(rows_dr, "COUNT", 2000)
    rows_dr.row_drdiff()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("RESULT")] == ["drdiff", "drdiff"]
    assert measure.results[0]["value"] < 0.3  # few keys: what is always changed weighs more


def test_stacks_are_folded_below_their_process_and_drawn():
    root = stacks.fold(2 * SAMPLES, {100: "leader", 200: "followers"}.get)
    assert root.count == 4
    run = root.inner["leader"].inner["holdfast"].inner["run"]
    assert run.count == 2 and run.kind == "holdfast"
    sends = run.inner["handle<int>"].inner["tcp_sendmsg"]  # a call of itself is one box
    assert sends.kind == "kernel" and not sends.inner
    assert root.inner["followers"].inner["hf log"].inner["malloc"].kind == "library"
    drawn = stacks.picture(root, "all")
    assert "handle&lt;int&gt;: 50.00 % (2 samples)" in drawn and "<int>" not in drawn
    assert "malloc" not in stacks.picture(stacks.fold(SAMPLES, str), "all")  # a single one
