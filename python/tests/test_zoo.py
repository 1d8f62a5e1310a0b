"""Every model of the zoo is recorded, and what is said of it is compared with autograd and with what a person would say."""

import functools
import re

import pytest

torch = pytest.importorskip("torch")

import zoo
import zoo.truth
from ddpc import command
from ddpc.torch import export


@functools.lru_cache(maxsize=None)
def recorded(name):
    """(text, state before, state after) of a model; `export` compares the text with autograd, and raises if they differ."""
    s = zoo.MODELS[name].setup()
    zoo.seed()
    before = state_of(s.module)
    return export(s.module, s.batches, s.loss, steps=s.steps), before, state_of(s.module)


def text_of(name):
    return recorded(name)[0]


def state_of(module):
    """Everything that recording must leave alone."""
    state = {f"the elements of {n}": t.clone() for n, t in module.state_dict().items()}
    for n, p in module.named_parameters():
        state[f"the flag of {n}"], state[f"the gradient of {n}"] = torch.tensor(p.requires_grad), p.grad
    state["the random state"] = torch.get_rng_state()
    return state


@functools.lru_cache(maxsize=None)
def check_of(name):
    return command.check(text_of(name))


@pytest.fixture(params=list(zoo.MODELS.values()), ids=lambda m: m.name)
def model(request):
    return request.param


def classes(check):
    """Step -> parameter -> its entry, without buffers."""
    return {s["name"]: {p["name"]: p for p in s["parameters"] if p["kind"] == "parameter"} for s in check["steps"]}


def test_agrees_with_a_plain_backward(model):
    """In some setting of the branches the text says of each batch just what autograd did, and it has no other settings."""
    settings = [b["name"] for b in check_of(model.name)["branches"]]
    said = {}
    for chosen in [None, *settings]:
        flags = [f"--assume={b}={'true' if b == chosen else 'false'}" for b in settings]
        for step, parameters in classes(command.check(text_of(model.name), *flags)).items():
            assert not any(p["class"] == "conditional" for p in parameters.values())
            said.setdefault(step, set()).add(frozenset(n for n, p in parameters.items() if p["class"] == "always"))
    seen = {step: {frozenset(b) for b in batches} for step, batches in zoo.truth.observed(model.setup()).items()}
    assert said == seen


def test_leaves_the_module_as_it_was(model):
    _, before, after = recorded(model.name)
    assert list(before) == list(after)
    changed = [n for n in before if before[n] is not after[n] and not torch.equal(before[n], after[n])]
    assert not changed


def test_names_all_parameters(model):
    check, module = check_of(model.name), model.setup().module
    for parameters in classes(check).values():
        assert list(parameters) == list(zoo.truth.named(module))
    assert check["complete"] and check["evidence"] == "observed"


def test_classes_are_those_that_a_person_gives(model):
    check = check_of(model.name)
    for step, parameters in classes(check).items():
        wrong = {n: p["class"] for n, p in parameters.items() if p["class"] != model.expected(step, n)[0]}
        assert not wrong, f"step {step}"
    assert check["verdict"] == model.verdict


def test_reasons_name_what_a_person_names(model):
    wrong = []
    for step, parameters in classes(check_of(model.name)).items():
        for name, p in parameters.items():
            kind, rule = model.expected(step, name)
            if rule is None or kind == "frozen":
                continue
            source = p.get("source") or {}
            named = re.findall(r"([\w.]+\.py):(\d+)", p["reason"]) + [(source.get("file", ""), source.get("line"))]
            lines = {(file.rpartition("/")[2], int(line)) for file, line in named if file}
            if not re.search(rule.words, p["reason"]):
                wrong.append(f"{name}: {p['reason']!r} does not say {rule.words!r}")
            if rule.file and rule.line() not in lines:
                wrong.append(f"{name}: {p['reason']!r} with {source} does not name {rule.line()}")
    assert not wrong


def test_rules_are_used(model):
    """No rule of the zoo is idle: each has a parameter."""
    names = list(zoo.truth.named(model.setup().module))
    for key in [*model.never, *model.conditional, *model.frozen]:
        glob = key.rpartition(":")[2]
        assert any(zoo.matches(n, glob) for n in names), key
