"""URLs that carry a bearer token as the first part of the path: ``/token/TOKEN/api/v1/...``.

kubectl and every other Go client send no credentials over plain HTTP, neither those of flags nor
those of a kubeconfig, but keep the path of the server's URL. The local API server accepts a token
there, and its kubeconfig has it.
"""

from urllib.parse import quote

TOKEN_PREFIX = "/token/"


def url_with_token(url: str, token: str) -> str:
    """Return the server URL for clients that send no token, such as kubectl."""
    return f"{url.rstrip('/')}{TOKEN_PREFIX}{quote(token, safe='')}"
