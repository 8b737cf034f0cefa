"""What a Framework is: pure, standard library only.

Called by every room. Nothing here reads a clock, does I/O or logs. This module imports
nothing, because the agents' zipapp carries few of its modules.
"""
