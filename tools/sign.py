"""Publishes the built images to a registry and signs them: called by ``make sign``.

For each image of ``make images``: push its archive, then sign its digest, attest its bill of
materials (CycloneDX) and its provenance (SLSA) with cosign. Then write the folder of the release:
both documents of each image, ``install.yaml`` and a kustomize component that name the images by
digest, the wheels and sdists of this version that ``make dist`` left in dist, and
``SHA256SUMS`` of all these files with its signature. Needs crane and cosign (3 or newer) on the
PATH. docs/release.md describes how a user verifies all of it.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from framework.api.images import IMAGE_PREFIX, REGISTRY
from framework.version import VERSION
from tools.distributions import DIST, list_file_names
from tools.imagearchive import ImageArchive
from tools.images import NAMES, OUTPUT
from tools.manifests import render_install
from tools.provenance import Build, ProvenanceError, build_predicate, hash_file

RELEASE = DIST / "release"
BUILDER_ID = "urn:frameworkbarrier:builder:manual"
COMPONENT = Path("images") / "kustomization.yaml"
SUMS = "SHA256SUMS"
SIGNATURE = f"{SUMS}.sigstore.json"


class SignError(Exception):
    """A release cannot be signed; the message has the reason."""


@dataclass(frozen=True)
class Signer:
    """cosign with one key.

    Attributes:
        key: the private key's file, or a URI of a key management service.
        services: options that choose where signatures are logged.
    """

    key: str
    services: Sequence[str]

    def sign_image(self, image: str) -> None:
        """Sign an image, named by digest."""
        self._cosign("sign", image)

    def attest_image(self, image: str, kind: str, predicate: Path) -> None:
        """Attach a signed statement about an image, named by digest."""
        self._cosign("attest", f"--type={kind}", f"--predicate={predicate}", image)

    def sign_file(self, path: Path, bundle: Path) -> None:
        """Sign a file; the bundle gets the data for the verification."""
        self._cosign("sign-blob", f"--bundle={bundle}", str(path))

    def _cosign(self, verb: str, *arguments: str) -> None:
        _run(["cosign", verb, "--yes", f"--key={self.key}", *self.services, *arguments])


def main(arguments: Sequence[str]) -> int:
    """Push and sign a release; return the exit code."""
    parser = argparse.ArgumentParser(prog="make sign", description=__doc__)
    parser.add_argument("--registry", required=True, help="where the images go: HOST/TEAM")
    parser.add_argument("--key", required=True, help="cosign's private key, or a URI of a KMS")
    parser.add_argument("--no-log", action="store_true", help="use no public transparency log")
    parser.add_argument("--source", default="", help="URI of the source: git+https://...")
    parser.add_argument("--builder", default=BUILDER_ID, help=f"URI of the builder ({BUILDER_ID})")
    parser.add_argument("--images", type=Path, default=OUTPUT, help=f"archives ({OUTPUT})")
    parser.add_argument("--dist", type=Path, default=DIST, help=f"wheels and sdists ({DIST})")
    parser.add_argument("--output", type=Path, default=RELEASE, help=f"the release ({RELEASE})")
    options = parser.parse_args(arguments)
    try:
        with choose_services(is_logged=not options.no_log) as services:
            release(options, Signer(options.key, services))
    except (SignError, ProvenanceError) as e:
        print(f"make sign: {e}", file=sys.stderr)
        return 1
    print(f"signed: {options.output}")
    return 0


@contextmanager
def choose_services(*, is_logged: bool) -> Iterator[Sequence[str]]:
    """Yield the options of cosign: its default, which logs in public, or no service at all."""
    if is_logged:
        yield ()
        return
    with tempfile.TemporaryDirectory() as folder:
        config, root = f"{folder}/signing-config.json", f"{folder}/trusted-root.json"
        _run(["cosign", "signing-config", "create", f"--out={config}"])
        _run(["cosign", "trusted-root", "create", f"--out={root}"])
        yield (f"--signing-config={config}", f"--trusted-root={root}")


def release(options: argparse.Namespace, signer: Signer) -> None:
    """Push and sign the images, then write and sign the folder of the release.

    Raises:
        SignError: cosign or crane failed, or an archive is missing.
        ProvenanceError: an image does not have its origin.
    """
    missing = [path for name in NAMES if not (path := get_archive(options.images, name)).exists()]
    if missing:
        raise SignError(f"no {missing[0]}: run `make images`")
    shutil.rmtree(options.output, ignore_errors=True)
    options.output.mkdir(parents=True)
    digests: dict[str, str] = {}
    for name in NAMES:
        sbom, provenance = _write_documents(options, name)
        repository = f"{options.registry}/{IMAGE_PREFIX}{name}"
        digest = push(get_archive(options.images, name), f"{repository}:{VERSION}")
        image = f"{repository}@{digest}"
        signer.sign_image(image)
        signer.attest_image(image, "cyclonedx", sbom)
        signer.attest_image(image, "slsaprovenance1", provenance)
        print(image, flush=True)
        digests[IMAGE_PREFIX + name] = digest
    _write_manifests(options.output, options.registry, digests)
    copy_packages(options.dist, options.output)
    (options.output / SUMS).write_text(render_sums(options.output), encoding="utf-8")
    signer.sign_file(options.output / SUMS, options.output / SIGNATURE)


def copy_packages(dist: Path, output: Path) -> None:
    """Copy wheels and sdists of this version; print the others, which are left out.

    The folder of `make dist` may contain files of earlier versions.
    """
    names = set(list_file_names())
    for path in sorted([*dist.glob("*.whl"), *dist.glob("*.tar.gz")]):
        if path.name in names:
            shutil.copy(path, output)
        else:
            print(f"{path} is not of version {VERSION}: left out", flush=True)


def get_archive(folder: Path, name: str) -> Path:
    """Return the path of the archive that `make images` wrote."""
    return folder / f"{IMAGE_PREFIX}{name}.tar"


def push(archive: Path, reference: str) -> str:
    """Push an image to its registry; return its digest there."""
    pushed = _run(["crane", "push", str(archive), reference])
    return pushed.strip().rpartition("@")[2]


def render_component(registry: str, digests: Mapping[str, str]) -> str:
    """Render the kustomize component that names the images by digest."""
    component = {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "images": [
            {"name": f"{REGISTRY}/{name}", "newName": f"{registry}/{name}", "digest": digest}
            for name, digest in sorted(digests.items())
        ],
    }
    text: str = yaml.safe_dump(component, sort_keys=False)
    return text


def render_pinned(text: str, registry: str, digests: Mapping[str, str]) -> str:
    """Render a manifest with the images of the release by digest."""
    names = "|".join(map(re.escape, digests))
    pattern = re.compile(rf"(image: ){re.escape(REGISTRY)}/({names})(:[^\s,}}]+)?(?=[\s,}}])")
    return pattern.sub(lambda m: f"{m[1]}{registry}/{m[2]}@{digests[m[2]]}", text)


def render_sums(folder: Path) -> str:
    """Render the hashes of all files of a folder in the form of sha256sum."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return "".join(f"{hash_file(path)}  {path.relative_to(folder)}\n" for path in paths)


