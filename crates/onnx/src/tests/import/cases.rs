//! One node per case, read from text files: its operands, and its expected results.
//!
//! ```text
//! # a comment
//! Clip:13 attribute=1 other=[1,2] third=1.5 fourth="text" fifth={f32[1] 2}
//!   x f32[2,2] 1 2 3 4      an input, with symbolic sizes and again with known ones
//!   c f32[] 1.5             a constant
//!   k i64[2] 1 2            an input that always has known sizes
//!   -                       left out
//!   = f32[2,2] 1.5 2 3 4    the result; `= _` is not checked
//!   ! E0917                 or the code of the error
//! ```
//! An operator of another domain is written `domain::Op`; its version is then ignored. `!` after the version means
//! known sizes only. Results come from ONNX's reference evaluator, or are written by hand where a comment says so.

use kiln_tensor::{DType, Tensor, bf16, f16};

use super::net::{
    float, floats, graph, imported, initializer, input, int, ints, node, of_version, run, text,
};
use crate::proto::{AttributeProto, ModelProto};
use crate::tests::build::attribute;
use crate::{Error, ImportOptions};

/// Declares a test per file.
macro_rules! case_files {
    ($($name:ident),+ $(,)?) => {$(
        #[test]
        fn $name() {
            check_file(stringify!($name), include_str!(concat!("cases/", stringify!($name), ".txt")));
        }
    )+

    /// The text of every file.
    const FILES: &[&str] = &[$(include_str!(concat!("cases/", stringify!($name), ".txt"))),+];
    };
}

case_files!(
    activation,
    attention,
    cast,
    classic,
    constant,
    contrib,
    conv,
    differences,
    einsum,
    fourier,
    elementwise,
    gather,
    linear_attention,
    logic,
    loss,
    matmul,
    movement,
    norm,
    pad,
    picture,
    pool,
    quantize,
    range_fill,
    recurrent,
    reduce,
    reshape,
    resize,
    scatter,
    sets,
    signal,
    slice,
    softmax,
);

/// One case.
struct Case {
    title: String,
    op_type: String,
    version: i64,
    known_sizes_only: bool,
    attributes: Vec<AttributeProto>,
    operands: Vec<CaseOperand>,
    expected: Expected,
}

enum CaseOperand {
    Input(Tensor),
    InputOfKnownSizes(Tensor),
    Constant(Tensor),
    Absent,
}

enum Expected {
    Results(Vec<Option<Tensor>>),
    Error(String),
}

/// The model of every case, with known sizes, and the title of the case.
pub(super) fn all_models() -> impl Iterator<Item = (String, ModelProto)> {
    let cases = FILES.iter().flat_map(|content| parse(content));
    cases.map(|case| (case.title.clone(), case.model(false)))
}

fn check_file(name: &str, content: &str) {
    let cases = parse(content);
    assert!(!cases.is_empty(), "{name} has cases");
    let failed: Vec<String> = cases.iter().filter_map(|case| check(case).err()).collect();
    assert!(
        failed.is_empty(),
        "{} of {} failed:\n{}",
        failed.len(),
        cases.len(),
        failed.join("\n")
    );
}

fn check(case: &Case) -> Result<(), String> {
    for symbolic in [true, false] {
        if symbolic && case.known_sizes_only {
            continue;
        }
        let sizes = if symbolic { "symbolic" } else { "known" };
        let model = case.model(symbolic);
        let result = imported(&model, &ImportOptions::new());
        check_result(case, result)
            .map_err(|what| format!("{} ({sizes} sizes): {what}", case.title))?;
    }
    Ok(())
}

fn check_result(case: &Case, result: Result<kiln_ir::Graph, Error>) -> Result<(), String> {
    let graph = match (result, &case.expected) {
        (Ok(graph), Expected::Results(_)) => graph,
        (Err(error), Expected::Error(code)) if error.code() == code => return Ok(()),
        (Ok(_), Expected::Error(code)) => return Err(format!("expected error {code}, found none")),
        (Err(error), _) => return Err(format!("{}: {error}", error.code())),
    };
    let Expected::Results(expected) = &case.expected else {
        unreachable!()
    };
    let inputs: Vec<Tensor> = case
        .operands
        .iter()
        .filter_map(|operand| match operand {
            CaseOperand::Input(tensor) | CaseOperand::InputOfKnownSizes(tensor) => {
                Some(tensor.clone())
            }
            _ => None,
        })
        .collect();
    let found = run(&graph, &inputs);
    let wanted: Vec<&Tensor> = expected.iter().flatten().collect();
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        compare(found, wanted)?;
    }
    Ok(())
}

