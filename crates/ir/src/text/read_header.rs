//! Reads a graph's header: its name, inputs, output types, and facts about sizes.

use super::read::{Read, Reader};
use crate::ty::Type;
use kiln_symbolic_shape::text::{TokenKind, parse_dim, parse_predicate, parse_where};
use kiln_symbolic_shape::{ContractFact, FactOrigin, Hint, PlanFact};

/// The words that start a clause.
const CLAUSES: &[&str] = &["let", "where", "requires", "plan", "likely", "meta"];

/// Reads up to the body; returns the declared output types.
///
/// The clauses declare symbols that the types before them use, so they are read first.
pub(super) fn read(reader: &mut Reader<'_>) -> Read<Vec<Type>> {
    reader.input.expect_word("graph")?;
    let name = reader.input.graph_name()?;
    reader.graph.set_name(&name);
    let types = reader.input.position();
    reader.input.skip_to_word(CLAUSES);
    let clauses = reader.input.position();
    while !reader.input.at(&TokenKind::OpenBrace) {
        clause(reader)?;
    }
    let body = reader.input.position();
    reader.input.rewind(types);
    inputs(reader)?;
    reader.input.expect(&TokenKind::Arrow)?;
    let outputs = output_types(reader)?;
    if reader.input.position() != clauses {
        return Err(reader
            .input
            .cursor()
            .unexpected("let, where, requires, plan, likely, meta or the body"));
    }
    reader.input.rewind(body);
    Ok(outputs)
}

fn inputs(reader: &mut Reader<'_>) -> Read<()> {
    reader.input.expect(&TokenKind::OpenParen)?;
    while !reader.input.at(&TokenKind::CloseParen) {
        let name = reader.input.value_name()?;
        let full = reader.input.accept_string()?;
        reader.input.expect(&TokenKind::Colon)?;
        let ty = reader.ty()?;
        let body = reader.graph.body();
        let value = reader.graph.add_parameter(body, ty);
        if let Some(full) = &full {
            reader.graph.set_value_name(value, Some(full));
        }
        reader.define(&name, value)?;
        if !reader.input.accept(&TokenKind::Comma) {
            break;
        }
    }
    reader.input.expect(&TokenKind::CloseParen)
}

/// One type, or a list of them in parentheses.
fn output_types(reader: &mut Reader<'_>) -> Read<Vec<Type>> {
    if !reader.input.accept(&TokenKind::OpenParen) {
        return Ok(vec![reader.ty()?]);
    }
    let mut types = Vec::new();
    while !reader.input.at(&TokenKind::CloseParen) {
        types.push(reader.ty()?);
        if !reader.input.accept(&TokenKind::Comma) {
            break;
        }
    }
    reader.input.expect(&TokenKind::CloseParen)?;
    Ok(types)
}

fn clause(reader: &mut Reader<'_>) -> Read<()> {
    let start = reader.input.span();
    let word = reader
        .input
        .identifier("let, where, requires, plan, likely, meta or the body")?;
    match word.as_str() {
        "let" => definition(reader),
        "where" => parse_where(reader.input.cursor(), reader.graph.dims_mut()),
        "requires" => {
            let predicate = parse_predicate(reader.input.cursor(), reader.graph.dims_mut())?;
            let origin = FactOrigin::Required(origin(reader)?);
            let assumed = reader
                .graph
                .dims_mut()
                .assume(ContractFact { predicate, origin });
            assumed.map_err(|error| {
                reader
                    .input
                    .error_at(start, error.code(), error.to_string())
            })
        }
        "plan" => {
            let left = parse_dim(reader.input.cursor(), reader.graph.dims_mut())?;
            reader.input.expect(&TokenKind::EqualEqual)?;
            let right = parse_dim(reader.input.cursor(), reader.graph.dims_mut())?;
            let origin = origin(reader)?;
            reader.graph.dims_mut().expect(PlanFact {
                left,
                right,
                origin,
            });
            Ok(())
        }
        "likely" => likely(reader),
        "meta" => {
            let key = reader.input.string()?;
            reader.input.expect(&TokenKind::Equal)?;
            let value = reader.input.string()?;
            reader.graph.metadata_mut().insert(key, value);
            Ok(())
        }
        _ => {
            let message = format!(
                "expected let, where, requires, plan, likely, meta or the body, found {word}"
            );
            Err(reader.input.error_at(start, "E0122", message))
        }
    }
}

/// `let t = expression`: a symbol defined by an expression.
fn definition(reader: &mut Reader<'_>) -> Read<()> {
    let start = reader.input.span();
    let name = reader.input.identifier("the name of a symbol")?;
    reader.input.expect(&TokenKind::Equal)?;
    let value = parse_dim(reader.input.cursor(), reader.graph.dims_mut())?;
    let dims = reader.graph.dims_mut();
    let symbol = dims.define(&name, value);
    if dims.symbol_name(symbol) == name {
        return Ok(());
    }
    let message = format!("symbol {name} is read before its definition, or defined twice");
    Err(reader.input.error_at(start, "E0123", message))
}

fn likely(reader: &mut Reader<'_>) -> Read<()> {
    let start = reader.input.span();
    let name = reader.input.identifier("the name of a symbol")?;
    reader.input.expect(&TokenKind::EqualEqual)?;
    let likely = reader.input.integer()?;
    let dims = reader.graph.dims_mut();
    match dims.symbol(&name).map(|dim| dims.as_symbol(dim)) {
        Ok(Some(symbol)) => {
            dims.hint(Hint { symbol, likely });
            Ok(())
        }
        Ok(None) => unreachable!("a symbol's expression is the symbol"),
        Err(error) => Err(reader
            .input
            .error_at(start, error.code(), error.to_string())),
    }
}

fn origin(reader: &mut Reader<'_>) -> Read<String> {
    reader.input.expect_word("by")?;
    reader.input.string()
}
