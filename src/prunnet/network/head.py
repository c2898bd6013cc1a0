"""The embedding head, shared by the whole family and never pruned."""

from torch import Tensor, nn


class EmbeddingHead(nn.Module):
    """features → linear → `embedding_dim` → BatchNorm1d = the embedding."""

    def __init__(self, in_features: int, embedding_dim: int) -> None:
        super().__init__()
        self.embedding_dim = embedding_dim
        self.linear = nn.Linear(in_features, embedding_dim)
        self.norm = nn.BatchNorm1d(embedding_dim)

    def reset_parameters(self) -> None:
        """Start afresh."""
        self.linear.reset_parameters()
        self.norm.reset_parameters()

    def forward(self, features: Tensor) -> Tensor:
        embedding: Tensor = self.norm(self.linear(features))
        return embedding
