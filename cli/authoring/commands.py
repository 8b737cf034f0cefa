"""Runs `inject` and `lint`: files in, files and findings out. Called by ``cli.main``."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import yaml

from cli.authoring.findings import Finding
from cli.authoring.injection import InjectionError, InjectionOptions, inject
from cli.authoring.rules import Surroundings, lint
from cli.authoring.templates import list_roles
from cli.exitcodes import CliError, ExitCode
from cli.manifests import read_objects
from framework.api import constants
from framework.kube.resources import Object

_SOURCE_HINT = (
    "your commands find their peers with `. /mnt/frameworkbarrier/injector.sh` or "
    "`. /mnt/frameworkbarrier/current/env.sh` (docs/barrier.md, docs/rendezvous.md)"
)


class _Dumper(yaml.SafeDumper):
    """Writes as kubectl does: in the given order, without anchors, texts of many lines as such."""

    def ignore_aliases(self, data: Any) -> bool:
        """Repeat what is there twice."""
        del data
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def inject_file(file: str, options: InjectionOptions, output: str | None) -> ExitCode:
    """Write a file's objects with the agents in its Frameworks.

    Raises:
        CliError: the file is faulty, its Pods cannot take the agents, or the output cannot be
            written.
    """
    objects: list[Object] = []
    for document in read_objects([file]):
        try:
            if _is_framework(document):
                _tell_what_changes(document)
                objects += inject(document, options)
            else:
                objects.append(document)
        except InjectionError as e:
            raise CliError(ExitCode.USAGE, f"{file}: {e}") from e
    text = yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
    if output is None:
        sys.stdout.write(text)
    else:
        _write(output, text)
        click.echo(f"{output}: {len(objects)} objects; {_SOURCE_HINT}", err=True)
    return ExitCode.SUCCEEDED


def lint_files(files: Sequence[str], around: Surroundings, *, as_json: bool) -> ExitCode:
    """Print what would not work in the files' Frameworks; FAILED if there is anything.

    Raises:
        CliError: a file is faulty.
    """
    found = [
        (str(document["metadata"]["name"]), finding)
        for document in read_objects(files)
        if _is_framework(document)
        for finding in lint(document, around)
    ]
    if as_json:
        click.echo(json.dumps([{"framework": name, **asdict(item)} for name, item in found]))
    else:
        for line in _render(found):
            click.echo(line)
    return ExitCode.FAILED if found else ExitCode.SUCCEEDED


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as e:
        raise CliError(
            ExitCode.USAGE,
            f"{file}: cannot be written: {e.strerror}; give a file in a directory that exists",
        ) from e


def _tell_what_changes(framework: Object) -> None:
    """Say what of the user's own does not stay."""
    for role in list_roles(framework):
        policy = role.pod_spec.get("restartPolicy", "Never")
        if policy != "Never":
            click.echo(
                f"note: {role.spec_path}.restartPolicy: Never instead of {policy}: the exit codes "
                "of the agents are for the controller, which retries Tasks by their retryPolicy",
                err=True,
            )


def _is_framework(document: Object) -> bool:
    return document.get("kind") == constants.FRAMEWORK_KIND


def _render(found: Sequence[tuple[str, Finding]]) -> Iterator[str]:
    for name, finding in found:
        yield f"{finding.severity}: {name}: {finding.path}: {finding.message}"
        yield f"  fix: {finding.fix}  [{finding.rule}]"
    if not found:
        yield "nothing found"
