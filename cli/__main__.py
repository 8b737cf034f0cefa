"""The entry point: ``framework``, ``kubectl-framework`` and ``python -m cli``.

Loading the command line takes a moment. A Ctrl-C in this time ends the program with the same exit
code as later. Nothing else belongs here.
"""

from typing import NoReturn


def main() -> NoReturn:
    """Load and run the command line."""
    try:
        from cli.main import main as run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    raise SystemExit(0)


if __name__ == "__main__":
    main()
