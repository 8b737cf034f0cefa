"""The client of the API server for the controller, the local cluster and the command line.

It uses aiohttp. The agents in Pods use ``framework.agent`` instead, which needs only the standard
library. The modules by their purpose:

- Resources: ``resources`` has their kinds and paths.
- Server and credentials: ``config`` finds them, ``kubeconfig`` reads files, ``credentials`` has
  tokens, ``execplugin`` runs a program that prints a token, ``tokenurl`` puts one into a URL.
- Requests: ``client`` has a method per verb, ``requests`` builds them, ``transport`` and ``tls``
  send them, ``throttle`` limits their rate, ``errors`` are their errors.
- Lists and watches: ``listwatch`` keeps a sink equal to the server, ``backoff`` has its pauses,
  ``pages`` and ``pagejson`` read lists, ``stream`` reads watches.
- Memory: ``deferred`` decodes objects when they are needed, ``keptjson`` limits the others,
  ``nodes`` reads only a part of a Node.
"""
