#!/usr/bin/env python3
"""Writes the sample models, real architectures with the parameter names that people know.

usage: generate.py                          write every sample in its default size, here
       generate.py --check                  compare instead of writing; exit 1 where a file differs
       generate.py MODEL [KEY=VALUE ...]    print one, in any size: generate.py bert layers=6 hidden=512 heads=8
       generate.py MODEL --help             its keys and their defaults

batch may be a name instead of a number ("batch=B"): a symbolic dimension, for ddpc's --dim B=32.
precision=mixed (resnet*, bert*, gpt2*): parameters are float and cast where they are used; bfloat16: all is.
fused=1 (bert*, gpt2*): attention is one operator.
"""
import functools
import inspect
import pathlib
import sys

from models import bert, gan, gpt2, layerdrop, moe, resnet
from models.text import PRECISIONS

sized = functools.partial
MODELS = {  # the checked-in ones
    "resnet18": sized(resnet.build, depth=18),
    "resnet50": sized(resnet.build, depth=50),
    "bert": bert.build,
    "gpt2": gpt2.build,
    "gan": gan.build,
    "moe": moe.build,
    "layerdrop": layerdrop.build,
}
SIZES = {  # the same in other sizes that have a name
    "resnet34": sized(resnet.build, depth=34),
    "resnet101": sized(resnet.build, depth=101),
    "resnet152": sized(resnet.build, depth=152),
    "bert-large": sized(bert.build, layers=24, hidden=1024, heads=16),
    "gpt2-medium": sized(gpt2.build, layers=24, hidden=1024, heads=16),
    "gpt2-large": sized(gpt2.build, layers=36, hidden=1280, heads=20),
    "gpt2-xl": sized(gpt2.build, layers=48, hidden=1600, heads=25),
}


def value_of(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def one(name, settings):
    build = (MODELS | SIZES)[name]
    keys = {p.name: p.default for p in inspect.signature(build).parameters.values()}
    if settings == ["--help"]:
        return f"{name}: " + " ".join(f"{k}={v}" for k, v in keys.items()) + "\n"
    given = dict(s.partition("=")[::2] for s in settings)
    unknown = given.keys() - keys.keys()
    if unknown:
        sys.exit(f"generate.py: {name} has no {', '.join(sorted(unknown))}; it has {', '.join(keys)}")
    given = {k: value_of(v) for k, v in given.items()}
    for k, v in given.items():
        if k == "batch" and isinstance(v, str) and v.isidentifier():
            continue
        if k == "precision":
            if v not in PRECISIONS:
                sys.exit(f"generate.py: precision is {', '.join(PRECISIONS)}, not '{v}'")
            continue
        rate, least = isinstance(keys[k], float), 0 if k == "layers" or not keys[k] or isinstance(keys[k], float) else 1
        if not isinstance(v, (int, float) if rate else int) or not v >= least:
            sys.exit(f"generate.py: {k} is a {'' if rate else 'whole '}number from {least}, not '{v}'")
    sizes = keys | given
    if "heads" in sizes and sizes["hidden"] % sizes["heads"]:
        sys.exit(f"generate.py: hidden={sizes['hidden']} is no multiple of heads={sizes['heads']}")
    try:
        return build(**given)
    except (ArithmeticError, AssertionError, KeyError, ValueError):
        sys.exit(f"generate.py: there is no {name} with {' '.join(settings)}")


def main(arguments):
    if arguments and arguments[0] in MODELS | SIZES:
        sys.stdout.write(one(arguments[0], arguments[1:]))
    elif arguments not in ([], ["--check"]):
        sys.exit(__doc__.strip() + "\n\nMODEL: " + ", ".join([*MODELS, *SIZES]))
    else:
        folder = pathlib.Path(__file__).resolve().parent
        stale = 0
        for name, build in MODELS.items():
            path, text = folder / f"{name}.ir", build()
            if not arguments:
                path.write_text(text)
            elif not path.exists() or path.read_text() != text:
                print(f"{path.name} is not what generate.py writes")
                stale += 1
        return stale > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