def _write_documents(options: argparse.Namespace, name: str) -> tuple[Path, Path]:
    """Write an image's bill of materials and provenance into the release."""
    sbom = options.output / f"{IMAGE_PREFIX}{name}.cdx.json"
    shutil.copy(options.images / sbom.name, sbom)
    build = Build(
        name=name,
        image=ImageArchive(get_archive(options.images, name)),
        base=ImageArchive(options.images / "base.tar"),
        sbom=sbom,
        lock_file=Path("images") / name / "requirements.txt",
        source_uri=options.source,
        builder_id=options.builder,
    )
    provenance = options.output / f"{IMAGE_PREFIX}{name}.provenance.json"
    provenance.write_text(json.dumps(build_predicate(build), indent=2) + "\n", encoding="utf-8")
    return sbom, provenance


def _write_manifests(output: Path, registry: str, digests: Mapping[str, str]) -> None:
    install = render_pinned(render_install(), registry, digests)
    (output / "install.yaml").write_text(install, encoding="utf-8")
    (output / COMPONENT).parent.mkdir()
    (output / COMPONENT).write_text(render_component(registry, digests), encoding="utf-8")


def _run(command: Sequence[str]) -> str:
    """Run a program; return its output. It may ask for the key's password on the terminal."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    except FileNotFoundError as e:
        raise SignError(f"{command[0]} is not on the PATH: docs/release.md says which") from e
    if done.returncode != 0:
        raise SignError(f"{' '.join(command[:2])} failed with exit code {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
