"""Signatures of `make sign` are verified with cosign as in docs/release.md; changed files are not.

The images are those of `make images`; the registry is one on loopback.
"""

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.release.conftest import BUILDER, SOURCE, Release, run
from tests.skips import DOES_NOT_APPLY
from tools import sign
from tools.images import NAMES, build_images, choose_tool
from tools.provenance import hash_file

pytestmark = pytest.mark.release

OFFLINE = "--insecure-ignore-tlog"
KINDS = {
    "cyclonedx": ("cdx", "https://cyclonedx.org/bom"),
    "slsaprovenance1": ("provenance", "https://slsa.dev/provenance/v1"),
}


def verify(release: Release, image: str, key: Path | None = None) -> int:
    key = key or release.public_key
    return run("cosign", "verify", f"--key={key}", OFFLINE, image).returncode


def read_statements(release: Release, image: str, kind: str) -> list[dict[str, Any]]:
    """Verify the statements of a kind about an image; give those that our key has signed."""
    options = [f"--key={release.public_key}", OFFLINE, f"--type={kind}"]
    done = run("cosign", "verify-attestation", *options, image)
    assert done.returncode == 0, done.stderr
    envelopes = [json.loads(line) for line in done.stdout.splitlines()]
    return [json.loads(base64.b64decode(envelope["payload"])) for envelope in envelopes]


def read_digest(image: str) -> str:
    done = run("crane", "digest", image)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("name", NAMES)
def test_image_is_verified_with_the_key_of_the_release_and_no_other(
    name: str, release: Release
) -> None:
    image = release.name_image(name)
    assert verify(release, image) == 0
    assert verify(release, image, release.other_key.with_suffix(".pub")) != 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_documents_of_an_image_are_attested_to_its_digest(
    name: str, kind: str, release: Release
) -> None:
    image = release.name_image(name)
    suffix, predicate_type = KINDS[kind]
    (statement,) = read_statements(release, image, kind)
    document = release.folder / f"framework-{name}.{suffix}.json"
    assert statement["predicateType"] == predicate_type
    assert statement["predicate"] == json.loads(document.read_text())
    digests = [f"sha256:{subject['digest']['sha256']}" for subject in statement["subject"]]
    assert digests == [read_digest(image)]


def test_provenance_names_source_base_wheels_and_bill_of_materials(release: Release) -> None:
    (statement,) = read_statements(release, release.name_image("barrier"), "slsaprovenance1")
    source, base, *wheels = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source["uri"] == SOURCE
    assert len(source["digest"]["gitCommit"]) == 40
    assert len(base["digest"]["sha256"]) == 64
    assert [wheel["uri"].partition("@")[0] for wheel in wheels] == ["pkg:pypi/pyyaml"]
    details = statement["predicate"]["runDetails"]
    assert details["builder"] == {"id": BUILDER}
    sbom = release.folder / "framework-barrier.cdx.json"
    assert details["byproducts"][0]["digest"] == {"sha256": hash_file(sbom)}


def test_image_that_was_changed_in_the_registry_is_not_verified(release: Release) -> None:
    tampered = release.name_image("barrier").replace(":0", ":tampered-0")
    done = run("crane", "mutate", release.name_image("barrier"), "--label=x=y", f"--tag={tampered}")
    assert done.returncode == 0, done.stderr
    assert verify(release, tampered) != 0


def test_bill_of_materials_of_another_key_is_not_taken_for_ours(
    release: Release, tmp_path: Path
) -> None:
    name = release.name_image("rendezvous")
    image = f"{name.rpartition(':')[0]}@{read_digest(name)}"
    forged = tmp_path / "forged.json"
    forged.write_text('{"bomFormat": "CycloneDX", "specVersion": "1.6", "components": []}')
    with sign.choose_services(is_logged=False) as services:
        signer = sign.Signer(str(release.other_key), services)
        signer.attest_image(image, "cyclonedx", forged)
    (statement,) = read_statements(release, image, "cyclonedx")
    ours = release.folder / "framework-rendezvous.cdx.json"
    assert statement["predicate"] == json.loads(ours.read_text())


