//! The kinds of attribute that ops share: axis lists, words from a fixed list, windows.

use super::fields::FieldVisitor;
use crate::ty::Dims;
use smallvec::SmallVec;

/// Axes, or other small non-negative integers.
pub type Indices = SmallVec<[usize; 4]>;

/// Integers known at compile time.
pub type Integers = SmallVec<[i64; 4]>;

/// An attribute that is one of a few words in the text form.
pub trait Word {
    /// The word for this value.
    fn as_word(&self) -> &'static str;
    /// Sets the value from a word; false for an unknown word.
    fn set_word(&mut self, word: &str) -> bool;
    /// Every word, for messages.
    fn words(&self) -> &'static [&'static str];
}

/// Declares an enum whose variants are words of the text form.
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
        }

        impl Word for $name {
            fn as_word(&self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            fn set_word(&mut self, word: &str) -> bool {
                match word {
                    $($word => *self = Self::$variant,)+
                    _ => return false,
                }
                true
            }

            fn words(&self) -> &'static [&'static str] {
                &[$($word),+]
            }
        }
    };
}

words! {
    /// The function of a reduction. Floats accumulate in at least f32 and are rounded once at the end.
    pub enum ReduceFunction {
        /// The sum; 0 over nothing.
        Sum = "sum",
        /// The mean of floats; NaN over nothing.
        Mean = "mean",
        /// The product; 1 over nothing.
        Product = "product",
        /// The maximum, NaN if any is NaN; over nothing, the smallest value of the dtype (-inf for floats).
        Max = "max",
        /// The minimum, NaN if any is NaN; over nothing, the largest value of the dtype (+inf for floats).
        Min = "min",
        /// Whether any bool is true; false over nothing.
        Any = "any",
        /// Whether all bools are true; true over nothing.
        All = "all",
    }
}

words! {
    /// The element that an arg-reduction selects. A NaN takes precedence over every number.
    pub enum Extremum {
        /// The maximum.
        Max = "max",
        /// The minimum.
        Min = "min",
    }
}

words! {
    /// The function that a cumulative op accumulates along its axis.
    pub enum CumulateFunction {
        /// The running sum.
        Sum = "sum",
        /// The running product.
        Product = "product",
        /// The running maximum.
        Max = "max",
        /// The running minimum.
        Min = "min",
    }
}

words! {
    /// The elements of a padded border.
    pub enum PadMode {
        /// The value of the second operand.
        Constant = "constant",
        /// Mirrored at the edge element, which is not repeated.
        Reflect = "reflect",
        /// The edge element.
        Edge = "edge",
        /// The other end of the axis.
        Wrap = "wrap",
    }
}

words! {
    /// How a scattered update combines with the element at its position.
    pub enum Combine {
        /// Replaces it; of several updates to one element, the last in index order wins.
        Set = "set",
        /// Adds to it.
        Add = "add",
        /// Multiplies it.
        Mul = "mul",
        /// Keeps the minimum, NaN if either is NaN.
        Min = "min",
        /// Keeps the maximum, NaN if either is NaN.
        Max = "max",
    }
}

words! {
    /// The function of a pooling window.
    pub enum PoolFunction {
        /// The maximum of the elements that are not padding.
        Max = "max",
        /// The sum.
        Sum = "sum",
        /// The mean of the elements that are not padding.
        Mean = "mean",
        /// The sum divided by the number of window elements, including padding.
        MeanWithPadding = "mean_with_padding",
    }
}

words! {
    /// How a resize interpolates.
    pub enum ResizeMode {
        /// The nearest element.
        Nearest = "nearest",
        /// Linear between two neighbours along each axis.
        Linear = "linear",
        /// Cubic over four neighbours along each axis.
        Cubic = "cubic",
    }
}

