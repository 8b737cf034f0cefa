"""The scaler that failed last, as ``framework why`` of its TrainingJob shows it."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from cli.exitcodes import CliError, ExitCode
from cli.why.answers import build_structure, render_text
from cli.why.commands import Commands
from cli.why.gathering import Gatherer
from cli.why.observation import Observation
from cli.why.scalers import find_job
from framework.api.states import TaskState
from framework.api.wire import format_time
from framework.kube.errors import build_api_error
from framework.kube.resources import CONFIGMAPS, EVENTS, FRAMEWORKS, PODS, Object, Resource
from tests.cli.why.builders import observe
from tests.support.builders import FRAMEWORK, NAMESPACE, at

JOB = {
    "apiVersion": "kai.alibabacloud.com/v1alpha1",
    "kind": "TrainingJob",
    "name": "gang",
    "uid": "job-1",
    "controller": True,
}


def build_scaler(name: str, seconds: float, *, of: str = "gang", **status: Any) -> Object:
    """A scaler that failed."""
    failed = {
        "type": "ScaleFailed",
        "status": "True",
        "reason": "Timeout",
        "message": f"no answer\nto {name}",
        "lastTransitionTime": format_time(at(seconds)),
    }
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"name": of}},
        "status": {"conditions": [failed], **status},
    }


class ScalerClient:
    """A cluster with scalers by the plural of their kind; a plural without is refused."""

    def __init__(self, framework: Object, **scalers: list[Object]) -> None:
        self._framework = framework
        self._scalers = scalers

    async def get(self, resource: Resource, *_: Any, **__: Any) -> Object:
        if resource is FRAMEWORKS:
            return self._framework
        raise build_api_error(404, b"", method="GET", path="/")

    async def list(self, resource: Resource, *_: Any, **__: Any) -> Object:
        assert resource in {PODS, EVENTS, CONFIGMAPS}
        return {"items": []}

    async def list_pages(
        self, resource: Resource, *_: Any, **__: Any
    ) -> AsyncGenerator[tuple[Object, bool]]:
        if resource.plural not in self._scalers:
            raise build_api_error(403, b"", method="GET", path="/")
        yield {"items": self._scalers[resource.plural]}, False


async def gather(*owners: Object, **scalers: list[Object]) -> Observation:
    running = observe(
        task_state=TaskState.ATTEMPT_RUNNING, metadata={"ownerReferences": list(owners)}
    )
    client = ScalerClient(running.framework, **scalers)
    gatherer = Gatherer(client, NAMESPACE, FRAMEWORK)  # type: ignore[arg-type]  # a fake client
    return await gatherer.gather(Commands(FRAMEWORK), at(300), is_local=False)


def find_line(observation: Observation) -> str:
    lines = list(render_text(observation, (), shows_all=False))
    found = [line for line in lines if line.startswith("last failed scaler")]
    return found[0] if found else ""


async def test_scaler_that_failed_last_is_named_with_reason_and_message() -> None:
    outs = [build_scaler("first", 60), build_scaler("of-another", 200, of="other")]
    ins = [build_scaler("second", 100, jobUID="job-1"), build_scaler("early", 200, jobUID="job-0")]
    observation = await gather(JOB, scaleouts=outs, scaleins=ins)
    assert find_line(observation) == (
        "last failed scaler: ScaleIn second (2026-01-01T00:01:40Z, 3m ago): "
        "Timeout: no answer to second"
    )
    assert build_structure(observation, ())["failedScaler"] == {
        "kind": "ScaleIn",
        "name": "second",
        "reason": "Timeout",
        "message": "no answer\nto second",
        "since": "2026-01-01T00:01:40Z",
    }


async def test_scalers_in_progress_and_without_status_are_not_named() -> None:
    new: Object = {"metadata": {"name": "new"}, "spec": None}
    working = build_scaler("working", 60)
    working["status"]["conditions"][0]["type"] = "Scaling"
    observation = await gather(JOB, scaleouts=[new, working], scaleins=[])
    assert find_line(observation) == ""
    assert build_structure(observation, ())["failedScaler"] is None


async def test_scalers_that_may_not_be_listed_are_named_as_a_missing_right() -> None:
    observation = await gather(JOB, scaleouts=[build_scaler("out", 60)])
    assert "out" in find_line(observation)
    assert observation.unseen == ("ScaleIns",)
    assert observation.missing_rights == ("list scaleins",)


class NamedClient(ScalerClient):
    """A cluster without the Framework that is asked for; it has two scalers of one name."""

    def __init__(self) -> None:
        super().__init__({})

    async def get(self, resource: Resource, *names: Any, **_: Any) -> Object:
        name = names[-1]
        if resource.plural == "scaleins" and name == "one":
            return build_scaler("one", 60)
        if resource.plural == "scaleouts" and name in {"one", "new"}:
            return {"metadata": {"name": name}, "spec": {"selector": {"name": "gang"}}}
        if resource is FRAMEWORKS:
            details = {"details": {"name": name, "kind": "frameworks"}}
            body = json.dumps(details).encode()
            raise build_api_error(404, body, method="GET", path="/")
        raise build_api_error(403, b"", method="GET", path="/")


FAILED_ONE = "; one is a ScaleIn of the TrainingJob gang, ScaleFailed, Timeout: no answer to one"
NEW = " is a ScaleOut of the TrainingJob gang, which has not started"


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (
            "one",
            FAILED_ONE
            + f": use `kubectl get scalein/one`; one{NEW}: use `kubectl get scaleout/one`",
        ),
        ("new", f"; new{NEW}: use `kubectl get scaleout/new`"),
        ("scalein/one", FAILED_ONE),
        ("ScaleIns/one", FAILED_ONE),
        ("scaleouts.kai.alibabacloud.com/new", f"; new{NEW}"),
        ("two", ""),
        ("pod/one", ""),
        ("scalein/", ""),
        ("scalein/..", ""),
    ],
)
async def test_name_of_a_scaler_is_explained_with_its_reason(word: str, text: str) -> None:
    gatherer = Gatherer(NamedClient(), NAMESPACE, word)  # type: ignore[arg-type]  # a fake client
    with pytest.raises(CliError) as caught:
        await gatherer.gather(Commands(word), at(300), is_local=False)
    assert caught.value.exit_code is ExitCode.FAILED
    (line,) = caught.value.lines
    assert line.startswith(f"no Framework '{word}' in namespace ")
    assert line.endswith(text)
    assert ("is a Scale" in line) is bool(text)


async def test_framework_of_no_trainingjob_has_no_scalers() -> None:
    # The client refuses to list scalers.
    observation = await gather({**JOB, "kind": "TfJob"})
    assert find_job(observation.framework) is None
    assert (find_line(observation), observation.missing_rights) == ("", ())
