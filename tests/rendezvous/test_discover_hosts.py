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


def write_script(volume: Path, directory: Path) -> Path:
    volume.mkdir(exist_ok=True)
    script = volume / SCRIPT_NAME
    script.write_bytes(render_script(str(directory)))
    script.chmod(0o555)
    return script


def run(shell: list[str], script: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*shell, str(script)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> list[str]:
    return find_shell(request.param)


def test_script_beside_the_files_prints_them(shell: list[str], tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    script = write_script(volume, Path("/nowhere"))
    write_generation(volume, 1, 2)
    ran = run(shell, script, tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "10.0.1.0:2\n10.0.1.1:2\n", "")


def test_script_run_by_itself_prints_the_files(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
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
    script = write_script(elsewhere, volume)
    volume.mkdir()
    write_generation(volume, 1, 1)
    ran = run(shell, script, tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "10.0.1.0:1\n", "")
    assert not list(tmp_path.rglob("canary"))


def test_script_without_the_link_prints_the_newest_generation(
    shell: list[str], tmp_path: Path
) -> None:
    volume = tmp_path / "volume"
    script = write_script(volume, volume)
    for number in (2, 9, 10):
        write_generation(volume, number, 1)
    (volume / "gen-x").mkdir()
    (volume / "gen-11").mkdir()  # not written whole
    (volume / "current").unlink()
    ran = run(shell, script, tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "10.0.10.0:1\n")


@pytest.mark.parametrize("name", ["dash", "bash"])
def test_script_whose_read_breaks_off_prints_nothing_of_it(name: str, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
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
    ran = subprocess.run(
        [*find_shell(name), str(script)],
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert (volume / "broken").exists()
    assert (ran.returncode, ran.stdout) == (0, "10.0.1.0:2\n10.0.1.1:2\n")


def test_script_before_the_first_generation_fails_and_says_so(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    script = write_script(volume, volume)
    ran = run(["sh"], script, tmp_path)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "has the rendezvous agent written it?" in ran.stderr


def test_script_called_during_rescales_always_prints_one_whole_generation(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
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
            ran = run(["sh"], script, tmp_path)
            lines = ran.stdout.splitlines()
            assert ran.returncode == 0
            slots = {line.partition(":")[2] for line in lines}
            assert slots == {str(len(lines))}
            assert len({line.rpartition(".")[0] for line in lines}) == 1
    finally:
        ended.set()
        writer.join()
