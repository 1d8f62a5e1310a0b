#!/usr/bin/env python3
"""The page of `ddpc report` in headless Chromium: no errors, no request, no violation of its own policy; the filter hides
what it shall hide; nothing is wider than a phone; it is not an empty sheet. 77 (skipped) without Chromium.

usage: report_browser.py DDPC SAMPLES
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zlib

import report_models

ddpc, samples = sys.argv[1], pathlib.Path(sys.argv[2])
browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
if not browser or subprocess.run([browser, "--version"], capture_output=True).returncode:
    print("skipped: there is no Chromium here")
    sys.exit(77)
wrong = []

WATCH = """<script>
window.seen = [];
addEventListener("error", (e) => seen.push(String(e.message)));
addEventListener("securitypolicyviolation", (e) => seen.push("policy: " + e.violatedDirective));
</script>"""
# Sets the filter as a user does, and notes which rows remain.
DRIVE = """<script>
addEventListener("load", async () => {
  const form = document.getElementById("filter"), search = document.getElementById("search");
  const rows = [...document.getElementById("table").tBodies[0].rows];
  const settle = () => new Promise((go) => setTimeout(go, 400));
  const out = [];
  for (const [text, off] of CASES) {
    search.value = text;
    for (const box of form.querySelectorAll("input[type=checkbox]")) box.checked = !off.includes(box.value);
    search.dispatchEvent(new Event("input", { bubbles: true }));
    await settle();
    const left = rows.filter((r) => r.offsetParent !== null);
    out.push({ n: left.length, said: document.getElementById("shown").textContent, class: [...new Set(left.map((r) => r.dataset.class))],
               all: left.every((r) => text.toLowerCase().split(" ").every((w) => r.textContent.toLowerCase().includes(w))) });
  }
  const tables = [...document.querySelectorAll("table")];
  const result = { out, seen, rows: rows.length, evil: typeof evil, filter: !form.hidden,
    wide: document.documentElement.scrollWidth - innerWidth, headed: tables.every((t) => t.querySelector("thead th[scope=col]")),
    labelled: [...document.querySelectorAll("input")].every((i) => i.labels.length), requests: performance.getEntriesByType("resource").length };
  const e = document.createElement("pre");
  e.id = "result";
  e.textContent = JSON.stringify(result);
  document.body.append(e);
});
</script>"""


def chromium(page, *flags):
    with tempfile.TemporaryDirectory() as profile:
        return subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage",
                               f"--user-data-dir={profile}", *flags, page.as_uri()], capture_output=True, timeout=120).stdout.decode()


def drive(name, page, cases, width=1200):
    text = page.read_text()
    copy = page.with_suffix(".driven.html")
    text = text.replace("<meta charset", WATCH + "<meta charset", 1)
    copy.write_text(text.replace("</body>", DRIVE.replace("CASES", json.dumps([[c, o] for c, o, _ in cases])) + "</body>"))
    dom = chromium(copy, "--virtual-time-budget=20000", f"--window-size={width},900", "--dump-dom")
    found = re.search(r'<pre id="result">(.*?)</pre>', dom, re.DOTALL)
    if not found:
        wrong.append(f"{name}: the page never ended loading: {dom[-300:]!r}")
        return
    r = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    for key, value in {"seen": [], "evil": "undefined", "filter": True, "headed": True, "labelled": True, "requests": 0}.items():
        if r[key] != value:
            wrong.append(f"{name}: {key} is {r[key]}")
    if r["wide"] > 0:
        wrong.append(f"{name}: {r['wide']} pixels wider than the window of {width}")
    for (case, off, n), got in zip(cases, r["out"]):
        if got["n"] != n or got["said"] != f"{n} of {r['rows']} shown" or not got["all"] or set(got["class"]) & set(off):
            wrong.append(f"{name}: search {case!r} without {off} shows {got}, not {n} of {r['rows']}")


def colours(png):
    """The different bytes of a picture's rows: a few for an empty sheet."""
    data, at, body = png.read_bytes(), 8, b""
    while at < len(data):
        n = int.from_bytes(data[at:at + 4], "big")
        if data[at + 4:at + 8] == b"IDAT":
            body += data[at + 8:at + 8 + n]
        at += n + 12
    return len(set(zlib.decompress(body)))


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    (folder / "nasty.ir").write_bytes(report_models.nasty())
    (folder / "many.ir").write_bytes(report_models.many())
    runs = [
        (samples / "bert.ir", [("", [], 204), ("pooler", [], 2), ("POOLER dense", [], 2), ("layer.3.", [], 16), ("", ["always"], 2),
                               ("", ["never"], 202), ("layer.3.", ["always"], 0), ("no such thing", [], 0)]),
        (samples / "gan.ir", [("", [], 48), ("", ["frozen"], 24), ("netd.main.3", [], 4)]),
        (samples / "moe.ir", [("experts.1.w2", [], 2), ("", ["conditional"], 17), ("only when l0_expert3", [], 3)]),
        (folder / "nasty.ir", [("", [], len(report_models.NAMES) + 1), ("<b>bold", [], 1), ("evil=1", [], 2), ("&amp;", [], 1)]),
        (folder / "many.ir", [("", [], 10000), ("p4711.", [], 1), ("m.7.", [], 1000), ("", ["always"], 1)]),
    ]
    for model, cases in runs:
        page = folder / (model.stem + ".html")
        subprocess.run([ddpc, "report", model, "-o", page], check=True)
        drive(model.name, page, cases)
    drive("bert.ir, narrow", folder / "bert.html", [("", [], 204)], 500)
    chromium(folder / "bert.html", "--window-size=1200,900", f"--screenshot={folder / 'light.png'}")
    chromium(folder / "bert.html", "--window-size=1200,900", "--blink-settings=preferredColorScheme=0", f"--screenshot={folder / 'dark.png'}")
    light, dark = (folder / f"{n}.png" for n in ("light", "dark"))
    if min(colours(light), colours(dark)) < 50 or light.read_bytes() == dark.read_bytes():
        wrong.append(f"screenshots: {colours(light)} and {colours(dark)} different bytes")
print("\n".join(wrong) or "the page works in " + browser)
sys.exit(bool(wrong))
