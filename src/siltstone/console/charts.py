"""Charts as SVG. Pure: numbers in, text out. Colours are classes of the style sheet, so that charts follow the theme.

Each chart has a title for people who hear the page, and a table of the same numbers stands beside it where they matter.
"""

from collections.abc import Callable, Sequence
from html import escape

from siltstone.console.views.silences import Silence
from siltstone.console.views.stream_map import StreamMap
from siltstone.foundation.quantity_words import count_words, size_words

WIDTH, HEIGHT = 720, 120
MAP_WIDTH, MAP_HEIGHT = 1000, 54
NODE_HEIGHT = 20
PIECE_WIDTH_MIN = 2.0
"""A piece is drawn at least so wide, or an object of a few records could not be pointed at."""


def line_chart(title: str, points: Sequence[tuple[int, float]], words: Callable[[float], str]) -> str:
    """Draws values over time, with the highest one written at the top. ``points``: time in ms and value."""
    if len(points) < 2:
        return ""
    first, last = points[0][0], points[-1][0]
    top = max(value for _, value in points) or 1.0
    span = max(1, last - first)
    drawn = [
        (round((at - first) / span * WIDTH, 1), round(HEIGHT - value / top * (HEIGHT - 8), 1))
        for at, value in points
    ]
    line = " ".join(f"{x},{y}" for x, y in drawn)
    area = f"0,{HEIGHT} {line} {WIDTH},{HEIGHT}"
    return (
        f'<figure class="chart"><figcaption>{escape(title)} <b>{escape(words(points[-1][1]))}</b> now, '
        f"{escape(words(top))} at most</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{escape(title)}">'
        f'<polygon class="area" points="{area}"/><polyline class="line" points="{line}"/></svg></figure>'
    )


def silence_timeline(silences: Sequence[Silence], now_ms: int, words: Callable[[Silence], str]) -> str:
    """Draws a line for each node over time, from the first silence until now, with its silences; ``words`` says what
    one is. A silence is drawn at least as wide as it can be pointed at."""
    if not silences:
        return ""
    nodes = sorted({each.node_id for each in silences})
    first_ms = min(each.from_ms for each in silences)
    span_ms = max(1, now_ms - first_ms)
    drawn = []
    for row, node_id in enumerate(nodes):
        y = row * NODE_HEIGHT
        drawn.append(f'<line class="life" x1="0" x2="{WIDTH}" y1="{y + 10}" y2="{y + 10}"/>')
        for each in (each for each in silences if each.node_id == node_id):
            left = (each.from_ms - first_ms) / span_ms * WIDTH
            right = ((each.until_ms or now_ms) - first_ms) / span_ms * WIDTH
            width = max(PIECE_WIDTH_MIN, right - left)
            drawn.append(
                f'<rect class="silence{" rough" if each.is_rough else ""}" x="{min(left, WIDTH - width):.1f}" '
                f'y="{y + 2}" width="{width:.1f}" height="16"><title>{escape(words(each))}</title></rect>'
            )
    names = ", ".join(map(str, nodes))
    return (
        f'<svg class="silences" viewBox="0 0 {WIDTH} {len(nodes) * NODE_HEIGHT}" preserveAspectRatio="none" '
        f'role="img" aria-label="silences of node {names}, a line for each">{"".join(drawn)}</svg>'
    )


def bar(share: float, label: str) -> str:
    """Draws a share of one."""
    percent = min(100.0, max(0.0, share * 100))
    return (
        f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">'
        f'<rect class="track" width="100" height="8"/><rect class="fill" width="{percent:.1f}" height="8"/></svg>'
    )


def map_of_stream(drawn: StreamMap, href: Callable[[int], str]) -> str:
    """Draws the pieces of a stream over its offsets; each leads to its object."""
    span = max(1, drawn.last_offset - drawn.first_offset)

    def at(offset: int) -> float:
        return (offset - drawn.first_offset) / span * MAP_WIDTH

    pieces = []
    for each in drawn.pieces:
        left = at(each.start_offset)
        width = max(PIECE_WIDTH_MIN, at(each.end_offset) - left - 0.5)
        several = f"{each.objects} objects" if each.objects > 1 else f"object {each.object_id}"
        words = (
            f"{each.kind}, {several}: offsets {count_words(each.start_offset)} to {count_words(each.end_offset)}, "
            f"{size_words(each.size_bytes)}, {each.dead_share:.0%} dead"
        )
        pieces.append(
            f'<a href="{escape(href(each.object_id))}" aria-label="{escape(words)}">'
            f'<rect class="piece {escape(each.kind)}" '
            f'x="{left:.1f}" y="8" width="{width:.1f}" height="30" rx="1.5"><title>{escape(words)}</title></rect></a>'
        )
    segments = "".join(
        f'<line class="segment" x1="{at(end):.1f}" x2="{at(end):.1f}" y1="2" y2="44"/>'
        for end in drawn.segment_ends
    )
    place = f"{at(drawn.start_offset):.1f}"
    start = f'<line class="start" x1="{place}" x2="{place}" y1="0" y2="46"/>'
    return (
        f'<svg class="map" viewBox="0 0 {MAP_WIDTH} {MAP_HEIGHT}" preserveAspectRatio="none" role="group" '
        f'aria-label="objects of stream {drawn.stream_id} over its offsets">{"".join(pieces)}{segments}{start}</svg>'
    )
