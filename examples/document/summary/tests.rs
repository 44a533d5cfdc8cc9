use clap::Parser;

use super::super::script::Edit;
use super::*;

fn moved(pause_us: u64, snapshot_bytes: u64) -> Move {
    Move { pause: Duration::from_micros(pause_us), snapshot_bytes }
}

/// One document, one edit, two moves: nothing wrong.
fn good() -> Outcome {
    Outcome {
        edits: 1,
        moves: vec![moved(300, 10), moved(100, 20)],
        sha256: "5eed".into(),
        matches: true,
        accounted_for: true,
        ballast_intact: true,
        ..Outcome::default()
    }
}

fn summary(outcomes: &[Outcome]) -> Summary {
    let writers = outcomes.len().to_string();
    let options = Options::parse_from(["document", "--moves", "2", "--writers", &writers]);
    let script =
        Script { start: String::new(), edits: vec![Edit::insert(0, "x")], end: "x".into() };
    Summary::new(&options, &script, outcomes, Duration::from_millis(1500))
}

#[test]
fn what_is_right_in_all_documents_is_all_right() {
    assert!(summary(&[good()]).all_right());
    let both = summary(&[good(), good()]);
    assert!(both.all_right());
    assert_eq!((both.edits, both.moves, both.bytes_moved, both.snapshot_bytes), (2, 4, 60, 20));
}

#[test]
fn anything_wrong_in_one_document_shows() {
    let wrongs: [fn(&mut Outcome); 11] = [
        |o| o.verdict.rolled_back = 1,
        |o| o.verdict.lost = 1,
        |o| o.verdict.doubled = 1,
        |o| o.verdict.reordered = 1,
        |o| o.verdict.foreign = 1,
        |o| (o.matches, o.accounted_for) = (false, false),
        |o| o.misfits = 1,
        |o| o.ballast_intact = false,
        |o| o.edits = 0,
        |o| o.moves.truncate(1),
        |o| o.problems.push("it rained".into()),
    ];
    for (nth, wrong) in wrongs.into_iter().enumerate() {
        let mut outcomes = [good(), good()];
        wrong(&mut outcomes[1]);
        let summary = summary(&outcomes);
        assert!(!summary.all_right(), "wrong {nth}");
        assert!(summary.to_string().ends_with("NOT all right"), "wrong {nth}");
    }
}

#[test]
fn a_late_problem_spoils_the_run() {
    let mut summary = summary(&[good()]);
    summary.spoil("host-a did not stop".into());
    assert!(!summary.all_right());
    assert!(summary.to_string().contains("problem    host-a did not stop\n"));
}

#[test]
fn a_text_that_differs_is_the_one_shown() {
    let bad = Outcome { sha256: "bad".into(), matches: false, accounted_for: false, ..good() };
    let short = Outcome { sha256: "short".into(), matches: false, ..good() };
    let all = [good(), short, bad];
    for (shown, of) in [("short", &all[..2]), ("bad", &all)] {
        let summary = summary(of);
        assert_eq!((summary.sha256.as_str(), summary.matches), (shown, false));
    }
}

#[test]
fn a_text_that_lacks_what_was_reported_does_not_match_and_is_all_right() {
    let mut short = Outcome { matches: false, ..good() };
    short.verdict.reported = 1;
    let told = summary(&[good(), short.clone()]);
    assert!(told.all_right());
    let json = serde_json::to_value(&told).unwrap();
    assert_eq!((&json["matches"], &json["missing_is_reported"]), (&false.into(), &true.into()));
    let text = told.to_string();
    assert!(
        text.contains("\ntext       lacks what was told to be missing, and nothing else ("),
        "{text}"
    );
    // One message more than was told of.
    short.verdict.lost = 1;
    let untold = summary(&[good(), short]);
    let json = serde_json::to_value(&untold).unwrap();
    assert_eq!((&json["matches"], &json["missing_is_reported"]), (&false.into(), &false.into()));
    assert!(!untold.all_right());
    assert!(untold.to_string().contains("\ntext       DIFFERS ("));
}

#[test]
fn pauses_are_summed_up_whatever_their_order() {
    let moves: Vec<Move> = (1..=200).rev().map(|us| moved(us, 0)).collect();
    assert_eq!(PauseMicros::of(&moves), PauseMicros { p50: 100, p99: 198, max: 200 });
    assert_eq!(PauseMicros::of(&[]), PauseMicros { p50: 0, p99: 0, max: 0 });
}

#[test]
fn what_ran_over_redis_says_so() {
    let line = "document --moves 2 --transport redis --cluster --processes";
    let options = Options::parse_from(line.split(' '));
    let script =
        Script { start: String::new(), edits: vec![Edit::insert(0, "x")], end: "x".into() };
    let mut summary = Summary::new(&options, &script, &[good()], Duration::from_secs(1));
    summary.pinged(Some(PingMicros { p50: 90 }));
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!((&json["transport"], &json["processes"]), (&"redis cluster".into(), &true.into()));
    assert_eq!(json["ping_us"]["p50"], 90);
    let text = summary.to_string();
    assert!(text.contains("3 hosts (durable, over redis cluster, each a process)\n"), "{text}");
    assert!(text.contains("\nping       p50 90.0µs\n"), "{text}");
    assert!(summary.all_right());
}

#[test]
fn the_json_has_what_was_promised() {
    let json = serde_json::to_value(summary(&[good()])).unwrap();
    for field in ["edits", "moves", "lost", "doubled", "reordered", "snapshot_bytes"] {
        assert!(json[field].is_u64(), "{field}");
    }
    for field in ["p50", "p99", "max"] {
        assert!(json["pause_us"][field].is_u64(), "{field}");
    }
    assert_eq!(json["sha256"], "5eed");
    assert_eq!((&json["matches"], &json["missing_is_reported"]), (&true.into(), &true.into()));
    assert!(json.get("ping_us").is_none());
}

#[test]
fn people_read_it_line_by_line() {
    let text = summary(&[good()]).to_string();
    let expected = "\
edits      1 by 1 writer, among 0 notes, in 1.5s
moves      2 of 2 between 3 hosts (durable)
lost       0
doubled    0
reordered  0
pause      p50 100.0µs, p99 300.0µs, max 300.0µs
moved      30 B in snapshots, the largest 20 B
text       matches (sha256 5eed)
all right";
    assert_eq!(text, expected);
}
