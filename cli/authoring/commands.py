"""Runs `inject` and `lint`: files in, files and findings out. Called by ``cli.main``."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from cli.authoring.findings import Finding
from cli.authoring.injection import (
    InjectionError,
    InjectionOptions,
    inject_all,
    is_account_of_agents,
)
from cli.authoring.rules import Surroundings, find_what_injection_leaves, lint
from cli.authoring.yamltext import render_yaml
from cli.exitcodes import CliError, ExitCode
from cli.manifests import explain_no_framework, name_source, read_objects
from cli.templates import get_account, list_roles
from cli.terminal import print_document, print_error, print_line
from framework.api import constants, images
from framework.kube.resources import Object


class _Place(NamedTuple):
    """A finding, and where the Framework stands in the user's files."""

    file: str
    framework: str
    finding: Finding


def inject_file(file: str, options: InjectionOptions, output: str | None) -> ExitCode:
    """Write a file's objects with the agents in its Frameworks.

    Raises:
        CliError: the file is faulty, its Pods cannot take the agents, or the output cannot be
            written.
    """
    documents = [document for _, document in read_objects([file])]
    if not any(_is_framework(document) for document in documents):
        raise CliError(ExitCode.USAGE, explain_no_framework([file]))
    try:
        objects = inject_all(documents, options)
    except InjectionError as e:
        raise CliError(ExitCode.USAGE, f"{name_source(file)}: {e}") from e
    for document in documents:
        if _is_framework(document):
            _tell_what_changes(document)
    frameworks = [body for body in objects if _is_framework(body)]
    for framework in frameworks:
        _tell_who_holds_the_token(framework)
        for left in find_what_injection_leaves(framework):
            print_error(f"warning: {left.path}: {left.message}; {left.fix}")
    text = render_yaml(objects)
    if output is None:
        print_document(text)
    else:
        _write(output, text)
        print_error(f"{output}: {len(objects)} objects; {_explain_peers(frameworks)}")
    return ExitCode.SUCCEEDED


def lint_files(files: Sequence[str], around: Surroundings, *, as_json: bool) -> ExitCode:
    """Print what would not work in the files' Frameworks; FAILED if there is anything.

    Raises:
        CliError: a file is faulty, or there is no Framework in any.
    """
    objects = read_objects(files)
    frameworks = [(source, document) for source, document in objects if _is_framework(document)]
    if not frameworks:
        raise CliError(ExitCode.USAGE, explain_no_framework(files))
    found = [
        _Place(source, str(document["metadata"]["name"]), finding)
        for source, document in frameworks
        for finding in lint(document, around)
    ]
    if as_json:
        items = [
            {"file": place.file, "framework": place.framework, **asdict(place.finding)}
            for place in found
        ]
        print_line(json.dumps(items))
    else:
        for line in _render(found):
            print_line(line)
    return ExitCode.FAILED if found else ExitCode.SUCCEEDED


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as e:
        raise CliError(
            ExitCode.USAGE,
            f"{file}: cannot be written: {e.strerror}; "
            "give a file that you may write, in a directory that exists",
        ) from e


def _tell_what_changes(framework: Object) -> None:
    """Say what of the user's own does not stay as it is."""
    for role in list_roles(framework):
        policy = role.pod_spec.get("restartPolicy", "Never")
        if policy != "Never":
            print_error(
                f"note: {role.spec_path}.restartPolicy: Never instead of {policy}: the exit codes "
                "of the agents are for the controller, which retries Tasks by their retryPolicy"
            )
        account = get_account(role)
        if not is_account_of_agents(account):
            print_error(
                f"note: {role.spec_path}.serviceAccountName: {account}, and so every Pod of this "
                "account, gets the right to read the roster and this Framework; leave it out for "
                "an account of the agents only"
            )


def _tell_who_holds_the_token(framework: Object) -> None:
    """Name the containers of the user's in which an agent runs, and so its token is."""
    for role in list_roles(framework):
        for container in role.list_containers():
            if container.is_wrapped:
                print_error(
                    f"note: {container.path}: holds the agent's token, because `run` wraps its "
                    "command; what it may do: docs/security.md (--rendezvous sidecar keeps the "
                    "token out of it)"
                )


def _explain_peers(frameworks: Sequence[Object]) -> str:
    """Say how commands find their peers with the agents that are there."""
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


def _render(found: Sequence[_Place]) -> Iterator[str]:
    for place in found:
        finding = place.finding
        yield f"{finding.severity}: {place.file}: {finding.path}: {finding.message}"
        yield f"  fix: {finding.fix}  [{finding.rule}]"
    if not found:
        yield "nothing found"
