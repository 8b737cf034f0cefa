"""The PyTorch job of README.md, as a user pastes it."""

import re
from pathlib import Path

from tests.docs.commands import read_blocks, read_page

# What torchrun reads, in the place of torchrun. As torchrun, it does not end before all nodes have
# joined: a node that has succeeded is no longer a member.
_STUB = """\
#!/bin/sh
test -f "$1" || exit 3
echo "torchrun $1: node $PET_NODE_RANK of $PET_NNODES, $PET_NPROC_PER_NODE processes"
touch "joined-$PET_NODE_RANK"
until [ -e joined-0 ] && [ -e joined-1 ]; do sleep 0.02; done
"""


def read_pasted() -> str:
    """Read the block, which needs the programs of .venv on the PATH."""
    (block,) = [block for _, block in read_blocks("README.md") if "<<'END'" in block]
    return block


def read_sample() -> str:
    """Read the sample of the demo's output."""
    found = re.search(r"^```\n(\[ps/0\].*?)^```$", read_page("README.md"), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def write_stub(path: Path) -> None:
    """Write a program in the place of torchrun, which prints what torchrun would read."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(_STUB)
    path.chmod(0o755)
