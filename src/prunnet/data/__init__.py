"""Data: built-in glyphs, your own images, and the benchmarks of the field, all as `RetrievalData`.

data = prunnet.data.load("glyphs")                           # built in, nothing to download
data = prunnet.data.load("photos/")                          # a folder per class
data = prunnet.data.load("photos.csv")                       # a manifest
data = prunnet.data.load("market1501", root="Market-1501")   # a benchmark as published

loader = make_loader(data.train, train_transform(net.preprocessing), sampler=ShuffledSampler(len(data.train), 64))
"""

from prunnet.data.checking import Finding, Report, check
from prunnet.data.errors import DataError, UnreadableImageError
from prunnet.data.images import UNLABELLED, ImageSet
from prunnet.data.loading import Batch, ImageDataset, Loader, collate, make_loader, shuffled_loader
from prunnet.data.registry import DATASETS, load
from prunnet.data.retrieval import Protocol, RetrievalData
from prunnet.data.samplers import ClassBalancedSampler, EpochSampler, ShuffledSampler
from prunnet.data.transforms import eval_transform, train_transform

__all__ = [
    "DATASETS",
    "UNLABELLED",
    "Batch",
    "ClassBalancedSampler",
    "DataError",
    "EpochSampler",
    "Finding",
    "ImageDataset",
    "ImageSet",
    "Loader",
    "Protocol",
    "Report",
    "RetrievalData",
    "ShuffledSampler",
    "UnreadableImageError",
    "check",
    "collate",
    "eval_transform",
    "load",
    "make_loader",
    "shuffled_loader",
    "train_transform",
]
