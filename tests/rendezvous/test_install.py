"""What is installed into users' images: small, reproducible, and for old Pythons, too."""

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from framework.api.images import INSTALLED_AGENT, RSH_SCRIPT
from rendezvous.renderers.registry import render_all
from rendezvous.volume.install import (
    SITE_DIRECTORY,
    build_zipapp,
    find_directory,
    install,
    read_sources,
)
from tests.rendezvous.agents import Publisher, run_agent
from tests.rendezvous.gangs import build_gang, build_options, see
from tests.support.machine.oldpython import find_old_python
from tests.support.servers.controlplane import Access
from tests.support.waiting import HANG_SECONDS

TOO_NEW = {"Protocol", "Literal", "Final", "TypedDict", "TypeAlias", "Self"}
ALLOWED = ("framework.agent.", "framework.api.constants", "framework.api.epochreports",
           "framework.api.images",
           "framework.api.naming", "framework.api.packed", "framework.api.gangreadiness",
           "framework.api.roster", "framework.api.rostervalues", "framework.api.scalerequest",
           "framework.api.text", "framework.api.trainingprogress", "framework.version")  # fmt: skip
# Of these, restart in place takes 14 kB, the decision about the command of `run` 4 kB,
# notifications of failed members 4 kB and of Pods that leave 5 kB, the search for hangs 28 kB, and
# the report of the progress 8 kB: rank 0 measures the gang, because only rank 0 has all reports.
# A module of its own takes about 1 kB: its header in the archive, its imports and its docstring.
MAX_BYTES = 310_000


SOURCES = {name: content for name, content in read_sources() if content.strip()}
SITE_SOURCES = [name for name in SOURCES if name.startswith("rendezvous/site/p")]


@pytest.mark.parametrize("name", SOURCES)
def test_zipapp_file_is_python_3_7_and_imports_itself_and_the_standard_library_only(
    name: str,
) -> None:
    tree = ast.parse(SOURCES[name], feature_version=(3, 7))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    typing = {alias.name for node in imported if node.module == "typing" for alias in node.names}
    assert not typing & TOO_NEW
    plain = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    names = [alias.name for node in plain for alias in node.names]
    names += [f"{n.module}.{alias.name}" for n in imported if not n.level for alias in n.names]
    for full in names:
        is_standard = full.partition(".")[0] in sys.stdlib_module_names
        # A kubeconfig is read outside Pods only.
        is_standard |= (name, full) == ("framework/agent/kubeconfig.py", "yaml")
        assert is_standard or full.startswith(("rendezvous.", *ALLOWED)), full


def test_zipapp_holds_the_agent_and_nothing_else(tmp_path: Path) -> None:
    install(str(tmp_path))
    path = tmp_path / INSTALLED_AGENT
    names = zipfile.ZipFile(path).namelist()
    assert all(n.startswith(("rendezvous/", "framework/agent/", "framework/api/"))
               for n in names if n.count("/") > 1)  # fmt: skip
    assert not [n for n in names if "/kube/" in n or n.endswith((".pyc", "codec.py", "types.py"))]
    assert path.stat().st_size < MAX_BYTES
    assert path.stat().st_mode & 0o777 == 0o444
    assert path.read_bytes() == build_zipapp(dict(read_sources()))
    assert find_directory(f"{path}/rendezvous/app.py") == str(tmp_path)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_remote_shell_with_half_an_option_ends(shell: str, tmp_path: Path) -> None:
    install(str(tmp_path))
    # The shift of dash ends the script by itself, that of bash does not.
    ran = subprocess.run(
        [shell, str(tmp_path / RSH_SCRIPT), "-p"], timeout=HANG_SECONDS, check=False
    )
    assert ran.returncode != 0


def test_site_folder_is_readable_by_all_whatever_the_umask_is(tmp_path: Path) -> None:
    umask = os.umask(0o077)
    try:
        install(str(tmp_path))
    finally:
        os.umask(umask)
    site = tmp_path / SITE_DIRECTORY
    assert (site / "peers" / "__init__.py").is_file()
    for path in [site, *site.rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o444), path


@pytest.mark.parametrize("source", SITE_SOURCES)
def test_site_folder_imports_itself_and_the_standard_library_only(source: str) -> None:
    """Late imports, by ``importlib``, are those of the training stack, which is there then."""
    tree = ast.parse(SOURCES[source])
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level:
            # Not above the package, which is `peers` in the volume.
            assert node.level <= source.removeprefix("rendezvous/site/peers").count("/")
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


@pytest.mark.local
@pytest.mark.parametrize("which", ["this", "old"])
def test_zipapp_runs_by_itself_on_any_python(which: str, api: Access, tmp_path: Path) -> None:
    python = sys.executable if which == "this" else find_old_python()
    volume = tmp_path / "volume"
    install(str(volume))
    publisher = Publisher(api.open_http(), f"zip-{which}")
    roster = publisher.publish(build_gang(3, "dual"))
    env = publisher.build_env(api.url, api.token, volume, "worker", 1)
    # Nothing of this checkout, and the directory is where the zipapp lies.
    del env["PYTHONPATH"], env["BARRIER_WORKING_DIR"]
    script = (
        f"{python} -W error -c 'import peers; print(peers.wait(min=3).rank, peers.roster().size)'"
    )
    command = (python, "-W", "error", "-I", str(volume / INSTALLED_AGENT))
    with run_agent(env, "run", "--", "sh", "-c", script, command=command) as agent:
        assert agent.wait() == 0, agent.text
    assert agent.text.splitlines()[-1] == "1 3"
    # The bytes of the files are those of this Python.
    for file_name, file in render_all(
        see(roster, index=1, directory=str(volume)), build_options(directory=str(volume))
    ).files.items():
        assert (volume / "current" / file_name).read_bytes() == file.content, file_name
    # It can put itself into another volume, unchanged.
    subprocess.run([*command, "install", "--directory", str(tmp_path / "next")], check=True)
    copied = tmp_path / "next" / INSTALLED_AGENT
    assert copied.read_bytes() == (volume / INSTALLED_AGENT).read_bytes()
