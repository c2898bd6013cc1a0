"""What the page asks and shows: the same embeddings and answers as Python's, from bytes that are fetched once."""

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.serve.page.conftest import CAPACITIES, Site, Visit, playwright

import prunnet
from prunnet.network import Embeddings
from prunnet.runs import Run
from prunnet.search import FolderIndex

Open = Callable[..., Visit]
EIGHT = (((0.3, 0.3), (0.7, 0.3), (0.3, 0.7), (0.7, 0.7), (0.3, 0.3)),)


def asked_picture(visit: Visit) -> Image.Image:
    """The picture beside the answers, as the page has embedded it."""
    address = visit.page.evaluate("document.getElementById('asked').toDataURL()")
    return Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))).convert("RGB")


def check_like_python(visit: Visit, site: Site, column: str, vector: bytes, capacity: float) -> None:
    """The vector sent is that of `prunnet.Runtime`, and the answers in `column` are those of the index."""
    model = visit.page.evaluate("fetch('/v1/family').then(r => r.json()).then(f => f.model)")
    file = visit.page.context.request.get(site.address.rstrip("/") + model).body()
    expected = prunnet.Runtime(io.BytesIO(file), capacity).encode(asked_picture(visit))
    sent = np.frombuffer(vector, "<f4")
    np.testing.assert_allclose(sent, expected.vectors[0], atol=1e-5)
    sent_embeddings = Embeddings(torch.from_numpy(sent.copy())[None], expected.family_id, capacity)
    found = FolderIndex(site.gallery).search(sent_embeddings, 6)[0]
    hits = visit.page.locator(f"#{column} .hits li")
    assert [hit.get_attribute("title") for hit in hits.all()] == [answer.record.id for answer in found]
    assert hits.locator(".similarity").all_text_contents() == [f"{answer.score:.3f}" for answer in found]


def test_a_drawing_is_answered(site: Site, visit: Open) -> None:
    seen = visit(site.address)
    seen.answered("An example")
    seen.draw(*EIGHT)
    seen.answered("Your drawing")
    playwright.expect(seen.page.locator("#now .mark")).to_have_count(0)  # nobody knows what it is meant to be
    check_like_python(seen, site, "now", seen.vectors()[-1], 0.13)
    picture = np.asarray(asked_picture(seen).convert("L"))
    rows, columns = np.nonzero(picture < 128)
    extent = max(np.ptp(rows), np.ptp(columns)) / 128
    assert 0.5 < extent < 0.95  # as large as what the network has learned from, wherever it was drawn
    seen.page.get_by_role("button", name="Undo").click()
    playwright.expect(seen.page.locator("#pad-hint")).to_be_visible()


def test_an_example_is_answered_and_marked(site: Site, visit: Open) -> None:
    seen = visit(site.address)
    seen.page.get_by_role("tab", name="Examples").click()
    choice = seen.page.locator("#queries button").nth(3)
    label = choice.locator("img").get_attribute("alt")
    choice.click()
    seen.answered(f"An example: {label}".replace("+", r"\+"))
    check_like_python(seen, site, "now", seen.vectors()[-1], 0.13)
    found = [hit.get_attribute("title") for hit in seen.page.locator("#now .hits li").all()]
    right = [id.startswith(label.split()[1]) for id in found]
    marks = [mark.get_attribute("aria-label") for mark in seen.page.locator("#now .mark").all()]
    assert marks == ["right" if each else "wrong" for each in right]
    playwright.expect(seen.page.locator("#now .score")).to_have_text(f"{sum(right)} of 6 right")


