"""The kept inputs: one folder for each target."""

from pathlib import Path

from tests.fuzz.budget import Target

CORPUS = Path(__file__).with_name("corpus")


def list_corpus(target: str) -> list[Path]:
    """List the files of the kept inputs of a target."""
    return sorted(path for path in (CORPUS / target).glob("*") if path.is_file())


def list_inputs(target: Target) -> list[bytes]:
    """Return the seeds and the kept inputs of a target."""
    return [*target.seeds, *(path.read_bytes() for path in list_corpus(target.name))]
