"""Files of `danmaku convert`, read by programs that nobody here wrote: a strict XML parser, a converter of
Bilibili's files, a subtitle renderer, Python's readers of tables and JSON."""

import csv
import html
import io
import json
import pathlib
import subprocess
import tempfile
import xml.etree.ElementTree
from xml.sax.saxutils import escape

import biliass

from battery import equal, main, sentence
from libass import Subtitles
from texts import NASTY

WIDTH, HEIGHT = 1920, 1080
# The first lane, and the margin that the renderer leaves around its letters.
LANE_PX, MARGIN_PX = 50, 20
# What breaks one format or another, and is a comment all the same.
TEXTS = [*NASTY, "{\\pos(0,0)}{\\fs300}", "\\N\\n\\h", "=1+1", "@SUM(A1)", "a,b;c\td", "]]></d></i>", "<img src=x onerror=1>"]
# What no XML may hold, in a file that holds it all the same.
CONTROLS = "bell\x07 escape\x1b[31m nothing\ufffe"


def source(comments):
    """A file of Bilibili's comments: (seconds, mode, size, colour, text)."""
    rows = (
        f'<d p="{at},{mode},{size},{color},1700000000,0,u{n},{n + 1}">{escape(text)}</d>'
        for n, (at, mode, size, color, text) in enumerate(comments)
    )
    return ('<?xml version="1.0" encoding="UTF-8"?><i>' + "".join(rows) + "</i>").encode()


def convert(server, comments, to, *arguments):
    """The file that the command writes, and what it says of it."""
    command = [server.command[0], "convert", "-", "--to", to, *arguments]
    done = subprocess.run(command, input=source(comments), capture_output=True, check=True, timeout=60)
    return done.stdout, done.stderr.decode()


def plain(texts):
    return [(n, 1, 25, 0xFFFFFF, text) for n, text in enumerate(texts)]


async def a_strict_parser_takes_the_xml_and_finds_every_text(server):
    file, _ = convert(server, plain([*TEXTS, CONTROLS]), "bilibili-xml")
    root = xml.etree.ElementTree.fromstring(file)
    comments = root.findall("d")
    equal([comment.text for comment in comments], [*TEXTS, "bell escape[31m nothing"])
    equal([comment.get("p").split(",")[0] for comment in comments], [f"{n}.000" for n in range(len(comments))])
    equal([comment.get("uid") for comment in comments], [f"u{n}" for n in range(len(comments))])


async def a_converter_makes_a_subtitle_of_every_comment(server):
    file, _ = convert(server, plain(TEXTS) + [(90, 5, 18, 255, "top"), (91, 4, 36, 0, "bottom")], "bilibili-xml")
    subtitles = biliass.convert_to_ass(file, WIDTH, HEIGHT, "xml", reduce_comments=False)
    equal(subtitles.count("Dialogue:"), len(TEXTS) + 2, "subtitles")


async def a_renderer_draws_a_comment_where_it_is_said_to_be(server):
    cases = [
        # Half of its time: the middle of the text is the middle of the picture.
        (1, 4_000, WIDTH / 2, 0, LANE_PX + MARGIN_PX),
        (5, 2_000, WIDTH / 2, 0, LANE_PX + MARGIN_PX),
        (4, 2_000, WIDTH / 2, HEIGHT - LANE_PX - MARGIN_PX, HEIGHT + MARGIN_PX),
    ]
    for mode, after_ms, center, top, bottom in cases:
        file, _ = convert(server, [(10, mode, 25, 0xFF8000, "abcdefgh")], "ass")
        subtitles = Subtitles(file, WIDTH, HEIGHT)
        equal(subtitles.events, 1)
        equal((subtitles.at(9_990), subtitles.at(18_010)), ([], []), "drawn before or after its time")
        drawn = subtitles.at(10_000 + after_ms)
        left, right = drawn[0].x, max(picture.x + picture.width for picture in drawn)
        # Widths are reckoned without the font, a little too wide.
        if abs((left + right) / 2 - center) > 60:
            raise AssertionError(f"mode {mode}: from {left} to {right}")
        if not all(top <= picture.y and picture.y + picture.height <= bottom for picture in drawn):
            raise AssertionError(f"mode {mode}: {drawn}")
        # Red, green, blue, transparency: a fifth.
        equal({picture.color for picture in drawn}, {0xFF800033})


