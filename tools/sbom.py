"""Renders the bill of materials of an image, in CycloneDX 1.6 JSON.

Called by ``tools.images``. It tells what the image really holds: the packages of Debian's dpkg, and
the Python distributions by their metadata. Equal images give equal text: the serial number is
derived from the contents, and no time is kept.
"""

import uuid
from collections.abc import Iterable, Mapping
from email.parser import BytesHeaderParser

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

from tools.imagearchive import ImageArchive

_DPKG_STATUS = "var/lib/dpkg/status"
_DPKG_STATUS_FOLDER = "var/lib/dpkg/status.d/"
_NAMESPACE = uuid.UUID("5b1f3a0e-54c1-4f0e-9d8e-0a4a9f9b2b6e")


def render_sbom(name: str, version: str, archive: ImageArchive) -> str:
    """Render what this image consists of."""
    files = archive.read_files(_is_metadata)
    components = sorted(
        [*_list_debian(files), *_list_python(files)], key=lambda component: str(component.purl)
    )
    bom = Bom(components=components)
    image_component = Component(
        name=name,
        version=version,
        type=ComponentType.CONTAINER,
        licenses=[DisjunctiveLicense(id="MIT")],
        bom_ref=name,
    )
    bom.metadata.component = image_component
    bom.register_dependency(image_component, components)
    bom.serial_number = uuid.uuid5(
        _NAMESPACE, "\n".join([name, version, *(str(item.purl) for item in components)])
    )
    # The library stamps the hour; an SBOM of equal bytes is worth more.
    bom.metadata.timestamp = None  # type: ignore[assignment]  # its type forbids that
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)


def _is_metadata(path: str) -> bool:
    return (
        path == _DPKG_STATUS
        or path.startswith(_DPKG_STATUS_FOLDER)
        or path.endswith(".dist-info/METADATA")
    )


def _list_debian(files: Mapping[str, bytes]) -> Iterable[Component]:
    for path, content in files.items():
        if path != _DPKG_STATUS and not path.startswith(_DPKG_STATUS_FOLDER):
            continue
        for paragraph in content.split(b"\n\n"):
            fields = BytesHeaderParser().parsebytes(paragraph)
            if fields["Package"] and fields["Version"]:
                yield _build_component(
                    PackageURL("deb", "debian", fields["Package"], fields["Version"])
                )


def _list_python(files: Mapping[str, bytes]) -> Iterable[Component]:
    for path, content in files.items():
        if path.endswith(".dist-info/METADATA"):
            fields = BytesHeaderParser().parsebytes(content)
            name = fields["Name"].lower().replace("_", "-")
            yield _build_component(PackageURL("pypi", None, name, fields["Version"]))


def _build_component(purl: PackageURL) -> Component:
    return Component(
        name=purl.name,
        version=purl.version,
        type=ComponentType.LIBRARY,
        purl=purl,
        bom_ref=purl.to_string(),
    )
