"""The site's lessons are executed by kernels, which may stop answering."""

import pytest

lessons = pytest.importorskip("tools.site.lessons", reason="it needs the extra docs")

SLOW_ONCE = """# %%
import pathlib, time
seen = pathlib.Path({seen!r})
if not seen.exists():
    seen.touch()
    time.sleep({seconds})
print("executed")
"""


def test_a_lesson_whose_kernel_stops_answering_is_executed_again(tmp_path, monkeypatch):
    monkeypatch.setattr(lessons, "EXECUTED", tmp_path / "executed")
    monkeypatch.setattr(lessons, "SECONDS", 8)
    script = tmp_path / "1_lesson.py"
    script.write_text(SLOW_ONCE.format(seen=str(tmp_path / "seen"), seconds=600))
    made = lessons.execute(script)
    assert made.cells[-1].outputs[0].text == "executed\n"
    assert lessons.execute(script) == made  # read from the file that was kept
