"""The barrier's second source on a real API server: a watch of metadata, cached reads, reviews."""

from pathlib import Path
from typing import Any

import pytest

from tests.barrier.api_server import make_framework, make_task
from tests.barrier.fast import IDENTITY, FastClock, build_env, run_after, run_barrier
from tests.support.servers.controlplane import Access
from tests.support.servers.jsonhttp import JsonHttp
from tests.support.servers.policed import MERGE, create

pytestmark = [pytest.mark.kube, pytest.mark.usefixtures("framework_crd")]
TASKS = 300
# The longest that a barrier takes. Of the fast clock: it is 40 s of the machine.
TIMEOUT_SECONDS = 1200


def make_gang(addressed: int) -> dict[str, Any]:
    tasks = [make_task(i, f"10.0.{i // 250}.{i % 250}") for i in range(addressed)]
    tasks += [make_task(i, "") for i in range(addressed, TASKS)]
    return make_framework(*tasks)


def write_account(access: Access, tmp_path: Path, token: str, namespace: str, **more: str) -> Any:
    """Build the environment of a Pod of this namespace with that token."""
    host, _, port = access.url.rpartition("//")[2].rpartition(":")
    env = build_env("", tmp_path, **{**IDENTITY, **more})
    del env["KUBE_APISERVER_ADDRESS"]
    account = Path(env["FRAMEWORKBARRIER_SERVICE_ACCOUNT_DIR"])
    (account / "token").write_text(token)
    if access.ca_file is not None:
        (account / "ca.crt").write_bytes(Path(access.ca_file).read_bytes())
    env.update(
        KUBERNETES_SERVICE_HOST=host,
        KUBERNETES_SERVICE_PORT=port,
        FC_FRAMEWORK_NAMESPACE=namespace,
        BARRIER_CHECK_TIMEOUT_SEC=str(TIMEOUT_SECONDS),
    )
    return env


def write_status(http: JsonHttp, path: str, status: dict[str, Any], configmap_uid: str) -> None:
    status["attemptStatus"]["configMapUID"] = configmap_uid
    code, answer = http.request("PATCH", f"{path}/status", {"status": status}, content_type=MERGE)
    assert code == 200, answer


def test_gang_of_another_controller_is_released_by_the_metadata_watch(
    http: JsonHttp, control_plane: Access, namespace: str, tmp_path: Path
) -> None:
    configmaps = f"/api/v1/namespaces/{namespace}/configmaps"
    configmap = create(http, configmaps, {"metadata": {"name": "f-attempt"}})
    uid = configmap["metadata"]["uid"]
    framework = make_gang(TASKS - 1)
    status = framework.pop("status")
    framework["metadata"] = {"name": "f", "namespace": namespace}
    collection = f"/apis/frameworkcontroller.microsoft.com/v1/namespaces/{namespace}/frameworks"
    create(http, collection, framework)
    path = f"{collection}/f"
    write_status(http, path, status, uid)
    complete = make_gang(TASKS)["status"]
    env = write_account(
        control_plane, tmp_path, control_plane.token, namespace, FC_CONFIGMAP_UID=uid
    )
    written_at: list[float] = []

    def release() -> None:
        written_at.append(FastClock().monotonic())
        write_status(http, path, complete, uid)

    timer = run_after(60.0, release)
    code, _ = run_barrier(env)
    ended_at = FastClock().monotonic()
    timer.join()
    assert code == 0
    assert ended_at >= written_at[0]
    text = (tmp_path / "work" / "framework.json").read_text()
    assert text.count('"podIP":"10.0.') == TASKS


def test_barrier_without_any_right_ends_after_a_review_confirms_it(
    http: JsonHttp, control_plane: Access, namespace: str, tmp_path: Path
) -> None:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    create(http, accounts, {"metadata": {"name": "powerless"}})
    answer = create(http, f"{accounts}/powerless/token", {"spec": {"expirationSeconds": 600}})
    env = write_account(control_plane, tmp_path, answer["status"]["token"], namespace)
    code, seconds = run_barrier(env)
    assert code == 210
    assert 30.0 <= seconds < TIMEOUT_SECONDS
