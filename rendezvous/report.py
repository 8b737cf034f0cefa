"""The agent's log, as the environment wants it.

As wrapper it shares stderr with the command, so it says little.
"""

from typing import Mapping

from framework.agent.report import LineReporter
from framework.api import constants


class Reporter(LineReporter):
    """Prints lines."""

    def __init__(self, env: Mapping[str, str]) -> None:
        """Print text, or JSON where the environment asks for it."""
        super().__init__("rendezvous", is_json=env.get(constants.BARRIER_LOG_ENV) == "json")
