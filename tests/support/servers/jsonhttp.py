"""A blocking JSON client of an API server, for the preparations and checks of tests.

It does not use ``framework.kube``, because it checks that client.
"""

import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from tests.support.waiting import HANG_SECONDS


class JsonHttp:
    """Requests with a bearer token; without a proxy, because servers of tests are local."""

    def __init__(self, url: str, token: str, ca_file: str | None) -> None:
        self._url = url.rstrip("/")
        self._token = token
        opener: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if self._url.startswith("https"):
            context = ssl.create_default_context(cafile=ca_file)
            opener.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*opener)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
    ) -> tuple[int, Any]:
        """Send a request; return status code and decoded body (text if Python cannot decode it).

        A body of bytes is sent unchanged.

        Raises:
            OSError: no answer.
        """
        is_encoded = body is None or isinstance(body, bytes)
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=body if is_encoded else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": content_type},
        )
        try:
            with self._opener.open(request, timeout=HANG_SECONDS) as response:
                return response.status, _decode(response.read())
        except urllib.error.HTTPError as e:
            with e:
                return e.code, _decode(e.read())

    def is_ready(self, path: str) -> bool:
        try:
            return self.request("GET", path)[0] == 200
        except OSError:
            return False


def _decode(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        return answer.decode(errors="replace")
