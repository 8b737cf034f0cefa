"""Whole commands on an API server without controller and kubelet: output and exit codes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from framework.clock import SystemClock
from framework.kinds.trainingjob import types as trainingjob
from framework.kube.client import KubeClient
from framework.kube.resources import FRAMEWORKS
from localcluster.cluster import LocalCluster
from tests.support.builders import build_role_wire, build_submission
from tests.support.servers.commandline import Answer, call_framework, call_in_thread
from tests.support.servers.localapi import open_local_api

pytestmark = pytest.mark.local

KIND = "framework.frameworkcontroller.microsoft.com"
NO_WAIT = "--no-wait"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    """An API server with the Frameworks a and b."""
    async with open_local_api(tmp_path) as (opened, client):
        for name in ("a", "b"):
            body = build_submission(name, build_role_wire("worker", 2), executionType="Create")
            body["metadata"]["labels"] = {"lab": name}
            await client.create(FRAMEWORKS, "default", body)
        yield opened


async def call(cluster: LocalCluster, *arguments: str) -> Answer:
    # While a command waits, it handles signals.
    is_waiting = arguments[0] in {"delete", "wait"} and NO_WAIT not in arguments
    run = call_framework if is_waiting else call_in_thread
    return await run(str(cluster.kubeconfig_path), *arguments)


async def test_several_frameworks_are_changed_also_if_one_does_not_exist(
    cluster: LocalCluster,
) -> None:
    answer = await call(cluster, "start", "a", "nope", "framework/b")
    assert answer.code == 1
    assert answer.out == f"{KIND}/a started\n{KIND}/b started\n"
    assert answer.err == "error: no Framework 'nope' in namespace default: there are a, b\n"
    answer = await call(cluster, "scale", "a", "worker=3", "--dry-run=client", "-o", "yaml")
    assert yaml.safe_load(answer.out)["spec"]["taskRoles"][0]["taskNumber"] == 3
    answer = await call(cluster, "stop", "a", "b", "-o", "name")
    assert answer.out == f"{KIND}/a\n{KIND}/b\n"


async def test_frameworks_are_deleted_by_label_and_all(cluster: LocalCluster) -> None:
    cascade = "--cascade=background"
    answer = await call(cluster, "delete", "-l", "lab=a", cascade)
    assert (answer.code, answer.out) == (0, f'{KIND} "a" deleted\n')
    answer = await call(cluster, "delete", "--all", cascade, NO_WAIT)
    assert (answer.code, answer.out) == (0, f'{KIND} "b" deleted\n')
    answer = await call(cluster, "delete", "--all", "x", NO_WAIT)
    assert answer.code == 2


async def test_framework_of_a_job_is_not_deleted_and_the_others_are(cluster: LocalCluster) -> None:
    job = {"apiVersion": trainingjob.API_VERSION, "kind": trainingjob.KIND, "name": "job"}
    clock = SystemClock()
    async with KubeClient(cluster.kube_config, user_agent="t", clock=clock) as client:
        body = await client.get(FRAMEWORKS, "default", "a")
        body["metadata"]["ownerReferences"] = [job | {"uid": "u", "controller": True}]
        await client.replace(FRAMEWORKS, "default", "a", body)
        answer = await call(cluster, "delete", "a", "b", "--cascade=background", NO_WAIT)
        assert (answer.code, answer.out) == (1, f'{KIND} "b" deleted\n')
        assert "kubectl delete -n default trainingjob.kai.alibabacloud.com/job`" in answer.err
        await client.get(FRAMEWORKS, "default", "a")


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["--replicas", "3"], "worker=3"),
        (["--replicas=3"], "worker=3"),
        (["worker", "3"], "worker=3"),
        (["3"], "worker=3"),
        ([], "worker=N"),
    ],
    ids=str,
)
async def test_scale_as_kubectl_writes_it_names_the_command(
    cluster: LocalCluster, words: list[str], command: str
) -> None:
    answer = await call(cluster, "scale", "a", *words)
    assert (answer.code, answer.out) == (2, "")
    assert f"write `framework scale a {command}`\n" in answer.err


@pytest.mark.parametrize("number", ["x", "-1", "99999999999999999999"])
async def test_scale_to_no_number_of_tasks_names_the_range(
    cluster: LocalCluster, number: str
) -> None:
    answer = await call(cluster, "scale", "a", f"worker={number}")
    assert (answer.code, answer.out) == (2, "")
    assert "scale a worker=N`; N is a number of Tasks from 0 to 10000\n" in answer.err


async def test_kind_in_front_of_names_is_left_out(cluster: LocalCluster) -> None:
    answer = await call(cluster, "stop", "framework", "a", "b", "--dry-run=client")
    assert (answer.code, answer.out) == (
        0,
        f"{KIND}/a stopped (dry run)\n{KIND}/b stopped (dry run)\n",
    )
    answer = await call(cluster, "scale", "-n", "default", "frameworks", "a", "worker=3")
    assert (answer.code, answer.out) == (0, f"{KIND}/a scaled\n")
    answer = await call(cluster, "wait", "framework", "nope", "--for=delete")
    assert (answer.code, answer.out) == (0, f"{KIND}/nope deleted\n")
    for words in (["framework"], ["frameworks"]):
        answer = await call(cluster, "delete", *words, NO_WAIT)
        assert (answer.code, answer.out) == (1, "")
        assert (
            f"no Framework '{words[0]}' in namespace default: there are a, b; the kind"
            in answer.err
        )
    answer = await call(cluster, "delete", "framework", "a", "--cascade=background", NO_WAIT)
    assert (answer.code, answer.out) == (0, f'{KIND} "a" deleted\n')
    answer = await call(cluster, "delete", "frameworks", "--all", "--cascade=background", NO_WAIT)
    assert (answer.code, answer.out) == (0, f'{KIND} "b" deleted\n')


async def test_framework_with_the_name_of_the_kind_is_meant(cluster: LocalCluster) -> None:
    async with KubeClient(cluster.kube_config, user_agent="t", clock=SystemClock()) as client:
        body = build_submission("framework", build_role_wire("worker", 2))
        await client.create(FRAMEWORKS, "default", body)
    answer = await call(cluster, "stop", "framework", "a", "-o", "name")
    assert (answer.code, answer.out) == (0, f"{KIND}/framework\n{KIND}/a\n")
    answer = await call(cluster, "get", "framework", "a", "-o", "name")
    assert answer.out == f"{KIND}/framework\n{KIND}/a\n"
    answer = await call(cluster, "get", "framework", "-o", "name")
    assert answer.out == f"{KIND}/framework\n"
    answer = await call(cluster, "delete", "framework", "--cascade=background", NO_WAIT)
    assert (answer.code, answer.out) == (0, f'{KIND} "framework" deleted\n')
    answer = await call(cluster, "get", "frameworks", "-o", "name")
    assert answer.out == f"{KIND}/a\n{KIND}/b\n"


async def test_why_as_yaml_has_the_facts_of_json(cluster: LocalCluster) -> None:
    as_yaml = await call(cluster, "why", "a", "-o", "yaml")
    as_json = await call(cluster, "why", "a", "-o", "json")
    assert as_yaml.out.startswith("version: why/v1\n")
    assert yaml.safe_load(as_yaml.out).keys() == yaml.safe_load(as_json.out).keys()
