import pytest

from cli.invocation import build_command, build_export


@pytest.mark.parametrize(
    ("found", "called", "program"),
    [
        ("/usr/bin/framework", ".venv/bin/framework", "framework"),
        (None, ".venv/bin/framework", ".venv/bin/framework"),
        (None, "/my tools/framework", "'/my tools/framework'"),
        (None, "/x/cli/main.py", "framework"),
    ],
)
def test_build_command_names_what_the_shell_finds(
    found: str | None, called: str, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [called])
    monkeypatch.setattr("shutil.which", lambda _: found)
    assert build_command("logs", "gang", "--directory", "/a b") == (
        f"{program} logs gang --directory '/a b'"
    )


def test_build_export_quotes_the_value() -> None:
    assert build_export("KUBECONFIG", "/a b/c") == "export KUBECONFIG='/a b/c'"
