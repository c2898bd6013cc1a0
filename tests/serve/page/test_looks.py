"""At the widths of a phone and of a desk, light and dark: nothing sticks out, nothing is hard to read."""

from collections.abc import Callable
from typing import Any, Literal

import pytest
from tests.serve.page.conftest import Site, Visit, playwright

Open = Callable[..., Visit]
OVERFLOW = """[...document.querySelectorAll("main *")].filter((each) => {
  const box = each.getBoundingClientRect();
  return box.width && !each.closest(".unseen, .skip, .scroll, .drop") && (box.right > innerWidth + 1 || box.left < -1);
}).map((each) => each.outerHTML.slice(0, 80))"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_and_is_accessible(site: Site, visit: Open, width: int, scheme: Literal["light", "dark"]) -> None:
    size = {"width": width, "height": 844}
    seen = visit(site.address, viewport=size, color_scheme=scheme, reduced_motion="reduce")
    seen.answered()
    seen.page.get_by_role("slider").press("ArrowRight")
    playwright.expect(seen.page.locator("#kept .hits li")).to_have_count(6)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.page.evaluate(OVERFLOW) == []
    dark = seen.page.evaluate("parseInt(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]) < 128")
    assert dark == (scheme == "dark")
    for way in ("Examples", "Picture", "Camera", "Draw"):
        seen.page.get_by_role("tab", name=way).click()
        assert violations(seen.page) == []


def violations(page: Any) -> list[str]:
    """What axe-core finds, of any weight."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe-playwright-python").Axe()
    found = axe.run(page).response["violations"]
    return [f"{each['id']}: {node['html'][:120]} {node['failureSummary']}" for each in found for node in each["nodes"]]
