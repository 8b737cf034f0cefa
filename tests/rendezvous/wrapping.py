"""Commands that `rendezvous run` starts, in a shell."""

from contextlib import AbstractContextManager

from tests.rendezvous.agents import (
    AgentProcess,
    Gang,
    list_children,
    run_agent,
)

SHOW = "echo generation $FB_GENERATION world $WORLD_SIZE rank $RANK"
HOLD = f"trap 'echo got TERM; exit 7' TERM; {SHOW}; while :; do sleep 0.05; done"


def wrap(gang: Gang, script: str, *flags: str) -> AbstractContextManager[AgentProcess]:
    return run_agent(gang.env, "run", *flags, "--", "sh", "-c", script)


def run_shell(gang: Gang, script: str, *flags: str) -> "tuple[int, str]":
    with wrap(gang, script, *flags) as agent:
        return agent.wait(), agent.text


def find_command(agent: AgentProcess) -> int:
    (pid,) = list_children(agent.process.pid)
    return pid
