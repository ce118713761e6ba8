"""Figures for people, rounded against ourselves: charges upwards, remainders downwards. And which
texts of a table spell a number.

One pair of functions prints every charge and every remainder on every surface: text, pages,
notebooks, errors, CI formats. JSON keeps the floats themselves.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from difflib import get_close_matches
from functools import lru_cache

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?0*[0-9]{1,3})?")
_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")


def is_number(text: str) -> bool:
    """Whether a text spells a number, by the grammar of `digits_of`."""
    return _NUMBER.fullmatch(text) is not None


def digits_of(text: str) -> str | None:
    """The plain digits of a text that spells a number; None for every other text.

    The one grammar for cells, categories and ids (docs/sources.md): a sign, ASCII digits with a
    point among them or none, and an exponent of three digits. Nothing else is a number: no
    underscores, no digits of other scripts, no words.

    >>> digits_of("1.7e1"), digits_of("+017"), digits_of("-0.50"), digits_of("1_000")
    ('17', '17', '-0.5', None)
    """
    if not is_number(text):
        return None
    shown = format(Decimal(text), "f")
    if "." in shown:
        shown = shown.rstrip("0").rstrip(".")
    sign = "-" if shown.startswith("-") else ""
    shown = shown.lstrip("+-0") or "0"
    shown = "0" + shown if shown.startswith(".") else shown
    return shown if shown == "0" else sign + shown


def code_of(text: str) -> str:
    """The digits of a text that is a number in its plain form, or as Python writes a float; every
    other text as it stands: 01000, +1000 and 1e3 are codes of their own, and not 1000.

    >>> code_of("1000.0"), code_of("1e-05"), code_of("01000"), code_of("1e3"), code_of("a")
    ('1000', '0.00001', '01000', '1e3', 'a')
    """
    if _PLAIN.fullmatch(text):
        return digits_of(text) or text
    if "e" in text and _NUMBER.fullmatch(text) and repr(float(text)) == text:
        return float_code(float(text))
    return text


def float_code(value: float) -> str:
    """The same for a float itself: all digits of a whole one."""
    return str(int(value)) if value.is_integer() else digits_of(repr(value)) or repr(value)


def many(count: int, one: str, more: str = "") -> str:
    """A number of things, in words that fit the number.

    Args:
        one: what a single one is called. more: what several are called [default: an s behind it].

    >>> many(1, "grant"), many(0, "grant"), many(2, "entry", "entries")
    ('1 grant', '0 grants', '2 entries')
    """
    return f"{count} {one if count == 1 else more or one + 's'}"


def upward(value: float, digits: int = 6) -> str:
    """A charge for people: the least numeral of so many digits that reads back as no less.

    Whatever was spent, asked, claimed or priced is printed by this, on every surface, so that
    a reader never sees less than there is. A float whose own shortest numeral fits is printed
    as itself: 0.1 is "0.1", and reads back as the very same float.

    Args:
        digits: significant ones, at least 1. A whole number keeps all of its own up to 10**digits.

    Raises:
        ValueError: NaN, a boolean, or no number.

    >>> upward(0.1234567), upward(2.0), upward(1e-9 + 1e-17), upward(math.inf)
    ('0.123457', '2', '1.00001e-09', 'infinite')
    """
    return _numeral(value, _context(digits, ROUND_CEILING))


def downward(value: float, digits: int = 6) -> str:
    """A remainder for people: the largest numeral of so many digits that reads back as no more.

    Whatever is left, and whatever is proved from below, is printed by this.

    >>> downward(0.1234567), downward(2.0), downward(1.9999999), downward(0.0)
    ('0.123456', '2', '1.99999', '0')
    """
    return _numeral(value, _context(digits, ROUND_FLOOR))


def in_100(share: float, digits: int = 2) -> str:
    """A share as so many of 100, rounded up: two digits, and near certainty two of what is missing.

    >>> in_100(0.01832), in_100(0.5471), in_100(0.9991), in_100(1.0)
    ('1.9', '55', '99.91', '100')
    """
    if share >= 1:
        return "100"
    value = Decimal(share) * 100
    near = value > 99  # towards certainty the distance to 100 is what counts
    more = max(0, 1 - (100 - value).adjusted()) if near else 0
    context = Context(prec=digits + more, rounding=ROUND_CEILING)
    return f"{value.normalize(context):f}"


def exact(value: float) -> str:
    """A number that was chosen, as it was chosen: the shortest numeral that is this float.

    >>> exact(1.23456789), exact(2.0), exact(1e-6)
    ('1.23456789', '2', '1e-06')
    """
    return _numeral(value, Context(prec=17))


def upward_percent(share: float) -> str:
    """A share that was taken, rounded up to a tenth of a percent; a small one to two digits.

    >>> upward_percent(0.12301), upward_percent(0.00123), upward_percent(0.0), upward_percent(1.0)
    ('12.4 %', '0.13 %', '0.0 %', '100.0 %')
    """
    return _percent(share, ROUND_CEILING)


def downward_percent(share: float) -> str:
    """A share that is left, rounded down.

    >>> downward_percent(0.12399), downward_percent(1.0)
    ('12.3 %', '100.0 %')
    """
    return _percent(share, ROUND_FLOOR)


def _shortest(value: float) -> Decimal | None:
    """The float's own numeral; None for an infinite one."""
    # What nearly every figure is comes first: the look at abstract classes takes longer.
    if type(value) is not float and (
            isinstance(value, bool) or not isinstance(value, numbers.Real)):
        raise ValueError("a figure must be a number")
    plain = float(value)
    if math.isnan(plain):
        raise ValueError("a figure must be a number, got NaN")
    return Decimal(repr(plain)) if math.isfinite(plain) else None


