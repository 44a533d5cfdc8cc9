//! A `redis-server` of one's own.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, IntoConnectionInfo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::error::{ServerErr, io};
use super::guard::Guard;

/// How often another port is tried when somebody else took the one that was free.
const PORTS: usize = 5;
/// How often and how many times the server is asked whether it is up: 10 s in all.
const POLL: Duration = Duration::from_millis(10);
const POLLS: usize = 1_000;
/// How long a command that sets servers up may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a private server is set up.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    lines: Vec<String>,
    pub(super) cluster: bool,
    pub(super) sentinel: bool,
    tls: Option<(Vec<u8>, Vec<u8>)>,
    tls_clients: Option<Vec<u8>>,
}

impl ServerOptions {
    /// Asks for a password.
    #[must_use]
    pub fn password(self, password: &str) -> Self {
        self.line(format!("requirepass {}", quoted(password)))
    }

    /// Keeps what was written over a restart, written to the file at each command.
    #[must_use]
    pub fn append_only(self) -> Self {
        self.line("appendonly yes").line("appendfsync always")
    }

    /// Keeps what was written over a restart and over most losses of power: the file goes to the disk every
    /// second. It is one file for as long as the server is there, so that [`PrivateServer::tear_log`] finds it.
    #[must_use]
    pub fn append_every_second(self) -> Self {
        self.line("appendonly yes")
            .line("appendfsync everysec")
            .line("auto-aof-rewrite-percentage 0")
    }

    /// Adds a line to the configuration file, such as `maxmemory-policy allkeys-lru` or a `user` of the
    /// ACL.
    #[must_use]
    pub fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    /// Serves TLS on a port of its own beside the other one, with a certificate and its private key, both
    /// in PEM.
    #[must_use]
    pub fn tls(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.tls = Some((certificate.into(), key.into()));
        self
    }

    /// Serves over TLS only clients that show a certificate of this authority, whose own is given in PEM.
    #[must_use]
    pub fn tls_clients_of(mut self, root_certificate: impl Into<Vec<u8>>) -> Self {
        self.tls_clients = Some(root_certificate.into());
        self
    }

    pub(super) fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }

    pub(super) fn cluster(mut self) -> Self {
        self.cluster = true;
        self.line("cluster-enabled yes").line("cluster-node-timeout 2000")
    }
}

/// A word of the configuration file.
pub(super) fn quoted(word: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in word.bytes() {
        // Writing to a string cannot fail.
        let _ = write!(quoted, "\\x{byte:02x}");
    }
    quoted.push('"');
    quoted
}

/// A `redis-server` on a free port of the loopback, with a folder of its own. It ends, and its folder
/// goes, when this is dropped, and also when this process is killed.
#[derive(Debug)]
pub struct PrivateServer {
    child: Child,
    guard: Option<Guard>,
    directory: PathBuf,
    port: u16,
    tls_port: Option<u16>,
    sentinel: bool,
}

impl PrivateServer {
    /// Starts one that keeps nothing over a restart.
    ///
    /// # Errors
    /// [`ServerErr`] when there is none to start, or it does not come up.
    pub async fn start() -> Result<Self, ServerErr> {
        Self::start_with(ServerOptions::default()).await
    }

