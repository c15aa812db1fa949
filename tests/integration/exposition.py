"""A strict reader of the text formats of Prometheus (0.0.4) and OpenMetrics (1.0.0).

What it accepts, a scraper does. Where a format leaves room, it is stricter: every family has a help
text and a type before its samples, and its samples follow each other.
"""

import math
import re

NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? ([0-9]+(?:\.[0-9]+)?)")
SUFFIXES = {"counter": ["_total"], "info": ["_info"], "histogram": ["_bucket", "_sum", "_count"],
            "gauge": [""]}


class Family:
    def __init__(self, name, text):
        self.name, self.help, self.kind = name, text, None
        self.samples = {}  # (name, labels as sorted pairs) -> value


def parse(text, openmetrics=False):
    """{name: Family}. An AssertionError names the line that is wrong."""
    assert text.endswith("\n"), "the last line is not ended"
    lines = text[:-1].split("\n")
    if openmetrics:
        assert lines[-1] == "# EOF", lines[-1]
        lines.pop()
    families, now = {}, None
    for line in lines:
        if line.startswith("# HELP "):
            name, _, words = line[len("# HELP "):].partition(" ")
            assert re.fullmatch(NAME, name) and words and name not in families, line
            now = families[name] = Family(name, words)
        elif line.startswith("# TYPE "):
            name, kind = line[len("# TYPE "):].split(" ")
            assert now is not None and now.name == name and now.kind is None, line
            assert kind in SUFFIXES and (openmetrics or kind != "info"), line
            now.kind = kind
        else:
            _add(now, line, openmetrics)
    for family in families.values():
        assert family.kind, family.name
        if family.kind == "histogram":
            _check_histogram(family)
    return families


def _add(family, line, openmetrics):
    match = SAMPLE.fullmatch(line)
    assert match and family is not None and family.kind is not None, line
    name, labels, value = match.group(1), match.group(2) or "", match.group(match.lastindex)
    suffixes = [""] if family.kind == "counter" and not openmetrics else SUFFIXES[family.kind]
    assert name in [family.name + suffix for suffix in suffixes], line
    assert family.kind != "counter" or name.endswith("_total"), line
    pairs = re.findall(LABEL, labels)
    assert len({key for key, _ in pairs}) == len(pairs), line
    key = (name, tuple(sorted(pairs)))
    assert key not in family.samples, line
    family.samples[key] = float(value)


def _check_histogram(family):
    groups = {}
    for (name, labels), value in family.samples.items():
        rest = tuple(pair for pair in labels if pair[0] != "le")
        group = groups.setdefault(rest, {"buckets": []})
        if name.endswith("_bucket"):
            bound = dict(labels)["le"]
            group["buckets"].append((math.inf if bound == "+Inf" else float(bound), value))
        else:
            group[name.rpartition("_")[2]] = value
    for group in groups.values():
        bounds = [bound for bound, _ in group["buckets"]]
        counts = [count for _, count in group["buckets"]]
        assert bounds == sorted(set(bounds)) and bounds[-1] == math.inf, family.name
        assert counts == sorted(counts) and counts[-1] == group["count"], family.name
        assert (group["sum"] > 0) == (group["count"] > 0), family.name
