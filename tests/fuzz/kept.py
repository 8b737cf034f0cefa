"""Where kept inputs are: one folder for each target."""

from pathlib import Path

CORPUS = Path(__file__).with_name("corpus")


def list_corpus(target: str) -> list[Path]:
    """List the kept inputs of a target."""
    return sorted(path for path in (CORPUS / target).glob("*") if path.is_file())
