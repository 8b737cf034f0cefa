"""The local API server: a deterministic storage engine and a thin HTTP front before it.

The engine (``storage`` and the modules it imports) does no I/O and knows no clock but the one it is
given; the simulator drives it directly. Whatever touches sockets lives in the front's modules.

From the top down; imports go down only, which ``.importlinter`` pins:

    server    starts and stops it, and what every request passes
    front     HTTP: credentials, paths, verbs, payloads, streams
    storage   the engine whole: one call is one request
    views     what goes out: JSON, tables, discovery, OpenAPI
    kinds     rules of one kind: Pods, CRDs and their objects, and the small built-in kinds
    engine    rules of every kind: versions, watches, selectors, writes, deletion, collection
    bodies    what comes in: decoding into the types of Kubernetes, and the four patches
    schemas   the schema language of CRDs: validation, defaults, pruning, rules of our CRD
    model     errors, names, quantities, resource types, metadata
"""
