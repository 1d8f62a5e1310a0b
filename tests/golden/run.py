#!/usr/bin/env python3
"""Runs golden tests: one file holds input files, commands and what they must print.

usage: run.py --bin BUILD [--python PYTHON] [--rebase] GOLDEN.test ... DOCUMENT.md ...
       run.py --check-diagnostics DIAGNOSTICS.DEF FOLDER

--bin BUILD   the folder that holds ddpc and ddprun
--python PYTHON
              run the sessions of documents that need PyTorch, and only those, with this interpreter
--rebase      write what the commands did into the goldens instead of comparing; patterns that still
              match stay. Read the difference in git before you commit it.
--check-diagnostics
              every code of the table is provoked by a golden DDPnnnn*.test of FOLDER, whose
              expected stderr shows it

README.md beside this file describes the format. The runner knows nothing of the compiler: it starts
shells in fresh folders and compares text, so a golden reads like the session it records.
"""
import argparse
import difflib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SECONDS = 60  # per command; a golden that needs more is a benchmark
NO_NEWLINE = "<<no newline>>"
LINES = "<<lines>>"
PATTERNS = {
    "<<number>>": r"[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?",
    "<<hex>>": r"[0-9a-f]+",
    "<<any>>": r".*",
}


class Malformed(Exception):
    """A golden that cannot be read; its text is the line shown."""


class Run:
    """One command with its expectation; silence and exit 0 unless the golden says otherwise."""

    def __init__(self, command):
        self.command = command
        self.expected = {"exit": "0", "stdout": [], "stderr": []}


def read_golden(path):
    """-> (lines before the first section, [("file", name, lines) | ("run", Run)])"""
    preface, parts, run, target = [], [], None, None
    for number, line in enumerate(read_lines(path), 1):
        if not line.startswith("=== "):
            (preface if target is None else target).append(line)
            if target is None and line and not line.startswith("#"):
                raise Malformed(f"{path}:{number}: text before the first section that is no comment")
            continue
        word, _, rest = line[4:].partition(" ")
        if word == "file" and rest:
            target = []
            parts.append(("file", rest, target))
        elif word == "run" and rest:
            run, target = Run(rest), []
            parts.append(("run", run))
        elif word == "exit" and run and rest.isdigit():
            run.expected["exit"], target = rest, []
        elif word in ("stdout", "stderr") and run and not rest:
            target = run.expected[word] = []
        else:
            raise Malformed(f"{path}:{number}: no such section: {line}")
    for part in parts:
        if part[0] == "file" and {"/", ".."} & set(pathlib.PurePath(part[1]).parts):
            raise Malformed(f"{path}: a file outside the scratch folder: {part[1]}")
    if not any(part[0] == "run" for part in parts):
        raise Malformed(f"{path}: runs nothing")
    return preface, parts


def write_golden(path, preface, parts):
    out = list(preface)
    for part in parts:
        if part[0] == "file":
            out += [f"=== file {part[1]}", *part[2]]
            continue
        expected = part[1].expected
        out.append(f"=== run {part[1].command}")
        if expected["exit"] != "0":
            out.append(f"=== exit {expected['exit']}")
        for stream in ("stdout", "stderr"):
            if expected[stream]:
                out += [f"=== {stream}", *expected[stream]]
    path.write_text("".join(line + "\n" for line in out), "utf-8", "surrogateescape", newline="\n")


def read_lines(path):
    return split_lines(path.read_text("utf-8", "surrogateescape"))


def split_lines(text):
    """Splits at \\n alone; a last line without one is followed by NO_NEWLINE."""
    lines = text.split("\n")
    return lines[:-1] if not lines[-1] else lines + [NO_NEWLINE]


def line_matches(expected, actual):
    if expected == actual:
        return True
    if "<<" not in expected:
        return False
    pieces = re.split("(" + "|".join(map(re.escape, PATTERNS)) + ")", expected)
    return re.fullmatch("".join(PATTERNS.get(p, re.escape(p)) for p in pieces), actual) is not None


