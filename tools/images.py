"""Builds the three images with docker, podman or buildah, the first that is installed.

Called by ``make images`` and by tests/node. The Dockerfiles are complete without this program. It
adds a base made of Debian packages if no image registry is reachable, an archive and a bill of
materials per image in dist/images, and the sizes.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from framework.api.images import IMAGE_PREFIX, REGISTRY
from framework.version import VERSION
from tools.baseimage import is_pinned, read_base
from tools.imagearchive import ImageArchive
from tools.sbom import render_sbom

NAMES = ("controller", "barrier", "rendezvous")
LOCAL_BASE = "localhost/frameworkbarrier-base"
# Packages in the default base that Debian's smallest Python lacks.
OFFLINE_PACKAGES = ("python3-minimal", "libpython3-stdlib", "ca-certificates")
WHEELS = Path("build/wheels")
OUTPUT = Path("dist/images")


class ImageError(Exception):
    """An image cannot be built here; the message has the remedy."""


@dataclass(frozen=True)
class Tool:
    """A program that builds images, with the differences of its commands."""

    name: str

    def build(
        self, options: Sequence[str], timestamp: int, folder: Path, *, is_fresh: bool = False
    ) -> list[str]:
        """Compose the command that builds with `options` in this folder.

        A fresh build uses no layer of an earlier one.
        """
        options = [*(["--no-cache"] if is_fresh else []), *options]
        if self.name == "docker":
            return [
                *("docker", "build", "--quiet", f"--build-arg=SOURCE_DATE_EPOCH={timestamp}"),
                *(*options, str(folder)),
            ]
        verb = "bud" if self.name == "buildah" else "build"
        # chroot needs no daemon, and no more rights than the caller has.
        isolation = ["--isolation=chroot"] if self.name == "buildah" else []
        return [
            *(self.name, verb, "--quiet", *isolation, f"--timestamp={timestamp}"),
            *(f"--build-arg=SOURCE_DATE_EPOCH={timestamp}", *options, str(folder)),
        ]

    def pull(self, image: str) -> list[str]:
        """Compose the command that fetches an image."""
        return [self.name, "pull", "--quiet", image]

    def tag(self, image: str, name: str) -> list[str]:
        """Compose the command that gives an image a further name."""
        return [self.name, "tag", image, name]

    def save(self, image: str, archive: Path) -> list[str]:
        """Compose the command that writes an image into a docker archive."""
        if self.name == "buildah":
            return ["buildah", "push", "--quiet", image, f"docker-archive:{archive}:{image}"]
        return [self.name, "save", "--output", str(archive), image]


def main(arguments: Sequence[str]) -> int:
    """Build, save, describe and measure the images; return the exit code."""
    parser = argparse.ArgumentParser(prog="make images", description=__doc__)
    parser.add_argument("--base", help="base image (that of images/base, else Debian packages)")
    parser.add_argument(
        "--allow-tag", action="store_true", help="accept a --base that is not named by digest"
    )
    parser.add_argument("--tag", default=VERSION, help=f"tag of the images ({VERSION})")
    parser.add_argument("--only", choices=NAMES, action="append", help="build this one only")
    parser.add_argument("--offline", action="store_true", help="contact no image registry")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"folder ({OUTPUT})")
    options = parser.parse_args(arguments)
    try:
        if options.base and not (options.allow_tag or options.offline or is_pinned(options.base)):
            raise ImageError(
                f"--base: {options.base} may change while its name does not: add its digest "
                "(NAME@sha256:...), or give --allow-tag"
            )
        build_images(
            choose_tool(os.environ),
            base=options.base,
            offline=options.offline,
            tag=options.tag,
            names=options.only or NAMES,
            output=options.output,
        )
    except ImageError as e:
        print(f"make images: {e}", file=sys.stderr)
        return 1
    return 0


def choose_tool(env: Mapping[str, str]) -> Tool:
    """Choose $CONTAINER_TOOL, else the first tool that is installed and works.

    Raises:
        ImageError: there is none.
    """
    if env.get("CONTAINER_TOOL"):
        return Tool(Path(env["CONTAINER_TOOL"]).name)
    for name in ("docker", "podman", "buildah"):
        if shutil.which(name) and _is_working([name, "info"]):
            return Tool(name)
    raise ImageError(
        "no docker, podman or buildah that works: install one "
        "(Debian, Ubuntu: apt install buildah), or name it in CONTAINER_TOOL"
    )


def build_images(
    tool: Tool,
    *,
    output: Path,
    base: str | None = None,
    offline: bool = False,
    tag: str = VERSION,
    names: Sequence[str] = NAMES,
    is_fresh: bool = False,
) -> dict[str, Path]:
    """Build the named images; return their archives by their full names.

    Raises:
        ImageError: no base is available here, or a build failed.
    """
    output.mkdir(parents=True, exist_ok=True)
    with _prepare_base(tool, base, offline=offline) as base_image:
        base_archive = _save_base(tool, base_image, output / "base.tar")
        base_bytes = ImageArchive(base_archive).read_size()
        print(f"{'base ' + base_image:<58}{_megabytes(base_bytes):>8.1f} MB", flush=True)
        archives = {}
        for name in names:
            program = IMAGE_PREFIX + name
            image = f"{REGISTRY}/{program}:{tag}"
            _build_one(tool, name, image, base_image, is_fresh=is_fresh)
            archive = _save(tool, image, output / f"{program}.tar")
            contents = ImageArchive(archive)
            sbom = render_sbom(program, VERSION, contents)
            (output / f"{program}.cdx.json").write_text(sbom, encoding="utf-8")
            size = contents.read_size()
            added = _megabytes(size - base_bytes)
            print(f"{image:<58}{_megabytes(size):>8.1f} MB  base + {added:.1f} MB", flush=True)
            archives[image] = archive
    print(f"archives and bills of materials: {output}", flush=True)
    return archives


def _build_one(tool: Tool, name: str, image: str, base: str, *, is_fresh: bool) -> None:
    options = [
        f"--file=images/{name}/Dockerfile",
        f"--build-arg=BASE_IMAGE={base}",
        f"--build-arg=VERSION={VERSION}",
        f"--build-arg=REVISION={_git('rev-parse', 'HEAD') or 'unknown'}",
        f"--tag={image}",
    ]
    _run(tool.build(options, _read_commit_time(), Path(), is_fresh=is_fresh))


@contextmanager
def _prepare_base(tool: Tool, base: str | None, *, offline: bool) -> Iterator[str]:
    """Yield the base image; if none can be fetched, a base of Debian packages, and wheels."""
    shutil.rmtree(WHEELS, ignore_errors=True)
    wanted = base or read_base()
    if not offline and _is_working(tool.pull(wanted)):
        yield wanted
        return
    if base is not None and not offline:
        raise ImageError(f"--base: {base} cannot be pulled with {tool.name}")
    if base is None:
        print(f"{wanted} cannot be pulled: building a base of Debian packages", flush=True)
        wanted, python = _build_offline_base(tool)
    else:
        python = _read_python_version(tool, base)
    try:
        _download_wheels(python)
        yield wanted
    finally:
        # The next build may have another Python.
        shutil.rmtree(WHEELS, ignore_errors=True)


def _build_offline_base(tool: Tool) -> tuple[str, str]:
    """Build a base with debootstrap, cached outside the tree; return it and its Python."""
    release = platform.freedesktop_os_release()
    suite = release.get("VERSION_CODENAME", "")
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        raise ImageError(
            "no image registry can be reached, and a base of Debian packages needs root and "
            "debootstrap (apt install debootstrap); or name a local image: "
            "make images ARGS='--offline --base IMAGE'"
        )
    cache = _find_cache()
    cache.mkdir(parents=True, exist_ok=True)
    rootfs = cache / f"{suite}.tar"
    if not rootfs.exists():
        _bootstrap(suite, rootfs)
    python = _read_rootfs_python(rootfs)
    image = f"{LOCAL_BASE}:{suite}-python{python}"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "Dockerfile").write_text(
            f"FROM scratch\nADD {rootfs.name} /\n"
            "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8\n"
            'CMD ["python3"]\n'
        )
        shutil.copyfile(rootfs, Path(folder) / rootfs.name)
        _run(tool.build([f"--tag={image}"], 0, Path(folder)))
    return image, python


def _bootstrap(suite: str, rootfs: Path) -> None:
    print(f"debootstrap {suite} (half a minute, once)", flush=True)
    with tempfile.TemporaryDirectory(dir=rootfs.parent) as folder:
        root = Path(folder) / "rootfs"
        include = ",".join(OFFLINE_PACKAGES)
        options = ["--variant=minbase", f"--include={include}"]
        _run(["debootstrap", *options, suite, str(root), *_read_mirror()])
        for waste in ("var/cache/apt/archives", "var/lib/apt/lists", "var/log"):
            shutil.rmtree(root / waste, ignore_errors=True)
        partial = Path(folder) / "rootfs.tar"
        excluded = [f"--exclude=./{name}/*" for name in ("dev", "proc", "sys")]
        _run(["tar", "-C", str(root), *excluded, "--sort=name", "-cf", str(partial), "."])
        partial.rename(rootfs)


def _read_mirror() -> list[str]:
    """Read the mirror that apt uses here; without one, debootstrap uses its default."""
    sources = Path("/etc/apt/sources.list.d/debian.sources")
    if sources.exists():
        for line in sources.read_text(encoding="utf-8").splitlines():
            if line.startswith("URIs:"):
                return [line.split()[1]]
    return []


def _read_rootfs_python(rootfs: Path) -> str:
    """Read ``3.11`` from the name of the interpreter in a root file system."""
    for name in _read(["tar", "-tf", str(rootfs)]).splitlines():
        stem, _, version = name.rpartition("/python")
        if stem == "./usr/bin" and version.startswith("3.") and version[2:].isdigit():
            return version
    raise ImageError(f"{rootfs} holds no python3: remove it, so that it is built again")


def _read_python_version(tool: Tool, base: str) -> str:
    """Ask a base that the user named for its version of Python."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    if tool.name != "buildah":
        return _read([tool.name, "run", "--rm", base, "python3", "-c", program])
    container = _read(["buildah", "from", base])
    try:
        run = ["buildah", "run", "--isolation=chroot", container, "--"]
        return _read([*run, "python3", "-c", program])
    finally:
        _run(["buildah", "rm", container])


