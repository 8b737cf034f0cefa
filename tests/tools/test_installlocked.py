"""Lock files are installed unchanged, even if the package index has newer versions."""

import base64
import hashlib
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def write_wheel(folder: Path, name: str, version: str, *metadata: str) -> str:
    """Write a wheel without files; return its line of a lock file."""
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    lines = ("Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *metadata)
    files = {
        f"{info}/METADATA": "\n".join(lines) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{path},{_digest(content)},{len(content)}\n" for path, content in files.items()
    )
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return f"{name}=={version} --hash=sha256:{digest}\n"


def _digest(content: str) -> str:
    raw = hashlib.sha256(content.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@pytest.mark.slow
def test_installlocked_with_a_newer_release_of_a_package_with_an_extra_installs_the_locked_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    extra = "Provides-Extra: toml"
    locked = write_wheel(wheels, "fbbase", "1.0", extra)
    locked += write_wheel(wheels, "fbplugin", "1.0", "Requires-Dist: fbbase[toml]>=1.0")
    write_wheel(wheels, "fbbase", "1.1", extra)
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(locked)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    venv.create(tmp_path / "environment", with_pip=True)
    python = tmp_path / "environment" / "bin" / "python"
    subprocess.run(["sh", ROOT / "tools/installlocked", python, requirements], check=True)
    installed = subprocess.run(
        [python, "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True, check=True
    ).stdout
    assert {"fbbase==1.0", "fbplugin==1.0"} <= set(installed.split())
