from xml.etree import ElementTree

from siltstone.console.charts import bar, line_chart, map_of_stream
from siltstone.console.views.stream_map import stream_map
from support.console.images import ImageBuilder

SPITE = '<script>"&'


def test_a_line_ends_at_the_last_point_and_its_top_is_the_highest():
    drawn = line_chart("Traffic", [(0, 0.0), (5, 10.0), (10, 5.0)], lambda value: f"{value:g} B")
    figure = ElementTree.fromstring(drawn)
    (line,) = figure.iter("polyline")
    points = [tuple(map(float, each.split(","))) for each in line.attrib["points"].split()]
    assert points[0] == (0.0, 120.0) and points[1][1] == 8.0 and points[2][0] == 720.0
    assert "5 B" in drawn and "10 B at most" in drawn


def test_a_chart_of_one_point_is_not_drawn():
    assert line_chart("Traffic", [(0, 1.0)], str) == ""


def test_a_bar_stays_within_its_track():
    for share, width in ((-1, "0.0"), (0.5, "50.0"), (7, "100.0")):
        fill = ElementTree.fromstring(bar(share, "room")).findall("rect")[1]
        assert fill.attrib["width"] == width


def test_wc08_a_map_leads_from_each_piece_to_its_object():
    image = ImageBuilder().topic("a", (1, 0, 10, 100), (2, 10, 30, 300)).image()
    drawn = ElementTree.fromstring(
        map_of_stream(stream_map(image, image.streams[0]), lambda number: f"/objects/{number}")
    )
    assert [each.attrib["href"] for each in drawn.findall("a")] == ["/objects/1", "/objects/2"]
    assert "offsets 10 to 30" in drawn.findall("a")[1].attrib["aria-label"]


def test_wc05_texts_are_escaped():
    for drawn in (line_chart(SPITE, [(0, 1.0), (1, 1.0)], lambda _: SPITE), bar(1, SPITE)):
        assert "<script>" not in drawn
        ElementTree.fromstring(drawn)
