"""A release of the real images, signed with a key of this run, in a registry on loopback."""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from framework.api.images import IMAGE_PREFIX
from framework.version import VERSION
from tests.support.machine.releasetools import IMAGES_ENV
from tests.support.servers.childprocess import ChildProcess
from tests.support.waiting import wait_until
from tools import sign
from tools.distributions import list_file_names

BUILDER = "https://ci.example.org/builder"
SOURCE = "git+https://example.org/team/frameworkbarrier"


@dataclass(frozen=True)
class Release:
    """The output of `make sign`."""

    registry: str
    """Host and team that the images were pushed to."""
    folder: Path
    public_key: Path
    other_key: Path
    """A private key that is not the release's, with its public key beside it."""
    images: Path
    """The folder of the archives."""

    def name_image(self, name: str) -> str:
        """Return an image's name with its tag."""
        return f"{self.registry}/{IMAGE_PREFIX}{name}:{VERSION}"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An empty registry; `127.0.0.1:PORT`."""
    folder = tmp_path_factory.mktemp("registry")
    command = ["crane", "registry", "serve", "--address=127.0.0.1:0", f"--disk={folder}"]
    server = ChildProcess("registry", command, log=folder / "registry.log")

    def find_address() -> str:
        server.raise_if_ended()
        found = re.search(r"serving on port (\d+)$", server.tail(), re.MULTILINE)
        return f"127.0.0.1:{found[1]}" if found else ""

    try:
        address = wait_until(find_address, server.tail)
        wait_until(lambda: run("crane", "catalog", address).returncode == 0, server.tail)
        yield address
    finally:
        server.kill()


def create_key(folder: Path) -> Path:
    """Create a key pair without a password; give the private key."""
    prefix = folder / "cosign"
    folder.mkdir()
    done = run("cosign", "generate-key-pair", f"--output-key-prefix={prefix}")
    assert done.returncode == 0, done.stderr
    return prefix.with_suffix(".key")


@pytest.fixture(scope="session")
def release(registry: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """The images, signed without any service but the registry."""
    if IMAGES_ENV not in os.environ:
        pytest.skip("no images: run these tests with `make test-release`")
    folder = tmp_path_factory.mktemp("release")
    dist = folder / "dist"
    dist.mkdir()
    for name in list_file_names():
        (dist / name).write_bytes(name.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COSIGN_PASSWORD", "")
        key, other_key = create_key(folder / "key"), create_key(folder / "other")
        images = Path(os.environ[IMAGES_ENV])
        options = {"registry": f"{registry}/team", "key": key, "source": SOURCE, "builder": BUILDER}
        options |= {"images": images, "dist": dist, "output": folder / "release"}
        arguments = [f"--{name}={value}" for name, value in options.items()]
        assert sign.main(["--no-log", *arguments]) == 0
        public_key = key.with_suffix(".pub")
        yield Release(f"{registry}/team", folder / "release", public_key, other_key, images)
