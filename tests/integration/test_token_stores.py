"""Tokens in real databases, PostgreSQL and MariaDB, on three nodes."""

import concurrent.futures
import contextlib
import time
import urllib.parse

import pytest

import token_form
import trail
from cluster import STEADY, Cluster, merged
from databases import KEEPER, MAKER, Databases
from test_transform import write

T = "/v1/transform/"
CARD = "4111-1111-1111-1111"
NO_TOKEN = "value: no valid token of the transformation"
FAR, FARTHER = "2040-01-01T00:00:00Z", "2041-01-01T00:00:00.25Z"
BOUND_S = 8  # a job's 5 s, and the way there and back on a busy machine
KINDS = {"plain": {}, "same": {"convergent": True}, "open": {"mapping_mode": "exportable"},
         "open-same": {"mapping_mode": "exportable", "convergent": True}}
HOSTILE = ["'; DROP TABLE tokens; --", "a\"b`c\\", "%", "_", "%_\\%", "\u0001\u007f", "𝄞🂡€ä", "\u0000x", "x" * 60000,
           "trailing  ", "1' OR '1'='1", "$1 ? :a {{password}}"]


class StoreCluster(Cluster):
    def __init__(self):
        super().__init__(config=merged(STEADY, {"outgoing": {"allow": ["127.0.0.0/8"]}}))
        self.databases = Databases()

    def __enter__(self):
        self.databases.__enter__()
        made = super().__enter__()
        try:
            made.await_feature_level()
            write(made.nodes[0], "/v1/sys/mounts/transform", {"type": "transform"})
            for database in self.databases.all:
                configure(made.nodes[0], database)
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return made

    def __exit__(self, kind, value, trace):
        try:
            super().__exit__(kind, value, trace)
        finally:
            self.databases.__exit__(kind, value, trace)


CLUSTER = StoreCluster


def store(database, **over):
    return {"type": "sql", "driver": database.driver, "connection_string": database.url(), "username": KEEPER[0],
            "password": KEEPER[1], "tls_ca": database.ca, **over}


def configure(node, database):
    name = database.driver
    write(node, f"{T}stores/{name}", store(database))
    write(node, f"{T}stores/{name}/schema", {"username": MAKER[0], "password": MAKER[1]})
    for kind, body in KINDS.items():
        write(node, f"{T}transformations/tokenization/{name}-{kind}",
              {**body, "stores": [name], "allowed_roles": "*"})
        write(node, f"{T}role/{name}-{kind}", {"transformations": f"{name}-{kind}"})


def ask(node, call, role, value=CARD, status=200, **body):
    return write(node, f"{T}{call}/{role}", {"value": value, **body}, status).data


def encode(node, role, value=CARD, **body):
    return ask(node, "encode", role, value, **body)["encoded_value"]


def decode(node, role, token):
    return ask(node, "decode", role, token)["decoded_value"]


def delete(node, path, status=204, **query):
    answer = node.call("DELETE", f"{T}{path}?{urllib.parse.urlencode(query)}")
    assert answer.status == status, answer.body
    return answer


@pytest.fixture(params=["postgres", "mysql"])
def database(request, cluster):
    return next(d for d in cluster.databases.all if d.driver == request.param)


def test_a_token_made_by_any_node_decodes_on_every_node(cluster, database):
    for kind in KINDS:
        role = f"{database.driver}-{kind}"
        made = {encode(node, role) for node in cluster.nodes}
        assert len(made) == (1 if "same" in kind else 3)
        for token in made:
            for node in cluster.nodes:
                assert decode(node, role, token) == CARD
                assert ask(node, "validate", role, token)["valid"] is True
    assert "4111" not in database.dump()
