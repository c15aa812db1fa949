"""Sampled stacks as a flame graph. Standard library only."""

import html
import re

WIDTH, ROW, LETTER, LEAST = 1400, 17, 7, 0.4  # pixels; what is narrower is left out
SAMPLES_LEAST = 2  # likewise: a single deep stack is mostly one that was misread
COLOURS = {"kernel": "#e8a33d", "holdfast": "#e0674b", "library": "#8fb3d9", "place": "#b9c48f"}


class Box:
    """A function below its callers; `count` samples were in it or in what it called."""

    def __init__(self, kind):
        self.kind, self.count, self.inner = kind, 0, {}

    def add(self, stack):
        self.count += 1
        box = self
        for name, kind in stack:
            box = box.inner.setdefault(name, Box(kind))
            box.count += 1

    def depth(self, least):
        """Rows of what at least so many samples were in."""
        return 1 + max((b.depth(least) for b in self.inner.values() if b.count >= least), default=0)


def kind_of(library):
    if "kernel" in library or library.startswith("["):
        return "kernel"
    return "holdfast" if library.endswith("holdfast") else "library"


def samples(text, place_of):
    """The stacks of `perf script`, outermost call first, below what `place_of` calls the process."""
    for sample in text.split("\n\n"):
        head, *frames = sample.strip("\n").split("\n")
        process = re.match(r"\s*(.+?)\s+(\d+)/(\d+)\s", head)
        if not process:
            continue
        stack = [(place_of(int(process[2])), "place"), (process[1], "place")]
        for frame in reversed(frames):
            parts = re.match(r"\s*[0-9a-f]+ (.*) \((.*)\)$", frame)
            name = re.sub(r"\+0x[0-9a-f]+$", "", parts[1]) if parts else "[unknown]"
            if name != stack[-1][0]:  # calls of itself are one box
                stack.append((name, kind_of(parts[2] if parts else "")))
        yield stack


def fold(text, place_of):
    root = Box("place")
    for stack in samples(text, place_of):
        root.add(stack)
    return root


def draw(box, name, left, level, scale, total, out):
    width = box.count * scale
    if width < LEAST or box.count < SAMPLES_LEAST:
        return
    share = f"{name}: {100 * box.count / total:.2f} % ({box.count} samples)"
    room = int(width / LETTER)
    label = name if len(name) <= room else name[: room - 1] + "…" if room > 3 else ""
    out.append(f'<g><title>{html.escape(share)}</title><rect x="{left:.1f}" y="{level * ROW}" '
               f'width="{width:.1f}" height="{ROW - 1}" fill="{COLOURS[box.kind]}"/>'
               f'<text x="{left + 2:.1f}" y="{level * ROW + 12}">{html.escape(label)}</text></g>')
    for inner, below in sorted(box.inner.items()):
        draw(below, inner, left, level - 1, scale, total, out)
        left += below.count * scale


def picture(root, title):
    rows = root.depth(max(LEAST * root.count / WIDTH, SAMPLES_LEAST))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{rows * ROW}" '
           'font-family="monospace" font-size="11">']
    draw(root, title, 0, rows - 1, WIDTH / root.count, root.count, out)
    return "\n".join([*out, "</svg>\n"])
