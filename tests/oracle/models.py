"""The classes and guards of the models in models.txt.

usage: models.py PATH-TO-DDPC [-v] [NAME...]

As people do it first, every model is checked without flags; every parameter must have the class
that stands there, the guard if one does, and a reason, and no other name may be listed. -v prints
what ddpc says about each."""
import json, pathlib, subprocess, sys, tempfile

HEAD = '<ir_version: 8, opset_import: ["" : 18, "ddpc" : 1]>\n'


def models():
    text = (pathlib.Path(__file__).parent / "models.txt").read_text()
    text = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
    for block in text.split("\n@ ")[1:]:
        name, classes, model = block.split("\n", 2)
        wanted = {}
        for item in classes.split(";"):
            parameter, wanted_class, *guard = item.split(None, 2)
            wanted[parameter] = wanted_class, guard[0] if guard else None
        yield name, wanted, model if model.startswith("<") else HEAD + model


def check(ddpc, path, model):
    path.write_text(model)
    run = subprocess.run([ddpc, "check", path, "--format=json"], capture_output=True, text=True, timeout=60)
    if not run.stdout:
        return None, run.stderr
    return json.loads(run.stdout)["steps"][0]["parameters"], run.stderr


def main():
    ddpc, *names = sys.argv[1:]
    verbose = "-v" in names
    names = [n for n in names if n != "-v"]
    failed = total = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, wanted, model in models():
            if names and name not in names:
                continue
            total += 1
            found, errors = check(ddpc, pathlib.Path(folder) / "model.ir", model)
            wrong = []
            if found is None or errors:
                wrong.append(errors or "no output")
            for p in found or []:
                where = p["location"]["line"] if p["location"] else None
                is_guard = p["guard"]["text"] if p["guard"] else ""
                if verbose:
                    print(f"{name}: {p['name']} {p['class']} {is_guard} | {p['reason']} | line {where}")
                wanted_class, guard = wanted.pop(p["name"], (None, None))
                if p["class"] != wanted_class or (guard and is_guard != guard) or not p["reason"]:
                    wrong.append(f"{p['name']}: wanted {wanted_class} {guard or ''}, is {p['class']} {is_guard}: {p['reason']}")
            wrong += [f"{missing}: not listed" for missing in wanted]
            failed += bool(wrong)
            for w in wrong:
                print(f"{name}: {w}", file=sys.stderr)
    print(f"{total - failed} of {total} models as expected")
    return failed > 0 or total == 0


if __name__ == "__main__":
    sys.exit(main())
