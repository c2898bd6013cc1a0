"""What several commands read alike."""


def parse_capacities(text: str) -> tuple[float, ...]:
    """`1,.8,.2` → (1.0, 0.8, 0.2)."""
    from prunnet.errors import CapacityError
    from prunnet.network.capacity import check_capacities

    try:
        return check_capacities(float(part) for part in text.split(","))
    except ValueError as error:
        if isinstance(error, CapacityError):
            raise
        raise CapacityError(f"capacities are numbers in (0, 1] with commas between them; found {text!r}") from None
