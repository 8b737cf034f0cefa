"""Reads the Events of a Framework."""

from contextlib import aclosing

from cli.objects import read_key
from cli.see.eventlog import EventLog
from framework.kube.client import PAGE_SIZE, KubeClient
from framework.kube.resources import EVENTS, Object


async def read_events(
    client: KubeClient, framework: Object, event_type: str | None = None
) -> EventLog:
    """Read the Events of a Framework, page by page.

    Args:
        client: returns objects.
        framework: as stored.
        event_type: Normal or Warning; None for both.

    Raises:
        KubeError: the server does not answer, or refuses.
    """
    log = EventLog(framework)
    fields = None if event_type is None else f"type={event_type}"
    namespace = read_key(framework)[0]
    pages = client.list_pages(EVENTS, namespace, field_selector=fields, limit=PAGE_SIZE)
    async with aclosing(pages):
        async for page, is_restart in pages:
            if is_restart:
                log = EventLog(framework)
            log.add(page["items"])
    return log
