"""How rows measure and report: interleaved rounds, paired ratios, RESULT lines, raw data."""

import json
import os
import statistics

from nodes import BENCH

ROUNDS = int(os.environ.get("HOLDFAST_ROUNDS", "5"))
SECONDS = float(os.environ.get("HOLDFAST_SECONDS", "5"))
MOVED = 0.15  # a raw ceiling that moved more during a round makes the round worthless

results = []  # of all rows of this run, in order
raw_data = {}  # row: whatever it measured, for its JSON


def rounds(row, sides, ceiling, count=None):
    """[{side: sample}] of ROUNDS or `count` rounds: in each every side runs once, in turn; ceiling()
    before and after tells whether the machine held still. A round in which it did not is discarded
    and made up for, half as many times as there are rounds; where too few are left, all count and it
    is said."""
    kept, discarded = [], []
    count = count or ROUNDS
    before = ceiling()
    for _ in range(count + count // 2):
        samples = {name: run() for name, run in sides.items()}
        after = ceiling()
        steady = abs(after / before - 1) <= MOVED
        (kept if steady else discarded).append({**samples, "ceiling": [before, after]})
        before = after
        if len(kept) == count:
            break
    raw_data.setdefault(row, {}).setdefault("rounds", []).append(
        {"kept": kept, "discarded": discarded})
    if 2 * len(kept) > count:
        return kept
    print(f"# {row}: the machine held still in {len(kept)} rounds only; all count", flush=True)
    return kept + discarded


def ratios(samples, side, peer, figure="rate"):
    return [each[side][figure] / each[peer][figure] for each in samples]


def medians(samples, side, *figures):
    return [statistics.median(each[side][figure] for each in samples) for figure in figures]


def short(value):
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def result(row, values, unit, gate=None, goal=None, most=False, detail=""):
    """One line. `values` are paired ratios, or figures in `unit`; their median counts. It passes
    when it is at least the gate, or at most that where `most`."""
    median = statistics.median(values)
    sign = "<=" if most else ">="
    if gate is None:
        verdict, bounds = "shown", "gate none goal none"
    else:
        verdict = "pass" if (median <= gate if most else median >= gate) else "miss"
        bounds = f"gate {sign}{gate:g} goal {sign}{goal:g}"
    line = {"row": row, "value": median, "least": min(values), "most": max(values), "unit": unit,
            "gate": gate, "goal": goal, "at_most": most, "verdict": verdict, "detail": detail}
    results.append(line)
    raw_data.setdefault(row, {}).setdefault("results", []).append(line)
    print(f"RESULT {row} {short(median)} {unit} {bounds} {verdict}", flush=True)


def save(row):
    with open(BENCH / f"{row}.json", "w") as out:
        json.dump(raw_data.get(row, {}), out, indent=1)


def table():
    """All results of this run, as text."""
    lines = [f"{'row':10} {'median':>8} {'range':>15}  {'of':28} {'gate':>7} {'goal':>7}"]
    for r in results:
        bound = "<=" if r["at_most"] else ">="
        gate, goal = ((f"{bound}{r[k]:g}" if r[k] is not None else "-") for k in ("gate", "goal"))
        spread = f"{short(r['least'])}..{short(r['most'])}"
        lines.append(f"{r['row']:10} {short(r['value']):>8} {spread:>15}  {r['unit']:28} "
                     f"{gate:>7} {goal:>7}  {r['verdict']:5} {r['detail']}".rstrip())
    return "\n".join(lines) + "\n"