def verify_sums(release: Release, folder: Path) -> int:
    """Verify the signature of the hashes, then the files, as in docs/release.md."""
    bundle = f"--bundle={folder / sign.SIGNATURE}"
    command = ["cosign", "verify-blob", f"--key={release.public_key}", OFFLINE, bundle]
    if run(*command, str(folder / sign.SUMS)).returncode != 0:
        return 1
    check = ["sha256sum", "--quiet", "--check", sign.SUMS]
    return subprocess.run(check, cwd=folder, capture_output=True, check=False).returncode


def test_files_of_the_release_are_verified_by_the_signed_hashes(release: Release) -> None:
    listed = {line.split()[1] for line in (release.folder / sign.SUMS).read_text().splitlines()}
    documents = {f"framework-{name}.{end}.json" for name in NAMES for end in ("cdx", "provenance")}
    assert verify_sums(release, release.folder) == 0
    assert listed == {
        *documents,
        "frameworkbarrier-0.1.0-py3-none-any.whl",
        "frameworkbarrier-0.1.0.tar.gz",
        "frameworkbarrier_local-0.1.0-py3-none-any.whl",
        "frameworkbarrier_local-0.1.0.tar.gz",
        "images/kustomization.yaml",
        "install.yaml",
    }


@pytest.mark.parametrize("is_hash_changed_too", [False, True])
def test_bill_of_materials_that_was_changed_is_not_verified(
    is_hash_changed_too: bool,  # noqa: FBT001 a case of the test
    release: Release,
    tmp_path: Path,
) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", release.folder, copy], check=True)
    sbom = copy / "framework-barrier.cdx.json"
    sbom.write_text(sbom.read_text().replace("pyyaml", "pyyarn"))
    if is_hash_changed_too:
        signature = (copy / sign.SIGNATURE).read_bytes()
        (copy / sign.SIGNATURE).unlink()
        (copy / sign.SUMS).unlink()
        (copy / sign.SUMS).write_text(sign.render_sums(copy))
        (copy / sign.SIGNATURE).write_bytes(signature)
    assert verify_sums(release, copy) != 0


def find_images(text: str) -> list[str]:
    """List the images of the workloads in a manifest."""
    bodies = [body for body in yaml.safe_load_all(text) if body["kind"] == "Deployment"]
    specs = [body["spec"]["template"]["spec"] for body in bodies]
    return [container["image"] for spec in specs for container in spec["containers"]]


def test_manifests_of_the_release_name_the_controller_by_the_digest_that_was_signed(
    release: Release, tmp_path: Path
) -> None:
    name = release.name_image("controller")
    expected = f"{name.rpartition(':')[0]}@{read_digest(name)}"
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    root = Path(__file__).parent.parent.parent
    subprocess.run(["cp", "-r", root / "deploy" / "base", tmp_path / "base"], check=True)
    subprocess.run(["cp", "-r", release.folder / "images", tmp_path / "images"], check=True)
    (overlay / "kustomization.yaml").write_text("resources: [../base]\ncomponents: [../images]\n")
    assert find_images((release.folder / "install.yaml").read_text()) == [expected]
    done = run("kubectl", "kustomize", str(overlay))
    assert done.returncode == 0, done.stderr
    assert find_images(done.stdout) == [expected]


def test_images_takes_a_base_by_digest_from_a_registry(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = choose_tool(os.environ)
    if tool.name == "docker":
        pytest.skip(f"{DOES_NOT_APPLY}docker has registries in the configuration of its daemon")
    config = tmp_path / "registries.conf"
    host = release.registry.partition("/")[0]
    config.write_text(f'[[registry]]\nlocation = "{host}"\ninsecure = true\n')
    monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(config))
    tag = f"{release.registry}/python:3.13.15"
    digest = sign.push(release.images / "base.tar", tag)
    build_images(tool, output=tmp_path, base=f"{tag}@{digest}", names=())
    assert (tmp_path / "base.tar").exists()
