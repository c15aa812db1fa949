"""What is kept of calls: which engine each reached, and none where nobody can tell."""

import json

import pytest

import recorder

PORT = 1
MOUNT = "/v1/sys/mounts/brief"


class Answer:
    def __init__(self, status):
        self.status, self.headers, self.body = status, {}, b""


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "FOLDER", str(tmp_path))
    recorder.know([PORT])
    yield lambda: [json.loads(line)["engine"] for file in tmp_path.iterdir() for line in open(file)]
    del recorder.clusters[PORT]


def answered(method, target, body=None, settled=True):
    recorder.record(PORT, method, target, body, {}, Answer(204), "tests", settled)


def mount(version):
    with recorder.asking(PORT, "POST", MOUNT):
        answered("POST", MOUNT, json.dumps({"type": "kv", "options": {"version": version}}))


def test_a_call_reached_the_engine_mounted_before_it(kept):
    for version in "1", "2":
        mount(version)
        with recorder.asking(PORT, "POST", "/v1/brief/a") as settled:
            answered("POST", "/v1/brief/a", settled=settled())
    assert kept() == ["", "kv1", "", "kv2"]


def test_a_call_beside_a_change_names_no_engine(kept):
    with recorder.asking(PORT, "POST", "/v1/brief/a") as settled:
        mount("2")
        answered("POST", "/v1/brief/a", settled=settled())
    with recorder.asking(PORT, "DELETE", MOUNT):
        with recorder.asking(PORT, "POST", "/v1/brief/a") as settled:
            answered("POST", "/v1/brief/a", settled=settled())
    assert kept() == ["", None, None]


def test_a_change_that_failed_is_over(kept):
    with pytest.raises(OSError):
        with recorder.asking(PORT, "POST", MOUNT):
            raise OSError("no answer")
    with recorder.asking(PORT, "GET", "/v1/sys/health") as settled:
        assert settled()
