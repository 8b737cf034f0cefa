"""What is known of the Services of jobs: answers to patches and watches, in any order."""

import pytest

from controller.kinds.decide.decision import ServiceView
from controller.kinds.decide.ownership import build_labels, mark
from controller.kinds.decide.services import compute_form
from controller.kinds.store import JobStore, trim_service
from framework.kube.resources import Object

JOB: Object = {
    "apiVersion": "g/v1",
    "kind": "TfJob",
    "metadata": {"name": "job", "namespace": "ns", "uid": "job-uid"},
}
KEY = "ns/job"


def build_service(version: str, port: int) -> Object:
    service = {
        "kind": "Service",
        "metadata": {
            "name": "worker-0",
            "namespace": "ns",
            "uid": "uid",
            "resourceVersion": version,
            "labels": build_labels(JOB),
        },
        "spec": {"ports": [{"port": port}]},
    }
    return mark(service, JOB)


@pytest.fixture
def store() -> JobStore:
    store = JobStore(lambda _: None)
    store.services.replace([trim_service(build_service("1", 22))], "1")
    return store


def find_form(store: JobStore) -> str | None:
    found = store.list_services(KEY, JOB).get("worker-0", ServiceView("", ""))
    return found.form or None


def test_answer_to_a_patch_is_known_before_the_watch_shows_it(store: JobStore) -> None:
    version = store.get_services_version(KEY)
    store.services.put_answer(build_service("2", 23))
    assert find_form(store) == compute_form(build_service("2", 23))
    assert store.get_services_version(KEY) != version


def test_answer_after_a_later_change_is_not_taken(store: JobStore) -> None:
    store.services.apply("MODIFIED", trim_service(build_service("3", 24)))
    store.services.put_answer(build_service("2", 23))
    assert find_form(store) == compute_form(build_service("3", 24))


def test_answer_after_the_end_of_the_service_is_not_taken(store: JobStore) -> None:
    store.services.apply("DELETED", trim_service(build_service("3", 23)))
    version = store.get_services_version(KEY)
    store.services.put_answer(build_service("2", 23))
    assert find_form(store) is None
    assert store.get_services_version(KEY) == version


def test_foreign_labels_and_owners_of_a_service_are_not_kept() -> None:
    small = build_service("1", 22)
    large = build_service("1", 22)
    large["metadata"]["labels"] |= {f"label-{i}": "value" for i in range(1000)}
    large["metadata"]["ownerReferences"] += [{"uid": f"other-{i}"} for i in range(1000)]
    large["metadata"]["annotations"] = {"a": "value" * 1000}
    assert trim_service(large) == trim_service(small)
