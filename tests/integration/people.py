"""What the tests of identities share: a cluster with auth methods, and shorthands."""

from cluster import STEADY, Cluster

METHODS = {"userpass": "userpass", "team/pass": "userpass", "approle": "approle"}


class People(Cluster):
    def __init__(self):
        super().__init__(config=STEADY)

    def __enter__(self):
        made = super().__enter__()
        try:
            made.await_feature_level()
            for path, kind in METHODS.items():
                write(made.nodes[0], f"sys/auth/{path}", {"type": kind})
            listed = read(made.nodes[0], "sys/auth")
            made.accessors = {path.rstrip("/"): mount["accessor"] for path, mount in listed.items()}
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return made


def call(node, method, path, body=None, status=None, error=None, token=None, headers=None):
    answer = node.call(method, "/v1/" + path, body, token=token, headers=headers)
    if status is not None:
        assert answer.status == status, (method, path, answer.status, answer.body)
    if error is not None:
        assert error in " ".join(answer.json["errors"]), (path, answer.body)
    return answer


def write(node, path, body=None, status=204, error=None, token=None):
    answer = call(node, "POST", path, body, status, error, token)
    return answer.data if status == 200 and answer.json.get("data") else answer


def read(node, path, token=None, status=200):
    answer = call(node, "GET", path, status=status, token=token)
    return answer.data if status == 200 else answer


def policy(node, name, text):
    write(node, f"sys/policies/acl/{name}", {"policy": text})


def allow(node, name, path, caps='"read"'):
    policy(node, name, f'path "{path}" {{ capabilities = [{caps}] }}')


def user(node, name, mount="userpass", password="correct horse", **fields):
    write(node, f"auth/{mount}/users/{name}", {"password": password, **fields})


def login(node, name, mount="userpass", password="correct horse", status=200, error=None):
    answer = call(node, "POST", f"auth/{mount}/login/{name}", {"password": password}, status, error, token="")
    return answer.json["auth"] if status == 200 else answer


def may(node, token, path):
    return call(node, "GET", path, token=token).status != 403
