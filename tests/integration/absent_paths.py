"""The paths of upstream that are not built, which no document of a node lists: they are 404 with a name."""

import pathlib
import re

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src" / "api" / "absent" / "absent_paths.c"


def read():
    """As the OpenAPI document would write them, from the rows of the route table."""
    rows = re.findall(r'^    (?:ABSENT|ABSENT_SUDO|OFF)\("([^"]+)"', SOURCE.read_text(), re.M)
    assert len(rows) > 20, f"{SOURCE.name} has changed its form"
    return ["/sys/" + re.sub(r"[*:](\w+)", r"{\1}", row) for row in rows]
