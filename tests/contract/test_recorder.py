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


def test_a_call_has_the_kind_of_its_token_in_each_api(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "FOLDER", str(tmp_path))
    monkeypatch.setattr(recorder, "powerless", {"weak"})
    monkeypatch.setattr(recorder, "clusters", {})
    monkeypatch.setattr(recorder, "alone", {})
    recorder.know([PORT])
    recorder.know_api(PORT + 1, PORT, "registry")
    recorder.know_api(PORT + 3, PORT + 2, "registry")  # of a cluster that is not judged

    def told(port, headers=None, query="", method="GET", path="acl/policies"):
        recorder.record(port, method, f"/v1/{path}{query}", None, headers or {}, Answer(200), "tests")
        lines = [json.loads(line) for file in tmp_path.iterdir() for line in open(file)]
        return lines[-1]["api"], lines[-1]["tokens"]["registry"], lines[-1]["tokens"]["secrets"]

    assert told(PORT) == (None, "none", "none")
    assert told(PORT, {"X-Vault-Token": "a"}) == (None, "none", "good")
    assert told(PORT + 1, {"X-Consul-Token": "a"}) == ("registry", "good", "none")
    assert told(PORT, {"Authorization": "Bearer weak"}) == (None, "powerless", "powerless")
    assert told(PORT, {"X-Registry-Token": "a"}, "?token=weak") == (None, "powerless", "none")
    recorder.record(PORT + 3, "GET", "/v1/acl/policies", None, {}, Answer(200), "tests")
    assert sum(len(file.read_text().splitlines()) for file in tmp_path.iterdir()) == 5
    assert told(PORT, method="PUT", path=recorder.ANONYMOUS)[1] == "anonymous"
