"""Write the test vectors again: `make vectors`."""

from tests.vectors import answers, numbers, refusals

answers.write()
refusals.write()
numbers.write()
