"""The ConfigMap of every namespace that projected service account volumes read."""

import pytest

from framework.clock import ManualClock, SequentialUids
from localcluster.apiserver.engine.root_certificate import CONFIGMAP_NAME
from localcluster.apiserver.model.builtins import CONFIG_MAPS, NAMESPACES
from localcluster.apiserver.storage import INITIAL_NAMESPACES, StatusError, Storage
from tests.localcluster.storage.worlds import START, config_map

PEM = "-----BEGIN CERTIFICATE-----"


@pytest.fixture
def storage() -> Storage:
    return Storage(ManualClock(START), SequentialUids(7), root_certificate=PEM)


def read(storage: Storage, namespace: str = "default") -> str:
    found = storage.get(CONFIG_MAPS, namespace, CONFIGMAP_NAME)
    text: str = found["data"]["ca.crt"]
    return text


def test_namespaces_of_every_cluster_have_it_from_the_start(storage: Storage) -> None:
    assert {read(storage, name) for name in INITIAL_NAMESPACES} == {PEM}
    assert not storage.has_garbage


def test_new_namespace_gets_it(storage: Storage) -> None:
    storage.create(NAMESPACES, None, {"metadata": {"name": "new"}})
    assert storage.has_garbage
    storage.collect_garbage()
    assert read(storage, "new") == PEM


def test_deleted_it_comes_back(storage: Storage) -> None:
    storage.delete(CONFIG_MAPS, "default", CONFIGMAP_NAME)
    storage.collect_garbage()
    assert read(storage) == PEM


def test_changed_it_is_put_right(storage: Storage) -> None:
    held = storage.get(CONFIG_MAPS, "default", CONFIGMAP_NAME)
    held["data"] = {"ca.crt": "mine", "other": "x"}
    storage.update(CONFIG_MAPS, "default", CONFIGMAP_NAME, held)
    assert storage.collect_garbage() == 1
    assert storage.get(CONFIG_MAPS, "default", CONFIGMAP_NAME)["data"] == {"ca.crt": PEM}


def test_immutable_other_is_left_alone(storage: Storage) -> None:
    storage.delete(CONFIG_MAPS, "default", CONFIGMAP_NAME)
    body = config_map(CONFIGMAP_NAME, data={"ca.crt": "mine"}, immutable=True)
    storage.create(CONFIG_MAPS, "default", body)
    assert storage.collect_garbage() == 0
    assert read(storage) == "mine"


def test_namespace_that_goes_away_loses_it_for_good(storage: Storage) -> None:
    storage.create(NAMESPACES, None, {"metadata": {"name": "new"}})
    storage.collect_garbage()
    storage.delete(NAMESPACES, None, "new")
    storage.collect_garbage()
    with pytest.raises(StatusError, match="not found"):
        storage.get(NAMESPACES, None, "new")
    assert storage.list(CONFIG_MAPS, "new").items == []


def test_storage_without_one_publishes_none() -> None:
    storage = Storage(ManualClock(START), SequentialUids(7))
    assert storage.list(CONFIG_MAPS, None).items == []
