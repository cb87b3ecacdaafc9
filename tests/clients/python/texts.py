"""Texts that lose a byte wherever somebody escapes, counts, splits or normalises wrongly."""

NASTY = [
    "hello",
    "你好，弹幕！" * 3,
    "汉" * 100,
    "👩‍👩‍👧‍👦🏳️‍🌈👍🏽",
    "مرحبا بالعالم",
    "שלום ‏(right to left)‏",
    'quotes " and \' and \\ and \\" and \\u0041',
    "</script><b>&amp;%00%0a${x}",
    "line\u2028and\u2029paragraph",
    "é is not e\u0301, Å is not Å",
    "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘",
    "𝕬𝖇 \U0001f1e8\U0001f1f3 \U0010fffd \ufffd",
    "{\"send\":{\"id\":\"x\"}}",
    "a" * 100,
]
