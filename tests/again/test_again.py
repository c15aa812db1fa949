"""A failed test runs twice more, alone, and the report says what it is: real suites of each kind, whose
tests fail once, always, or with a sanitizer's report."""

import os
import pathlib
import shlex
import subprocess
import sys
import textwrap

import pytest

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path.insert(0, str(HERE))

import kinds  # noqa: E402

# Fails at its first run, and passes afterwards.
ONCE = 'if [ -e "$0.ran" ]; then exit 0; fi; : > "$0.ran"; echo "was late"; exit 1'
ALWAYS = 'echo "is wrong"; exit 1'
# What the sanitizer of gcc prints, and a test that passes when asked again.
REPORT = ('if [ -e "$0.ran" ]; then exit 0; fi; : > "$0.ran"; '
          'echo "==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x60"; exit 1')


class Suite:
    """A folder of logs, and a stand-in for tests/run that runs one test by `command`."""

    def __init__(self, folder, command):
        self.folder, self.logs = folder, folder / "build" / "tests"
        self.logs.mkdir(parents=True)
        self.run = folder / "run"
        self.run.write_text(f"#!/bin/bash\n[ $1 = --again ] || exit 2\n{command}\n")
        self.run.chmod(0o755)
        self.results = []

    def ended(self, suite, code, passed, failed, log, failures=""):
        (self.logs / f"{suite}.log").write_text(log)
        if failures:
            (self.logs / f"{suite}.failures").write_text(failures)
        self.results.append(f"{suite} {code} {passed} {failed}\n")

    def judge(self):
        (self.logs / "results").write_text("".join(self.results))
        return subprocess.run([HERE / "judge", self.logs, self.run], cwd=self.folder,
                              capture_output=True, text=True, timeout=120)


def script(path, text):
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
    return path


def run(command, folder, **env):
    return subprocess.run(command, cwd=folder, env={**os.environ, **env}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120)


def by_ctest(tmp_path, tests):
    """A suite of ctest that has run once; tests: name to script."""
    made = Suite(tmp_path, f'ctest --test-dir {tmp_path} --no-tests=error -R "^$3\\$"')
    lines = [f"add_test({name} {shlex.quote(str(script(tmp_path / f'{name}.sh', text)))})\n"
             for name, text in tests.items()]
    (tmp_path / "CTestTestfile.cmake").write_text("".join(lines))
    done = run(["ctest", "--test-dir", tmp_path, "--output-on-failure"], tmp_path)
    failed = sum("exit 1" in text for text in tests.values())
    made.ended("unit", done.returncode, len(tests) - failed, failed, done.stdout)
    return made


def by_pytest(tmp_path, text, passed, failed, workers=()):
    """A suite of pytest that has run once, under the plugin."""
    command = [sys.executable, "-B", "-m", "pytest", "-q", "--rootdir", str(tmp_path), "-p", "failures",
               "-p", "no:cacheprovider"]
    made = Suite(tmp_path, f'cd {tmp_path} && {shlex.join(command).replace("-p failures ", "")} "$3"')
    (tmp_path / "test_fake.py").write_text(textwrap.dedent(text))
    done = run([*command, *workers, "test_fake.py"], tmp_path, PYTHONPATH=str(HERE),
               HOLDFAST_FAILURES=str(made.logs / "integration.failures"))
    assert done.returncode == 1, done.stdout
    made.ended("integration", done.returncode, passed, failed, done.stdout)
    return made


@pytest.fixture(autouse=True)
def own_reports(monkeypatch):
    """The reports of the suites here are not those of the run that this file is part of."""
    for name in ("HOLDFAST_FAILURES", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)


def test_a_test_that_fails_once_is_flaky_and_counts_as_passed(tmp_path):
    done = by_ctest(tmp_path, {"good": "exit 0", "late": ONCE}).judge()
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-2:] == [
        "flaky: unit:late (first failure kept in build/tests/flaky/unit:late.log)", "2 passed, 0 failed"]
    kept = (tmp_path / "build/tests/flaky/unit:late.log").read_text()
    assert kept.startswith("tests/run --again unit 'late'\n") and "was late" in kept


def test_a_test_that_always_fails_fails_the_run(tmp_path):
    done = by_ctest(tmp_path, {"good": "exit 0", "late": ONCE, "wrong": ALWAYS}).judge()
    assert done.returncode == 1
    assert "failed again: unit:wrong (try 1 in " in done.stdout
    assert "flaky: unit:late (" in done.stdout
    assert done.stdout.splitlines()[-1] == "2 passed, 1 failed"


def test_a_test_that_fails_at_the_last_try_fails_the_run(tmp_path):
    third = 'echo >> "$0.ran"; [ $(wc -l < "$0.ran") -eq 2 ] && exit 0; exit 1'
    done = by_ctest(tmp_path, {"third": third}).judge()
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "0 passed, 1 failed")
    assert "failed again: unit:third (try 2 in " in done.stdout