def test_up_fetches_only_what_is_between_and_down_nothing(site: Site, visit: Open) -> None:
    seen = visit(site.address)
    seen.answered()
    family = seen.page.evaluate("fetch('/v1/family').then(r => r.json())")
    ends = {stop["capacity"]: stop["bytes"] for stop in family["capacities"]}
    assert set(CAPACITIES) <= set(ends)
    first = seen.ranges()
    assert first[-1] == f"bytes=32768-{ends[0.13] - 1}"
    stops = sorted(ends)
    above = stops[stops.index(0.13) + 1]
    slider = seen.page.get_by_role("slider", name="How much of the network")
    slider.focus()
    slider.press("ArrowRight")
    fetched = seen.page.locator("#fetched")
    playwright.expect(fetched).to_contain_text("the bytes in between")
    playwright.expect(seen.page.locator("#kept .hits li")).to_have_count(6)
    assert seen.ranges() == [*first, f"bytes={ends[0.13]}-{ends[above] - 1}"]
    check_like_python(seen, site, "now", seen.vectors()[-1], above)
    check_like_python(seen, site, "kept", seen.vectors()[0], 0.13)
    slider.press("Home")
    playwright.expect(fetched).to_contain_text("nothing fetched. The smaller")
    slider.press("ArrowRight")
    playwright.expect(fetched).to_contain_text("nothing fetched. Those bytes are here")
    assert len(seen.ranges()) == len(first) + 1
    slider.press("End")
    all_of_it = f"100\u00a0%, the first {ends[1.0] / 1000:.1f}\u00a0kB of the file"
    playwright.expect(slider).to_have_attribute("aria-valuetext", all_of_it)
    playwright.expect(fetched).to_contain_text("the bytes in between")
    assert seen.ranges()[len(first) + 1 :] == [f"bytes={ends[above]}-{ends[1.0] - 1}"]


def test_a_dragged_slider_snaps_to_a_capacity(site: Site, visit: Open) -> None:
    seen = visit(site.address)
    seen.answered()
    box = seen.page.locator("#capacity .track").bounding_box()
    seen.page.mouse.click(box["x"] + 0.97 * box["width"], box["y"] + box["height"] / 2)
    playwright.expect(seen.page.locator("#capacity .capacity")).to_have_text("100\u00a0%")
    playwright.expect(seen.page.locator("#now-who")).to_have_text("100\u00a0%")


def test_the_matrix_marks_where_one_is(site: Site, visit: Open) -> None:
    seen = visit(site.address)
    seen.answered()
    here = seen.page.locator("#matrix [aria-current]")
    playwright.expect(here).to_have_count(1)
    playwright.expect(seen.page.locator("#matrix .here")).to_contain_text("13\u00a0% asks the gallery of 100\u00a0%")
    assert here.text_content() == f"{100 * Run(site.run).matrix.at(0.13, 1.0):.1f}"


def test_a_second_visit_fetches_44_bytes(site: Site, visit: Open) -> None:
    seen = visit(site.address)
    seen.answered()
    before = len(seen.ranges())
    seen.page.reload()
    seen.answered()
    assert seen.ranges()[before:] == ["bytes=0-43"]


def test_everything_can_be_reached_by_keyboard(site: Site, visit: Open) -> None:
    seen = visit(site.address)
    seen.answered()
    press = seen.page.keyboard.press

    def reach(name: str) -> None:
        for _ in range(40):
            press("Tab")
            if name in seen.page.evaluate("document.activeElement.textContent || document.activeElement.className"):
                return
        pytest.fail(f"{name} is not reached")

    reach("To the question")
    press("Enter")
    reach("Draw")
    press("ArrowRight")
    playwright.expect(seen.page.get_by_role("tab", name="Examples")).to_be_focused()
    press("Tab")
    name = seen.page.evaluate("document.activeElement.firstChild.alt")
    press("Enter")
    seen.answered(f"An example: {name}".replace("+", r"\+"))
    playwright.expect(seen.page.locator("#said")).to_contain_text("13\u00a0%: first")
    reach("input")
    press("ArrowRight")
    playwright.expect(seen.page.locator("#kept .hits li")).to_have_count(6)
    reach("Keep")
    press("Enter")
    playwright.expect(seen.page.locator("#kept")).to_be_hidden()


