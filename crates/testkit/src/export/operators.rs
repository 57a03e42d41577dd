//! The ONNX operators that core ops are exported as.

use super::message::Message;
use super::{name, number_of, tensor_message, typed_message};
use kiln_ir::{
    Combine, CumulateFunction, Extremum, Graph, Op, OpData, PadMode, PoolFunction, ReduceFunction,
    Resize, ResizeMode, ValueId, Window, Word,
};
use kiln_scalar::Function;
use kiln_symbolic_shape::{Binding, DimId};
use kiln_tensor::{DType, Tensor};

/// An attribute's value.
enum Attribute<'a> {
    Int(i64),
    Ints(Vec<i64>),
    Float(f32),
    Text(&'a str),
}

/// Writes the nodes of one graph.
pub(super) struct Exporter<'g> {
    graph: &'g Graph,
    binding: &'g Binding,
    content: Message,
    outside: Option<Outside<'g>>,
    n_names: usize,
}

/// The file for the elements of the graph's constants, and its content.
struct Outside<'g> {
    location: &'g str,
    content: Vec<u8>,
}

impl<'g> Exporter<'g> {
    /// A writer for a graph whose constants are in the model, or have their elements in a file next to it.
    pub(super) fn new(graph: &'g Graph, binding: &'g Binding, location: Option<&'g str>) -> Self {
        let outside = |location| Outside {
            location,
            content: Vec::new(),
        };
        Self {
            graph,
            binding,
            content: Message::new(),
            outside: location.map(outside),
            n_names: 0,
        }
    }

    /// The fields of the graph's message so far, which are its nodes and constants; and the file.
    pub(super) fn into_contents(self) -> (Message, Vec<u8>) {
        let outside = self.outside.map(|outside| outside.content);
        (self.content, outside.unwrap_or_default())
    }

    /// A constant of the graph.
    fn initializer(&mut self, name: &str, tensor: &Tensor) -> Option<()> {
        let mut message = typed_message(name, tensor)?;
        let elements = tensor.contiguous().ok()?;
        let bytes = elements.as_bytes().ok()?;
        match &mut self.outside {
            None => message.bytes(9, bytes),
            Some(Outside { location, content }) => {
                let offset = content.len().to_string();
                let length = bytes.len().to_string();
                content.extend_from_slice(bytes);
                let entries = [
                    ("location", *location),
                    ("offset", offset.as_str()),
                    ("length", length.as_str()),
                ];
                for (key, value) in entries {
                    let mut entry = Message::new();
                    entry.text(1, key);
                    entry.text(2, value);
                    message.message(13, &entry);
                }
                message.number(14, 1);
            }
        }
        self.content.message(5, &message);
        Some(())
    }

    fn size(&self, dim: DimId) -> Option<i64> {
        self.graph.dims().evaluate(dim, self.binding).ok()
    }

    fn sizes(&self, dims: &[DimId]) -> Option<Vec<i64>> {
        dims.iter().map(|&dim| self.size(dim)).collect()
    }

    fn fresh(&mut self) -> String {
        self.n_names += 1;
        format!("t{}", self.n_names)
    }