def text_matches(expected, actual):
    """LINES stands for any number of lines, none included; the first fit wins, as with a shell's *."""
    if LINES not in expected:
        return len(expected) == len(actual) and all(map(line_matches, expected, actual))
    blocks = [[]]
    for line in expected:
        if line == LINES:
            blocks.append([])
        else:
            blocks[-1].append(line)
    head, *middle, tail = blocks
    if len(head) + len(tail) > len(actual):
        return False
    if not text_matches(head, actual[: len(head)]):
        return False
    if not text_matches(tail, actual[len(actual) - len(tail) :]):
        return False
    at, end = len(head), len(actual) - len(tail)
    for block in middle:
        while at + len(block) <= end and not text_matches(block, actual[at : at + len(block)]):
            at += 1
        if at + len(block) > end:
            return False
        at += len(block)
    return True


def rebase_text(expected, actual):
    """The actual lines, with the old pattern wherever one still describes its line."""
    if text_matches(expected, actual):
        return expected
    out, old = [], [line for line in expected if "<<" in line and line != LINES]
    for line in actual:
        kept = next((i for i, pattern in enumerate(old) if line_matches(pattern, line)), None)
        if kept is None:
            out.append(line)
        else:
            out.append(old[kept])
            del old[: kept + 1]
    return out


