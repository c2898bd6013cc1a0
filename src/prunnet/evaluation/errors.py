"""What can be wrong with an evaluation."""

from prunnet.errors import PrunNetError


class EvaluationError(PrunNetError, ValueError):
    """A metric nobody defined, embeddings that do not fit the data, or data that cannot be scored."""
