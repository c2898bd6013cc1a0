"""Pass or fail against the definition of compatibility."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Violation:
    """A pair whose cross-test stays below the self-test it has to reach."""

    query: str
    gallery: str
    cross_test: float
    self_test: float
    reference: str
    interval: tuple[float, float] | None = None

    def __str__(self) -> str:
        text = (
            f"M({self.query}, {self.gallery}) = {100 * self.cross_test:.2f} is below "
            f"M({self.reference}, {self.reference}) = {100 * self.self_test:.2f} "
            f"by {100 * (self.self_test - self.cross_test):.2f}"
        )
        if self.interval is None:
            return text
        low, high = (100 * bound for bound in self.interval)
        return f"{text} (margin {low:+.2f} … {high:+.2f})"


@dataclass(frozen=True)
class CompatibilityCheck:
    """True if every pair is compatible; otherwise `violations` names those that are not, worst first."""

    pairs: int
    tolerance: float
    violations: tuple[Violation, ...]

    def __bool__(self) -> bool:
        return not self.violations

    def __str__(self) -> str:
        allowed = f" (tolerance {100 * self.tolerance:g} points)" if self.tolerance else ""
        if self:
            return f"compatible: all {self.pairs} cross-tests reach the smaller network's self-test{allowed}"
        lines = [f"not compatible: {len(self.violations)} of {self.pairs} cross-tests fall short{allowed}"]
        return "\n".join([*lines, *(f"  {violation}" for violation in self.violations)])