words! {
    /// How a resize maps an output index to an input coordinate. `x` is the output index, `scale` the output size over the
    /// input size.
    pub enum Coordinates {
        /// `(x + 0.5) / scale - 0.5`.
        HalfPixel = "half_pixel",
        /// As `HalfPixel`, but centred when the output size was rounded.
        HalfPixelSymmetric = "half_pixel_symmetric",
        /// As `HalfPixel`, but 0 when the output has one element.
        PytorchHalfPixel = "pytorch_half_pixel",
        /// `x * (input - 1) / (output - 1)`.
        AlignCorners = "align_corners",
        /// `x / scale`.
        Asymmetric = "asymmetric",
    }
}

words! {
    /// How a nearest resize rounds a coordinate to an index.
    pub enum NearestRounding {
        /// To the nearest; ties go down.
        PreferFloor = "prefer_floor",
        /// To the nearest; ties go up.
        PreferCeil = "prefer_ceil",
        /// Down.
        Floor = "floor",
        /// Up.
        Ceil = "ceil",
    }
}

/// How a window moves over the spatial axes, one entry per spatial axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Steps between windows, positive.
    pub strides: Integers,
    /// Steps between the elements of a window, positive.
    pub dilations: Integers,
    /// Padding before the first element, in elements.
    pub low: Dims,
    /// Padding after the last element, in elements.
    pub high: Dims,
}

impl Window {
    /// An empty window, to be filled in.
    pub(crate) fn empty() -> Self {
        Self {
            strides: Integers::new(),
            dilations: Integers::new(),
            low: Dims::new(),
            high: Dims::new(),
        }
    }

    /// The number of spatial axes.
    pub fn spatial_rank(&self) -> usize {
        self.strides.len()
    }

    pub(crate) fn visit_fields(&mut self, visitor: &mut dyn FieldVisitor) {
        visitor.integers("strides", &mut self.strides);
        visitor.integers("dilations", &mut self.dilations);
        visitor.dims("low", &mut self.low);
        visitor.dims("high", &mut self.high);
    }
}

/// The parameters of a resize: one entry of `axes`, `sizes` and `scales` per resized axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Resize {
    /// The resized axes; all others keep their size.
    pub axes: Indices,
    /// Output sizes.
    pub sizes: Dims,
    /// The output size over the input size as stated by the model; 0 if it is the quotient of the actual sizes.
    pub scales: SmallVec<[f64; 4]>,
    /// Interpolation.
    pub mode: ResizeMode,
    /// Output index to input coordinate.
    pub coordinates: Coordinates,
    /// Rounding of a nearest resize.
    pub rounding: NearestRounding,
    /// The coefficient `a` of a cubic resize, usually -0.75.
    pub cubic_coefficient: f64,
    /// Whether weights of neighbours outside are dropped and the others renormalised; otherwise the edge repeats.
    pub exclude_outside: bool,
    /// Whether a shrinking resize widens its filter by the scale.
    pub antialias: bool,
}

impl Resize {
    pub(crate) fn empty() -> Self {
        Self {
            axes: Indices::new(),
            sizes: Dims::new(),
            scales: SmallVec::new(),
            mode: ResizeMode::Nearest,
            coordinates: Coordinates::HalfPixel,
            rounding: NearestRounding::PreferFloor,
            cubic_coefficient: -0.75,
            exclude_outside: false,
            antialias: false,
        }
    }

    pub(crate) fn visit_fields(&mut self, visitor: &mut dyn FieldVisitor) {
        visitor.indices("axes", &mut self.axes);
        visitor.dims("sizes", &mut self.sizes);
        visitor.floats("scales", &mut self.scales);
        visitor.word("mode", &mut self.mode);
        visitor.word("coordinates", &mut self.coordinates);
        visitor.word("rounding", &mut self.rounding);
        visitor.float("cubic_coefficient", &mut self.cubic_coefficient);
        visitor.flag("exclude_outside", &mut self.exclude_outside);
        visitor.flag("antialias", &mut self.antialias);
    }
}