def test_a_report_of_a_sanitizer_is_not_tried_again(tmp_path):
    done = by_ctest(tmp_path, {"good": "exit 0", "broken": REPORT}).judge()
    assert (done.returncode, done.stdout) == (
        1, "not tried again: unit:broken: a sanitizer has reported\n1 passed, 1 failed\n")


@pytest.mark.parametrize("count, code", [(3, 0), (4, 1)])
def test_more_than_three_flaky_tests_fail_the_run(tmp_path, count, code):
    done = by_ctest(tmp_path, {f"late{n}": ONCE for n in range(count)}).judge()
    assert done.returncode == code
    assert done.stdout.count("\nflaky: unit:late") + done.stdout.startswith("flaky: ") == count
    assert done.stdout.splitlines()[-1] == (f"{count} passed, 0 failed" if code == 0 else "0 passed, 4 failed")


def test_many_failed_tests_are_not_tried_again(tmp_path):
    done = by_ctest(tmp_path, {f"late{n}": ONCE for n in range(9)}).judge()
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "0 passed, 9 failed")
    assert "flaky" not in done.stdout


def test_a_crash_of_a_suite_is_not_a_failed_test(tmp_path):
    """ctest that was killed, say: what it did not run has not passed."""
    made = by_ctest(tmp_path, {"late": ONCE})
    made.results = ["unit 137 0 1\n"]
    assert (made.judge().returncode, made.judge().stdout) == (1, "0 passed, 1 failed\n")


@pytest.mark.parametrize("suite", ["tidy", "contract", "instructions", "sim", "asserts", "planted"])
def test_suites_that_chance_does_not_excuse_run_once(tmp_path, suite):
    made = Suite(tmp_path, "exit 0")
    made.ended(suite, 1, 5, 1, "FAIL seed: lost a write\n--- FAIL: TestX\n5 passed, 1 failed\n",
               '{"test": "x", "when": "call", "text": ""}\n')
    assert (made.judge().returncode, made.judge().stdout) == (1, "5 passed, 1 failed\n")


FAKE = """
    import os, pathlib, pytest

    def first(name):
        path = pathlib.Path(__file__).with_name(name)
        made = path.exists()
        path.touch()
        return not made

    @pytest.mark.parametrize("word", ["a/b c", "[x]"])
    def test_late(word):
        assert word != "a/b c" or not first("late"), "was late"

    @pytest.fixture
    def guarded():
        yield
        assert not first("guarded")

    def test_ends_badly(guarded):
        pass

    def test_fails_twice(guarded):
        assert not first("twice")
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_pytest_names_its_failed_tests(tmp_path, workers):
    made = by_pytest(tmp_path, FAKE, 2, 3, workers)
    done = made.judge()
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "4 passed, 0 failed"), done.stdout
    assert "flaky: integration:test_fake::test_late[a_b_c] (" in done.stdout
    assert "was late" in (made.logs / "flaky/integration:test_fake::test_late[a_b_c].log").read_text()


def test_what_a_node_said_is_part_of_the_report(tmp_path):
    """A race that a node reported shows in what the test printed."""
    done = by_pytest(tmp_path, """
        def test_node(tmp_path):
            print("node1: WARNING: ThreadSanitizer: data race (pid=1)")
            assert (tmp_path.parent / "x").exists() or (tmp_path.parent / "x").touch()
        """, 0, 1).judge()
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "0 passed, 1 failed")
    assert "a sanitizer has reported" in done.stdout


def test_go_names_its_failed_tests(tmp_path):
    go = str(TOP / "jepsen" / "go")
    env = {"GOWORK": "off", "GOFLAGS": "-mod=mod", "GOPROXY": "off"}
    for name, body in {"one": 't.Run("sub", func(t *testing.T) { t.Fatal("late") })', "two": "_ = t"}.items():
        folder = tmp_path / "module" / name
        folder.mkdir(parents=True)
        (folder / "x_test.go").write_text(
            f'package {name}\n\nimport "testing"\n\nfunc TestFirst(t *testing.T) {{ {body} }}\n')
    (tmp_path / "module" / "go.mod").write_text("module fake\n\ngo 1.24\n")
    # jepsen/go changes to its own folder, so Go is told where the module is.
    done = run([go, "test", "-C", str(tmp_path / "module"), "./..."], tmp_path, **env)
    found = kinds.of_go("jepsen", done.stdout, "")
    assert [test.test for test in found] == ["fake/one:TestFirst"], done.stdout
    assert "late" in found[0].text


ROWS = """\
ok  \tholdfast/jepsen/internal/judge\t1.2s
register-isolate+kill-7                        912 operations,  61 % in  4 faults,  3 elections, longest gap 1.2s, 0 findings
    longest gap after kill
append-slow+kill-active-8                      300 operations,  11 % in  4 faults,  3 elections, longest gap 9s, 2 findings
    only 11 % of the operations overlap a fault
    the first write took 9 s
    again: jepsen/run append slow+kill-active --time 20 --seed 8 --nodes 3 --front direct
    kept: /tree/build/jepsen/append-slow+kill-active-8
set-churn+flap-9                               FAILED the run ended with code 1
    again: jepsen/run set churn+flap --time 20 --seed 9 --nodes 3 --front direct
