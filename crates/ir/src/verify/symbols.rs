//! Every symbol is bound once, before anything reads it.
//!
//! Inputs bind the symbols that occur bare in their types; a region's entry its own symbols; `bind` and control ops the
//! symbols they define. A symbol with a definition has a value when the symbols of its definition do. A region sees the
//! symbols of the surrounding regions.

use super::error::{Location, Report, VerifyErrorKind};
use crate::graph::Graph;
use crate::ids::{OpId, RegionId};
use crate::ty::Type;
use cranelift_entity::SecondaryMap;
use kiln_symbolic_shape::{DimId, SymbolId};

pub(super) fn check(graph: &Graph, report: &mut Report) {
    let mut scope = Scope {
        graph,
        known: SecondaryMap::new(),
        report,
    };
    for &input in graph.inputs() {
        for &dim in &graph.ty(input).innermost().dims {
            if let Some(symbol) = graph.dims().as_symbol(dim) {
                scope.known[symbol] = true;
            }
        }
    }
    for &input in graph.inputs() {
        scope.read_type(&Location::Value(input), graph.ty(input));
    }
    scope.walk(graph.body());
}

struct Scope<'a> {
    graph: &'a Graph,
    known: SecondaryMap<SymbolId, bool>,
    report: &'a mut Report,
}

impl Scope<'_> {
    /// Recursion is bounded by `REGION_DEPTH_LIMIT`, which `structure` has checked.
    fn walk(&mut self, region: RegionId) {
        let graph = self.graph;
        for &op in &graph.region(region).ops {
            let at = Location::op(graph, op);
            let data = graph.op(op);
            let mut dims = Vec::new();
            data.op.for_each_dim(&mut |dim| dims.push(dim));
            for dim in dims {
                self.read(&at, dim);
            }
            for &inner in &data.regions {
                self.enter(inner);
            }
            self.define_symbols(&at, op);
            for &result in &data.results {
                self.read_type(&at, graph.ty(result));
            }
        }
    }

    fn enter(&mut self, region: RegionId) {
        let graph = self.graph;
        let at = Location::Region(region);
        // Symbols bound inside a region go out of scope at its end.
        let outside = self.known.clone();
        for &symbol in &graph.region(region).symbols {
            self.define(&at, symbol);
        }
        for &parameter in &graph.region(region).parameters {
            self.read_type(&at, graph.ty(parameter));
        }
        self.walk(region);
        self.known = outside;
    }

    fn define_symbols(&mut self, at: &Location, op: OpId) {
        for &symbol in &self.graph.op(op).symbols {
            self.define(at, symbol);
        }
    }

    fn define(&mut self, at: &Location, symbol: SymbolId) {
        if self.known[symbol] || self.graph.dims().definition(symbol).is_some() {
            let symbol = self.graph.dims().symbol_info(symbol).name().to_owned();
            self.report
                .add(at.clone(), VerifyErrorKind::SymbolTwice { symbol });
        }
        self.known[symbol] = true;
    }

    fn read_type(&mut self, at: &Location, ty: &Type) {
        for &dim in &ty.innermost().dims {
            self.read(at, dim);
        }
    }

    fn read(&mut self, at: &Location, dim: DimId) {
        let mut unseen = self.graph.dims().symbols_in(dim);
        while let Some(symbol) = unseen.pop() {
            if self.known[symbol] {
                continue;
            }
            // Treated as known from here on: one report per symbol is enough.
            self.known[symbol] = true;
            match self.graph.dims().definition(symbol) {
                Some(definition) => unseen.extend(self.graph.dims().symbols_in(definition)),
                None => {
                    let symbol = self.graph.dims().symbol_info(symbol).name().to_owned();
                    self.report
                        .add(at.clone(), VerifyErrorKind::SymbolUndefined { symbol });
                }
            }
        }
    }
}
