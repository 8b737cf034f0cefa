"""docs/rendezvous.md names every setting and every file."""

from rendezvous.renderers.registry import render_all
from rendezvous.settings.options import BEHAVIOUR, OPTIONS
from tests.rendezvous.gangs import build_gang, build_options, see
from tests.support.servers.frameworkcrd import ROOT

DOC = (ROOT / "docs" / "rendezvous.md").read_text()


def test_every_setting_is_documented() -> None:
    names = [setting.env_name for setting in OPTIONS]
    assert [name for name in names if f"`{name}" not in DOC] == []


def test_every_default_is_documented() -> None:
    rows = {line.split("`")[1]: line for line in DOC.splitlines() if line.startswith("| `")}
    for setting in BEHAVIOUR:
        row = rows.get(setting.env_name, "")
        if row and setting.default and "`, `" not in row and "=" not in row:
            assert f"| {setting.default} |" in row, setting.env_name


def test_every_file_is_documented() -> None:
    rendering = render_all(see(build_gang(2)), build_options())
    names = [*rendering.files, *rendering.fixed_files]
    assert [name for name in names if name not in DOC] == []
