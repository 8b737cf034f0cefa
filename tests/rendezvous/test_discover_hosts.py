"""discover_hosts.sh, run by every shell there is: complete lists only, whatever the volume does."""

import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from rendezvous.renderers.horovod import DISCOVERED, SCRIPT_NAME, render_script
from tests.rendezvous.hostile import SHELLS, find_shell
from tests.support.waiting import HANG_SECONDS


def write_generation(volume: Path, number: int, count: int) -> None:
    """One generation as the writer makes it: a directory, then the link renamed over."""
    generation = volume / f"gen-{number}"
    generation.mkdir()
    lines = [f"10.0.{number}.{i}:{count}\n" for i in range(count)]
    (generation / DISCOVERED.name).write_text("".join(lines))
    (volume / "next").symlink_to(f"gen-{number}")
    (volume / "next").rename(volume / "current")


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "volume").mkdir()
    return tmp_path / "volume"


def write_script(volume: Path, directory: Path) -> Path:
    script = volume / SCRIPT_NAME
    script.write_bytes(render_script(str(directory)))
    script.chmod(0o555)
    return script


def run(shell: list[str], script: Path, path: str = os.environ["PATH"]) -> tuple[int, str, str]:
    ran = subprocess.run(
        [*shell, str(script)],
        cwd=script.parent.parent,
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    return ran.returncode, ran.stdout, ran.stderr


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    return find_shell(request.param)


def test_script_beside_the_files_prints_them(shell: list[str], volume: Path) -> None:
    script = write_script(volume, Path("/nowhere"))
    write_generation(volume, 1, 2)
    assert run(shell, script) == (0, "10.0.1.0:2\n10.0.1.1:2\n", "")


def test_script_run_by_itself_prints_the_files(volume: Path) -> None:
    write_script(volume, Path("/nowhere"))
    write_generation(volume, 1, 1)
    ran = subprocess.run(
        f"./{SCRIPT_NAME}", shell=True, cwd=volume, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "10.0.1.0:1\n"


@pytest.mark.parametrize(
    "name", ["a b", "it's", "$(touch canary)", '"', "`id`", "{file}", "%s", "-n", "*", "é\\n"]
)
def test_copied_script_finds_a_volume_of_any_name(
    name: str, shell: list[str], tmp_path: Path
) -> None:
    volume = tmp_path / name
    elsewhere = tmp_path / "elsewhere"
    volume.mkdir()
    elsewhere.mkdir()
    script = write_script(elsewhere, volume)
    write_generation(volume, 1, 1)
    assert run(shell, script) == (0, "10.0.1.0:1\n", "")
    assert not list(tmp_path.rglob("canary"))


def test_script_without_the_link_prints_the_newest_generation(
    shell: list[str], volume: Path
) -> None:
    script = write_script(volume, volume)
    for number in (2, 9, 10):
        write_generation(volume, number, 1)
    (volume / "gen-x").mkdir()
    (volume / "gen-11").mkdir()  # not written whole
    (volume / "current").unlink()
    assert run(shell, script) == (0, "10.0.10.0:1\n", "")


@pytest.mark.parametrize("name", ["dash", "bash"])
def test_script_whose_read_breaks_off_prints_nothing_of_it(
    name: str, volume: Path, tmp_path: Path
) -> None:
    script = write_script(volume, volume)
    write_generation(volume, 1, 2)
    # As if the generation went away in the middle of the read: half a file, and a failure.
    real = shutil.which("cat")
    stub = tmp_path / "bin" / "cat"
    stub.parent.mkdir()
    stub.write_text(
        f'#!/bin/sh\nif [ -e {volume}/broken ]; then exec {real} "$@"; fi\n'
        f": > {volume}/broken\necho 10.0.1.0:\nexit 1\n"
    )
    stub.chmod(0o755)
    path = f"{stub.parent}{os.pathsep}{os.environ['PATH']}"
    assert run(find_shell(name), script, path) == (0, "10.0.1.0:2\n10.0.1.1:2\n", "")
    assert (volume / "broken").exists()


def test_script_before_the_first_generation_fails_and_says_so(volume: Path) -> None:
    script = write_script(volume, volume)
    code, text, fault = run(["sh"], script)
    assert (code, text) == (1, "")
    assert "has the rendezvous agent written it?" in fault


def test_script_called_during_rescales_always_prints_one_whole_generation(volume: Path) -> None:
    script = write_script(volume, volume)
    write_generation(volume, 1, 3)
    ended = threading.Event()

    def rescale() -> None:
        number = 1
        while not ended.wait(0.0005):
            number += 1
            write_generation(volume, number, 3 + number % 4)
            old = volume / f"gen-{number - 1}"
            for entry in old.iterdir():
                entry.unlink()
            old.rmdir()  # at once: worse than the writer does

    writer = threading.Thread(target=rescale)
    writer.start()
    try:
        calls = int(os.environ.get("FRAMEWORKBARRIER_DISCOVERY_CALLS", "200"))
        for _ in range(calls):
            code, text, _ = run(["sh"], script)
            lines = text.splitlines()
            assert code == 0
            slots = {line.partition(":")[2] for line in lines}
            assert slots == {str(len(lines))}
            assert len({line.rpartition(".")[0] for line in lines}) == 1
    finally:
        ended.set()
        writer.join()
