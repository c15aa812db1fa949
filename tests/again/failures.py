"""A plugin of pytest: writes each failed report as a line of JSON to the file that HOLDFAST_FAILURES names.

The controller of pytest-xdist gets the reports of all workers, so workers write nothing."""

import json
import os


def pytest_runtest_logreport(report):
    path = os.environ.get("HOLDFAST_FAILURES")
    if not path or not report.failed or "PYTEST_XDIST_WORKER" in os.environ:
        return
    sections = [f"--- {name}\n{text}" for name, text in report.sections]
    line = {"test": report.nodeid, "when": report.when,
            "text": "\n".join([report.longreprtext, *sections])}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
