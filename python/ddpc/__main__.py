"""The `ddpc` command as `python -m ddpc`, and what the scripts `ddpc` and `ddprun` of an installed package start."""

import os
import sys

from . import Error, command


def main() -> None:
    """Becomes the command of the script's name."""
    script = os.path.basename(sys.argv[0])
    name = "ddpc" if script == "__main__.py" else script
    try:
        program = command.carried(name) if name == script else command.find()
        if not program:
            sys.exit(f"{name}: the package has lost its command; install it again: pip install --force-reinstall ./python")
        os.execv(program, [program, *sys.argv[1:]])
    except (Error, OSError) as error:
        sys.exit(f"{name}: {error}")


if __name__ == "__main__":
    main()
