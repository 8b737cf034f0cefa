"""Finds or builds programs in Go, of a control plane, of a node, and for signing a release.

In this order: the folder $KUBEBUILDER_ASSETS, the cache ($FRAMEWORKBARRIER_CACHE or
~/.cache/frameworkbarrier/kube), a build from Go modules into the cache. It writes nothing into the
tree.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.machine.prerequisites import MissingPrerequisiteError

KUBERNETES_VERSION = "1.34.4"
ETCD_VERSION = "3.6.16"
COREDNS_VERSION = "1.15.0"
COSIGN_VERSION = "3.1.3"
CRANE_VERSION = "0.22.1"
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
NODE = ("kube-scheduler", "kubelet", "kube-proxy", "coredns")
# Main packages of modules of their own; every other program is a command of k8s.io/kubernetes.
MODULES = {
    "etcd": f"go.etcd.io/etcd/server/v3@v{ETCD_VERSION}",
    "coredns": f"github.com/coredns/coredns@v{COREDNS_VERSION}",
    "cosign": f"github.com/sigstore/cosign/v3/cmd/cosign@v{COSIGN_VERSION}",
    "crane": f"github.com/google/go-containerregistry/cmd/crane@v{CRANE_VERSION}",
}
KUBERNETES_COMMANDS = tuple(name for name in (*CONTROL_PLANE, *NODE) if name not in MODULES)
ASSETS_ENV = "KUBEBUILDER_ASSETS"
CACHE_ENV = "FRAMEWORKBARRIER_CACHE"
KUBECTL_ENV = "FRAMEWORKBARRIER_KUBECTL"
BUILD_TIMEOUT_SECONDS = 1800


class BuildError(Exception):
    """Go failed; the message has the end of its output."""


@dataclass(frozen=True)
class Binaries:
    """Paths of the programs."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kubectl: Path


def find_binaries(env: Mapping[str, str], *, build: bool) -> Binaries:
    """Find the four programs of a control plane, or build those that are missing.

    Raises:
        MissingPrerequisiteError: some are missing and may not or cannot be built here.
        BuildError: the build failed.
    """
    paths = find_programs(env, CONTROL_PLANE, build=build)
    return Binaries(**{name.replace("-", "_"): path for name, path in paths.items()})


def find_programs(env: Mapping[str, str], names: Sequence[str], *, build: bool) -> dict[str, Path]:
    """Find the programs of these names, or build those that are missing: name -> path.

    Raises:
        MissingPrerequisiteError: some are missing and may not or cannot be built here.
        BuildError: the build failed.
    """
    cache = find_cache(env)
    folders = [cache / "bin"]
    if env.get(ASSETS_ENV):
        folders.insert(0, Path(env[ASSETS_ENV]))
    missing = [name for name in names if _find(name, folders) is None]
    if missing:
        _require_build(missing, build=build)
        with _lock(cache):
            _build(cache, [name for name in missing if _find(name, folders) is None])
    found = {name: _find(name, folders) for name in names}
    return {name: path for name, path in found.items() if path is not None}


def find_kubectl() -> str | None:
    """Find kubectl: in $FRAMEWORKBARRIER_KUBECTL, in the cache of the tests, on the PATH."""
    named = os.environ.get(KUBECTL_ENV)
    if named:
        return named
    try:
        return str(find_programs(os.environ, ["kubectl"], build=False)["kubectl"])
    except MissingPrerequisiteError:
        return shutil.which("kubectl")


def find_cache(env: Mapping[str, str]) -> Path:
    """Return the folder outside the tree for built programs."""
    if env.get(CACHE_ENV):
        return Path(env[CACHE_ENV])
    return Path.home() / ".cache" / "frameworkbarrier" / "kube"


def _find(name: str, folders: list[Path]) -> Path | None:
    for folder in folders:
        path = folder / name
        if os.access(path, os.X_OK):
            return path
    return None


def _require_build(missing: list[str], *, build: bool) -> None:
    names = ", ".join(missing)
    if not build:
        raise MissingPrerequisiteError(f"{names} not built yet: run make test-kube, which does it")
    if shutil.which("go") is None:
        raise MissingPrerequisiteError(
            f"{names} not found: install Go >= 1.24 (go.dev/dl) to build them, "
            f"or set {ASSETS_ENV} to a folder that has them"
        )


