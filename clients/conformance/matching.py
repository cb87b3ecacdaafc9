"""Whether something is as a scenario expects it; README.md, "Matching", has the rules."""

COMMENT_DEFAULTS = {"mode": "scroll", "color": 0xFFFFFF, "size": 25}


def filled(value, variables):
    """A value of a scenario with its variables put in."""
    if isinstance(value, dict):
        return {key: filled(inner, variables) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, variables) for inner in value]
    if isinstance(value, str) and value.startswith("$") and value[1:] in variables:
        return variables[value[1:]]
    if isinstance(value, str):
        return value.replace("$URL", variables["URL"])
    return value


def complete(event):
    """An event with an item's absent fields at their defaults."""
    item = event.get("item")
    if event.get("event") != "item" or not isinstance(item, dict) or item.get("type"):
        return event
    return {**event, "item": {**COMMENT_DEFAULTS, **item}}


def mismatch(expected, actual, variables, where=""):
    """Says what differs, or gives None; takes values for variables that have none."""
    if isinstance(expected, dict) and any(key in expected for key in ("$min", "$max")):
        is_number = isinstance(actual, (int, float)) and not isinstance(actual, bool)
        low, high = expected.get("$min", float("-inf")), expected.get("$max", float("inf"))
        return None if is_number and low <= actual <= high else f"{where} is {actual!r}: it should be {low} to {high}"
    if isinstance(expected, dict):
        return mismatch_of_object(expected, actual, variables, where)
    if isinstance(expected, list):
        if not isinstance(actual, list) or len(actual) != len(expected):
            return f"{where} is {actual!r}: it should be {expected!r}"
        found = (mismatch(e, a, variables, f"{where}[{n}]") for n, (e, a) in enumerate(zip(expected, actual)))
        return next((what for what in found if what), None)
    if isinstance(expected, str) and expected.startswith("$"):
        expected = variables.setdefault(expected[1:], actual)
    # True is 1 in Python, not in JSON.
    if actual == expected and isinstance(actual, bool) == isinstance(expected, bool):
        return None
    return f"{where} is {actual!r}: it should be {expected!r}"


def mismatch_of_object(expected, actual, variables, where):
    if not isinstance(actual, dict):
        return f"{where} is {actual!r}: it should be {expected!r}"
    for key, inner in expected.items():
        if isinstance(inner, dict) and inner.get("$absent"):
            # A library may write what is absent as null or false.
            is_absent = actual.get(key) is None or actual[key] is False
            what = None if is_absent else f"{where}.{key} is {actual[key]!r}: it should be absent"
        elif key not in actual and inner is not False:
            what = f"{where}.{key} is absent: it should be {inner!r}"
        else:
            what = mismatch(inner, actual.get(key, False), variables, f"{where}.{key}")
        if what:
            return what
    return None
