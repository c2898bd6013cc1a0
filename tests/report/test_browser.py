from pathlib import Path

import pytest
from tests.report.browser import CHROMIUM, look

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the path")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_report_fits_loads_and_complains_of_nothing(report: Path, width: int, scheme) -> None:
    seen = look(report, width, scheme)
    assert seen.inner == width and seen.scroll <= seen.inner
    assert seen.images > 80 and seen.broken == 0
    assert seen.console == ()
    assert seen.dark == (scheme == "dark")


def test_a_bad_page_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        '<!doctype html><div style="width:2000px">wide</div><img src="data:image/png;base64,AAAA">'
        '<script>console.error("on purpose")</script>'
    )
    seen = look(page, 390)
    assert seen.scroll >= 2000 and seen.broken == 1 and any("on purpose" in line for line in seen.console)