fn compare(found: &Tensor, wanted: &Tensor) -> Result<(), String> {
    if found.dtype() != wanted.dtype() || found.shape() != wanted.shape() {
        let describe = |tensor: &Tensor| format!("{}{:?}", tensor.dtype(), tensor.shape());
        return Err(format!(
            "expected {}, found {}",
            describe(wanted),
            describe(found)
        ));
    }
    let tolerance = match wanted.dtype() {
        DType::F16 => 2e-3,
        DType::BF16 => 2e-2,
        dtype if dtype.is_float() => 2e-6,
        _ => 0.0,
    };
    let (found, wanted) = (found.to_f64_vec().unwrap(), wanted.to_f64_vec().unwrap());
    let close = |(found, wanted): (&f64, &f64)| {
        found == wanted
            || (found.is_nan() && wanted.is_nan())
            || (found - wanted).abs() <= tolerance * (1.0 + wanted.abs())
    };
    if found.iter().zip(&wanted).all(close) {
        Ok(())
    } else {
        Err(format!("expected {wanted:?}, found {found:?}"))
    }
}

impl Case {
    fn model(&self, symbolic: bool) -> ModelProto {
        let (mut inputs, mut constants, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (index, operand) in self.operands.iter().enumerate() {
            let name = format!("x{index}");
            match operand {
                CaseOperand::Input(tensor) | CaseOperand::InputOfKnownSizes(tensor) => {
                    let symbolic = symbolic && matches!(operand, CaseOperand::Input(_));
                    let dims = tensor.shape().iter().enumerate().map(|(axis, size)| {
                        if symbolic {
                            format!("d{index}.{axis}")
                        } else {
                            size.to_string()
                        }
                    });
                    let dims: Vec<String> = dims.collect();
                    let dims: Vec<&str> = dims.iter().map(String::as_str).collect();
                    inputs.push(input(&name, tensor.dtype(), &dims));
                    names.push(name);
                }
                CaseOperand::Constant(tensor) => {
                    constants.push(initializer(&name, tensor));
                    names.push(name);
                }
                CaseOperand::Absent => names.push("-".to_owned()),
            }
        }
        let results = match &self.expected {
            Expected::Results(results) => {
                let name = |(index, result): (usize, &Option<Tensor>)| match result {
                    Some(_) => format!("y{index}"),
                    None => "-".to_owned(),
                };
                results.iter().enumerate().map(name).collect()
            }
            Expected::Error(_) => vec!["y0".to_owned()],
        };
        let (domain, op_type) = self.op_type.split_once("::").unwrap_or(("", &self.op_type));
        let mut node = node(
            op_type,
            &names.join(" "),
            &results.join(" "),
            self.attributes.clone(),
        );
        node.domain = domain.to_owned();
        let outputs: Vec<&str> = results
            .iter()
            .map(String::as_str)
            .filter(|name| *name != "-")
            .collect();
        of_version(graph(inputs, constants, vec![node], &outputs), self.version)
    }
}

fn parse(content: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in content.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        if !line.starts_with(' ') {
            cases.push(parse_header(trimmed));
            continue;
        }
        let case = cases.last_mut().expect("a header comes first");
        let (mark, rest) = trimmed.split_once(' ').unwrap_or((trimmed, ""));
        match mark {
            "x" => case.operands.push(CaseOperand::Input(parse_tensor(rest))),
            "k" => case
                .operands
                .push(CaseOperand::InputOfKnownSizes(parse_tensor(rest))),
            "c" => case
                .operands
                .push(CaseOperand::Constant(parse_tensor(rest))),
            "-" => case.operands.push(CaseOperand::Absent),
            "!" => case.expected = Expected::Error(rest.to_owned()),
            "=" => match &mut case.expected {
                Expected::Results(results) if rest == "_" => results.push(None),
                Expected::Results(results) => results.push(Some(parse_tensor(rest))),
                Expected::Error(_) => panic!("{line}: an error has no results"),
            },
            _ => panic!("unknown mark in {line}"),
        }
    }
    cases
}

