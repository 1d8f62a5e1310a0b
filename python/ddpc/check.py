"""python -m ddpc.check: which parameters of a PyTorch module get no gradient, why, and what to set in DDP.

    python -m ddpc.check pkg.mod:build --batch pkg.mod:batches --loss pkg.mod:loss --deny=never

Records the module with its batches, compares the recording with autograd, and reports as `ddpc check` does; every flag
of that command that is not listed here is passed on to it (`ddpc help check`). Exit status as there: 0, 1 for a module
that is rejected, denied or recorded differently from what autograd does, 2 for usage, 3 for an internal error.
"""

import argparse
import json
import re
import sys
from typing import Iterable, List, Optional, Sequence, Tuple

from . import Error, command
from .export import need_torch, write

PROGRAM = "ddpc.check"
PATTERNS = ("--frozen", "--trainable")


def split(parser: argparse.ArgumentParser, argv: Sequence[str]) -> Tuple[List[str], List[str]]:
    """Arguments of this program, and those of `ddpc check`."""
    listed = re.findall(r"^ +(--[a-z-]+)(=?)", command.ask(["help", "check"]), re.M)
    theirs = {name for name, _ in listed}
    valued = {name for name, equals in listed if equals}
    own = {option: action.nargs != 0 for action in parser._actions for option in action.option_strings}
    mine: List[str] = []
    passed: List[str] = []
    rest = list(argv)
    while rest:
        arg = rest.pop(0)
        name, equals, _ = arg.partition("=")
        to, takes = (mine, own.get(name, False)) if name in own else (passed, name in valued)
        if not arg.startswith("-") or arg == "-":
            to, takes = mine, False
        elif name not in own and name not in theirs:
            from .torch.given import near

            raise Error(f"there is no flag {name}" + near(name, {*own, *theirs})
                        + "\nhelp: --help lists the flags here, `ddpc help check` those that are passed on", 2)
        to.append(arg)
        if takes and not equals and rest:
            to.append(rest.pop(0))
    return mine, passed


def value_of(flags: Sequence[str], name: str) -> str:
    """The last value of a flag among those for `ddpc check`."""
    found = ""
    for i, flag in enumerate(flags):
        if flag == name and i + 1 < len(flags):
            found = flags[i + 1]
        elif flag.startswith(name + "="):
            found = flag[len(name) + 1:]
    return found


def plain(flags: Sequence[str], names: Iterable[str]) -> List[str]:
    """The flags with their patterns as the recording has names: without what a wrapper puts before all of them."""
    from .torch.module import strip

    taken = {name.partition(".")[0] for name in names}
    found: List[str] = []
    for flag in flags:
        name, equals, value = flag.partition("=")
        if name in PATTERNS and equals and value.partition(".")[0] not in taken:
            flag = f"{name}={strip(value)}"
        elif found and found[-1] in PATTERNS and flag.partition(".")[0] not in taken:
            flag = strip(flag)
        found.append(flag)
    return found


def named(report: str, module: str, form: str) -> str:
    """What the command says, about the module: it read the recording, a text that nobody sees, on standard input."""
    report = report.replace("ddpc check MODEL", f"python -m ddpc.check {module} ...")
    if form == "text":
        return re.sub(r" \(<stdin>:\d+\)", "", report).replace("<stdin>", module)
    return report.replace('"<stdin>"', json.dumps(module))


def main(argv: Optional[Sequence[str]] = None) -> int:
    need_torch(PROGRAM)
    from .torch import given
    from .torch.module import parameters_of, unwrap

    parser = argparse.ArgumentParser(PROGRAM, description=(__doc__ or "").partition("\n\n")[0].partition(": ")[2],
                                     epilog="Every other flag is one of `ddpc check` (--deny, --format, --frozen, …): "
                                            "`ddpc help check` lists them.", allow_abbrev=False)
    given.add_arguments(parser)
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="where the report goes; - is standard output")
    with given.failures(PROGRAM) as todo:
        mine, flags = split(parser, sys.argv[1:] if argv is None else argv)
        args = parser.parse_args(mine)
        output = args.output
        given.writable(output)
        given.prepare(args, todo)
        recorded = given.record(todo, PROGRAM)
        done = command.run(["check", *plain(flags, parameters_of(unwrap(todo.module)).parameters), "-"], recorded.text)
        form = value_of(flags, "--format") or "text"
        report = named(done.stdout, args.module, form)
        if form == "sarif" and report:
            from .torch.declared import locate

            results = json.loads(report)
            locate(results, todo.module)
            report = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
        agreement = f"AUTOGRAD {recorded.agreement().partition(' ')[2]}\n" if report else ""
        if form == "text":
            report, agreement = report + agreement, ""
        if report:
            write(output, report)
        sys.stderr.write(named(done.stderr, args.module, "text") + agreement)
        return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
