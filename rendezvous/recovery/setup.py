"""Starts the recovery of this Pod, if the roster says that its role restarts in place.

Such a Pod needs the gang key, because the start barrier authenticates its connections; a rank,
because the start barrier waits for the ranks; and acknowledgements, because reports use the same
right.
"""

import os
import threading
from typing import Mapping, Optional

from framework.agent.access import Access
from framework.api import constants
from framework.api.roster import Roster
from rendezvous.agent import Agent, Setup
from rendezvous.core.refusal import RefusedError
from rendezvous.notify.acknowledge import NO_RESTART, Acknowledger
from rendezvous.notify.reportsender import ReportSender
from rendezvous.process.wrapper import Wrapper
from rendezvous.recovery.recovery import OwnPod, Recovery
from rendezvous.settings.inplace import list_faults
from rendezvous.settings.kinds import RANKED_KINDS, map_roles


def start_recovery(
    setup: Setup, env: Mapping[str, str], access: Access, agent: Agent, wrapper: Wrapper
) -> Optional[Recovery]:
    """Start the recovery of this Pod; None if its role does not restart in place.

    Raises:
        RefusedError: One of the things that it needs is missing.
    """
    roster = agent.roster
    if roster is None or not _is_wanted(setup, roster):
        return None
    _check(setup, env, roster)
    # The package ``peers`` finds the volume by this variable.
    os.environ[constants.WORKING_DIR_ENV] = setup.options.directory
    reports = Acknowledger(
        access, setup.clock, setup.target, setup.reporter, NO_RESTART, repeats_refused=True
    )
    own_pod = OwnPod(
        setup.target.identity.pod_uid, setup.options.stop_grace_seconds, lambda: agent.env
    )
    sender = ReportSender(reports, setup.reporter)
    sender.start()
    recovery = Recovery(own_pod, wrapper, sender, setup.reporter, setup.clock)
    wrapper.hooks = wrapper.hooks._replace(
        after_end=recovery.follow_end, after_gone=recovery.follow_gone
    )
    agent.on_recovery = recovery.observe
    recovery.observe(roster, True)  # noqa: FBT003  a callback
    threading.Thread(target=recovery.run, name="recovery", daemon=True).start()
    return recovery


def _is_wanted(setup: Setup, roster: Roster) -> bool:
    return roster.recovery is not None and setup.target.identity.role in roster.recovery.roles


def _check(setup: Setup, env: Mapping[str, str], roster: Roster) -> None:
    from rendezvous.site.peers import GangKeyError, read_gang_key

    try:
        key = read_gang_key(setup.target.identity.instance_uid, env)
    except GangKeyError as e:
        raise RefusedError(f"recovery.inPlace: {e}") from e
    if key is None:
        raise RefusedError(
            "recovery.inPlace: no gang key is mounted; mount the Secret NAME-gang-key at "
            "/var/run/frameworkbarrier, or name its file in FB_GANG_KEY_FILE; or remove "
            "recovery.inPlace (docs/rendezvous.md, Gang key)"
        )
    roles = roster.recovery.roles if roster.recovery else ()
    for fault in list_faults(setup.options, roles):
        raise RefusedError(f"recovery.inPlace: {fault}")
    kinds = map_roles([role.name for role in roster.roles], setup.options.roles)
    ranked = [role.name for role in roster.roles if kinds[role.name] in RANKED_KINDS]
    if set(ranked) != set(roles):
        raise RefusedError(
            f"recovery.inPlace: the roles that compute are {', '.join(ranked)}, but it is given to "
            f"{', '.join(roles)}; give it to exactly the roles that compute"
        )
