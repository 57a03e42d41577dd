//! Attributes, read by name and type.
//!
//! An operator requests what it expects, `attributes.get_or("axis", -1_i64)?`; content of a different type is an error
//! that names node, attribute, and both types. Attributes that are not requested are ignored.

use kiln_tensor::Tensor;

use super::{ModelGraph, ModelNode, ModelTensor, ValueType};
use crate::{Error, Name};

/// A named attribute of a node.
#[derive(Clone, Debug)]
pub struct Attribute {
    /// The attribute's name.
    pub name: String,
    /// Its content.
    pub value: AttributeValue,
}

/// The content of an attribute.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AttributeValue {
    /// A number.
    Float(f32),
    /// An integer; also ONNX's representation of truth values.
    Int(i64),
    /// Text, or any bytes.
    String(Vec<u8>),
    /// A constant. A sparse one is dense here.
    Tensor(ModelTensor),
    /// The body of a control-flow operator.
    Graph(ModelGraph),
    /// A type.
    Type(ValueType),
    /// Numbers.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
    /// Texts.
    Strings(Vec<Vec<u8>>),
    /// Constants.
    Tensors(Vec<ModelTensor>),
    /// Bodies.
    Graphs(Vec<ModelGraph>),
    /// Types.
    Types(Vec<ValueType>),
    /// Inside a function: the caller's value of the function's attribute of this name.
    Reference(String),
}

impl AttributeValue {
    /// The name of the variant in ONNX's spelling, in lower case.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Float(_) => "float",
            Self::Int(_) => "int",
            Self::String(_) => "string",
            Self::Tensor(_) => "tensor",
            Self::Graph(_) => "graph",
            Self::Type(_) => "type",
            Self::Floats(_) => "floats",
            Self::Ints(_) => "ints",
            Self::Strings(_) => "strings",
            Self::Tensors(_) => "tensors",
            Self::Graphs(_) => "graphs",
            Self::Types(_) => "types",
            Self::Reference(_) => "reference to a function's attribute",
        }
    }
}

/// The attributes of one node.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    node: &'a ModelNode,
}

impl<'a> Attributes<'a> {
    pub(crate) fn new(node: &'a ModelNode) -> Self {
        Self { node }
    }

    /// All of them, in the model's order.
    pub fn iter(self) -> impl Iterator<Item = &'a Attribute> {
        self.node.attributes.iter()
    }

    /// The unconverted attribute, if the node has it.
    pub fn value(self, name: &str) -> Option<&'a AttributeValue> {
        self.iter()
            .find(|attribute| attribute.name == name)
            .map(|attribute| &attribute.value)
    }

    /// The attribute as a `T`, if the node has it.
    ///
    /// # Errors
    /// [`Error::AttributeType`] when it has a different type, and errors of reading a tensor.
    pub fn get<T: FromAttribute<'a>>(self, name: &str) -> Result<Option<T>, Error> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        match T::from_attribute(value)? {
            Some(content) => Ok(Some(content)),
            None => Err(Error::AttributeType {
                node: self.node.path(),
                attribute: Name::from(name),
                expected: T::EXPECTED,
                found: value.kind(),
            }),
        }
    }

    /// The attribute as a `T`, or `default`.
    ///
    /// # Errors
    /// As [`Attributes::get`].
    pub fn get_or<T: FromAttribute<'a>>(self, name: &str, default: T) -> Result<T, Error> {
        Ok(self.get(name)?.unwrap_or(default))
    }

    /// The attribute as a `T`.
    ///
    /// # Errors
    /// [`Error::MissingAttribute`] when the node does not have it, otherwise as [`Attributes::get`].
    pub fn require<T: FromAttribute<'a>>(self, name: &str) -> Result<T, Error> {
        self.get(name)?.ok_or_else(|| Error::MissingAttribute {
            node: self.node.path(),
            attribute: Name::from(name),
            expected: T::EXPECTED,
        })
    }
}

/// A Rust type as which an attribute can be read.
pub trait FromAttribute<'a>: Sized {
    /// The expected content, for messages.
    const EXPECTED: &'static str;

    /// The content, or `None` when it is of a different type.
    ///
    /// # Errors
    /// When the content is of the right type but cannot be used.
    fn from_attribute(value: &'a AttributeValue) -> Result<Option<Self>, Error>;
}

macro_rules! read_attribute_as {
    ($($target:ty, $expected:literal, $pattern:pat => $content:expr;)*) => {$(
        impl<'a> FromAttribute<'a> for $target {
            const EXPECTED: &'static str = $expected;

            fn from_attribute(value: &'a AttributeValue) -> Result<Option<Self>, Error> {
                match value {
                    $pattern => $content,
                    _ => Ok(None),
                }
            }
        }
    )*};
}

read_attribute_as! {
    i64, "int", AttributeValue::Int(value) => Ok(Some(*value));
    bool, "int that is 0 or 1", AttributeValue::Int(value @ (0 | 1)) => Ok(Some(*value == 1));
    f32, "float", AttributeValue::Float(value) => Ok(Some(*value));
    &'a str, "string in UTF-8", AttributeValue::String(bytes) => Ok(std::str::from_utf8(bytes).ok());
    &'a [u8], "string", AttributeValue::String(bytes) => Ok(Some(bytes));
    &'a [i64], "ints", AttributeValue::Ints(values) => Ok(Some(values));
    &'a [f32], "floats", AttributeValue::Floats(values) => Ok(Some(values));
    &'a [Vec<u8>], "strings", AttributeValue::Strings(values) => Ok(Some(values));
    &'a Tensor, "tensor", AttributeValue::Tensor(value) => value.tensor().map(Some);
    &'a ModelTensor, "tensor", AttributeValue::Tensor(value) => Ok(Some(value));
    &'a ModelGraph, "graph", AttributeValue::Graph(value) => Ok(Some(value));
    &'a ValueType, "type", AttributeValue::Type(value) => Ok(Some(value));
}
