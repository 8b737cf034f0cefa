"""Replaces TfJobs and TrainingJobs of the user's files by Frameworks. Pure.

ScaleIns and ScaleOuts stay as they are, if they have no faults.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from cli.files.fieldhints import describe_faults
from cli.files.places import Place
from framework.api.fielderrors import FieldError, FieldErrors
from framework.kinds.catalog import check_scaler, find_api_versions, find_compile, find_kind
from framework.kinds.compiled import Compiled, Note
from framework.strictyaml import Document


@dataclass(frozen=True, slots=True)
class NeededKey:
    """A Secret with an ssh key that the Pods of a converted TrainingJob mount."""

    place: Place
    """Place of the TrainingJob in the user's files."""
    namespace: str | None
    """Namespace in the file; None if it has none."""
    framework: str
    """Name of the Framework, which is that of the TrainingJob."""
    secret: str
    """Name of the Secret."""
    is_chosen: bool
    """Whether the user names the Secret, by an annotation of the TrainingJob."""


def compile_document(document: Document) -> Compiled | None:
    """Compile an object of another kind; None for any other document.

    Raises:
        FieldErrors: the object has faults.
    """
    body = document.value
    if not isinstance(body, dict):
        return None
    step = find_compile(body)
    kind = str(body.get("kind"))
    meant = find_kind(str(body.get("apiVersion")), kind)
    if meant not in (None, kind):
        raise FieldErrors([FieldError("kind", f"is {kind!r}; write {meant}")])
    versions = find_api_versions(kind)
    if versions and body.get("apiVersion") not in versions:
        message = f"is {body.get('apiVersion')!r}; write {' or '.join(versions)}"
        raise FieldErrors([FieldError("apiVersion", message)])
    return None if step is None else step(body)


def expand(
    place: Place,
    document: Document,
    problems: list[str],
    warnings: list[str],
    keys: list[NeededKey] | None = None,
) -> Iterator[tuple[Place, Document]]:
    """Yield the objects of a converted document; the document itself if it is of another kind.

    Each object comes after its place, which knows the paths of the job.

    Args:
        place: its place in the user's files.
        document: of any kind.
        problems: its faults are added here.
        warnings: the notes about its conversion are added here.
        keys: if given, a Secret that it needs is added here; else a note about it to ``warnings``.
    """
    notes: Iterable[Note] = ()
    try:
        compiled = compile_document(document)
        if compiled is None and isinstance(document.value, dict):
            notes = check_scaler(document.value)
    except FieldErrors as e:
        problems += describe_faults(place, e, document.value)
        return
    if compiled is None:
        warnings += [f"{place.locate(note.path)}: {note}" for note in notes]
        yield place, document
        return
    notes = compiled.notes if keys is not None else (*compiled.notes, *compiled.key_notes)
    warnings += [f"{place.locate(note.path)}: {note}" for note in notes]
    if keys is not None and compiled.key_secret:
        keys.append(_build_key(place, compiled))
    converted = replace(place, templates=compiled.templates)
    for body in (*compiled.supporting, compiled.framework):
        yield converted, Document(document.line, body)


def _build_key(place: Place, compiled: Compiled) -> NeededKey:
    metadata = compiled.framework["metadata"]
    return NeededKey(
        place,
        metadata.get("namespace"),
        metadata["name"],
        compiled.key_secret,
        is_chosen=not compiled.needs_key,
    )
