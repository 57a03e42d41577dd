//! The loop over tiles of keys: filling the next tile while the last one is multiplied, and scores from sums of products.

use super::plan::AttentionTile;
use super::{Sides, Writer};
use crate::generate::scope::{Place, Scope, When};
use crate::generate::split_points;
use crate::generate::tile::Side;

impl Writer<'_, '_> {
    /// Declares the tiles of keys that the block visits: `tiles` of them, from `first_tile`.
    pub(super) fn declare_tiles(&self, scope: &Scope, sides: &Sides<'_>) {
        let (lowering, keys) = (self.lowering, self.tile.keys);
        let line = |text: String| lowering.line(text);
        line("k_i64 first_key = 0, end_key = keys;".to_owned());
        if let Some(mask) = &self.attention.mask {
            self.narrow_keys(scope, sides, mask);
        }
        line(format!(
            "const k_i64 first_seen = first_key / {keys}, seen = end_key > first_key ? (end_key + {}) / {keys} - first_seen : 0;",
            keys - 1
        ));
        match &self.splits {
            None => line("const k_i64 first_tile = first_seen, tiles = seen;".to_owned()),
            Some(splits) => {
                let number = lowering.quantity(&splits.number);
                line(format!(
                    "const k_i64 share = (seen + {number} - 1) / {number}, first_tile = first_seen + split * share;"
                ));
                line(
                    "const k_i64 tiles = k_min(k_max(seen - split * share, 0ll), share);"
                        .to_owned(),
                );
            }
        }
    }

    /// The loop over tiles of keys: a step per part of the depth, and one for the values. The tile of a step is filled
    /// one step earlier; the first step only fills.
    pub(super) fn steps(&self, scope: &Scope, sides: &Sides<'_>) {
        let (lowering, memory, filler) = (self.lowering, &self.memory, &self.filler);
        let element = filler.unit.element();
        let AttentionTile { keys, depth, .. } = *self.tile;
        let line = |text: String| lowering.line(text);
        let parts = match memory.keeps_queries {
            true => "1".to_owned(),
            false => format!(
                "(int)k_max(({} + {}) / {depth}, 1ll)",
                sides.keys.deep.size,
                depth - 1
            ),
        };
        line(format!("const int parts = {parts};"));
        line("const int steps = (int)tiles * (parts + 1);".to_owned());
        lowering.open("for (int step = -1; step < steps; ++step)");
        line(format!(
            "const int next = step + 1, part = next % (parts + 1); const k_i64 n0 = (first_tile + next / (parts + 1)) * {keys}, k0 = (k_i64)part * {depth};"
        ));
        line(
            "const bool fills_keys = next < steps && part < parts, fills_values = next < steps && part == parts;"
                .to_owned(),
        );
        line(format!(
            "{element}* const to = slots + next % 2 * {};",
            memory.slot
        ));
        let moving = (!memory.keeps_queries).then_some(&sides.queries);
        let with_keys = [
            Some((&sides.keys, "to".to_owned())),
            moving.map(|side| (side, format!("(to + {})", memory.keys))),
        ];
        let with_keys: Vec<(&Side<'_>, String)> = with_keys.into_iter().flatten().collect();
        let with_values = [(&sides.values, "to".to_owned())];
        let fills = [
            ("fills_keys", with_keys.as_slice()),
            ("fills_values", with_values.as_slice()),
        ];
        for (side, _) in fills.iter().flat_map(|(_, sides)| *sides) {
            filler.declare_ahead(side);
        }
        // All threads' copies for this step have completed, and the slot of the last step is free.
        line("if (step >= 0) { k_copy_wait<0>(); k_sync(); }".to_owned());
        for (condition, sides) in &fills {
            lowering.open(format_args!("if ({condition})"));
            for (side, to) in *sides {
                filler.start(scope, side, to);
            }
            lowering.close();
        }
        line("k_copy_commit();".to_owned());
        lowering.open("if (step >= 0)");
        self.compute(scope, sides);
        lowering.close();
        for (condition, sides) in &fills {
            lowering.open(format_args!("if ({condition})"));
            for (side, to) in *sides {
                filler.finish(side, to);
            }
            lowering.close();
        }
        lowering.close();
    }

    /// A step: products of queries and keys, the last of them followed by the softmax, or products of weights and
    /// values.
    fn compute(&self, scope: &Scope, sides: &Sides<'_>) {
        let (lowering, memory) = (self.lowering, &self.memory);
        let element = self.filler.unit.element();
        let line = |text: String| lowering.line(text);
        line(format!(
            "const int part = step % (parts + 1); const k_i64 n0 = (first_tile + step / (parts + 1)) * {};",
            self.tile.keys
        ));
        line(format!(
            "const {element}* const from = slots + step % 2 * {};",
            memory.slot
        ));
        lowering.open("if (part < parts)");
        line("if (part == 0) scores.clear();".to_owned());
        line(match memory.keeps_queries {
            true => "scores.multiply(queries, from);".to_owned(),
            false => format!("scores.multiply(from + {}, from);", memory.keys),
        });
        lowering.open("if (part == parts - 1)");
        self.score(scope, sides);
        line("online.join(scores, tile);".to_owned());
        if memory.weights > 0 {
            line("k_leave_turned(scores, weights);".to_owned());
        }
        lowering.close();
        lowering.close();
        line(match self.filler.unit.has_tensor_cores() {
            false => "else tile.multiply(weights, from);".to_owned(),
            true => {
                let parts = self.attention.parts;
                format!("else tile.template multiply_sums<{parts}>(scores, from);")
            }
        });
    }

    /// Computes scores from sums of products. Elements outside repeat the last row and key, so that nothing else is
    /// read, and a position beyond the last key gets the score of a masked key.
    fn score(&self, scope: &Scope, sides: &Sides<'_>) {
        let (lowering, attention) = (self.lowering, self.attention);
        let rows = &sides.queries.own;
        lowering.line(format_args!(
            "const int last_row = (int)k_min({} - m0, {}ll) - 1, last_key = (int)k_min(keys - n0, {}ll) - 1;",
            rows.size, self.tile.rows, self.tile.keys
        ));
        lowering.line("K_UNROLL");
        lowering.open("for (int r = 0; r < scores.ROWS; ++r)");
        lowering.line("const k_i64 row = m0 + k_min(scores.row(r), last_row);");
        let mut scope = scope.clone();
        split_points(lowering, &mut scope, "row", rows.axes);
        lowering.line("K_UNROLL");
        lowering.open("for (int c = 0; c < scores.COLUMNS; ++c)");
        lowering.line("const k_i64 key = n0 + k_min(scores.column(c), last_key);");
        lowering.line("const float product = scores.at(r, c);");
        let place = |scope: &mut Scope, stage, value: String| {
            scope.place(stage, When::Current, Place::Values(vec![value]));
        };
        place(&mut scope, attention.products, "product".to_owned());
        for &(array, axis) in &attention.arrays {
            scope.set_axis(axis, "key".to_owned());
            let value = lowering.value(&mut scope, lowering.kernel.stage(array).value, 0);
            place(&mut scope, array, value);
        }
        let (score, axis) = attention.score;
        scope.set_axis(axis, "key".to_owned());
        let score = lowering.value(&mut scope, score, 0);
        lowering.line(format_args!(
            "scores.at(r, c) = scores.column(c) <= last_key ? {score} : k_lowest();"
        ));
        lowering.close();
        lowering.close();
    }
}
