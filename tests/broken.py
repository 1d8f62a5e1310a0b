#!/usr/bin/env python3
"""Real models, broken on purpose: the first diagnostic has the right code, line and column, and is the only error.

usage: broken.py [-v] DDPC MODEL...    -v: every diagnostic, and not only those that are wrong

The script knows where it broke a text. Each kind of mistake is made in every model that offers a place for it, near
the middle; the diagnostic must stand there, and where something can be suggested, suggest it. Each kind has at least five
broken texts: where fewer models have a place for it, they are broken at further places.
"""
import json
import pathlib
import re
import subprocess
import sys

NODE = re.compile(r"^ +(?:\[[^]\n]*\] )?(?P<outputs>[^\n=#[\]]*?) = (?P<op>[A-Z]\w+)(?: <[^\n]*>)? "
                  r"\((?P<inputs>[^\n()]*)\)$", re.M)
ITEM = re.compile(r"^ +(?P<type>float\[[\d,]+\]) (?P<name>\S+?),$", re.M)
KINDS = {}
TOGETHER = [("comma missing between inputs", "parenthesis not closed", "type misspelt", "number with a letter",
             "attribute kind misspelt", "string not closed in an item"),
            ("operator misspelt", "input too many", "input too few", "value undefined", "value defined twice")]
FEWEST = 5  # broken texts for each kind; where fewer models have a place for it, each is broken at several
where = 0.5  # which of the places for a mistake, from the first to the last


class NoPlace(Exception):
    """The model has no place for this mistake."""


def kind(code, says="", token=r""):
    """A function (text) -> (broken text, offset of the mistake in it), or None without a place for it. What the
    diagnostic underlines matches `token`."""
    def register(function):
        KINDS[function.__name__.replace("_", " ")] = (code, says, function, re.compile(token))
        return function
    return register


def middle(pattern, text, fits=lambda match: True):
    found = [m for m in pattern.finditer(text) if fits(m)]
    if not found:
        raise NoPlace
    return found[int(len(found) * where)]


def replaced(text, start, end, by, at=None):
    return text[:start] + by + text[end:], start if at is None else at


def names(match, group):
    return [n for n in match[group].split(", ") if n]


def node(text, fits=lambda match: True):
    return middle(NODE, text, fits)


def indentation(match):
    return len(match[0]) - len(match[0].lstrip())


def misspelt(word):
    """Two letters near the end the other way round."""
    for i in range(len(word) - 2, 0, -1):
        if word[i] != word[i + 1] and word[i].isalpha() and word[i + 1].isalpha():
            return word[:i] + word[i + 1] + word[i] + word[i + 2:]


@kind("DDP0101", "expected ',' or ')'")
def comma_missing_between_inputs(text):
    m = node(text, lambda m: len(names(m, "inputs")) > 1)
    comma = text.index(", ", m.start("inputs"))
    return replaced(text, comma, comma + 2, " ", comma + 1)


@kind("DDP0101", "expected ',' or ')'")
def parenthesis_not_closed(text):
    m = node(text)
    return replaced(text, m.end() - 1, m.end(), "")


@kind("DDP0101", "expected '(' before the node's inputs")
def parenthesis_not_opened(text):
    m = node(text, lambda m: names(m, "inputs"))
    return replaced(text, m.start("inputs") - 1, m.start("inputs"), "")


@kind("DDP0101", "expected '=' behind the node's outputs")
def equals_sign_missing(text):
    m = node(text)
    return replaced(text, m.end("outputs"), m.start("op"), " ", m.end("outputs") + 1)


@kind("DDP0101", "expected '{' before the nodes")
def brace_not_opened(text):
    brace = text.index("\n{\n")
    return replaced(text, brace + 1, brace + 2, "", brace)


@kind("DDP0102", "the graph's nodes begin here")
def brace_not_closed(text):
    end = text.rstrip()
    if end.count("\n}") > 1:
        raise NoPlace
    return end[:-1], len(end) - 1