@contextmanager
def _lock(cache: Path) -> Iterator[None]:
    """Lock the cache, so that one build at a time writes into it."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(cache: Path, missing: list[str]) -> None:
    kubernetes = [name for name in missing if name in KUBERNETES_COMMANDS]
    if kubernetes:
        print(f"building {', '.join(kubernetes)} {KUBERNETES_VERSION} (minutes, once)", flush=True)
        _build_kubernetes(cache, kubernetes)
    for name in missing:
        if name in MODULES:
            print(f"building {name} (half a minute to five, once)", flush=True)
            _build_module(cache, name)


def _build_kubernetes(cache: Path, commands: list[str]) -> None:
    """Build from a new go.mod.

    The go.mod of the module refers to folders beside it, which the module proxy does not serve:
    each is replaced by the published module of the same release.
    """
    source = cache / "src" / f"kubernetes-{KUBERNETES_VERSION}"
    imports = (
        "//go:build tools\n\npackage tools\n\nimport (\n"
        + "".join(f'\t_ "k8s.io/kubernetes/cmd/{name}"\n' for name in KUBERNETES_COMMANDS)
        + ")\n"
    )
    tools = source / "tools.go"
    sums = source / "go.sum"
    # Also after a command was added here: go.sum lacks the modules of a new command.
    if not sums.exists() or tools.read_text() != imports:
        sums.unlink(missing_ok=True)
        _write_kubernetes_module(source)
        tools.write_text(imports)
        _go(source, "mod", "tidy")
    flags = " ".join(
        f"-X k8s.io/{module}/version.gitVersion=v{KUBERNETES_VERSION}"
        for module in ("component-base", "client-go/pkg")
    )
    packages = [f"k8s.io/kubernetes/cmd/{name}" for name in commands]
    _go_build(cache, source, f"-s -w {flags}", packages)


def _write_kubernetes_module(source: Path) -> None:
    source.mkdir(parents=True, exist_ok=True)
    (source / "go.mod").write_text(
        "module example.invalid/kubernetes\n\ngo 1.24\n\n"
        f"require k8s.io/kubernetes v{KUBERNETES_VERSION}\n"
    )
    answer = _go(source, "mod", "download", "-json", f"k8s.io/kubernetes@v{KUBERNETES_VERSION}")
    upstream = Path(json.loads(answer)["GoMod"]).read_text()
    with (source / "go.mod").open("a") as mod:
        mod.write(render_replacements(upstream))


def _build_module(cache: Path, name: str) -> None:
    """Build a program from its main package and a new go.mod."""
    package, _, version = MODULES[name].partition("@v")
    source = cache / "src" / f"{name}-{version}"
    if not (source / "go.sum").exists():
        source.mkdir(parents=True, exist_ok=True)
        (source / "go.mod").write_text(f"module example.invalid/{name}\n\ngo 1.24\n")
        _go(source, "get", MODULES[name])
    _go_build(cache, source, "-s -w", [package], name=name)


def render_replacements(upstream_go_mod: str) -> str:
    """Render one replace line for each module that upstream keeps in its staging folder."""
    staged = re.findall(r"^\s*(k8s\.io/[a-z0-9-]+) => \./staging", upstream_go_mod, re.MULTILINE)
    minor = KUBERNETES_VERSION.removeprefix("1.")
    lines = "".join(f"\t{name} => {name} v0.{minor}\n" for name in sorted(set(staged)))
    return f"\nreplace (\n{lines})\n"


def _go_build(
    cache: Path, source: Path, flags: str, packages: list[str], *, name: str | None = None
) -> None:
    binaries = cache / "bin"
    binaries.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        output = Path(folder) / name if name else f"{folder}/"
        _go(source, "build", "-trimpath", "-ldflags", flags, "-o", str(output), *packages)
        for built in Path(folder).iterdir():
            built.rename(binaries / built.name)


def _go(source: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["go", *arguments],
            cwd=source,
            env={**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "auto", "GOFLAGS": ""},
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise BuildError(f"go {arguments[0]}: {e}") from e
    if done.returncode != 0:
        raise BuildError(f"go {' '.join(arguments[:2])} failed:\n{done.stderr[-2000:]}")
    return done.stdout
