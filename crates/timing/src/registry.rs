//! The events of a recorder, by name. Invariant: an event is never changed or removed, so its index stays valid.
//!
//! The first four are those of the categories, for work without a separate event.

use std::collections::BTreeMap;
use std::sync::Arc;

use kiln_fork_lock::ForkLock;

use crate::category::Category;
use crate::error::TimingError;
use crate::event::EventInfo;

/// The maximum number of events of a recorder: a few per kernel.
pub(crate) const MAX_EVENTS: usize = 1 << 16;

/// The maximum length of a name, in bytes.
pub(crate) const MAX_NAME: usize = 256;

/// The number of names listed in an error.
const LISTED: usize = 40;

/// Events by name. The list of events is only ever added to, without a lock, so readers never block.
#[derive(Debug)]
pub(crate) struct Registry {
    events: Arc<boxcar::Vec<EventInfo>>,
    /// The index of each name. Held by the thread that registers; a forked child that finds it locked forever rebuilds it
    /// from the list.
    by_name: ForkLock<BTreeMap<Arc<str>, u32>>,
}

impl Registry {
    /// A registry with only the events of the categories.
    pub(crate) fn new() -> Self {
        let events = Arc::new(boxcar::Vec::new());
        for category in Category::ALL {
            events.push(EventInfo {
                category,
                name: format!("other_{category}").into(),
                description: format!("Time in category {category} without an event of its own")
                    .into(),
            });
        }
        let list = Arc::clone(&events);
        let named = move || {
            let named = |(index, event): (usize, &EventInfo)| {
                // There are at most `MAX_EVENTS`.
                (Arc::clone(&event.name), index as u32)
            };
            list.iter().map(named).collect()
        };
        Self {
            events,
            by_name: ForkLock::new(named),
        }
    }

    /// The index of a category's own event.
    pub(crate) fn of_category(category: Category) -> u32 {
        category as u32
    }

    /// Registers an event; registering the same one again returns it.
    ///
    /// # Errors
    /// When the name is empty, too long or has control characters, when it is taken, when there are too many.
    pub(crate) fn register(
        &self,
        category: Category,
        name: &str,
        description: &str,
    ) -> Result<u32, TimingError> {
        if name.is_empty() || name.len() > MAX_NAME || name.contains(char::is_control) {
            return Err(TimingError::EventName {
                found: shortened(name, 60),
                limit: MAX_NAME,
            });
        }
        let mut by_name = self.by_name.lock();
        if let Some(&index) = by_name.get(name)
            && let Some(known) = self.events.get(index as usize)
        {
            return same(known, category, description).map(|()| index);
        }
        if self.events.count() >= MAX_EVENTS {
            return Err(TimingError::TooManyEvents {
                name: name.to_owned(),
                limit: MAX_EVENTS,
            });
        }
        let name: Arc<str> = name.into();
        let index = self.events.push(EventInfo {
            category,
            name: Arc::clone(&name),
            description: description.into(),
        }) as u32;
        by_name.insert(name, index);
        Ok(index)
    }

    /// The event with that name.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn find(&self, name: &str) -> Result<u32, TimingError> {
        let by_name = self.by_name.lock();
        by_name.get(name).copied().ok_or_else(|| {
            let mut expected = by_name
                .keys()
                .take(LISTED)
                .map(|name| &**name)
                .collect::<Vec<_>>()
                .join(", ");
            if by_name.len() > LISTED {
                expected.push_str(&format!(" and {} more", by_name.len() - LISTED));
            }
            TimingError::UnknownEvent {
                found: shortened(name, 60),
                expected,
            }
        })
    }

    /// All events so far.
    pub(crate) fn events(&self) -> Vec<EventInfo> {
        self.events.iter().map(|(_, event)| event.clone()).collect()
    }

    /// The category of an event, if there is such an event.
    pub(crate) fn category(&self, index: u32) -> Option<Category> {
        self.events.get(index as usize).map(|event| event.category)
    }

    /// Calls with an event, if it exists.
    pub(crate) fn with<R>(&self, index: u32, look: impl FnOnce(&EventInfo) -> R) -> Option<R> {
        self.events.get(index as usize).map(look)
    }
}

