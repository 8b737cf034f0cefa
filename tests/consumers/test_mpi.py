"""Open MPI and Hydra start processes by the host files; a shell stands in for ssh."""

import os
import subprocess
from pathlib import Path

import pytest

from framework.api.roster import Member, Roster
from tests.consumers.stacks import require_program, write_volume
from tests.rendezvous.gangs import IPV6, build_gang, build_role, build_roster

# Drops the launcher's options, takes the host, runs the rest here.
AGENT = """\
#!/bin/sh
while :; do case $1 in -*) shift ;; *) break ;; esac; done
host=$1
shift
echo "$host" >> "$HOSTS_SEEN"
export STARTED_ON="$host"
exec sh -c "$*"
"""


def build_local_gang(count: int) -> Roster:
    role = build_role("worker", count)
    members = tuple(
        Member(m.index, (f"127.0.0.{m.index + 2}",), m.fingerprint, 0) for m in role.members
    )
    return build_roster(role._replace(members=members))


def write_agent(directory: Path) -> tuple[Path, dict[str, str]]:
    agent = directory / "agent.sh"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    return agent, {**os.environ, "HOSTS_SEEN": str(directory / "seen")}


def run(command: list[str], env: dict[str, str], directory: Path) -> list[str]:
    ran = subprocess.run(
        command, env=env, cwd=directory, capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stdout[-1000:] + ran.stderr[-2000:]
    return sorted(ran.stdout.split())


@pytest.mark.parametrize("count", [1, 2, 4])
def test_open_mpi_finds_the_host_file_and_starts_slots_on_every_host(
    count: int, tmp_path: Path
) -> None:
    mpirun = require_program("openmpi", "mpirun.openmpi")
    rendering = write_volume(tmp_path, build_local_gang(count), slots="2")
    agent, env = write_agent(tmp_path)
    env.update(rendering.env)
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    env.update(OMPI_MCA_plm_rsh_agent=str(agent), OMPI_MCA_oob_tcp_if_include="lo")
    script = 'echo "$OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE"'
    lines = run([mpirun, "sh", "-c", script], env, tmp_path)
    assert lines == sorted(f"{i}/{2 * count}" for i in range(2 * count))


def test_open_mpi_reads_bare_ipv6_and_names(tmp_path: Path) -> None:
    mpirun = require_program("openmpi", "mpirun.openmpi")
    for style, expected in (("address", {"2001:db8::1", "2001:db8::2"}), ("name", None)):
        rendering = write_volume(tmp_path, build_gang(2, IPV6), slots="1", host_style=style)
        agent, env = write_agent(tmp_path)
        env.update(rendering.env)
        env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        env.update(OMPI_MCA_plm_rsh_agent=str(agent), OMPI_MCA_oob_tcp_if_include="lo")
        lines = run([mpirun, "sh", "-c", "echo $OMPI_COMM_WORLD_RANK"], env, tmp_path)
        assert lines == ["0", "1"]
        seen = set((tmp_path / "seen").read_text().split())
        assert seen == (expected or {"job-worker-0", "job-worker-1"})
        (tmp_path / "seen").unlink()


@pytest.mark.parametrize("count", [1, 2, 4])
def test_hydra_finds_the_host_file_and_starts_slots_on_every_host(
    count: int, tmp_path: Path
) -> None:
    mpiexec = require_program("mpich", "mpiexec.hydra")
    rendering = write_volume(tmp_path, build_local_gang(count), slots="2")
    agent, env = write_agent(tmp_path)
    env.update(rendering.env)
    command = [mpiexec, "-launcher", "ssh", "-launcher-exec", str(agent), "-n", str(2 * count)]
    lines = run([*command, "sh", "-c", 'echo "$PMI_RANK/$PMI_SIZE"'], env, tmp_path)
    assert lines == sorted(f"{i}/{2 * count}" for i in range(2 * count))


def test_hydra_keeps_whole_names(tmp_path: Path) -> None:
    mpiexec = require_program("mpich", "mpiexec.hydra")
    rendering = write_volume(tmp_path, build_gang(2, IPV6), host_style="name")
    agent, env = write_agent(tmp_path)
    env.update(rendering.env)
    command = [mpiexec, "-launcher", "ssh", "-launcher-exec", str(agent), "-localhost", "127.0.0.1"]
    lines = run([*command, "-n", "2", "sh", "-c", "echo $STARTED_ON"], env, tmp_path)
    assert lines == ["job-worker-0", "job-worker-1"]
