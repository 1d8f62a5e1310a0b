#!/usr/bin/env python3
"""What `ddpc check --format=sarif` and `--diagnostics=sarif` print is SARIF 2.1.0 and says what it should.

The properties that the standard's schema requires, and the types and values that it allows for those that are used, are
written down here; a property that is not is refused. Then the meaning: levels, suppressions, baseline states,
fingerprints that stay when lines move, places and URIs.

usage: sarif.py BUILD-FOLDER
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.parse

ddpc = pathlib.Path(sys.argv[1]).resolve() / "ddpc"

TEXT = {"text": str}
PLACE = {"artifactLocation": {"uri": str, "uriBaseId?": {"%SRCROOT%"}}, "region?": {"startLine": int, "startColumn?": int,
                                                                           "endColumn?": int}}
LOCATION = {"physicalLocation?": PLACE, "message?": TEXT,
            "logicalLocations?": [{"fullyQualifiedName": str, "kind": {"parameter"}}]}
LEVEL = {"error", "warning", "note"}
LOG = {
    "$schema": {"https://json.schemastore.org/sarif-2.1.0.json"},
    "version": {"2.1.0"},
    "runs": [{
        "tool": {"driver": {"name": {"ddpc"}, "version": str, "rules": [{
            "id": str, "shortDescription": TEXT, "fullDescription": TEXT, "help": TEXT,
            "defaultConfiguration": {"level": LEVEL}}]}},
        "columnKind": {"unicodeCodePoints"},
        "originalUriBaseIds": {"%SRCROOT%": {"description": TEXT}},
        "invocations?": [{"executionSuccessful": bool,
                          "toolExecutionNotifications": [{"level": {"warning"}, "message": TEXT}]}],
        "properties?": {"verdict": str, "evidence": str, "policy?": str},
        "results": [{
            "ruleId": str, "ruleIndex": int, "level": LEVEL, "message": TEXT, "locations": [LOCATION],
            "relatedLocations?": [LOCATION], "baselineState?": {"new", "unchanged"},
            "partialFingerprints?": {"parameterAndClass/v1": str, "primaryLocationLineHash": str},
            "suppressions?": [{"kind": {"external"}, "justification": str, "location?": LOCATION}],
        }],
    }],
}


def fits(value, form, at="log"):
    """Asserts that a value has a form: a type, a set of values, a list's one form, or a dict's keys (`?` may lack)."""
    if isinstance(form, type):
        assert type(value) is form and value != "", f"{at} is {value!r}"
    elif isinstance(form, set):
        assert value in form, f"{at} is {value!r}"
    elif isinstance(form, list):
        assert isinstance(value, list), f"{at} is {value!r}"
        for i, v in enumerate(value):
            fits(v, form[0], f"{at}[{i}]")
    else:
        assert isinstance(value, dict), f"{at} is {value!r}"
        keys = {k.rstrip("?"): k for k in form}
        assert not set(value) - set(keys), f"{at} has {set(value) - set(keys)}"
        for name, key in keys.items():
            assert name in value or key.endswith("?"), f"{at} lacks {name}"
            if name in value:
                fits(value[name], form[key], f"{at}.{name}")


def valid(text):
    """The one run of a log."""
    log = json.loads(text)
    fits(log, LOG)
    (run,) = log["runs"]
    rules = [r["id"] for r in run["tool"]["driver"]["rules"]]
    assert len(set(rules)) == len(rules)
    for r in run["results"]:
        assert rules[r["ruleIndex"]] == r["ruleId"], r
        for place in [*r["locations"], *r.get("relatedLocations", [])]:
            if "physicalLocation" not in place:
                continue
            region, uri = place["physicalLocation"].get("region"), place["physicalLocation"]["artifactLocation"]["uri"]
            assert not region or (region["startLine"] >= 1 and region.get("startColumn", 1) >= 1), place
            assert urllib.parse.quote(urllib.parse.unquote(uri), safe="/-._~+,=@:") == uri, uri
            absolute = uri.startswith("file:///")
            assert absolute != ("uriBaseId" in place["physicalLocation"]["artifactLocation"]), place
    return run


def run(*args, status=0, stream="stdout", text=None):
    """A run's log, from the stream where it is."""
    r = subprocess.run([ddpc, *args], cwd=folder, input=text or "", capture_output=True, encoding="utf-8")
    assert r.returncode == status, (args, r.returncode, r.stderr)
    return valid(getattr(r, stream))


def check(*args, status=0, text=None):
    return run("check", "--format=sarif", *args, status=status, text=text)


def by_name(log):
    found = {}
    for r in log["results"]:
        (place,) = r["locations"]
        name = place.get("logicalLocations", [{}])[0].get("fullyQualifiedName")
        assert name not in found, f"two results for {name}"
        found[name] = r
    return found


def line(result):
    place = result["locations"][0]["physicalLocation"]
    return place["artifactLocation"]["uri"], place["region"]["startLine"], place["region"].get("startColumn")


