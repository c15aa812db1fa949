"""What failed in a suite: each kind of suite names its tests in a way of its own.

A function of KINDS gets the suite's log and the file of tests/again/failures.py, and returns Failed
objects. `tests/run --again SUITE TEST` runs one of them alone."""

import dataclasses
import json
import pathlib
import re

SANITIZER = re.compile(
    r"ERROR: [A-Za-z]+Sanitizer|WARNING: ThreadSanitizer|SUMMARY: [A-Za-z]+Sanitizer|: runtime error: ")
JUDGED = re.compile(r"^    the judge found \d+ of them$", re.M)


@dataclasses.dataclass
class Failed:
    suite: str
    test: str  # as `tests/run --again` takes it
    text: str  # what the test printed
    count: int = 1  # failures that the suite counted for the test
    passed: int = 1  # tests that pass when this one is healed; 0: counted as passed already

    @property
    def name(self):
        """For people and for the file system."""
        short = re.sub(r"^tests/(integration/)?|\.py(?=::)", "", self.test)
        return re.sub(r"[^\w.:+=\[\]-]+", "_", f"{self.suite}:{short}")[:150]

    @property
    def final(self):
        """Why the failure is true whatever another try shows, or None."""
        if SANITIZER.search(self.text):
            return "a sanitizer has reported"
        if JUDGED.search(self.text):
            return "clients have seen a contradiction"
        return None


def of_pytest(suite, _, records):
    found = {}
    for line in records.splitlines():
        report = json.loads(line)
        test = report["test"]
        if test in found:
            found[test].count += 1
            found[test].text += "\n" + report["text"]
        else:
            found[test] = Failed(suite, test, report["text"], passed=0)
        if report["when"] != "teardown":  # else its call has passed, and pytest counted that
            found[test].passed = 1
    return list(found.values())


def of_ctest(suite, log, _):
    """What a failed test printed follows the line of its end."""
    parts = re.split(r"^\s*\d+/\d+ Test +#\d+: ", log, flags=re.M)[1:]
    texts = {part.split(maxsplit=1)[0]: part for part in parts}
    listed = re.findall(r"^\s*\d+ - (\S+) \(\w[^)]*\)", log.partition("The following tests FAILED")[2], re.M)
    return [Failed(suite, test, texts.get(test, "")) for test in listed]


def of_go(suite, log, _):
    """Tests of packages, each as PACKAGE:TEST: a package's failures stand before its line."""
    found, before = [], []
    for line in log.splitlines():
        before.append(line)
        end = re.match(r"(FAIL|ok  )\t(\S+)", line)
        if not end:
            continue
        text = "\n".join(before)
        tests = re.findall(r"^--- FAIL: (\S+)", text, re.M)
        found += [Failed(suite, f"{end[2]}:{test}", text, passed=0) for test in tests]
        if tests:
            found[-1].passed = 1  # a package counts once
        before = []
    return found


ROW = re.compile(r"^\S+ +(?:FAILED .*|\d+ operations, .* (?!0 findings)\d+ findings)\n(?:    .*\n?)*", re.M)


def of_jepsen(suite, log, _):
    """Tests of the harness, and rows: the test is the command that repeats the row."""
    rows = []
    for row in ROW.finditer(log):
        again = re.search(r"^    again: jepsen/run (.*)$", row[0], re.M)
        if again:
            rows.append(Failed(suite, again[1], row[0]))
    return of_go(suite, log, "") + rows


def of_conformance(suite, log, _):
    """Tests of upstream's clients, each as CLIENT:TEST."""
    found = []
    parts = re.split(r"^=== (vault|openbao|consul)$", log, flags=re.M)
    for client, text in zip(parts[1::2], parts[2::2]):
        for end in re.finditer(r"^--- FAIL: (\S+)", text, re.M):
            begin = text.find(f"=== RUN   {end[1]}\n")
            found.append(Failed(suite, f"{client}:{end[1]}", text[max(begin, 0):end.end()]))
    return found


def of_lines(suite, log, _):
    """A script that prints `FAIL NAME: why`, and runs NAME alone."""
    return [Failed(suite, at[1], at[0]) for at in re.finditer(r"^FAIL +([\w.-]+).*(?:\n .*)*", log, re.M)]


# Suites that are not here are judged by their first run: their failures do not depend on chance
# (tidy, contract, instructions), or are found by chance and must not be lost (sim, asserts, planted).
KINDS = {
    "retry": of_pytest, "races": of_pytest, "storm": of_pytest, "integration": of_pytest, "bench": of_pytest,
    "unit": of_ctest, "optimised": of_ctest, "tsan": of_ctest,
    "jepsen": of_jepsen, "conformance": of_conformance, "model": of_lines,
}
# The code with which a suite ends when tests have failed; another one says that something else is wrong.
CODES = {of_ctest: 8}


def failed_tests(suite, code, logs):
    """The failed tests of a suite; nothing where the suite did not end as it does after failed tests."""
    kind = KINDS.get(suite)
    if kind is None or code != CODES.get(kind, 1):
        return []
    logs = pathlib.Path(logs)
    records = logs / f"{suite}.failures"
    return kind(suite, (logs / f"{suite}.log").read_text(errors="replace"),
                records.read_text() if records.exists() else "")
