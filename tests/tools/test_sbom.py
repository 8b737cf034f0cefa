"""The bill of materials tells what is in the image, is CycloneDX 1.6, and is reproducible."""

import json
import uuid
from pathlib import Path
from typing import Any

from tests.tools.archives import DPKG_STATUS, build_metadata, write_archive
from tools.imagearchive import ImageArchive
from tools.sbom import render_sbom

SITE = "opt/app/PyYAML-6.0.3.dist-info/METADATA"
LAYERS = [{"var/lib/dpkg/status": DPKG_STATUS}, {SITE: build_metadata("PyYAML", "6.0.3")}]


def render(path: Path, layers: list[dict[str, bytes]]) -> str:
    return render_sbom("framework-barrier", "1.2.3", ImageArchive(write_archive(path, layers)))


def test_sbom_lists_packages_of_debian_and_python_once_each(tmp_path: Path) -> None:
    bom = json.loads(render(tmp_path / "a.tar", LAYERS))

    assert [item["purl"] for item in bom["components"]] == [
        "pkg:deb/debian/base-files@12.4%2Bdeb12u5",
        "pkg:deb/debian/libc6@2.36-9",
        "pkg:pypi/pyyaml@6.0.3",
    ]
    assert bom["metadata"]["component"]["name"] == "framework-barrier"
    assert bom["metadata"]["component"]["version"] == "1.2.3"


def test_sbom_has_what_cyclonedx_1_6_requires(tmp_path: Path) -> None:
    bom: dict[str, Any] = json.loads(render(tmp_path / "a.tar", LAYERS))

    assert (bom["bomFormat"], bom["specVersion"], bom["version"]) == ("CycloneDX", "1.6", 1)
    assert bom["$schema"] == "http://cyclonedx.org/schema/bom-1.6.schema.json"
    assert uuid.UUID(bom["serialNumber"].removeprefix("urn:uuid:")).version == 5
    described = [bom["metadata"]["component"], *bom["components"]]
    assert all({"type", "name", "version", "bom-ref"} <= item.keys() for item in described)
    refs = [item["bom-ref"] for item in described]
    assert len(refs) == len(set(refs))
    depends = {item["ref"]: item.get("dependsOn", []) for item in bom["dependencies"]}
    assert depends["framework-barrier"] == refs[1:]
    assert depends.keys() == set(refs)


def test_sbom_of_equal_images_is_equal_and_of_others_is_not(tmp_path: Path) -> None:
    other = [LAYERS[0], {SITE: build_metadata("PyYAML", "6.0.4")}]

    first, second = (render(tmp_path / name, LAYERS) for name in ("a.tar", "b.tar"))
    third = render(tmp_path / "c.tar", other)

    assert first == second
    assert json.loads(first)["serialNumber"] != json.loads(third)["serialNumber"]
