"""The entry point: ``framework``, ``kubectl-framework`` and ``python -m cli``.

Loading the command line takes a moment. A Ctrl-C in this time ends the program with the same exit
code as later. Nothing else belongs here.
"""

import gc
from typing import Any, NoReturn


def main() -> NoReturn:
    """Load and run the command line."""
    # The imports make many objects and no garbage. `cli.main` turns the collector
    # on before a command runs.
    gc.disable()
    try:
        from cli.main import main as run

        _run(run)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        gc.enable()
    raise SystemExit(0)


def _run(program: Any) -> None:
    """Run the command line; end at once if no command ran, as after a help text or a completion."""
    try:
        program()
    except SystemExit as e:
        if not program.has_started and isinstance(e.code, int):
            from cli.terminal import end_program

            end_program(e.code)
        raise


if __name__ == "__main__":
    main()
