//! The prover and the simplifier of sizes, compared with plain arithmetic and enumeration.
//!
//! Expressions are generated as postfix code, so nothing here recurses; the value of the code is computed step by step as a
//! reference for the table.

use arbitrary::Unstructured;
use kiln_symbolic_shape::text::{Cursor, parse_dim, parse_predicate, parse_where};
use kiln_symbolic_shape::{
    Binding, DimError, DimId, DimLimits, DimTable, Fuel, Predicate, Proof, SymbolicDimension,
};

use super::fail_with;

/// The symbols of generated expressions.
const NAMES: [&str; 3] = ["A", "B", "C"];

/// The values of symbols: zero, one, neighbours, multiples, others.
const VALUES: [i64; 8] = [0, 1, 2, 3, 4, 7, 8, 24];

/// The maximum length of a text: a few lines about sizes.
const TEXT_LIMIT: usize = 1 << 12;

/// The number of symbols of a text that take every combination of values.
const ENUMERATED: usize = 3;

/// Bytes as a `where` clause and predicates, one a line, or as choices of both: predicates that are proved hold for all
/// sizes that the facts allow, and disproved ones for none, with any fuel; simplified expressions keep their values.
pub fn prove_sizes(bytes: &[u8]) {
    match bytes.strip_prefix(b"where ") {
        Some(text) if text.len() <= TEXT_LIMIT => {
            if let Ok(text) = std::str::from_utf8(text) {
                prove_text(text);
            }
        }
        Some(_) => {}
        // When choices run out, they are zeros, and never an error of a source of bytes.
        None => drop(prove_choices(&mut Unstructured::new(bytes))),
    }
}

fn prove_text(text: &str) {
    let (facts, queries) = text.split_once('\n').unwrap_or((text, ""));
    let mut table = DimTable::new();
    // Read before the facts are known, and after.
    let read = |table: &mut DimTable| -> Vec<Predicate> {
        let lines = queries.lines().take(8);
        let predicate = |line| parse_predicate(&mut Cursor::new(line), table).ok();
        lines.filter_map(predicate).collect()
    };
    let mut predicates = read(&mut table);
    if parse_where(&mut Cursor::new(facts), &mut table).is_err() {
        return;
    }
    predicates.extend(read(&mut table));
    for predicate in &predicates {
        check_predicate(&table, predicate, 1 << 10);
    }
}

fn prove_choices(choices: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    // Tables that wrap large expressions in derived symbols, and tables that do not.
    let limits = if choices.arbitrary()? {
        DimLimits {
            max_terms: 4,
            max_degree: 2,
            max_size: 16,
            max_depth: 3,
            ..DimLimits::default()
        }
    } else {
        DimLimits::default()
    };
    let mut table = DimTable::with_limits(limits);
    for name in NAMES {
        if table.declare(SymbolicDimension::named(name)).is_err() {
            unreachable!("three names that differ");
        }
    }
    let (n_facts, early) = (choices.int_in_range(0..=3)?, choices.arbitrary::<bool>()?);
    let mut codes = Vec::new();
    for _ in 0..4 {
        codes.push(Code::choose(choices)?);
    }
    let mut dims: Vec<DimId> = Vec::new();
    if early {
        dims = built(&codes, &mut table);
    }
    for _ in 0..n_facts {
        let sides = [Code::choose(choices)?, Code::choose(choices)?];
        let before = table.clone();
        let mut both = built(&sides, &mut table);
        if both.len() == 2 {
            both.extend_from_within(..);
            let predicate = choose_predicate(choices, &both)?;
            let text = table.display_predicate(&predicate).to_string();
            if parse_where(&mut Cursor::new(&text), &mut table).is_err() {
                table = before;
            }
        }
    }
    if !early {
        dims = built(&codes, &mut table);
    }
    if dims.len() < codes.len() {
        return Ok(());
    }
    check_values(&codes, &dims, &mut table);
    let fuel = choices.int_in_range(0..=4096)?;
    for _ in 0..4 {
        let predicate = choose_predicate(choices, &dims)?;
        check_predicate(&table, &predicate, fuel);
    }
    Ok(())
}

/// The table's ids of some expressions; fewer if one is an error.
fn built(codes: &[Code], table: &mut DimTable) -> Vec<DimId> {
    codes
        .iter()
        .map_while(|code| code.build(table).ok())
        .collect()
}

