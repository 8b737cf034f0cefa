"""injector.sh, byte by byte."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrier.addresses import is_address
from barrier.injector import InjectorError, render_injector
from framework.agent.framework_roster import build_view
from framework.api.roster import CompletedTask, RoleRoster
from tests.barrier.api_server import make_framework, make_member, make_role, make_roster, make_task

TWO_ROLES = """\
#!/bin/bash

echo ./injector.sh: Start to inject environment variables

export FB_PS_IPS=10.0.0.9
echo FB_PS_IPS=${FB_PS_IPS}
export FB_WORKER_IPS=10.0.0.2,10.0.0.3
echo FB_WORKER_IPS=${FB_WORKER_IPS}

export FB_PS_ADDRESSES=10.0.0.9:${FB_PS_PORT}
echo FB_PS_ADDRESSES=${FB_PS_ADDRESSES}
export FB_WORKER_ADDRESSES=10.0.0.2:${FB_WORKER_PORT},10.0.0.3:${FB_WORKER_PORT}
echo FB_WORKER_ADDRESSES=${FB_WORKER_ADDRESSES}

echo ./injector.sh: Succeeded to inject environment variables
"""
ONE_ROLE = """\
#!/bin/bash

echo ./injector.sh: Start to inject environment variables

export FB_WORKER_IPS={ips}
echo FB_WORKER_IPS=${{FB_WORKER_IPS}}

export FB_WORKER_ADDRESSES={addresses}
echo FB_WORKER_ADDRESSES=${{FB_WORKER_ADDRESSES}}

echo ./injector.sh: Succeeded to inject environment variables
"""


def test_render_injector_two_roles_in_the_rosters_order() -> None:
    worker = make_roster().roles[0]
    ps = make_role("ps", make_member(0, "10.0.0.9"))
    assert render_injector(make_roster(roles=(ps, worker))).decode() == TWO_ROLES


@pytest.mark.parametrize(
    ("role", "ips", "addresses"),
    [
        pytest.param(make_role("worker"), "", "", id="no-tasks"),
        pytest.param(
            make_role("worker", make_member(0, "fd00::1")),
            "fd00::1",
            "fd00::1:${FB_WORKER_PORT}",
            id="ipv6-without-brackets",
        ),
        pytest.param(
            make_role(
                "worker",
                make_member(0, "10.0.0.2"),
                make_member(2, "10.0.0.4"),
                completed=(CompletedTask(1, "Succeeded", "10.0.0.3"),),
            ),
            "10.0.0.2,10.0.0.3,10.0.0.4",
            ",".join(f"10.0.0.{i}:${{FB_WORKER_PORT}}" for i in (2, 3, 4)),
            id="completed-keeps-its-place",
        ),
        pytest.param(
            make_role("worker", make_member(1, "10.0.0.3"), absent=(0,)),
            "10.0.0.3",
            "10.0.0.3:${FB_WORKER_PORT}",
            id="absent-left-out",
        ),
    ],
)
def test_render_injector_one_role(role: RoleRoster, ips: str, addresses: str) -> None:
    expected = ONE_ROLE.format(ips=ips, addresses=addresses)
    assert render_injector(make_roster(roles=(role,))).decode() == expected


def test_render_injector_from_framework_equals_from_roster() -> None:
    extra = make_task(2, "10.0.0.4", deletionPending=True)
    tasks = (make_task(0, "10.0.0.2"), make_task(1, "10.0.0.3"), extra)
    for is_attempt_aware in (True, False):
        view = build_view(make_framework(*tasks, number=2), is_attempt_aware=is_attempt_aware)
        assert render_injector(view.roster) == render_injector(make_roster())


def test_render_injector_sourced_by_a_shell_expands_the_port_then() -> None:
    script = render_injector(make_roster()).decode()
    for port in ("4001", "4002"):
        done = subprocess.run(
            ["/bin/sh", "-c", script + "\necho $FB_WORKER_ADDRESSES"],
            env={"FB_WORKER_PORT": port},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines()[-1] == f"10.0.0.2:{port},10.0.0.3:{port}"


@pytest.mark.parametrize("text", ["10.0.0.2;id", "$(id)", "", "10.0.0", "1.2.3.4 ", "a", "::1%lo"])
def test_render_injector_hostile_address_is_refused(text: str) -> None:
    role = make_role("worker", make_member(0, text))
    with pytest.raises(InjectorError):
        render_injector(make_roster(roles=(role,)))


@pytest.mark.parametrize("name", ["", "a-b", "a b", "W", "a;b", "a\n"])
def test_render_injector_hostile_role_is_refused(name: str) -> None:
    role = make_roster().roles[0]._replace(name=name)
    with pytest.raises(InjectorError):
        render_injector(make_roster(roles=(role,)))


@given(st.ip_addresses())
def test_is_address_every_address_is_one(address: object) -> None:
    assert is_address(str(address))


@given(st.text())
def test_is_address_accepts_only_harmless_letters(text: str) -> None:
    if is_address(text):
        assert set(text) <= set("0123456789abcdefABCDEF.:")
