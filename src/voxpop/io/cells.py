"""What one cell of a table holds: a number with its unit, a date, a missing value, or a word.

A number may be written 1234.5, 1,234.5, 1.234,5, 1 234,5 or 1'234.5, with a sign or, if it is negative, in brackets,
with an exponent, and with one currency or % before or after it. Whether a comma or a point is the decimal mark is not
decided here, because one cell does not always tell: `Amount.at` reads it either way.
"""

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

POINT, COMMA = MARKS = ".", ","  # what may separate the decimals
SPACES = dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f\t"), " ") | {ord("\u2019"): "'"}
PERCENT = "%"
SYMBOLS = "$€£¥₹₽₩₺₴₪₫₦₱฿₡₲₵₸₿"
CODES = (
    *("AED", "AUD", "BRL", "CAD", "CHF", "CLP", "CNY", "COP", "CZK", "DKK", "EGP", "EUR", "GBP", "HKD", "HUF", "IDR"),
    *("ILS", "INR", "ISK", "JPY", "KES", "KRW", "MXN", "MYR", "NGN", "NOK", "NZD", "PEN", "PHP", "PKR", "PLN", "RON"),
    *("RUB", "SAR", "SEK", "SGD", "THB", "TRY", "TWD", "UAH", "USD", "VND", "ZAR"),
    *("EUROS?", "DOLLARS?", "KR", "ZŁ"),
)
SIGN = "[-+\u2212\u2013]?"
UNIT = rf"(?:{PERCENT}|[A-Z]{{0,2}}\$|[{SYMBOLS}]|(?:{'|'.join(CODES)})(?![A-Z]))"
AMOUNT = re.compile(
    rf"({SIGN}) ?(?:({UNIT}) ?({SIGN}) ?)?([0-9.,](?:[0-9.,' ]*[0-9.,])?(?:E[-+]?[0-9]+)?) ?({UNIT})?", re.IGNORECASE
)
DIGITS = {  # the whole part, in groups of three or in one; decimals; exponent
    mark: re.compile(
        rf"([1-9][0-9]{{0,2}}([{other} '])[0-9]{{3}}(?:\2[0-9]{{3}})*|[0-9]*)(?:[{mark}]([0-9]*))?(?:E([-+]?[0-9]+))?",
        re.IGNORECASE,
    )
    for mark, other in ((POINT, COMMA), (COMMA, POINT))
}
PLAIN = re.compile(r"[-+]?[0-9]*\.?[0-9]*(?:E[-+]?[0-9]+)?", re.IGNORECASE)

MISSING = {"na", "n/a", "n.a.", "k.a.", "k. a.", "nan", "nat", "null", "-", "--", "?", "#nv"}  # "#nv" is Excel's #N/A
YES = {"yes", "y", "true", "ja", "wahr", "oui", "vrai", "si", "s\u00ed"}  # an answer of 1
NO = {"no", "n", "false", "nein", "falsch", "non", "faux"}  # and of 0
INFINITE = re.compile(r"[-+]?inf(?:inity)?", re.IGNORECASE)
MONTH = r"(?:jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-zäé]*\.?"
DATE = re.compile(
    r"[0-9]{4}[-/.][0-9]{1,2}(?:[-/.][0-9]{1,2})(?:[T ,].*)?"  # 2024-05-31 12:00
    r"|[0-9]{4}-(?:0[1-9]|1[0-2])"  # 2024-05
    r"|[0-9]{1,2}[-/.][0-9]{1,2}[-/.](?:[0-9]{4}|[0-9]{2})?(?:[T ,].*)?"  # 31.05.2024, 5/31/24, 31.5.
    rf"|[0-9]{{1,2}}[-/. ]{{1,2}}{MONTH}(?:[-/. ]+[0-9]{{2,4}})?"  # 31-May, 1. Mai 2024
    rf"|{MONTH}[-/. ]+[0-9]{{1,4}}(?:,? [0-9]{{4}})?"  # May-24, May 31, 2024
    r"|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}.*)?(?: ?[ap]m)?",  # 12:30:00
    re.IGNORECASE,
)
QUANTITY = re.compile(rf"[^\w]*[0-9].*|.*[{SYMBOLS}] ?[0-9].*|.*[0-9] ?[{SYMBOLS}{PERCENT}].*")


