"""Install the training stacks the consumer tests run, outside the checkout.

``python -m tests.consumers.install STACK...`` (without a name: lists them). A Python stack gets a
virtual environment of its own under ``$FRAMEWORKBARRIER_CACHE``, else
``~/.cache/frameworkbarrier``; it is built anew when its recipe changes. Debian packages are
installed by apt-get, as root, else the command is printed.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path

CACHE_ENV = "FRAMEWORKBARRIER_CACHE"
_STAMP = "recipe.sha256"


@dataclass(frozen=True)
class PythonStack:
    """What pip installs into a virtual environment, step by step."""

    steps: tuple[tuple[str, ...], ...]
    size: str
    env: dict[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Tell recipes apart."""
        text = repr((self.steps, sorted(self.env.items()), sys.version_info[:2]))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class DebianStack:
    """What apt-get installs, and the program by which one sees that it is there."""

    packages: tuple[str, ...]
    program: str
    size: str


STACKS: dict[str, PythonStack | DebianStack] = {
    # Its official switch for the parsers and the driver without native code. pip must not cache
    # that wheel: a later native install would silently take it.
    "horovod": PythonStack(
        (("--no-cache-dir", "setuptools<70", "wheel"), ("--no-cache-dir", "horovod==0.28.1")),
        "36 MB",
        {"HOROVOD_SKIP_COMPILE": "1"},
    ),
    "torch": PythonStack(
        (("torch==2.15.0", "numpy"), ("deepspeed==0.19.8", "setuptools")), "5.5 GB"
    ),
    "tensorflow": PythonStack((("tensorflow-cpu==2.21.0",),), "1.6 GB"),
    "jax": PythonStack((("jax==0.10.2",),), "0.6 GB"),
    "dotenv": PythonStack((("python-dotenv==1.1.1",),), "15 MB"),
    "openmpi": DebianStack(("openmpi-bin",), "mpirun.openmpi", "100 MB"),
    "mpich": DebianStack(("mpich",), "mpiexec.hydra", "100 MB"),
    "sshd": DebianStack(("openssh-server",), "sshd", "5 MB"),
    "busybox": DebianStack(("busybox",), "busybox", "1 MB"),
}


def get_directory(stack: str) -> Path:
    """Say where a stack's virtual environment is."""
    cache = os.environ.get(CACHE_ENV)
    root = Path(cache) if cache else Path.home() / ".cache" / "frameworkbarrier"
    return root / "consumers" / stack


def find_python(stack: str) -> Path | None:
    """Find the Python that has a stack; None if it is not installed, or by another recipe."""
    recipe = STACKS[stack]
    assert isinstance(recipe, PythonStack)
    directory = get_directory(stack)
    stamp = directory / _STAMP
    if not stamp.exists() or stamp.read_text() != recipe.digest:
        return None
    return directory / "bin" / "python"


def explain_missing(stack: str) -> str:
    """Say in one line how to install a stack."""
    size = STACKS[stack].size
    return f"{stack} is not installed: python -m tests.consumers.install {stack} ({size})"


def install(stack: str) -> None:
    """Install a stack unless it is there."""
    recipe = STACKS[stack]
    if isinstance(recipe, DebianStack):
        _install_packages(recipe)
        return
    if find_python(stack) is not None:
        print(f"{stack}: already in {get_directory(stack)}")
        return
    directory = get_directory(stack)
    shutil.rmtree(directory, ignore_errors=True)
    venv.create(directory, with_pip=True)
    for step in recipe.steps:
        command = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", *step]
        # A package that is built here finds the requirements of the steps before.
        isolation = ["--no-build-isolation"] if recipe.env else []
        subprocess.run(command + isolation, env={**os.environ, **recipe.env}, check=True)
    (directory / _STAMP).write_text(recipe.digest)
    print(f"{stack}: installed in {directory}")


def _install_packages(recipe: DebianStack) -> None:
    if shutil.which(recipe.program):
        print(f"{recipe.program}: already installed")
        return
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *recipe.packages]
    if os.geteuid() != 0:
        print("as root: " + " ".join(command))
        return
    subprocess.run(command, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, check=True)


def main() -> int:
    """Install what is named, or list what can be."""
    unknown = [name for name in sys.argv[1:] if name not in STACKS]
    if unknown or not sys.argv[1:]:
        for name, recipe in STACKS.items():
            print(f"{name:12} {recipe.size}")
        return 2 if unknown else 0
    for name in sys.argv[1:]:
        install(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