def _download_wheels(python: str) -> None:
    """Download the locked wheels for this Python, and pip, to the folder of the Dockerfiles."""
    machine = platform.machine()
    levels = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014", "linux")
    target = [
        f"--python-version={python}",
        "--implementation=cp",
        *(f"--abi={abi}" for abi in (f"cp{python.replace('.', '')}", "abi3", "none")),
        *(f"--platform={level}_{machine}" for level in levels),
        "--only-binary=:all:",
        f"--dest={WHEELS}",
    ]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    # The files list each package; tools/installlocked explains why pip must not resolve.
    pip += ["--no-deps", *target]
    for name in NAMES:
        _run([*pip, "--require-hashes", "-r", f"images/{name}/requirements.txt"])
    _run([*pip, "pip"])


def _save_base(tool: Tool, image: str, archive: Path) -> Path:
    """Save the base under a name without its digest, which an archive cannot store."""
    name, _, digest = image.partition("@sha256:")
    if not digest:
        return _save(tool, name, archive)
    local_name = f"{LOCAL_BASE}:{digest[:12]}"
    _run(tool.tag(image, local_name))
    return _save(tool, local_name, archive)


def _save(tool: Tool, image: str, archive: Path) -> Path:
    archive.unlink(missing_ok=True)
    _run(tool.save(image, archive))
    return archive


def _read_commit_time() -> int:
    """Read the time of the last commit, which all files in the images have."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct") or 0)


def _find_cache() -> Path:
    named = os.environ.get("FRAMEWORKBARRIER_IMAGE_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "frameworkbarrier" / "images"


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _megabytes(size: int) -> float:
    return size / 1_000_000


def _is_working(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _read(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ImageError(f"{' '.join(command[:3])} failed:\n{done.stderr[-2000:]}")
    return done.stdout.strip()


def _run(command: Sequence[str]) -> None:
    _read([str(word) for word in command])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
