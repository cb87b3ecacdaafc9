"""The subtitle renderer that players are built upon, as far as a test looks at what it draws.

Subtitles go in as bytes; out come, for a time, the pictures that it would lay over the video: where, how
large, in which colour. The library is the system's (Debian: libass9).
"""

import ctypes
from collections import namedtuple

NAME = "libass.so.9"
Picture = namedtuple("Picture", "x y width height color")


class _Image(ctypes.Structure):
    pass


_Image._fields_ = [
    ("w", ctypes.c_int),
    ("h", ctypes.c_int),
    ("stride", ctypes.c_int),
    ("bitmap", ctypes.c_void_p),
    ("color", ctypes.c_uint32),
    ("dst_x", ctypes.c_int),
    ("dst_y", ctypes.c_int),
    ("next", ctypes.POINTER(_Image)),
    ("type", ctypes.c_int),
]


class _Track(ctypes.Structure):
    # What is public of it, as far as the count of events.
    _fields_ = [(name, ctypes.c_int) for name in ("n_styles", "max_styles", "n_events", "max_events")]


_CHARACTER = 0
_Told = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p)
_SILENCE = _Told(lambda *_: None)


class Subtitles:
    """A file as the renderer has read it."""

    def __init__(self, file, width, height):
        self._ass = ass = ctypes.CDLL(NAME)
        pointer, integer = ctypes.c_void_p, ctypes.c_int
        for name, result, arguments in [
            ("ass_library_init", pointer, []),
            ("ass_set_message_cb", None, [pointer, _Told, pointer]),
            ("ass_renderer_init", pointer, [pointer]),
            ("ass_set_frame_size", None, [pointer, integer, integer]),
            ("ass_set_fonts", None, [pointer, ctypes.c_char_p, ctypes.c_char_p, integer, ctypes.c_char_p, integer]),
            ("ass_read_memory", ctypes.POINTER(_Track), [pointer, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p]),
            ("ass_render_frame", ctypes.POINTER(_Image), [pointer, pointer, ctypes.c_longlong, pointer]),
        ]:
            getattr(ass, name).restype = result
            getattr(ass, name).argtypes = arguments
        library = ass.ass_library_init()
        # What it tells of fonts is nobody's business here.
        ass.ass_set_message_cb(library, _SILENCE, None)
        self._renderer = ass.ass_renderer_init(library)
        ass.ass_set_frame_size(self._renderer, width, height)
        # Through the system's fonts.
        ass.ass_set_fonts(self._renderer, None, b"sans-serif", 1, None, 1)
        self._track = ass.ass_read_memory(library, file, len(file), None)
        if not self._track:
            raise AssertionError("libass takes it for no subtitles")

    @property
    def events(self):
        """How many comments it has found."""
        return self._track.contents.n_events

    def at(self, ms):
        """The letters that are drawn at a time, from left to right."""
        image = self._ass.ass_render_frame(self._renderer, self._track, ms, None)
        pictures = []
        while image:
            i = image.contents
            if i.type == _CHARACTER and i.w and i.h:
                pictures.append(Picture(i.dst_x, i.dst_y, i.w, i.h, i.color))
            image = i.next
        return sorted(pictures)
