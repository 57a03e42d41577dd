//! Tokens, the cursor, diagnostics, and reading of sizes; hostile texts give diagnostics.

use proptest::prelude::*;

use super::{
    Cursor, Diagnostic, Diagnostics, Lexer, Span, TokenKind, is_identifier, parse_dim,
    parse_predicate, parse_shape, parse_where,
};
use crate::{DimTable, Predicate};

fn kinds(source: &str) -> Vec<TokenKind<'_>> {
    let mut lexer = Lexer::new(source);
    std::iter::from_fn(|| Some(lexer.next_token().kind).filter(|kind| *kind != TokenKind::End))
        .collect()
}

fn printed(source: &str) -> String {
    kinds(source)
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn tokens_of_every_kind() {
    insta::assert_snapshot!(
        printed("graph @mlp.main(%x: f32[B_1.2, 128]) -> {%2 := 1.5e-3; a != b == c <= d >= e < f > g} // end\n? | * / + - = inf"),
        @"`graph` `@mlp.main` `(` `%x` `:` `f32` `[` `B_1.2` `,` `128` `]` `)` `->` `{` `%2` `:=` `0.0015` `;` `a` `!=` `b` `==` `c` `<=` `d` `>=` `e` `<` `f` `>` `g` `}` `?` `|` `*` `/` `+` `-` `=` `inf`"
    );
    assert_eq!(
        kinds("N % 8"),
        [
            TokenKind::Identifier("N"),
            TokenKind::Percent,
            TokenKind::Integer(8)
        ]
    );
    assert_eq!(
        kinds("N %8"),
        [TokenKind::Identifier("N"), TokenKind::Value("8")]
    );
    assert_eq!(kinds("%(x)")[0], TokenKind::Percent);
    assert_eq!(
        kinds("1.x"),
        [
            TokenKind::Integer(1),
            TokenKind::Invalid("an unexpected character"),
            TokenKind::Identifier("x")
        ]
    );
    assert_eq!(
        kinds("18446744073709551615"),
        [TokenKind::Integer(u64::MAX)]
    );
    assert_eq!(kinds("1e400"), [TokenKind::Float(f64::INFINITY)]);
}

#[test]
fn strings_replace_escapes() {
    let text = |source: &str| match kinds(source).as_slice() {
        [TokenKind::String(text)] => text.to_string(),
        other => format!("{other:?}"),
    };
    assert_eq!(text(r#""plain é""#), "plain é");
    assert_eq!(text(r#""a\n\t\r\0\\\"\u{1F600}b""#), "a\n\t\r\0\\\"😀b");
    assert_eq!(
        text(r#""\q""#),
        r#"[Invalid("a string with an unknown escape")]"#
    );
    assert_eq!(
        text(r#""\u{110000}""#),
        r#"[Invalid("a string with an unknown escape")]"#
    );
    assert_eq!(
        text(r#""\u{0000000041}""#),
        r#"[Invalid("a string with an unknown escape")]"#
    );
    assert_eq!(text("\"open"), r#"[Invalid("an unterminated string")]"#);
    assert_eq!(text("\"open\\"), r#"[Invalid("an unterminated string")]"#);
}

#[test]
fn malformed_tokens_are_reported() {
    let first = |source: &str| Cursor::new(source).unexpected("a size").to_string();
    insta::assert_snapshot!(first("12ab"), @"[E0102] expected a size, found a number with letters after it");
    insta::assert_snapshot!(first("18446744073709551616"), @"[E0102] expected a size, found an integer above 18446744073709551615");
    insta::assert_snapshot!(first("@ x"), @"[E0102] expected a size, found `@` without a name");
    insta::assert_snapshot!(first("é"), @"[E0102] expected a size, found an unexpected character");
    insta::assert_snapshot!(first("! x"), @"[E0102] expected a size, found an unexpected character");
    insta::assert_snapshot!(first(""), @"[E0101] expected a size, found the end of the text");
}

#[test]
fn identifiers_start_with_a_letter_or_underscore() {
    assert!(
        is_identifier("a")
            && is_identifier("_1.b")
            && !is_identifier("1a")
            && !is_identifier("")
            && !is_identifier("é")
            && !is_identifier(".a")
    );
}

#[test]
fn cursor_reads_typed_tokens() {
    let mut cursor = Cursor::new(
        "where -9223372036854775808 9223372036854775808 -9223372036854775809 7 @main %x \"s\\n\" a ]",
    );
    assert!(cursor.eat_keyword("where") && !cursor.eat_keyword("where"));
    assert_eq!(cursor.integer(), Ok(i64::MIN));
    insta::assert_snapshot!(cursor.integer().unwrap_err(), @"[E0103] expected an integer from -9223372036854775808 to 9223372036854775807, found 9223372036854775808");
    insta::assert_snapshot!(cursor.integer().unwrap_err(), @"[E0103] expected an integer from -9223372036854775808 to 9223372036854775807, found -9223372036854775809");
    assert_eq!(cursor.unsigned(), Ok(7));
    assert_eq!(
        (cursor.value().unwrap_err().code, cursor.global()),
        ("E0101", Ok("main"))
    );
    assert_eq!(
        (cursor.string().unwrap_err().code, cursor.value()),
        ("E0101", Ok("x"))
    );
    assert_eq!(
        (cursor.unsigned().unwrap_err().code, cursor.string()),
        ("E0101", Ok("s\n".to_string()))
    );
    assert!(
        cursor.global().is_err()
            && cursor.integer().is_err()
            && cursor.expect_keyword("b").is_err()
    );
    assert_eq!(cursor.slice(cursor.span()), "a");
    let here = cursor.position();
    assert_eq!(cursor.identifier(), Ok("a"));
    assert!(cursor.identifier().is_err() && !cursor.eat(&TokenKind::Comma));
    assert!(cursor.expect(&TokenKind::CloseBracket).is_ok() && cursor.at_end());
    assert_eq!(
        (cursor.bump().kind, cursor.bump().kind),
        (TokenKind::End, TokenKind::End)
    );
    cursor.rewind(here);
    assert!(cursor.expect_keyword("a").is_ok() && cursor.at(&TokenKind::CloseBracket));
    assert_eq!(cursor.previous_span(), here_span("a", cursor.source()));
}

fn here_span(text: &str, source: &str) -> Span {
    let start = source.rfind(text).unwrap();
    Span {
        start,
        end: start + text.len(),
    }
}

#[test]
fn recovery_skips_nested_brackets() {
    let mut cursor = Cursor::new("bad (a; [b; {c;}];) d; good");
    cursor.recover_to(&[TokenKind::Semicolon]);
    assert!(cursor.eat(&TokenKind::Semicolon) && cursor.at_keyword("good"));
    cursor.recover_to(&[TokenKind::Semicolon]);
    assert!(cursor.at_end());
}

#[test]
fn lists_need_separators() {
    let mut table = DimTable::new();
    let mut shape =
        |source: &str| parse_shape(&mut Cursor::new(source), &mut table).map(|dims| dims.len());
    assert_eq!(
        (shape("[]"), shape("[A]"), shape("[A, 2*B]")),
        (Ok(0), Ok(1), Ok(2))
    );
    insta::assert_snapshot!(shape("[A B]").unwrap_err(), @"[E0101] expected `,` or `]`, found `B`");
    insta::assert_snapshot!(shape("[A,, B]").unwrap_err(), @"[E0101] expected a size: a number, a name or `(`, found `,`");
    insta::assert_snapshot!(shape("A]").unwrap_err(), @"[E0101] expected `[`, found `A`");
}

#[test]
fn diagnostics_show_the_place() {
    let source = "graph @f {\n\tx = a é b\n}";
    let span = Span {
        start: source.find('é').unwrap(),
        end: source.find('é').unwrap() + 2,
    };
    let mut diagnostics = Diagnostics::new();
    diagnostics.push(Diagnostic::new("E0101", "expected `,`, found `é`", span).note("write a, b"));
    diagnostics.extend([Diagnostic::new("E0201", "a graph needs a name", None)]);
    insta::assert_snapshot!(diagnostics.render(source), @r"
    error[E0101]: expected `,`, found `é`
     --> 2:8
    2 | \tx = a é b
      |         ^
      = write a, b
    error[E0201]: a graph needs a name
    ");
    insta::assert_snapshot!(diagnostics, @r"
    [E0101] expected `,`, found `é`; write a, b
    [E0201] a graph needs a name
    ");
    assert_eq!(
        (
            diagnostics.len(),
            diagnostics.iter().count(),
            (&diagnostics).into_iter().count()
        ),
        (2, 2, 2)
    );
    assert!(diagnostics.into_result(()).is_err() && Diagnostics::new().into_result(()).is_ok());
}

#[test]
fn control_characters_never_reach_the_terminal() {
    let source = "a \u{1b}[2J\u{202e} b";
    let diagnostic = Diagnostic::new("E0101", format!("found {source}"), None)
        .at(Span { start: 2, end: 3 })
        .note("\u{7}");
    let shown = diagnostic.render(source) + &diagnostic.to_string();
    assert!(
        !shown.contains(['\u{1b}', '\u{202e}', '\u{7}']),
        "{shown:?}"
    );
    assert!(shown.contains("\\u{1b}[2J\\u{202e}"));
}

#[test]
fn many_diagnostics_are_counted() {
    let mut diagnostics = Diagnostics::from(Diagnostic::new("E0101", "first", None));
    for _ in 0..999 {
        diagnostics.push(Diagnostic::new("E0101", "again", None));
    }
    assert_eq!((diagnostics.len(), diagnostics.iter().count()), (1000, 64));
    assert!(
        diagnostics.to_string().ends_with("\nand 936 more")
            && diagnostics.render("").ends_with("\nand 936 more")
    );
}

#[test]
fn long_lines_are_cut() {
    let source = format!("{}!{}", "x".repeat(100_000), "y".repeat(100_000));
    let shown = Diagnostic::new(
        "E0102",
        "bad",
        Span {
            start: 100_000,
            end: 150_000,
        },
    )
    .render(&source);
    assert!(shown.len() < 1_000, "{}", shown.len());
    let odd = Diagnostic::new(
        "E0102",
        "bad",
        Span {
            start: 400_000,
            end: 1,
        },
    )
    .render(&source);
    assert!(odd.len() < 1_000);
}

#[test]
fn nesting_is_limited() {
    let mut table = DimTable::new();
    for (open, close) in [
        ("(", ")"),
        ("min(1, ", ")"),
        ("ceil((", ") / 2)"),
        ("bcast(", ")"),
    ] {
        let deep = format!("{}N{}", open.repeat(100_000), close.repeat(100_000));
        let error = parse_dim(&mut Cursor::new(&deep), &mut table).unwrap_err();
        assert_eq!(error.code, "E0110", "{open}");
        let fine = format!("{}N{}", open.repeat(60), close.repeat(60));
        assert!(
            parse_dim(&mut Cursor::new(&fine), &mut table).is_ok(),
            "{open}"
        );
    }
}

#[test]
fn repeated_signs_do_not_count_as_nesting() {
    let mut table = DimTable::new();
    let n = table.symbol("N").unwrap();
    assert_eq!(
        parse_dim(
            &mut Cursor::new(&format!("{}N", "-".repeat(100_000))),
            &mut table
        ),
        Ok(n)
    );
}

#[test]
fn sizes_read_with_precedence() {
    let mut table = DimTable::new();
    let mut normal = |source: &str| match parse_dim(&mut Cursor::new(source), &mut table) {
        Ok(dim) => table.display(dim).to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(normal("1 + 2*3 - 4 / 2 % 3"), "5");
    assert_eq!(normal("-7 / 2"), "-4");
    assert_eq!(normal("-(7 / 2)"), "-3");
    assert_eq!(normal("- A*2"), "-2*A");
    assert_eq!(normal("ceil(2*H / 3)"), "(2*H + 2) / 3");
    assert_eq!(normal("ceil(H / 2 / 3)"), "(H + 4) / 6");
    assert_eq!(normal("ceil(7 % 4 * 3 / 2)"), "5");
    assert_eq!(normal("min*max"), "max*min");
    insta::assert_snapshot!(normal("ceil(H)"), @"[E0101] expected `/` and a divisor, found `)`");
    insta::assert_snapshot!(normal("min()"), @"[E0101] expected a size: a number, a name or `(`, found `)`");
    insta::assert_snapshot!(normal("A / (1 - 1)"), @"[E0303] expected a positive divisor, found 0");
    insta::assert_snapshot!(normal("A +"), @"[E0101] expected a size: a number, a name or `(`, found the end of the text");
}

#[test]
fn predicates_of_every_kind() {
    let mut table = DimTable::new();
    for text in [
        "A == B",
        "A*B != 3",
        "A <= B",
        "A < B",
        "A >= 1",
        "A > 1",
        "N % 8 == 0",
        "(A + B) % 8 == 0",
        "A % 4 == 2",
        "(A % 4) == 0",
        "product(A, B) == product(C, 4)",
        "product() == product(A)",
        "2 >= 1",
        "product == 3",
        "0 == A % 4",
    ] {
        let predicate = parse_predicate(&mut Cursor::new(text), &mut table).unwrap();
        assert_eq!(table.display_predicate(&predicate).to_string(), text);
        let again = parse_predicate(&mut Cursor::new(text), &mut table).unwrap();
        assert_eq!(again, predicate);
    }
    let (a, one) = (table.symbol("A").unwrap(), table.constant(1));
    assert_eq!(
        parse_predicate(&mut Cursor::new("A >= 1"), &mut table),
        Ok(Predicate::LessEqual(one, a))
    );
    let error = |source: &str, table: &mut DimTable| {
        parse_predicate(&mut Cursor::new(source), table)
            .unwrap_err()
            .to_string()
    };
    insta::assert_snapshot!(error("A", &mut table), @"[E0101] expected one of `==`, `!=`, `<=`, `<`, `>=`, `>`, found the end of the text");
    insta::assert_snapshot!(error("product(A) == 3", &mut table), @"[E0101] expected `product`, found `3`");
}

#[test]
fn where_clauses_report_contradictions_in_place() {
    let mut table = DimTable::new();
    let source = "B >= 1, B <= 0";
    let error = parse_where(&mut Cursor::new(source), &mut table).unwrap_err();
    insta::assert_snapshot!(error.render(source), @r"
    error[E0304]: B <= 0 contradicts what is known: B is in 1..
     --> 1:9
    1 | B >= 1, B <= 0
      |         ^^^^^^
    ");
    // A known name cannot become negative: the bound adds nothing new.
    parse_where(&mut Cursor::new("B >= -5, C >= -5 + D"), &mut table).unwrap();
    assert_eq!(table.contract_facts().len(), 2);
}

proptest! {
    #![proptest_config(crate::tests::config())]

    #[test]
    fn any_text_is_read_or_rejected(source in "\\PC{0,40}|[AB0-9+*/%(), ceilminb=<>-]{0,40}") {
        let mut table = DimTable::new();
        if let Err(diagnostic) = parse_dim(&mut Cursor::new(&source), &mut table) {
            let _ = diagnostic.render(&source);
        }
        let _ = parse_predicate(&mut Cursor::new(&source), &mut table);
        let _ = parse_where(&mut Cursor::new(&source), &mut DimTable::new());
    }

    #[test]
    fn tokens_cover_the_source_in_order(source in "\\PC{0,60}") {
        let mut lexer = Lexer::new(&source);
        let mut at = 0;
        loop {
            let token = lexer.next_token();
            prop_assert!(token.span.start >= at && source.get(token.span.start..token.span.end).is_some());
            if token.kind == TokenKind::End {
                break;
            }
            prop_assert!(token.span.end > token.span.start);
            at = token.span.end;
        }
    }
}