def test_pictures_are_chosen_dropped_and_pasted(site: Site, visit: Open) -> None:
    seen = visit(site.address)
    seen.answered()
    file = next(site.queries.rglob("*.png"))
    seen.page.get_by_role("tab", name="Picture").click()
    seen.page.locator("#file").set_input_files(file)
    seen.answered(file.name)
    check_like_python(seen, site, "now", seen.vectors()[-1], 0.13)
    give = """([type, target, name, content]) => {
      const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
      const data = new DataTransfer();
      data.items.add(new File([bytes], name, { type: "image/png" }));
      const told = { bubbles: true, cancelable: true, dataTransfer: data, clipboardData: data };
      const event = type === "paste" ? new ClipboardEvent(type, told) : new DragEvent(type, told);
      document.querySelector(target).dispatchEvent(event);
    }"""
    content = base64.b64encode(file.read_bytes()).decode()
    seen.page.evaluate(give, ["drop", "main", "dropped.png", content])
    seen.answered("dropped.png")
    seen.page.evaluate(give, ["paste", "body", "image.png", content])
    seen.answered("The pasted picture")
    assert seen.vectors()[-1] == seen.vectors()[-2] == seen.vectors()[-3]


def test_the_camera_asks(site: Site, visit: Open) -> None:
    seen = visit(site.address, permissions=["camera"])
    seen.answered()
    seen.page.get_by_role("tab", name="Camera").click()
    seen.page.get_by_role("button", name="Start the camera").click()
    take = seen.page.get_by_role("button", name="Ask with this picture")
    playwright.expect(take).to_be_focused()
    for _ in range(2):
        asked = len(seen.vectors())
        with seen.page.expect_response("**/v1/search*"):
            take.press("Enter")
        seen.answered("The camera's picture")
        picture = asked_picture(seen)
        assert picture.width == picture.height > 100 and np.asarray(picture).std() > 0  # it saw something
        check_like_python(seen, site, "now", seen.vectors()[asked], 0.13)
    track = seen.page.evaluate_handle("document.getElementById('video').srcObject.getTracks()[0]")
    seen.page.get_by_role("tab", name="Examples").click()
    assert track.evaluate("(track) => track.readyState") == "ended"  # nobody is watched unasked
    seen.page.get_by_role("tab", name="Camera").click()
    playwright.expect(seen.page.get_by_role("button", name="Start the camera")).to_be_visible()
    playwright.expect(take).to_be_hidden()


def test_photographs_are_asked_in_colour_and_not_drawn(photographs: Site, visit: Open, tmp_path: Path) -> None:
    seen = visit(photographs.address)
    seen.answered("An example: class ")
    playwright.expect(seen.page.get_by_role("tab", name="Draw")).to_be_hidden()
    playwright.expect(seen.page.get_by_role("tab", name="Examples")).to_have_attribute("aria-selected", "true")
    check_like_python(seen, photographs, "now", seen.vectors()[-1], 0.13)
    file = next(photographs.queries.rglob("*.jpg"))
    turned, exif = tmp_path / "turned.jpg", Image.Exif()
    exif[0x0112] = 6  # what a phone writes that was held upright
    with Image.open(file) as picture:
        picture.transpose(Image.Transpose.ROTATE_90).save(turned, quality=95, exif=exif)
    seen.page.locator("#file").set_input_files(turned)
    seen.answered("turned.jpg")
    check_like_python(seen, photographs, "now", seen.vectors()[-1], 0.13)
    shown = asked_picture(seen)
    with Image.open(file) as picture:
        difference = np.asarray(shown, dtype=np.float32) - np.asarray(picture.convert("RGB"), dtype=np.float32)
    assert np.abs(difference).mean() < 3  # upright, and the colours are those of the file
    small = "(image) => image.naturalWidth === 256 && image.naturalHeight === 192"
    seen.page.wait_for_function(f"[...document.querySelectorAll('#now .hits img')].filter({small}).length === 6")


def test_what_was_not_measured_is_not_shown(site: Site, visit: Open) -> None:
    def without(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "matrix": None})

    seen = visit(site.address)
    seen.page.route("**/v1/family", without)
    seen.page.reload()
    seen.answered()
    playwright.expect(seen.page.locator("#matrix")).to_be_hidden()
