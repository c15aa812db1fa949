import pytest

from cluster import Cluster


def pytest_configure(config):
    """A thread of a test that ends by an exception fails the test."""
    config.addinivalue_line("filterwarnings", "error::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture(scope="module")
def cluster(request):
    """Three nodes that a module's tests share; a test leaves it whole. A module may name a kind of
    cluster, CLUSTER."""
    with getattr(request.module, "CLUSTER", Cluster)() as made:
        yield made
