//! Reads a graph from text.
//!
//! This reader requires a type on every result; one that fills in omitted types passes [`read_with`] another
//! [`ResultTypes`]. It stops at the first error, and returns only graphs that the verifier accepts. Nothing recurses:
//! regions nest to [`REGION_DEPTH_LIMIT`] in a list of open ops.

use super::elements::{ElementsError, tensor_of_words};
use super::input::Input;
use super::limits::ReadLimits;
use super::read_attributes;
use super::read_header;
use crate::constant::{BlobMap, Constant};
use crate::graph::{Graph, NewOp, REGION_DEPTH_LIMIT};
use crate::ids::{OpId, RegionId, ValueId};
use crate::op::Op;
use crate::ty::{TYPE_DEPTH_LIMIT, TensorType, Type};
use crate::verify::verify;
use kiln_symbolic_shape::text::{Diagnostic, Diagnostics, Span, TokenKind};
use kiln_symbolic_shape::{DimTable, SymbolId};
use kiln_tensor::{DType, Tensor};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// Determines the result types of ops while a graph is read.
pub trait ResultTypes {
    /// The types of the results of the op that `new` describes, as many as it has `annotated`.
    ///
    /// # Errors
    /// A message about the op; the reader adds the place.
    fn result_types(
        &mut self,
        graph: &mut Graph,
        new: &NewResults<'_>,
    ) -> Result<SmallVec<[Type; 1]>, String>;

    /// Records that the op is now in the graph.
    fn appended(&mut self, _graph: &Graph, _op: OpId) {}
}

/// An op that is about to be added: everything but its result types.
#[derive(Debug)]
pub struct NewResults<'a> {
    /// The operation.
    pub op: &'a Op,
    /// Its operands.
    pub operands: &'a [ValueId],
    /// Its regions, complete.
    pub regions: &'a [RegionId],
    /// The symbols it defines.
    pub symbols: &'a [SymbolId],
    /// The types in the text, if any.
    pub annotated: &'a [Option<Type>],
    /// The number of enclosing regions; 0 in the body.
    pub depth: usize,
    /// The source node from which it came.
    pub origin: Option<&'a str>,
}

/// The types are those in the text, all of which must be present.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnnotatedTypes;

impl ResultTypes for AnnotatedTypes {
    fn result_types(
        &mut self,
        _graph: &mut Graph,
        new: &NewResults<'_>,
    ) -> Result<SmallVec<[Type; 1]>, String> {
        let missing = || {
            "expected a type on every result; read with shape inference to fill types in".to_owned()
        };
        new.annotated
            .iter()
            .cloned()
            .collect::<Option<_>>()
            .ok_or_else(missing)
    }
}

/// Reads a graph whose results all have types; large constants come from `blobs`.
///
/// # Errors
/// E01xx for the text, E02xx when the verifier rejects the graph.
pub fn read(text: &str, blobs: &BlobMap) -> Result<Graph, Diagnostics> {
    read_with(text, blobs, &mut AnnotatedTypes)
}

/// Reads a graph, with result types from `types`.
///
/// # Errors
/// E01xx for the text, E02xx when the verifier rejects the graph.
pub fn read_with(
    text: &str,
    blobs: &BlobMap,
    types: &mut dyn ResultTypes,
) -> Result<Graph, Diagnostics> {
    read_within(text, blobs, types, &ReadLimits::default())
}

/// As [`read_with`], with limits other than the defaults.
///
/// # Errors
/// E0134 when the text is too long; as [`read_with`].
pub fn read_within(
    text: &str,
    blobs: &BlobMap,
    types: &mut dyn ResultTypes,
    limits: &ReadLimits,
) -> Result<Graph, Diagnostics> {
    let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
    limits.text.check_bytes(bytes)?;
    let dims = DimTable::with_limits(limits.dims.clone());
    let graph = Reader::read(text, blobs, types, dims).map_err(Diagnostics::from)?;
    verify(&graph).map_err(|errors| {
        let mut diagnostics = Diagnostics::new();
        for error in errors.errors() {
            diagnostics.push(Diagnostic::new(error.kind.code(), error.to_string(), None));
        }
        diagnostics
    })?;
    Ok(graph)
}

pub(super) struct Reader<'a> {
    pub(super) input: Input<'a>,
    pub(super) graph: Graph,
    blobs: &'a BlobMap,
    types: &'a mut dyn ResultTypes,
    /// The values of the regions being read, innermost last. A region sees only its own.
    scopes: Vec<HashMap<String, ValueId>>,
    /// A placeholder for tensors until attributes are read.
    placeholder: Constant,
}

/// A region's output: its output name, its name in the text, the value.
type Returned = (Option<String>, String, ValueId);

