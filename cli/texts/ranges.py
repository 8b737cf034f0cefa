"""Writes the indices of Tasks as ranges: ``0-3``, ``7``. Pure."""

from collections.abc import Iterator, Sequence


def list_ranges(indices: Sequence[int]) -> Iterator[str]:
    """List ascending numbers as ranges; a ``range`` of any length takes no time."""
    if isinstance(indices, range) and indices.step == 1:
        if indices:
            yield _format_range(indices[0], indices[-1])
        return
    start = end = None
    for index in indices:
        if end is not None and index == end + 1:
            end = index
            continue
        if start is not None:
            yield _format_range(start, end)
        start = end = index
    if start is not None:
        yield _format_range(start, end)


def _format_range(start: int, end: int | None) -> str:
    return str(start) if start == end else f"{start}-{end}"
