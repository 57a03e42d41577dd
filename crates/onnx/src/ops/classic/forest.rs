//! An ensemble of decision trees as one table of nodes.
//!
//! Every node tests the same condition, `x[feature] <= split`; others are reduced to it: `x < s` is `x <= s'` for the
//! next number `s'` below `s`, `x > s` is the negation of `x <= s`, `x == s` takes two tests, and membership in a set
//! tests each member. The successor of a leaf is the leaf itself, so a walk with as many steps as the deepest tree has
//! levels ends at a leaf in every tree. Invariant: `yes` and `no` are rows of the table, and only leaves are their own
//! successors.

use kiln_tensor::DType;

/// The nodes of all trees, a row each.
pub(super) struct Forest {
    /// The first node of each tree.
    pub(super) roots: Vec<i64>,
    pub(super) features: Vec<i64>,
    pub(super) splits: Vec<f64>,
    /// Whether a missing value counts as small.
    pub(super) missing: Vec<bool>,
    pub(super) yes: Vec<i64>,
    pub(super) no: Vec<i64>,
    dtype: DType,
}

/// A node's test of its feature.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Question {
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
    Above(f64),
    Equal(f64),
    NotEqual(f64),
    Among(Vec<f64>),
}

/// The successor of a node.
#[derive(Clone, Copy)]
pub(super) struct Branches {
    pub(super) feature: i64,
    /// Whether a missing value takes the `yes` branch.
    pub(super) missing: bool,
    pub(super) yes: usize,
    pub(super) no: usize,
}

impl Forest {
    /// `n_nodes` leaves.
    pub(super) fn new(n_nodes: usize, dtype: DType) -> Self {
        let itself: Vec<i64> = (0..n_nodes).map(row).collect();
        Self {
            roots: Vec::new(),
            features: vec![0; n_nodes],
            splits: vec![f64::NAN; n_nodes],
            missing: vec![false; n_nodes],
            yes: itself.clone(),
            no: itself,
            dtype,
        }
    }

    /// The dtype in which samples are compared.
    pub(super) fn dtype(&self) -> DType {
        self.dtype
    }

    pub(super) fn n_nodes(&self) -> usize {
        self.features.len()
    }

    pub(super) fn is_leaf(&self, node: usize) -> bool {
        self.yes.get(node) == Some(&row(node)) && self.no.get(node) == Some(&row(node))
    }

    /// Sets a node's test.
    pub(super) fn ask(&mut self, node: usize, question: Question, branches: Branches) {
        let opposite = Branches {
            missing: !branches.missing,
            yes: branches.no,
            no: branches.yes,
            ..branches
        };
        match question {
            Question::AtMost(split) => self.set(node, split, branches),
            Question::Below(split) => self.set(node, self.below(split), branches),
            Question::Above(split) => self.set(node, split, opposite),
            Question::AtLeast(split) => self.set(node, self.below(split), opposite),
            Question::Equal(split) => self.ask_equal(node, split, branches),
            // A missing value equals nothing.
            Question::NotEqual(split) => {
                let opposite = Branches {
                    missing: false,
                    ..opposite
                };
                self.ask_equal(node, split, opposite);
            }
            Question::Among(members) => self.ask_among(node, &members, branches),
        }
    }

    fn ask_equal(&mut self, node: usize, split: f64, branches: Branches) {
        let second = self.add();
        let below = Branches {
            missing: false,
            yes: branches.no,
            no: branches.yes,
            ..branches
        };
        self.set(second, self.below(split), below);
        let first = Branches {
            yes: second,
            ..branches
        };
        self.set(node, split, first);
    }

    fn ask_among(&mut self, node: usize, members: &[f64], branches: Branches) {
        let Some((last, others)) = members.split_last() else {
            return self.set(node, f64::NAN, branches);
        };
        let mut node = node;
        for &member in others {
            let next = self.add();
            let branches = Branches {
                no: next,
                ..branches
            };
            self.ask_equal(node, member, branches);
            node = next;
        }
        self.ask_equal(node, *last, branches);
    }

    fn set(&mut self, node: usize, split: f64, branches: Branches) {
        self.features[node] = branches.feature;
        self.splits[node] = split;
        self.missing[node] = branches.missing;
        self.yes[node] = row(branches.yes);
        self.no[node] = row(branches.no);
    }

    fn add(&mut self) -> usize {
        let node = self.n_nodes();
        self.features.push(0);
        self.splits.push(f64::NAN);
        self.missing.push(false);
        self.yes.push(row(node));
        self.no.push(row(node));
        node
    }

    /// The next smaller number; NaN below the minimum, since no number is at most that.
    fn below(&self, split: f64) -> f64 {
        if split == f64::NEG_INFINITY {
            return f64::NAN;
        }
        match self.dtype {
            DType::F64 => split.next_down(),
            _ => f64::from((split as f32).next_down()),
        }
    }

    /// The longest path from a root to a leaf; `None` if there is a cycle.
    pub(super) fn depth(&self) -> Option<i64> {
        #[derive(Clone, Copy)]
        enum Height {
            Unknown,
            Open,
            Known(i64),
        }
        let mut heights = vec![Height::Unknown; self.n_nodes()];
        let mut stack = Vec::new();
        let mut depth = 0;
        for &root in &self.roots {
            stack.push(place(root));
            while let Some(&node) = stack.last() {
                if self.is_leaf(node) {
                    heights[node] = Height::Known(0);
                }
                if let Height::Known(_) = heights[node] {
                    stack.pop();
                    continue;
                }
                let children = [place(self.yes[node]), place(self.no[node])];
                let heights_below = children.map(|child| heights[child]);
                if let [Height::Known(one), Height::Known(other)] = heights_below {
                    heights[node] = Height::Known(one.max(other) + 1);
                    stack.pop();
                    continue;
                }
                if heights_below
                    .iter()
                    .any(|height| matches!(height, Height::Open))
                    || children.contains(&node)
                {
                    return None;
                }
                heights[node] = Height::Open;
                for (child, height) in children.into_iter().zip(heights_below) {
                    if matches!(height, Height::Unknown) {
                        stack.push(child);
                    }
                }
            }
            if let Height::Known(height) = heights[place(root)] {
                depth = depth.max(height);
            }
        }
        Some(depth)
    }
}

/// A node's number in a tensor.
pub(super) fn row(node: usize) -> i64 {
    i64::try_from(node).unwrap_or(i64::MAX)
}

/// The node with the number at `row`.
fn place(row: i64) -> usize {
    usize::try_from(row).unwrap_or(usize::MAX)
}
