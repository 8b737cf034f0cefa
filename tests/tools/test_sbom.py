"""The bill of materials lists the content of the image, is CycloneDX 1.6, and is reproducible."""

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


PATCHLEVEL = b'#define PY_MAJOR_VERSION 3\n#define PY_VERSION             "3.13.15"\n'


def list_interpreters(path: Path, layer: dict[str, bytes]) -> list[tuple[str, str, str]]:
    bom = json.loads(render(path, [*LAYERS, layer]))
    return [
        (item["purl"], item["type"], item["cpe"])
        for item in bom["components"]
        if item["name"] == "python"
    ]


def test_sbom_lists_an_interpreter_without_a_package(tmp_path: Path) -> None:
    header = "usr/local/include/python3.13/patchlevel.h"
    layer = {"usr/local/bin/python3.13": b"elf", header: PATCHLEVEL}
    assert list_interpreters(tmp_path / "a.tar", layer) == [
        ("pkg:generic/python@3.13.15", "platform", "cpe:2.3:a:python:python:3.13.15:*:*:*:*:*:*:*")
    ]


def test_sbom_lists_an_interpreter_without_headers_by_its_name(tmp_path: Path) -> None:
    ((purl, _, _),) = list_interpreters(tmp_path / "a.tar", {"usr/local/bin/python3.14": b"elf"})
    assert purl == "pkg:generic/python@3.14"


def test_sbom_of_debians_python_lists_it_by_its_package_alone(tmp_path: Path) -> None:
    assert list_interpreters(tmp_path / "a.tar", {"usr/bin/python3.11": b"elf"}) == []


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