fn choose_predicate(
    choices: &mut Unstructured<'_>,
    dims: &[DimId],
) -> arbitrary::Result<Predicate> {
    let [a, b, c, d] = [
        *choices.choose(dims)?,
        *choices.choose(dims)?,
        *choices.choose(dims)?,
        *choices.choose(dims)?,
    ];
    Ok(match choices.int_in_range(0..=5)? {
        0 => Predicate::Equal(a, b),
        1 => Predicate::NotEqual(a, b),
        2 => Predicate::LessEqual(a, b),
        3 => Predicate::Less(a, b),
        4 => Predicate::Divides {
            divisor: choices.int_in_range(1..=16)?,
            dim: a,
        },
        _ => Predicate::ProductEqual(vec![a, b], vec![c, d]),
    })
}

/// Every combination of values of the first few symbols of a table; the others are a few fixed values.
fn assignments(table: &DimTable) -> impl Iterator<Item = Binding> {
    let free: Vec<_> = table
        .symbols()
        .filter(|&symbol| table.definition(symbol).is_none())
        .collect();
    let combinations = VALUES.len().pow(free.len().min(ENUMERATED) as u32);
    (0..combinations).map(move |combination| {
        let value = |place: usize| match place < ENUMERATED {
            true => combination / VALUES.len().pow(place as u32),
            // Not every combination is tried, but not always the same ones.
            false => combination.wrapping_mul(2 * place + 1),
        };
        let pairs = free.iter().enumerate();
        pairs
            .map(|(place, &symbol)| (symbol, VALUES[value(place) % VALUES.len()]))
            .collect()
    })
}

/// Checks that proved predicates hold for all sizes that the table allows, and disproved ones for none.
fn check_predicate(table: &DimTable, predicate: &Predicate, fuel: u64) {
    let answers = [
        table.prove(predicate),
        table.prove_with_fuel(predicate, &mut Fuel::new(fuel)),
    ];
    if answers == [Proof::Unknown; 2] {
        return;
    }
    for binding in assignments(table) {
        if table.check(&binding).is_err() {
            continue;
        }
        let Ok(holds) = table.holds(predicate, &binding) else {
            continue;
        };
        let wrong = if holds {
            Proof::Disproved
        } else {
            Proof::Proved
        };
        if answers.contains(&wrong) {
            fail_with(&format!(
                "{wrong:?}, with fuel for {fuel} steps {:?}: {}, which is {holds} at {}",
                answers[1],
                table.display_predicate(predicate),
                shown(table, &binding),
            ));
        }
    }
}

/// Checks that expressions have the values of their code wherever that has one, simplified or not, and within their
/// ranges.
fn check_values(codes: &[Code], dims: &[DimId], table: &mut DimTable) {
    for (code, &dim) in codes.iter().zip(dims) {
        let simple = table.simplify(dim).unwrap_or(dim);
        let text = table.display(dim).to_string();
        let read = parse_dim(&mut Cursor::new(&text), table);
        let all = [Some(dim), Some(simple), read.ok()];
        for binding in assignments(table) {
            if table.check(&binding).is_err() {
                continue;
            }
            let sizes = NAMES.map(|name| table.symbol_named(name).and_then(|s| binding.get(s)));
            let [Some(a), Some(b), Some(c)] = sizes else {
                continue;
            };
            let Some(value) = code.value([a, b, c]) else {
                continue;
            };
            for dim in all.into_iter().flatten() {
                // Sums that exceed 64 bits, in a different order than here, have no value.
                let Ok(found) = table.evaluate(dim, &binding) else {
                    continue;
                };
                if found != value || !table.range(dim).contains(value) {
                    fail_with(&format!(
                        "expected {value}, found {found} in {}, for {} of {code:?} at {}",
                        table.range(dim),
                        table.display(dim),
                        shown(table, &binding),
                    ));
                }
            }
        }
    }
}

fn shown(table: &DimTable, binding: &Binding) -> String {
    let pairs = binding
        .iter()
        .map(|(symbol, value)| format!("{} = {value}", table.symbol_name(symbol)));
    let facts = table
        .contract_facts()
        .iter()
        .map(|fact| table.display_predicate(&fact.predicate).to_string());
    let (pairs, facts): (Vec<_>, Vec<_>) = (pairs.collect(), facts.collect());
    format!("{} where {}", pairs.join(", "), facts.join(", "))
}

