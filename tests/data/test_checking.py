import shutil

import pytest

from prunnet.data import check, load_data


@pytest.fixture
def photos(tmp_path, draw):
    for part, labels in (("train", "abc"), ("query", "xy"), ("gallery", "xy")):
        for label in labels:
            for number in range(2):
                draw(tmp_path / part / label / f"{number}.png")
    return tmp_path


def problems(data, severity):
    return {finding.problem: finding for finding in check(data).findings if finding.severity == severity}


def test_sound_data_has_no_findings(photos):
    report = check(photos)
    assert report.ok and report.findings == ()
    assert {part: len(images) for part, images in report.sets.items()} == {"train": 6, "query": 4, "gallery": 4}


def test_unreadable_and_tiny_images(photos, draw):
    (photos / "train/a/0.png").write_bytes(b"broken")
    draw(photos / "query/x/0.png", (3, 40))
    errors = problems(photos, "error")
    assert set(errors) == {"unreadable image", "image under 8 pixels"}
    assert "a/0.png" in errors["unreadable image"].examples[0]
    assert errors["image under 8 pixels"].examples == ("query: query/x/0.png (3 px)",)
    assert not check(photos).ok


def test_queries_without_an_answer(photos):
    shutil.rmtree(photos / "gallery/y")
    finding = problems(photos, "error")["query without an answer in the gallery"]
    assert finding.count == 2 and finding.examples == ("query/y/0.png", "query/y/1.png")


def test_leaks_between_splits_and_duplicates_within(photos):
    shutil.copy(photos / "train/a/0.png", photos / "gallery/x/copy.png")
    shutil.copy(photos / "train/b/0.png", photos / "train/c/copy.png")
    report = check(photos)
    assert [(finding.severity, finding.problem) for finding in report.findings] == [
        ("error", "same picture on both sides of a split"),
        ("warning", "same picture more than once in a set"),
    ]
    assert report.findings[0].examples == ("train: train/a/0.png = gallery: gallery/x/copy.png",)


def test_two_crops_of_one_file_are_two_pictures(tmp_path, draw, write):
    draw(tmp_path / "a.png", (40, 40))
    rows = "a.png,x,test,1,0,0 0 20 20\na.png,x,test,0,1,20 20 40 40\n"
    file = write(tmp_path / "m.csv", "path,label,split,is_query,is_gallery,bbox\n" + rows)
    assert check(file).findings == ()


def test_warnings_leave_data_usable(photos):
    (photos / "train/a/0.png").unlink()
    shutil.copytree(photos / "train/b", photos / "train/x")
    report = check(photos)
    assert report.ok
    assert {finding.problem for finding in report.findings} == {
        "class of one training image",
        "class in training and in evaluation",
        "same picture more than once in a set",
    }


def test_examples_are_few_and_counts_are_all(photos):
    for path in photos.rglob("*.png"):
        path.write_bytes(b"")
    (finding,) = check(photos, examples=2).findings
    assert finding.count == 14 and len(finding.examples) == 2


def test_the_built_in_data_is_sound():
    assert check(load_data("glyphs", classes=30, images_per_class=6)).ok