    /// Starts one as told.
    ///
    /// # Errors
    /// [`ServerErr`] when there is none to start, or it does not come up.
    pub async fn start_with(options: ServerOptions) -> Result<Self, ServerErr> {
        let mut failure = ServerErr::NotInstalled;
        for _ in 0..PORTS {
            let directory = new_directory()?;
            let port = free_port()?;
            let tls_port = options.tls.as_ref().map(|_| free_port()).transpose()?;
            write_config(&directory, port, tls_port, &options)?;
            let sentinel = options.sentinel;
            let child = match launch(&directory, sentinel) {
                Ok(child) => child,
                Err(error) => {
                    // Nothing else is in the folder yet that could be worth keeping.
                    let _ = std::fs::remove_dir_all(&directory);
                    return Err(error);
                }
            };
            let mut server = Self { child, guard: None, directory, port, tls_port, sentinel };
            server.guard()?;
            match server.wait_until_up().await {
                Ok(()) => return Ok(server),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Where it speaks TLS, if it was told to.
    pub fn tls_url(&self) -> Option<String> {
        self.tls_port.map(|port| format!("rediss://127.0.0.1:{port}"))
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it as a crash does. [`PrivateServer::restart`] brings it back.
    ///
    /// # Errors
    /// [`ServerErr::Io`] when that fails.
    pub fn kill9(&mut self) -> Result<(), ServerErr> {
        // First, or it could kill whoever gets the number of the process next.
        self.guard = None;
        self.child.kill().map_err(io("kill redis-server"))?;
        self.child.wait().map(drop).map_err(io("wait for redis-server to end"))
    }

    /// Starts it again on the same port and folder, after ending it when it runs.
    ///
    /// # Errors
    /// [`ServerErr`] when it does not come up.
    pub async fn restart(&mut self) -> Result<(), ServerErr> {
        self.kill9()?;
        self.child = launch(&self.directory, self.sentinel)?;
        self.guard()?;
        self.wait_until_up().await
    }

    /// How long the log of commands is, in bytes.
    ///
    /// # Errors
    /// [`ServerErr::Io`] when there is no such log.
    pub fn log_bytes(&self) -> Result<u64, ServerErr> {
        let log = std::fs::metadata(self.log()).map_err(io("look at the log of commands"))?;
        Ok(log.len())
    }

    /// Deletes all that it holds, as `FLUSHALL` does.
    ///
    /// # Errors
    /// [`ServerErr::Io`] when it does not.
    pub async fn wipe(&self) -> Result<(), ServerErr> {
        let wiped = async {
            let mut connection = self.connect(None).await?;
            redis::cmd("FLUSHALL").exec_async(&mut connection).await
        };
        wiped
            .await
            .map_err(|why| io("have redis-server delete everything")(std::io::Error::other(why)))
    }

    /// Cuts the log of commands off, as a loss of power may: `keep` says how many of its bytes stay. For a
    /// server that was started with [`ServerOptions::append_only`] or
    /// [`ServerOptions::append_every_second`], and does not run now.
    ///
    /// # Errors
    /// [`ServerErr::Io`] when there is no such log.
    pub fn tear_log(&self, keep: impl FnOnce(&[u8]) -> usize) -> Result<(), ServerErr> {
        let log = self.log();
        let bytes = std::fs::read(&log).map_err(io("read the log of commands"))?;
        let kept = &bytes[..keep(&bytes).min(bytes.len())];
        std::fs::write(&log, kept).map_err(io("write the log of commands"))
    }

    /// Stops it in its tracks, connections open, until [`PrivateServer::resume`].
    ///
    /// # Errors
    /// [`ServerErr::Io`] when that fails.
    pub fn pause(&self) -> Result<(), ServerErr> {
        self.signal("STOP")
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// [`ServerErr::Io`] when that fails.
    pub fn resume(&self) -> Result<(), ServerErr> {
        self.signal("CONT")
    }

    /// A connection for setting things up, patient as a busy machine needs it.
    pub(super) async fn connect(
        &self,
        password: Option<&str>,
    ) -> redis::RedisResult<MultiplexedConnection> {
        let mut info = self.url().into_connection_info()?;
        if let Some(password) = password {
            let settings = info.redis_settings().clone().set_password(password);
            info = info.set_redis_settings(settings);
        }
        let options = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        redis::Client::open(info)?.get_multiplexed_async_connection_with_config(&options).await
    }

    fn signal(&self, signal: &str) -> Result<(), ServerErr> {
        // By a shell, which has `kill` built in: sending a signal needs unsafe code otherwise.
        let status = Command::new("sh")
            .args(["-c", "kill -s \"$0\" \"$1\"", signal, &self.child.id().to_string()])
            .stdin(Stdio::null())
            .status()
            .map_err(io("run sh"))?;
        if status.success() {
            Ok(())
        } else {
            Err(io("send a signal to redis-server")(std::io::Error::other(status.to_string())))
        }
    }

    fn guard(&mut self) -> Result<(), ServerErr> {
        let guard = Guard::over(self.child.id(), &self.directory);
        self.guard = Some(guard.map_err(io("guard redis-server by a shell"))?);
        Ok(())
    }

    async fn wait_until_up(&mut self) -> Result<(), ServerErr> {
        for _ in 0..POLLS {
            // Asked after the greeting too: somebody else may have the port.
            let answers = greeted(self.port).await;
            if self.child.try_wait().map_err(io("look after redis-server"))?.is_some() {
                break;
            }
            if answers {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        Err(ServerErr::DidNotStart { log: self.log_end() })
    }

    fn log(&self) -> PathBuf {
        self.directory.join("appendonlydir").join("appendonly.aof.1.incr.aof")
    }

    fn log_end(&self) -> String {
        let log = std::fs::read(self.directory.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(500)..]).into_owned()
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        self.guard = None;
        // Whatever fails here has ended or gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn new_directory() -> Result<PathBuf, ServerErr> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ractor-rooms-redis-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        match std::fs::DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(directory),
            // Left by a process with the same id that was killed.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io("make a folder for redis-server")(error)),
        }
    }
}

pub(super) fn free_port() -> Result<u16, ServerErr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io("find a free port"))?;
    Ok(listener.local_addr().map_err(io("find a free port"))?.port())
}

fn write_config(
    directory: &std::path::Path,
    port: u16,
    tls_port: Option<u16>,
    options: &ServerOptions,
) -> Result<(), ServerErr> {
    let mut text = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\nlogfile {}\n",
        quoted(&directory.to_string_lossy()),
        quoted(&directory.join("log").to_string_lossy()),
    );
    // Sentinels know neither.
    if !options.sentinel {
        text.push_str("save \"\"\nenable-debug-command local\n");
    }
    if let (Some(port), Some(tls)) = (tls_port, &options.tls) {
        text.push_str(&write_certificates(directory, port, tls, options.tls_clients.as_deref())?);
    }
    if options.cluster {
        let _ = writeln!(text, "cluster-port {}", free_port()?);
    }
    for line in &options.lines {
        let _ = writeln!(text, "{line}");
    }
    std::fs::write(directory.join("redis.conf"), text).map_err(io("write redis.conf"))
}

/// Writes certificates and key, and gives the lines of the configuration that name them.
fn write_certificates(
    directory: &std::path::Path,
    port: u16,
    (certificate, key): &(Vec<u8>, Vec<u8>),
    clients: Option<&[u8]>,
) -> Result<String, ServerErr> {
    let write = |name: &str, pem: &[u8]| {
        let path = directory.join(name);
        std::fs::write(&path, pem).map_err(io("write a certificate or key for redis-server"))?;
        Ok(quoted(&path.to_string_lossy()))
    };
    let mut text = format!(
        "tls-port {port}\ntls-cert-file {}\ntls-key-file {}\n",
        write("certificate.pem", certificate)?,
        write("key.pem", key)?,
    );
    match clients {
        Some(root) => {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "tls-ca-cert-file {}", write("root.pem", root)?);
        }
        None => text.push_str("tls-auth-clients no\n"),
    }
    Ok(text)
}

fn launch(directory: &std::path::Path, sentinel: bool) -> Result<Child, ServerErr> {
    let started = Command::new("redis-server")
        .arg(directory.join("redis.conf"))
        .args(sentinel.then_some("--sentinel"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C on the terminal is for the starter, which ends the server when it is done with it.
        .process_group(0)
        .spawn();
    started.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => ServerErr::NotInstalled,
        _ => io("start redis-server")(error),
    })
}

/// Whether a server answers and has loaded its data.
async fn greeted(port: u16) -> bool {
    let greeting = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.write_all(b"PING\r\n").await?;
        let mut answer = [0; 16];
        let read = stream.read(&mut answer).await?;
        std::io::Result::Ok(
            answer[..read].starts_with(b"+PONG") || answer[..read].starts_with(b"-NOAUTH"),
        )
    };
    matches!(tokio::time::timeout(Duration::from_secs(1), greeting).await, Ok(Ok(true)))
}
