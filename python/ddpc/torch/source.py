"""Where in the user's code something happens, as "FILE:LINE".

The user's code is everything but torch, this package, the standard library and generated code: a model's own file,
and the library that it comes from. Files are named so that the same code has the same name on every machine:
below the current folder as seen from there, installed packages from their top folder
(transformers/models/bert/modeling_bert.py).
"""

from __future__ import annotations

import functools
import importlib.util
import linecache
import os
import re
import sys
import sysconfig
from types import FrameType
from typing import Optional, Union

PACKAGES = ("site-packages", "dist-packages")


def folder_of(file: str) -> str:
    return os.path.dirname(os.path.realpath(file)) + os.sep


spec = importlib.util.find_spec("torch")
TORCH = folder_of(spec.origin) if spec and spec.origin else os.devnull
DDPC = os.path.dirname(os.path.dirname(os.path.realpath(__file__))) + os.sep
STANDARD = tuple({os.path.realpath(sysconfig.get_path(key)) + os.sep for key in ("stdlib", "platstdlib")})
BEGINNING = os.path.join("torch", "api.py")  # of this package: it calls the module
LAYERS = os.path.join(TORCH, "nn", "modules") + os.sep
FX = "<eval_with_key>"  # what torch.fx calls the files of the code that it makes
PLUMBING = ("module.py", "container.py")


def installed(file: str) -> Optional[str]:
    """The part of a path below site-packages, or None."""
    parts = file.split(os.sep)
    last = max((i for i, part in enumerate(parts) if part in PACKAGES), default=None)
    return None if last is None else os.sep.join(parts[last + 1:])


@functools.lru_cache(maxsize=None)
def is_user(file: str) -> bool:
    """Whether the code of a file (`co_filename`) is the user's."""
    if file.startswith("<"):
        return False
    file = os.path.realpath(file)
    if file.startswith((TORCH, DDPC)):
        return False
    return installed(file) is not None or not file.startswith(STANDARD)


@functools.lru_cache(maxsize=None)
def is_layer(file: str) -> bool:
    """Whether a file holds layers of torch."""
    file = os.path.realpath(file)
    return file.startswith(LAYERS) and file[len(LAYERS):] not in PLUMBING


@functools.lru_cache(maxsize=None)
def short(file: str, folder: str) -> str:
    """The name of a file as seen from a folder."""
    if file.startswith("<"):
        return file
    full = os.path.abspath(file)
    below = installed(full)
    if below is not None:
        return below
    for path in (full, os.path.realpath(full)):
        if path.startswith(folder.rstrip(os.sep) + os.sep):
            return os.path.relpath(path, folder)
    top = os.path.dirname(full)
    while os.path.exists(os.path.join(top, "__init__.py")):
        top = os.path.dirname(top)
    return os.path.relpath(full, top)


def generated(frame: FrameType) -> str:
    """The place that a frame of torch.fx's code stands for, "" if it is none: its nodes know where they come from."""
    code = frame.f_code
    nodes = getattr(getattr(frame.f_locals.get("self"), "graph", None), "nodes", ())
    made = linecache.getline(code.co_filename, frame.f_lineno).partition(" = ")[0].strip()
    node = next((n for n in nodes if n.name == made), None)
    frames = re.findall(r'File "([^"]+)", line (\d+)', (node.meta.get("stack_trace") or "") if node else "")
    users = [f for f in frames if is_user(f[0])]
    return place(users[-1][0], int(users[-1][1])) if users else ""


def place(where: Union[FrameType, str], line: Optional[int] = None) -> str:
    """"FILE:LINE" of a frame, or of a line of a file."""
    if not isinstance(where, str) and where.f_code.co_filename.startswith(FX):
        return generated(where)
    if not isinstance(where, str):
        where, line = where.f_code.co_filename, where.f_lineno if line is None else line
    return f"{short(where, os.getcwd())}:{line}"


def user_frame(frame: Optional[FrameType] = None) -> Optional[FrameType]:
    """The innermost frame of the user's code, from `frame` (the caller's) outwards to where recording began.

    Where only torch runs (an nn.Sequential) it is that of the innermost layer, else None.
    """
    frame, layer = frame or sys._getframe(1), None
    while frame is not None:
        file = frame.f_code.co_filename
        if is_user(file) or file.startswith(FX) and generated(frame):
            return frame
        if file.startswith(DDPC) and file.endswith(BEGINNING):
            break
        if layer is None and is_layer(file):
            layer = frame
        frame = frame.f_back
    return layer


def user_place() -> str:
    """The place of the innermost frame of the user's code; "" where only torch runs."""
    frame = user_frame(sys._getframe(1))
    return place(frame) if frame is not None else ""