/// An op whose regions are still to be read.
struct OpenOp {
    /// The region that contains it.
    into: RegionId,
    /// The position of its mnemonic.
    start: Span,
    results: Vec<(String, Option<Type>)>,
    op: Op,
    operands: SmallVec<[ValueId; 4]>,
    symbols: SmallVec<[SymbolId; 2]>,
    regions: SmallVec<[RegionId; 2]>,
}

pub(super) type Read<T> = Result<T, Diagnostic>;

impl<'a> Reader<'a> {
    fn read(
        text: &'a str,
        blobs: &'a BlobMap,
        types: &'a mut dyn ResultTypes,
        dims: DimTable,
    ) -> Read<Graph> {
        let placeholder = Tensor::zeros(DType::Bool, &[]).and_then(Constant::new);
        let placeholder =
            placeholder.map_err(|error| Diagnostic::new("E0117", error.to_string(), None))?;
        let mut reader = Self {
            input: Input::new(text),
            graph: Graph::with_dims("main", dims),
            blobs,
            types,
            scopes: vec![HashMap::new()],
            placeholder,
        };
        let declared = read_header::read(&mut reader)?;
        let outputs = reader.body()?;
        reader.check_outputs(&declared, &outputs)?;
        reader.input.expect_end()?;
        Ok(reader.graph)
    }

    fn check_outputs(&mut self, declared: &[Type], outputs: &[Returned]) -> Read<()> {
        if declared.len() != outputs.len() {
            let (expected, found) = (declared.len(), outputs.len());
            return Err(self.input.error(
                "E0113",
                format!("expected {expected} outputs as the header says, found {found}"),
            ));
        }
        for (ty, (_, _, value)) in declared.iter().zip(outputs) {
            if ty != self.graph.ty(*value) {
                let expected = ty.display(self.graph.dims()).to_string();
                let found = self.graph.ty(*value).display(self.graph.dims()).to_string();
                let message = format!(
                    "expected an output of type {expected} as the header says, found {found}"
                );
                return Err(self.input.error("E0113", message));
            }
        }
        let named = outputs
            .iter()
            .map(|(name, text_name, value)| (name.as_ref().unwrap_or(text_name), *value));
        self.graph.set_outputs(named);
        Ok(())
    }

    /// Reads the body with everything nested in it; returns its outputs.
    ///
    /// Regions nest, but this function does not recurse: an op whose regions are being read waits in a list.
    fn body(&mut self) -> Read<Vec<Returned>> {
        let mut region = self.graph.body();
        let mut waiting: Vec<OpenOp> = Vec::new();
        self.input.expect(&TokenKind::OpenBrace)?;
        loop {
            let last = if waiting.is_empty() {
                "return"
            } else {
                "yield"
            };
            let op = if self.input.accept_word(last) {
                let results = self.region_results(region)?;
                let Some(mut outer) = waiting.pop() else {
                    return Ok(results);
                };
                self.scopes.pop();
                outer.regions.push(region);
                region = outer.into;
                outer
            } else {
                self.op(region)?
            };
            if self.input.accept_word("region") {
                region = self.region_header()?;
                self.input.expect(&TokenKind::OpenBrace)?;
                waiting.push(op);
            } else {
                self.finish_op(op)?;
            }
        }
    }

    /// A region's results, to its closing brace.
    fn region_results(&mut self, region: RegionId) -> Read<Vec<Returned>> {
        let mut results = Vec::new();
        if !self.input.at(&TokenKind::CloseBrace) {
            loop {
                let name = self.input.accept_string()?;
                if name.is_some() {
                    self.input.expect(&TokenKind::Equal)?;
                }
                let (text_name, value) = self.operand()?;
                results.push((name, text_name, value));
                if !self.input.accept(&TokenKind::Comma) {
                    break;
                }
            }
        }
        self.input.expect(&TokenKind::CloseBrace)?;
        self.graph
            .set_results(region, results.iter().map(|&(_, _, value)| value));
        Ok(results)
    }

