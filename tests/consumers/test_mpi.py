"""Open MPI 4 and 5 and Hydra of MPICH 4 and 5 read the host files; a shell stands in for ssh."""

import os
import re
import shutil
from pathlib import Path

import pytest

from framework.api.roster import Member, Roster
from tests.consumers.stacks import (
    COUNTS,
    explain,
    list_addresses,
    require_program,
    require_python,
    run_program,
)
from tests.consumers.stacks import write_volume as write
from tests.rendezvous.gangs import IPV4, IPV6, build_gang, build_role, build_roster

# Drops the launcher's options, takes the host, runs the rest here. Daemons of one machine share a
# directory that the first to end removes, so each has a directory of its own, in the test's.
AGENT = """\
#!/bin/sh
while :; do case $1 in -*) shift ;; *) break ;; esac; done
host=$1
shift
echo "$host" >> "$HOSTS_SEEN"
export STARTED_ON="$host"
TMPDIR=$(mktemp -d)
export TMPDIR
exec sh -c "$*"
"""
# Hydra prints the hosts that it has read before it starts processes.
NO_AGENT = "#!/bin/sh\nkill $PPID\n"
OPEN_MPI = ("openmpi", "openmpi5")
HYDRA = ("mpich", "mpich5")
DEBIAN = {"openmpi": "mpirun.openmpi", "mpich": "mpiexec.hydra"}
SHOW = {
    "openmpi": ["--display-map", "--do-not-launch"],
    "openmpi5": ["--display", "allocation", "--runtime-options", "donotlaunch"],
}
SHOWN = re.compile(r"Data for node: (\S+)\s+Num slots: (\d+)|^ +(\S+): slots=(\d+) ", re.MULTILINE)


def find_launcher(stack: str) -> str:
    """Find mpirun or mpiexec of one version, or skip."""
    if stack in DEBIAN:
        return require_program(stack, DEBIAN[stack])
    name = "mpirun" if stack in OPEN_MPI else "mpiexec.hydra"
    return str(require_python(stack).parent / name)


def build_local_gang(count: int) -> Roster:
    role = build_role("worker", count)
    members = tuple(
        Member(m.index, (f"127.0.0.{m.index + 2}",), m.fingerprint, 0) for m in role.members
    )
    return build_roster(role._replace(members=members))


def list_ranks(count: int) -> list[str]:
    """Return the sorted lines of the ranks of ``build_local_gang``, two on each host."""
    return sorted(f"{rank}/{2 * count} on 127.0.0.{rank // 2 + 2}" for rank in range(2 * count))


def write_agent(directory: Path, text: str = AGENT) -> Path:
    agent = directory / "agent.sh"
    agent.write_text(text)
    agent.chmod(0o755)
    return agent


def build_hydra(stack: str, agent: Path) -> list[str]:
    return [find_launcher(stack), "-launcher", "ssh", "-launcher-exec", str(agent)]


def build_env(stack: str, directory: Path, rendered: dict[str, str]) -> dict[str, str]:
    """Build what a launcher's container has, with the shell in place of ssh."""
    env = {**os.environ, **rendered, "HOSTS_SEEN": str(directory / "seen")}
    env["TMPDIR"] = str(directory / "tmp")
    (directory / "tmp").mkdir(exist_ok=True)
    agent = str(write_agent(directory))
    # What it starts by name is its own.
    env["PATH"] = os.pathsep.join([str(Path(find_launcher(stack)).parent), env["PATH"]])
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    env.update(OMPI_MCA_plm_rsh_agent=agent, OMPI_MCA_oob_tcp_if_include="lo")
    env.update(PRTE_MCA_plm_ssh_agent=agent)
    # Its daemons start processes in threads, and up to 5.0.11 take one that ends within
    # milliseconds for one that runs: mpirun then waits for it for ever (openpmix/prrte#2711).
    # The ranks of these tests are so short. Without threads there is nothing to overtake.
    env.update(PRTE_MCA_odls_base_max_threads="0")
    return env


def run(command: list[str], env: dict[str, str], directory: Path) -> list[str]:
    """Run a launcher, which must succeed; return the sorted lines of its ranks."""
    ran = run_program(command, directory, env)
    assert ran.returncode == 0, explain(ran)
    return sorted(ran.stdout.splitlines())


@pytest.mark.parametrize("family", [IPV4, IPV6])
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("stack", OPEN_MPI)
def test_open_mpi_reads_every_host_with_its_slots(
    stack: str, count: int, family: str, tmp_path: Path
) -> None:
    launcher = find_launcher(stack)
    rendering = write(tmp_path, build_gang(count, family), slots="2")
    command = [launcher, *SHOW[stack], "-np", str(2 * count), "true"]
    ran = run_program(command, tmp_path, build_env(stack, tmp_path, rendering.env))
    # Open MPI 5 shows them twice.
    found = dict.fromkeys((a or c, int(b or d)) for a, b, c, d in SHOWN.findall(ran.stdout))
    hosts = list_addresses(count, family)
    assert list(found) == [(host, 2) for host in hosts], explain(ran)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("stack", OPEN_MPI)
