//! Ids in range, every op and region in one place, values defined before they are read.
//!
//! Works with an explicit stack, so that a graph that is nested too deeply is an error, not a stack overflow.

use super::RANK_LIMIT;
use super::error::{Location, Report, VerifyErrorKind};
use crate::graph::{Definition, Graph, OpData, REGION_DEPTH_LIMIT};
use crate::ids::{OpId, RegionId, ValueId};
use crate::ty::{TYPE_DEPTH_LIMIT, Type};
use cranelift_entity::{EntityRef, SecondaryMap};
use std::collections::BTreeSet;

pub(super) fn check(graph: &Graph, report: &mut Report) {
    check_ids(graph, report);
    if !report.is_empty() {
        return;
    }
    check_values(graph, report);
    check_places(graph, report);
    if report.is_empty() {
        check_order(graph, report);
    }
    check_names(graph, report);
}

fn check_ids(graph: &Graph, report: &mut Report) {
    for (id, data) in graph.ops() {
        let values = data.operands.iter().chain(&data.results);
        for value in values.filter(|&&value| !graph.contains_value(value)) {
            report.add(Location::op(graph, id), unknown("value", value));
        }
        for region in data
            .regions
            .iter()
            .filter(|&&region| !graph.contains_region(region))
        {
            report.add(Location::op(graph, id), unknown("region", region));
        }
        for symbol in data
            .symbols
            .iter()
            .filter(|&&symbol| !graph.dims().contains_symbol(symbol))
        {
            report.add(Location::op(graph, id), unknown("symbol", symbol));
        }
    }
    for region in regions(graph) {
        let data = graph.region(region);
        for value in data
            .parameters
            .iter()
            .chain(&data.results)
            .filter(|&&value| !graph.contains_value(value))
        {
            report.add(Location::Region(region), unknown("value", value));
        }
        for op in data.ops.iter().filter(|&&op| !graph.contains_op(op)) {
            report.add(Location::Region(region), unknown("op", op));
        }
        for symbol in data
            .symbols
            .iter()
            .filter(|&&symbol| !graph.dims().contains_symbol(symbol))
        {
            report.add(Location::Region(region), unknown("symbol", symbol));
        }
    }
}

fn check_values(graph: &Graph, report: &mut Report) {
    for value in (0..graph.n_values()).map(ValueId::new) {
        let mut ty = graph.ty(value);
        let mut depth = 0;
        while let Type::Sequence(item) | Type::Optional(item) = ty {
            depth += 1;
            ty = item;
        }
        let rank = graph.ty(value).innermost().rank();
        for (what, given, limit) in [
            ("type nesting", depth, TYPE_DEPTH_LIMIT),
            ("rank", rank, RANK_LIMIT),
        ] {
            if given > limit {
                report.add(
                    Location::Value(value),
                    VerifyErrorKind::Limit { what, given, limit },
                );
            }
        }
        for &dim in &graph.ty(value).innermost().dims {
            if !graph.dims().contains(dim) {
                report.add(Location::Value(value), VerifyErrorKind::UnknownDim { dim });
            }
        }
    }
    for (id, data) in graph.ops() {
        data.op.for_each_dim(&mut |dim| {
            if !graph.dims().contains(dim) {
                report.add(Location::op(graph, id), VerifyErrorKind::UnknownDim { dim });
            }
        });
    }
}

/// Checks that each op is in one region, and that each region except the body belongs to one op.
fn check_places(graph: &Graph, report: &mut Report) {
    let mut op_places: SecondaryMap<OpId, usize> = SecondaryMap::new();
    let mut region_places: SecondaryMap<RegionId, usize> = SecondaryMap::new();
    region_places[graph.body()] = 1;
    for (_, data) in graph.ops() {
        for &region in &data.regions {
            region_places[region] += 1;
        }
    }
    for region in regions(graph) {
        for &op in &graph.region(region).ops {
            op_places[op] += 1;
        }
    }
    for region in regions(graph).filter(|&region| region_places[region] != 1) {
        let found = region_places[region];
        let kind = VerifyErrorKind::Shared {
            what: "region",
            id: region.to_string(),
            found,
        };
        report.add(Location::Region(region), kind);
    }
    for (op, _) in graph.ops().filter(|&(op, _)| op_places[op] != 1) {
        let kind = VerifyErrorKind::Shared {
            what: "op",
            id: op.to_string(),
            found: op_places[op],
        };
        report.add(Location::op(graph, op), kind);
    }
}

