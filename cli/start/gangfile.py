"""Renders the first file of a gang from an example. Pure.

The example is changed as a text, so that its comments stay. A test renders each example with each
option. It fails if a rule of this module does not find its text in an example.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cli.start.stacks import WORKER, Stack
from framework.api import images
from framework.api.constants import GPU_RESOURCE
from framework.kinds.agent_objects import AGENT_RESOURCES

ACCOUNT_PREFIX = "frameworkbarrier-"
_HOROVOD_SIZES = re.compile(r"-np \d+ --min-np 1 --max-np (\d+)")
_ROLE = re.compile(r"^  - name: (\S+)$")
_CONTAINER_INDENT = 10
_FIELD_INDENT = " " * (_CONTAINER_INDENT + 2)
_IMAGE = re.compile(rf"{_FIELD_INDENT}image: ")
_ENV = re.compile(rf"{_FIELD_INDENT}env:( &\w+)?$")
_EMPTY_ENV = re.compile(rf"^{_FIELD_INDENT}env:\n(?!{_FIELD_INDENT}- )", re.MULTILINE)
_CPU_RESOURCES = 'requests: {cpu: "1", memory: 1Gi}'


class TemplateError(Exception):
    """An example has another form than this module expects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangOptions:
    """The options that change an example."""

    name: str
    workers: int | None = None
    """None for the number of the example."""
    gpus: int = 0
    """GPUs of each worker."""
    image: str | None = None
    """None for the image of the example."""


def render_gang(example: str, stack: Stack, options: GangOptions, header: Sequence[str]) -> str:
    """Render the file of a gang: header, the example's objects with the options, no rights.

    Raises:
        TemplateError: the example does not have what an option changes.
    """
    text = _drop_header(example)
    text = _rename(text, stack, options.name)
    if options.image is not None:
        text = _replace(text, rf"(?<=image: ){re.escape(stack.image)}$", options.image)
    text = "".join(f"{line}\n" for line in _fit_roles(text.splitlines(), stack, options))
    text = _EMPTY_ENV.sub("", text)
    if options.workers is not None:
        pattern = rf"(?<=- name: {WORKER}\n    taskNumber: )\d+"
        text = _replace(text, pattern, str(options.workers))
    text = _size_horovod(text, count_workers(text) * max(options.gpus, 1))
    return "".join(f"# {line}".rstrip() + "\n" for line in header) + text


def count_workers(text: str) -> int:
    """Read the number of workers of a rendered gang or an example."""
    found = re.search(rf"- name: {WORKER}\n    taskNumber: (\d+)", text)
    if found is None:
        raise TemplateError("no role worker with a taskNumber")
    return int(found[1])


def _drop_header(text: str) -> str:
    lines = text.splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return "".join(lines[first:])


def _rename(text: str, stack: Stack, name: str) -> str:
    names = {stack.name: name, f"{stack.name}-app": f"{name}-app"}
    if stack.secret is not None:
        names[stack.secret] = f"{name}-ssh"
    for old, new in names.items():
        pattern = rf"(?<=[nN]ame: ){re.escape(old)}(?=[,}}]|$)"
        text = _replace(text, pattern, new)
    account = rf"serviceAccountName: {ACCOUNT_PREFIX[:-1]}( +#.*)?$"
    return _replace(text, account, f"serviceAccountName: {ACCOUNT_PREFIX}{name}")


def _fit_roles(lines: Sequence[str], stack: Stack, options: GangOptions) -> Iterator[str]:
    """Add resources and slots to the training containers, and show them the GPUs."""
    role, is_training = "", False
    slots = f'- {{name: FB_SLOTS, value: "{options.gpus}"}}'
    hidden = stack.cpu_variables | ({"FB_SLOTS"} if stack.has_slots else set())
    for line in lines:
        found = _ROLE.match(line)
        role = found[1] if found else role
        if len(line) - len(line.lstrip()) <= _CONTAINER_INDENT:
            is_training = line == " " * _CONTAINER_INDENT + "- name: train"
        if options.gpus and any(f"{{name: {name}," in line for name in hidden):
            continue
        yield line
        if line.startswith(f"{_FIELD_INDENT}image: {images.REGISTRY}/"):
            yield f"{_FIELD_INDENT}resources: {json.dumps(AGENT_RESOURCES)}"
        elif is_training and _IMAGE.match(line):
            yield f"{_FIELD_INDENT}resources: {{{_build_resources(role, options.gpus)}}}"
        elif is_training and options.gpus and stack.has_slots and _ENV.match(line):
            yield f"{_FIELD_INDENT}{slots}"


def _build_resources(role: str, gpus: int) -> str:
    limits = f', limits: {{{GPU_RESOURCE}: "{gpus}"}}' if gpus and role == WORKER else ""
    return _CPU_RESOURCES + limits


def _size_horovod(text: str, processes: int) -> str:
    """Set the numbers of processes in the command line of horovodrun, if there is one."""

    def size(found: re.Match[str]) -> str:
        return f"-np {processes} --min-np 1 --max-np {max(processes, int(found[1]))}"

    return _HOROVOD_SIZES.sub(size, text)


def _replace(text: str, pattern: str, replacement: str) -> str:
    changed, count = re.subn(pattern, lambda _: replacement, text, flags=re.MULTILINE)
    if not count:
        raise TemplateError(f"nothing in the example matches {pattern}")
    return changed
