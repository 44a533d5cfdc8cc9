//! TLS with certificates of one's own.

use bytes::Bytes;
use futures::StreamExt;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::config::RedisConfig;
use crate::error::ConnectErr;
use crate::link::fixture::{int, log_to, logged};
use crate::testing::{PrivateServer, ServerOptions};

const KEY: &str = "t:{s1}:log";

/// Who signs certificates.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        // Where both have the same name, OpenSSL takes what was signed for signed by itself.
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("signed by itself").pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate for a name, and its key.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        (certificate.pem(), key.serialize_pem())
    }

    /// Options of a server that shows a certificate for a name.
    fn serve(&self, name: &str) -> ServerOptions {
        let (certificate, key) = self.sign(name);
        ServerOptions::default().tls(certificate, key)
    }
}

async fn start(options: ServerOptions) -> (PrivateServer, String) {
    let server = PrivateServer::start_with(options).await.expect("redis-server starts");
    let url = server.tls_url().expect("it speaks TLS");
    (server, url)
}

async fn refused(config: RedisConfig) -> ConnectErr {
    config.open().await.expect_err("it was opened")
}

#[tokio::test]
async fn own_authority_serves_calls_bulk_and_pushes() {
    let authority = Authority::new();
    let (_server, url) = start(authority.serve("127.0.0.1")).await;
    let config = RedisConfig::new(url).root_certificate(authority.pem);
    let link = config.open().await.expect("the server is trusted");
    let calls = (0..100).map(|number| link.call(log_to(KEY, number)));
    for answer in futures::future::join_all(calls).await {
        answer.expect("an answer");
    }
    assert_eq!(logged(&link, KEY).await, (0..100).collect::<Vec<u64>>());

    let bytes = vec![7_u8; 3 << 20];
    let mut put = redis::pipe();
    put.cmd("SET").arg("t:{s1}:snap").arg(&bytes).cmd("STRLEN").arg("t:{s1}:snap");
    assert_eq!(int(&link.bulk(put).await.expect("it is put")[1]), 3 << 20);

    let channel = Bytes::from_static(b"t:{s1}:to:1");
    let mut subscription = link.subscribe(vec![channel.clone()]).await.expect("subscribed");
    let mut publish = redis::pipe();
    publish.cmd("PUBLISH").arg(&*channel).arg("x");
    assert_eq!(int(&link.read(publish).await.expect("published")[0]), 1);
    assert_eq!(subscription.next().await, Some((channel, Bytes::from_static(b"x"))));
}

#[tokio::test]
async fn another_authority_or_name_is_refused() {
    let authority = Authority::new();
    let (_server, url) = start(authority.serve("127.0.0.1")).await;
    let (_other, other_url) = start(authority.serve("other.example")).await;
    for (config, told) in [
        (RedisConfig::new(&*url), "UnknownIssuer"),
        (RedisConfig::new(&*url).root_certificate(Authority::new().pem), "certificate"),
        (RedisConfig::new(other_url).root_certificate(&*authority.pem), "not valid for name"),
    ] {
        let error = refused(config).await;
        let ConnectErr::TlsHandshake { reason, .. } = &error else { panic!("{error:?}") };
        assert!(reason.contains(told), "{reason}");
    }
}

#[tokio::test]
async fn plain_address_of_a_tls_port() {
    let (_server, url) = start(Authority::new().serve("127.0.0.1")).await;
    let error = refused(RedisConfig::new(url.replace("rediss://", "redis://"))).await;
    assert!(matches!(error, ConnectErr::TlsRequired { .. }), "{error:?}");
}

#[tokio::test]
async fn server_that_asks_who_the_client_is() {
    let authority = Authority::new();
    let options = authority.serve("127.0.0.1").tls_clients_of(&*authority.pem);
    let (_server, url) = start(options).await;
    let config = || RedisConfig::new(&*url).root_certificate(&*authority.pem);
    let (certificate, key) = authority.sign("host-a");
    let link = config().client_certificate(&*certificate, key).open().await.expect("known");
    link.call(log_to(KEY, 1)).await.expect("an answer");

    let (unknown, unknown_key) = Authority::new().sign("host-a");
    for config in [
        config(),
        config().client_certificate(unknown, &*unknown_key),
        // A key that does not belong to the certificate.
        config().client_certificate(certificate, unknown_key),
    ] {
        let error = refused(config).await;
        assert!(matches!(error, ConnectErr::TlsHandshake { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn certificates_that_are_none() {
    let authority = Authority::new();
    let (certificate, key) = authority.sign("host-a");
    let damaged = certificate.replace("MII", "AAA");
    let tls = || RedisConfig::new("rediss://127.0.0.1:1");
    for (config, named) in [
        (tls().root_certificate(""), "root_certificate"),
        (tls().root_certificate("no PEM"), "root_certificate"),
        (tls().root_certificate(&*key), "root_certificate"),
        (tls().root_certificate(damaged), "root_certificate"),
        (tls().client_certificate("", &*key), "client_certificate"),
        (tls().client_certificate(&*certificate, &*certificate), "client_certificate"),
        (
            RedisConfig::new("redis://127.0.0.1:1").root_certificate(&*authority.pem),
            "root_certificate",
        ),
        (
            RedisConfig::new("redis://127.0.0.1:1").client_certificate(&*certificate, &*key),
            "client_certificate",
        ),
    ] {
        let told = format!("{config:?}");
        assert!(!told.contains("PRIVATE KEY"), "{told}");
        let error = refused(config).await;
        let ConnectErr::InvalidOption { option, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*option, named, "{error}");
    }
}
