"""The ConfigMap of every namespace that projected service account volumes read."""

import pytest

from framework.clock import ManualClock, SequentialUids
from localcluster.apiserver.engine.root_certificate import CONFIGMAP_NAME
from localcluster.apiserver.model.builtins import CONFIG_MAPS, NAMESPACES
from localcluster.apiserver.storage import INITIAL_NAMESPACES, StatusError, Storage
from tests.contract.apiclient import config_map
from tests.localcluster.storage.worlds import START

PEM = "-----BEGIN CERTIFICATE-----"


@pytest.fixture
def storage() -> Storage:
    return Storage(ManualClock(START), SequentialUids(7), root_certificate=PEM)


def read(storage: Storage, namespace: str = "default") -> dict[str, str]:
    data: dict[str, str] = storage.get(CONFIG_MAPS, namespace, CONFIGMAP_NAME)["data"]
    return data


def test_initial_namespaces_have_it_from_the_start(storage: Storage) -> None:
    assert [read(storage, name) for name in INITIAL_NAMESPACES] == [{"ca.crt": PEM}] * len(
        INITIAL_NAMESPACES
    )
    assert not storage.has_garbage


def test_new_namespace_has_it_until_the_namespace_is_deleted(storage: Storage) -> None:
    storage.create(NAMESPACES, None, {"metadata": {"name": "new"}})
    assert storage.has_garbage
    storage.collect_garbage()
    assert read(storage, "new") == {"ca.crt": PEM}
    storage.delete(NAMESPACES, None, "new")
    storage.collect_garbage()
    with pytest.raises(StatusError, match="not found"):
        storage.get(NAMESPACES, None, "new")
    assert storage.list(CONFIG_MAPS, "new").items == []


def test_deleted_and_changed_it_is_restored(storage: Storage) -> None:
    storage.delete(CONFIG_MAPS, "default", CONFIGMAP_NAME)
    storage.collect_garbage()
    assert read(storage) == {"ca.crt": PEM}
    held = storage.get(CONFIG_MAPS, "default", CONFIGMAP_NAME)
    held["data"] = {"ca.crt": "mine", "other": "x"}
    storage.update(CONFIG_MAPS, "default", CONFIGMAP_NAME, held)
    assert storage.collect_garbage() == 1
    assert read(storage) == {"ca.crt": PEM}


def test_immutable_other_is_left_alone(storage: Storage) -> None:
    storage.delete(CONFIG_MAPS, "default", CONFIGMAP_NAME)
    body = config_map(CONFIGMAP_NAME, {"ca.crt": "mine"})
    storage.create(CONFIG_MAPS, "default", {**body, "immutable": True})
    assert storage.collect_garbage() == 0
    assert read(storage) == {"ca.crt": "mine"}


def test_storage_without_a_certificate_publishes_none() -> None:
    storage = Storage(ManualClock(START), SequentialUids(7))
    assert storage.list(CONFIG_MAPS, None).items == []
