"""Data: built-in glyphs, your own images, and the benchmarks of the field, all as `RetrievalData`.

data = prunnet.load_data("glyphs")                           # built in, nothing to download
data = prunnet.load_data("photos/")                          # a folder per class
data = prunnet.load_data("photos.csv")                       # a manifest
data = prunnet.load_data("market1501", root="Market-1501")   # a benchmark as published

loader = make_loader(data.train, train_transform(net.preprocessing), sampler=ShuffledSampler(len(data.train), 64))
"""

from prunnet.data.checking import Finding, Report, check
from prunnet.data.images import UNLABELLED, ImageSet
from prunnet.data.loading import (
    Batch,
    ImageDataset,
    Loader,
    OnError,
    check_augmentation,
    collate,
    make_loader,
    read_ahead,
    shuffled_loader,
    train_transform,
    training_images,
)
from prunnet.data.registry import DATASETS, load_data
from prunnet.data.retrieval import Protocol, RetrievalData, answers_of
from prunnet.data.samplers import ClassBalancedSampler, EpochSampler, ShuffledSampler

__all__ = [
    "DATASETS",
    "UNLABELLED",
    "Batch",
    "ClassBalancedSampler",
    "EpochSampler",
    "Finding",
    "ImageDataset",
    "ImageSet",
    "Loader",
    "OnError",
    "Protocol",
    "Report",
    "RetrievalData",
    "ShuffledSampler",
    "answers_of",
    "check",
    "check_augmentation",
    "collate",
    "load_data",
    "make_loader",
    "read_ahead",
    "shuffled_loader",
    "train_transform",
    "training_images",
]
