"""The files that `cmake --install` puts onto a machine."""

import re
import shutil
import subprocess

import pytest

from cluster import TOP

PREFIX = "/opt/holdfast"
FILES = """
bin/holdfast lib/systemd/system/holdfast.service lib/sysusers.d/holdfast.conf
lib/systemd/system/holdfast-worker.service
lib/tmpfiles.d/holdfast.conf share/man/man1/holdfast.1
share/bash-completion/completions/holdfast share/zsh/site-functions/_holdfast
share/fish/vendor_completions.d/holdfast.fish share/doc/holdfast/README.md
share/doc/holdfast/LIMITS.md share/doc/holdfast/LICENSE share/doc/holdfast/CHANGELOG.md
share/doc/holdfast/deploy/haproxy/haproxy.cfg share/doc/holdfast/deploy/tls/bootstrap
share/doc/holdfast/deploy/dr/README.md share/doc/holdfast/deploy/observe/alerts.yml
share/doc/holdfast/SECURITY.md share/doc/holdfast/docs/README.md
""".split()


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    build = TOP / "build" / "release"
    subprocess.run(["cmake", "--build", build], check=True, timeout=900, capture_output=True)
    subprocess.run(["cmake", "--install", build, "--prefix", PREFIX], check=True, timeout=120,
                   env={"DESTDIR": str(root), "PATH": "/usr/bin:/bin"}, capture_output=True)
    return root / PREFIX.lstrip("/")


def test_every_file_is_in_its_place(installed):
    missing = [name for name in FILES if not (installed / name).stat().st_size > 0]
    assert not missing


def test_the_unit_names_the_program_of_its_prefix(installed):
    text = (installed / "lib/systemd/system/holdfast.service").read_text()
    assert re.search(r"^ExecStart=(\S+)", text, re.M)[1] == f"{PREFIX}/bin/holdfast"
    assert f"file://{PREFIX}/share/doc/holdfast/README.md" in text
    assert "/usr/local" not in text
    for unit in ("holdfast.service", "holdfast-worker.service"):
        shipped = (TOP / "deploy" / "systemd" / unit).read_text()
        installed_unit = (installed / "lib/systemd/system" / unit).read_text()
        assert installed_unit == shipped.replace("/usr/local/", f"{PREFIX}/") != shipped


def test_links_between_installed_documents_lead_somewhere(installed):
    doc = installed / "share" / "doc" / "holdfast"
    broken = []
    for name in ("README.md", *(f"docs/{page.name}" for page in (doc / "docs").glob("*.md"))):
        page = doc / name
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in link and not (page.parent / link).exists():
                broken.append(f"{name}: {link}")
    assert not broken, "\n".join(broken)


def test_the_manual_page_names_every_command(installed):
    page = installed / "share/man/man1/holdfast.1"
    text = page.read_text().replace("\\-", "-")
    told = subprocess.run([installed / "bin/holdfast", "help"], capture_output=True, text=True)
    commands = re.findall(r"^  ([a-z][a-z -]*[a-z])  ", told.stdout, re.M)
    assert len(commands) > 40
    for command in commands:
        assert re.search(rf"^\.SS holdfast {re.escape(command)}\b", text, re.M), command
    assert not re.search(r"^\.(?!TH|SH|SS|TP|PP|B|I)", text, re.M)  # a text that reads as a request
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", "-k", page],
                              capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, done.stderr


@pytest.mark.parametrize("shell, script", [
    ("bash", "share/bash-completion/completions/holdfast"),
    ("zsh", "share/zsh/site-functions/_holdfast"),
    ("fish", "share/fish/vendor_completions.d/holdfast.fish"),
])
def test_completions_are_scripts_of_their_shell(installed, shell, script):
    done = subprocess.run([shell, "-n", installed / script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
