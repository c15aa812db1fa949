"""Tokens in real databases, PostgreSQL and MariaDB, on three nodes."""

import concurrent.futures
import contextlib
import re
import socket
import threading
import urllib.parse

import pytest

import token_form
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
HOSTILE = ["'; DROP TABLE tokens; --", "a\"b`c\\", "%", "_", "%_\\%", "\u0001\u007f", "𝄞🂡€ä", "x" * 60000,
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
    name = database.name
    write(node, f"{T}stores/{name}", store(database))
    for _ in range(2):  # idempotent
        write(node, f"{T}stores/{name}/schema", {"username": MAKER[0], "password": MAKER[1]})
    for kind, body in KINDS.items():
        add(node, f"{name}-{kind}", [name], **body)


def add(node, name, stores, **body):
    write(node, f"{T}transformations/tokenization/{name}", {**body, "stores": stores, "allowed_roles": "*"})
    write(node, f"{T}role/{name}", {"transformations": name})


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
        role = f"{database.name}-{kind}"
        made = {encode(node, role) for node in cluster.nodes}
        assert len(made) == (1 if "same" in kind else 3)
        for token in made:
            for node in cluster.nodes:
                assert decode(node, role, token) == CARD
                assert ask(node, "validate", role, token) == {"valid": True}
                assert ask(node, "tokenized", role) == {"tokenized": True}
    assert "4111" not in database.dump()
    assert database.sql("SELECT count(*) FROM tokens", "vault") == "8"


def test_hostile_values_come_back(cluster, database):
    first, second, _ = cluster.nodes
    for kind in ["plain", "same"]:
        role = f"{database.name}-{kind}"
        items = [{"value": value, "metadata": {"m": value[:100]}, "reference": str(n)}
                 for n, value in enumerate(HOSTILE)]
        made = write(first, f"{T}encode/{role}", {"batch_input": items}, 200).data["batch_results"]
        tokens = [result["encoded_value"] for result in made]
        items = [{"value": token, "reference": str(n)} for n, token in enumerate(tokens + tokens[:2])]
        got = write(second, f"{T}decode/{role}", {"batch_input": items}, 200).data["batch_results"]
        assert [result["decoded_value"] for result in got] == HOSTILE + HOSTILE[:2]
        assert [result["reference"] for result in got] == [str(n) for n in range(len(items))]
        for token, value in zip(tokens, HOSTILE):
            assert ask(second, "metadata", role, token) == {"metadata": {"m": value[:100]}}
            assert ask(second, "tokenized", role, value) == {"tokenized": True}
        write(first, f"{T}encode/{role}", {"value": "nul\u0000"}, 400)
    for text in [*HOSTILE[:-1], "' OR ''='"]:
        write(first, f"{T}decode/{database.name}-plain", {"value": text}, 400, NO_TOKEN)


def test_metadata_ends_and_convergence(cluster, database):
    first, second, _ = cluster.nodes
    role = f"{database.name}-same"
    token = encode(first, role, "converges", metadata="a=1", expiration=FAR)
    assert encode(second, role, "converges", expiration=FAR) == token
    assert ask(second, "metadata", role, token) == {"metadata": {"a": "1"}, "expiration_time": FAR}
    assert encode(second, role, "converges", metadata="b=2", expiration=FAR) == token
    assert ask(first, "metadata", role, token) == {"metadata": {"b": "2"}, "expiration_time": FAR}
    assert decode(first, role, token) == "converges"
    other = encode(first, role, "converges", expiration=FARTHER)
    assert other != token and token_form.parts(other)[2] == (2240611200, 250000000)
    items = [{"value": "converges", "expiration": FAR, "metadata": m} for m in ["c=1", "c=2"]] + \
        [{"value": "converges", "expiration": FAR}, {"value": "", "reference": "bad"}]
    answer = write(first, f"{T}encode/{role}", {"batch_input": items}, 400)
    results = answer.data["batch_results"]
    assert [r.get("encoded_value") for r in results] == [token] * 3 + [None]
    assert results[3] == {"error": "value: the field is required", "reference": "bad"}
    assert ask(second, "metadata", role, token)["metadata"] == {"c": "2"}


def test_rotation_keeps_convergence_and_trimmed_rows_are_written_anew(cluster, database):
    node, other, _ = cluster.nodes
    name = f"{database.name}-turn"
    add(node, name, [database.name], convergent=True)
    token = encode(node, name, "turned", metadata="a=1")
    for _ in range(3):
        write(node, f"{T}tokenization/keys/{name}/rotate", {})
    assert encode(other, name, "turned") == token and decode(other, name, token) == "turned"
    later = encode(other, name, "later")
    write(node, f"{T}tokenization/keys/{name}/config", {"min_decryption_version": 3})
    write(node, f"{T}decode/{name}", {"value": token}, 400, "value: min_decryption_version forbids version 1")
    write(node, f"{T}tokenization/keys/{name}/trim", {"min_available_version": 3})
    write(node, f"{T}decode/{name}", {"value": token}, 400, "value: version 1 of the key was trimmed")
    assert decode(node, name, later) == "later"
    assert encode(other, name, "turned") == token and decode(node, name, token) == "turned"


def test_tokens_of_a_value_are_found_and_deleted(cluster, database):
    node, value = cluster.nodes[1], "found"
    for kind in ["same", "open"]:
        role = f"{database.name}-{kind}"
        never, far, farther = encode(node, role, value), encode(node, role, value, expiration=FAR), \
            encode(node, role, value, expiration=FARTHER)
        for body, found in [({}, [never]), ({"expiration": "any"}, [never, far, farther]),
                            ({"expiration": FAR}, [far]),
                            ({"min_expiration": FAR, "max_expiration": FARTHER}, [far, farther])]:
            assert ask(cluster.nodes[2], "tokens", role, value, **body) == {"tokens": found}, body
        delete(node, f"tokenized/{role}", value=value, expiration=FAR)
        assert ask(node, "tokens", role, value, expiration="any") == {"tokens": [never, farther]}
        write(node, f"{T}decode/{role}", {"value": far}, 400, NO_TOKEN)
        for _ in range(2):
            delete(node, f"tokens/{role}", token=never)
        assert ask(node, "validate", role, never) == {"valid": False}
        delete(node, f"tokenized/{role}", value=value, expiration="any")
        assert ask(node, "tokenized", role, value) == {"tokenized": False}
        if kind == "same":  # over a tombstone
            assert encode(node, role, value, expiration=FAR) == far and decode(node, role, far) == value
    write(node, f"{T}tokens/{database.name}-plain", {"value": value}, 400,
          "transformation: the tokens of a value can only be found")
    rights = "SELECT count(*) FROM tokens WHERE ciphertext IS NULL AND encrypted_metadata IS NULL"
    assert int(database.sql(rights, "vault")) >= 5


def test_an_expired_token_is_refused(cluster, database):
    node = cluster.nodes[1]
    role = f"{database.name}-same"
    token = encode(node, role, "brief", ttl=1)
    cluster.await_until(lambda: ask(node, "validate", role, token) == {"valid": False})
    write(node, f"{T}decode/{role}", {"value": token}, 400, "value: the token has expired")
    assert ask(node, "tokenized", role, "brief") == {"tokenized": False}
    assert ask(node, "tokens", role, "brief", expiration="any") == {"tokens": []}
    ended = "SELECT count(*) FROM tokens WHERE expiration_time < 2000000000000 AND ciphertext IS NOT NULL"
    assert database.sql(ended, "vault") != "0"
    name = f"{database.name}-tidy"  # a new pool tidies with its first write
    write(node, f"{T}stores/{name}", store(database))
    add(node, name, [name])
    encode(node, name)
    cluster.await_until(lambda: database.sql(ended, "vault") == "0")


def test_several_stores_are_all_written_and_read_in_order(cluster):
    node, other, _ = cluster.nodes
    pg, my = cluster.databases.all
    add(node, "both", "pg,my,builtin/internal", convergent=True)
    add(node, "mixed", ["pg", "my"])
    token, random = encode(node, "both", "twice", metadata="a=1"), encode(other, "mixed", "once")
    for database in (pg, my):
        assert database.sql("SELECT count(*) FROM tokens WHERE ciphertext IS NOT NULL", "vault") != "0"
    for first in (pg, my):  # a row that one store lacks is found in another one
        second = my if first is pg else pg
        first.sql("UPDATE tokens SET ciphertext = NULL, fingerprint = ''", "vault")
        assert decode(other, "mixed", random) == "once" and decode(other, "both", token) == "twice"
        assert ask(node, "tokens", "both", "twice") == {"tokens": [token]}
        assert encode(node, "both", "twice", metadata="a=1") == token
        add(node, "moved", [first.name])
        write(node, f"{T}decode/moved", {"value": random}, 400, NO_TOKEN)
        random = encode(other, "mixed", "once")
        assert second.sql("SELECT count(*) FROM tokens WHERE ciphertext IS NOT NULL", "vault") != "0"
    delete(node, "tokens/both", token=token)
    for at in cluster.nodes:
        write(at, f"{T}decode/both", {"value": token}, 400, NO_TOKEN)
    write(node, f"{T}stores/pg", {}, 204)
    assert delete(node, "stores/pg", 400).json["errors"][0].startswith("store \"pg\" is in use by transformation")
    answer = write(node, f"{T}role/all", {"transformations": "both,mixed,pg-plain"})
    items = [{"value": "a", "transformation": name} for name in ("both", "mixed", "pg-plain", "none")]
    answer = write(other, f"{T}encode/all", {"batch_input": items, "partial_failure_response_code": 207}, 207)
    items = [{"value": r.get("encoded_value", "x"), "transformation": i["transformation"]}
             for r, i in zip(answer.data["batch_results"], items)]
    got = write(node, f"{T}decode/all", {"batch_input": items, "partial_failure_response_code": 207}, 207)
    assert [r.get("decoded_value") for r in got.data["batch_results"]] == ["a", "a", "a", None]


@contextlib.contextmanager
def listener(speak):
    """A server that is no database: each connection is given to `speak`."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:  # closed: the test is over
                    return
                with connection:
                    speak(connection)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def failing(node, role, reason, call="encode", value=CARD):
    """The call is refused within the bound, by name and reason."""
    answer = node.call("POST", f"{T}{call}/{role}", {"value": value}, timeout_s=BOUND_S)
    assert answer.status == 502, answer.body
    error = answer.json["errors"][0]
    assert error.startswith("store \"") and re.search(reason, error), error
    assert KEEPER[1] not in error and KEEPER[0] not in error
    return error


def works(node, role):
    answer = node.call("POST", f"{T}encode/{role}", {"value": CARD}, timeout_s=BOUND_S)
    assert answer.status in (200, 502), answer.body
    return answer.status == 200


@contextlib.contextmanager
def under_load(cluster, role):
    """Clients of all nodes encode; what was acknowledged is in the list."""
    acknowledged, over = [], threading.Event()

    def client(node, number):
        n = 0
        while not over.is_set():
            n += 1
            value = f"{number}-{n}"
            answer = node.call("POST", f"{T}encode/{role}", {"value": value}, timeout_s=2 * BOUND_S)
            assert answer.status in (200, 502), answer.body
            if answer.status == 200:
                acknowledged.append((answer.data["encoded_value"], value))
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        clients = [pool.submit(client, cluster.nodes[n % 3], n) for n in range(6)]
        try:
            yield acknowledged
        finally:
            over.set()
        for each in clients:
            each.result()


def assert_all_decode(cluster, role, acknowledged):
    assert acknowledged
    for node in cluster.nodes:
        for at in range(0, len(acknowledged), 500):
            part = acknowledged[at:at + 500]
            got = write(node, f"{T}decode/{role}", {"batch_input": [{"value": t} for t, _ in part]}, 200)
            assert [r["decoded_value"] for r in got.data["batch_results"]] == [value for _, value in part]


def test_a_killed_database_costs_its_callers_an_error_and_comes_back(cluster, database):
    role, other = f"{database.name}-same", {"pg": "my-plain", "my": "pg-plain"}[database.name]
    with under_load(cluster, role) as acknowledged:
        cluster.await_until(lambda: len(acknowledged) > 100)
        database.kill()
        try:
            for node in cluster.nodes:
                failing(node, role, "refuses connections|connection was lost|no connection|shutting down")
                assert works(node, other)
                metrics = node.call("GET", "/v1/sys/metrics?format=prometheus").body.decode()
                assert f"holdfast_token_store_down{{store=\"transform/{database.name}\"}} 1" in metrics
        finally:
            database.start()
        for node in cluster.nodes:
            cluster.await_until(lambda: works(node, role))
    assert_all_decode(cluster, role, acknowledged)


def test_a_stopped_database_answers_in_time_with_an_error(cluster, database):
    role, other = f"{database.name}-plain", {"pg": "my-plain", "my": "pg-plain"}[database.name]
    token = encode(cluster.nodes[0], role)
    with under_load(cluster, role) as acknowledged:
        cluster.await_until(lambda: len(acknowledged) > 50)
        database.pause()
        try:
            for node in cluster.nodes:
                failing(node, role, "reply in time|no connection within|connection was lost|all its connections")
                failing(node, role, "", "decode", token)
                assert works(node, other) and ask(node, "validate", role, "x") == {"valid": False}
        finally:
            database.resume()
        for node in cluster.nodes:
            cluster.await_until(lambda: works(node, role))
    assert_all_decode(cluster, role, [(token, CARD), *acknowledged])


def test_new_credentials_count_on_all_nodes_at_once(cluster, database):
    role, path = f"{database.name}-plain", f"{T}stores/{database.name}"
    token, fresh = encode(cluster.nodes[0], role), "another-Pass'word{{password}}%41"
    database.set_password(KEEPER[0], fresh)
    for node in cluster.nodes:
        cluster.await_until(lambda: not works(node, role))
        failing(node, role, "refuses the name and password|connection was lost")
    write(cluster.nodes[1], path, {"password": fresh})
    for node in cluster.nodes:
        cluster.await_until(lambda: works(node, role))
        assert decode(node, role, token) == CARD
    database.set_password(KEEPER[0], KEEPER[1])
    write(cluster.nodes[2], path, {"password": KEEPER[1]})
    for node in cluster.nodes:
        cluster.await_until(lambda: works(node, role))


def test_rotation_and_a_killed_leader_lose_no_acknowledged_token(cluster):
    node = cluster.nodes[0]
    add(node, "led", "pg,my,builtin/internal")
    acknowledged, over = [], threading.Event()

    def client(number):
        n = 0
        while not over.is_set():
            n += 1
            value = f"{number}-{n}"
            try:
                answer = cluster.nodes[n % 3].call("POST", f"{T}encode/led", {"value": value}, timeout_s=30)
            except OSError:  # the node that was killed
                continue
            if answer.status == 200:
                acknowledged.append((answer.data["encoded_value"], value))
            else:
                assert answer.status in (500, 503), answer.body  # no leader, or the outcome is unknown
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(client, n) for n in range(4)]
        try:
            for _ in range(3):
                count = len(acknowledged)
                write(node, f"{T}tokenization/keys/led/rotate", {})
                cluster.await_until(lambda: len(acknowledged) > count + 20)
            leader, count = cluster.active(), len(acknowledged)
            leader.kill()
            cluster.await_until(lambda: len(acknowledged) > count + 20)
            leader.start()
            cluster.await_up()
            count = len(acknowledged)
            cluster.await_until(lambda: len(acknowledged) > count + 20)
        finally:
            over.set()
        for each in clients:
            each.result()
    versions = {token_form.parts(token)[1] for token, _ in acknowledged}
    assert versions == {1, 2, 3, 4} or versions == {2, 3, 4}
    assert_all_decode(cluster, "led", acknowledged)
    for first in ("pg", "my"):  # each store has them all
        write(cluster.nodes[1], f"{T}transformations/tokenization/led", {"stores": [first]})
        for at in cluster.nodes:
            cluster.await_until(lambda: at.call("GET", f"{T}transformation/led").data["stores"] == [first])
        assert_all_decode(cluster, "led", acknowledged)


def test_a_read_only_database_and_one_without_tables(cluster, database):
    node = cluster.nodes[0]
    role = f"{database.name}-plain"
    token = encode(node, role)
    database.read_only(True)
    try:
        cluster.await_until(lambda: not works(node, role))
        failing(node, role, "it is read-only")
        assert decode(node, role, token) == CARD
    finally:
        database.read_only(False)
    cluster.await_until(lambda: works(node, role))
    name = f"{database.name}-bare"
    bare = database.url().replace("/vault", "/postgres" if database.name == "pg" else "/bare")
    if database.name == "my":
        database.sql("CREATE DATABASE bare")
        database.sql("GRANT SELECT ON bare.* TO keeper@localhost; GRANT SELECT ON bare.* TO keeper@'127.0.0.1'")
    write(node, f"{T}stores/{name}", store(database, connection_string=bare))
    add(node, name, [name])
    failing(node, name, "no tables for tokens|lacks a right")
    answer = node.call("POST", f"{T}stores/{name}/schema", {"username": KEEPER[0], "password": KEEPER[1]})
    assert answer.status == 502 and "lacks a right" in answer.json["errors"][0], answer.body
    answer = node.call("POST", f"{T}stores/{name}/schema", {"username": MAKER[0], "password": "wrong password here"})
    assert answer.status == 502 and "refuses the name and password" in answer.json["errors"][0], answer.body


def test_certificates_addresses_and_servers_that_speak_rubbish(cluster, database):
    node = cluster.nodes[0]
    verify = "?sslmode=verify-full" if database.name == "pg" else "&tls=true"
    other = next(d for d in cluster.databases.all if d is not database)

    def at(port, more=""):
        return database.url("127.0.0.1", more).replace(str(database.port), str(port))

    def mute(connection):
        connection.recv(1)
        connection.settimeout(10)
        with contextlib.suppress(OSError):
            connection.recv(100000)

    def rubbish(connection):
        with contextlib.suppress(OSError):
            connection.sendall(bytes(range(256)) * 40)
            connection.recv(1000)
    with listener(mute) as silent, listener(rubbish) as noisy, listener(lambda connection: None) as closing:
        for n, (body, reason) in enumerate([
                ({"connection_string": at(database.port, verify), "tls_ca": ""}, "certificate is not trusted"),
                ({"tls_ca": other.ca}, "certificate is not trusted"),
                ({"connection_string": at(silent)}, "no connection"), ({"connection_string": at(noisy)}, "."),
                ({"connection_string": at(closing)}, "."),
                ({"connection_string": database.url("10.1.2.3")}, "the rules for outgoing requests refuse"),
                ({"connection_string": database.url("no-such-host.invalid")}, "cannot be resolved")]):
            name = f"{database.name}-bad{n}"
            write(node, f"{T}stores/{name}", store(database, **body))
            add(node, name, [name])
            failing(node, name, reason)
            failing(node, name, reason)
    for n, body in enumerate([{"connection_string": database.url("127.0.0.1", verify)}, {"tls_ca": ""}]):
        name = f"{database.name}-good{n}"
        write(node, f"{T}stores/{name}", store(database, **body))
        add(node, name, [name])
        assert decode(node, name, encode(node, name)) == CARD


def test_more_clients_than_connections(cluster, database):
    name = f"{database.name}-few"
    write(cluster.nodes[0], f"{T}stores/{name}",
          store(database, max_open_connections=1, max_idle_connections=0, max_connection_lifetime="1s"))
    add(cluster.nodes[0], name, [name])
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        tokens = list(pool.map(lambda n: encode(cluster.nodes[n % 3], name, str(n)), range(240)))
    assert_all_decode(cluster, name, [(token, str(n)) for n, token in enumerate(tokens)])


@pytest.mark.parametrize("body,error", [
    ({"type": "nosql"}, "type: "), ({"type": ""}, "type: the field is required"),
    ({"driver": "mssql"}, "driver: mssql is not served: \"postgres\" or \"mysql\" is expected"),
    ({"driver": "oracle"}, "driver: "), ({"password": ""}, "password: the field is required"),
    ({"username": ""}, "username: the field is required"),
    ({"connection_string": "postgres://{{username}}:clear-password@h/d"}, "connection_string: the password stands"),
    ({"connection_string": "host=/run/x user={{username}}"}, "connection_string: sockets are refused"),
    ({"connection_string": "host=h hostaddr=1.2.3.4"}, "connection_string: the parameter hostaddr is refused"),
    ({"connection_string": "host=h sslrootcert=/etc/x"}, "connection_string: sslrootcert: files must lie below"),
    ({"schema": "a\"; DROP"}, "schema: "), ({"schema": ""}, None), ({"tls_ca": "x"}, "tls_ca: "),
    ({"max_open_connections": 0}, "max_open_connections: 1 to 32"), ({"max_open_connections": 33}, "max_open_"),
    ({"max_idle_connections": -1}, "max_idle_connections: "), ({"max_connection_lifetime": "-1s"}, "max_connection_"),
    ({"supported_transformations": ["fpe"]}, "supported_transformations: "),
])
def test_a_bad_store_names_the_field(cluster, body, error):
    fields = {**store(cluster.databases.all[0]), **body}
    if error is None:
        write(cluster.nodes[1], f"{T}stores/fine", fields)
    else:
        write(cluster.nodes[1], f"{T}stores/wrong", fields, 400, error)


def test_stores_are_read_listed_and_deleted(cluster):
    node = cluster.nodes[1]
    wrapped = node.call("POST", f"{T}encode/pg-plain", {"value": CARD}, headers={"X-Vault-Wrap-TTL": "60"})
    assert wrapped.status == 400 and "cannot be wrapped" in wrapped.json["errors"][0]
    write(node, f"{T}stores/other", store(cluster.databases.all[0], schema="mine", max_open_connections=2))
    shown = node.call("GET", f"{T}stores/other").data
    assert shown == {"type": "sql", "driver": "postgres", "connection_string": cluster.databases.all[0].url(),
                     "schema": "mine", "max_open_connections": 2, "max_idle_connections": 4,
                     "max_connection_lifetime": 0, "supported_transformations": ["tokenization"],
                     "tls_ca": cluster.databases.all[0].ca}
    assert {"builtin/internal", "pg", "my", "other"} <= set(node.call("LIST", f"{T}stores").data["keys"])
    assert node.call("GET", f"{T}stores/builtin/internal").data["type"] == "internal"
    write(node, f"{T}stores/builtin/internal", store(cluster.databases.all[0]), 400, "name: ")
    for _ in range(2):
        delete(node, "stores/other")
    assert node.call("GET", f"{T}stores/other").status == 404
    write(node, f"{T}transformations/tokenization/lost", {"stores": ["other"]}, 400, "stores: the store \"other\"")
    for call in ["snapshot", "export-decoded"]:
        write(node, f"{T}transformations/tokenization/{call}/pg-open", {}, 400, "stores: rows are read from")
    write(node, f"{T}transformations/tokenization/restore/pg-open", {"values": ["x"]}, 400, "values: number 1 is no")


def test_a_store_is_added_filled_from_a_snapshot_and_takes_over_under_load(cluster, database):
    node, name = cluster.nodes[1], f"{database.name}-move"
    write(node, f"{T}transformations/tokenization/{name}", {"mapping_mode": "exportable", "allowed_roles": "*"})
    write(node, f"{T}role/{name}", {"transformations": name})
    old = [(encode(node, name, str(n), metadata=f"n={n}"), str(n)) for n in range(30)]
    gone = encode(node, name, "gone")
    path = f"{T}transformations/tokenization/"
    with under_load(cluster, name) as acknowledged:
        cluster.await_until(lambda: len(acknowledged) > 20)
        write(node, path + name, {"stores": f"builtin/internal,{database.name}"})
        count = len(acknowledged)
        cluster.await_until(lambda: len(acknowledged) > count + 20)  # calls of before have ended
        delete(node, f"tokens/{name}", token=gone)
        for _ in range(2):  # restoring is idempotent
            more = {}
            while more is not None:
                page = write(node, f"{path}snapshot/{name}", {"limit": 100, **more}, 200).data
                write(cluster.nodes[2], f"{path}restore/{name}", {"values": page["values"]})
                more = {"continuation": page["continuation"]} if "continuation" in page else None
        write(node, path + name, {"stores": database.name})
        count = len(acknowledged)
        cluster.await_until(lambda: len(acknowledged) > count + 20)
    assert_all_decode(cluster, name, [*old, *acknowledged])
    assert ask(node, "metadata", name, old[7][0]) == {"metadata": {"n": "7"}}
    write(node, f"{T}decode/{name}", {"value": gone}, 400, NO_TOKEN)
    write(node, f"{path}snapshot/{name}", {}, 400, "stores: rows are read from")
