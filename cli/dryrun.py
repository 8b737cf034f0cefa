"""The values of ``--dry-run``, in the words of kubectl. Pure."""

NO_DRY_RUN, CLIENT, SERVER = DRY_RUNS = ("none", "client", "server")


def describe_dry_run(dry_run: str) -> str:
    """Return the text that kubectl adds to a line in a dry run."""
    return {NO_DRY_RUN: "", CLIENT: " (dry run)", SERVER: " (server dry run)"}[dry_run]
