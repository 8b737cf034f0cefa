"""Two distributions: `frameworkbarrier` holds no file of the local cluster and works without it.

The wheels are built with what `make init` has installed; tests/release builds and installs all as
for a release.
"""

import json
import subprocess
import sys
import sysconfig
from email.parser import HeaderParser
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from cli.start.stacks import PLAIN, STACKS
from framework.version import VERSION
from tools.distributions import FOLDERS

ROOT = Path(__file__).parents[2]
FRAMEWORK = str(ROOT / "examples" / "gang.yaml")
MESSAGE = (
    "error: the local cluster is not installed (No module named 'localcluster'): install it with "
    "`pip install 'frameworkbarrier[local]'`\n"
)
WITHOUT_LOCAL = {
    "--help": (0, "Usage: framework"),
    "version": (0, VERSION),
    f"lint {FRAMEWORK}": (0, ""),
    f"inject {FRAMEWORK}": (0, "kind: Framework"),
    f"run {FRAMEWORK}": (2, "no cluster is configured"),
    "logs gang": (2, "no cluster is configured"),
}
WITH_LOCAL = (
    *(f"run --local {FRAMEWORK}", "local up", "local down", "local status"),
    "logs gang --directory .",
)
# Neither the checkout nor site-packages' links to it are on the path of -I -S.
PROGRAM = """
import importlib, json, pkgutil, sys
sys.path[:0] = sys.argv[1:3]
from click.testing import CliRunner
import cli
from cli.main import main
def call(command):
    result = CliRunner().invoke(main, command.split(), prog_name="framework")
    return result.exit_code, result.stdout, result.stderr
results = {command: call(command) for command in sys.argv[3:]}
for found in pkgutil.walk_packages(cli.__path__, "cli."):
    if not found.name.startswith("cli.local."):
        importlib.import_module(found.name)
print(json.dumps({"results": results, "modules": list(sys.modules)}))
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    output = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(output)]
    for folder in FOLDERS.values():
        subprocess.run(build, cwd=ROOT / folder, check=True, capture_output=True)
    return {path.name.partition("-")[0]: path for path in output.iterdir()}


def test_wheel_has_the_examples_as_templates_of_init(wheels: dict[str, Path]) -> None:
    with ZipFile(wheels["frameworkbarrier"]) as wheel:
        for stack in (PLAIN, *STACKS.values()):
            template = wheel.read(f"cli/start/templates/{stack.example}")
            assert template == (ROOT / "examples" / stack.example).read_bytes()


@pytest.fixture(scope="module")
def without_local(
    wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The results of commands with `frameworkbarrier` installed without its extra."""
    folder = tmp_path_factory.mktemp("installed")
    with ZipFile(wheels["frameworkbarrier"]) as wheel:
        wheel.extractall(folder)
    path = [str(folder), sysconfig.get_path("purelib")]
    command = [sys.executable, "-I", "-S", "-B", "-c", PROGRAM, *path]
    done = subprocess.run(
        [*command, *WITHOUT_LOCAL, *WITH_LOCAL],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(folder)},
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def list_folders(wheel: Path) -> set[str]:
    return {name.partition("/")[0] for name in ZipFile(wheel).namelist()}


def read_requirements(wheel: Path, name: str) -> list[str]:
    metadata = ZipFile(wheel).read(f"{name}-{VERSION}.dist-info/METADATA").decode()
    return HeaderParser().parsestr(metadata).get_all("Requires-Dist") or []


def test_each_file_of_the_local_cluster_is_in_its_own_wheel_only(wheels: dict[str, Path]) -> None:
    main, local = wheels["frameworkbarrier"], wheels["frameworkbarrier_local"]
    rooms = {"barrier", "cli", "controller", "framework", "rendezvous"}
    tracked = subprocess.run(
        ["git", "ls-files", "localcluster"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    packaging = {f"localcluster/{name}" for name in ("hatch_build.py", "pyproject.toml")}
    expected = {name for name in tracked if (ROOT / name).exists()} - packaging
    assert list_folders(main) == {*rooms, f"frameworkbarrier-{VERSION}.dist-info"}
    assert list_folders(local) == {"localcluster", f"frameworkbarrier_local-{VERSION}.dist-info"}
    packed = {name for name in ZipFile(local).namelist() if name.startswith("localcluster/")}
    assert packed == expected - {"localcluster/requirements.in"}


def test_local_cluster_requires_this_version_and_alone_requires_its_packages(
    wheels: dict[str, Path],
) -> None:
    main = read_requirements(wheels["frameworkbarrier"], "frameworkbarrier")
    local = read_requirements(wheels["frameworkbarrier_local"], "frameworkbarrier_local")
    own = set(local) - {f"frameworkbarrier=={VERSION}"}
    assert "frameworkbarrier-local; extra == 'local'" in main
    assert f"frameworkbarrier=={VERSION}" in local
    assert own
    assert own.isdisjoint(main)


def test_every_module_of_the_command_line_but_those_in_local_imports_without_it(
    without_local: dict[str, Any],
) -> None:
    assert "cli.running.run" in without_local["modules"]
    assert "localcluster" not in without_local["modules"]


@pytest.mark.parametrize("command", WITHOUT_LOCAL)
def test_command_that_needs_no_local_cluster_works_without_it(
    without_local: dict[str, Any], command: str
) -> None:
    exit_code, stdout, stderr = without_local["results"][command]
    expected_code, text = WITHOUT_LOCAL[command]
    assert exit_code == expected_code, stderr
    assert text in stdout + stderr


@pytest.mark.parametrize("command", WITH_LOCAL)
def test_command_that_needs_the_local_cluster_says_what_to_install(
    without_local: dict[str, Any], command: str
) -> None:
    exit_code, _, stderr = without_local["results"][command]
    assert (exit_code, stderr) == (2, MESSAGE)
