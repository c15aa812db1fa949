"""Rows of the registry: reads of a policy, and what many policies of a token cost them."""

import json

import callgrind
import measure
from load import wrk
from measure import medians, ratios, result, rounds
from nodes import VALUE2, Nodes
from rows_parts import restarted_under_callgrind
from rows_rates import all_described, ceiling
from wire import Connection, request

POLICIES = 1000
RULES_OF_POLICY = 20
READ_ACL = 'acl = "read"\n'


class Registry(Nodes):
    def init(self):
        super().init()
        self.await_feature_level()


def acl(method, path, token, body=None):
    text = json.dumps(body) if body is not None else b""
    return request(method, f"/v1/acl/{path}", token, text, header="X-Consul-Token")


def put(connection, path, token, body):
    status = connection.call(acl("PUT", path, token, body))
    assert status == 200, connection.body
    return json.loads(connection.body)


def token_of(connection, cluster, policies):
    body = {"Policies": [{"ID": policy["ID"]} for policy in policies]}
    return put(connection, "token", cluster.token, body)["SecretID"]


def rules_of(policy):
    """RULES_OF_POLICY rules, of which one lets a token read policies."""
    return READ_ACL + "".join(f'key_prefix "team-{policy}/{i}/" {{ policy = "read" }}\n'
                              for i in range(RULES_OF_POLICY - 1))


def body_of(connection, data):
    assert connection.call(data) == 200, connection.body
    return connection.body


def same_size(connection, cluster, policy, get, bytes_wanted):
    """Pad the policy until the reply of `get` has as many bytes."""
    more = bytes_wanted - len(body_of(connection, get))
    assert more >= 0, "the value is too short"
    put(connection, f"policy/{policy['ID']}", cluster.token, {**policy, "Description": "d" * more})


def row_acl_read():
    with Registry() as cluster:
        node = cluster.active()
        connection = Connection(node.client_port)
        write = request("PUT", "/v1/kv2/data/policy", cluster.client, VALUE2)
        read = request("GET", "/v1/kv2/data/policy", cluster.client)
        body_of(connection, write)
        policy = put(connection, "policy", cluster.token, {"Name": "read", "Rules": READ_ACL})
        get = acl("GET", f"policy/{policy['ID']}", token_of(connection, cluster, [policy]))
        same_size(connection, cluster, policy, get, len(body_of(connection, read)))
        sizes = [len(body_of(connection, data)) for data in (get, read)]
        assert abs(sizes[0] - sizes[1]) < 8, sizes
        samples = rounds("acl-read", {"policy": lambda: wrk(node.url, get),
                                      "value": lambda: wrk(node.url, read)}, ceiling)
    result("acl-read", ratios(samples, "policy", "value"), "of-KV-v2-reads", 0.8, 0.95,
           detail=f"{sizes[0]} bytes: {all_described(samples, 'policy', 'value')}")


def row_rules():
    with Registry(size=1, config={"workers": 1}) as cluster:
        connection = Connection(cluster.nodes[0].client_port)
        policies = [put(connection, "policy", cluster.token,
                        {"Name": f"many-{i}", "Rules": rules_of(i)}) for i in range(POLICIES)]
        tokens = [token_of(connection, cluster, policies[:n]) for n in (POLICIES, 1)]
        connection.close()
        node = restarted_under_callgrind(cluster)
        cluster.await_equal_roots(timeout_s=300)  # a new process hashes its whole state, once
        connection = Connection(node.client_port)
        costs = []
        for token in tokens:
            get = acl("GET", f"policy/{policies[0]['ID']}", token)
            costs.append(callgrind.per_request([node], connection, lambda i, get=get: get))
    many, one = costs
    measure.raw_data["rules"] = {"many": many, "one": one}
    result("rules", [many / one], "instructions-of-one-policy", 1.2, 1.05, most=True,
           detail=f"a token with {POLICIES} policies of {RULES_OF_POLICY} rules {many:.0f}, with one "
           f"of them {one:.0f}")
