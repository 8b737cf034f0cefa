"""Text of a cluster on the terminal: many hostile strings, no control character.

The strings are rendered as each printing command renders them. Then whole programs print the
texts of a hostile container and a hostile API server.
"""

import ast
import asyncio
import io
import logging
import random
import subprocess
import sys
import unicodedata
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from cli import main as main_module
from cli.authoring.commands import _Found, _render
from cli.authoring.findings import error
from cli.exitcodes import CliError, ExitCode
from cli.files.places import Place
from cli.local import commands
from cli.local.state import ClusterState
from cli.loglines.containeroutput import split_output
from cli.loglines.output import LogOptions, LogPrinter
from cli.printing.forms import Form
from cli.printing.output import Printer, parse_output
from cli.printing.yamltext import render_yaml
from cli.running import display as display_module
from cli.running.display import Display
from cli.running.layout import lay_out
from cli.running.views import GangView, TaskLine
from cli.terminal import print_document, print_error, print_line
from framework.agent.report import LineReporter
from framework.api.naming import TaskKey
from framework.logs import JsonFormatter, TextFormatter
from tests.rendezvous.hostile import CASES
from tests.security.failing_server import serve
from tests.support.builders import FAIL_FAST, build_role_wire, build_submission, build_template_wire
from tests.support.slow import keep_first
from tests.support.waiting import HANG_SECONDS

ROOT = Path(__file__).parents[2]
BATCH = 1000
# Characters that a terminal obeys, hides or reorders.
BAD_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
PIECES = [
    "\x1b]52;c;ZXZpbA==\x07", "\x1b]0;title\x1b\\", "\x1b]8;;http://x\x07y", "\x1b[2J", "\x1b[31m",
    "\x1b[8m", "\x1b[6n", "\x1b[201~", "\x1bPq#0\x1b\\", "\x1b_x\x1b\\", "\x1b^x\x1b\\", "\x1bc",
    "\x1b", "\x9b31m", "\x9d52;c;eA==\x9c", "\x90", "\x00", "\x07", "\x08\x08\x08", "\r", "\n",
    "\r\n", "\x0b", "\x0c", "\x0e", "\x7f", "\x85", "\xad", "\u202e", "\u2066", "\u200b", "\u200d",
    "\u2028", "\u2029", "\ufeff", "\u061c", "\u180e", "\U000e0041", "\ud800", "\udfff", "\ufff9",
    "\ue000", "\uffff", "\U0010ffff", "\u3164", "\ufe01", "[red]", "[/]", "[/red]", "[link=x]y",
    ":smile:", "%s", "{0}", "\\x1b", "\\", '"', "'", ": ", "- ", "#", "|", "&a", "*a", "!!b", "\t",
    "plain", "größe", "日本", "🚀", "error: fake",
]  # fmt: skip


def make_strings(seed: int, count: int = CASES) -> Iterator[str]:
    draw = random.Random(seed)
    for _ in range(count):
        parts = draw.choices(PIECES, k=draw.randint(1, 6))
        if draw.random() < 0.2:
            parts.append(chr(draw.randrange(0x110000)))
        yield "".join(parts)


STRINGS = list(make_strings(10))


def find_bad(shown: str, allowed: str) -> set[str]:
    return {c for c in set(shown) - set(allowed) if unicodedata.category(c) in BAD_CATEGORIES}


