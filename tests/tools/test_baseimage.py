"""The base of the images is named by digest, in one file."""

import re
from pathlib import Path

import pytest

from framework.api.images import IMAGE_PREFIX, REGISTRY
from framework.version import VERSION
from tools import baseimage, images, manifests
from tools.baseimage import BaseError, fetch_digest, is_pinned, read_base

ROOT = Path(__file__).parent.parent.parent
DIGEST = "sha256:" + "5" * 64
FAKE_CRANE = """\
#!/bin/sh
if [ "$*" = "digest registry.example/python:3.13" ]; then echo {digest}
else echo "MANIFEST_UNKNOWN" >&2; exit 1; fi
"""
# Images of examples that stand for the user's own training image, and are not ours to pin.
EXAMPLES_PLACEHOLDERS = {
    "busybox",
    "deepspeed/deepspeed:latest",
    "frameworkcontroller/frameworkbarrier",  # the original's, as its own example has it
    "python:3.12-slim",
    "pytorch/pytorch:latest",
    "tensorflow/tensorflow:2.21.0",
    "ubuntu:24.04",
}
_IMAGE_FIELD = re.compile(r"^[^#\n]*\bimage: *([^\s,}]+)", re.MULTILINE)
_FROM = re.compile(r"^FROM (?:--\S+ )*(\S+)", re.MULTILINE)


@pytest.fixture
def base_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A base file for the test, and a registry with one tag."""
    path = tmp_path / "base"
    path.write_text("registry.example/python:3.13@sha256:old\n")
    crane = tmp_path / "bin" / "crane"
    crane.parent.mkdir()
    crane.write_text(FAKE_CRANE.format(digest=DIGEST))
    crane.chmod(0o755)
    monkeypatch.setenv("PATH", f"{crane.parent}:/bin:/usr/bin")
    monkeypatch.setattr(baseimage, "BASE_FILE", path)
    return path


def test_base_has_a_fixed_tag_and_a_digest() -> None:
    assert re.fullmatch(
        r"docker\.io/library/python:3\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", read_base()
    )


def test_dockerfiles_start_from_the_base_and_nothing_else() -> None:
    dockerfiles = sorted(ROOT.glob("images/**/Dockerfile*"))
    assert len(dockerfiles) == 3
    for path in dockerfiles:
        text = path.read_text(encoding="utf-8")
        assert f"\nARG BASE_IMAGE={read_base()}\n" in text
        assert set(_FROM.findall(text)) == {"${BASE_IMAGE}"}
        assert 'org.opencontainers.image.base.name="${BASE_IMAGE}"' in text
        assert manifests.render_dockerfile(path) == text


def list_images(*patterns: str) -> set[str]:
    paths = [path for pattern in patterns for path in ROOT.glob(pattern)]
    assert paths
    return {name for path in paths for name in _IMAGE_FIELD.findall(path.read_text("utf-8"))}


def test_manifests_name_our_images_of_this_version_and_no_other() -> None:
    ours = re.compile(rf"{REGISTRY}/{IMAGE_PREFIX}[a-z]+:{re.escape(VERSION)}")
    found = list_images("deploy/**/*.yaml", "deploy/**/*.md")
    assert found
    # `example/`: a training image in a page of documentation.
    others = [name for name in found if not name.startswith("example/")]
    assert [name for name in others if not ours.fullmatch(name)] == []


def test_examples_name_only_our_images_and_placeholders() -> None:
    others = {
        name
        for name in list_images("examples/**/*.yaml")
        if not name.startswith((f"{REGISTRY}/{IMAGE_PREFIX}", "your/"))
    }
    assert others <= EXAMPLES_PLACEHOLDERS


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (f"python:3.13@{DIGEST}", True),
        (f"python@{DIGEST}", True),
        # An image of this machine.
        ("localhost/frameworkbarrier-base:bookworm", True),
        ("python:3.13.15-slim-trixie", False),
        ("python@sha256:abc", False),
        ("python", False),
    ],
)
def test_is_pinned_holds_for_digests_and_images_of_this_machine(
    image: str, *, expected: bool
) -> None:
    assert is_pinned(image) is expected


def test_base_digest_writes_the_digest_of_the_registry(base_file: Path) -> None:
    assert baseimage.main([]) == 0
    assert base_file.read_text() == f"registry.example/python:3.13@{DIGEST}\n"


def test_base_digest_of_an_unknown_tag_changes_nothing(
    base_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = base_file.read_text()
    assert baseimage.main(["registry.example/python:4"]) == 1
    assert base_file.read_text() == before
    assert "MANIFEST_UNKNOWN" in capsys.readouterr().err


def test_fetch_digest_without_a_program_names_the_programs(
    base_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(base_file.parent))
    with pytest.raises(BaseError, match="install one of crane, skopeo, docker"):
        fetch_digest("python:3.13")


def test_images_refuses_a_base_without_a_digest(capsys: pytest.CaptureFixture[str]) -> None:
    assert images.main(["--base", "registry.example/python:3.13-slim"]) == 1
    error = capsys.readouterr().err
    assert "registry.example/python:3.13-slim may change while its name does not" in error
    assert "--allow-tag" in error


def test_images_with_allow_tag_takes_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bases: list[str | None] = []

    def build(_tool: object, *, base: str | None, **_: object) -> dict[str, Path]:
        bases.append(base)
        return {}

    monkeypatch.setattr(images, "build_images", build)
    monkeypatch.setenv("CONTAINER_TOOL", "none")
    assert images.main(["--base", "python:3.13", "--allow-tag"]) == 0
    assert images.main(["--base", f"python@{DIGEST}"]) == 0
    assert bases == ["python:3.13", f"python@{DIGEST}"]
