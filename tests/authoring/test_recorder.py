"""Recording a module's calls changes none of them."""

from types import ModuleType

from torch import nn

from grader.authoring.recorder import CallRecorder
from grader.core import catalog


class Layer(nn.Module):
    class Norm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.width = width

    def __init__(self, width):
        super().__init__()
        self.norm = self.Norm(width)

    @staticmethod
    def doubled(x):
        return 2 * x

    def forward(self, x):
        return self.doubled(x) + self.norm.width


def test_a_class_within_a_class_and_a_static_method_stay_what_they_are():
    module = ModuleType("answer")
    module.SelfAttention = Layer
    recorder = CallRecorder(catalog.find_catalog_exercise("ex12_attention_block"), module)
    assert recorder.SelfAttention(3)(4) == 11
    assert recorder.calls == ["Layer(3)", "Layer()(4)"]
