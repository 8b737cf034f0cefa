"""The client of the API server for the controller, the local cluster and the command line.

It uses aiohttp. The agents in Pods use ``framework.agent`` instead, which needs only the standard
library.

``resources``: kinds and their paths · ``config``: server and credentials · ``client``: requests ·
``listwatch``: a list and its changes, for ever · ``errors``: the errors of requests.
"""
