"""SVG plots of a run, written by hand: ratios beside their bounds, and the latencies of `tail`."""

import html
import json
import math

from nodes import BENCH

WIDTH, LEFT, LINE = 900, 300, 26
COLOURS = {"pass": "#2a7", "miss": "#c43", "shown": "#79b"}


def text(x, y, words, anchor="start", fill="#222"):
    return (f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{fill}">'
            f"{html.escape(words)}</text>")


def rule(x, y, height, colour):
    return (f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + height}" stroke="{colour}" '
            'stroke-width="2"/>')


def svg(name, height, parts):
    (BENCH / name).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="white"/>'
        + "".join(parts) + "</svg>\n")


def bar(y, r):
    """A result as a share of its own largest bound or value, its gate and goal as lines."""
    bounds = [r[key] for key in ("gate", "goal") if r[key] is not None]
    most = 1.1 * max([r["most"], *bounds]) or 1

    def x(value):
        return LEFT + (WIDTH - LEFT - 20) * value / most

    parts = [
        text(LEFT - 8, y + 17, f"{r['row']}: {r['value']:.3g} {r['unit']}", "end"),
        f'<rect x="{LEFT}" y="{y + 4}" width="{x(r["value"]) - LEFT:.1f}" height="{LINE - 8}" '
        f'fill="{COLOURS[r["verdict"]]}"/>',
        f'<line x1="{x(r["least"]):.1f}" x2="{x(r["most"]):.1f}" y1="{y + LINE / 2}" '
        f'y2="{y + LINE / 2}" stroke="#222"/>',
    ]
    colours = ("#222", "#d90")
    return parts + [rule(x(b), y + 2, LINE - 4, c) for b, c in zip(bounds, colours)]


def summary(results):
    parts = [text(10, 20, "Bar: median; thin line: range; black: gate, orange: goal; blue: no "
                          "bound. Each row has a scale of its own.")]
    for i, r in enumerate(results):
        parts += bar(32 + i * LINE, r)
    svg("results.svg", 40 + LINE * len(results), parts)


def curve(histogram, x, y):
    """Latency by the share of requests that were slower, both in powers of ten."""
    total, seen, points = sum(n for _, n in histogram), 0, []
    for us, n in histogram:
        slower = 1 - seen / total
        points.append(f"{x(slower):.1f},{y(max(us, 1)):.1f}")
        seen += n
    return " ".join(points)


def tail(path):
    """Of the last round that counted."""
    last = json.loads(path.read_text())["rounds"][-1]
    sample = (last["kept"] or last["discarded"])[-1]
    height, top, bottom, right = 400, 40, 350, WIDTH - 40

    def x(slower):
        return 80 + (right - 80) * min(1, -math.log10(max(slower, 1e-5)) / 4)

    def y(us):
        return bottom - (bottom - top) * min(1, math.log10(us) / 6)

    parts = [text(80, 24, "tail: latency from the intended start at the same offered rate")]
    for power, name in enumerate(("0", "90 %", "99 %", "99.9 %", "99.99 %")):
        parts += [rule(x(10 ** -power), top, bottom - top, "#ddd"),
                  text(x(10 ** -power), bottom + 18, name, "middle")]
    for power, name in ((2, "0.1 ms"), (3, "1 ms"), (4, "10 ms"), (5, "100 ms"), (6, "1 s")):
        parts.append(text(74, y(10 ** power) + 4, name, "end"))
    for i, (side, colour) in enumerate((("ours", "#2a7"), ("etcd gateway", "#c43"))):
        points = curve(sample[side]["histogram"], x, y)
        parts += [f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>',
                  text(100, 60 + 18 * i, side, fill=colour)]
    svg("tail.svg", height, parts)


def draw(results, rows):
    summary(results)
    if "tail" in rows:
        tail(BENCH / "tail.json")
