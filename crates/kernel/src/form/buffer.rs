//! Buffers: the memory a kernel reads and writes.

use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;
use smallvec::SmallVec;

/// Sizes or strides, one per axis.
pub type Dims = SmallVec<[DimId; 4]>;

/// How a kernel uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Read.
    In,
    /// Written, every element exactly once; not read.
    Out,
    /// Read, and written by combining stores.
    InOut,
    /// Read, and the same for the lifetime of a program: a backend may keep it packed.
    Const,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 4] = [Role::In, Role::Out, Role::InOut, Role::Const];

    /// The word in the text form.
    pub const fn as_word(self) -> &'static str {
        match self {
            Role::In => "in",
            Role::Out => "out",
            Role::InOut => "inout",
            Role::Const => "const",
        }
    }

    /// Whether a kernel may load from it.
    pub const fn is_read(self) -> bool {
        !matches!(self, Role::Out)
    }

    /// Whether a kernel may store to it.
    pub const fn is_written(self) -> bool {
        matches!(self, Role::Out | Role::InOut)
    }
}

/// A buffer: an array of elements of one dtype somewhere in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Its name, without the `%`.
    pub name: String,
    /// How the kernel uses it.
    pub role: Role,
    /// The elements.
    pub dtype: DType,
    /// The sizes, outermost first.
    pub shape: Dims,
    /// Elements from one index to the next, per axis; `None` is row-major without gaps. A stride of 0 repeats an
    /// element, and is allowed for buffers that are only read.
    pub strides: Option<Dims>,
}

impl Buffer {
    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
}