@lru_cache(maxsize=64)
def _context(digits: int, rounding: str) -> Context:
    return Context(prec=digits, rounding=rounding)


def _numeral(value: float, context: Context) -> str:
    held = _shortest(value)
    if held is None:
        return "infinite" if value > 0 else "-infinite"
    return _text(held, context)


def _text(held: Decimal, context: Context) -> str:
    # Reading a numeral is monotone: one on the safe side of a float's own numeral reads back as
    # a float on the safe side. That is why this starts from the numeral and not from binary.
    rounded = context.plus(held).normalize()
    if not rounded:
        return "0"
    power = rounded.adjusted()
    if -5 < power < max(context.prec, 6):
        return f"{rounded:f}"
    return f"{rounded.scaleb(-power).normalize():f}e{power:+03d}"


def _percent(share: float, rounding: str) -> str:
    held = _shortest(share)
    if held is None:
        return "infinite"
    value = held * 100
    if value and abs(value) < 1:
        return f"{_text(value, Context(prec=2, rounding=rounding))} %"
    whole = Context(prec=400, rounding=rounding)  # a float has at most 309 digits before the dot
    return f"{value.quantize(Decimal('0.1'), context=whole):f} %"


def meant(name: str, known: Iterable[str]) -> str:
    """What to add to a message about a name that is none of `known`; "" if none is near.

    >>> meant("Age", ["age", "job"])
    "; did you mean 'age'?"
    """
    near = nearest(name, known)
    return "" if near is None else f"; did you mean {near!r}?"


def nearest(name: str, known: Iterable[str], alike: float = 0.6) -> str | None:
    """The one of `known` that was meant by `name`; None if none is near.

    Args:
        alike: share of the letters that agree, at least.
    """
    several = {one.casefold(): one for one in known}
    near = get_close_matches(str(name).strip().casefold(), several, 1, alike)
    return several[near[0]] if near else None


def meant_of(rule: str, value: object) -> str:
    """As `meant`, of a rule that lists what a value may be.

    >>> meant_of("auto or one of gdp, zcdp, rdp", "zcpd")
    "; did you mean 'zcdp'?"
    """
    listed = re.search(r"\b(?:one of|among) (.*)", rule, re.DOTALL)
    if listed is None or not isinstance(value, str):
        return ""
    return meant(value, re.findall(r"[^\s,;']+", listed[1]))
