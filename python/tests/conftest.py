"""Tests find the package in this tree, and `ddpc` through DDPC, else in the tree's build folder, else on PATH."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
if "DDPC" not in os.environ and (ROOT / "build" / "ddpc").exists():
    os.environ["DDPC"] = str(ROOT / "build" / "ddpc")
# Processes that a test starts find the same.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "python"), os.environ.get("PYTHONPATH")]))
