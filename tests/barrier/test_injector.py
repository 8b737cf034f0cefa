"""injector.sh, byte by byte."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrier.injector import MAX_VARIABLE_BYTES, InjectorError, render_injector
from framework.agent.addresses import find_family
from framework.agent.framework_roster import build_view
from framework.api.roster import CompletedTask, RoleRoster, Roster
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
    assert render_injector(make_roster(roles=(ps, worker)), "/volume").script.decode() == TWO_ROLES


FIRST, SECOND, THIRD = (make_member(i, f"10.0.0.{i + 2}") for i in range(3))
WITH_COMPLETED = make_role(
    "worker", FIRST, THIRD, completed=(CompletedTask(1, "Succeeded", "10.0.0.3"),)
)
ROLES: dict[str, tuple[RoleRoster, list[str]]] = {
    "no-tasks": (make_role("worker"), []),
    "ipv6-without-brackets": (make_role("worker", make_member(0, "fd00::1")), ["fd00::1"]),
    "completed-keeps-its-place": (WITH_COMPLETED, ["10.0.0.2", "10.0.0.3", "10.0.0.4"]),
    "absent-left-out": (make_role("worker", SECOND, absent=(0,)), ["10.0.0.3"]),
}


@pytest.mark.parametrize(("role", "ips"), ROLES.values(), ids=ROLES)
def test_render_injector_one_role(role: RoleRoster, ips: list[str]) -> None:
    addresses = ",".join(f"{ip}:${{FB_WORKER_PORT}}" for ip in ips)
    expected = ONE_ROLE.format(ips=",".join(ips), addresses=addresses)
    assert render_injector(make_roster(roles=(role,)), "/volume").script.decode() == expected


def test_render_injector_from_framework_equals_from_roster() -> None:
    extra = make_task(2, "10.0.0.4", deletionPending=True)
    tasks = (make_task(0, "10.0.0.2"), make_task(1, "10.0.0.3"), extra)
    for is_attempt_aware in (True, False):
        view = build_view(make_framework(*tasks, number=2), is_attempt_aware=is_attempt_aware)
        assert render_injector(view.roster, "/volume") == render_injector(make_roster(), "/volume")


def test_render_injector_sourced_by_a_shell_expands_the_port_then() -> None:
    script = render_injector(make_roster(), "/volume").script.decode()
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
        render_injector(make_roster(roles=(role,)), "/volume")


@pytest.mark.parametrize("name", ["", "a-b", "a b", "W", "a;b", "a\n"])
def test_render_injector_hostile_role_is_refused(name: str) -> None:
    role = make_roster().roles[0]._replace(name=name)
    with pytest.raises(InjectorError):
        render_injector(make_roster(roles=(role,)), "/volume")


@given(st.ip_addresses())
def test_is_address_every_address_is_one(address: object) -> None:
    assert find_family(str(address))


@given(st.text())
def test_is_address_accepts_only_harmless_letters(text: str) -> None:
    if find_family(text):
        assert set(text) <= set("0123456789abcdefABCDEF.:")


LARGE = 10_000
SHELLS = ("dash", "bash", "busybox")


def make_large(count: int = LARGE) -> Roster:
    members = tuple(
        make_member(i, f"10.1{i // 62500}.{i // 250 % 250}.{i % 250}") for i in range(count)
    )
    return make_roster(
        roles=(make_role("ps", make_member(0, "10.0.0.9")), make_role("worker", *members))
    )


def write_injector(roster: Roster, directory: Path) -> None:
    injector = render_injector(roster, str(directory))
    for name, content in injector.lists.items():
        (directory / name).write_bytes(content)
    (directory / "injector.sh").write_bytes(injector.script)


def source(shell: str, script: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script as a container's command does, with a child that must be executed."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: apt-get install {shell}")
    words = [shell, "sh"] if shell == "busybox" else [shell]
    return subprocess.run(
        [*words, "-euc", script],
        env={"PATH": "/usr/bin:/bin", **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_sourced_10000_tasks_name_files_and_a_child_still_starts(
    shell: str, tmp_path: Path
) -> None:
    roster = make_large()
    write_injector(roster, tmp_path)
    script = f". {tmp_path}/injector.sh; exec env"
    done = source(shell, script, FB_WORKER_PORT="4001", FB_PS_PORT="4000")
    assert done.returncode == 0, done.stderr[-500:]
    env = dict(line.partition("=")[::2] for line in done.stdout.splitlines() if "=" in line)
    assert env["FB_PS_ADDRESSES"] == "10.0.0.9:4000"
    assert "FB_WORKER_IPS" not in env
    assert "FB_WORKER_ADDRESSES" not in env
    ips = Path(env["FB_WORKER_IPS_FILE"]).read_text()
    addresses = Path(env["FB_WORKER_ADDRESSES_FILE"]).read_text()
    expected = [member.addresses[0] for member in roster.roles[1].members]
    assert ips == ",".join(expected) + "\n"
    assert addresses == ",".join(f"{ip}:4001" for ip in expected) + "\n"
    assert env["FB_WORKER_ADDRESSES_FILE"].startswith(str(tmp_path))
    assert not list(tmp_path.glob("*.tmp")) + list(tmp_path.glob("*.[0-9]*"))


@pytest.mark.parametrize("shell", SHELLS)
def test_sourced_again_with_another_port_makes_another_file(shell: str, tmp_path: Path) -> None:
    write_injector(make_large(8000), tmp_path)
    script = (
        f"FB_WORKER_PORT=1; . {tmp_path}/injector.sh; first=$FB_WORKER_ADDRESSES_FILE; "
        f"FB_WORKER_PORT=2; . {tmp_path}/injector.sh; "
        'head -c 12 "$first"; echo; head -c 12 "$FB_WORKER_ADDRESSES_FILE"'
    )
    done = source(shell, script, FB_PS_PORT="1")
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.splitlines()[-2:] == ["10.10.0.0:1,", "10.10.0.0:2,"]


def test_sourced_volume_read_only_writes_into_tmp(tmp_path: Path) -> None:
    """A missing directory stands for a volume that this container may not write to."""
    volume, temporary = tmp_path / "volume", tmp_path / "tmp"
    volume.mkdir()
    temporary.mkdir()
    injector = render_injector(make_large(), str(tmp_path / "volume" / "not-there"))
    (volume / "injector.sh").write_bytes(injector.script)
    script = f'. {volume}/injector.sh; echo; cat "$FB_WORKER_ADDRESSES_FILE"'
    done = source("dash", script, FB_WORKER_PORT="7", FB_PS_PORT="1", TMPDIR=str(temporary))
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.endswith(":7\n")
    assert [p.name for p in temporary.iterdir()] == ["FB_WORKER_ADDRESSES-7"]


def test_render_injector_6000_tasks_stay_variables_that_can_be_exported() -> None:
    """Just below the limit, the script is that of the original, and a child process starts."""
    injector = render_injector(make_large(5000), "/volume")
    assert injector.lists == {}
    script = injector.script.decode() + "\nexec true"
    assert len(script) > MAX_VARIABLE_BYTES
    env = {"PATH": "/usr/bin:/bin", "FB_WORKER_PORT": "65535", "FB_PS_PORT": "1"}
    subprocess.run(["/bin/sh"], input=script, text=True, env=env, check=True, capture_output=True)


def test_render_injector_quotes_the_directory() -> None:
    injector = render_injector(make_large(), "/a 'b' $(id)")
    assert b"'/a '\\''b'\\'' $(id)/FB_WORKER_IPS'" in injector.script
