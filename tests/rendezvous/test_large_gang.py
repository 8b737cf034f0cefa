"""A gang of 10,000 members, with a real agent: its command starts, and programs start from it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rendezvous.agents import Publisher, read_changes, run_agent
from tests.rendezvous.gangs import build_gang
from tests.support.servers.controlplane import Access
from tests.support.waiting import wait_until

pytestmark = pytest.mark.local

MEMBERS = 10_000
SCRIPT = """
echo "rank $RANK of $WORLD_SIZE"
tr , '\\n' <"$FB_WORKER_ADDRESSES_FILE" | wc -l
wc -l <"${BARRIER_WORKING_DIR}/current/hosts.openmpi"
sh "$BARRIER_WORKING_DIR/discover_hosts.sh" | wc -l
. "$BARRIER_WORKING_DIR/current/env.sh" && exec env sh -c 'echo "env of $FB_SIZE"'
"""
HOLD = "trap 'exit 0' TERM; echo started; while :; do sleep 0.05; done"


def test_gang_of_ten_thousand_starts_its_command(
    api: Access, open_gang: Callable[[], Publisher], tmp_path: Path
) -> None:
    publisher = open_gang()
    publisher.publish(build_gang(MEMBERS))
    env = publisher.build_env(api.url, api.token, tmp_path / "volume", "worker", 9_999)
    with run_agent(env, "run", "--", "sh", "-c", SCRIPT) as agent:
        assert agent.wait() == 0, agent.text
    for line in ("rank 9999 of 10000", "env of 10000"):
        assert line in agent.text
    assert agent.text.split().count("10000") >= 3, agent.text


def test_change_of_ten_thousand_members_reaches_a_command(
    api: Access, open_gang: Callable[[], Publisher], tmp_path: Path
) -> None:
    """What was added is too long for a variable; the JSON on the command's input has it all."""
    publisher = open_gang()
    publisher.publish(build_gang(2))
    env = publisher.build_env(api.url, api.token, tmp_path / "volume", "worker", 0)
    told = tmp_path / "told"
    env.update(FB_DEBOUNCE_SEC="0", FB_NOTIFY_COMMAND=f"cat >>{told}")
    with run_agent(env, "run", "--", "sh", "-c", HOLD) as agent:
        agent.wait_for("started")
        publisher.publish(build_gang(MEMBERS)._replace(generation=2))
        wait_until(lambda: told.exists() and told.read_text().endswith("\n"))
        (change,) = read_changes(told)
    assert len(change["added"]) == MEMBERS - 2
    assert change["added"][-1]["index"] == MEMBERS - 1
