"""`python -m warmstart`: the command, which inspects caches and packs."""

import signal
import sys

from ._warmstart import run_command

if __name__ == "__main__":
    # The command has no Python code that could be interrupted.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(run_command(sys.argv[1:]))
