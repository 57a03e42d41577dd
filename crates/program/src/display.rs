//! Prints a program, for `inspect --stage program`: blocks, steps, and where each buffer is placed.

use std::fmt;

use crate::buffer::{Buffer, Place};
use crate::ids::{BlockId, BufferId, SizeId};
use crate::program::{Block, Program, Segment};
use crate::step::{Action, Step};

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts();
        let counts: Vec<String> = counts
            .iter()
            .map(|(word, count)| format!("{count} {word}"))
            .collect();
        writeln!(
            f,
            "program @{}: {} kernels, {} constants, steps: {}",
            self.graph.name(),
            self.kernels.len(),
            self.constants.len(),
            if counts.is_empty() {
                "none".to_owned()
            } else {
                counts.join(", ")
            }
        )?;
        for (id, block) in &self.blocks {
            let printer = Printer {
                program: self,
                block,
            };
            printer.block(f, id)?;
        }
        Ok(())
    }
}

struct Printer<'a> {
    program: &'a Program,
    block: &'a Block,
}

impl Printer<'_> {
    fn block(&self, f: &mut fmt::Formatter<'_>, id: BlockId) -> fmt::Result {
        let title = if id == self.program.body {
            "body".to_owned()
        } else {
            id.to_string()
        };
        writeln!(
            f,
            "{title}({}) -> ({})",
            self.typed(&self.block.parameters),
            self.typed(&self.block.results)
        )?;
        for donation in &self.block.donations {
            let name = |id: Option<&BufferId>| {
                id.map_or(String::new(), |&id| self.block.buffers[id].name.clone())
            };
            let parameter = name(self.block.parameters.get(donation.parameter));
            let result = name(self.block.results.get(donation.result));
            writeln!(f, "  %{result} may take the memory of %{parameter}")?;
        }
        for (index, segment) in self.block.segments.iter().enumerate() {
            self.segment(f, index, segment)?;
        }
        Ok(())
    }

    fn segment(&self, f: &mut fmt::Formatter<'_>, index: usize, segment: &Segment) -> fmt::Result {
        let dims = self.program.graph.dims();
        writeln!(f, "  segment {index}: {} slots", segment.slots.len())?;
        for line in segment.check.iter().flat_map(|check| check.lines(dims)) {
            writeln!(f, "    {line}")?;
        }
        for asked in &segment.contract {
            let (kind, sizes) = (asked.kind.parts().0, dims.display_shape(&asked.left));
            let with = match asked.right.as_slice() {
                [] => String::new(),
                right => format!(" with {}", dims.display_shape(right)),
            };
            writeln!(f, "    asks {kind} of {sizes}{with} ({})", asked.origin)?;
        }
        for requirement in &segment.requirements {
            let predicate = dims.display_predicate(&requirement.predicate);
            writeln!(f, "    requires {predicate}: {}", requirement.message)?;
        }
        for step in &segment.steps {
            self.step(f, step)?;
        }
        Ok(())
    }

    fn step(&self, f: &mut fmt::Formatter<'_>, step: &Step) -> fmt::Result {
        let writes = self.program.writes(&step.action);
        let reads = self.program.reads(&step.action);
        write!(f, "    {} {}", step.action.as_word(), step.name)?;
        match &step.action {
            Action::Kernel(launch) => {
                let class = self.program.kernel(launch.kernel).classification().class;
                write!(f, " [{} {class}]", launch.kernel)?;
            }
            Action::Bind { symbols, .. } => {
                let names = symbols
                    .iter()
                    .map(|&symbol| self.program.graph.dims().symbol_name(symbol).to_owned());
                write!(f, " [{}]", names.collect::<Vec<_>>().join(", "))?;
            }
            Action::If {
                then, otherwise, ..
            } => write!(f, " [{then}, {otherwise}]")?,
            Action::Loop { body, course, .. } => {
                write!(f, " [{body}")?;
                if let Some(trips) = course.trips {
                    write!(f, ", at most {} times", self.size(trips))?;
                }
                if course.goes_on {
                    write!(f, ", to the end")?;
                }
                write!(f, "]")?;
            }
            Action::Interpret { reason, .. } => write!(f, " [{reason}]")?,
            Action::Builtin { .. } | Action::Dims { .. } => {}
        }
        if !reads.is_empty() {
            let reads: Vec<String> = reads.iter().map(|&id| self.placed(id)).collect();
            write!(f, " {}", reads.join(", "))?;
        }
        if !writes.is_empty() {
            write!(f, " -> {}", self.typed(&writes))?;
        }
        writeln!(f)
    }

    /// Buffers with their types: `%x: f32[N] input 0`.
    fn typed(&self, buffers: &[BufferId]) -> String {
        let buffers = buffers.iter().map(|&id| {
            let buffer = &self.block.buffers[id];
            let (dtype, shape) = (buffer.dtype, self.sizes(&buffer.shape));
            let strides = match &buffer.strides {
                Some(strides) => format!(" strides {}", self.sizes(strides)),
                None => String::new(),
            };
            format!("{}: {dtype}{shape}{strides}", self.placed(id))
        });
        buffers.collect::<Vec<_>>().join(", ")
    }

    /// A buffer and its place: `%x@0.2`, `%x(%y+N)`.
    fn placed(&self, id: BufferId) -> String {
        let Buffer { name, place, .. } = &self.block.buffers[id];
        match place {
            Place::Parameter(_) | Place::Constant(_) => format!("%{name}"),
            Place::Slot { segment, slot } => format!("%{name}@{segment}.{slot}"),
            Place::Own => format!("%{name}@own"),
            Place::Brought => format!("%{name}@brought"),
            Place::View { of, offset } => {
                let base = &self.block.buffers[*of].name;
                format!("%{name}(%{base}+{})", self.size(*offset))
            }
        }
    }

    fn sizes(&self, sizes: &[SizeId]) -> String {
        let sizes: Vec<String> = sizes.iter().map(|&size| self.size(size)).collect();
        format!("[{}]", sizes.join(", "))
    }

    fn size(&self, size: SizeId) -> String {
        self.program
            .graph
            .dims()
            .display(self.program.sizes.dim(size))
            .to_string()
    }
}
