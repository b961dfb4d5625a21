"""A planted fault: one change to the source that some test must notice."""

from dataclasses import dataclass
from pathlib import Path

SOURCE, SDK = "src/voxpop", "clients/js/src"  # the package, and the device for browsers and Node


@dataclass(frozen=True)
class Fault:
    """A change to one file, and the tests that should fail with it."""

    name: str
    says: str  # what is wrong, in one sentence
    file: str  # below src/voxpop, or below clients/js/src if it is TypeScript
    old: str  # occurs exactly once in the file
    new: str
    tests: tuple[str, ...]  # below tests/: whole files, or single tests as file::test

    @property
    def commands(self) -> list[str]:
        """The tests as pytest names them."""
        return [f"tests/{test}" for test in self.tests]

    def place(self, root: Path) -> Path:
        """Return the file in the tree at `root`."""
        return root / (SDK if self.file.endswith(".ts") else SOURCE) / self.file

    def problem(self, root: Path) -> str | None:
        """Say why the fault cannot be planted in the tree at `root`; None if it can."""
        path = self.place(root)
        if not path.is_file():
            return f"there is no file {self.file}"
        times = path.read_text(encoding="utf-8").count(self.old)
        return None if times == 1 else f"{self.old!r} occurs {times} times in {self.file}"

    def planted(self, text: str) -> str:
        """Return the text of the file with the fault in it."""
        return text.replace(self.old, self.new)
