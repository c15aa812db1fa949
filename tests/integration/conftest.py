import pytest

from cluster import Cluster


@pytest.fixture(scope="module")
def cluster():
    """Three nodes that a module's tests share; a test leaves it whole."""
    with Cluster() as made:
        yield made
