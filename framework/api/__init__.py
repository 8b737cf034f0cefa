"""The model of a Framework: pure, standard library only.

No module reads a clock, does I/O or logs. This file imports nothing, because the zipapp of the
agents contains only some of the modules.
"""
