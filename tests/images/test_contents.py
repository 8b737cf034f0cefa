"""Each image holds all that its program needs, and nothing that it must not hold.

Looks at the sources only; make test-node builds and runs the images.
"""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.servers.frameworkcrd import ROOT

NAMES = ("barrier", "controller", "rendezvous")
IMPORT_ALL = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
for found in pkgutil.walk_packages([sys.argv[1]]):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def load_stage() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stage", ROOT / "images" / "stage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_contents(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / "images" / name / "contents.toml").read_text(encoding="utf-8"))


def import_contents(name: str, folder: Path, *options: str) -> set[str]:
    """Import every module of an image; return the top-level modules that came with them."""
    stage = load_stage()
    for path in load_contents(name)["paths"]:
        stage._copy_path(ROOT / path, folder / path)
    command = [sys.executable, "-I", *options, "-c", IMPORT_ALL, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("name", ["barrier", "rendezvous"])
def test_agents_import_only_the_standard_library_and_their_contents(
    name: str, tmp_path: Path
) -> None:
    # -S: nothing that is installed can be found.
    modules = import_contents(name, tmp_path, "-S")
    assert "aiohttp" not in modules
    assert name in modules


def test_controller_imports_what_its_lock_file_installs(tmp_path: Path) -> None:
    modules = import_contents("controller", tmp_path)
    locked = (ROOT / "images" / "controller" / "requirements.txt").read_text(encoding="utf-8")
    installed = {line.partition("==")[0] for line in locked.splitlines() if "==" in line}
    assert {"aiohttp", "cryptography", "msgspec", "uvloop"} <= installed
    # The local cluster and its packages are not in the image.
    assert not modules & {"rich", "dns", "localcluster", "cli", "barrier"}


@pytest.mark.parametrize("name", NAMES)
def test_image_has_neither_the_local_cluster_nor_the_packages_it_alone_needs(name: str) -> None:
    folder = ROOT / "images" / name
    required = (ROOT / "localcluster" / "requirements.in").read_text(encoding="utf-8")
    own = re.findall(r"^[a-z][\w-]*", required, re.MULTILINE)
    locked = (folder / "requirements.txt").read_text(encoding="utf-8")
    assert own
    assert [package for package in own if f"{package}==" in locked] == []
    assert not any(path.startswith("localcluster") for path in load_contents(name)["paths"])
    assert "localcluster" not in (folder / "Dockerfile").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_every_package_of_an_image_is_locked_by_hash(name: str) -> None:
    locked = (ROOT / "images" / name / "requirements.txt").read_text(encoding="utf-8")
    requirements = re.split(r"\n(?=\S)", locked.strip())
    assert requirements
    assert all("==" in item and "--hash=sha256:" in item for item in requirements)


@pytest.mark.parametrize("name", NAMES)
def test_dockerfile_runs_as_an_ordinary_user_without_a_shell(name: str) -> None:
    text = (ROOT / "images" / name / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"^USER 65532:65532$", text, re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["python3", "-IuB"', text, re.MULTILINE)
    assert not re.search(r"^(RUN|ENTRYPOINT|CMD) [^\[]", text, re.MULTILINE)


def test_stage_sets_all_times_to_0_so_that_equal_input_gives_equal_bytes(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "file"
    file.parent.mkdir()
    file.write_text("x")
    load_stage()._forget_times(tmp_path)
    assert {path.stat().st_mtime for path in (file, file.parent, tmp_path)} == {0.0}


def test_stage_lists_the_wheels_it_installed_with_their_hashes() -> None:
    urls = (
        "https://index.example/b/two-1.0%2Bx-py3-none-any.whl",
        "file:///wheels/one-2.0-py3.whl",
    )
    report = {
        "install": [
            {"download_info": {"url": url, "archive_info": {"hashes": {"sha256": f"{i}" * 64}}}}
            for i, url in enumerate(urls)
        ]
    }
    text = load_stage()._render_wheel_list(report)
    assert text == f"{'1' * 64}  one-2.0-py3.whl\n{'0' * 64}  two-1.0+x-py3-none-any.whl\n"


def test_stage_makes_files_of_the_owner_readable_for_the_user_of_the_image(tmp_path: Path) -> None:
    file, program = tmp_path / "folder" / "file", tmp_path / "folder" / "program"
    file.parent.mkdir()
    for path, mode in ((file, 0o600), (program, 0o700), (file.parent, 0o700)):
        path.touch()
        path.chmod(mode)
    load_stage()._open_to_all(tmp_path)
    modes = [path.stat().st_mode & 0o777 for path in (file, program, file.parent)]
    assert modes == [0o644, 0o755, 0o755]