    /// An op up to its regions.
    fn op(&mut self, into: RegionId) -> Read<OpenOp> {
        let results = self.result_list()?;
        let start = self.input.span();
        let mnemonic = self.input.identifier("the name of an op")?;
        let mut operands: SmallVec<[ValueId; 4]> = SmallVec::new();
        if self.input.at_value() {
            loop {
                operands.push(self.operand()?.1);
                if !self.input.accept(&TokenKind::Comma) {
                    break;
                }
            }
        }
        let out = operands
            .first()
            .and_then(|&value| self.graph.tensor_ty(value))
            .map_or(DType::F32, |ty| ty.dtype);
        let filler = self.graph.dims_mut().constant(0);
        let mut op =
            Op::of_mnemonic(&mnemonic, filler, &self.placeholder, out).ok_or_else(|| {
                self.input
                    .error_at(start, "E0111", format!("unknown op {mnemonic}"))
            })?;
        if let Op::Constant(constant) = &mut op {
            let ty = results
                .first()
                .and_then(|(_, ty)| ty.as_ref())
                .and_then(Type::as_tensor);
            *constant = self.constant(ty)?;
        } else {
            read_attributes::read(&mut self.input, self.graph.dims_mut(), &mut op)?;
        }
        let symbols: SmallVec<[SymbolId; 2]> = if self.input.at(&TokenKind::Arrow) {
            self.symbol_list()?
        } else {
            SmallVec::new()
        };
        Ok(OpenOp {
            into,
            start,
            results,
            op,
            operands,
            symbols,
            regions: SmallVec::new(),
        })
    }

    /// The part of an op after its regions.
    fn finish_op(&mut self, open: OpenOp) -> Read<()> {
        let OpenOp {
            into,
            start,
            results,
            op,
            operands,
            symbols,
            regions,
        } = open;
        let origin: Option<Arc<str>> = match self.input.accept_word("from") {
            true => Some(self.input.string()?.into()),
            false => None,
        };
        let (names, annotated): (Vec<String>, Vec<Option<Type>>) = results.into_iter().unzip();
        let new = NewResults {
            op: &op,
            operands: &operands,
            regions: &regions,
            symbols: &symbols,
            annotated: &annotated,
            depth: self.scopes.len() - 1,
            origin: origin.as_deref(),
        };
        let result_types = self.types.result_types(&mut self.graph, &new);
        let result_types =
            result_types.map_err(|message| self.input.error_at(start, "E0112", message))?;
        let id = self.graph.append(
            into,
            NewOp {
                op,
                operands,
                result_types,
                regions,
                symbols,
                origin,
            },
        );
        let values = self.graph.op(id).results.clone();
        if values.len() != names.len() {
            let message = format!("expected {} results, found {}", values.len(), names.len());
            return Err(self.input.error_at(start, "E0114", message));
        }
        for (name, &value) in names.iter().zip(&values) {
            self.define(name, value)?;
        }
        self.types.appended(&self.graph, id);
        Ok(())
    }

    /// `%a: f32[B], %b = ` or nothing.
    fn result_list(&mut self) -> Read<Vec<(String, Option<Type>)>> {
        let mut results = Vec::new();
        if self.input.at_value() {
            loop {
                let name = self.input.value_name()?;
                let ty = if self.input.accept(&TokenKind::Colon) {
                    Some(self.ty()?)
                } else {
                    None
                };
                results.push((name, ty));
                if !self.input.accept(&TokenKind::Comma) {
                    break;
                }
            }
            self.input.expect(&TokenKind::Equal)?;
        }
        Ok(results)
    }

    /// A region up to its ops.
    fn region_header(&mut self) -> Read<RegionId> {
        if self.scopes.len() > REGION_DEPTH_LIMIT {
            let message = format!("regions nest deeper than the limit of {REGION_DEPTH_LIMIT}");
            return Err(self.input.error("E0116", message));
        }
        let region = self.graph.add_region();
        self.scopes.push(HashMap::new());
        self.input.expect(&TokenKind::OpenParen)?;
        while !self.input.at(&TokenKind::CloseParen) {
            let name = self.input.value_name()?;
            self.input.expect(&TokenKind::Colon)?;
            let ty = self.ty()?;
            let value = self.graph.add_parameter(region, ty);
            self.define(&name, value)?;
            if !self.input.accept(&TokenKind::Comma) {
                break;
            }
        }
        self.input.expect(&TokenKind::CloseParen)?;
        if self.input.at(&TokenKind::Arrow) {
            for symbol in self.symbol_list()? {
                self.graph.add_region_symbol(region, symbol);
            }
        }
        Ok(region)
    }

    /// `-> (n0, n1)`.
    fn symbol_list(&mut self) -> Read<SmallVec<[SymbolId; 2]>> {
        self.input.expect(&TokenKind::Arrow)?;
        self.input.expect(&TokenKind::OpenParen)?;
        let mut symbols = SmallVec::new();
        while !self.input.at(&TokenKind::CloseParen) {
            let name = self.input.identifier("the name of a symbol")?;
            let dims = self.graph.dims_mut();
            let declared = dims.symbol(&name).map(|_| dims.symbol_named(&name));
            match declared {
                Ok(Some(symbol)) => symbols.push(symbol),
                Ok(None) => {
                    return Err(self
                        .input
                        .error("E0115", format!("cannot declare symbol {name}")));
                }
                Err(error) => return Err(self.input.error(error.code(), error.to_string())),
            }
            if !self.input.accept(&TokenKind::Comma) {
                break;
            }
        }
        self.input.expect(&TokenKind::CloseParen)?;
        Ok(symbols)
    }

