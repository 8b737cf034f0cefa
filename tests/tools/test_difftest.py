"""The driver of the differential suites repeats a replay that was too fast, and no other."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.local, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
# It fails the replays of the folder whose recording asks for more seconds than it waits.
REPLAYS = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[sys.argv.index("--dir") + 1])
settle = float(sys.argv[sys.argv.index("--settle") + 1]) if "--settle" in sys.argv else 1.1
bad = [p.stem for p in sorted(folder.iterdir()) if json.loads(p.read_text()) > settle]
for seed in bad:
    print("FAIL", seed, "AssertionError", flush=True)
print(f"{len(bad)} failed")
sys.exit(bool(bad))
"""


def run(folder: Path, needed_seconds: dict[int, float]) -> subprocess.CompletedProcess[str]:
    (folder / "fuzz").mkdir()
    (folder / "run.py").write_text("")
    (folder / "fuzz.py").write_text(REPLAYS)
    for seed, seconds in needed_seconds.items():
        (folder / "fuzz" / f"{seed}.json").write_text(str(seconds))
    command = [sys.executable, "-m", "tests.kube.difftest", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def test_replay_that_needs_longer_waits_is_made_again_and_passes(tmp_path: Path) -> None:
    done = run(tmp_path, {3: 0.5, 7: 2.0})
    assert "again, with longer waits: 7" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("count", [1, 41])
def test_replay_that_departs_fails(tmp_path: Path, count: int) -> None:
    done = run(tmp_path, dict.fromkeys(range(count), 99.0))
    assert ("again" in done.stdout) == (count == 1)
    assert done.returncode == 1


def test_folder_without_suites_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.kube.difftest", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 2
    assert "there is no run.py" in done.stderr
