"""ssh, the resolver, readers of dotenv files and shells read what is written for them."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from rendezvous.core.refusal import RefusedError
from rendezvous.renderers.env_files import render_environment
from tests.consumers.stacks import (
    COUNTS,
    FAMILIES,
    ask,
    explain,
    list_addresses,
    run_program,
    write_volume,
)
from tests.consumers.stacks import require_program as require
from tests.rendezvous.gangs import build_gang
from tests.rendezvous.hostile import SHELLS, draw_texts, find_shell


def read_ssh(path: Path, host: str) -> dict[str, str]:
    ssh = require("sshd", "ssh")
    ran = run_program([ssh, "-G", "-F", str(path), host], path.parent)
    assert ran.returncode == 0, explain(ran)
    return dict(line.split(" ", 1) for line in ran.stdout.splitlines() if " " in line)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("count", COUNTS)
def test_ssh_finds_every_member_by_name_and_by_address(
    count: int, family: str, tmp_path: Path
) -> None:
    flags: dict[str, Any] = {
        "ssh_user": "mpi",
        "ssh_server_port": "2022",
        "ssh_identity_file": "/keys/my id",
    }
    write_volume(tmp_path, build_gang(count, family), **flags)
    address = list_addresses(count, family)[-1]
    for host in (f"job-worker-{count - 1}", f"job-worker-{count - 1}.job", address):
        seen = read_ssh(tmp_path / "current" / "ssh_config", host)
        assert (seen["hostname"], seen["port"], seen["user"]) == (address, "2022", "mpi")
        assert seen["stricthostkeychecking"] == "false"
        assert seen["userknownhostsfile"] == "/dev/null"
        assert seen["identityfile"] == "/keys/my id"
    assert read_ssh(tmp_path / "current" / "ssh_config", "elsewhere")["port"] == "22"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("count", COUNTS)
def test_dotenv_gives_back_every_variable(count: int, family: str, tmp_path: Path) -> None:
    rendering = write_volume(tmp_path, build_gang(count, family))
    script = 'from dotenv import dotenv_values\nanswer(dotenv_values("current/.env"))'
    assert ask("dotenv", script, tmp_path) == rendering.env


def test_dotenv_gives_back_hostile_values(seed: int, tmp_path: Path) -> None:
    kept: dict[str, str] = {}
    for number, text in enumerate(draw_texts(seed, 3000)):
        try:
            files = render_environment({f"V{number}": text}, "/d").files
        except RefusedError:
            continue
        if ".env" in files:
            kept[f"V{number}"] = text
    written = render_environment(kept, "/d")
    (tmp_path / ".env").write_bytes(written.files[".env"].content)
    script = 'from dotenv import dotenv_values\nanswer(dotenv_values(".env"))'
    assert len(kept) > 300
    assert ask("dotenv", script, tmp_path) == kept


@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("count", COUNTS)
def test_shells_export_every_variable(name: str, count: int, family: str, tmp_path: Path) -> None:
    rendering = write_volume(tmp_path, build_gang(count, family))
    env = shutil.which("env")
    assert env is not None
    program, *arguments = find_shell(name)
    shell = [str(shutil.which(program)), *arguments]
    command = [*shell, "-euc", f". {tmp_path}/current/env.sh && exec {env} -0"]
    ran = run_program(command, tmp_path, {"PATH": "/nonexistent"})
    assert ran.returncode == 0, explain(ran)
    seen = dict(entry.split("=", 1) for entry in ran.stdout.removesuffix("\0").split("\0"))
    assert seen.items() >= rendering.env.items()
    assert ran.stderr == ""


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("count", COUNTS)
def test_resolver_finds_every_member_by_the_hosts_block(
    count: int, family: str, tmp_path: Path
) -> None:
    write_volume(tmp_path, build_gang(count, family))
    # In a mount namespace of its own, the block is all that /etc/hosts holds.
    mounted = [
        "unshare",
        "-rm",
        "sh",
        "-euc",
        'mount --bind "$1" /etc/hosts && shift && "$@"',
        "sh",
    ]
    mounted.append(str(tmp_path / "current" / "etc-hosts"))
    if run_program([*mounted, "true"], tmp_path).returncode:
        pytest.skip("user namespaces are not allowed here")
    names = [f"job-worker-{i}{end}" for i in (0, count - 1) for end in ("", ".job")]
    ran = run_program([*mounted, "getent", "ahosts", *names], tmp_path)
    assert ran.returncode == 0, explain(ran)
    found = [line.split()[0] for line in ran.stdout.splitlines() if "STREAM" in line]
    addresses = list_addresses(count, family)
    assert found == [addresses[0]] * 2 + [addresses[-1]] * 2