/// Whether an event is registered again with the same meaning.
fn same(known: &EventInfo, category: Category, description: &str) -> Result<(), TimingError> {
    if known.category == category && &*known.description == description {
        return Ok(());
    }
    let said = |category: Category, description: &str| {
        format!("\"{}\" of category {category}", shortened(description, 100))
    };
    Err(TimingError::EventTaken {
        name: known.name.to_string(),
        registered: said(known.category, &known.description),
        given: said(category, description),
    })
}

/// A function's name as part of an event's name: printable, and short enough.
pub(crate) fn name_of_function(prefix: &str, function: &str) -> String {
    let mut name = prefix.to_owned();
    for character in function.chars() {
        let character = if character.is_control() {
            '?'
        } else {
            character
        };
        if name.len() + character.len_utf8() > MAX_NAME {
            break;
        }
        name.push(character);
    }
    name
}

/// The beginning of a text, on one line.
fn shortened(text: &str, characters: usize) -> String {
    let mut beginning: String = text.chars().take(characters).collect();
    if beginning.len() < text.len() {
        beginning.push('…');
    }
    beginning.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_event_is_one_and_another_is_refused() {
        let registry = Registry::new();
        let first = registry
            .register(Category::Build, "import", "Reading a model")
            .unwrap();
        let again = registry
            .register(Category::Build, "import", "Reading a model")
            .unwrap();
        assert_eq!((first, again), (4, 4));
        assert_eq!(registry.category(first), Some(Category::Build));
        assert_eq!(registry.category(99), None);
        let taken = registry
            .register(Category::Runtime, "import", "Reading a model")
            .unwrap_err();
        assert_eq!(taken.code(), "E0752");
        insta::assert_snapshot!(taken, @r#"the event `import` is already "Reading a model" of category build, and cannot become "Reading a model" of category runtime; choose another name"#);
        assert!(
            registry
                .register(Category::Build, "import", "Other words")
                .is_err()
        );
    }

    #[test]
    fn an_unregistered_event_is_refused_with_the_list() {
        let registry = Registry::new();
        registry
            .register(Category::Compile, "compile_mlp", "Compilation time for mlp")
            .unwrap();
        assert_eq!(registry.find("compile_mlp").unwrap(), 4);
        let error = registry.find("compile_mpl").unwrap_err();
        assert_eq!(error.code(), "E0751");
        insta::assert_snapshot!(error, @"expected a registered event, found `compile_mpl`; registered are compile_mlp, other_build, other_codegen, other_compile, other_runtime");
        for number in 0..50 {
            registry
                .register(Category::Runtime, &format!("run_{number}"), "A step")
                .unwrap();
        }
        assert!(
            registry
                .find("x")
                .unwrap_err()
                .to_string()
                .ends_with("and 15 more")
        );
    }

    #[test]
    fn names_are_printable_and_bounded() {
        let registry = Registry::new();
        for name in ["", "a\nb", &"x".repeat(MAX_NAME + 1)] {
            let error = registry.register(Category::Build, name, "").unwrap_err();
            assert_eq!(error.code(), "E0753");
            assert!(error.to_string().len() < 300, "{error}");
        }
        let long = name_of_function("compile_", &"é\n".repeat(1000));
        assert!(long.len() <= MAX_NAME && long.starts_with("compile_é?é"));
        assert!(registry.register(Category::Compile, &long, "").is_ok());
    }

    #[test]
    fn the_number_of_events_is_limited() {
        let registry = Registry::new();
        for number in 4..MAX_EVENTS {
            registry
                .register(Category::Runtime, &number.to_string(), "")
                .unwrap();
        }
        let error = registry
            .register(Category::Runtime, "one more", "")
            .unwrap_err();
        assert_eq!(error.code(), "E0755");
        assert!(registry.register(Category::Runtime, "77", "").is_ok());
    }
}
