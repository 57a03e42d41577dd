//! A minimal reader of model files, to shuffle their nodes: messages are fields, some of which are nodes.

use kiln_testkit::random::SplitMix64;
use std::ops::Range;

/// The number of the field that contains a model's graph, and of the relevant fields below it.
const GRAPH: u64 = 7;
const NODE: u64 = 1;
const INPUT: u64 = 1;
const OUTPUT: u64 = 2;

/// A field that contains bytes: its number, its start, and the range of its content.
struct Field {
    number: u64,
    whole: Range<usize>,
    content: Range<usize>,
}

fn varint(bytes: &[u8], at: &mut usize) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes[*at];
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn write_varint(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

/// The fields of a message, including those without content.
fn fields(bytes: &[u8], message: Range<usize>) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut at = message.start;
    while at < message.end {
        let begin = at;
        let key = varint(bytes, &mut at);
        let length = match key & 7 {
            0 => {
                varint(bytes, &mut at);
                0
            }
            1 => 8,
            2 => varint(bytes, &mut at) as usize,
            _ => 4,
        };
        let content = at..at + length;
        at += length;
        fields.push(Field {
            number: key >> 3,
            whole: begin..at,
            content,
        });
    }
    fields
}

/// The names that a node reads or produces.
fn names<'b>(bytes: &'b [u8], node: &Field, field: u64) -> Vec<&'b [u8]> {
    fields(bytes, node.content.clone())
        .into_iter()
        .filter(|inner| inner.number == field)
        .map(|inner| &bytes[inner.content])
        .collect()
}

/// The model with the nodes of its graph in some order that respects dependencies.
pub(crate) fn with_shuffled_nodes(bytes: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    let mut shuffled = Vec::with_capacity(bytes.len());
    for field in fields(bytes, 0..bytes.len()) {
        if field.number != GRAPH {
            shuffled.extend_from_slice(&bytes[field.whole]);
            continue;
        }
        let (nodes, rest): (Vec<Field>, Vec<Field>) = fields(bytes, field.content)
            .into_iter()
            .partition(|inner| inner.number == NODE);
        let mut graph = Vec::new();
        for node in in_some_order(bytes, nodes, random) {
            graph.extend_from_slice(&bytes[node.whole]);
        }
        for other in rest {
            graph.extend_from_slice(&bytes[other.whole]);
        }
        write_varint(GRAPH << 3 | 2, &mut shuffled);
        write_varint(graph.len() as u64, &mut shuffled);
        shuffled.extend_from_slice(&graph);
    }
    shuffled
}

fn in_some_order(bytes: &[u8], mut left: Vec<Field>, random: &mut SplitMix64) -> Vec<Field> {
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waiting: Vec<&[u8]> = left
            .iter()
            .flat_map(|node| names(bytes, node, OUTPUT))
            .collect();
        let ready: Vec<usize> = (0..left.len())
            .filter(|&at| {
                let read = names(bytes, &left[at], INPUT);
                read.iter().all(|name| !waiting.contains(name))
            })
            .collect();
        let at = ready[random.below(ready.len() as u64) as usize];
        order.push(left.remove(at));
    }
    order
}