/// One region on the walk's stack, and the next of its ops.
struct Frame {
    region: RegionId,
    next: usize,
    depth: usize,
}

fn check_order(graph: &Graph, report: &mut Report) {
    // The region in which each value has been defined so far.
    let mut defined: SecondaryMap<ValueId, Option<RegionId>> =
        SecondaryMap::with_capacity(graph.n_values());
    let mut stack = Vec::new();
    enter(graph, graph.body(), 0, &mut defined, &mut stack, report);
    while let Some(frame) = stack.last_mut() {
        let (region, depth) = (frame.region, frame.depth + 1);
        let Some(&op) = graph.region(region).ops.get(frame.next) else {
            let results = &graph.region(region).results;
            for &value in results
                .iter()
                .filter(|&&value| defined[value] != Some(region))
            {
                report.add(
                    Location::Region(region),
                    VerifyErrorKind::NotDefined { value },
                );
            }
            stack.pop();
            continue;
        };
        frame.next += 1;
        let data = graph.op(op);
        for &value in data
            .operands
            .iter()
            .filter(|&&value| defined[value] != Some(region))
        {
            report.add(
                Location::op(graph, op),
                VerifyErrorKind::NotDefined { value },
            );
        }
        define_results(graph, op, data, region, &mut defined, report);
        if !data.regions.is_empty() && depth > REGION_DEPTH_LIMIT {
            let (given, limit) = (depth, REGION_DEPTH_LIMIT);
            report.add(
                Location::op(graph, op),
                VerifyErrorKind::Limit {
                    what: "nested regions",
                    given,
                    limit,
                },
            );
            return;
        }
        for &inner in data.regions.iter().rev() {
            enter(graph, inner, depth, &mut defined, &mut stack, report);
        }
    }
}

fn enter(
    graph: &Graph,
    region: RegionId,
    depth: usize,
    defined: &mut SecondaryMap<ValueId, Option<RegionId>>,
    stack: &mut Vec<Frame>,
    report: &mut Report,
) {
    for (index, &value) in graph.region(region).parameters.iter().enumerate() {
        let expected = Definition::Parameter { region, index };
        if graph.value(value).definition != expected || defined[value].is_some() {
            let kind = VerifyErrorKind::Shared {
                what: "value",
                id: value.to_string(),
                found: 2,
            };
            report.add(Location::Region(region), kind);
        }
        defined[value] = Some(region);
    }
    stack.push(Frame {
        region,
        next: 0,
        depth,
    });
}

fn define_results(
    graph: &Graph,
    op: OpId,
    data: &OpData,
    region: RegionId,
    defined: &mut SecondaryMap<ValueId, Option<RegionId>>,
    report: &mut Report,
) {
    for (index, &value) in data.results.iter().enumerate() {
        if graph.value(value).definition != (Definition::Result { op, index })
            || defined[value].is_some()
        {
            let kind = VerifyErrorKind::Shared {
                what: "value",
                id: value.to_string(),
                found: 2,
            };
            report.add(Location::op(graph, op), kind);
        }
        defined[value] = Some(region);
    }
}

fn check_names(graph: &Graph, report: &mut Report) {
    let mut seen = BTreeSet::new();
    for &input in graph.inputs() {
        let name = graph.input_name(input);
        if !seen.insert(name.clone()) {
            report.add(
                Location::Graph,
                VerifyErrorKind::NameTwice {
                    what: "inputs",
                    name,
                },
            );
        }
    }
    let (names, outputs) = (graph.output_names(), graph.outputs());
    if names.len() != outputs.len() {
        let expected = outputs.len().to_string();
        report.add(
            Location::Graph,
            VerifyErrorKind::Count {
                what: "output names",
                expected,
                found: names.len(),
            },
        );
    }
    let mut seen = BTreeSet::new();
    for name in names.iter().filter(|&name| !seen.insert(name)) {
        report.add(
            Location::Graph,
            VerifyErrorKind::NameTwice {
                what: "outputs",
                name: name.to_string(),
            },
        );
    }
}

fn regions(graph: &Graph) -> impl Iterator<Item = RegionId> + use<> {
    (0..graph.n_regions()).map(RegionId::new)
}

fn unknown(what: &'static str, id: impl ToString) -> VerifyErrorKind {
    VerifyErrorKind::UnknownId {
        what,
        id: id.to_string(),
    }
}