    fn node(
        &mut self,
        op_type: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[(&str, Attribute<'_>)],
    ) {
        let mut node = Message::new();
        for input in inputs {
            node.text(1, input);
        }
        for output in outputs {
            node.text(2, output);
        }
        node.text(4, op_type);
        for (name, value) in attributes {
            let mut attribute = Message::new();
            attribute.text(1, name);
            let kind = match value {
                Attribute::Float(value) => {
                    attribute.float(2, *value);
                    1
                }
                Attribute::Int(value) => {
                    attribute.number(3, *value);
                    2
                }
                Attribute::Text(value) => {
                    attribute.text(4, value);
                    3
                }
                Attribute::Ints(values) => {
                    for &value in values {
                        attribute.number(8, value);
                    }
                    7
                }
            };
            attribute.number(20, kind);
            node.message(5, &attribute);
        }
        self.content.message(1, &node);
    }

    /// A constant under a new name.
    fn constant(&mut self, tensor: &Tensor) -> Option<String> {
        let name = self.fresh();
        self.content.message(5, &tensor_message(&name, tensor)?);
        Some(name)
    }

    fn integers(&mut self, values: &[i64]) -> Option<String> {
        self.constant(&Tensor::from_slice(&[values.len()], values).ok()?)
    }

    /// Writes an op; `None` if it cannot be expressed in ONNX.
    pub(super) fn op(&mut self, data: &OpData) -> Option<()> {
        let names: Vec<String> = data.operands.iter().map(|&value| name(value)).collect();
        let inputs: Vec<&str> = names.iter().map(String::as_str).collect();
        let results: Vec<String> = data.results.iter().map(|&value| name(value)).collect();
        let outputs: Vec<&str> = results.iter().map(String::as_str).collect();
        let flag = |set: bool| Attribute::Int(i64::from(set));
        let number = |value: usize| Attribute::Int(i64::try_from(value).unwrap_or(i64::MAX));
        match &data.op {
            Op::Constant(constant) => {
                self.initializer(outputs.first()?, &constant.tensor())?;
            }
            Op::Map {
                function,
                parameters,
            } => {
                self.map(*function, parameters, &inputs, outputs.first()?)?;
            }
            Op::Dims { sizes } => {
                let sizes = self.sizes(sizes)?;
                let sizes = Tensor::from_slice(&[sizes.len()], &sizes).ok()?;
                let message = tensor_message(outputs.first()?, &sizes)?;
                self.content.message(5, &message);
            }
            Op::Iota { dims, axis, dtype } => {
                self.iota(&self.sizes(dims)?, *axis, *dtype, &outputs)?
            }
            Op::Cast { to } => {
                self.node(
                    "Cast",
                    &inputs,
                    &outputs,
                    &[("to", Attribute::Int(number_of(*to)))],
                );
            }
            Op::Reshape { dims } => {
                let sizes = self.sizes(dims)?;
                let sizes = self.integers(&sizes)?;
                self.node(
                    "Reshape",
                    &[inputs.first()?, &sizes],
                    &outputs,
                    &[("allowzero", flag(true))],
                );
            }
            Op::Broadcast { dims } => {
                let sizes = self.sizes(dims)?;
                let sizes = self.integers(&sizes)?;
                self.node("Expand", &[inputs.first()?, &sizes], &outputs, &[]);
            }
            Op::Transpose { permutation } => {
                let axes = permutation.iter().map(|&axis| axis as i64).collect();
                self.node(
                    "Transpose",
                    &inputs,
                    &outputs,
                    &[("perm", Attribute::Ints(axes))],
                );
            }
            Op::Slice {
                starts,
                sizes,
                steps,
            } => {
                let (starts, sizes) = (self.sizes(starts)?, self.sizes(sizes)?);
                self.slice(inputs.first()?, (&starts, &sizes, steps), &outputs)?;
            }
            Op::Pad { low, high, mode } => {
                let mut pads = self.sizes(low)?;
                pads.extend(self.sizes(high)?);
                let pads = self.integers(&pads)?;
                let &[x, value] = inputs.as_slice() else {
                    return None;
                };
                let mode_attribute = [("mode", Attribute::Text(mode.as_word()))];
                let operands = match mode {
                    PadMode::Constant => vec![x, &pads, value],
                    _ => vec![x, &pads],
                };
                self.node("Pad", &operands, &outputs, &mode_attribute);
            }
            Op::Concat { axis } => {
                self.node("Concat", &inputs, &outputs, &[("axis", number(*axis))])
            }
            Op::Gather { axis } => {
                self.node("Gather", &inputs, &outputs, &[("axis", number(*axis))])
            }
            Op::GatherElements { axis } => {
                self.node(
                    "GatherElements",
                    &inputs,
                    &outputs,
                    &[("axis", number(*axis))],
                );
            }
            Op::GatherNd { batch_axes } => {
                self.node(
                    "GatherND",
                    &inputs,
                    &outputs,
                    &[("batch_dims", number(*batch_axes))],
                );
            }
            Op::ScatterElements { axis, combine } => {
                let attributes = [
                    ("axis", number(*axis)),
                    ("reduction", Attribute::Text(reduction(*combine))),
                ];
                self.node("ScatterElements", &inputs, &outputs, &attributes);
            }
            Op::ScatterNd { combine } => {
                let attributes = [("reduction", Attribute::Text(reduction(*combine)))];
                self.node("ScatterND", &inputs, &outputs, &attributes);
            }
            Op::Matmul { out } => {
                self.same_dtype(data, *out)?;
                self.node("MatMul", &inputs, &outputs, &[]);
            }
            Op::Conv {
                window,
                groups,
                out,
            } => {
                self.same_dtype(data, *out)?;
                let weights = self.graph.tensor_ty(*data.operands.get(1)?)?;
                self.fits(data, window, &self.sizes(weights.dims.get(2..)?)?)?;
                let mut attributes = self.window(window)?;
                attributes.push(("group", number(*groups)));
                self.node("Conv", &inputs, &outputs, &attributes);
            }
            Op::ConvTranspose {
                window,
                output_padding,
                groups,
            } => {
                let output_padding = self.sizes(output_padding)?;
                let steps = window.strides.iter().zip(&window.dilations);
                let mut limits = steps.map(|(&stride, &dilation)| stride.max(dilation));
                // ONNX does not allow more.
                if output_padding
                    .iter()
                    .any(|&added| limits.next().is_none_or(|limit| added >= limit))
                {
                    return None;
                }
                let mut attributes = self.window(window)?;
                attributes.push(("group", number(*groups)));
                attributes.push(("output_padding", Attribute::Ints(output_padding)));
                self.node("ConvTranspose", &inputs, &outputs, &attributes);
            }
            Op::Reduce {
                function,
                axes,
                keep_dims,
            } => {
                let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
                let op_type = match function {
                    ReduceFunction::Sum => "ReduceSum",
                    ReduceFunction::Mean => "ReduceMean",
                    ReduceFunction::Product => "ReduceProd",
                    ReduceFunction::Max => "ReduceMax",
                    ReduceFunction::Min => "ReduceMin",
                    ReduceFunction::Any | ReduceFunction::All => return None,
                };
                let axes = self.integers(&axes)?;
                let attributes = [
                    ("keepdims", flag(*keep_dims)),
                    ("noop_with_empty_axes", flag(true)),
                ];
                self.node(op_type, &[inputs.first()?, &axes], &outputs, &attributes);
            }
            Op::ArgReduce {
                extremum,
                axis,
                keep_dims,
                last,
            } => {
                let op_type = match extremum {
                    Extremum::Max => "ArgMax",
                    Extremum::Min => "ArgMin",
                };
                let attributes = [
                    ("axis", number(*axis)),
                    ("keepdims", flag(*keep_dims)),
                    ("select_last_index", flag(*last)),
                ];
                self.node(op_type, &inputs, &outputs, &attributes);
            }
            Op::Cumulate {
                function: CumulateFunction::Sum,
                axis,
                exclusive,
                reverse,
            } => {
                let axis = self.constant(&Tensor::scalar(*axis as i64))?;
                let attributes = [("exclusive", flag(*exclusive)), ("reverse", flag(*reverse))];
                self.node("CumSum", &[inputs.first()?, &axis], &outputs, &attributes);
            }
            Op::Pool {
                function,
                size,
                window,
            } => {
                self.fits(data, window, size)?;
                let mut attributes = self.window(window)?;
                attributes.push(("kernel_shape", Attribute::Ints(size.to_vec())));
                let is_spread = window.dilations.iter().any(|&dilation| dilation != 1);
                let op_type = match function {
                    PoolFunction::Max => "MaxPool",
                    // The mean of a window entirely in the padding is NaN here and 0 elsewhere.
                    PoolFunction::Mean if is_spread => return None,
                    PoolFunction::Mean => "AveragePool",
                    PoolFunction::MeanWithPadding => {
                        attributes.push(("count_include_pad", flag(true)));
                        "AveragePool"
                    }
                    PoolFunction::Sum => return None,
                };
                self.node(op_type, &inputs, &outputs, &attributes);
            }
            Op::Resize(resize) => self.resize(resize, inputs.first()?, &outputs)?,
            Op::TopK { k, axis, extremum } => {
                let k = self.size(*k)?;
                let k = self.integers(&[k])?;
                let attributes = [
                    ("axis", number(*axis)),
                    ("largest", flag(*extremum == Extremum::Max)),
                ];
                self.node("TopK", &[inputs.first()?, &k], &outputs, &attributes);
            }
            _ => return None,
        }
        Some(())
    }

    /// Only products with their operands' dtype have an operator.
    fn same_dtype(&self, data: &OpData, out: DType) -> Option<()> {
        let own = |value: &ValueId| self.graph.tensor_ty(*value).map(|ty| ty.dtype);
        let fits = data.operands.iter().all(|value| own(value) == Some(out));
        (fits && out.is_float()).then_some(())
    }

    fn window(&self, window: &Window) -> Option<Vec<(&'static str, Attribute<'static>)>> {
        let mut pads = self.sizes(&window.low)?;
        pads.extend(self.sizes(&window.high)?);
        Some(vec![
            ("strides", Attribute::Ints(window.strides.to_vec())),
            ("dilations", Attribute::Ints(window.dilations.to_vec())),
            ("pads", Attribute::Ints(pads)),
        ])
    }

    /// Windows that reach beyond the padded operand give an empty result here; others round towards zero and give one
    /// element.
    fn fits(&self, data: &OpData, window: &Window, kernel: &[i64]) -> Option<()> {
        let x = self.graph.tensor_ty(*data.operands.first()?)?;
        let sizes = self.sizes(x.dims.get(2..)?)?;
        let (low, high) = (self.sizes(&window.low)?, self.sizes(&window.high)?);
        let axes = sizes
            .iter()
            .zip(low.iter().zip(&high))
            .zip(kernel.iter().zip(&window.dilations));
        let mut reaches = axes.map(|((&size, (&low, &high)), (&kernel, &dilation))| {
            (size + low + high, dilation * (kernel - 1) + 1)
        });
        reaches.all(|(padded, reach)| reach <= padded).then_some(())
    }

    fn iota(&mut self, sizes: &[i64], axis: usize, dtype: DType, outputs: &[&str]) -> Option<()> {
        let length = *sizes.get(axis)?;
        let (zero, end, one) = (
            self.constant(&Tensor::scalar(0_i64))?,
            self.constant(&Tensor::scalar(length))?,
            self.constant(&Tensor::scalar(1_i64))?,
        );
        let mut along = vec![1; sizes.len()];
        *along.get_mut(axis)? = length;
        let (along, sizes) = (self.integers(&along)?, self.integers(sizes)?);
        let (range, cast, shaped) = (self.fresh(), self.fresh(), self.fresh());
        self.node("Range", &[&zero, &end, &one], &[&range], &[]);
        self.node(
            "Cast",
            &[&range],
            &[&cast],
            &[("to", Attribute::Int(number_of(dtype)))],
        );
        let allow = [("allowzero", Attribute::Int(1))];
        self.node("Reshape", &[&cast, &along], &[&shaped], &allow);
        self.node("Expand", &[&shaped, &sizes], outputs, &[]);
        Some(())
    }

    fn slice(
        &mut self,
        x: &str,
        (starts, sizes, steps): (&[i64], &[i64], &[i64]),
        outputs: &[&str],
    ) -> Option<()> {
        let (mut from, mut ends, mut apart) = (Vec::new(), Vec::new(), Vec::new());
        for ((&start, &size), &step) in starts.iter().zip(sizes).zip(steps) {
            if size == 0 {
                // A start out of bounds would count from the end.
                from.push(0);
                ends.push(0);
                apart.push(1);
                continue;
            }
            let end = start.checked_add(step.checked_mul(size)?)?;
            // Before the first element; -1 would be the last.
            ends.push(if end < 0 { i64::MIN + 1 } else { end });
            from.push(start);
            apart.push(step);
        }
        let axes: Vec<i64> = (0..).take(starts.len()).collect();
        let (starts, ends) = (self.integers(&from)?, self.integers(&ends)?);
        let (axes, steps) = (self.integers(&axes)?, self.integers(&apart)?);
        self.node("Slice", &[x, &starts, &ends, &axes, &steps], outputs, &[]);
        Some(())
    }

    fn resize(&mut self, resize: &Resize, x: &str, outputs: &[&str]) -> Option<()> {
        if resize.scales.iter().any(|&scale| scale != 0.0) {
            return None;
        }
        let sizes = self.sizes(&resize.sizes)?;
        let sizes = self.integers(&sizes)?;
        let axes = resize.axes.iter().map(|&axis| axis as i64).collect();
        let mode = match resize.mode {
            ResizeMode::Nearest => "nearest",
            ResizeMode::Linear => "linear",
            ResizeMode::Cubic => "cubic",
        };
        let rounding = match resize.rounding.as_word() {
            "prefer_floor" => "round_prefer_floor",
            "prefer_ceil" => "round_prefer_ceil",
            word => word,
        };
        let attributes = [
            ("axes", Attribute::Ints(axes)),
            ("mode", Attribute::Text(mode)),
            (
                "coordinate_transformation_mode",
                Attribute::Text(resize.coordinates.as_word()),
            ),
            ("nearest_mode", Attribute::Text(rounding)),
            (
                "cubic_coeff_a",
                Attribute::Float(resize.cubic_coefficient as f32),
            ),
            (
                "exclude_outside",
                Attribute::Int(i64::from(resize.exclude_outside)),
            ),
            ("antialias", Attribute::Int(i64::from(resize.antialias))),
        ];
        self.node("Resize", &[x, "", "", &sizes], outputs, &attributes);
        Some(())
    }

    fn map(
        &mut self,
        function: Function,
        parameters: &[f64],
        inputs: &[&str],
        output: &str,
    ) -> Option<()> {
        match (function.name(), inputs) {
            ("square", &[x]) => self.node("Mul", &[x, x], &[output], &[]),
            ("silu", &[x]) => {
                let gate = self.fresh();
                self.node("Sigmoid", &[x], &[&gate], &[]);
                self.node("Mul", &[x, &gate], &[output], &[]);
            }
            ("rsqrt", &[x]) => {
                let root = self.fresh();
                self.node("Sqrt", &[x], &[&root], &[]);
                self.node("Reciprocal", &[&root], &[output], &[]);
            }
            (name, inputs) => {
                let (_, op_type) = FUNCTIONS.iter().find(|(own, _)| *own == name)?;
                let named = function.parameters().iter().zip(parameters);
                let attributes: Vec<(&str, Attribute<'_>)> = named
                    .map(|(parameter, &value)| (parameter.name, Attribute::Float(value as f32)))
                    .collect();
                self.node(op_type, inputs, &[output], &attributes);
            }
        }
        Some(())
    }
}

fn reduction(combine: Combine) -> &'static str {
    match combine {
        Combine::Set => "none",
        Combine::Add => "add",
        Combine::Mul => "mul",
        Combine::Min => "min",
        Combine::Max => "max",
    }
}

/// Functions with an operator of their own.
const FUNCTIONS: &[(&str, &str)] = &[
    ("abs", "Abs"),
    ("acos", "Acos"),
    ("acosh", "Acosh"),
    ("add", "Add"),
    ("and", "And"),
    ("asin", "Asin"),
    ("asinh", "Asinh"),
    ("atan", "Atan"),
    ("atanh", "Atanh"),
    ("ceil", "Ceil"),
    ("celu", "Celu"),
    ("clip", "Clip"),
    ("cos", "Cos"),
    ("cosh", "Cosh"),
    ("div", "Div"),
    ("elu", "Elu"),
    ("eq", "Equal"),
    ("erf", "Erf"),
    ("exp", "Exp"),
    ("floor", "Floor"),
    ("ge", "GreaterOrEqual"),
    ("gelu", "Gelu"),
    ("gt", "Greater"),
    ("hard_sigmoid", "HardSigmoid"),
    ("hard_swish", "HardSwish"),
    ("identity", "Identity"),
    ("is_inf", "IsInf"),
    ("is_nan", "IsNaN"),
    ("le", "LessOrEqual"),
    ("leaky_relu", "LeakyRelu"),
    ("log", "Log"),
    ("lt", "Less"),
    ("max", "Max"),
    ("min", "Min"),
    ("mish", "Mish"),
    ("mul", "Mul"),
    ("neg", "Neg"),
    ("not", "Not"),
    ("or", "Or"),
    ("pow", "Pow"),
    ("prelu", "PRelu"),
    ("reciprocal", "Reciprocal"),
    ("relu", "Relu"),
    ("round_even", "Round"),
    ("select", "Where"),
    ("selu", "Selu"),
    ("sigmoid", "Sigmoid"),
    ("sign", "Sign"),
    ("sin", "Sin"),
    ("sinh", "Sinh"),
    ("softplus", "Softplus"),
    ("softsign", "Softsign"),
    ("sqrt", "Sqrt"),
    ("sub", "Sub"),
    ("tan", "Tan"),
    ("tanh", "Tanh"),
    ("thresholded_relu", "ThresholdedRelu"),
    ("xor", "Xor"),
];
