"""``framework completion``."""

import click

from cli.catalog import SHELLS


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes `framework` in a shell, with the names of your cluster.

    \b
    bash:  source <(framework completion bash)       (in ~/.bashrc)
    zsh:   source <(framework completion zsh)        (in ~/.zshrc, after compinit)
    fish:  framework completion fish | source        (in ~/.config/fish/config.fish)
    """  # noqa: D301 click takes the character for "keep these lines"
    from cli.shells import build_script
    from cli.terminal import print_document

    print_document(build_script(shell, click.get_current_context().find_root().command))
