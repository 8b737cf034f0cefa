"""Renders the bill of materials of an image, in CycloneDX 1.6 JSON.

Called by ``tools.images``. It lists the contents of the image: the packages of Debian's dpkg, the
interpreters that are built from source in /usr/local, as in the python images of Docker, and the
Python distributions by their metadata. Equal images give equal text: the serial number is derived
from the contents, and no time is stored.
"""

import re
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
# A header of CPython, which an installation from source leaves there.
_PATCHLEVEL = re.compile(r"usr/local/include/python3\.\d+t?/patchlevel\.h")
_PY_VERSION = re.compile(rb'^#define\s+PY_VERSION\s+"([^"]+)"', re.MULTILINE)
_INTERPRETER = re.compile(r"usr/local/bin/python(3\.\d+)")
_NAMESPACE = uuid.UUID("5b1f3a0e-54c1-4f0e-9d8e-0a4a9f9b2b6e")


def render_sbom(name: str, version: str, archive: ImageArchive) -> str:
    """Render the contents of an image."""
    files = archive.read_files(_is_metadata)
    components = sorted(
        [*_list_debian(files), *_list_interpreters(files, archive), *_list_python(files)],
        key=lambda component: str(component.purl),
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
    # The library adds the time; equal images must have equal documents.
    bom.metadata.timestamp = None  # type: ignore[assignment]  # its type forbids that
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)


def _is_metadata(path: str) -> bool:
    return (
        path == _DPKG_STATUS
        or path.startswith(_DPKG_STATUS_FOLDER)
        or path.endswith(".dist-info/METADATA")
        or bool(_PATCHLEVEL.fullmatch(path))
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


def _list_interpreters(files: Mapping[str, bytes], archive: ImageArchive) -> Iterable[Component]:
    """List each CPython in /usr/local, which no package manager lists.

    The version is from its headers; without headers, from the name of its program.
    """
    exact = [
        match[1].decode()
        for path, content in files.items()
        if _PATCHLEVEL.fullmatch(path) and (match := _PY_VERSION.search(content))
    ]
    programs = [_INTERPRETER.fullmatch(path) for path in archive.list_sizes()]
    named = [match[1] for match in programs if match]
    series = {version.rpartition(".")[0] for version in exact}
    for version in sorted({*exact, *(name for name in named if name not in series)}):
        yield _build_component(
            PackageURL("generic", None, "python", version),
            kind=ComponentType.PLATFORM,
            cpe=f"cpe:2.3:a:python:python:{version}:*:*:*:*:*:*:*",
        )


def _list_python(files: Mapping[str, bytes]) -> Iterable[Component]:
    for path, content in files.items():
        if path.endswith(".dist-info/METADATA"):
            fields = BytesHeaderParser().parsebytes(content)
            name = fields["Name"].lower().replace("_", "-")
            yield _build_component(PackageURL("pypi", None, name, fields["Version"]))


def _build_component(
    purl: PackageURL, *, kind: ComponentType = ComponentType.LIBRARY, cpe: str | None = None
) -> Component:
    return Component(
        name=purl.name,
        version=purl.version,
        type=kind,
        purl=purl,
        cpe=cpe,
        bom_ref=purl.to_string(),
    )
