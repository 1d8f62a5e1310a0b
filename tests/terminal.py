#!/usr/bin/env python3
"""What ddpc says only to a person: terminal.py BUILD. On a terminal a compilation ends in a line for each step, and
diagnostics have colour; in a pipe neither. Skipped (77) where the machine has no pseudo terminals."""
import os
import pathlib
import pty
import subprocess
import sys
import tempfile

LIST = "".join(f"p{i} float32 1024x1024 {410 - 10 * i}\n" for i in range(1, 41))


def on_terminal(*command, cwd):
    """What the command writes on a terminal that is its standard error."""
    leader, follower = pty.openpty()
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=follower) as process:
        os.close(follower)
        said = b""
        try:
            while part := os.read(leader, 4096):
                said += part
        except OSError:  # the last writer is gone
            pass
    os.close(leader)
    return said.decode().replace("\r\n", "\n")


def in_pipe(*command, cwd):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, encoding="utf-8").stderr


def main(build):
    ddpc = str(build.resolve() / "ddpc")
    robust = ("step train: 4 buckets, finish 743.4 µs, exposed 343.4 µs, within 0.000 % of the optimum, "
              "worst regret 29.553 %\n")
    single = "step train: 1 bucket, finish 1041.8 µs, exposed 641.8 µs, within 59.833 % of the lower bound\n"
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "list").write_text(LIST)
        pathlib.Path(folder, "broken.ir").write_text("no model\n")
        compile_list = (ddpc, "--from-list", "list", "-o", "plan")
        for flags, expected in ((), robust), (("--schedule=single",), single):
            said = on_terminal(*compile_list, *flags, cwd=folder)
            assert said == expected, (flags, said)
            said = in_pipe(*compile_list, *flags, cwd=folder)
            assert said == "", (flags, said)
        check = (ddpc, "check", "broken.ir")
        for said, coloured in (on_terminal(*check, cwd=folder), True), (in_pipe(*check, cwd=folder), False), (
                on_terminal(*check, "--color=never", cwd=folder), False):
            assert "DDP0" in said and ("\x1b[" in said) == coloured, said
    print("a terminal gets the line of each step and colour, a pipe neither")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: terminal.py BUILD")
    try:
        os.close(os.openpty()[0])
    except OSError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    main(pathlib.Path(sys.argv[1]))