class Kind(Enum):
    """What a cell holds."""

    EMPTY = "empty"
    NUMBER = "a number"
    INFINITE = "not finite"
    MISSING = "a missing value"
    DATE = "a date"
    QUANTITY = "something with a number in it"
    WORD = "a word"


GAPS = (Kind.EMPTY, Kind.MISSING)


@dataclass(frozen=True)
class Amount:
    """A number as it is written: what it is if the point, or if the comma is the decimal mark, and its unit.

    >>> amount_of("-$1,234.50")
    Amount(point=-1234.5, comma=None, unit='$')
    >>> amount_of("1,234")
    Amount(point=1234.0, comma=1.234, unit='')
    """

    point: float | None
    comma: float | None
    unit: str = ""

    def at(self, mark: str) -> float | None:
        """Return the number if this is the decimal mark, or None if it cannot be."""
        return self.point if mark == POINT else self.comma

    @property
    def shows(self) -> str | None:
        """The decimal mark if only one is possible, else None."""
        return POINT if self.comma is None else COMMA if self.point is None else None

    @property
    def ambiguous(self) -> bool:
        """True if the number depends on which mark is the decimal one.

        >>> [amount_of(cell).ambiguous for cell in ("1,234", "1.234", "0.234", "1,2340", "1 234", "1,234,567")]
        [True, True, False, False, False, False]
        """
        return self.shows is None and self.point != self.comma


@lru_cache(maxsize=1 << 16)
def amount_of(cell: str) -> Amount | None:
    """Take a cell with a number apart, or return None if it holds none.

    >>> [amount_of(cell).point for cell in ("4 USD", "€ 4", "US$4", "12 %", "(4)", "1e3", "1'234.5")]
    [4.0, 4.0, 4.0, 12.0, -4.0, 1000.0, 1234.5]
    >>> amount_of("4 ml"), amount_of("$4 USD"), amount_of("1.2.3")
    (None, None, None)
    """
    text = cell.strip().translate(SPACES)
    bracketed = text.startswith("(") and text.endswith(")")
    found = AMOUNT.fullmatch(text[1:-1] if bracketed else text)
    if found is None:
        return None
    outer, before, inner, digits, after = found.groups(default="")
    signs = outer + inner
    if len(signs) + bracketed > 1 or (before and after):
        return None
    negative = bracketed or signs not in ("", "+")
    point, comma = (_value(digits, mark, negative) for mark in MARKS)
    return None if point is comma is None else Amount(point, comma, (before or after).upper())


def _value(digits: str, mark: str, negative: bool) -> float | None:
    found = DIGITS[mark].fullmatch(digits)
    if found is None or not (found[1] or found[3]):
        return None
    whole = found[1].replace(found[2], "") if found[2] else found[1]
    value = float(f"{whole or 0}.{found[3] or 0}e{found[4] or 0}")
    return -value if negative else value


def kind_of(cell: str) -> Kind:
    """Tell what a cell holds.

    >>> [kind_of(cell).name for cell in ("$4", "red", "2024-05-31", "250 ml", "#N/A", "-inf", "", "plan 2")]
    ['NUMBER', 'WORD', 'DATE', 'QUANTITY', 'MISSING', 'INFINITE', 'EMPTY', 'WORD']
    """
    text = cell.strip().translate(SPACES)
    if not text:
        return Kind.EMPTY
    if amount_of(text) is not None:
        return Kind.NUMBER
    if INFINITE.fullmatch(text):
        return Kind.INFINITE
    if text.lower() in MISSING or text.startswith("#"):
        return Kind.MISSING
    if DATE.fullmatch(text):
        return Kind.DATE
    return Kind.QUANTITY if QUANTITY.fullmatch(text) else Kind.WORD


def is_plain(cell: str) -> bool:
    """Return True if a program would read the number as a person does: digits and at most a decimal point."""
    return PLAIN.fullmatch(cell.strip()) is not None


def truth_of(cell: str) -> float | None:
    """Return yes as 1 and no as 0, in some languages; None if a cell is neither."""
    word = cell.strip().lower()
    return 1.0 if word in YES else 0.0 if word in NO else None


def whole_number(cell: str) -> int | None:
    """Return a cell of digits alone as a number."""
    return int(cell) if re.fullmatch("[0-9]{1,15}", cell) else None
