"""Runs `inject` and `lint`: files in, files and findings out."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

from cli.authoring.findings import Finding
from cli.authoring.injection import (
    InjectionError,
    InjectionOptions,
    inject_all,
    is_account_of_agents,
)
from cli.authoring.rules import LintOptions, find_faults_after_injection, lint
from cli.exitcodes import CliError, ExitCode
from cli.files.documents import name_source
from cli.files.fieldhints import describe_faults
from cli.files.manifests import explain_no_framework, read_objects
from cli.files.places import Place
from cli.files.templates import get_account, list_roles
from cli.files.validation import refuse_lost_fields
from cli.printing.yamltext import render_yaml
from cli.terminal import print_document, print_error, print_line
from framework.api import constants, images
from framework.api.fielderrors import FieldErrors
from framework.kinds.catalog import is_scaler
from framework.kinds.compiled import Note
from framework.kube.resources import Object


class _Found(NamedTuple):
    """A finding, and the place of the Framework in the user's files."""

    place: Place
    framework: str
    finding: Finding


def inject_file(file: str, options: InjectionOptions, output: str | None) -> ExitCode:
    """Write a file's objects with the agents in its Frameworks.

    Raises:
        CliError: the file is faulty, its Pods cannot take the agents, or the output cannot be
            written.
    """
    read = read_objects([file])[file]
    originals = [(place, body) for place, body in read if _is_framework(body)]
    if not originals:
        raise CliError(ExitCode.USAGE, explain_no_framework([file], _list_kinds(read)))
    _refuse_all_lost_fields(originals)
    try:
        objects = inject_all([document for _, document in read], options)
    except InjectionError as e:
        path, _, _ = str(e).partition(": ")
        where = read[e.document_index][0].locate(path)
        raise CliError(ExitCode.USAGE, f"{where}: {e}") from e
    frameworks = [body for body in objects if _is_framework(body)]
    for place, original in originals:
        _print_all(place, "note", _list_changes(original))
    for (place, _), framework in zip(originals, frameworks, strict=True):
        _print_all(place, "note", _list_token_holders(framework))
        left = find_faults_after_injection(framework)
        _print_all(place, "warning", (Note(f.path, f"{f.message}; {f.fix}") for f in left))
    print_objects(objects, output, _explain_peers(frameworks))
    return ExitCode.SUCCEEDED


def _refuse_all_lost_fields(frameworks: Sequence[tuple[Place, Object]]) -> None:
    """Refuse Frameworks that lack Tasks because of a misspelt field, as ``run`` does."""
    problems: list[str] = []
    for place, body in frameworks:
        try:
            refuse_lost_fields(body)
        except FieldErrors as e:
            problems += describe_faults(place, e, body)
    if problems:
        raise CliError(ExitCode.USAGE, *problems)


def lint_files(files: Sequence[str], options: LintOptions, *, as_json: bool) -> ExitCode:
    """Print the findings about the Frameworks of the files; return FAILED if there are any.

    Raises:
        CliError: a file is faulty, or there is no Framework in any.
    """
    notes: list[str] = []
    by_file = read_objects(files, notes)
    for note in notes:
        print_error(f"note: {note}")
    objects = [each for read in by_file.values() for each in read]
    frameworks = [(place, body) for place, body in objects if _is_framework(body)]
    if not any(map(_is_linted, objects)):
        raise CliError(ExitCode.USAGE, explain_no_framework(files, _list_kinds(objects)))
    for file, read in by_file.items():
        if not any(map(_is_linted, read)):
            kinds = ", ".join(sorted(set(_list_kinds(read)))) or "nothing"
            print_error(f"note: {name_source(file)}: no Framework in it, skipped: {kinds}")
    found = [
        _Found(
            place,
            str(document["metadata"]["name"]),
            replace(finding, path=place.name_field(finding.path)),
        )
        for place, document in frameworks
        for finding in lint(document, options)
    ]
    if as_json:
        items = [
            {"file": str(each.place), "framework": each.framework, **asdict(each.finding)}
            for each in found
        ]
        print_line(json.dumps(items))
    else:
        for line in _render(found):
            print_line(line)
    return ExitCode.FAILED if found else ExitCode.SUCCEEDED


def _is_linted(read: tuple[Place, Object]) -> bool:
    return _is_framework(read[1]) or is_scaler(read[1])


def _list_kinds(objects: Sequence[tuple[Place, Object]]) -> list[str]:
    return [str(body.get("kind")) for _, body in objects]


def _print_all(place: Place, severity: str, notes: Iterable[Note]) -> None:
    for note in notes:
        print_error(f"{severity}: {place.locate(note.path)}: {note}")


def print_objects(objects: Sequence[Object], output: str | None, explanation: str) -> None:
    """Print objects as YAML, or write them to a file that the user named, and say so.

    Raises:
        CliError: the file cannot be written.
    """
    text = render_yaml(objects)
    if output is None:
        print_document(text)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as e:
        raise CliError(
            ExitCode.USAGE,
            f"{output}: cannot be written: {e.strerror}; "
            "give a file that you may write, in a directory that exists",
        ) from e
    print_error(f"{output}: {len(objects)} objects; {explanation}")


def _list_changes(framework: Object) -> Iterator[Note]:
    """List the changes of fields that the user wrote."""
    for role in list_roles(framework):
        policy = role.pod_spec.get("restartPolicy", "Never")
        if policy != "Never":
            yield Note(
                f"{role.spec_path}.restartPolicy",
                f"Never instead of {policy}: the exit codes of the agents are for the controller, "
                "which retries Tasks by their retryPolicy",
            )
        account = get_account(role)
        if not is_account_of_agents(account):
            yield Note(
                f"{role.spec_path}.serviceAccountName",
                f"{account}, and so every Pod of this account, gets the right to read the roster "
                "and this Framework; leave it out for an account of the agents only",
            )


def _list_token_holders(framework: Object) -> Iterator[Note]:
    """List the user's containers in which an agent runs, and which therefore hold its token."""
    for role in list_roles(framework):
        for container in role.list_containers():
            if container.is_wrapped:
                yield Note(
                    container.path,
                    "has the agent's token, because `run` wraps its command; what it may do: "
                    "docs/security.md (--rendezvous sidecar keeps the token out of it)",
                )


def _explain_peers(frameworks: Sequence[Object]) -> str:
    """Explain how commands find their peers with the agents that are there."""
    roles = [role for framework in frameworks for role in list_roles(framework)]
    containers = [container for role in roles for container in role.list_containers()]
    ways = []
    if any(c.program == images.BARRIER for c in containers):
        ways.append(f"with `. {constants.WORKING_DIR}/{constants.INJECTOR_FILE}` (docs/barrier.md)")
    if any(c.is_rendezvous and not c.is_wrapped for c in containers):
        ways.append(f"with `. {constants.WORKING_DIR}/current/env.sh` (docs/rendezvous.md)")
    if any(c.is_wrapped for c in containers):
        ways.append("in their environment, under `run` (docs/rendezvous.md)")
    return f"your commands find their peers {' or '.join(ways)}" if ways else "no role has a Pod"


def _is_framework(document: Object) -> bool:
    return document.get("kind") == constants.FRAMEWORK_KIND


def _render(found: Sequence[_Found]) -> Iterator[str]:
    for place, _, finding in found:
        where = place.locate(finding.path)
        yield f"{finding.severity}: {where}: {finding.path}: {finding.message}"
        yield f"  fix: {finding.fix}  [{finding.rule}]"
    if not found:
        yield "nothing found"
