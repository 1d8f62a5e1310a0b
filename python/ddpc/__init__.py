"""ddpc for Python: what the `ddpc` command knows about a model, asked from a program.

The package needs the standard library alone; `ddpc.torch` also needs PyTorch.
"""

__version__ = "0.1.0"


class Error(Exception):
    """What went wrong, in the words of the tool.

    `code` is the exit status of the `ddpc` command where one was run (1: the input is rejected; 2: usage, or a file
    that cannot be read; 3: an internal error), else None.
    """

    def __init__(self, text: str, code: "int | None" = None):
        super().__init__(text)
        self.code = code
