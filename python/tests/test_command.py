"""The command is found where it should be, answers in dicts, and fails in its own words."""

import os

import pytest

import ddpc
from ddpc import command

LIST = "a.weight float32 [4,4]\nb.weight float32 [4] turn\n"


def test_check_of_a_list():
    answer = command.check(LIST, "--from-list")
    assert answer["verdict"] == "flag_needed"
    assert [p["class"] for p in answer["steps"][0]["parameters"]] == ["always", "conditional"]


def test_check_of_a_file(tmp_path):
    file = tmp_path / "m.list"
    file.write_text(LIST)
    assert command.check(file, "--from-list")["steps"] == command.check(str(file), "--from-list")["steps"]


def test_what_is_denied_is_in_the_answer():
    assert len(command.check(LIST, "--deny=conditional", "--from-list")["denied"]) == 1


def test_a_failure_has_the_words_of_the_tool():
    with pytest.raises(ddpc.Error, match="DDP") as caught:
        command.check("not a model\n")
    assert caught.value.code == 1
    with pytest.raises(ddpc.Error, match="nosuch.ir") as caught:
        command.check("nosuch.ir")
    assert caught.value.code == 2


def test_found_through_the_variable_then_path(monkeypatch):
    built = command.find()
    monkeypatch.setenv("PATH", os.path.dirname(built))
    monkeypatch.delenv("DDPC")
    assert command.find() in (built, str(command.Path(command.__file__).parent / "bin" / "ddpc"))
    monkeypatch.setenv("DDPC", "/nowhere/ddpc")
    with pytest.raises(ddpc.Error, match="DDPC is '/nowhere/ddpc'"):
        command.find()