def execute(command, folder, environment):
    """-> {"exit", "stdout", "stderr"}; the whole process group dies with a command that takes too long."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=SECONDS)
        code = str(process.returncode)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        code = f"none: killed after {SECONDS} s"
    decode = lambda text: split_lines(text.decode("utf-8", "surrogateescape"))
    return {"exit": code, "stdout": decode(out), "stderr": decode(err)}


def environment_for(binaries, folder):
    environment = {
        "PATH": f"{binaries}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LC_ALL": "C",
    }
    # A sanitizer's own exit code would look like "input rejected".
    for tool in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
        environment[tool] = ":".join(filter(None, (os.environ.get(tool), "exitcode=99")))
    return environment


def show_difference(name, expected, actual):
    print(f"  {name} differs (- expected, + got):")
    for line in difflib.unified_diff(expected, actual, lineterm="", n=2):
        if not line.startswith(("---", "+++", "@@")):
            print("    " + line.encode("utf-8", "backslashreplace").decode())


def run_golden(path, binaries, rebase):
    """Runs one golden from top to bottom in a scratch folder; True if all was as expected."""
    preface, parts = read_golden(path)
    good = True
    with tempfile.TemporaryDirectory(prefix="ddpc-golden-") as scratch:
        folder = pathlib.Path(scratch)
        (folder / "samples").symlink_to(ROOT / "samples")
        for part in parts:
            if part[0] == "file":
                target = folder / part[1]
                target.parent.mkdir(parents=True, exist_ok=True)
                text = "".join(line + "\n" for line in part[2])
                target.write_text(text, "utf-8", "surrogateescape", newline="\n")
                continue
            run = part[1]
            actual = execute(run.command, folder, environment_for(binaries, folder))
            if rebase:
                if not actual["exit"].isdigit():
                    raise Malformed(f"{path}: cannot be rebased: $ {run.command}: {actual['exit']}")
                run.expected["exit"] = actual["exit"]
                for stream in ("stdout", "stderr"):
                    run.expected[stream] = rebase_text(run.expected[stream], actual[stream])
                continue
            wrong = [s for s in ("stdout", "stderr") if not text_matches(run.expected[s], actual[s])]
            if not wrong and actual["exit"] == run.expected["exit"]:
                continue
            good = False
            print(f"{path}: $ {run.command}")
            if actual["exit"] != run.expected["exit"]:
                print(f"  exit code: expected {run.expected['exit']}, got {actual['exit']}")
            for stream in wrong:
                show_difference(stream, run.expected[stream], actual[stream])
    if rebase:
        write_golden(path, preface, parts)
    return good


def without_measurements(lines):
    return [re.sub(r" +", " ", re.sub(r"[0-9]+(\.[0-9]+)?", "N", line)) for line in lines]


def run_document(path, binaries, rebase, python):
    """Runs the sessions of a Markdown text: in its ```console blocks, lines that begin with "$ " are commands,
    the others what they print on both streams. The numbers of ddprun are measurements and may differ. With --python only
    the blocks ```console torch run, with an interpreter that has PyTorch as `python3`, else only the others."""
    fence = "```console torch" if python else "```console"
    out, good, session, expected, command, count = [], True, False, [], None, 0

    def finish():
        nonlocal good, count
        if command is None:
            return
        count += 1
        actual = execute(f"exec 2>&1; {command}", scratch, environment)["stdout"]
        view = without_measurements if "ddprun" in command else list
        if view(actual) != view(expected):
            good = False
            print(f"{path}: $ {command}")
            show_difference("the session", expected, actual)
        out.extend(actual if view(actual) != view(expected) else expected)

    with tempfile.TemporaryDirectory(prefix="ddpc-golden-") as scratch:
        # Not a link: lines of the user's code are shown relative to the folder, as in a clone.
        shutil.copytree(ROOT / "samples", pathlib.Path(scratch) / "samples")
        environment = environment_for(binaries, scratch)
        if python:
            tools = pathlib.Path(scratch) / "bin"
            tools.mkdir()
            # Not a link: a virtual environment knows itself by its path.
            (tools / "python3").write_text(f'#!/bin/sh\nexec "{python}" -W ignore "$@"\n')
            (tools / "python3").chmod(0o755)
            environment["PATH"] = f"{tools}:{environment['PATH']}"
            environment["PYTHONPATH"] = str(ROOT / "python")
            environment["OMP_NUM_THREADS"] = "1"
        for line in read_lines(path):
            if not session:
                session, command = line == fence, None
            elif line == "```" or line.startswith("$ "):
                finish()
                session, expected = line != "```", []
                command = line[2:] if session else None
            elif command is None:
                raise Malformed(f"{path}: a session that does not begin with a command: {line}")
            else:
                expected.append(line)
                continue
            out.append(line)
    if session or not count:
        raise Malformed(f"{path}: {'a session without an end' if session else 'runs nothing'}")
    if rebase:
        path.write_text("".join(line + "\n" for line in out), "utf-8", "surrogateescape", newline="\n")
        return True
    return good


def check_diagnostics(table, folder):
    text = table.read_text("utf-8")
    codes = {f"DDP{int(n):04d}" for n in re.findall(r"^\s*DIAG\(\s*([0-9]+)", text, re.MULTILINE)}
    shown = set()
    for path in sorted(folder.glob("DDP*.test")):
        code = path.name[:7]
        runs = [part[1] for part in read_golden(path)[1] if part[0] == "run"]
        if any(code in line for run in runs for line in run.expected["stderr"]):
            shown.add(code)
        else:
            print(f"{path}: no expected stderr shows {code}")
    for code in sorted(codes - shown):
        print(f"{code}: no golden {folder.name}/{code}*.test provokes it")
    for code in sorted(shown - codes):
        print(f"{code}: has a golden, but {table.name} does not have it")
    print(f"{len(codes & shown)} of {len(codes)} diagnostics are provoked")
    return codes == shown


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("--bin", type=pathlib.Path)
    parser.add_argument("--python")
    parser.add_argument("--rebase", action="store_true")
    parser.add_argument("--check-diagnostics", type=pathlib.Path, metavar="TABLE")
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if arguments.check_diagnostics:
            return not check_diagnostics(arguments.check_diagnostics, *arguments.paths)
        if not arguments.bin:
            parser.error("--bin is missing")
        binaries = arguments.bin.resolve()
        results = [
            run_document(path, binaries, arguments.rebase, arguments.python)
            if path.suffix == ".md"
            else run_golden(path, binaries, arguments.rebase)
            for path in arguments.paths
        ]
        return not all(results)
    except Malformed as problem:
        print(problem)
        return 1


if __name__ == "__main__":
    sys.exit(main())
