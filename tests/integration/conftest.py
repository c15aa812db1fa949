import signal

import pytest

from cluster import Cluster


def pytest_configure(config):
    """A thread of a test that ends by an exception fails the test. A shell in the background ignores
    SIGINT, and so would every process of the tests, also those that must end by it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("filterwarnings", "error::pytest.PytestUnhandledThreadExceptionWarning")


# Files that take long, the longest first: one that began last would run alone at the end.
LONGEST = ["upgrade", "restore", "autopilot", "limits", "registry_tokens", "cli_usage", "migrate", "ceremonies",
           "slow_readers", "token_stores", "registry_waits", "audit_hang", "members", "dr_activation", "openapi", "recover",
           "greedy", "damage", "leases", "monitor", "hvac", "join", "ssh", "policy", "autosnap",
           "audit_nodes", "audit_crash", "dr_faults", "dr_drill", "dr_failover"]


def pytest_collection_modifyitems(items):
    place = {f"test_{name}.py": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from schedule import Schedule  # only where pytest-xdist is used
    return Schedule(config, log)


@pytest.fixture(scope="module")
def cluster(request):
    """Three nodes that a module's tests share; a test leaves it whole. A module may name a kind of
    cluster, CLUSTER."""
    with getattr(request.module, "CLUSTER", Cluster)() as made:
        yield made
