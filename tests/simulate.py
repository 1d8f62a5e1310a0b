#!/usr/bin/env python3
"""ddpc simulate on the samples: without jitter a step ends exactly when the plan predicts it, a slower network never makes
it end earlier, the same seed prints the same bytes, pictures are well-formed and the traces what viewers read; and the
pictures of docs/pictures are what the commands of docs/simulate.md make.

usage: simulate.py BUILD-FOLDER SOURCE-TREE [--rebase]     --rebase makes these pictures anew
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

build, root = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
RULES = "ddp,single,mgwfbp,horovod,xla,megatron,wfbp,exact"
SVG = "{http://www.w3.org/2000/svg}"
wrong = []


def ddpc(*words, cwd=None):
    r = subprocess.run([build / "ddpc", *words], cwd=cwd, capture_output=True)
    assert r.returncode == 0, (words, r.stderr.decode())
    return r.stdout


def simulate(*words):
    return json.loads(ddpc("simulate", *words, "--format=json"))


def expect(what, *about):
    if not what:
        wrong.append(" ".join(map(str, about)))


def check_picture(text, *about):
    """Well-formed, inside its frame, nothing from elsewhere, and no text on another."""
    svg = ET.fromstring(text)
    width, height = (float(x) for x in svg.get("viewBox").split()[2:])
    boxes = []
    for e in svg.iter():
        expect(not any(k.endswith("href") for k in e.attrib), *about, "loads something")
        if e.tag == SVG + "rect":
            x, y, w, h = (float(e.get(k)) for k in ("x", "y", "width", "height"))
            expect(x >= 0 and y >= 0 and w > 0 and h > 0 and x + w <= width + 0.01 and y + h <= height + 0.01, *about,
                   "has a box outside", e.attrib)
        if e.tag == SVG + "text":
            size = {"small": 10, "head": 15}.get(e.get("class").split()[0], 12)
            x, y, w = float(e.get("x")), float(e.get("y")), 0.5 * size * len(e.text)  # not too wide: a lower bound
            x -= {"mid": w / 2, "end": w}.get((e.get("class").split() + [""])[1], 0)
            expect(x >= 0 and x + w <= width, *about, "has a text outside:", e.text)
            boxes.append((y, x, x + w, size, e.text))
    boxes.sort()
    for i, (y, left, right, size, text) in enumerate(boxes):
        for y2, left2, right2, _, text2 in boxes[i + 1:]:
            if y2 - y >= 0.8 * size:
                break
            expect(left2 >= right or left >= right2, *about, f"has '{text}' on '{text2}'")
    return svg


def check_trace(text, plan):
    events = json.loads(text)["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    expect(all(e["dur"] >= 0 and e["ts"] >= 0 and e["name"] for e in slices), plan, "has bad slices")
    for thread in {(e["pid"], e["tid"]) for e in slices}:
        mine = sorted((e for e in slices if (e["pid"], e["tid"]) == thread), key=lambda e: e["ts"])
        for a, b in zip(mine, mine[1:]):
            expect(a["ts"] + a["dur"] <= b["ts"] * (1 + 1e-9), plan, "has slices that overlap", thread)
    starts, ends = ({e["id"]: e for e in events if e["ph"] == p} for p in "sf")
    expect(starts.keys() == ends.keys() and starts, plan, "has arrows without an end")
    expect(all(starts[i]["ts"] <= ends[i]["ts"] for i in starts), plan, "has arrows back in time")
    return slices


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    for model in sorted((root / "samples").glob("*.ir")):
        for topology in ("h100x8", "eth25-x16"):
            plan = folder / f"{model.stem}-{topology}.plan"
            ddpc(model, "--topology", topology, "-o", plan)
            steps = json.loads(ddpc("dump", plan, "--format=json"))["steps"]
            nominal = simulate(plan, "--against", RULES)
            again = simulate(plan, "--topology", topology, "--ranks=999", "--steps=3", "--straggler=7:1")
            for step, own, other in zip(steps, nominal["steps"], again["steps"]):
                predicted = max(step["schedule"]["predicted_finish_us"], step["schedule"]["backward_us"])
                for x in (own, other):
                    expect(x["schedules"][0]["step_us"] == {"p50": predicted, "p99": predicted}, plan.name, "ends at",
                           x["schedules"][0]["step_us"], "not", predicted)
                buckets = [b for b in step["buckets"] if b["kind"] == "gradient"]
                expect([(b["index"], b["ready_us"], b["start_us"], b["end_us"]) for b in buckets] ==
                       [(b["index"], b["ready_us"], b["start_us"], b["end_us"]) for b in own["buckets"]], plan.name, "buckets")
                expect(all(b["slack_us"] >= 0 for b in own["buckets"]), plan.name, "slack below 0")
                for s in own["schedules"][1:]:
                    expect(s["name"] != "exact" or s["step_us"]["p50"] <= predicted * (1 + 1e-9), plan.name, "beats exact")
            slow = [simulate(plan, f"--slow-link={f}")["steps"] for f in (1, 1.5, 4, 50)]
            for a, b in zip(slow, slow[1:]):
                for x, y in zip(a, b):
                    expect(x["schedules"][0]["step_us"]["p50"] <= y["schedules"][0]["step_us"]["p50"], plan.name, "slow link")
            check_picture(ddpc("simulate", plan, "--against", RULES, "--format=svg").decode(), plan.name)
            check_trace(ddpc("simulate", plan, "--format=trace"), plan.name)
    plan = folder / "bert-h100x8.plan"
    drawn = [str(plan), "--jitter=20", "--rank-jitter=3", "--ranks=300", "--straggler=1%:1.3", "--slow-link=10%:2", "--steps=50",
             "--against", RULES]
    for form in ("text", "json", "svg", "trace"):
        expect(ddpc("simulate", *drawn, "--format", form) == ddpc("simulate", *drawn, "--format", form), form, "differs")
    expect(ddpc("simulate", *drawn) != ddpc("simulate", *drawn, "--seed=2"), "the seed has no effect")
    check_picture(ddpc("simulate", *drawn, "--format=svg").decode(), "jitter")
    x = simulate(*drawn)
    expect(len(x["stragglers"]) == 3 and x["steps"][0]["slowest_rank"]["rank"] in [s["rank"] for s in x["stragglers"]],
           "a straggler of 1.3 is not the last")
    # Thousands of buckets: merged, in a file of some size, no text on another.
    with (folder / "many.list").open("w") as f:
        for i in range(4000):
            f.write(f"block.{i // 40}.w{i % 40} float{32 if i % 3 else 16} [{1 + i * 7919 % 5000},{50 + i % 77}] {7 * i + i % 5}\n")
    text = ddpc("simulate", "--from-list", folder / "many.list", "--against", RULES, "--format=svg")
    expect(len(text) < 600000, "4,000 gradients make a picture of", len(text), "bytes")
    check_picture(text.decode(), "many.list")
    # The least there is.
    (folder / "one.list").write_text('w<&>" float32 [4] 0\n')
    for words in (["--from-list", folder / "one.list"], [root / "samples/mlp.ir", "--frozen=*"]):
        for jitter in ([], ["--jitter=5"]):
            text = ddpc("simulate", *words, *jitter, "--against", RULES, "--format=svg").decode()
            check_picture(text, *words)
            expect("nan" not in text.lower(), *words, "has no numbers")
            ddpc("simulate", *words, *jitter, "--against", RULES)
    # Names and guards that are no text, or very long; many modules of one gradient each, all ready at once; an end that
    # begins before the backward pass does.
    hostile = [b"a<b>&'", b"\xff\xfe\x80", b"x" * 3000, b"\x01\x1b[31m", b"]]>", b"\xed\xa0\x80", b"..", b"\xe4\xb8\xad.0", b"%s%n"]
    conditions = [b"", b'"u\xff<&"', b'!"u\xff<&"', b'"' + b"g" * 400 + b'"']
    lists = {"hostile": b"".join(b'"%s" float32 1000000 %d %s\n' % (n, 100 * i, conditions[i % 4]) for i, n in enumerate(hostile)),
             "flat": b"".join(b"w%d float32 1000 1\n" % i for i in range(3000)),
             "chain": b"".join(b"w%d float32 1000 %d\n" % (i, 1 + i) for i in range(30000))}
    for name, text in lists.items():
        (folder / name).write_bytes(text)
        for guards in ("discovered", "reported"):
            words = ["--from-list", folder / name, "--uniform=*", "--guards", guards]
            words = [w for w in words if name == "hostile" or w != "--uniform=*"]
            picture = ddpc("simulate", *words, "--against", "wfbp,single,ddp", "--format=svg")
            check_picture(picture.decode(), name)
            expect(len(picture) < 1000000, name, "makes a picture of", len(picture), "bytes")
            if name == "flat":
                ticks = [e for e in ET.fromstring(picture).iter(SVG + "text") if re.fullmatch(r"[\d.]+ (\u00b5s|ms)", e.text)
                         and "mid" in e.get("class").split()]
                expect(len({e.get("y") for e in ticks}) == 2, name, "has an axis without numbers")
            if name == "chain":
                continue
            events = json.loads(ddpc("simulate", *words, "--format=trace").decode())["traceEvents"]
            drawn = [e for e in events if e["ph"] == "X" and e["tid"] == 2]
            expect(len(drawn) == len([e for e in events if e["ph"] == "s"]), name, "has collectives without a slice")
    # A plan's late gradients have the order of its buckets: of the same rule the same step.
    (folder / "late").write_text("".join(f"w{i} float32 {b} {t} c\n" for i, (b, t) in enumerate(
        [(9000000, 50), (100, 10), (2000, 70), (7000000, 20), (30, 60), (9000000, 40), (8000000, 30)])))
    ddpc("compile", "--from-list", folder / "late", "--schedule=ddp", "--order=ready", "-o", folder / "late.plan")
    for s in simulate(folder / "late.plan", "--against=ddp")["steps"]:
        expect(s["schedules"][1]["buckets"] == s["schedules"][0]["buckets"] and s["schedules"][1]["against_plan"] == 0,
               "ddp's late buckets differ from ddp's")
    # From a pipe, a model or a plan.
    for file in (plan, root / "samples/mlp.ir"):
        want = ddpc("simulate", file).split(b"\n", 1)[1]
        r = subprocess.run(f"cat {file} | {build}/ddpc simulate -", shell=True, capture_output=True)
        expect(r.stdout.split(b"\n", 1)[1] == want, file, "differs from a pipe")

document = (root / "docs/simulate.md").read_text().replace("\\\n", "")
pictures = re.findall(r"^\$ (ddpc simulate .* -o (docs/pictures/\S+))$", document, re.MULTILINE)
expect({p for _, p in pictures} == {str(p.relative_to(root)) for p in (root / "docs/pictures").glob("*-timeline*.svg")},
       "docs/simulate.md does not have the commands of all timelines in docs/pictures")
for command, path in pictures:
    text = ddpc(*command.split()[1:-2], cwd=root)
    if "--rebase" in sys.argv:
        (root / path).write_bytes(text)
    expect(text == (root / path).read_bytes(), path, "is not what its command makes")
    check_picture(text.decode(), path)
print("\n".join(wrong) or "simulate: all as it should be")
sys.exit(bool(wrong))
