import pytest

from tests.localcluster.storage.worlds import World


@pytest.fixture
def world() -> World:
    return World()