def test_open_mpi_finds_the_host_file_and_starts_slots_on_every_host(
    stack: str, count: int, tmp_path: Path
) -> None:
    mpirun = find_launcher(stack)
    rendering = write(tmp_path, build_local_gang(count), slots="2")
    env = build_env(stack, tmp_path, rendering.env)
    script = 'echo "$OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE on $STARTED_ON"'
    lines = run([mpirun, "sh", "-c", script], env, tmp_path)
    assert lines == list_ranks(count)


@pytest.mark.parametrize("stack", OPEN_MPI)
def test_open_mpi_starts_on_bare_ipv6_and_names(stack: str, tmp_path: Path) -> None:
    mpirun = find_launcher(stack)
    for style, expected in (("address", {"2001:db8::1", "2001:db8::2"}), ("name", None)):
        rendering = write(tmp_path, build_gang(2, IPV6), slots="1", host_style=style)
        env = build_env(stack, tmp_path, rendering.env)
        lines = run([mpirun, "sh", "-c", "echo $OMPI_COMM_WORLD_RANK"], env, tmp_path)
        assert lines == ["0", "1"]
        seen = set((tmp_path / "seen").read_text().split())
        assert seen == (expected or {"job-worker-0", "job-worker-1"})
        (tmp_path / "seen").unlink()


@pytest.mark.parametrize("style", ["address", "name"])
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("stack", HYDRA)
def test_hydra_reads_every_host_with_its_slots(
    stack: str, count: int, style: str, tmp_path: Path
) -> None:
    """By address for IPv4; IPv6 has to go by name."""
    family = IPV4 if style == "address" else IPV6
    rendering = write(tmp_path, build_gang(count, family), slots="2", host_style=style)
    agent = write_agent(tmp_path, NO_AGENT)
    command = [find_launcher(stack), "-verbose", "-launcher", "ssh", "-launcher-exec", str(agent)]
    command += ["-localhost", "127.0.0.1", "-n", str(2 * count), "true"]
    ran = run_program(command, tmp_path, {**os.environ, **rendering.env})
    found = re.findall(r"^ +\[\d+\] proxy: (\S+) \((\d+) cores\)", ran.stdout, re.MULTILINE)
    named = [f"job-worker-{index}" for index in range(count)]
    hosts = list_addresses(count, family) if style == "address" else named
    assert found == [(host, "2") for host in hosts], explain(ran)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("stack", HYDRA)
def test_hydra_finds_the_host_file_and_starts_slots_on_every_host(
    stack: str, count: int, tmp_path: Path
) -> None:
    rendering = write(tmp_path, build_local_gang(count), slots="2")
    env = build_env(stack, tmp_path, rendering.env)
    command = build_hydra(stack, write_agent(tmp_path))
    script = 'echo "$PMI_RANK/$PMI_SIZE on $STARTED_ON"'
    lines = run([*command, "-n", str(2 * count), "sh", "-c", script], env, tmp_path)
    assert lines == list_ranks(count)


@pytest.mark.parametrize("stack", HYDRA)
def test_hydra_keeps_whole_names(stack: str, tmp_path: Path) -> None:
    rendering = write(tmp_path, build_gang(2, IPV6), host_style="name")
    env = build_env(stack, tmp_path, rendering.env)
    command = build_hydra(stack, write_agent(tmp_path))
    command += ["-localhost", "127.0.0.1", "-n", "2", "sh", "-c", "echo $STARTED_ON"]
    assert run(command, env, tmp_path) == ["job-worker-0", "job-worker-1"]


def test_hydra_cannot_read_ipv6_which_is_why_it_is_refused(tmp_path: Path) -> None:
    rendering = write(tmp_path, build_gang(2, IPV6))
    assert "FB_HOST_STYLE=name" in str(rendering.refusals["hydra"])
    assert not (tmp_path / "current" / "hosts.hydra").exists()
    assert "HYDRA_HOST_FILE" not in rendering.env
    if shutil.which("mpiexec.hydra"):
        (tmp_path / "hosts").write_text("2001:db8::1:2\n")
        agent = write_agent(tmp_path, NO_AGENT)
        command = ["mpiexec.hydra", "-verbose", "-f", "hosts", "-launcher-exec", str(agent)]
        ran = run_program([*command, "-n", "1", "true"], tmp_path)
        assert "proxy: 2001:db8::1 " not in ran.stdout, explain(ran)
