//! The declared types of inputs and outputs.

use std::fmt;

use super::ElementType;
use crate::Name;

/// The name and declared type of a graph's input or output.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueInfo {
    /// The value's name, as the graph's nodes use it.
    pub name: String,
    /// Its type; `None` where the model does not state it, which is allowed in bodies of control flow.
    pub ty: Option<ValueType>,
}

/// A declared type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ValueType {
    /// A tensor.
    Tensor {
        /// The type of its elements.
        element: ElementType,
        /// Its sizes; `None` if even the rank is unknown.
        shape: Option<Vec<Dim>>,
    },
    /// A sequence of values of one type.
    Sequence(Box<ValueType>),
    /// A value or nothing.
    Optional(Box<ValueType>),
    /// An unsupported type: `map`, `sparse_tensor`, `opaque`, or a type without content.
    Unsupported(&'static str),
}

/// A declared size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dim {
    /// A number.
    Known(usize),
    /// A name; equal names are equal sizes throughout the model.
    Named(String),
    /// Unknown and unnamed: equal to no other size. Written as nothing, an empty name, `?`, or a
    /// negative number.
    Anonymous,
}

impl fmt::Display for ValueType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut inner, mut closing) = (self, 0_usize);
        loop {
            match inner {
                Self::Sequence(element) => (inner, closing) = (element, closing + 1),
                Self::Optional(element) => {
                    formatter.write_str("optional<")?;
                    (inner, closing) = (element, closing + 1);
                    continue;
                }
                Self::Unsupported(what) => {
                    formatter.write_str(what)?;
                    break;
                }
                Self::Tensor {
                    element,
                    shape: None,
                } => {
                    write!(formatter, "{element}[..]")?;
                    break;
                }
                Self::Tensor {
                    element,
                    shape: Some(shape),
                } => {
                    write!(formatter, "{element}[")?;
                    for (axis, dim) in shape.iter().enumerate() {
                        write!(formatter, "{}{dim}", if axis == 0 { "" } else { ", " })?;
                    }
                    formatter.write_str("]")?;
                    break;
                }
            }
            formatter.write_str("sequence<")?;
        }
        (0..closing).try_for_each(|_| formatter.write_str(">"))
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(size) => write!(formatter, "{size}"),
            Self::Named(name) if is_plain(name) => formatter.write_str(name),
            Self::Named(name) => write!(formatter, "{}", Name::from(name.as_str())),
            Self::Anonymous => formatter.write_str("?"),
        }
    }
}

fn is_plain(name: &str) -> bool {
    name.len() <= 96
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use kiln_tensor::DType;

    use super::*;

    #[test]
    fn types_print_as_the_text_format_would() {
        let element = ElementType::Supported(DType::F32);
        let shape = vec![
            Dim::Named("batch".into()),
            Dim::Known(3),
            Dim::Anonymous,
            Dim::Named("a b\n".into()),
        ];
        let tensor = ValueType::Tensor {
            element,
            shape: Some(shape),
        };
        assert_eq!(tensor.to_string(), r#"f32[batch, 3, ?, "a b\n"]"#);
        let unranked = ValueType::Tensor {
            element,
            shape: None,
        };
        let nested = ValueType::Optional(Box::new(ValueType::Sequence(Box::new(unranked))));
        assert_eq!(nested.to_string(), "optional<sequence<f32[..]>>");
        assert_eq!(
            ValueType::Sequence(Box::new(ValueType::Unsupported("map"))).to_string(),
            "sequence<map>"
        );
    }
}
