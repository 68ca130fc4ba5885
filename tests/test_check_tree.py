"""The checks of tools/check_tree.py, on lines that they are there for."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("check_tree", ROOT / "tools" / "check_tree.py")
check_tree = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_tree)


def found(tmp_path, monkeypatch, line, name="a.pyx"):
    monkeypatch.setattr(check_tree, "ROOT", tmp_path)
    (tmp_path / name).write_text(line + "\n")
    return [text for _, text in check_tree.findings(name)]


NEGATIVE = ["x = a[-1]", "return f(x)[-2]", "y[0][ -1 ] = 3", "x = 'text' + a[-1]", "if x: t.sizes[-1]", 'f"{x[-1]}"']
OTHERS = ["order = [-1] * n", "f(x, [-1])", 'raise IndexError("in range of x[-1]")', "x = a[n - 1]", "# a[-1] is no code"]


@pytest.mark.parametrize("line", NEGATIVE)
def test_negative_index_is_refused_in_cython(line, tmp_path, monkeypatch):
    assert any("negative index" in text for text in found(tmp_path, monkeypatch, line))
    assert not found(tmp_path, monkeypatch, line, "a.py")


@pytest.mark.parametrize("line", OTHERS)
def test_what_is_no_negative_index(line, tmp_path, monkeypatch):
    assert not found(tmp_path, monkeypatch, line)


def test_the_other_checks(tmp_path, monkeypatch):
    assert found(tmp_path, monkeypatch, "x = 1 ") == ["white space at the end of the line"]
    assert "more than" in found(tmp_path, monkeypatch, "x = 1\n" * 701)[0]
    assert "path of a machine" in found(tmp_path, monkeypatch, "open('" + "/ho" + "me/someone')")[0]
