"""Certificates of two authorities, for the clients of the controller and of the agents."""

import shutil

import pytest

from tests.support.servers.pki import Pki, create_pki


def _create_pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: apt-get install openssl")
    return create_pki(tmp_path_factory.mktemp("authority") / "pki")


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return _create_pki(tmp_path_factory)


@pytest.fixture(scope="session")
def other_pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return _create_pki(tmp_path_factory)
