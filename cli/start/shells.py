"""The program ``kubectl_complete-framework``, which kubectl calls for its plugin."""

import gc
import sys

from cli.shells import complete_for_kubectl


def complete_plugin() -> None:
    """Print the completion of the words that kubectl gives."""
    gc.disable()
    from cli.main import main
    from cli.terminal import end_program, print_document

    lines = complete_for_kubectl(main, sys.argv[1:])
    print_document("".join(f"{line}\n" for line in lines), keep="\n\t")
    end_program(0)
