"""Makes hostile inputs of good ones: bytes, text and JSON values, all by one seeded random source."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tests.properties.poison import TEXTS

NUMBERS: tuple[Any, ...] = (0, -1, 1, 2**31, 2**63, 10**18, 10**400, -(10**400), 0.5, 1e308, True, None)
MARKS = (b"<", b">", b"&", b"\x00", b"\xff", b"\r\n", b"\n", b"'", b'"', b"]]>", b"<!--", b"<![CDATA[", b"%s", b"\xc2")
ENTITIES = (
    b'<!DOCTYPE a [<!ENTITY x "xxxxxxxxxx"><!ENTITY y "&x;&x;&x;&x;&x;&x;&x;&x;&x;&x;"><!ENTITY z "&y;&y;&y;&y;&y;">]>',
    b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
)
Kind = TypeVar("Kind")
LONGEST = 1 << 20
"""No input is made longer than this, unless it began so."""


class Mutator:
    """The random source of one input: the same seed makes the same input."""

    def __init__(self, seed: str) -> None:
        self.chance = random.Random(seed)

    def pick(self, values: Sequence[Kind]) -> Kind:
        return values[self.chance.randrange(len(values))]

    def often(self, part: float) -> bool:
        return self.chance.random() < part

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def damaged(self, data: bytes, most: int = 4) -> bytes:
        """The bytes after one to `most` changes."""
        for _ in range(self.chance.randint(1, most)):
            change: Callable[[bytes], bytes] = self.pick(
                (
                    self._flip,
                    self._cut,
                    self._cut_end,
                    self._double,
                    self._mark,
                    self._swap_lines,
                    self._number,
                    self._odd,
                )
            )
            data = change(data)[: max(LONGEST, len(data))]
        return data

    def _span(self, data: bytes, most: int) -> tuple[int, int]:
        begin = self.chance.randint(0, len(data))
        return begin, min(len(data), begin + self.chance.randint(1, most))

    def _flip(self, data: bytes) -> bytes:
        at, end = self._span(data, 1)
        return data[:at] + bytes((self.chance.randrange(256),)) + data[end:]

    def _cut(self, data: bytes) -> bytes:
        begin, end = self._span(data, 200)
        return data[:begin] + data[end:]

    def _cut_end(self, data: bytes) -> bytes:
        return data[: self.chance.randint(0, len(data))]

    def _double(self, data: bytes) -> bytes:
        begin, end = self._span(data, 2000)
        return data[:begin] + data[begin:end] * self.pick((2, 2, 3, 50)) + data[end:]

    def _mark(self, data: bytes) -> bytes:
        begin, _ = self._span(data, 1)
        return data[:begin] + self.pick((*MARKS, *ENTITIES)) * self.pick((1, 1, 1, 1000)) + data[begin:]

    def _swap_lines(self, data: bytes) -> bytes:
        lines = data.split(b"\n")
        one, other = self.chance.randrange(len(lines)), self.chance.randrange(len(lines))
        lines[one], lines[other] = lines[other], lines[one]
        return b"\n".join(lines)

    def _number(self, data: bytes) -> bytes:
        digits = [at for at in range(len(data)) if data[at : at + 1].isdigit()]
        if not digits:
            return data
        at = self.pick(digits)
        return data[:at] + str(self.pick(NUMBERS)).encode()[:500] + data[at + 1 :]

    def _odd(self, data: bytes) -> bytes:
        begin, end = self._span(data, 12)
        return data[:begin] + self.text().encode("utf-8", "surrogatepass") + data[end:]

    # -- values --------------------------------------------------------------------------------------------------------

    def text(self) -> str:
        found: str = self.pick(TEXTS)
        return found * self.pick((1, 1, 1, 1, 1, 300)) if len(found) < 100 else found

    def value(self, deep: int = 2) -> Any:
        """Any JSON value."""
        kind = self.chance.randrange(8 if deep else 4)
        if kind < 2:
            return self.text()
        if kind < 4:
            return self.pick(NUMBERS)
        if kind == 4:
            return self.nested(self.pick((3, 40, 70, 5000)))
        if kind == 5:
            return {self.text(): self.value(deep - 1) for _ in range(self.chance.randint(0, 3))}
        return [self.value(deep - 1) for _ in range(self.chance.randint(0, 3))]

    def nested(self, depth: int) -> Any:
        found: Any = 1
        for _ in range(depth):
            found = [found] if self.often(0.5) else {"a": found}
        return found

    def changed(self, value: Any) -> Any:
        """The value with one part, anywhere in it, replaced, taken away, doubled or renamed."""
        if not isinstance(value, dict | list) or not value or self.often(0.15):
            return self.value()
        if isinstance(value, list):
            at = self.chance.randrange(len(value))
            change = self.pick(("in", "in", "in", "drop", "double"))
            if change == "in":
                return [*value[:at], self.changed(value[at]), *value[at + 1 :]]
            return value[:at] + value[at + 1 :] if change == "drop" else value * self.pick((2, 2, 40))
        name = self.pick(list(value))
        change = self.pick(("in", "in", "in", "in", "drop", "rename", "add"))
        if change == "drop":
            return {key: part for key, part in value.items() if key != name}
        if change == "rename":
            return {(self.text() if key == name else key): part for key, part in value.items()}
        if change == "add":
            return {**value, self.text(): self.value()}
        return {**value, name: self.changed(value[name])}

    def json(self, value: Any) -> bytes:
        """The value as JSON: mostly whole, sometimes damaged, with NaN or a name twice."""
        try:
            text = json.dumps(value, ensure_ascii=self.often(0.5))
        except (RecursionError, ValueError):  # deeper than its writer goes; numbers longer than it writes
            text = '{"a":' * 5000 + "1" + "}" * 5000
        data = text.encode("utf-8", "surrogatepass")
        return self.damaged(data, 2) if self.often(0.2) else data