fn parse_header(line: &str) -> Case {
    let (head, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (op_type, version) = head.rsplit_once(':').expect("Op:version");
    let known_sizes_only = version.ends_with('!');
    Case {
        title: line.to_owned(),
        op_type: op_type.to_owned(),
        version: version.trim_end_matches('!').parse().expect("a version"),
        known_sizes_only,
        attributes: parse_attributes(rest),
        operands: Vec::new(),
        expected: Expected::Results(Vec::new()),
    }
}

/// `name=value` pairs; a value in quotes, brackets or braces may contain spaces.
fn parse_attributes(mut rest: &str) -> Vec<AttributeProto> {
    let mut attributes = Vec::new();
    while let Some((name, after)) = rest.trim_start().split_once('=') {
        let close = match after.chars().next() {
            Some('"') => after[1..].find('"').map(|at| at + 2),
            Some('[') => after.find(']').map(|at| at + 1),
            Some('{') => after.find('}').map(|at| at + 1),
            _ => Some(after.find(' ').unwrap_or(after.len())),
        };
        let (value, after) = after.split_at(close.expect("a closed value"));
        attributes.push(parse_attribute(name, value));
        rest = after;
    }
    attributes
}

fn parse_attribute(name: &str, value: &str) -> AttributeProto {
    let inner = || &value[1..value.len() - 1];
    match value.chars().next() {
        Some('"') => text(name, inner()),
        Some('{') => AttributeProto {
            t: Some(Box::new(initializer("", &parse_tensor(inner())))),
            ..attribute(name, 4)
        },
        Some('[') if inner().contains('"') => {
            let texts = inner()
                .split(',')
                .map(|text| text.trim().trim_matches('"').to_owned().into_bytes().into());
            AttributeProto {
                strings: texts.collect(),
                ..attribute(name, 8)
            }
        }
        Some('[') if inner().contains('.') => floats(name, &parse_list(inner())),
        Some('[') => ints(name, &parse_list(inner())),
        _ => match value.parse() {
            Ok(value) => int(name, value),
            Err(_) => float(name, value.parse().expect("a number")),
        },
    }
}

fn parse_list<T: std::str::FromStr>(text: &str) -> Vec<T> {
    let entries = text.split([',', ' ']).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| entry.parse().ok().expect("a number"))
        .collect()
}

fn parse_tensor(text: &str) -> Tensor {
    let (head, elements) = text.split_once(']').expect("dtype[sizes] elements");
    let (dtype, sizes) = head.split_once('[').expect("dtype[sizes]");
    let shape: Vec<usize> = parse_list(sizes);
    match dtype.parse().expect("a dtype") {
        DType::Bool => Tensor::from_vec(
            &shape,
            parse_list::<u8>(elements)
                .into_iter()
                .map(|bit| bit == 1)
                .collect(),
        ),
        DType::F16 => Tensor::from_vec(
            &shape,
            parse_list::<f32>(elements)
                .into_iter()
                .map(f16::from_f32)
                .collect(),
        ),
        DType::BF16 => Tensor::from_vec(
            &shape,
            parse_list::<f32>(elements)
                .into_iter()
                .map(bf16::from_f32)
                .collect(),
        ),
        DType::F64 => Tensor::from_vec(&shape, parse_list::<f64>(elements)),
        DType::F32 => Tensor::from_vec(&shape, parse_list::<f32>(elements)),
        DType::I64 => Tensor::from_vec(&shape, parse_list::<i64>(elements)),
        DType::I32 => Tensor::from_vec(&shape, parse_list::<i32>(elements)),
        DType::I16 => Tensor::from_vec(&shape, parse_list::<i16>(elements)),
        DType::I8 => Tensor::from_vec(&shape, parse_list::<i8>(elements)),
        DType::U64 => Tensor::from_vec(&shape, parse_list::<u64>(elements)),
        DType::U32 => Tensor::from_vec(&shape, parse_list::<u32>(elements)),
        DType::U16 => Tensor::from_vec(&shape, parse_list::<u16>(elements)),
        DType::U8 => Tensor::from_vec(&shape, parse_list::<u8>(elements)),
        other => panic!("no tensors of {other}"),
    }
    .expect("as many elements as the sizes say")
}
