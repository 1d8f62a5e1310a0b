#!/usr/bin/env python3
"""The page of `ddpc report` as text: every tag is closed, nothing is loaded from elsewhere, and what stands in it is what
the model, `check` and the plan have, whatever the names are.

usage: report.py DDPC MODEL...
"""
import html.parser
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import report_models

ddpc, models = sys.argv[1], sys.argv[2:]
VOID = {"meta", "input", "br", "img", "link"}
wrong = []


def run(*arguments):
    r = subprocess.run([ddpc, *map(str, arguments)], capture_output=True)
    if r.returncode:
        wrong.append(f"{' '.join(map(str, arguments))}: exit {r.returncode}: {r.stderr.decode()[:500]}")
    return r.stdout


class Page(html.parser.HTMLParser):
    def __init__(self, where, text):
        super().__init__(convert_charrefs=True)
        self.where, self.open, self.ids, self.rows, self.cells, self.tags = where, [], set(), [], None, {}
        self.feed(text)
        if self.open:
            wrong.append(f"{where}: {self.open} is not closed")

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attributes.items():
            if name in ("src", "href", "action") and not value.startswith("#"):
                wrong.append(f"{self.where}: {tag} {name}={value}")
            if name.startswith("on"):
                wrong.append(f"{self.where}: {tag} has {name}")
        if attributes.get("id") in self.ids:
            wrong.append(f"{self.where}: the id {attributes['id']} is there twice")
        self.ids |= {attributes.get("id")} - {None}
        if tag == "tr" and "data-class" in attributes:
            self.cells = [attributes["data-class"]]
        if self.cells is not None and tag in ("td", "th"):
            self.cells.append("")

    def handle_startendtag(self, tag, attributes):
        if tag not in VOID and not set(self.open) & {"svg"}:
            wrong.append(f"{self.where}: <{tag}/> outside of a picture")

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            wrong.append(f"{self.where}: </{tag}> closes nothing")
        if tag == "tr" and self.cells is not None:
            self.rows.append(self.cells)
            self.cells = None

    def handle_data(self, data):
        if self.cells is not None and len(self.cells) > 1:
            self.cells[-1] += data


def check(model, *flags):
    where = f"{model} {' '.join(flags)}"
    text = run("report", model, *flags).decode()  # valid UTF-8, or it raises
    if "{{" in re.sub(r"\{\{\{?(name|css)\}\}\}?", "", text.split("</style>", 1)[1].split("<script>")[0]):
        wrong.append(f"{where}: a place was not filled in")
    page = Page(where, text)
    told = json.loads(run("check", model, "--format=json", *[f for f in flags if not f.startswith("--sched")]))
    several = len(told["steps"]) > 1
    expected = sorted((p["class"], p["name"], *([s["name"]] if several else []), p["reason"])
                      for s in told["steps"] for p in s["parameters"] if p["kind"] == "parameter")
    shown = sorted((r[0], r[1], *([r[2]] if several else []), r[6 if several else 5]) for r in page.rows)
    clean = [tuple(re.sub("[\x00-\x08\x0b-\x1f\x7f]", "\ufffd", x) for x in row) for row in expected]
    if shown != clean:
        different = next((a, b) for a, b in zip(shown + [None], clean + [None]) if a != b)
        wrong.append(f"{where}: the table has {different[0]}, check {different[1]}")
    if page.tags.get("svg") != 2:
        wrong.append(f"{where}: {page.tags.get('svg')} pictures")
    if page.tags["script"] != 1 or page.tags.get("b"):
        wrong.append(f"{where}: a name became markup")
    if text != run("report", model, *flags).decode():
        wrong.append(f"{where}: not the same twice")
    return page


for model in models:
    check(model)
check(models[0], "--schedule=ddp")
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "nasty <b> & co.ir")
    path.write_bytes(report_models.nasty())
    check(path)
    path = pathlib.Path(folder, "many.ir")
    path.write_bytes(report_models.many())
    page = check(path)
    if page.rows[0][:2] != ["never", "m.4.94.p4711.w"]:
        wrong.append(f"what never gets a gradient is not first, but {page.rows[0][:2]}")
    path = pathlib.Path(folder, "list.txt")
    path.write_text("w float32 3x3 10\nv float32 3 20 turn\n")
    page = Page("list", run("report", "--from-list", path).decode())
    if [r[:2] for r in page.rows] != [["conditional", "v"], ["always", "w"]] or "graph" in page.ids:
        wrong.append(f"list: {page.rows}")
print("\n".join(wrong) or "the pages are sound")
sys.exit(bool(wrong))
