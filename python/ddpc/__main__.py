"""The `ddpc` command as `python -m ddpc`, and what the scripts `ddpc` and `ddprun` of an installed package start."""

import os
import sys
from pathlib import Path

from . import Error, command


def main() -> None:
    """Becomes the command of the script's name."""
    name = os.path.basename(sys.argv[0])
    program = str(Path(__file__).parent / "bin" / name)
    try:
        if name == "__main__.py":
            program = command.find()
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {program}: {error.strerror}; build the package again: pip install --force-reinstall ./python")
    except Error as error:
        sys.exit(f"ddpc: {error}")


if __name__ == "__main__":
    main()