def show(render: Callable[[Sequence[str]], object], strings: Sequence[str] = STRINGS) -> str:
    """Render all strings, a thousand at a time; return what would be on the terminal."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, "utf-8", newline="")
    with redirect_stdout(stream), redirect_stderr(stream):
        for start in range(0, len(strings), BATCH):
            render(strings[start : start + BATCH])
        stream.flush()
    return raw.getvalue().decode()


def each(print_one: Callable[[str], object]) -> Callable[[Sequence[str]], object]:
    return lambda texts: list(map(print_one, texts))


def print_as_findings(texts: Sequence[str]) -> None:
    places = [_Found(Place(text), text, error(text, text, text, text)) for text in texts]
    for line in _render(places):
        print_line(line)


def print_as_error(texts: Sequence[str]) -> None:
    program = main_module._Program()

    @program.command("hostile")
    def fail() -> None:
        raise CliError(ExitCode.USAGE, *texts)

    program.main(["hostile"], standalone_mode=False)


def print_as_state(text: str) -> None:
    names = ("server", "kubeconfig", "directory", "started_at", "note")
    commands._print_state(ClusterState(pid=1, **dict.fromkeys(names, text)))


def print_as_logs(texts: Sequence[str]) -> None:
    async def chunks() -> AsyncGenerator[bytes]:
        for text in texts:
            yield text.encode("utf-8", "surrogatepass")
        yield b"\n"

    async def run() -> None:
        for has_prefix in (False, True):
            printer = LogPrinter(LogOptions(name="gang"), has_prefix=has_prefix)
            await printer.print_chunks("/".join(texts[:3]), chunks())

    asyncio.run(run())


def print_as_failure(texts: Sequence[str]) -> None:
    lines = split_output("\n".join(texts).encode("utf-8", "surrogatepass"))
    shown = Display(sys.stdout)
    for start in range(0, len(lines), 10):
        shown.say(f"    {'/'.join(lines[start : start + 10])}")


def build_gang(texts: Sequence[str]) -> GangView:
    # Many strings in a cell: rich takes its time for each cell.
    cells = ["".join(texts[i : i + 25]) for i in range(0, len(texts), 25)]
    tasks = tuple(TaskLine(TaskKey(c, i), c, i + 1, c, code=1) for i, c in enumerate(cells))
    return GangView(cells[0], cells[1], 1, cells[2], tasks)


def print_as_progress(texts: Sequence[str]) -> None:
    shown = Display(sys.stdout)
    gang = build_gang(texts)
    shown.update([gang, gang], 1.0, texts[0])
    shown.show_table([gang], 1.0)
    # What is redrawn on a terminal, without the cursor movements of rich.
    console = Console(file=sys.stdout, width=200, height=300, color_system=None)
    shown._console = console  # type: ignore[assignment]  # a console without colors
    for line in lay_out([gang], 1.0, texts[0], (200, 300)):
        console.print(shown._render(line))


def print_as_inject(texts: Sequence[str]) -> None:
    print_document(render_yaml([{"metadata": {texts[0]: texts[1]}, "args": list(texts)}]))


def log_as(formatter: logging.Formatter) -> Callable[[str], None]:
    def log(text: str) -> None:
        record = logging.LogRecord("x", logging.INFO, "", 0, text, None, None)
        record.__dict__.update(reason=text, other=[text])
        sys.stdout.write(formatter.format(record) + "\n")

    return log


def report_as(*, is_json: bool) -> Callable[[str], None]:
    reporter = LineReporter("barrier", is_json=is_json)
    return lambda text: reporter.say(text, "warning")


def print_as_output(output: str) -> Callable[[Sequence[str]], object]:
    def render(texts: Sequence[str]) -> None:
        body = {"kind": "Framework", "metadata": {"name": "gang"}, "texts": list(texts)}
        printer = Printer(parse_output(output, tuple(Form)))
        print_document(printer.render([body], is_list=True), keep="\n\t")

    return render


PRINTERS: dict[str, Callable[[Sequence[str]], object]] = {
    "line": each(print_line),
    "error": each(print_error),
    "main": print_as_error,
    "local": each(print_as_state),
    "lint": print_as_findings,
    "inject": print_as_inject,
    "get-json": print_as_output("json"),
    "get-yaml": print_as_output("yaml"),
    "get-jsonpath": print_as_output("jsonpath={.items[*].texts[*]}"),
    "logs": print_as_logs,
    "run-last-lines": print_as_failure,
    "run": print_as_progress,
    "log-text": each(log_as(TextFormatter())),
    "log-json": each(log_as(JsonFormatter())),
    "agent-text": each(report_as(is_json=False)),
    "agent-json": each(report_as(is_json=True)),
}
# These draw whole tables.
DEAR_PRINTERS = {"run", "local"}


@pytest.mark.parametrize("name", PRINTERS)
def test_hostile_text_is_printed_without_control_characters(name: str) -> None:
    assert_harmless(name, STRINGS[: CASES // 4] if name in DEAR_PRINTERS else STRINGS)


def assert_harmless(name: str, strings: Sequence[str]) -> None:
    allowed = "\n\t" if name in {"logs", "run-last-lines", "get-jsonpath"} else "\n"
    shown = show(PRINTERS[name], strings)
    assert find_bad(shown, allowed) == set()
    # The text is shown, not dropped, and is no markup.
    assert shown.count("plain") >= sum(text.count("plain") for text in strings)
    assert shown.count("[red]") >= sum(text.count("[red]") for text in strings)


def test_hostile_text_adds_no_line() -> None:
    assert len(show(each(print_line)).splitlines()) == CASES


def test_inject_keeps_hostile_text_as_it_is() -> None:
    texts = [text for text in STRINGS[:3000] if not any(0xD800 <= ord(c) < 0xE000 for c in text)]
    texts = [text for text in texts if text.isprintable() or "\x1b" in text or "\u202e" in text]
    assert len(texts) > 500
    assert yaml.safe_load(render_yaml([{"texts": texts}]))["texts"] == texts


def test_live_display_draws_with_the_same_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def draw(*texts: str) -> str:
        stream = Terminal()
        with Display(stream) as shown:
            shown.update([build_gang(texts * 100)], 1.0, texts[0])
            shown.show_table([build_gang(texts * 100)], 1.0)
        return stream.getvalue()

    monkeypatch.setenv("TERM", "xterm-256color")
    assert display_module.Display(Terminal()).is_live
    hostile, harmless = draw("\x1b]52;c;eA==\x07[red]"), draw("plain")
    assert "\x1b]" not in hostile
    assert {c for c in hostile if ord(c) < 32} == {c for c in harmless if ord(c) < 32}


def test_only_one_module_of_the_command_line_prints() -> None:
    """``Display`` has rich's console; ``logs.output`` writes lines that are rendered already."""
    writers = set()
    for path in (ROOT / "cli").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            is_writer = name in {"click.echo", "click.secho", "print"}
            if name.endswith(".isatty"):
                continue  # It asks, and writes nothing.
            if is_writer or name.startswith(("sys.stdout.", "sys.stderr.")) or "Console" in name:
                writers.add((path.relative_to(ROOT / "cli").as_posix(), name))
    assert writers == {
        ("terminal.py", "click.echo"),
        ("running/display.py", "_Console"),
        ("loglines/output.py", "sys.stdout.buffer.write"),
        ("loglines/output.py", "sys.stdout.buffer.flush"),
    }


