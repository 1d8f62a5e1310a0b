#!/usr/bin/env python3
"""Every way in which ddprun can make a rank fail, with ranks as processes and as threads: each
surviving rank must end in time with an error that names the rank at fault and, where there is one,
the parameter, and nothing may be called verified. Then ranks that are killed from outside at any
moment, which they cannot see coming.

usage: faults.py BUILD_FOLDER"""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

TIMEOUT_MS = 600
START_S = 3.0  # for starting processes on a busy machine

# fault, code of the rank at fault (None: not expected to live), code of the others, parameter
CASES = [
    ("kill:1@7", None, {"peer_died", "peer_left"}, None),
    ("kill:0@4:d", None, {"peer_died", "peer_left"}, None),
    ("stall:2@7", {"peer_stalled"}, {"peer_stalled"}, "w0"),
    ("stall:0@4:d", {"peer_stalled"}, {"peer_stalled"}, "d"),
    ("skip:0@6", {"missing"}, {"peer_error"}, "w0"),
    ("skip:2@6:h", {"missing"}, {"peer_error"}, "h"),
    ("skip:1@7:f", {"missing"}, {"peer_error"}, "f"),
    ("extra:1@3", {"never"}, {"peer_error"}, "n"),
    ("extra:0@0:nobody", {"unknown_parameter"}, {"peer_error"}, None),
    ("twice:2@6", {"twice"}, {"peer_error"}, "w0"),
    ("twice:0@0:w1", {"twice"}, {"peer_error"}, "w1"),
    ("corrupt-plan:1@0", {"other_plan"}, {"other_plan"}, None),
]
failures = 0


def check(condition, what, run):
    global failures
    if condition:
        return
    failures += 1
    print(f"FAILED: {what}\n  {' '.join(run.args)}\n  exit {run.returncode}\n{run.stdout}{run.stderr}")


def ddprun(build, plan, *flags):
    begin = time.monotonic()
    run = subprocess.run([f"{build}/ddprun", plan, "--format=json", *flags], text=True,
                         capture_output=True, timeout=60)
    return run, time.monotonic() - begin


def faults(build, plan):
    for threads in ([], ["--threads"]):
        for fault, own, others, parameter in CASES:
            run, seconds = ddprun(build, plan, "-n", "3", f"--timeout-ms={TIMEOUT_MS}",
                                  f"--fault={fault}", *threads)
            rank = int(fault.split(":")[1].split("@")[0])
            check(run.returncode == 1, "exit status 1", run)
            check(seconds < TIMEOUT_MS / 1000 + 1 + START_S, f"in time, took {seconds:.1f} s", run)
            report = json.loads(run.stdout)
            check(report["verified"] is False, "not verified", run)
            said = {e["rank"]: e for e in report["errors"]}
            for r in range(3):
                if r == rank and own is None:
                    continue
                e = said.get(r)
                check(e is not None, f"rank {r} ends with an error", run)
                if e is None:
                    continue
                check(e["code"] in (own if r == rank else others), f"code of rank {r}", run)
                check(f"rank {rank}" in e["text"] and e["fault_rank"] == rank,
                      f"rank {r} names rank {rank}", run)
                if parameter:
                    check(e["parameter"] == parameter and f'"{parameter}"' in e["text"],
                          f"rank {r} names the parameter", run)


def killed_from_outside(build, plan, rounds):
    rng = random.Random(1)
    for _ in range(rounds):
        run = subprocess.Popen([f"{build}/ddprun", plan, "-n", "3", "--iters=1000000",
                                f"--timeout-ms={TIMEOUT_MS}", "--format=json"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        children = []
        while len(children) < 3:
            with open(f"/proc/{run.pid}/task/{run.pid}/children") as f:
                children = [int(c) for c in f.read().split()]
        time.sleep(rng.random() * 0.3)
        victim = rng.choice(children)
        os.kill(victim, signal.SIGKILL)
        begin = time.monotonic()
        run.stdout_text, run.stderr_text = run.communicate(timeout=60)
        seconds = time.monotonic() - begin
        done = subprocess.CompletedProcess(run.args, run.returncode, run.stdout_text, run.stderr_text)
        check(done.returncode == 1, "exit status 1", done)
        check(seconds < TIMEOUT_MS / 1000 + 1 + START_S, f"in time, took {seconds:.1f} s", done)
        report = json.loads(done.stdout)
        check(report["verified"] is False, "not verified", done)
        dead = children.index(victim)
        for e in report["errors"]:
            if e["rank"] != dead:
                # rendezvous: it died before the others had met it
                check(e["code"] in ("peer_died", "rendezvous") and e["fault_rank"] == dead,
                      "names the dead rank", done)
        check(len(report["errors"]) == 3, "every rank is listed", done)


def usage(build, plan):
    for flags, words in [
        (["--transport=mpi"], "no transport mpi"),
        (["--transport=nccl"], "no transport nccl"),
        (["--fault=melt:0@0"], "kill, stall, skip, extra, twice, corrupt-plan"),
        (["--fault=kill:5@0"], "no rank 5"),
        (["--fault=kill:0@500"], "never reached"),
        (["--fault=skip:0@0:c0"], '"c0" is conditional'),
        (["--fault=skip:0@0:zz"], '"zz" is unknown'),
        (["-n", "0"], "not a number from 1 to 64"),
        (["--step=nope"], '"train", "other"'),
        (["--compute=fast"], "neither none nor plan"),
        (["--what"], "no flag --what"),
    ]:
        run, _ = ddprun(build, plan, *flags)
        check(run.returncode == 2, "exit status 2", run)
        check(words in run.stderr, f"says {words!r}", run)
    run, _ = ddprun(build, plan + ".missing")
    check(run.returncode == 2 and run.stderr, "a missing plan is exit 2", run)
    run, _ = ddprun(build, plan, "--iters=0", "--warmup=0")
    check(run.returncode == 1 and "nothing was verified" in run.stdout, "nothing verified fails", run)
    run, _ = ddprun(build, plan, "--help")
    check(run.returncode == 0 and "Usage: ddprun" in run.stdout, "help", run)


def good(build, plan):
    for flags in ([], ["--threads"], ["--step=other"], ["--compute=plan"], ["-n", "5"], ["-n", "1"]):
        run, _ = ddprun(build, plan, *flags)
        report = json.loads(run.stdout)
        check(run.returncode == 0 and report["verified"] is True and report["errors"] == [],
              "verified", run)
        check(report["iterations"] == 20 and report["checked_elements"] > 0, "counts", run)


def main():
    build = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        plan = f"{folder}/job.plan"
        subprocess.run([f"{build}/make_plan", plan, "job"], check=True)
        good(build, plan)
        usage(build, plan)
        faults(build, plan)
        killed_from_outside(build, plan, 8)
    print("faults: all named" if not failures else f"faults: {failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
