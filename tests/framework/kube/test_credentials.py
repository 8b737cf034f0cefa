import asyncio
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from framework.clock import ManualClock
from framework.kube.credentials import PluginToken, TokenFile, TokenUnavailableError
from tests.support.builders.cases import cases

START = datetime(2026, 1, 1, tzinfo=UTC)
KIND = b'"kind": "ExecCredential"'


@pytest.mark.parametrize("is_link", [False, True])
async def test_token_file_replaced_gives_the_new_token(tmp_path: Path, *, is_link: bool) -> None:
    """The kubelet replaces the link to a directory; other programs replace the file."""
    path = tmp_path / "current" / "token" if is_link else tmp_path / "token"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name + "\n")
    source = TokenFile(str(path))
    for name in ("one", "two"):
        if is_link:
            (tmp_path / "link").symlink_to(name)
            (tmp_path / "link").replace(tmp_path / "current")
        else:
            (tmp_path / name / "token").replace(path)
        assert await source.fetch() == name


async def test_token_file_with_unchanged_times_is_read_again_when_rejected(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    source = TokenFile(str(path))
    await source.fetch()
    status = path.stat()
    path.write_text("two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert await source.fetch() == "one"
    assert await source.renew("one") == "two"
    # A file that is absent for a moment does not take the token away.
    path.unlink()
    assert await source.fetch() == "two"
    assert await source.renew("two") == "two"


@pytest.mark.parametrize("content", [None, b"", b" \n", b"a b", b"two\nlines", b"\xff\xfe"])
async def test_token_file_without_a_token_raises_without_showing_it(
    content: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TokenUnavailableError, match="token"):
        await TokenFile(str(path)).fetch()


class Plugin:
    """An exec plugin: a script that prints a numbered token and counts its runs."""

    def __init__(self, directory: Path, status: object = None, code: str = "") -> None:
        self._runs = directory / "runs"
        self._runs.write_text("")
        script = directory / "plugin.py"
        script.write_text(
            "import json\n"
            f"open({str(self._runs)!r}, 'a').write('x')\n"
            f"n = len(open({str(self._runs)!r}).read())\n"
            f"{code}\n"
            f"status = {{'token': f'token{{n}}', **{status or {}!r}}}\n"
            "print(json.dumps({'apiVersion': 'v1', 'kind': 'ExecCredential', 'status': status}))\n"
        )
        self.spec = {"command": sys.executable, "args": [str(script)], "apiVersion": "v1"}
        self.clock = ManualClock(START)
        self.source = PluginToken(self.spec, self.clock)

    @property
    def run_count(self) -> int:
        return len(self._runs.read_text())


async def test_plugin_runs_once_for_many_requests_or_rejections(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    fetched = await asyncio.gather(*(plugin.source.fetch() for _ in range(5)))
    assert (fetched, plugin.run_count) == (["token1"] * 5, 1)
    renewed = await asyncio.gather(*(plugin.source.renew("token1") for _ in range(3)))
    assert (renewed, plugin.run_count) == (["token2"] * 3, 2)


async def test_plugin_runs_again_before_its_token_expires(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, {"expirationTimestamp": "2026-01-01T01:00:00Z"})
    await plugin.source.fetch()
    plugin.clock.advance(3500)
    assert await plugin.source.fetch() == "token1"
    plugin.clock.advance(80)
    assert await plugin.source.fetch() == "token2"


@cases(
    "printed expected",
    {
        "no token": (b'{%b, "apiVersion": "v1", "status": {"token": ""}}' % KIND, "no token"),
        "list": (b"[]", "not an ExecCredential"),
        "other kind": (b'{"kind": "Status"}', "not an ExecCredential"),
        "other version": (b'{%b, "apiVersion": "v2"}' % KIND, "answers as 'v2'"),
        "no status": (b'{%b, "apiVersion": "v1", "status": []}' % KIND, "no status"),
        "no UTF-8": (b"\xff", "not JSON"),
        "two values": (b"noise\n{}", "failed.*not JSON"),
    },
)
async def test_plugin_that_prints_no_token_is_reported(
    printed: bytes, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "printed").write_bytes(printed)
    spec = {"command": "/bin/cat", "args": [str(tmp_path / "printed")], "apiVersion": "v1"}
    with pytest.raises(TokenUnavailableError, match=expected):
        await PluginToken(spec, ManualClock(START)).fetch()


@pytest.mark.parametrize(
    ("command", "expected"),
    [("/bin/false", "returned 1"), ("/nowhere/plugin", r"/nowhere/plugin.*No such file")],
)
async def test_plugin_that_fails_is_reported(command: str, expected: str) -> None:
    with pytest.raises(TokenUnavailableError, match=expected):
        await PluginToken({"command": command, "apiVersion": "v1"}, ManualClock(START)).fetch()


async def test_plugin_gets_its_environment_and_exec_info(tmp_path: Path) -> None:
    code = f"import os; open({str(tmp_path / 'env')!r}, 'w').write(json.dumps(dict(os.environ)))"
    plugin = Plugin(tmp_path, code=code)
    variables = [{"name": "CLUSTER", "value": "one"}]
    spec = {**plugin.spec, "env": variables, "interactiveMode": "Never"}
    await PluginToken(spec, ManualClock(START)).fetch()
    env = json.loads((tmp_path / "env").read_text())
    assert (env["CLUSTER"], env["PATH"]) == ("one", os.environ["PATH"])
    assert json.loads(env["KUBERNETES_EXEC_INFO"]) == {
        "apiVersion": "v1",
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }


async def test_plugin_that_writes_much_to_stderr_gives_its_token(tmp_path: Path) -> None:
    # A pipe holds less: the plugin blocks unless both its outputs are read.
    code = "import sys; sys.stderr.write('x' * 2**20); sys.stderr.flush()"
    assert await Plugin(tmp_path, code=code).source.fetch() == "token1"


async def test_plugin_ends_with_the_request_that_waits_for_it(tmp_path: Path) -> None:
    path = tmp_path / "open"
    os.mkfifo(path)
    code = (
        "import os, time\n"
        "child = os.fork()\n"
        f"opened = open({str(path)!r}, 'wb', buffering=0)\n"
        "opened.write(b'%d\\n' % os.getpid()) if child else None\n"
        "time.sleep(600)"
    )
    request = asyncio.create_task(Plugin(tmp_path, code=code).source.fetch())
    with await asyncio.to_thread(path.open, "rb", buffering=0) as pipe:
        pid = int(await asyncio.to_thread(pipe.readline))
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        # The child of the plugin has ended, too: it held the other end.
        assert await asyncio.to_thread(pipe.read) == b""
    # Neither a process nor a zombie is left, whose open pipes Python would warn of later.
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
