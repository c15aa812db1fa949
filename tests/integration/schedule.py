"""Which tests of pytest-xdist stay together on one worker: those of a file, for they share its clusters;
but a test that takes nothing is apart, so that a file with many clusters does not run on one worker alone."""

import ast
import functools
import pathlib

from xdist.scheduler import LoadScopeScheduling

ALONE = {"tmp_path", "monkeypatch"}  # fixtures of a single test


@functools.cache
def apart(path):
    """Names of the tests of a file that share nothing with others. Where a test judges what the tests before it
    have run (not_seen), all stay together."""
    text = pathlib.Path(path).read_text()
    if "not_seen" in text:
        return set()
    tree = ast.parse(text)
    return {each.name for each in tree.body
            if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")
            and {argument.arg for argument in each.args.args} <= ALONE}


class Schedule(LoadScopeScheduling):
    def _split_scope(self, nodeid):
        file, _, test = nodeid.partition("::")
        path = pathlib.Path(self.config.rootpath) / file
        return nodeid if test.partition("[")[0] in apart(path) else file