@kind("DDP0101", "expected '=>' before the outputs")
def arrow_missing(text):
    arrow = text.index(" => ")
    return replaced(text, arrow, arrow + 4, " ", arrow + 1)


@kind("DDP0101", "expected ',' or '>' behind a declaration")
def comma_missing_between_items(text):
    m = middle(ITEM, text)
    return replaced(text, m.end() - 1, m.end(), "")


@kind("DDP0101", "did you mean 'float'?", r"flaot")
def type_misspelt(text):
    m = middle(ITEM, text)
    return replaced(text, m.start("type"), m.start("type") + 5, "flaot")


@kind("DDP0101")
def bracket_of_a_shape_not_closed(text):
    m = middle(ITEM, text)
    return replaced(text, m.end("type") - 1, m.end("type"), "", m.end("type"))


@kind("DDP0105", "is not a number", r"-?\d+x")
def number_with_a_letter(text):
    m = middle(re.compile(r"\w = (-?\d+)(?=[,>])"), text)
    return replaced(text, m.end(1), m.end(1), "x", m.start(1))


@kind("DDP0104", "does not fit into 64 bits", r"-?\d+")
def number_too_large(text):
    m = middle(re.compile(r"\w = (-?\d+)(?=[,>])"), text)
    return replaced(text, m.end(1), m.end(1), "9" * 20, m.start(1))


@kind("DDP0111", "the value is of kind int where string is wanted")
def attribute_of_another_kind(text):
    m = middle(re.compile(r"<\w+(|: int) = (-?\d+)(?=[,>])"), text)
    return replaced(text, m.start(1), m.end(1), ": string", m.start(1) + len(": string = "))


@kind("DDP0101", "did you mean 'ints'?", r"itns")
def attribute_kind_misspelt(text):
    m = middle(re.compile(r"[<,] ?\w+(|: ints) = \["), text)
    return replaced(text, m.start(1), m.end(1), ": itns", m.start(1) + 2)


@kind("DDP0112", "are given")
def element_too_many(text):
    m = middle(re.compile(r"int64\[\d+\] \{(\d)"), text)
    return replaced(text, m.start(1), m.start(1), "1, ")


@kind("DDP0109", "this string has no closing quote")
def string_not_closed_in_a_node(text):
    m = node(text, lambda m: '"' in m["inputs"])
    quote = text.index('"', text.index('"', m.start("inputs")) + 1)
    return replaced(text, quote, quote + 1, "", text.index('"', m.start("inputs")))


@kind("DDP0109", "this string has no closing quote")
def string_not_closed_in_an_item(text):
    m = middle(ITEM, text, lambda m: m["name"].startswith('"'))
    return replaced(text, m.end("name") - 1, m.end("name"), "", m.start("name"))


@kind("DDP0301", "did you mean", r"[A-Z]\w+")
def operator_misspelt(text):
    m = node(text, lambda m: len(m["op"]) > 3 and misspelt(m["op"]))
    return replaced(text, m.start("op"), m.end("op"), misspelt(m["op"]))


@kind("DDP0301", "the model does not import domain 'my.domain' either", r"my\.domain\.\w+")
def domain_not_imported(text):
    m = node(text)
    return replaced(text, m.start("op"), m.start("op"), "my.domain.")


@kind("DDP0206", "opset_import")
def opset_import_missing(text):
    broken = re.sub(r'"" *: *\d+(, *)?', "", text, count=1)
    return broken, NODE.search(broken).start("op")


@kind("DDP0110", "did you mean 'opset_import'?", r"opset_imoprt")
def header_key_misspelt(text):
    at = text.index("opset_import")
    return replaced(text, at, at + 12, "opset_imoprt")


