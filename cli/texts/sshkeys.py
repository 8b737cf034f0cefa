"""The commands that create the Secret with the ssh key of a TrainingJob. Pure."""

KEY_FILES = ("id_rsa", "id_rsa.pub", "config")
MAKE_FILES = (
    'ssh-keygen -q -t ed25519 -N "" -f id_rsa',
    "printf 'StrictHostKeyChecking no\\nUserKnownHostsFile /dev/null\\n' > config",
)
"""The commands that make the files."""
FROM_FILES = tuple(f"--from-file={name}" for name in KEY_FILES)
"""The arguments of ``kubectl create secret generic`` that read them."""
