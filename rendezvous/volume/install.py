"""``install``: writes the agent into the volume, for images without it: a zipapp and a site folder.

The code in them needs Python 3.7 and its standard library only. The same sources give the same
bytes.
"""

import io
import os
from typing import Dict, Iterator, Tuple

from framework.agent.files import write_atomically
from framework.api.images import INSTALLED_AGENT, RSH_SCRIPT
from framework.version import VERSION

AGENT_DIRECTORY = os.path.dirname(INSTALLED_AGENT)
SITE_DIRECTORY = AGENT_DIRECTORY + "/site"
# The folder that is on the PYTHONPATH of training code: the package ``peers``, and modules and
# folders beside it. Their names must hide no module of the training code.
_SITE_SOURCES = "rendezvous/site"
# torchrun finds its rendezvous handler by this metadata, as after an installation by pip.
SITE_METADATA = {
    "METADATA": f"Metadata-Version: 2.1\nName: frameworkbarrier-peers\nVersion: {VERSION}\n",
    "entry_points.txt": "[torchrun.handlers]\nframework = peers.torchrun:get_handler\n",
}
_METADATA_DIRECTORY = f"{SITE_DIRECTORY}/frameworkbarrier_peers-{VERSION}.dist-info"
_FILES = (
    "framework/__init__.py",
    "framework/version.py",
    "framework/api/__init__.py",
    "framework/api/constants.py",
    "framework/api/epochreports.py",
    "framework/api/gangreadiness.py",
    "framework/api/images.py",
    "framework/api/naming.py",
    "framework/api/packed.py",
    "framework/api/roster.py",
    "framework/api/rostervalues.py",
    "framework/api/scalerequest.py",
    "framework/api/text.py",
    "framework/api/trainingprogress.py",
)
_FOLDERS = ("framework/agent", "rendezvous")
_MAIN = b"from rendezvous.app import main\n\nmain()\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_BEST_COMPRESSION = 9
_READABLE = 0o444
_EXECUTABLE = 0o555
# It takes the arguments of ssh: mpirun calls it (OMPI_MCA_plm_rsh_agent), or a link named `ssh`. It
# ignores the options of ssh.
_RSH_SCRIPT = b"""#!/bin/sh
while :; do
  case $1 in
    -[BbcDEeFIiJLlmOopQRSWw]) shift 2 || exit 255 ;;
    -*) shift ;;
    *) break ;;
  esac
done
host=${1##*@}
shift
exec python3 "$(dirname "$(readlink -f "$0")")/rendezvous.pyz" rsh "$host" -- "$@"
"""


def install(directory: str) -> None:
    """Put zipapp and site folder into a volume.

    Raises:
        OSError: The volume cannot be written.
    """
    sources = dict(read_sources())
    files = {f"{_METADATA_DIRECTORY}/{name}": text.encode() for name, text in SITE_METADATA.items()}
    for name, source in sources.items():
        if name.startswith(_SITE_SOURCES + "/") and name != _SITE_SOURCES + "/__init__.py":
            files[SITE_DIRECTORY + name[len(_SITE_SOURCES) :]] = source
    # Sorted, so that each folder comes before the folders inside it.
    for folder in sorted({AGENT_DIRECTORY, SITE_DIRECTORY, *map(os.path.dirname, files)}):
        os.makedirs(os.path.join(directory, folder), exist_ok=True)
        os.chmod(os.path.join(directory, folder), 0o755)  # noqa: S103  (independent of the umask)
    for name, content in files.items():
        write_atomically(os.path.join(directory, name), content, _READABLE)
    write_atomically(os.path.join(directory, RSH_SCRIPT), _RSH_SCRIPT, _EXECUTABLE)
    # The zipapp comes last: if it exists, all other files do.
    write_atomically(os.path.join(directory, INSTALLED_AGENT), build_zipapp(sources), _READABLE)


def build_zipapp(sources: Dict[str, bytes]) -> bytes:
    """Build the zipapp of these files."""
    import zipfile  # loads pathlib and urllib, which the other commands do not need

    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, content in sorted({**sources, "__main__.py": _MAIN}.items()):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = _READABLE << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, content, compresslevel=_BEST_COMPRESSION)
    return archive.getvalue()


def read_sources() -> Iterator[Tuple[str, bytes]]:
    """Read the files of the zipapp from where this program is: a source folder or a zipapp."""
    root = os.path.abspath(__file__)
    for _ in __name__.split("."):
        root = os.path.dirname(root)
    if os.path.isfile(root):
        import zipfile

        with zipfile.ZipFile(root) as archive:
            for name in archive.namelist():
                if name != "__main__.py":
                    yield name, archive.read(name)
        return
    names = list(_FILES)
    for folder in _FOLDERS:
        for path, folders, files in os.walk(os.path.join(root, folder)):
            folders[:] = sorted(f for f in folders if f != "__pycache__")
            relative = os.path.relpath(path, root)
            names += [os.path.join(relative, n) for n in sorted(files) if n.endswith(".py")]
    for name in names:
        with open(os.path.join(root, name), "rb") as source:
            yield name, source.read()


def find_directory(path: str) -> str:
    """Find the volume that contains the zipapp ``path``; "" if it is in no volume."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    if os.path.isfile(root) and root.endswith("/" + INSTALLED_AGENT):
        return root[: -len("/" + INSTALLED_AGENT)] or "/"
    return ""
