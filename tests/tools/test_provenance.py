"""The provenance statement of an image names source, base and wheels, or is refused."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.tools.archives import write_archive
from tools.imagearchive import ImageArchive
from tools.provenance import (
    BUILD_TYPE,
    WHEEL_LIST,
    Build,
    ProvenanceError,
    build_predicate,
    hash_file,
)

COMMIT = "c" * 40
BASE_DIGEST = "b" * 64
BASE = f"docker.io/library/python:3.13.15-slim-trixie@sha256:{BASE_DIGEST}"
WHEEL = "a" * 64
LABELS = {
    "org.opencontainers.image.version": "1.2.3",
    "org.opencontainers.image.revision": COMMIT,
    "org.opencontainers.image.base.name": BASE,
}
WHEELS = f"{WHEEL}  google_re2-1.1-cp313-cp313-manylinux_2_28_x86_64.whl\n".encode()


def describe(
    folder: Path, labels: Mapping[str, str] = LABELS, wheels: bytes | None = WHEELS
) -> dict[str, Any]:
    layer = {} if wheels is None else {WHEEL_LIST: wheels}
    (folder / "image.cdx.json").write_text("{}")
    (folder / "requirements.txt").write_text(f"google-re2==1.1 \\\n    --hash=sha256:{WHEEL}\n")
    image = write_archive(folder / "image.tar", [{"etc/name": b""}, layer], labels)
    return build_predicate(
        Build(
            name="barrier",
            image=ImageArchive(image),
            base=ImageArchive(write_archive(folder / "base.tar", [{"etc/name": b""}])),
            sbom=folder / "image.cdx.json",
            lock_file=folder / "requirements.txt",
            source_uri="git+https://example.org/team/frameworkbarrier",
            builder_id="https://ci.example.org/builder",
        )
    )


def test_predicate_names_source_base_and_wheels_with_their_digests(tmp_path: Path) -> None:
    predicate = describe(tmp_path)

    definition = predicate["buildDefinition"]
    assert definition["buildType"] == BUILD_TYPE
    expected = {"image": "framework-barrier", "version": "1.2.3", "base": BASE}
    assert definition["externalParameters"] == expected
    dependencies = [
        ("source", "git+https://example.org/team/frameworkbarrier", {"gitCommit": COMMIT}),
        (
            "base",
            "docker://docker.io/library/python:3.13.15-slim-trixie",
            {"sha256": BASE_DIGEST},
        ),
        (
            "google_re2-1.1-cp313-cp313-manylinux_2_28_x86_64.whl",
            "pkg:pypi/google-re2@1.1",
            {"sha256": WHEEL},
        ),
    ]
    assert definition["resolvedDependencies"] == [
        {"name": name, "uri": uri, "digest": digest} for name, uri, digest in dependencies
    ]
    assert predicate["runDetails"] == {
        "builder": {"id": "https://ci.example.org/builder"},
        "byproducts": [
            {"name": "image.cdx.json", "digest": {"sha256": hash_file(tmp_path / "image.cdx.json")}}
        ],
    }


def test_predicate_of_equal_images_is_equal(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    first, second = (json.dumps(describe(folder)) for folder in folders)
    assert first == second


def test_predicate_of_a_local_base_has_the_digest_of_its_config(tmp_path: Path) -> None:
    local = {**LABELS, "org.opencontainers.image.base.name": "localhost/base:bookworm"}
    base = describe(tmp_path, local)["buildDefinition"]["resolvedDependencies"][1]
    assert base["uri"] == "docker://localhost/base:bookworm"
    assert base["digest"] == {"sha256": ImageArchive(tmp_path / "base.tar").read_id()}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"org.opencontainers.image.revision": "unknown"}, "revision is 'unknown', not a commit"),
        ({"org.opencontainers.image.base.name": ""}, "no label base.name"),
    ],
)
def test_predicate_of_an_image_that_does_not_say_its_origin_is_refused(
    changed: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ProvenanceError, match=message):
        describe(tmp_path, {**LABELS, **changed})


def test_predicate_of_a_wheel_that_is_not_locked_is_refused(tmp_path: Path) -> None:
    foreign = WHEELS.replace(b"a", b"d")
    with pytest.raises(ProvenanceError, match=r"is not in .*requirements\.txt"):
        describe(tmp_path, wheels=foreign)


def test_predicate_of_an_image_without_a_list_of_wheels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProvenanceError, match=f"no {WHEEL_LIST}"):
        describe(tmp_path, wheels=None)
