"""The calendar of a study: when each round is played, in local time. Nothing here reads a clock.

Time is cut into parts of one length from the start on. Minutes and hours are absolute; days and weeks are those of the
local calendar, so that a day has 23 or 25 hours when clocks change. A part whose days are all closed is skipped, and
the others are the rounds 1, 2, 3 and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from functools import cached_property
from itertools import takewhile
from typing import Any, NamedTuple, TypeVar
from zoneinfo import ZoneInfo, available_timezones

from voxpop.errors import InputError
from voxpop.model.options import option
from voxpop.model.words import counted

UNITS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(1), "week": timedelta(7)}
LARGER = {"minute": (60, "hour"), "day": (7, "week")}
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DAY, MIDNIGHT = timedelta(1), datetime.min.time()
Day = TypeVar("Day", date, datetime)
LONGEST = 3_660  # days that are closed in one go


class Span(NamedTuple):
    """When a round, or several in a row, are played: from one local time until another."""

    begins: datetime
    ends: datetime

    @property
    def hours(self) -> float:
        """The hours that really pass."""
        return (self.ends.astimezone(UTC) - self.begins.astimezone(UTC)) / UNITS["hour"]


@dataclass(frozen=True)
class Calendar:
    """What a round is, and when the first one begins: the [calendar] table of a study file.

    >>> calendar = Calendar("day", "2026-03-27", "Europe/Berlin", closed=["Sunday"])
    >>> [f"{calendar.span(number).begins:%d %B}" for number in (1, 2, 3)]
    ['27 March', '28 March', '30 March']
    >>> calendar.round_at("2026-03-28T12:00"), calendar.round_at("2026-03-29T12:00")
    (2, None)
    >>> calendar.lasting(1, 12), calendar.until(1, 12)
    ('2 weeks', '9 April 2026')
    """

    round: str = option(
        label="A round is",
        help="What a round is: minute, hour, day, week, or a number of them such as 3 days.",
        example="week",
    )
    start: str = option(
        label="It starts on", help="When the first round begins: a local date or date-time.", example="2026-03-02"
    )
    zone: str = option(label="Time zone", help="The IANA time zone of all dates.", example="Europe/Berlin")
    closed: Sequence[str] = option(
        (),
        label="Closed days",
        help="Weekdays, dates or ranges of dates on which nothing is played; rounds skip them.",
        example='["sunday", "2026-12-24 to 2027-01-01"]',
    )

    def __post_init__(self) -> None:
        given: Any = self.closed
        if not isinstance(given, list | tuple):
            raise InputError(f"calendar.closed must be a list such as ['sunday', '2026-12-24'], got {given!r}")
        object.__setattr__(self, "round", _text(self.round))
        object.__setattr__(self, "start", _text(self.start))
        object.__setattr__(self, "closed", tuple(_text(day).lower() for day in given))
        _ = self._length, self._zone  # refused here if they are unknown
        if len(self._closed[0]) == len(WEEKDAYS):
            raise InputError("calendar.closed has every day of the week, which leaves nothing to play; open one")
        if self._start.tzinfo is not None or self._start != self._start.replace(second=0, microsecond=0):
            raise InputError(
                f"calendar.start must be a local date, or a time in whole minutes without an offset, got {self.start!r}"
            )
        one, other = (self._start.replace(tzinfo=self._zone, fold=fold).utctimetuple() for fold in (0, 1))
        if one != other and self._start.time() != MIDNIGHT:  # a day has a first moment, whatever clocks do
            odd = "does not exist" if one > other else "happens twice"
            raise InputError(
                f"calendar.start {self.start} {odd} in {self.zone}, as clocks change then; begin at another time"
            )
        self.check(1)

    @cached_property
    def _length(self) -> tuple[int, str]:
        """The length of a round: how many, and of which unit."""
        count, _, unit = ("1 " * (" " not in self.round) + self.round.lower()).partition(" ")
        unit = unit.strip().removesuffix("s")
        if unit in UNITS and count.isdecimal() and len(count) < 7 and int(count):
            return int(count), unit
        raise InputError(
            f"unknown calendar.round {self.round!r}; write minute, hour, day or week, or a number such as '3 days'"
        )

    @cached_property
    def _zone(self) -> ZoneInfo:
        try:
            return ZoneInfo(self.zone)
        except (KeyError, ValueError, TypeError, AttributeError, OSError):
            known = available_timezones()
            near = get_close_matches(str(self.zone), known, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else "give an IANA name such as 'Europe/Berlin'"
            remedy = remedy if known else "this machine knows none, so install them with: pip install tzdata"
            raise InputError(f"unknown calendar.zone {self.zone!r}; {remedy}") from None

    @cached_property
    def _start(self) -> datetime:
        """The start as a local time without its zone."""
        return _parsed(datetime, "calendar.start", self.start)

    @cached_property
    def _closed(self) -> tuple[frozenset[int], frozenset[date]]:
        """The weekdays and the dates that are closed."""
        weekdays, dates = set(), set()
        for entry in self.closed:
            if entry in WEEKDAYS:
                weekdays.add(WEEKDAYS.index(entry))
                continue
            first, _, last = entry.partition(" to ")
            begin, end = (_parsed(date, "calendar.closed", day) for day in (first, last or first))
            if not 0 <= (end - begin).days < LONGEST:
                wrong = "ends before it begins" if end < begin else f"is longer than {LONGEST:,} days"
                raise InputError(f"the range {entry!r} of calendar.closed {wrong}; correct its dates")
            dates |= {begin + place * DAY for place in range((end - begin).days + 1)}
        return frozenset(weekdays), frozenset(dates)

    @property
    def _local(self) -> bool:
        """True if rounds are days or weeks, which follow the local calendar."""
        return UNITS[self._length[1]] >= DAY

    @cached_property
    def _step(self) -> timedelta:
        return self._length[0] * UNITS[self._length[1]]

    def _moment(self, part: int) -> datetime:
        """Return when a part of the time begins.

        A local time that clocks skip is as much later as they skip, and one that happens twice is the first.
        """
        if self._local:
            return self._in_zone(self._start + part * self._step)
        return (self._in_zone(self._start).astimezone(UTC) + part * self._step).astimezone(self._zone)

    def _in_zone(self, naive: datetime) -> datetime:
        return naive.replace(tzinfo=self._zone).astimezone(UTC).astimezone(self._zone)

    def _skipped(self) -> Iterator[tuple[int, int]]:
        """Yield the parts that are skipped, as ranges, which are empty where closed days are too few."""
        weekdays, dates = self._closed
        day = self._start.date()
        last = date.max if weekdays else max(dates, default=date.min)
        while day <= last:
            after = day
            while after.weekday() in weekdays or after in dates:
                after += DAY
            if after > day:
                first = max(0, -(-self._since(day) // self._step))
                yield first, max(first, self._since(after) // self._step)
            day = after + DAY

    def _since(self, day: date) -> timedelta:
        """Return the time from the start to the beginning of a day; rounds of days belong to the day they begin on."""
        if self._local:
            return day - self._start.date()
        return self._in_zone(datetime.combine(day, MIDNIGHT)).astimezone(UTC) - self._moment(0).astimezone(UTC)

    def _parts(self, first: int, count: int) -> Iterator[int]:
        """Yield the parts of the time that are these rounds."""
        part, skipped = first - 1, self._skipped()
        gap = next(skipped, None)
        for _ in range(count):
            while gap is not None and gap[0] <= part:
                part += gap[1] - gap[0]
                gap = next(skipped, None)
            yield part
            part += 1

    def spans(self, first: int, count: int) -> Iterator[Span]:
        """Yield when each of some rounds is played, from round `first` on."""
        return (Span(self._moment(part), self._moment(part + 1)) for part in self._parts(first, count))

    def span(self, first: int, count: int = 1) -> Span:
        """Return when a round is played or, from its beginning to the end of the last, several are."""
        begin, end = self._ends(first, count)
        return Span(self._moment(begin), self._moment(end + 1))

    def _ends(self, first: int, count: int) -> tuple[int, int]:
        (begin,) = self._parts(first, 1)
        return begin, begin if count == 1 else next(self._parts(first + count - 1, 1))

    def check(self, horizon: int) -> None:
        """Refuse a horizon that goes beyond the last date there is."""
        try:
            self._moment(horizon)  # quicker than a walk through all closed days
            self.span(horizon)
        except OverflowError:
            raise InputError(
                f"{counted(horizon, 'round')} of {self.round!r} from {self.start} on end after the year 9999; shorten "
                "the horizon or the rounds, or close fewer days"
            ) from None

    def check_cycle(self, rounds: int | None) -> None:
        """Refuse a cycle of days that is no week of the calendar, so that weekdays would shift from one to the next."""
        number, unit = self._length
        week = len(WEEKDAYS) - len(self._closed[0]) if unit == "day" else 1
        days = rounds is not None and rounds <= len(WEEKDAYS) if unit == "day" else rounds == len(WEEKDAYS)
        if not days or rounds == week or number != 1 or not self._local:
            return
        remedy = f"give cycle = {week}" if week > 1 else "leave out the cycle"
        raise InputError(f"a week of the calendar has {counted(week, 'round')}, and the cycle {rounds}; {remedy}")

    def moment(self, when: datetime | date | str) -> datetime:
        """Return a time in the calendar's zone; one without a zone is local."""
        found = when if isinstance(when, datetime) else _parsed(datetime, "the time", _text(when))
        return self._in_zone(found) if found.tzinfo is None else found.astimezone(self._zone)

    def round_at(self, when: datetime | date | str, horizon: int | None = None) -> int | None:
        """Return the round that is played at a time; None before the start, after the horizon and on closed days."""
        try:
            number, now = self.begun(when), self.moment(when).astimezone(UTC)
            over = number == 0 or self.span(number).ends.astimezone(UTC) <= now
        except OverflowError:  # near the years 1 and 9999, where no round is
            return None
        return None if over or (horizon is not None and number > horizon) else number

    def begun(self, when: datetime | date | str) -> int:
        """Return how many rounds have begun at a time."""
        now = self.moment(when).astimezone(UTC)
        part = (now - self._moment(0).astimezone(UTC)) // self._step
        near = (part + 1, part, part - 1) if self._local else (part,)  # clocks may have changed since the start
        part = next(one for one in near if self._moment(one).astimezone(UTC) <= now)
        skipped = takewhile(lambda gap: gap[0] <= part, self._skipped())
        return max(0, part + 1 - sum(min(end, part + 1) - first for first, end in skipped))

    def lasting(self, first: int, count: int) -> str:
        """Say how long some rounds take, with the closed days between them."""
        begin, end = self._ends(first, count)
        number, unit = self._length
        number *= end + 1 - begin
        size, larger = LARGER.get(unit, (0, ""))
        return counted(number, unit) if not size or number % size else counted(number // size, larger)

    def yearly(self, rounds: int) -> float:
        """Return how many of so many rounds are played in a year.

        >>> round(Calendar("week", "2026-03-02", "Europe/Berlin").yearly(104), 1)
        52.2
        """
        span = self.span(1, rounds)
        return rounds * 365.25 * 24 / span.hours

    def until(self, first: int, count: int = 1) -> str:
        """Say when some rounds end: the last day or, if rounds do not begin at midnight, the time."""
        return self.written(self.span(first, count).ends, last=True)

    def written(self, moment: datetime, last: bool = False) -> str:
        """Write a time as people do; the day alone, if rounds begin at midnight: if it is an end, the last one."""
        if not self._local or self._start.time() != MIDNIGHT:
            return f"{moment.day} {moment:%B %Y, %H:%M}"
        day = (moment.astimezone(UTC) - last * UNITS["minute"]).astimezone(self._zone)
        return f"{day.day} {day:%B %Y}"

    def changes(self, first: int, count: int) -> list[str]:
        """Say which of some rounds are unlike others, as clocks change or some of their days are closed."""
        usual, (weekdays, dates), found = self._step / UNITS["hour"], self._closed, list[str]()
        closed = {day for day in dates if day.weekday() not in weekdays}
        for number, span in enumerate(self.spans(first, count), start=first):
            which = f"round {number:,} ({self.written(span.begins)})"
            first_day, last_day = span.begins.date(), span.ends.date()
            if days := sum(first_day + place * DAY in closed for place in range((last_day - first_day).days)):
                found.append(f"{which} has {counted(days, 'closed day')}, and counts as a whole round")
            if span.hours != usual:
                found.append(f"{which} has {span.hours:g} hours, as clocks change")
        return found


def _text(value: Any) -> str:
    """Write a date or a time of a TOML file as text."""
    return value.isoformat() if isinstance(value, date) else str(value).strip()


def _parsed(kind: type[Day], name: str, text: str) -> Day:
    try:
        return kind.fromisoformat(text)
    except ValueError:
        days = "a weekday or " if kind is date else ""
        raise InputError(f"{name} must be {days}a date such as 2026-03-02, got {text!r}") from None
