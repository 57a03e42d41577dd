//! Spans of batched requests. The export to a collector is tested with the `kiln` command.

use super::batching::{at_once, joining, scaled};
use super::support::{Fixture, SCALED};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

/// A span when it started.
#[derive(Clone, Debug, Default)]
struct Begun {
    id: u64,
    name: &'static str,
    model: String,
    requests: u64,
    /// The span's parent, if it has one.
    parent: Option<u64>,
}

impl Visit for Begun {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "model" {
            value.clone_into(&mut self.model);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "requests" {
            self.requests = value;
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "model" {
            self.model = format!("{value:?}");
        }
    }
}

/// All spans of this process, and all links between them.
#[derive(Clone, Default)]
struct Spans {
    begun: Arc<Mutex<Vec<Begun>>>,
    links: Arc<Mutex<Vec<(u64, u64)>>>,
}

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let parent = ctx.span(id).and_then(|span| span.parent());
        let mut begun = Begun {
            id: id.into_u64(),
            name: attributes.metadata().name(),
            parent: parent.map(|parent| parent.id().into_u64()),
            ..Begun::default()
        };
        attributes.record(&mut begun);
        self.begun.lock().unwrap().push(begun);
    }

    fn on_follows_from(&self, span: &Id, follows: &Id, _: Context<'_, S>) {
        let link = (span.into_u64(), follows.into_u64());
        self.links.lock().unwrap().push(link);
    }
}

#[test]
fn a_joined_call_has_a_link_to_the_call_of_each_request() {
    let spans = Spans::default();
    // Requests are computed on the server's threads, so the subscriber is global.
    let layer = spans.clone();
    let layer = layer.with_filter(Targets::new().with_target("kiln_serve", Level::INFO));
    tracing::subscriber::set_global_default(Registry::default().with(layer)).unwrap();
    let fixture = Fixture::new(&[("linked", SCALED, Some(&joining(6)))]);
    // Six rows: the batch is full when the last request arrives.
    let requests = [scaled(1, 0), scaled(2, 1), scaled(3, 2)];
    for answer in at_once(&fixture, "linked", &requests) {
        assert!(answer.get("error").is_none(), "{answer}");
    }
    let begun = spans.begun.lock().unwrap().clone();
    let links = spans.links.lock().unwrap().clone();
    let of = |name: &str| -> Vec<&Begun> {
        let named = begun.iter();
        named
            .filter(|span| span.name == name && span.model == "linked/1")
            .collect()
    };
    let (batches, calls) = (of("serve.batch"), of("serve.call"));
    assert_eq!(calls.len(), 3, "{begun:?}");
    assert!(!batches.is_empty(), "{begun:?}");
    let mut linked = BTreeSet::new();
    for batch in &batches {
        assert_eq!(batch.parent, None, "{batch:?}");
        let follows = links.iter().filter(|(from, _)| *from == batch.id);
        let follows: BTreeSet<u64> = follows.map(|&(_, to)| to).collect();
        assert_eq!(follows.len() as u64, batch.requests, "{batch:?}");
        linked.extend(follows);
    }
    let joined = calls.iter().filter(|call| call.requests > 1);
    assert_eq!(linked, joined.map(|call| call.id).collect());
    // Each call is in the trace of its request.
    let parents: BTreeSet<Option<u64>> = calls.iter().map(|call| call.parent).collect();
    assert_eq!(parents.len(), 3);
    for parent in parents {
        let request = begun.iter().find(|span| Some(span.id) == parent);
        assert_eq!(request.unwrap().name, "serve.request");
    }
}
