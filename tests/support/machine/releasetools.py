"""The programs and images that the tests of a release need: cosign, crane, and our three images.

Usage::

    python -m tests.support.machine.releasetools run -- COMMAND ...

It finds or builds cosign and crane (in the cache of ``servers.binaries``), builds the
images (in the cache of ``nodeimages``), and runs the command with both programs on
its PATH and the images' folder in its environment.
"""

import os
import sys

from tests.support.machine.nodeimages import find_cache, install_image_tools, prepare_our_images
from tests.support.machine.prerequisites import MissingPrerequisiteError, report_missing
from tests.support.servers.binaries import BuildError, find_programs
from tests.support.servers.controlplane import run_to_end

PROGRAMS = ("cosign", "crane")
IMAGES_ENV = "FRAMEWORKBARRIER_RELEASE_IMAGES"


def run(command: list[str]) -> int:
    try:
        install_image_tools()
        programs = find_programs(os.environ, PROGRAMS, build=True)
        prepare_our_images()
    except MissingPrerequisiteError as e:
        return report_missing(e)
    except BuildError as e:
        print(f"no cosign: {e}", file=sys.stderr)
        return 1
    folders = [*{str(path.parent) for path in programs.values()}, os.environ["PATH"]]
    env = {"PATH": os.pathsep.join(folders), IMAGES_ENV: str(find_cache())}
    return run_to_end(command, {**os.environ, **env})


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1:3] != ["run", "--"]:
        sys.exit("usage: python -m tests.support.machine.releasetools run -- COMMAND ...")
    sys.exit(run(sys.argv[3:]))
