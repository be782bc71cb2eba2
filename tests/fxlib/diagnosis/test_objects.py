"""Models that keep objects whose own code raises where anybody asks them something: none of that is a finding."""

import torch

import fxlib

from .snippets import load

TEXT = """
import torch
from torch import nn


class Dict(dict):
    __getattr__ = dict.__getitem__


class Config:
    def __init__(self):
        self.__dict__["values"] = {"scale": 2.0}

    def __getattr__(self, name):
        return self.__dict__["values"][name]


def no(*_):
    raise RuntimeError("no")


class Properties:
    scale = 2.0
    __func__ = __wrapped__ = __module__ = __dict__ = shape = property(no)


class Unbound:
    scale = 2.0
    __class__ = property(no)


class Asked:
    scale = 2.0
    __eq__ = __bool__ = __len__ = __iter__ = __contains__ = __repr__ = no
    __hash__ = None


class Items(list):
    scale = 2.0
    __len__ = __iter__ = __eq__ = no


class Named(dict):
    scale = 2.0
    __len__ = __iter__ = __eq__ = items = values = no


ALL = [Dict(scale=2.0), Config(), Properties(), Unbound(), Asked(), Items(), Named()]
DICT, CONFIG, PROPERTIES, UNBOUND, ASKED, ITEMS, NAMED = ALL


# fxlens: Net() <- torch.randn(3)
class Net(nn.Module):
    dict, config, properties, unbound, asked, items, named = ALL

    def __init__(self):
        super().__init__()
        self.own_dict, self.own_config, self.own_properties, _, self.own_asked, self.own_items, self.own_named = ALL
        self.kept, self.held = [*ALL], {"all": tuple(ALL)}
        self.called = lambda x: x * UNBOUND.scale

    def forward(self, x):
        x = x * self.own_dict.scale * self.own_config.scale * self.own_properties.scale * self.own_asked.scale
        x = x * self.own_items.scale * self.own_named.scale * self.kept[3].scale * self.held["all"][0].scale
        x = x * DICT.scale * CONFIG.scale * PROPERTIES.scale * UNBOUND.scale * ASKED.scale * ITEMS.scale * NAMED.scale
        return self.called(x) * self.dict.scale * self.unbound.scale * self.asked.scale * self.properties.scale
"""


def test_objects_that_answer_no_question_are_no_finding(tmp_path):
    report = fxlib.diagnose(load(TEXT, tmp_path).Net(), (torch.randn(3),))
    assert report.traces and not report.findings, report.findings
