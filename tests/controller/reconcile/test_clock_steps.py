"""A wall clock that is set back: nothing waits until it has caught up."""

from typing import Any

import pytest

from controller.core.actions import ObjectKind
from framework.kube.resources import CONFIGMAPS, PODS
from tests.support.builders import FRAMEWORK, NAMESPACE
from tests.support.simulator.shell import Shell, refuse

pytestmark = pytest.mark.looptime

MERGE = "application/merge-patch+json"
ATTEMPT = f"{FRAMEWORK}-attempt"
HOUR_SECONDS = 3600.0


def patch_pod(shell: Shell, **status: Any) -> None:
    rt, name = shell.type(PODS), f"{FRAMEWORK}-worker-0"
    shell.storage.patch(rt, NAMESPACE, name, {"status": status}, MERGE, subresource="status")
    shell.show()


def read_generation(shell: Shell) -> int:
    roster = shell.entry.observed.published.roster
    assert roster is not None
    return roster.generation


async def test_next_generation_is_published_after_the_clock_was_set_back() -> None:
    shell = Shell()
    shell.create_framework()
    await shell.run(1.0)
    patch_pod(shell, phase="Running", podIP="10.0.0.1", podIPs=[{"ip": "10.0.0.1"}])
    await shell.run(1.0)
    before = read_generation(shell)
    shell.clock.skew_seconds = -HOUR_SECONDS
    patch_pod(shell, podIP="10.0.0.9", podIPs=[{"ip": "10.0.0.9"}])
    await shell.run(5.0)
    assert read_generation(shell) == before + 1


async def test_refused_create_is_tried_again_after_the_clock_was_set_back() -> None:
    shell = Shell()
    shell.network.expect("create", CONFIGMAPS, refuse(500))
    shell.create_framework()
    await shell.run(0.1)
    shell.clock.skew_seconds = -HOUR_SECONDS
    await shell.run(5.0)
    assert shell.names(CONFIGMAPS) == [ATTEMPT]


async def test_unconfirmed_create_is_looked_at_after_the_clock_was_set_back() -> None:
    shell = Shell()
    shell.create_framework()
    await shell.run(1.0)
    assert (ObjectKind.CONFIGMAP, ATTEMPT) in shell.entry.observed.unconfirmed
    shell.clock.skew_seconds = -HOUR_SECONDS
    shell.client.sent.clear()
    await shell.run(20.0)
    assert f"get configmaps {ATTEMPT}" in shell.sent("get")
