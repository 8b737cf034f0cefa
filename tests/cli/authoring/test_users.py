"""Which user agents get, and which container could read their token through /proc."""

from typing import Any

import pytest

from cli.authoring.injection import InjectionOptions, Rendezvous, inject
from cli.authoring.rules import LintOptions, lint
from tests.cli.authoring.injected import SPEC, build, get_spec


def build_shared(**context: Any) -> dict[str, Any]:
    """Build a Framework whose containers see one another's processes."""
    framework = build()
    spec = get_spec([framework])
    spec["shareProcessNamespace"] = True
    if context:
        spec["containers"][0]["securityContext"] = context
    return framework


def inject_one(framework: dict[str, Any], *, restricted: bool = True) -> dict[str, Any]:
    options = InjectionOptions(rendezvous=Rendezvous.SIDECAR, restricted=restricted)
    return inject(framework, options)[-1]


def list_users(framework: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Map the name of each container to the user and group it runs as."""
    spec = get_spec([framework])
    pod = spec.get("securityContext") or {}
    found = {}
    for container in [*spec["initContainers"], *spec["containers"]]:
        context = {**pod, **(container.get("securityContext") or {})}
        found[container["name"]] = (context.get("runAsUser"), context.get("runAsGroup"))
    return found


@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize("user", [None, 1000, 65530, 65531, 65532])
def test_inject_gives_agents_a_user_that_no_other_container_has(
    user: int | None, *, restricted: bool
) -> None:
    framework = build_shared(**({} if user is None else {"runAsUser": user}))
    users = list_users(inject_one(framework, restricted=restricted))
    train = users.pop("main")
    assert set(users) == {"barrier", "rendezvous"}
    for agent_user, agent_group in users.values():
        assert agent_user not in {None, 0, train[0]}
        assert agent_group not in {None, 0, train[0], train[1]}


def test_inject_again_leaves_the_users() -> None:
    once = inject_one(build_shared())
    assert inject_one(once) == once


def test_inject_keeps_a_user_in_the_template() -> None:
    framework = build_shared()
    barrier = {"name": "barrier", "image": "frameworkbarrier/framework-barrier"}
    get_spec([framework])["initContainers"] = [barrier | {"securityContext": {"runAsUser": 5}}]
    assert list_users(inject_one(framework))["barrier"] == (5, None)


def test_inject_agent_that_sends_signals_has_the_same_user_and_another_group() -> None:
    """A signal needs the same user; reading through /proc needs the same group too."""
    framework = build_shared(runAsUser=1000, runAsGroup=1000)
    signals = {"FB_NOTIFY_SIGNAL": "HUP", "FB_NOTIFY_PROCESS": "train", "FB_SIDECAR_END": "native"}
    agent: dict[str, Any] = {"name": "rendezvous", "image": "frameworkbarrier/framework-rendezvous"}
    agent |= {"args": ["watch"], "restartPolicy": "Always"}
    agent |= {"env": [{"name": name, "value": value} for name, value in signals.items()]}
    get_spec([framework])["initContainers"] = [agent]
    injected = inject_one(framework)
    users = list_users(injected)
    assert users["rendezvous"][0] == users["main"][0] == 1000
    assert users["rendezvous"][1] not in {None, 0, 1000}
    assert find_token_rule(injected) == []


def find_token_rule(framework: dict[str, Any]) -> list[tuple[str, str]]:
    found = lint(framework, LintOptions())
    return [(f.severity, f.path) for f in found if f.rule == "agent-token"]


def test_lint_finds_an_agent_of_the_training_containers_user() -> None:
    framework = inject_one(build_shared())
    assert find_token_rule(framework) == []
    sidecar = get_spec([framework])["initContainers"][1]
    sidecar["securityContext"] |= {"runAsUser": 65532}
    del sidecar["securityContext"]["runAsGroup"]
    path = f"{SPEC}.initContainers[1].securityContext.runAsUser"
    assert find_token_rule(framework) == [("error", path)]
    del get_spec([framework])["shareProcessNamespace"]
    assert find_token_rule(framework) == []


@pytest.mark.parametrize(
    ("context", "found"),
    [
        ({}, True),
        ({"runAsUser": 0}, True),
        ({"runAsUser": 1000}, False),
        ({"capabilities": {"drop": ["ALL"]}}, False),
        ({"runAsUser": 0, "capabilities": {"drop": ["ALL"], "add": ["SETUID"]}}, True),
    ],
)
def test_lint_finds_a_root_that_can_become_the_agents_user(
    context: dict[str, Any], *, found: bool
) -> None:
    framework = inject_one(build_shared(**context), restricted=False)
    path = f"{SPEC}.containers[0].securityContext"
    assert find_token_rule(framework) == ([("warning", path)] if found else [])
