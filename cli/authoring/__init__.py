"""Commands that help to write Frameworks: `inject` adds the agents, `lint` finds faults.

``injection`` and ``rules`` are pure; ``commands`` reads and writes the files.
"""
