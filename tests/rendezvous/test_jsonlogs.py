"""JSON logs of a TfJob: real Python processes, with the site folder on their PYTHONPATH."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from framework.kinds.tfjob.compile import _LOGS, _WITH_JSON_LOGS
from tests.support.builders.cases import cases
from tests.support.machine.oldpython import find_old_python
from tests.support.servers.frameworkcrd import ROOT
from tests.support.waiting import HANG_SECONDS

FOLDER = ROOT / "rendezvous" / "site" / "peers_logs"
TAGS = {
    "FC_FRAMEWORK_NAME": "job",
    "FC_TASKROLE_NAME": "worker",
    "FC_TASK_INDEX": "3",
    "FC_TASK_ATTEMPT_ID": "1",
    "FC_FRAMEWORK_ATTEMPT_ID": "0",
}
EXPECTED_TAGS = {"job": "job", "replicaType": "WORKER", "index": 3, "attempt": 1, "jobAttempt": 0}
BASIC = "import logging, sys; logging.basicConfig(level=logging.INFO, stream=sys.stdout); "
MAX_LINE_BYTES = 4096
HIDES_SECRETS = """
import logging
class F(logging.Formatter):
    def format(self, record): return super().format(record).replace('key', '***')
h = logging.StreamHandler()
h.setFormatter(F())
logging.getLogger().addHandler(h)
logging.error('my key')
"""
NO_LINE_FEED = """
import logging
h = logging.StreamHandler()
h.terminator = ''
logging.getLogger().addHandler(h)
logging.error('a')
"""
NESTED_TOO_DEEPLY = """
import logging
d = {}
for _ in range(100_000): d = {'a': d}
logging.error('a', extra={'d': d})
"""
NO_DESCRIPTOR = """
import logging, sys
class Stream:
    write = sys.stderr.write
    def fileno(self): raise NotImplementedError
