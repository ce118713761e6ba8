"""One spelling for each id that is a text. What two people could write for one id is one text."""

from __future__ import annotations

import re
import unicodedata

from privledger.numerals import digits_of

MOST_LETTERS = 1000
_PLAIN = re.compile(r"[a-z][a-z0-9_@.:/-]*")  # its own spelling already
_NO_IDS = {
    "nan": "an id is missing (written as nan)", "null": "an id is missing (written as null)",
    "none": "an id is missing (written as none)", "na": "an id is missing (written as na)",
    "n/a": "an id is missing (written as n/a)", "<na>": "an id is missing (written as <na>)",
    "nat": "an id is missing (written as nat)",
    "inf": "infinity is no id", "-inf": "infinity is no id", "+inf": "infinity is no id",
    "infinity": "infinity is no id", "-infinity": "infinity is no id",
    "true": "a boolean is no id", "false": "a boolean is no id",
}

# What Unicode has no glyph for, beside the categories Cc and Cf; and what editors put in place of
# a plain hyphen and a plain quote.
_HIDDEN = ((0x34F, 0x34F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2065, 0x2065),
           (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8),
           (0xE0000, 0xE0FFF))
_DASHES, _QUOTES = (0x58A, 0x2212, 0x2E3A, 0x2E3B, *range(0x2010, 0x2016)), (
    0x2B9, 0x2BB, 0x2BC, 0x2032, *range(0x2018, 0x201C))
_ALIKE: dict[int, str | None] = {
    **{code: None for first, last in _HIDDEN for code in range(first, last + 1)},
    **dict.fromkeys(_DASHES, "-"), **dict.fromkeys(_QUOTES, "'"), 0x2800: " ",
    0x131: "i"}


class Misspelt(ValueError):
    """A text that is no id; says the rule, never the text."""


def spelt(text: str) -> str:
    """The one spelling of an id.

    White space around it goes, and inside counts as one blank; marks that nobody sees go. Wide,
    ligated and composed letters are the plain ones (NFKC), capitals are small letters, dashes and
    quotes of every shape are - and '. A whole number is its digits, however it is written: 17,
    +17, 017, 17.0, 1.7e+01, 1.7e1. A spelling is its own spelling.

    Raises:
        Misspelt: empty, missing, a fraction, too long, or no valid Unicode.

    >>> [spelt(text) for text in (" 17 ", "17.0", "017", "Anna  B", "ｆｏｏ")]
    ['17', '17', '17', 'anna b', 'foo']
    """
    if len(text) > MOST_LETTERS:
        raise Misspelt(f"an id has at most {MOST_LETTERS} characters")
    if _PLAIN.fullmatch(text):
        found = text
    elif text.isascii() and text.isdecimal():
        return text.lstrip("0") or "0"
    else:
        found = _seen(text)
        digits = digits_of(_ascii_digits(found))
        if digits is not None:
            return _whole(digits)
    if found in _NO_IDS:
        raise Misspelt(_NO_IDS[found])
    return found


def _seen(text: str) -> str:
    """What a reader sees of it, in small letters, with single blanks."""
    if any("\ud800" <= one <= "\udfff" for one in text):  # Python's own error would hold the text
        raise Misspelt("an id is text in valid Unicode")
    found, before = _plainer(text), ""
    while found != before:  # what goes may have stood between a letter and its accent
        before, found = found, found if found.isascii() else _plainer(found)
    if not found:
        raise Misspelt("an id is empty")
    return found


def _plainer(text: str) -> str:
    if not text.isascii():
        for _ in range(2):  # small letters of some capitals are composed anew
            text = unicodedata.normalize("NFKD", text).casefold()
        text = unicodedata.normalize("NFKC", text).replace("i\u0307", "i")
    shown = "".join(" " if one.isspace() else one for one in text.translate(_ALIKE)
                    if one.isspace() or unicodedata.category(one) not in ("Cc", "Cf"))
    return " ".join(shown.casefold().split())


def _ascii_digits(text: str) -> str:
    """Digits of every script as those of ours."""
    return text if text.isascii() else "".join(
        str(unicodedata.decimal(one)) if one.isdecimal() else one for one in text)


def _whole(digits: str) -> str:
    if "." in digits:
        raise Misspelt("a number with a fraction is no id")
    if len(digits) > MOST_LETTERS:
        raise Misspelt(f"an id has at most {MOST_LETTERS} characters")
    return digits
