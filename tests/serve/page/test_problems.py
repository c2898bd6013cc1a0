"""What the page says and does when something is not as it should be."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.serve.page.conftest import Site, Visit, playwright

Open = Callable[..., Visit]
NOTICE = "#notice p"


def test_an_unreadable_picture(site: Site, visit: Open, tmp_path: Path) -> None:
    seen = visit(site.address)
    seen.answered()
    file = tmp_path / "broken.png"
    file.write_bytes(b"no picture")
    seen.page.locator("#file").set_input_files(file)
    playwright.expect(seen.page.locator(NOTICE)).to_contain_text("broken.png is no picture that this browser can read")
    seen.page.get_by_role("button", name="Close").click()
    playwright.expect(seen.page.locator("#notice")).to_be_hidden()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("", "The camera was not allowed"),
        (
            "navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('', 'NotFoundError'))",
            "No camera was found",
        ),
        ("Object.defineProperty(navigator, 'mediaDevices', { value: undefined })", "only to pages that come by https"),
    ],
)
def test_no_camera(site: Site, visit: Open, script: str, said: str) -> None:
    seen = visit(site.address, script=script)
    seen.answered()
    seen.page.get_by_role("tab", name="Camera").click()
    seen.page.get_by_role("button", name="Start the camera").click()
    playwright.expect(seen.page.locator(NOTICE)).to_contain_text(said)
    playwright.expect(seen.page.locator(NOTICE)).to_contain_text("choose a picture", ignore_case=True)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("delete globalThis.WebAssembly", "no WebAssembly"),
        ("WebAssembly.validate = () => false", "without its vector instructions (SIMD)"),
    ],
)
def test_a_browser_that_cannot_run_networks(site: Site, visit: Open, script: str, said: str) -> None:
    seen = visit(site.address, script=script)
    playwright.expect(seen.page.locator(NOTICE)).to_contain_text(said)
    assert seen.ranges() == []


@pytest.mark.slow
def test_a_service_that_is_gone_and_comes_back_with_another_family(
    site: Site, make_site: Callable[[int], Site], visit: Open
) -> None:
    first, second = site.again(), make_site(1)
    first.start()
    try:
        seen = visit(first.address)
        seen.answered()
        first.end()
        seen.page.get_by_role("slider").press("ArrowRight")
        playwright.expect(seen.page.locator(NOTICE)).to_contain_text("The service does not answer")
        seen.draw(((0.3, 0.3), (0.7, 0.7)))
        playwright.expect(seen.page.locator("#asked-name")).to_have_text("Your drawing")
        asked = len(seen.vectors())
        first.start(first.port)
        playwright.expect(seen.page.locator("#notice")).to_be_hidden()  # it asks by itself
        playwright.expect(seen.page.locator("#kept .hits li")).to_have_count(6)  # both were answered meanwhile
        assert len(seen.vectors()) > asked

        first.end()
        second.start(first.port)
        seen.draw(((0.7, 0.3), (0.3, 0.7)))
        playwright.expect(seen.page.locator(NOTICE)).to_contain_text("another network now: family")
        family = seen.page.evaluate("fetch('/v1/family').then(r => r.json()).then(f => f.family_id)")
        playwright.expect(seen.page.locator(NOTICE)).to_contain_text(family)
        playwright.expect(seen.page.locator("#footer")).to_contain_text(family)
        seen.answered("Your drawing")
        searches = [request for request in seen.requests if "/v1/search" in request.url]
        assert searches[-1].headers["x-family-id"] == family
        expected = ("net::ERR_", "status of 409", "status of 404")
        seen.complaints = [told for told in seen.complaints if not any(known in told for known in expected)]
    finally:
        first.end()
        second.end()


@pytest.mark.slow
def test_a_service_that_wants_a_token(site: Site, visit: Open, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.txt"
    tokens.write_text("an-open-secret-of-tests\n")
    guarded = site.again()
    guarded.start(0, "--token-file", tokens)
    try:
        seen = visit(guarded.address)
        field = seen.page.get_by_label("This service wants a token")
        playwright.expect(field).to_be_focused()
        field.fill("another")
        field.press("Enter")
        playwright.expect(seen.page.locator(NOTICE)).to_contain_text("does not know this token")
        field.fill("an-open-secret-of-tests")
        field.press("Enter")
        seen.answered()
        playwright.expect(field).to_be_hidden()
        broken = "[...document.images].filter((image) => image.complete && !image.naturalWidth).length"
        assert seen.page.evaluate(broken) == 0
        seen.complaints = [told for told in seen.complaints if "status of 401" not in told]
    finally:
        guarded.end()
