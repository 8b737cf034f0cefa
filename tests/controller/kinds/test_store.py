"""What is known of the Services of jobs: answers to patches and watches, in any order."""

from datetime import timedelta

import pytest

from controller.kinds.decide.decision import ServiceView
from controller.kinds.decide.ownership import build_labels, mark
from controller.kinds.decide.services import compute_form
from controller.kinds.proofs import find_creator, sign
from controller.kinds.store import JobStore, trim_service
from controller.store.creation_proofs import KeyPair
from framework.api.constants import CREATION_PROOF_ANNOTATION
from framework.api.wire import format_time
from framework.kube.resources import Object
from tests.support.builders import AT
from tests.support.fakes.storageclient import SeededKeys

CREATOR, STRANGER = KeyPair(SeededKeys("creator")), KeyPair(SeededKeys("stranger"))
JOB: Object = {
    "apiVersion": "g/v1",
    "kind": "TfJob",
    "metadata": {"name": "job", "namespace": "ns", "uid": "job-uid"},
    "status": {"creatorKeys": [CREATOR.public_key]},
}
KEY = "ns/job"


def build_service(version: str, port: int, creator: KeyPair | None = CREATOR) -> Object:
    service: Object = {
        "kind": "Service",
        "metadata": {
            "name": "worker-0",
            "namespace": "ns",
            "uid": "uid",
            "resourceVersion": version,
            "creationTimestamp": format_time(AT),
            "labels": build_labels(JOB),
        },
        "spec": {"ports": [{"port": port}]},
    }
    marked = mark(service, JOB)
    return marked if creator is None else sign(marked, "ns", creator)


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
    large["metadata"]["annotations"] |= {"a": "value" * 1000}
    assert trim_service(large) == trim_service(small)


def test_service_that_another_client_has_signed_is_not_of_the_job(store: JobStore) -> None:
    store.services.apply("MODIFIED", trim_service(build_service("2", 22, STRANGER)))
    assert find_form(store) is None


@pytest.mark.parametrize(
    "change",
    [
        {"name": "worker-1"},
        {"namespace": "other"},
        {"ownerReferences": [{"controller": True, "uid": "other-uid"}]},
        {"annotations": {}},
        {"annotations": {CREATION_PROOF_ANNOTATION: 5}},
        {"annotations": {CREATION_PROOF_ANNOTATION: f"{CREATOR.public_key}.{'A' * 108}"}},
        {"annotations": {CREATION_PROOF_ANNOTATION: "é" * 200_000}},
    ],
    ids=["name", "namespace", "owner", "none", "number", "forged", "long"],
)
def test_proof_is_for_one_object(change: Object) -> None:
    service = build_service("1", 22)
    assert find_creator("Service", service) == CREATOR.public_key
    assert find_creator("Secret", service) == ""
    assert find_creator("Service", {**service, "metadata": service["metadata"] | change}) == ""


@pytest.mark.parametrize(
    ("status", "is_listed"),
    [
        ({}, False),
        ({"creatorKeys": []}, False),
        ({"phase": "Running"}, True),
        ({"creatorKeys": [], "unsignedUntil": format_time(AT)}, True),
        ({"creatorKeys": [], "unsignedUntil": format_time(AT - timedelta(seconds=1))}, False),
        ({"creatorKeys": [], "unsignedUntil": "soon"}, False),
    ],
    ids=["new", "nothing-created", "older-version", "before", "after", "unreadable"],
)
def test_service_without_a_proof_is_of_a_job_of_an_older_version_only(
    status: Object, *, is_listed: bool
) -> None:
    store = JobStore(lambda _: None)
    store.services.replace([trim_service(build_service("1", 22, None))], "1")
    assert (list(store.list_services(KEY, {**JOB, "status": status})) != []) is is_listed


def test_job_that_is_too_large_keeps_the_keys_of_a_long_status() -> None:
    status = {**JOB["status"], "targetWorkers": [f"job-worker-{i}" for i in range(10_000)]}
    labels = {f"label-{i}": "v" * 60 for i in range(8000)}
    body = {**JOB, "metadata": {**JOB["metadata"], "labels": labels}, "status": status}
    store = JobStore(lambda _: None)
    store.jobs.put(body)
    assert store.is_too_large(KEY)
    job = store.find_job(KEY)
    assert job is not None
    assert job["status"] == status


def test_long_status_makes_no_job_too_large() -> None:
    names = [f"elastic-training-worker-{i}" for i in range(9999)]
    status = {**JOB["status"], "targetWorkers": names, "currentWorkers": names}
    store = JobStore(lambda _: None)
    store.jobs.put({**JOB, "status": status})
    assert not store.is_too_large(KEY)
    assert store.find_job(KEY) == {**JOB, "status": status}