HOSTILE_MESSAGE = "no\x1b]52;c;eA==\x07 \x9b31m\u202e[red]\nerror: fake"


def call(*arguments: str, **env: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **env},
        timeout=HANG_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout.decode()


SCRIPT = r"""
printf '\033]52;c;eA==\007shown \302\23331m '
printf '\342\200\256 \033[32mgreen\033[0m\n'
printf 'ended\033]52;c;eA==\007\r\n' > /dev/termination-log
exit 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of a Framework whose container prints hostile text and fails."""
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", SCRIPT]}
    task = {
        "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
        "pod": build_template_wire(containers=[container]),
    }
    role = build_role_wire(task=task, frameworkAttemptCompletionPolicy=FAIL_FAST)
    body = build_submission("gang", role)
    path = tmp_path / "gang.yaml"
    path.write_text(yaml.safe_dump(body))
    return path


@pytest.mark.parametrize("status", keep_first(["422", "401", "403", "404", "409", "500"]))
def test_run_and_logs_of_a_hostile_server_print_no_control_characters(
    status: str, file: Path
) -> None:
    with serve(status, HOSTILE_MESSAGE) as url:
        for command in (["run", str(file)], ["logs", "gang"]):
            code, shown = call(*command, KUBE_APISERVER_ADDRESS=url)
            assert code != 0
            assert find_bad(shown, "\n") == set()
            assert not any(line.startswith("error: fake") for line in shown.splitlines())


@pytest.mark.local
def test_run_and_logs_of_a_hostile_container_print_no_control_characters(
    file: Path, tmp_path: Path
) -> None:
    state = str(tmp_path / "state")
    code, shown = call("run", "--local", "--directory", state, str(file))
    assert code == ExitCode.FAILED, shown
    assert "shown" in shown
    assert find_bad(shown, "\n") == set()
    code, shown = call("logs", "gang", "--directory", state)
    assert code == ExitCode.SUCCEEDED
    assert shown == "\\x1b]52;c;eA==\\x07shown \\x9b31m \\u202e green\n"
    code, shown = call("logs", "gang", "--directory", state, "--raw")
    assert shown == "\x1b]52;c;eA==\x07shown \x9b31m \u202e \x1b[32mgreen\x1b[0m\n"