model = """<ir_version: 8, opset_import: ["" : 17, "ddpc" : 1]>
g (float[2,3] x, bool turn) => (float loss)
<float[3,3] enc.w,
 float[3] enc.spare, float[3,3] dec.w, float[3,3] cut>
{
   h = MatMul (x, enc.w)
   c = MatMul (h, cut)
   d = ddpc.StopGradient <source = "net work/model.py:88"> (c)
   k = If (turn) <
      then_branch = t () => (p) { p = MatMul (h, dec.w) },
      else_branch = e () => (q) { q = Identity (d) }
   >
   loss = ReduceMean <keepdims = 0> (k)
}
"""
export = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3] x) => (float loss) <float[3,3] w = {1,2,3,4,5,6,7,8,9}>
{ h = MatMul (x, w)
  loss = ReduceMean <keepdims = 0> (h) }
"""
gan = """<ir_version: 8, opset_import: ["" : 17]>
gan (float[B,3] z) => (float d_loss, float g_loss)
<float[3,5] gen.w, float[5,1] dis.w>
{ fake = MatMul (z, gen.w)
  score = MatMul (fake, dis.w)
  d_loss = ReduceMean <keepdims=0> (score)
  g_loss = ReduceMax <keepdims=0> (score) }
"""


def findings():
    log = check("m.ir")
    r = by_name(log)
    assert {n: (x["ruleId"], x["level"]) for n, x in r.items()} == {
        "enc.spare": ("ddpc/never", "warning"), "cut": ("ddpc/never", "warning"), "enc.w": ("ddpc/conditional", "note"),
        "dec.w": ("ddpc/conditional", "note")}
    assert log["properties"] == {"verdict": "flag_needed", "evidence": "proved"}
    assert line(r["enc.spare"]) == ("m.ir", 4, 11)
    assert line(r["dec.w"])[:2] == ("m.ir", 9), "of the If"
    assert line(r["cut"]) == ("net%20work/model.py", 88, None), "the user's line"
    (also,) = r["cut"]["relatedLocations"]
    assert also["physicalLocation"]["artifactLocation"]["uri"] == "m.ir"
    assert "requires_grad_(False)" in r["enc.spare"]["message"]["text"] and "is detached" in r["cut"]["message"]["text"]
    assert "find_unused_parameters=True" in r["dec.w"]["message"]["text"] and "only when turn" in r["dec.w"]["message"]["text"]
    denied = by_name(check("m.ir", "--deny=never", status=1))
    assert {n for n, x in denied.items() if x["level"] == "error"} == {"enc.spare", "cut"}
    assert not any("suppressions" in x or "baselineState" in x for x in denied.values())


def fingerprints():
    (folder / "moved.ir").write_text("\n\n" + model.replace("enc.spare,", "\n\n enc.spare,"))
    (folder / "wrapped.ir").write_text(model.replace("enc.", "module.enc.").replace("dec.", "module.dec.").replace("cut", "module.cut"))
    (folder / "always.ir").write_text(model.replace("MatMul (h, dec.w)", "Identity (h)"))
    before = {n: r["partialFingerprints"] for n, r in by_name(check("m.ir")).items()}
    assert len({f["parameterAndClass/v1"] for f in before.values()}) == len(before)
    assert before == {n: r["partialFingerprints"] for n, r in by_name(check("moved.ir")).items()}
    assert before == {n[7:]: r["partialFingerprints"] for n, r in by_name(check("wrapped.ir")).items()}
    other = by_name(check("always.ir"))["dec.w"]
    assert other["ruleId"] == "ddpc/never" and other["partialFingerprints"] != before["dec.w"], "another class"


def gate():
    (folder / ".ddpccheck").write_text('deny never\nallow never enc.* reason="the \\"v1\\" has it"\n')
    r = by_name(check("m.ir", status=1))
    (s,) = r["enc.spare"]["suppressions"]
    assert s["justification"] == 'the "v1" has it' and r["enc.spare"]["level"] == "warning"
    assert s["location"]["physicalLocation"]["region"] == {"startLine": 2}
    assert r["cut"]["level"] == "error" and r["cut"]["suppressions"] == []
    assert check("m.ir", status=1)["properties"]["policy"] == ".ddpccheck"
    (folder / ".ddpccheck").unlink()
    subprocess.run([ddpc, "check", "m.ir", "--format=json", "-o", "old.json"], cwd=folder, check=True)
    (folder / "new.ir").write_text(model.replace("float[3] enc.spare", "float[3] enc.spare, float[3] more"))
    r = by_name(check("new.ir", "--baseline", "old.json", status=1))
    assert {n: x["baselineState"] for n, x in r.items() if x["baselineState"] == "new"} == {"more": "new"}
    assert {n for n, x in r.items() if x["level"] == "error"} == {"more"}


def many():
    """A log has 5,000 results at most: what is denied before what the policy allows, and it says what is left out."""
    names = [f"p{i}" for i in range(6000)]
    rows = "loss_weight float32 [3]\n" + "".join(f"{n} float32 [3] false\n" for n in names)
    (folder / "allow").write_text('allow never p[0-4]* reason="old"\n')
    log = check("--from-list", "-", "--policy=allow", "--deny=never", status=1, text=rows)
    levels = [r["level"] for r in log["results"]]
    denied = sum(n[1] in "56789" for n in names)
    assert len(levels) == 5000 and levels.count("error") == denied and levels.count("warning") == 5000 - denied
    (run,) = log["invocations"]
    assert "1000 of 6000 results are left out" in run["toolExecutionNotifications"][0]["message"]["text"]
    assert "invocations" not in check("--from-list", "-", text=rows[:200].rpartition("\n")[0] + "\n")


def verdicts():
    (r,) = check("export.ir", "--deny=unknown", status=1)["results"]
    assert (r["ruleId"], r["level"]) == ("ddpc/unknown", "error") and line(r)[0] == "export.ir"
    r = [x["ruleId"] for x in check("export.ir", "--require-proof", status=1)["results"]]
    assert r == ["ddpc/unknown", "ddpc/evidence"]
    (folder / "gan.ir").write_text(gan)
    steps = ["--step", "d: loss=d_loss trainable=dis.*", "--step", "g: loss=g_loss trainable=gen.*"]
    r = by_name(check("gan.ir", *steps))
    assert "in some steps only, and none in step d: " in r["gen.w"]["message"]["text"]
    assert r["gen.w"]["ruleId"] == r["dis.w"]["ruleId"] == "ddpc/conditional"


def places():
    assert line(by_name(check(str(folder / "m.ir")))["enc.spare"])[0] == "m.ir", "an absolute path inside"
    (folder / "inner").mkdir()
    r = subprocess.run([ddpc, "check", "--format=sarif", folder / "m.ir"], cwd=folder / "inner", capture_output=True, text=True)
    assert line(by_name(valid(r.stdout))["enc.spare"])[0] == f"file://{urllib.parse.quote(str(folder))}/m.ir", "one outside"
    (folder / "ein größeres.ir").write_text(model)
    assert line(by_name(check("./ein größeres.ir"))["enc.spare"])[0] == "ein%20gr%C3%B6%C3%9Feres.ir"
    (folder / "wide.ir").write_text(model.replace(" float[3] enc.spare", ' float[3] "größer", float[3] enc.spare'))
    assert line(by_name(check("wide.ir"))["enc.spare"])[2] == 11 + len(' float[3] "größer",'), "columns are code points"
    stdin = by_name(check("-", text=model))
    assert "physicalLocation" not in stdin["enc.spare"]["locations"][0] and line(stdin["cut"])[1] == 88
    (folder / "list").write_text("w float32 3\nv float32 3 turn\n")
    assert line(by_name(check("--from-list", "list"))["v"])[0] == "list"


def diagnostics():
    (folder / "broken.ir").write_text(model.replace("h = MatMul", "h = Relu (x)\n   h = MatMul").replace("(h, dec.w)", "(hh, dec.w)"))
    log = run("check", "broken.ir", "--diagnostics=sarif", status=1, stream="stderr")
    twice = next(r for r in log["results"] if r["ruleId"] == "DDP0201")
    assert twice["level"] == "error" and line(twice) == ("broken.ir", 7, 4)
    assert twice["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 6
    (r,) = run("check", "m.ir", "--bad", "--diagnostics", "sarif", status=2, stream="stderr")["results"]
    assert r["ruleId"] == "DDP0902" and r["locations"] == []
    (r,) = run("check", "m.ir", "--frozen=nix", "--diagnostics=sarif", status=2, stream="stderr")["results"]
    assert r["locations"] == [] and "--frozen" in r["message"]["text"]
    (folder / "p").write_text("enc.w float32 3x3 true\nx float 3\n")
    r = run("check", "m.ir", "--params=p", "--diagnostics=sarif", status=1, stream="stderr")["results"]
    assert ("p", 2, None) in [line(x) for x in r]
    (folder / "policy").write_text("allow never gone reason=x\n")
    r = run("check", "m.ir", "--policy=policy", "--deny=never", "--diagnostics=sarif", status=1, stream="stderr")["results"]
    assert [(x["ruleId"], x["level"]) for x in r] == [("DDP1006", "warning"), ("DDP0904", "error")], "one log, both"
    assert run("check", "m.ir", "--diagnostics=sarif", stream="stderr")["results"] == []
    (folder / "no.plan").write_text("no plan")
    for args in (["dump", "no.plan"], ["verify", "no.plan"], ["diff", "no.plan", "no.plan"], ["m.ir", "-o", "no/x"],
                 ["explain", "m.ir", "nix"], ["fmt", "nix.ir"]):
        assert run(*args, "--diagnostics=sarif", status=2, stream="stderr")["results"], args


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name).resolve()
    (folder / "m.ir").write_text(model)
    (folder / "export.ir").write_text(export)
    for test in (findings, fingerprints, gate, many, verdicts, places, diagnostics):
        test()
        print(test.__name__)