@kind("DDP0303", "takes")
def input_too_many(text):
    m = node(text, lambda m: m["op"] in ("Relu", "Tanh", "Add", "Mul", "MatMul", "Transpose", "Sigmoid"))
    first = names(m, "inputs")[0]
    return replaced(text, m.end("inputs"), m.end("inputs"), f", {first}", m.end("inputs") + 2)


@kind("DDP0302", "lacks input 2")
def input_too_few(text):
    m = node(text, lambda m: m["op"] in ("Add", "Mul", "MatMul", "Conv", "Gemm", "Reshape"))
    return replaced(text, m.start("inputs") + len(names(m, "inputs")[0]), m.end("inputs"), "", m.start("op"))


@kind("DDP0203", "did you mean", r'"[^"]+"|\w+')
def value_undefined(text):
    m = node(text, lambda m: names(m, "inputs") and len(names(m, "inputs")[0]) > 4 and misspelt(names(m, "inputs")[0]))
    name = names(m, "inputs")[0]
    return replaced(text, m.start("inputs"), m.start("inputs") + len(name), misspelt(name))


@kind("DDP0201", "first defined here", r"\w+")
def value_defined_twice(text):
    m = node(text, lambda m: len(names(m, "outputs")) == 1)
    return replaced(text, m.end(), m.end(), "\n" + m[0], m.end() + 1 + m.start("outputs") - m.start())