logging.basicConfig(stream=Stream())
logging.error('a')
"""


def run(
    code: str, *paths: Path, python: str = sys.executable, **env: str
) -> subprocess.CompletedProcess[bytes]:
    path = os.pathsep.join(str(each) for each in (FOLDER, *paths))
    return subprocess.run(
        [python, "-c", code],
        env={"PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", **TAGS, **env},
        capture_output=True,
        check=False,
        timeout=HANG_SECONDS,
    )


def read(output: bytes) -> list[dict[str, Any]]:
    """Decode lines, none of which is longer than a pipe takes at once."""
    assert output.endswith(b"\n") or not output
    lines = output.split(b"\n")[:-1]
    assert all(len(line) < MAX_LINE_BYTES for line in lines)
    return [json.loads(line) for line in lines]


def join(entries: list[dict[str, Any]], name: str = "message") -> str:
    assert [entry["part"] for entry in entries] == list(range(1, len(entries) + 1))
    assert {entry["parts"] for entry in entries} == {len(entries)}
    return "".join(entry.get(name, "") for entry in entries)


def test_oldest_python_writes_the_same() -> None:
    code = BASIC + "logging.getLogger('train').error('Größe %s', 'x' * 9000, extra={'a': 1})"
    done = run(code, python=find_old_python())
    assert (done.stderr, done.returncode) == (b"", 0)
    entries = read(done.stdout)
    assert join(entries) == "Größe " + "x" * 9000
    assert entries[0]["replicaType"] == "WORKER"


def test_record_is_an_object_with_the_tags_of_its_pod() -> None:
    (entry,) = read(run(BASIC + "logging.getLogger('train').info('step %d', 7)").stdout)
    assert entry.pop("time").endswith("Z")
    assert entry == {
        "level": "INFO", "logger": "train", "message": "step 7", **EXPECTED_TAGS,
    }  # fmt: skip


def test_without_the_variables_of_a_pod_there_are_no_tags() -> None:
    empty = dict.fromkeys(TAGS, "") | {"FC_FRAMEWORK_NAME": "x" * 200, "FC_TASK_INDEX": "\x1b"}
    (entry,) = read(run(BASIC + "logging.info('a')", **empty).stdout)
    assert set(entry) == {"time", "level", "logger", "message"}


def test_print_and_tracebacks_stay_as_they_are() -> None:
    done = run("print('loss: 1'); import sys; print('bar', end='\\r', file=sys.stderr); 1/0")
    assert done.stdout == b"loss: 1\n"
    assert done.stderr.startswith(b"bar\rTraceback (most recent call last):\n")
    assert done.stderr.endswith(b"ZeroDivisionError: division by zero\n")


def test_log_files_and_other_streams_stay_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "log"
    code = (
        f"import logging, io; logging.basicConfig(filename={str(file)!r}); "
        "s = io.StringIO(); logging.getLogger().addHandler(logging.StreamHandler(s)); "
        "logging.error('x'); print(s.getvalue(), end='')"
    )
    done = run(code)
    assert file.read_text() == "ERROR:root:x\n"
    assert (done.stdout, done.stderr) == (b"x\n", b"")


@cases(
    "code message",
    last_resort=("import logging; logging.warning('w')", "w"),
    with_a_format=(
        "import logging; logging.basicConfig(format='%(asctime)s %(message)s'); logging.error('e')",
        "e",
    ),
    with_a_formatter_that_hides_secrets=(
        HIDES_SECRETS,
        "my ***",
    ),
    without_a_line_feed_of_its_own=(
        NO_LINE_FEED,
        "a",
    ),
    several_lines=(r"import logging; logging.error('a\nb\r\x1b[2Jc')", "a\nb\r\x1b[2Jc"),
    not_ascii=("import logging; logging.error('Größe 模型 \U0001f600')", "Größe 模型 😀"),
    half_of_a_character=(r"import logging; logging.error('a\ud800')", "a\ud800"),
)
def test_message_is_complete_whatever_the_program_configures(code: str, message: str) -> None:
    (entry,) = read(run(code).stderr)
    assert entry["message"] == message


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "latin-1"])
def test_no_encoding_of_the_stream_loses_a_record(encoding: str) -> None:
    done = run("import logging; logging.error('模型')", PYTHONIOENCODING=encoding)
    assert read(done.stderr)[0]["message"] == "模型"
    assert (b"\\u" not in done.stderr) is (encoding == "utf-8")


def test_exception_stack_and_extra_are_members() -> None:
    code = (
        "import logging\ntry: 1/0\nexcept ZeroDivisionError:\n"
        " logging.exception('bad', stack_info=True, extra={'rank': 3, 'device': object})"
    )
    (entry,) = read(run(code).stderr)
    assert entry["exception"].endswith("ZeroDivisionError: division by zero")
    assert entry["stack"].startswith("Stack (most recent call last):")
    assert entry["extra"] == {"rank": 3, "device": "<class 'object'>"}


@pytest.mark.parametrize("size", [1, 9000])
def test_numbers_that_json_lacks_are_text(size: int) -> None:
    code = (
        "import logging; nan = float('nan'); "
        f"logging.error('x' * {size}, extra={{'loss': nan, 'best': [-float('inf'), 1.5]}})"
    )
    entries = read(run(code).stderr)
    extra = entries[0]["extra"] if len(entries) == 1 else json.loads(join(entries, "extra"))
    assert extra == {"loss": "NaN", "best": ["-Infinity", 1.5]}


def test_name_of_a_job_that_has_digits_only_stays_text() -> None:
    (entry,) = read(run("import logging; logging.error('a')", FC_FRAMEWORK_NAME="007").stderr)
    assert entry == {**entry, "job": "007", "index": 3}


@cases(
    "code text",
    nested_too_deeply=(NESTED_TOO_DEEPLY, b"ERROR:root:a\n"),
    stream_without_a_descriptor=(NO_DESCRIPTOR, b"ERROR:root:a\n"),
)
def test_record_that_cannot_be_json_stays_text_and_the_program_goes_on(
    code: str, text: bytes
) -> None:
    done = run(code + "print('runs')")
    assert (done.stdout, done.stderr) == (b"runs\n", text)


@pytest.mark.parametrize("text", ["x" * 10_000, "\x01" * 5_000, "😀" * 5_000, '\\"' * 5_000])
def test_long_record_becomes_several_short_lines_and_is_complete(text: str) -> None:
    extra = "extra={'e': 'y' * 9000}"
    code = f"import logging; logging.getLogger('😀' * 300).error({text!r}, {extra})"
    entries = read(run(code, PYTHONIOENCODING="ascii").stderr)
    assert join(entries) == text
    assert json.loads(join(entries, "extra")) == {"e": "y" * 9000}
    assert all(entry["job"] == "job" for entry in entries)


def test_record_that_cannot_be_rendered_is_reported_as_by_python() -> None:
    done = run("import logging; logging.error('%d', 'x'); logging.error('next')")
    assert b"--- Logging error ---" in done.stderr
    assert json.loads(done.stderr.splitlines()[-1])["message"] == "next"


def test_lines_of_several_processes_and_threads_do_not_mix() -> None:
    code = (
        "import logging, os, threading\n"
        "def work():\n"
        " for i in range(200): logging.error('%s', str(i) * 900)\n"
        "pids = [os.fork() for _ in range(2)]\n"
        "threads = [threading.Thread(target=work) for _ in range(3)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "0 in pids and os._exit(0)\n"
        "[os.waitpid(p, 0) for p in pids]\n"
    )
    entries = read(run(code).stderr)
    assert len(entries) == 4 * 3 * 200
    assert all(len(set(entry["message"])) <= 3 for entry in entries)


def test_sitecustomize_of_the_image_is_run_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import logging; mark = logging.error('image')\n")
    done = run("import sitecustomize; print(sitecustomize.__file__)", tmp_path)
    assert done.stdout.decode().strip() == str(tmp_path / "sitecustomize.py")
    assert read(done.stderr)[0]["message"] == "image"


def test_program_runs_if_its_own_modules_hide_those_of_logging(tmp_path: Path) -> None:
    (tmp_path / "peers_jsonlogs.py").write_text("")
    path = os.pathsep.join((str(tmp_path), str(FOLDER)))
    done = run("print('runs')", PYTHONPATH=path)
    assert done.stdout == b"runs\n"
    assert done.stderr == b"JSON logs are off: AttributeError\n"


def test_command_keeps_the_pythonpath_of_its_image() -> None:
    show = [sys.executable, "-c", "import os; print(os.environ['PYTHONPATH'])"]
    for before, after in (({}, _LOGS), ({"PYTHONPATH": "/own"}, f"{_LOGS}:/own")):
        done = subprocess.run(
            ["sh", "-c", _WITH_JSON_LOGS, "sh", *show],
            env={"PATH": os.environ["PATH"], **before},
            capture_output=True,
            check=True,
            timeout=HANG_SECONDS,
        )
        assert done.stdout.decode().strip() == after
