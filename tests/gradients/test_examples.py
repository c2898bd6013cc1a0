import doctest

import prunnet.gradients


def test_the_examples_of_the_package_run() -> None:
    result = doctest.testmod(prunnet.gradients)
    assert result.attempted
    assert not result.failed
