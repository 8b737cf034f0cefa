"""Requests of the client: paths with queries, limits of time and size. No I/O."""

from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import quote, urlencode

import aiohttp

from framework.kube.pages import MAX_PAGE_BYTES
from framework.kube.transport import Request

Query: TypeAlias = Mapping[str, str | int | None]
"""The parameters of a request; a parameter that is None is left out."""


def build_timeout(timeout_seconds: float) -> aiohttp.ClientTimeout:
    """Build the limit of time of a request and its answer together."""
    return aiohttp.ClientTimeout(total=timeout_seconds)


def build_page_request(path: str, query: Query, timeout_seconds: float) -> Request:
    """Build the request for a page of a list, with a limit of its size."""
    target = append_query(path, query)
    return Request("GET", target, build_timeout(timeout_seconds), max_answer_bytes=MAX_PAGE_BYTES)


def build_raw_request(path: str, timeout: aiohttp.ClientTimeout) -> Request:
    """Build the request for a text, such as a log."""
    # The server answers 406 to a request that accepts only JSON.
    return Request("GET", path, timeout, None, {"Accept": "*/*"})


def append_query(path: str, query: Query) -> str:
    """Append the parameters to a path."""
    stated = {key: value for key, value in query.items() if value is not None}
    return f"{path}?{urlencode(stated, quote_via=quote)}" if stated else path
