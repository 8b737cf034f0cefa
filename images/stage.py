"""Writes the files that an image adds to its base, in the build stage of each Dockerfile.

usage: python3 images/stage.py NAME ROOT

Called in the root of a checkout; standard library only, because the base has nothing else. Writes
``ROOT/opt/frameworkbarrier`` (locked packages, the paths in ``images/NAME/contents.toml``, a
``__main__.py`` to run them, all byte-compiled; and ``wheels.sha256``, which lists the packages'
wheels with their hashes, for the provenance statement) and ``ROOT/usr/local/bin/framework-NAME``.
Wheels in ``build/wheels`` are used instead of an index. Equal input gives equal bytes, because no
time is stored.
"""

import compileall
import json
import os
import py_compile
import shutil
import stat
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_HOME = Path("/opt/frameworkbarrier")
_WHEELS = Path("build/wheels")
_WHEEL_LIST = "wheels.sha256"
_LAUNCHER = """\
#!/usr/bin/env -S python3 -IuB
import runpy
import sys

sys.path.insert(0, "{home}")
sys.argv[0] = "framework-{program}"
runpy.run_module("{program}", run_name="__main__", alter_sys=False)
"""
_MAIN = """\
import runpy

runpy.run_module("{program}", run_name="__main__", alter_sys=False)
"""
_EPOCH_SECONDS = int(os.environ.get("SOURCE_DATE_EPOCH") or "0")


def main(arguments: list[str]) -> None:
    """Stage the image NAME in the folder ROOT."""
    try:
        name, folder_name = arguments
    except ValueError:
        sys.exit("usage: python3 images/stage.py NAME ROOT")
    root = Path(folder_name)
    folder = Path("images") / name
    contents = tomllib.loads((folder / "contents.toml").read_text(encoding="utf-8"))
    home = root / _HOME.relative_to("/")
    home.mkdir(parents=True)
    _install_locked(folder / "requirements.txt", home)
    for path in ["LICENSE", *contents["paths"]]:
        _copy_path(Path(path), home / path)
    (home / "__main__.py").write_text(_MAIN.format(program=contents["program"]))
    _compile(home, root)
    _write_launcher(root, contents["program"])
    _open_to_all(root)
    _forget_times(root)


def _install_locked(requirements: Path, home: Path) -> None:
    """Install with pip; for a base without pip, it is one of the wheels."""
    environment = dict(os.environ)
    # The file lists each package; tools/installlocked explains why pip must not resolve.
    options = ["--no-compile", "--require-hashes", "--no-deps", "--only-binary=:all:"]
    options += ["--no-cache-dir"]
    if any(_WHEELS.glob("*.whl")):
        options += ["--no-index", f"--find-links={_WHEELS}"]
        environment["PYTHONPATH"] = os.pathsep.join(map(str, sorted(_WHEELS.glob("pip-*.whl"))))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options += ["--root-user-action=ignore", f"--report={report}", f"--target={home}"]
        subprocess.run([*command, *options, "-r", requirements], check=True, env=environment)
        wheels = _render_wheel_list(json.loads(report.read_text(encoding="utf-8")))
    (home / _WHEEL_LIST).write_text(wheels, encoding="utf-8")
    # The console scripts of the packages: their first line has the Python of this stage.
    shutil.rmtree(home / "bin", ignore_errors=True)


def _render_wheel_list(report: dict[str, Any]) -> str:
    """Render pip's report of an installation in the form of sha256sum."""
    lines = []
    for item in report["install"]:
        source = item["download_info"]
        name = unquote(urlsplit(source["url"]).path.rpartition("/")[2])
        lines.append(f"{source['archive_info']['hashes']['sha256']}  {name}\n")
    return "".join(sorted(lines, key=lambda line: line.split()[1]))


def _copy_path(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(source, target)


def _compile(home: Path, root: Path) -> None:
    """Compile for this Python, without checks at run time, because the image never changes."""
    compiled = compileall.compile_dir(
        home,
        quiet=1,
        stripdir=str(root),
        prependdir="/",
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    if not compiled:
        sys.exit("images/stage.py: a file does not compile: see above")


def _write_launcher(root: Path, program: str) -> None:
    """Write the console script on the PATH, for Pods that set `command`."""
    launcher = root / "usr/local/bin" / f"framework-{program}"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(_LAUNCHER.format(home=_HOME, program=program))
    launcher.chmod(0o755)


def _open_to_all(root: Path) -> None:
    """Let the image's user read all files, for any umask of the checkout."""
    for path in [root, *root.rglob("*")]:
        is_program = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
        path.chmod(0o755 if is_program else 0o644)


def _forget_times(root: Path) -> None:
    for path in [root, *root.rglob("*")]:
        os.utime(path, (_EPOCH_SECONDS, _EPOCH_SECONDS), follow_symlinks=False)


if __name__ == "__main__":
    main(sys.argv[1:])
