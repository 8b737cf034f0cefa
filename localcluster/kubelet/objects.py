"""Reads the ConfigMaps and Secrets that a Pod refers to."""

import asyncio
from collections.abc import Iterable

from framework.kube.client import KubeClient
from framework.kube.errors import NotFoundError
from framework.kube.resources import Object
from localcluster.kubelet.environment import Reference, Sources


async def fetch_sources(
    client: KubeClient, namespace: str, references: Iterable[Reference]
) -> Sources:
    """Read the objects, all at the same time; None for an object that does not exist.

    Raises:
        KubeError: an object cannot be read.
    """

    async def fetch(reference: Reference) -> Object | None:
        resource, name = reference
        try:
            return await client.get(resource, namespace, name)
        except NotFoundError:
            return None

    wanted = sorted(references, key=lambda reference: (reference[0].plural, reference[1]))
    found = await asyncio.gather(*map(fetch, wanted))
    return dict(zip(wanted, found, strict=True))