async def a_renderer_takes_no_command_from_a_comment(server):
    for text in ["{\\pos(0,900)}x", "{\\fs300}x", "\\N\\N\\N\\Nx", "}{\\an2\\pos(960,1000)x", "{x"]:
        file, _ = convert(server, [(0, 1, 25, 0xFFFFFF, text)], "ass")
        subtitles = Subtitles(file, WIDTH, HEIGHT)
        equal(subtitles.events, 1)
        drawn = subtitles.at(4_000)
        if not drawn or max(picture.y + picture.height for picture in drawn) > LANE_PX + MARGIN_PX:
            raise AssertionError(f"{text!r} is drawn as {drawn}")


async def comments_that_keep_apart_are_drawn_apart(server):
    # As wide as a comment of its kind gets, so that what was reckoned is no less than what is drawn.
    comments = [(n / 4, 1, 25, 0xFFFFFF, "m" * (5 + n * 7 % 40)) for n in range(120)]
    file, said = convert(server, comments, "ass", "--density", "apart", "--lanes", "6")
    subtitles = Subtitles(file, WIDTH, HEIGHT)
    if not 20 < subtitles.events < len(comments) or "without a free lane" not in said:
        raise AssertionError(f"{subtitles.events} subtitles: {said}")
    for ms in range(0, 40_000, 500):
        pictures = subtitles.at(ms)
        for at, one in enumerate(pictures):
            for other in pictures[at + 1 :]:
                across = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
                down = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
                # Outlines of neighbours touch.
                if across > 8 and down > 8:
                    raise AssertionError(f"{one} and {other} at {ms} ms")


async def tables_and_lists_are_read_by_others(server):
    file, _ = convert(server, plain(TEXTS), "csv")
    rows = list(csv.DictReader(io.StringIO(file.decode("utf-8-sig"), newline="")))
    equal([row["text"].removeprefix("'") for row in rows], TEXTS)
    if any(row["text"][0] in "=+-@" for row in rows):
        raise AssertionError("a spreadsheet would reckon")
    lines, _ = convert(server, plain(TEXTS), "ndjson")
    equal([json.loads(line)["text"] for line in lines.decode().split("\n")[:-1]], TEXTS)
    for to, text_of in [
        ("dplayer", lambda item: html.unescape(item[4])),
        ("artplayer", lambda item: item["text"]),
        ("nplayer", lambda item: item["text"]),
        ("danmu-js", lambda item: item["txt"]),
    ]:
        document = json.loads(convert(server, plain(TEXTS), to)[0])
        equal([text_of(item) for item in (document["data"] if to == "dplayer" else document)], TEXTS, to)


async def a_file_of_another_writer_is_read_and_none_is_written_over(server):
    with tempfile.TemporaryDirectory() as folder:
        first, second = pathlib.Path(folder, "first.xml"), pathlib.Path(folder, "second.xml")
        first.write_bytes(source(plain(["b", "a"])[::-1]))
        command = [server.command[0], "convert", str(first), "--to", "bilibili-xml", "--output", str(second)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        equal([comment.text for comment in xml.etree.ElementTree.parse(second).getroot().findall("d")], ["b", "a"])
        equal(second.stat().st_mode & 0o777, 0o600, "who may read it")
        again = subprocess.run(command, capture_output=True, timeout=60)
        equal(again.returncode, 1)
        if b"it exists" not in again.stderr:
            raise AssertionError(again.stderr)


CASES = [
    a_strict_parser_takes_the_xml_and_finds_every_text,
    a_converter_makes_a_subtitle_of_every_comment,
    a_renderer_draws_a_comment_where_it_is_said_to_be,
    a_renderer_takes_no_command_from_a_comment,
    comments_that_keep_apart_are_drawn_apart,
    tables_and_lists_are_read_by_others,
    a_file_of_another_writer_is_read_and_none_is_written_over,
]

if __name__ == "__main__":
    main([(sentence(case), case) for case in CASES])
