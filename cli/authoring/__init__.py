"""Help with writing Frameworks: what to add to one (`inject`) and what is wrong in one (`lint`).

Called by ``cli.main``. ``injection`` and ``rules`` are pure; ``commands`` reads and writes the
files.
"""
