"""docs/sessions.md: the commands print what the page shows, on a real API server."""

from difflib import unified_diff
from pathlib import Path

import pytest

from framework.kube.client import KubeClient
from tests.kube.sessions.page import PAGE, hide_machine, normalize
from tests.kube.sessions.stage import open_stage
from tests.kube.sessions.story import tell
from tests.kube.sessions.terminal import Terminal
from tests.support.servers.controlplane import Access


@pytest.mark.usefixtures("framework_crd")
async def test_recorded_sessions_are_what_the_commands_print(
    audited_plane: Access,
    kube: KubeClient,
    namespace: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    async with open_stage(audited_plane, kube, namespace, tmp_path) as stage:
        terminal = Terminal(stage.shell, lambda text: hide_machine(text, namespace))
        await tell(terminal, stage)
    page = "\n".join(terminal.page)
    if request.config.getoption("--update-golden"):
        # Times of another day are no change.
        if not PAGE.exists() or normalize(PAGE.read_text()) != normalize(page):
            PAGE.write_text(page)
        return
    recorded, now = normalize(PAGE.read_text()), normalize(page)
    diff = "\n".join(unified_diff(recorded.splitlines(), now.splitlines(), "recorded", "now"))
    assert not diff, f"make sessions, then read the diff:\n{diff}"