@kind("DDP0202", "is defined")
def node_before_the_one_that_it_reads(text):
    lines = NODE.finditer(text)
    last = next(lines)
    pairs = []
    for m in lines:
        if m.start() == last.end() + 1 and names(last, "outputs")[0] in names(m, "inputs"):
            pairs.append((last, m))
        last = m
    if not pairs:
        raise NoPlace
    first, second = pairs[len(pairs) // 2]
    offset = second["inputs"].split(", ").index(names(first, "outputs")[0])
    column = second.start("inputs") - second.start() + sum(len(n) + 2 for n in names(second, "inputs")[:offset])
    return replaced(text, first.start(), second.end(), second[0] + "\n" + first[0], first.start() + column)


@kind("DDP0204", "")
def cycle(text):
    """A node reads what is made of it."""
    lines = list(NODE.finditer(text))
    pairs = [(a, b) for a, b in zip(lines, lines[1:])
             if names(a, "outputs")[0] in names(b, "inputs") and a["op"] not in ("Constant",) and names(a, "inputs")
             and a.end() + 1 == b.start()]
    if not pairs:
        raise NoPlace
    a, b = pairs[len(pairs) // 2]
    name = names(a, "inputs")[0]
    return replaced(text, a.start("inputs"), a.start("inputs") + len(name), names(b, "outputs")[0])


@kind("DDP0205", "output", r'"[^"]+"|\w+')
def output_undefined(text):
    m = re.search(r'=> \((?:\w+(?:\[[^\]]*\])? )?("?[\w/]+)"?[,)]', text)
    return replaced(text, m.end(1), m.end(1), "_of_training", m.start(1))


@kind("DDP0107", "the main graph ends here")
def brace_closed_too_early(text):
    m = node(text, lambda m: indentation(m) == 3)
    return replaced(text, m.end(), m.end(), "\n}", m.end() + len("\n}\n   "))


@kind("DDP0101", "expected ',' or '>' behind an attribute")
def brace_of_a_branch_closed_too_early(text):
    m = node(text, lambda m: indentation(m) > 3 and text[m.end() + 1:].lstrip()[0] not in "})")
    return replaced(text, m.end(), m.end(), "\n      }", m.end() + len("\n      }"))


@kind("DDP0107", "stands behind the model")
def brace_too_many(text):
    end = text.rstrip()
    return end + "\n}\n", len(end) + 1


@kind("DDP0208", "output")
def branch_with_too_few_outputs(text):
    m = middle(re.compile(r"then_branch = (\w+) \(\) => \([^()]*\)"), text)
    return (text[:m.start()] + re.sub(r"=> \(.*\)", "=> ()", m[0]) + text[m.end():], m.start(1))


def place(text, offset):
    before = text[:offset]
    return before.count("\n") + 1, len(before.encode()) - len(before[:before.rfind("\n") + 1].encode()) + 1


def diagnose(ddpc, text):
    command = [ddpc, "check", "-", "--diagnostics=json"]
    out = subprocess.run(command, input=text.encode(), capture_output=True).stderr.decode()
    return json.loads(out)["diagnostics"] if out.startswith("{") else out


def several(text, kinds):
    """A text with all these mistakes, each on a line of its own, and the places of those that it has a place for."""
    global where
    lines, places = text.split("\n"), []
    for i, name in enumerate(kinds):
        where = (i + 1) / (len(kinds) + 1)
        try:
            broken = KINDS[name][2](text)
        except NoPlace:
            continue
        finally:
            where = 0.5
        at = place(*broken)
        changed = broken[0].split("\n")
        first = next(k for k, line in enumerate(changed) if line != text.split("\n")[k])
        more = len(changed) - text.count("\n") - 1
        lines[first] = "\n".join(changed[first:first + 1 + more])
        places.append((first, name, at[0] - first - 1, at[1]))
    result, found = "\n".join(lines), []
    for first, name, below, column in places:
        line = "\n".join(lines[:first]).count("\n") + (first > 0) + 1
        found.append((line + below, column, KINDS[name][0]))
    return result, sorted(found)


def broken_texts(breaks, models):
    """(model, text, place) of each broken text: one for each model, more while they are too few."""
    global where
    made = []
    for where in (0.5, 0.25, 0.75, 0, 0.99):
        for model in models:
            try:
                broken = breaks(pathlib.Path(model).read_text())
            except NoPlace:
                continue
            if (model, *broken) not in made:
                made.append((model, *broken))
        if len(made) >= FEWEST:
            break
    where = 0.5
    return made


def main(ddpc, *models):
    verbose, rows, failed = False, [], 0
    if ddpc == "-v":
        verbose, ddpc, models = True, models[0], models[1:]
    for name, (code, says, breaks, token) in KINDS.items():
        made = broken_texts(breaks, models)
        right = 0
        for model, text, offset in made:
            line, column = place(text, offset)
            errors = [d for d in diagnose(ddpc, text) if d["severity"] == "error"]
            first = errors[0] if errors else {}
            there = (first.get("line"), first.get("column")) == (line, column)
            marked = text.split("\n")[line - 1].encode()[column - 1:][:first.get("length", 0)].decode()
            spans = token.fullmatch(marked) if token.pattern else True
            ok = (len(errors) == 1 and first["code"] == code and there and spans
                  and says in json.dumps(first, ensure_ascii=False))
            right += ok
            if verbose or not ok:
                print(f"{'ok' if ok else 'FAILED'}: {name}, {model}: wanted {code} '{says}' at {line}:{column}, got "
                      f"{len(errors)} errors:")
                for d in errors[:3]:
                    print("   ", json.dumps(d, ensure_ascii=False))
        rows.append(f"{name:40} {code}  {right} of {len(made)}")
        failed += right < len(made) or len(made) < FEWEST  # too few test nothing
    for kinds in TOGETHER:
        right = 0
        for model in models:
            text, wanted = several(pathlib.Path(model).read_text(), kinds)
            errors = [d for d in diagnose(ddpc, text) if d["severity"] == "error"]
            got = [(d["line"], d["column"], d["code"]) for d in errors]
            right += got == wanted
            if got != wanted:
                print(f"FAILED: {', '.join(kinds)} in one text, {model}: wanted {wanted}, got {got}")
        rows.append(f"{'together: ' + ', '.join(kinds)}  {right} of {len(models)}")
        failed += right < len(models)
    print("\n".join(rows))
    print(f"{len(KINDS)} kinds of mistakes; {failed} have a diagnostic that is not where it should be")
    return failed > 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    sys.exit(main(*sys.argv[1:]))
