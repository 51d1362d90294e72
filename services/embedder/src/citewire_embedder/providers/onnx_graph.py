"""A small builder for ONNX graphs: nodes in order, constants by name."""

from collections.abc import Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

_OPSET = 21  # LayerNormalization is 17, Gelu 20, int8 DequantizeLinear by channel 21
_IR_VERSION = 10  # the oldest that carries opset 21


Attribute = int | float | str | Sequence[int]


class GraphBuilder:
    """Collects the nodes and constants of one graph. Every method returns the name of the value that it added."""

    def __init__(self, *, quantise: bool = False) -> None:
        """Starts an empty graph.

        Args:
            quantise: Store the weights of `linear` as int8 with one scale per output, behind a DequantizeLinear:
                the form in which OpenVINO multiplies in int8.
        """
        self._quantise = quantise
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        """Adds a constant once; a second call with the same name returns the first one."""
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(value, name)
        return name

    def scalar(self, value: float) -> str:
        """Adds a float32 scalar."""
        return self.constant(f"f32_{value!r}", np.array(value, np.float32))

    def ints(self, *values: int) -> str:
        """Adds an int64 vector: axes, shapes, slice bounds."""
        return self.constant("i64_" + "_".join(map(str, values)), np.array(values, np.int64))

    def op(self, op_type: str, *inputs: str, **attributes: Attribute) -> str:
        """Adds a node with one output."""
        name = f"{op_type}_{len(self._nodes)}"
        node = helper.make_node(op_type, list(inputs), [name], name=name)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self._nodes.append(node)
        return name

    def linear(self, x: str, name: str, weight: NDArray[np.float32], bias: NDArray[np.float32]) -> str:
        """Adds x · weightᵀ + bias; `weight` has the shape (outputs, inputs), as PyTorch stores it."""
        columns = np.ascontiguousarray(weight.T)
        matrix = self._quantised(name, columns) if self._quantise else self.constant(f"{name}.weight", columns)
        return self.op("Add", self.op("MatMul", x, matrix), self.constant(f"{name}.bias", bias))

    def layer_norm(
        self, x: str, name: str, weight: NDArray[np.float32], bias: NDArray[np.float32], epsilon: float
    ) -> str:
        """Adds a layer normalisation over the last axis."""
        scale, shift = self.constant(f"{name}.weight", weight), self.constant(f"{name}.bias", bias)
        return self.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=epsilon)

    def build(self, inputs: Sequence[str], output: str, shape: Sequence[str | int]) -> onnx.ModelProto:
        """Closes the graph.

        Args:
            inputs: Names of its int64 inputs, each of shape (batch, tokens).
            output: Name of the value that it returns, float32.
            shape: Shape of the output, with names for unknown dimensions.
        """
        graph = helper.make_graph(
            self._nodes,
            "encoder",
            [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in inputs],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
            list(self._constants.values()),
        )
        opset = helper.make_opsetid("", _OPSET)
        return helper.make_model(graph, opset_imports=[opset], ir_version=_IR_VERSION, producer_name="citewire")

    def _quantised(self, name: str, columns: NDArray[np.float32]) -> str:
        """Symmetric int8 by output: the scale maps each column's largest magnitude to 127."""
        largest = np.abs(columns).max(axis=0)
        scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
        values = np.rint(columns / scale).astype(np.int8)
        return self.op(
            "DequantizeLinear",
            self.constant(f"{name}.weight.int8", values),
            self.constant(f"{name}.weight.scale", scale),
            axis=1,
        )