once-random+pause-10                           400 operations,  60 % in  4 faults,  3 elections, longest gap 1s, 1 findings
    twice
    the judge found 1 of them
    again: jepsen/run once random+pause --time 20 --seed 10 --nodes 3 --front direct
    kept: /tree/build/jepsen/once-random+pause-10
4 workloads, 16 faults, 1612 operations, 4 anomalies
"""


def test_rows_of_jepsen_are_repeated_by_their_command():
    found = kinds.of_jepsen("jepsen", ROWS, "")
    assert [(test.test.split(" --")[0], test.final) for test in found] == [
        ("append slow+kill-active", None), ("set churn+flap", None),
        ("once random+pause", "clients have seen a contradiction")]


def test_other_kinds_name_their_failed_tests():
    log = "ok    two: 5 states\nFAIL  DR_GAP: not found\n      steps: cd x\nok    three: 1\n1 passed, 1 failed\n"
    assert [(t.test, t.text) for t in kinds.of_lines("model", log, "")] == [
        ("DR_GAP", "FAIL  DR_GAP: not found\n      steps: cd x")]
    log = ("=== vault\n=== RUN   TestA\n    --- FAIL: TestA/sub (0.00s)\n--- FAIL: TestA (0.01s)\nFAIL\n"
           "=== openbao\n=== RUN   TestA\n--- PASS: TestA (0.01s)\nPASS\n3 passed, 1 failed\n")
    assert [t.test for t in kinds.of_conformance("conformance", log, "")] == ["vault:TestA"]


@pytest.mark.parametrize("suite, log, counted", [
    ("jepsen", ROWS, "2 3"),
    ("go", "--- FAIL: TestA (0.1s)\nFAIL\nFAIL\tfake/one\t0.1s\nok  \tfake/two\t0.1s\n", "1 1"),
    ("go", "FAIL\tfake/one [build failed]\nok  \tfake/two\t0.1s\n", "1 1"),
    ("pytest", "2 failed, 7 passed, 1 error in 3.00s\n", "7 3"),
    ("ctest", "90% tests passed, 2 tests failed out of 20\n", "18 2"),
    ("lines", "ok  \tx\n7 passed, 2 failed\n", "7 2"),
])
def test_a_log_is_counted(tmp_path, suite, log, counted):
    (tmp_path / "log").write_text(log)
    done = run(["bash", "-c", f". tests/suites; count {tmp_path / 'log'}"], TOP)
    assert done.stdout == f"{counted}\n", suite


def test_every_suite_that_is_tried_again_has_a_way_to_run_one_test():
    listed = run(["tests/run", "--list"], TOP).stdout.split()
    named = run(["bash", "-c", ". tests/suites; compgen -A function again_"], TOP).stdout.split()
    assert sorted(named) == sorted(f"again_{suite}" for suite in kinds.KINDS)
    assert set(kinds.KINDS) < set(listed)


def test_every_suite_has_a_budget():
    listed = run(["tests/run", "--list"], TOP).stdout.split()
    lines = (TOP / "tests" / "budgets").read_text().splitlines()
    filed = [line.split()[0] for line in lines if not line.startswith("#")]
    assert sorted(filed) == sorted(listed)


@pytest.mark.parametrize("took, others, said", [(150, 0, False), (151, 20, True), (151, 10000, False)])
def test_a_slow_suite_is_named_on_an_idle_machine(took, others, said):
    done = run(["bash", "-c", f". tests/clock; judge_time unit {took} 100 {others}"], TOP)
    assert done.stdout.startswith("slow: unit took 151 s") == said


def test_a_slice_is_chosen_by_the_number_of_the_run():
    text = 'HOLDFAST_LONG=; suite=sim; . tests/suites; said_slice "$(slice 5)"; HOLDFAST_LONG=1; slice 5'
    done = run(["bash", "-c", text], TOP, HOLDFAST_SLICE="13")
    assert done.stdout == "slice 3/5 of sim; repeat: HOLDFAST_SLICE=13 tests/run sim\n"


def test_tests_that_share_nothing_are_apart():
    """On workers of their own, beside others of their file."""
    sys.path.insert(0, str(TOP / "tests" / "integration"))
    import schedule
    assert "test_an_empty_cluster_says_what_a_restore_needs_and_then_takes_it" in schedule.apart(
        TOP / "tests/integration/test_restore.py")
    assert not schedule.apart(TOP / "tests/integration/test_kv.py")


def test_one_test_runs_alone():
    done = run(["tests/run", "--again", "retry", "tests/again/test_again.py::test_a_log_is_counted"], TOP)
    assert done.returncode == 0 and done.stdout.endswith("6 passed, 0 failed\n"), done.stdout
    done = run(["tests/run", "--again", "retry", "tests/again/test_again.py::test_that_is_absent"], TOP)
    assert done.returncode == 1
    done = run(["tests/run", "--again", "sim", "7"], TOP)
    assert (done.returncode, done.stdout) == (2, "no test of suite sim runs alone\n")
