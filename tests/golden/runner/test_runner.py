#!/usr/bin/env python3
"""A runner that passes what is wrong would make every golden worthless: each kind of failure, provoked."""
import pathlib
import subprocess
import sys
import tempfile

RUNNER = pathlib.Path(__file__).resolve().parent.parent / "run.py"


def runner(folder, text, *flags, name="x.test"):
    golden = pathlib.Path(folder, name)
    golden.write_text(text)
    done = subprocess.run(
        [sys.executable, RUNNER, "--bin", folder, *flags, golden], capture_output=True, text=True
    )
    return done.returncode, done.stdout, golden.read_text()


def diagnostics(folder, table, goldens):
    root = pathlib.Path(folder, "diagnostics")
    root.mkdir(exist_ok=True)
    for old in root.iterdir():
        old.unlink()
    for name, text in goldens.items():
        (root / name).write_text(text)
    definition = pathlib.Path(folder, "t.def")
    definition.write_text(table)
    done = subprocess.run(
        [sys.executable, RUNNER, "--check-diagnostics", definition, root], capture_output=True, text=True
    )
    return done.returncode, done.stdout


FAILS = {
    "runs nothing": "# only words\n",
    "only files": "=== file a\nx\n",
    "wrong exit": "=== run exit 2\n",
    "unexpected stdout": "=== run echo hello\n",
    "unexpected stderr": "=== run echo hello >&2\n",
    "missing stdout": "=== run true\n=== stdout\nhello\n",
    "other stdout": "=== run echo hello\n=== stdout\nHello\n",
    "a line too many": "=== run echo a; echo b\n=== stdout\na\n",
    "pattern too wide": "=== run echo ms 1x\n=== stdout\nms <<number>>\n",
    "hex": "=== run echo xyz\n=== stdout\n<<hex>>\n",
    "dots are not patterns": "=== run echo axb\n=== stdout\na.b\n",
    "lines out of order": "=== run echo b; echo a\n=== stdout\n<<lines>>\na\n<<lines>>\nb\n",
    "no final newline": "=== run printf x\n=== stdout\nx\n",
    "unknown section": "=== run true\n=== stdin\nx\n",
    "killed": "=== run kill -9 $$\n",
    "second command": "=== run true\n=== run false\n",
    "outside": "=== file /tmp/x\n=== run true\n",
    "text before": "hello\n=== run true\n",
}

with tempfile.TemporaryDirectory() as folder:
    for name, text in FAILS.items():
        code, out, _ = runner(folder, text)
        assert code == 1 and out, f"{name}: passed, or failed without a word"

    # Rebasing makes it pass, keeps the pattern that fits and the file sections.
    before = "# why\n=== file a\n=== run echo 12; echo new; exit 1\n=== stdout\n<<number>>\nold\n"
    assert runner(folder, before, "--rebase")[0] == 0
    code, _, after = runner(folder, pathlib.Path(folder, "x.test").read_text())
    assert code == 0
    want = "# why\n=== file a\n=== run echo 12; echo new; exit 1\n=== exit 1\n=== stdout\n<<number>>\nnew\n"
    assert after == want, after

    fence = "words\n```console\n{}\n```\nmore\n"
    document = lambda text, *flags: runner(folder, fence.format(text), *flags, name="x.md")
    assert document("$ echo 1\n1\n$ true\n$ echo 2 >&2\n2")[0] == 0
    assert document("$ echo 1\n2")[0] == 1, "a document's output"
    assert document("$ ls samples 2>&1\n1")[0] == 1
    assert document("1")[0] == 1, "no command"
    assert document("$ true\n```\n```console\n$ true")[0] == 0
    assert runner(folder, "words\n", name="x.md")[0] == 1, "a document without a session"
    assert runner(folder, "```console\n$ true\n", name="x.md")[0] == 1, "a session without an end"
    ddprun = pathlib.Path(folder, "ddprun")
    ddprun.write_text("#!/bin/sh\necho '  12 ms'")
    ddprun.chmod(0o755)
    assert document("$ ddprun\n 3.5 ms")[0] == 0, "a measurement may differ"
    assert document("$ ddprun\n 3.5 us")[0] == 1, "its unit may not"
    assert document("$ echo 1\n2", "--rebase")[2] == fence.format("$ echo 1\n1")

    table = "/* words */\nDIAG(203, a, error, t, e)\nDIAG(204, b, error, t, e)\n"
    shows = "=== run false\n=== exit 1\n=== stderr\nx: error[DDP0203]: m\n"
    good = {"DDP0203.test": shows, "DDP0204-more.test": shows.replace("0203", "0204")}
    assert diagnostics(folder, table, good)[0] == 0
    assert diagnostics(folder, table, {"DDP0203.test": shows})[0] == 1, "a code without a golden"
    assert diagnostics(folder, table, {**good, "DDP0204-more.test": shows})[0] == 1, "the wrong code"
    assert diagnostics(folder, table, {**good, "DDP0999.test": shows.replace("0203", "0999")})[0] == 1

print(f"{len(FAILS)} ways to fail, each caught")
