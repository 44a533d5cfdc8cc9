//! Sessions and inboxes.

use bytes::Bytes;

use super::bench::*;
use crate::id::Incarnation;
use crate::protocol::session::OpenAnswer;
use crate::transport::Letter;

/// One session a host: another is refused while it lasts, and says until when.
pub(super) async fn session_is_one_a_host(b: &Bench<'_>) {
    let a = b.host("a").await;
    assert_eq!(a.host, host_id("a"));
    let again = b.there.open_session(&host_id("a"), b.subject.ttl(), spec(1)).await.unwrap();
    given!(again, OpenAnswer::Taken { .. });
    let other = b.host("b").await;
    let mut sessions = b.there.sessions().await.unwrap();
    sessions.sort_by(|x, y| x.incarnation.cmp(&y.incarnation));
    let seen: Vec<_> = sessions.iter().map(|s| s.incarnation.clone()).collect();
    assert_eq!(seen, [a, other]);
    assert_eq!(sessions[0].spec, spec(0), "a refused one changes nothing");
}

/// A renewal keeps the session and replaces what the host says of itself.
pub(super) async fn session_is_renewed(b: &Bench<'_>) {
    let a = b.mortal("a").await;
    let long = b.subject.ttl() * 1_000;
    assert!(b.here.renew_session(&a, long, spec(5)).await.unwrap());
    b.subject.let_sessions_lapse().await;
    let sessions = b.there.sessions().await.unwrap();
    assert_eq!(sessions.len(), 1);
    assert_eq!((&sessions[0].incarnation, &sessions[0].spec), (&a, &spec(5)));
    assert!(b.here.renew_session(&a, long, spec(6)).await.unwrap());
}

/// A lapse cannot be undone: not by a renewal, before or after the next start.
pub(super) async fn lapsed_session_stays_lapsed(b: &Bench<'_>) {
    let a = b.mortal("a").await;
    b.subject.let_sessions_lapse().await;
    assert!(b.there.sessions().await.unwrap().is_empty());
    let ttl = b.subject.ttl() * 1_000;
    assert!(!b.here.renew_session(&a, ttl, spec(0)).await.unwrap());
    assert!(b.there.sessions().await.unwrap().is_empty());
    let next = b.host("a").await;
    assert!(next.number > a.number, "{next} after {a}");
    assert!(!b.here.renew_session(&a, ttl, spec(7)).await.unwrap());
    let sessions = b.there.sessions().await.unwrap();
    assert_eq!((&sessions[0].incarnation, &sessions[0].spec), (&next, &spec(0)));
    b.here.close_session(&a).await.unwrap();
    assert_eq!(b.there.sessions().await.unwrap().len(), 1, "a late close is of the old one");
}

/// A session that was closed is over at once, and the host may start again.
pub(super) async fn session_is_closed(b: &Bench<'_>) {
    let a = b.host("a").await;
    for _ in 0..2 {
        b.here.close_session(&a).await.unwrap();
        assert!(b.there.sessions().await.unwrap().is_empty());
    }
    assert!(!b.here.renew_session(&a, b.subject.ttl(), spec(0)).await.unwrap());
    let next = b.host("a").await;
    assert!(next.number > a.number);
}

/// Incarnations differ, whoever opens them and however fast.
pub(super) async fn incarnations_never_repeat(b: &Bench<'_>) {
    let mut numbers = std::collections::BTreeSet::new();
    for _ in 0..5 {
        let a = b.host("a").await;
        assert!(numbers.insert(a.number), "{a} again");
        b.here.close_session(&a).await.unwrap();
    }
    let none = Incarnation { host: host_id("nobody"), number: 1 };
    b.here.close_session(&none).await.unwrap();
}

fn letters(from: &[(u64, &str)]) -> Vec<Letter> {
    from.iter()
        .map(|(position, letter)| Letter {
            position: *position,
            letter: Bytes::copy_from_slice(letter.as_bytes()),
        })
        .collect()
}

/// Letters are numbered from 1, stay until they were read, and are forgotten up to a place.
pub(super) async fn inbox_keeps_letters_until_read(b: &Bench<'_>) {
    let a = b.host("a").await;
    assert_eq!(b.here.read_inbox(&a, 0).await.unwrap(), []);
    for letter in ["one", "t\0o", ""] {
        assert!(b.there.post(&a, Bytes::copy_from_slice(letter.as_bytes())).await.unwrap());
    }
    let all = letters(&[(1, "one"), (2, "t\0o"), (3, "")]);
    assert_eq!(b.here.read_inbox(&a, 0).await.unwrap(), all);
    assert_eq!(b.here.read_inbox(&a, 0).await.unwrap(), all, "reading forgets nothing by itself");
    assert_eq!(b.here.read_inbox(&a, 2).await.unwrap(), all[2..]);
    assert_eq!(b.here.read_inbox(&a, 0).await.unwrap(), all[2..], "forgotten up to there");
    assert!(b.there.post(&a, "four".into()).await.unwrap());
    assert_eq!(b.here.read_inbox(&a, 3).await.unwrap(), letters(&[(4, "four")]));
    assert_eq!(b.here.read_inbox(&a, 4).await.unwrap(), []);
    assert!(b.there.post(&a, "five".into()).await.unwrap());
    assert_eq!(
        b.here.read_inbox(&a, 4).await.unwrap(),
        letters(&[(5, "five")]),
        "places go on in an empty inbox"
    );
}

/// There is an inbox for a living incarnation only, and the next start does not inherit it.
pub(super) async fn inbox_belongs_to_an_incarnation(b: &Bench<'_>) {
    let unknown = Incarnation { host: host_id("nobody"), number: 1 };
    assert!(!b.there.post(&unknown, "x".into()).await.unwrap());
    let a = b.mortal("a").await;
    assert!(b.there.post(&a, "x".into()).await.unwrap());
    b.subject.let_sessions_lapse().await;
    assert!(!b.there.post(&a, "x".into()).await.unwrap(), "it has lapsed");
    let next = b.host("a").await;
    assert!(!b.there.post(&a, "x".into()).await.unwrap(), "it is another");
    assert_eq!(b.here.read_inbox(&next, 0).await.unwrap(), []);
    assert!(b.there.post(&next, "y".into()).await.unwrap());
    assert_eq!(b.here.read_inbox(&next, 0).await.unwrap(), letters(&[(1, "y")]));
    b.here.close_session(&next).await.unwrap();
    assert!(!b.there.post(&next, "x".into()).await.unwrap(), "it has ended");
    assert_eq!(b.here.read_inbox(&next, 0).await.unwrap(), []);
}