/// One step of an expression in postfix notation.
#[derive(Clone, Copy, Debug)]
enum Step {
    Constant(i64),
    Symbol(usize),
    /// An operation on the two values that were pushed last.
    Operation(Operation),
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Add,
    Sub,
    Mul,
    FloorDiv,
    CeilDiv,
    Mod,
    Min,
    Max,
    Bcast,
}

const OPERATIONS: [Operation; 9] = [
    Operation::Add,
    Operation::Sub,
    Operation::Mul,
    Operation::FloorDiv,
    Operation::CeilDiv,
    Operation::Mod,
    Operation::Min,
    Operation::Max,
    Operation::Bcast,
];

/// An expression in postfix notation; complete by construction.
#[derive(Clone, Debug)]
struct Code(Vec<Step>);

impl Code {
    fn choose(choices: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        let mut steps = Vec::new();
        let mut depth = 0;
        for _ in 0..choices.int_in_range(1..=12_usize)? {
            match choices.int_in_range(0..=5)? {
                0 => steps.push(Step::Constant(choices.int_in_range(-4..=32)?)),
                1 | 2 => steps.push(Step::Symbol(choices.int_in_range(0..=2)?)),
                _ if depth >= 2 => {
                    steps.push(Step::Operation(*choices.choose(&OPERATIONS)?));
                    depth -= 2;
                }
                _ => steps.push(Step::Symbol(0)),
            }
            depth += 1;
        }
        for _ in 1..depth {
            steps.push(Step::Operation(*choices.choose(&OPERATIONS)?));
        }
        Ok(Self(steps))
    }

    fn build(&self, table: &mut DimTable) -> Result<DimId, DimError> {
        let mut stack = Vec::new();
        for step in &self.0 {
            let dim = match *step {
                Step::Constant(value) => table.constant(value),
                Step::Symbol(symbol) => table.symbol(NAMES[symbol])?,
                Step::Operation(operation) => {
                    let (Some(b), Some(a)) = (stack.pop(), stack.pop()) else {
                        unreachable!("code is complete");
                    };
                    match operation {
                        Operation::Add => table.add(a, b),
                        Operation::Sub => table.sub(a, b),
                        Operation::Mul => table.mul(a, b),
                        Operation::FloorDiv => table.floor_div(a, b),
                        Operation::CeilDiv => table.ceil_div(a, b),
                        Operation::Mod => table.modulo(a, b),
                        Operation::Min => table.min(a, b),
                        Operation::Max => table.max(a, b),
                        Operation::Bcast => table.bcast(a, b),
                    }?
                }
            };
            stack.push(dim);
        }
        match stack.pop() {
            Some(dim) => Ok(dim),
            None => unreachable!("code is complete"),
        }
    }

    /// The value; `None` if a divisor is not positive, a broadcast fails or 64 bits are not enough.
    fn value(&self, sizes: [i64; 3]) -> Option<i64> {
        let mut stack = Vec::new();
        for step in &self.0 {
            let value = match *step {
                Step::Constant(value) => value,
                Step::Symbol(symbol) => sizes[symbol],
                Step::Operation(operation) => {
                    let (b, a): (i64, i64) = (stack.pop()?, stack.pop()?);
                    let divisor = Some(b).filter(|&b| b > 0);
                    match operation {
                        Operation::Add => a.checked_add(b)?,
                        Operation::Sub => a.checked_sub(b)?,
                        Operation::Mul => a.checked_mul(b)?,
                        Operation::FloorDiv => a.checked_div_euclid(divisor?)?,
                        Operation::CeilDiv => a
                            .checked_neg()?
                            .checked_div_euclid(divisor?)?
                            .checked_neg()?,
                        Operation::Mod => a.checked_rem_euclid(divisor?)?,
                        Operation::Min => a.min(b),
                        Operation::Max => a.max(b),
                        Operation::Bcast => match (a, b) {
                            (a, 1) => a,
                            (1, b) => b,
                            (a, b) => Some(a).filter(|_| a == b)?,
                        },
                    }
                }
            };
            stack.push(value);
        }
        stack.pop()
    }
}
