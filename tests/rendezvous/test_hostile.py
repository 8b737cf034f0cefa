"""Hostile names, addresses and values: refused, or harmless to every shell that reads the files."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.agent.gang import Identity
from framework.api.roster import CompletedTask, Leaving, Member, RoleRoster, Roster
from rendezvous.core.membership import build_view
from rendezvous.core.refusal import RefusedError
from rendezvous.renderers.env_files import render_environment
from rendezvous.renderers.registry import Rendering, render_all
from rendezvous.settings.option import OptionsError
from rendezvous.settings.options import OPTIONS, parse_options
from rendezvous.settings.values import is_printable
from tests.rendezvous.gangs import build_gang, build_options, build_role
from tests.rendezvous.hostile import CASES, SHELLS, draw_texts, find_shell, run_script

BATCH = 1000
ME = Identity("worker", 0)


def replace_role(roster: Roster, **fields: Any) -> Roster:
    return roster._replace(roles=(roster.roles[0]._replace(**fields),))


def with_address(text: str, roster: Roster) -> Roster:
    members = (*roster.roles[0].members[:1], Member(1, (text,), "0" * 8, 0))
    return replace_role(roster, members=members)


def with_second_address(text: str, roster: Roster) -> Roster:
    members = (*roster.roles[0].members[:1], Member(1, ("10.0.0.9", text), "0" * 8, 0))
    return replace_role(roster, members=members)


def with_other_role(text: str, roster: Roster) -> Roster:
    other: RoleRoster = build_role("ps", 1, first=50)._replace(name=text)
    return roster._replace(roles=(*roster.roles, other))


# Where a text of another writer can get into a roster.
PLACES: dict[str, Callable[[str, Roster], Roster]] = {
    "address": with_address,
    "second address": with_second_address,
    "role": with_other_role,
    "framework": lambda text, roster: roster._replace(framework=text),
    "namespace": lambda text, roster: roster._replace(namespace=text),
    "framework uid": lambda text, roster: roster._replace(framework_uid=text),
    "instance uid": lambda text, roster: roster._replace(instance_uid=text),
    "phase": lambda text, roster: roster._replace(phase=text),
    "fingerprint": lambda text, roster: replace_role(
        roster, members=(Member(0, ("10.0.0.2",), text, 0),)
    ),
    "completed address": lambda text, roster: replace_role(
        roster, completed=(CompletedTask(7, "Succeeded", text),)
    ),
    "completed state": lambda text, roster: replace_role(
        roster, completed=(CompletedTask(7, text, "10.0.0.8"),)
    ),
    "leaving role": lambda text, roster: roster._replace(
        leaving=(Leaving(text, 9, "0" * 8, 1, "2026-01-01T00:00:00Z"),)
    ),
    "leaving deadline": lambda text, roster: roster._replace(
        leaving=(Leaving("worker", 9, "0" * 8, 1, text),)
    ),
}
ROSTER_ALIKE = frozenset({"address", "second address", "role", "framework", "namespace"})


def batches(items: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]


def check_in_shell(shell: list[str], variables: list[tuple[str, str]], directory: Path) -> None:
    """The shell sees every value as it is, runs nothing and breaks no line."""
    for batch in batches(variables):
        env = dict(batch)
        script = render_environment(env, "/d").files["env.sh"].content
        assert script.count(b"\n") == len(batch)
        script += "".join(f'printf "%s\\n" "${name}"\n' for name in env).encode()
        expected = "".join(value + "\n" for value in env.values()).encode()
        assert run_script(shell, script, directory) == expected


@pytest.mark.parametrize("name", SHELLS)
def test_env_sh_with_hostile_values_gives_them_back_unread(
    name: str, seed: int, tmp_path: Path
) -> None:
    shell = find_shell(name)
    good = [text for text in draw_texts(seed, CASES) if is_printable(text)]
    assert len(good) > CASES // 4
    check_in_shell(shell, [(f"V{i}", text) for i, text in enumerate(good)], tmp_path)


@pytest.mark.parametrize("name", SHELLS)
def test_dotenv_with_hostile_values_gives_them_back_or_is_refused(
    name: str, seed: int, tmp_path: Path
) -> None:
    shell = find_shell(name)
    lines: list[bytes] = []
    expected: list[str] = []
    for text in draw_texts(seed, CASES):
        try:
            files = render_environment({f"V{len(lines)}": text}, "/d").files
        except RefusedError:
            continue
        if ".env" in files:
            lines.append(files[".env"].content)
            expected.append(text)
    assert len(lines) > CASES // 10
    script = b"".join(lines)
    assert script.count(b"\n") == len(lines)
    script += b"".join(b'printf "%%s\\n" "$V%d"\n' % i for i in range(len(lines)))
    assert run_script(shell, script, tmp_path) == "".join(t + "\n" for t in expected).encode()


def test_values_with_line_ends_or_control_characters_are_refused(seed: int) -> None:
    for text in draw_texts(seed, CASES):
        if any(ord(c) < 0x20 or c in "\x7f\x85\u2028\u2029\ud800" for c in text):
            with pytest.raises(RefusedError):
                render_environment({"V": text}, "/d")


def test_variable_names_that_are_none_are_refused(seed: int) -> None:
    for text in draw_texts(seed, CASES // 10):
        if not (text.isascii() and text.isidentifier()):
            with pytest.raises(RefusedError):
                render_environment({text: "v"}, "/d")


def check_rendering(rendering: Rendering) -> None:
    """Check that no line of a rendered file can break, and that no shell expands anything."""
    for name, (content, _) in rendering.files.items():
        text = content.decode()
        assert not text or text.endswith("\n"), name
        for line in text.removesuffix("\n").split("\n"):
            assert is_printable(line.replace("\t", "")), (name, line)
            assert "canary" not in line, (name, line)
            assert "$" not in line, (name, line)
            assert "`" not in line, (name, line)


def count_accepted(roster: Roster, place: str, texts: list[str]) -> Iterator[Rendering]:
    options = build_options()
    for text in texts:
        try:
            view = build_view(PLACES[place](text, roster), ME, options)
            rendering = render_all(view, options)
        except RefusedError:
            continue
        check_rendering(rendering)
        yield rendering


@pytest.mark.parametrize("place", PLACES)
def test_rosters_with_hostile_text_are_refused_or_harmless(
    place: str, seed: int, tmp_path: Path
) -> None:
    texts = draw_texts(seed + 1, CASES // len(PLACES))
    accepted = list(count_accepted(build_gang(2), place, texts))
    assert len(accepted) < len(texts) // 2
    if place in ROSTER_ALIKE:
        assert accepted  # an address among the fragments is one: the test does reach the files
    script = b"".join(rendering.files["env.sh"].content for rendering in accepted)
    assert run_script(find_shell("dash"), script, tmp_path) == b""


@pytest.mark.parametrize("name", [o.name for o in OPTIONS if o.name != "plugins"])
def test_settings_with_hostile_text_are_refused_or_harmless(
    name: str, seed: int, tmp_path: Path
) -> None:
    texts = draw_texts(seed + 2, CASES // 100)
    prefixed = [prefix + text for text in texts for prefix in ("", "/mnt/", "worker=")]
    values = [value for text in prefixed for value in accept(name, text)]
    named = [(f"V{i}", value) for i, value in enumerate(values)]
    for shell in ("dash", "bash"):
        check_in_shell(find_shell(shell), named, tmp_path)


def accept(name: str, text: str) -> list[str]:
    """Render with a setting; give the values of the variables, none if it was refused."""
    try:
        options = parse_options({}, {"torch_mode": "elastic", name: text})
        rendering = render_all(build_view(build_gang(2), ME, options), options)
    except (OptionsError, RefusedError):
        return []
    for file_name, (content, _) in rendering.files.items():
        for line in content.decode().split("\n"):
            assert is_printable(line.replace("\t", "")), file_name
    return list(rendering.env.values())
