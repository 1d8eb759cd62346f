"""The one comparison behind the checks of the exercises: its message lets a reader tell what came from what was due."""

import re

import pytest
import torch

from minerva_book.exercises.answers import compare

SAID = r"is (\S+) and should be (\S+)$"


@pytest.mark.parametrize(
    ("got", "wanted"),
    [
        (0.921721, 0.92172101),
        (torch.tensor(0.1).item(), 0.1),  # a float32 among float64
        (1.0 + 2.0**-52, 1.0),  # neighbors
        (-3e-12, 3e-12),
        (1e300, -1e300),
        (1234567.0, 1234568.0),
        (2.0, 3.0),
        (float("nan"), 0.5),
    ],
)
def test_the_two_numbers_differ_in_print(got, wanted):
    got_tensor, wanted_tensor = torch.tensor([got, wanted], dtype=torch.float64).expand(3, 2).T
    with pytest.raises(AssertionError) as caught:
        compare("x", got_tensor, wanted_tensor, atol=0.0)
    said = re.search(SAID, str(caught.value))
    assert said[1] != said[2], str(caught.value)
    assert [float(number) for number in said.groups()] == pytest.approx([got, wanted], rel=1e-5, nan_ok=True)


def test_no_more_digits_than_tell_them_apart():
    with pytest.raises(AssertionError, match=r"^x: 1 of 2 .* at \(1,\), is 0\.333333 and should be 0\.5$"):
        compare("x", torch.tensor([0.5, 1 / 3]), torch.tensor([0.5, 0.5]))
    with pytest.raises(AssertionError, match=r" is 0\.92172104 and should be 0\.92172101$"):
        compare("x", *torch.tensor([0.92172104, 0.92172101], dtype=torch.float64))