    /// The elements or the digest of a constant of type `ty`.
    fn constant(&mut self, ty: Option<&TensorType>) -> Read<Constant> {
        let start = self.input.span();
        if let Some(text) = self.input.accept_string()? {
            let digest = text.parse().map_err(|error: crate::ParseDigestError| {
                self.input.error_at(start, "E0118", error.to_string())
            })?;
            return self.blobs.get(digest).cloned().ok_or_else(|| {
                let message =
                    format!("the blob map given with the text has no constant of digest {digest}");
                self.input.error_at(start, "E0118", message)
            });
        }
        self.input.expect(&TokenKind::OpenBracket)?;
        let mut words = Vec::new();
        while !self.input.at(&TokenKind::CloseBracket) {
            words.push(self.input.element()?);
            if !self.input.accept(&TokenKind::Comma) {
                break;
            }
        }
        self.input.expect(&TokenKind::CloseBracket)?;
        let Some(ty) = ty else {
            return Err(self.input.error_at(
                start,
                "E0117",
                "expected a type on the result of a constant".to_owned(),
            ));
        };
        let sizes = ty.dims.iter().map(|&dim| {
            self.graph
                .dims()
                .as_constant(dim)
                .and_then(|size| usize::try_from(size).ok())
        });
        let Some(shape) = sizes.collect::<Option<Vec<usize>>>() else {
            return Err(self.input.error_at(
                start,
                "E0117",
                "expected a constant of known sizes".to_owned(),
            ));
        };
        tensor_of_words(ty.dtype, &shape, &words)
            .and_then(|tensor| Constant::new(tensor).map_err(ElementsError::Tensor))
            .map_err(|error| {
                let message = match error {
                    ElementsError::Word(word) => {
                        format!("expected an element of {}, found {word}", ty.dtype)
                    }
                    ElementsError::Dtype => format!("{} has no text for its elements", ty.dtype),
                    ElementsError::Tensor(error) => error.to_string(),
                };
                self.input.error_at(start, "E0117", message)
            })
    }

    /// `f32[B, 128]`, `seq<..>`, `optional<..>`.
    pub(super) fn ty(&mut self) -> Read<Type> {
        let mut wrappers = Vec::new();
        let inner = loop {
            let start = self.input.span();
            let word = self.input.identifier("a type")?;
            match word.as_str() {
                "seq" | "optional" => {
                    wrappers.push(word == "seq");
                    self.input.expect(&TokenKind::Less)?;
                    if wrappers.len() > TYPE_DEPTH_LIMIT {
                        let message =
                            format!("types nest deeper than the limit of {TYPE_DEPTH_LIMIT}");
                        return Err(self.input.error_at(start, "E0116", message));
                    }
                }
                name => match name.parse::<DType>() {
                    Ok(dtype) => break dtype,
                    Err(error) => {
                        return Err(self.input.error_at(start, "E0119", error.to_string()));
                    }
                },
            }
        };
        let dims = self.input.dim_list(self.graph.dims_mut())?;
        let mut ty = Type::Tensor(TensorType { dtype: inner, dims });
        for is_sequence in wrappers.into_iter().rev() {
            self.input.expect(&TokenKind::Greater)?;
            ty = if is_sequence {
                Type::Sequence(Box::new(ty))
            } else {
                Type::Optional(Box::new(ty))
            };
        }
        Ok(ty)
    }

    /// A value that is read: its name in the text, and its id.
    fn operand(&mut self) -> Read<(String, ValueId)> {
        let start = self.input.span();
        let name = self.input.value_name()?;
        match self.scopes.last().and_then(|scope| scope.get(&name)) {
            Some(&value) => Ok((name, value)),
            None => {
                let message = format!("%{name} is not defined before this point in this region");
                Err(self.input.error_at(start, "E0120", message))
            }
        }
    }

    /// Binds a value to its name; a number is not stored as a name.
    pub(super) fn define(&mut self, name: &str, value: ValueId) -> Read<()> {
        if !name.starts_with(|first: char| first.is_ascii_digit())
            && self.graph.value(value).name.is_none()
        {
            self.graph.set_value_name(value, Some(name));
        }
        match self
            .scopes
            .last_mut()
            .and_then(|scope| scope.insert(name.to_owned(), value))
        {
            None => Ok(()),
            Some(_) => Err(self
                .input
                .error("E0121", format!("%{name} is defined twice in this region"))),
        }
    }
}
