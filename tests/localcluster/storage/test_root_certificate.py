"""The ConfigMap of every namespace that projected service account volumes read."""

import pytest

from framework.clock import ManualClock, SequentialUids
from localcluster.apiserver.model.builtins import CONFIG_MAPS, NAMESPACES
from localcluster.apiserver.storage import (
    INITIAL_NAMESPACES,
    ROOT_CERTIFICATE_NAME,
    StatusError,
    Storage,
)
from tests.localcluster.storage.worlds import START

PEM = "-----BEGIN CERTIFICATE-----"


@pytest.fixture
def storage() -> Storage:
    return Storage(ManualClock(START), SequentialUids(7), root_certificate=PEM)


def read(storage: Storage, namespace: str = "default") -> dict[str, str]:
    data: dict[str, str] = storage.get(CONFIG_MAPS, namespace, ROOT_CERTIFICATE_NAME)["data"]
    return data


def test_initial_namespaces_have_it_from_the_start(storage: Storage) -> None:
    assert [read(storage, name) for name in INITIAL_NAMESPACES] == [{"ca.crt": PEM}] * len(
        INITIAL_NAMESPACES
    )
    assert not storage.has_garbage


def test_new_namespace_has_it_until_the_namespace_is_deleted(storage: Storage) -> None:
    storage.create(NAMESPACES, None, {"metadata": {"name": "new"}})
    assert read(storage, "new") == {"ca.crt": PEM}
    storage.delete(NAMESPACES, None, "new")
    storage.collect_garbage()
    with pytest.raises(StatusError, match="not found"):
        storage.get(NAMESPACES, None, "new")
    assert storage.list(CONFIG_MAPS, "new").items == []


def test_storage_without_a_certificate_publishes_none() -> None:
    storage = Storage(ManualClock(START), SequentialUids(7))
    assert storage.list(CONFIG_MAPS, None).items == []
