"""The documents match the program: versions, licence, links."""

import re
import subprocess

from cluster import HOLDFAST, TOP


def test_the_changelog_begins_with_the_version_that_is_built():
    project = (TOP / "CMakeLists.txt").read_text()
    version = re.search(r"project\(holdfast VERSION ([0-9.]+)", project).group(1)
    newest = re.search(r"^## ([0-9.]+)", (TOP / "CHANGELOG.md").read_text(), re.M).group(1)
    told = subprocess.run([HOLDFAST, "version"], check=True, capture_output=True, text=True).stdout
    assert newest == version and told == f"holdfast {version}\n"


def test_the_licence_is_apache_2_whole():
    text = (TOP / "LICENSE").read_text()
    assert "Apache License" in text and "Version 2.0, January 2004" in text
    assert [str(n) for n in range(1, 10)] == re.findall(r"^ {3}(\d)\. ", text, re.M)
    assert "END OF TERMS AND CONDITIONS" in text


def documents():
    listed = subprocess.run(["git", "-C", str(TOP), "ls-files", "-co", "--exclude-standard",
                             "*.md"], check=True, capture_output=True, text=True)
    return [TOP / name for name in listed.stdout.split()]


def test_links_between_documents_lead_somewhere():
    broken = []
    for page in documents():
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in link and not (page.parent / link).exists():
                broken.append(f"{page.relative_to(TOP)}: {link}")
    assert not broken, "\n".join(broken)
