//! A server to test against, and boards to send.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use loyd::puzzle::{Board, Direction, Shape, cantor};
use loyd::server::{Address, Bound, Config, Drained, Services};
use loyd::service::{DESCRIPTOR_SETS, NAME, Settings, Solver};
use loyd::wire::v1::solver_service_client::SolverServiceClient;
use loyd::wire::v1::{self as wire, SolveBatchRequest, SolveBatchResponse, solve_batch_request};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::service::Routes;
use tonic::transport::Channel;

/// A bound on every wait, far above what a loaded machine needs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for something that must come.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what)
        .await
        .expect("it takes for ever")
}

pub struct Server {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<Drained>,
}

impl Server {
    pub async fn start() -> Server {
        Server::with(Settings::default(), Config::default()).await
    }

    pub async fn with(settings: Settings, config: Config) -> Server {
        Server::ready_after(std::future::ready(()), settings, config).await
    }

    /// A server that is not ready until this resolves.
    pub async fn ready_after(
        ready: impl Future<Output = ()> + Send + 'static,
        settings: Settings,
        config: Config,
    ) -> Server {
        let solver = Solver::start(settings).unwrap();
        let bound = Bound::to(&["127.0.0.1:0".parse().unwrap()], 0o600)
            .await
            .unwrap();
        let Address::Tcp(address) = bound.addresses()[0] else {
            panic!("it was asked for TCP");
        };
        let (stop, stopped) = oneshot::channel();
        let services = Services {
            routes: Routes::new(solver.into_server()),
            names: &[NAME],
            descriptors: DESCRIPTOR_SETS,
        };
        let served = tokio::spawn(async move {
            let stopped = async { stopped.await.unwrap_or(()) };
            bound
                .serve(config, services, ready, stopped, std::future::pending())
                .await
                .unwrap()
        });
        Server {
            address,
            stop: Some(stop),
            served,
        }
    }

    pub async fn channel(&self) -> Channel {
        let uri = format!("http://{}", self.address);
        Channel::from_shared(uri).unwrap().connect().await.unwrap()
    }

    pub async fn client(&self) -> SolverServiceClient<Channel> {
        SolverServiceClient::new(self.channel().await)
    }

    /// A client that only sends what it is given: tonic's own channel also
    /// keeps the deadline that a request's metadata names.
    pub async fn plain_client(&self) -> SolverServiceClient<PlainChannel> {
        let origin = format!("http://{}", self.address).parse().unwrap();
        SolverServiceClient::with_origin(self.plain_channel().await, origin)
    }

    pub async fn plain_channel(&self) -> PlainChannel {
        PlainChannel::to(self.address).await
    }

    /// A channel, and what tells how its connection ended.
    pub async fn plain_connection(&self) -> (PlainChannel, JoinHandle<hyper::Result<()>>) {
        PlainChannel::with_end(self.address).await
    }

    /// Asks the server to stop; [`Server::stopped`] waits for it.
    pub fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    pub async fn stopped(self) -> Drained {
        soon(self.served).await.unwrap()
    }
}

#[derive(Clone)]
pub struct PlainChannel(hyper::client::conn::http2::SendRequest<Body>);

impl PlainChannel {
    pub async fn to(address: SocketAddr) -> PlainChannel {
        PlainChannel::with_end(address).await.0
    }

    async fn with_end(address: SocketAddr) -> (PlainChannel, JoinHandle<hyper::Result<()>>) {
        let io = TokioIo::new(tokio::net::TcpStream::connect(address).await.unwrap());
        let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
            .await
            .unwrap();
        (PlainChannel(sender), tokio::spawn(connection))
    }
}

impl Service<hyper::Request<Body>> for PlainChannel {
    type Response = hyper::Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: hyper::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

/// All answers to these requests, sent one after the other, then half-closed.
pub async fn batch(
    client: &mut SolverServiceClient<Channel>,
    requests: Vec<SolveBatchRequest>,
) -> Result<Vec<SolveBatchResponse>, tonic::Status> {
    let mut responses = soon(client.solve_batch(tokio_stream::iter(requests)))
        .await?
        .into_inner();
    let mut all = Vec::new();
    while let Some(response) = soon(responses.message()).await? {
        all.push(response);
    }
    Ok(all)
}

pub fn square(tiles: &[u32]) -> wire::Board {
    wire::Board {
        tiles: tiles.to_vec(),
        rows: 0,
        columns: 0,
    }
}

pub fn to_wire(board: &Board) -> wire::Board {
    wire::Board {
        tiles: board.tiles().iter().map(|tile| u32::from(*tile)).collect(),
        rows: board.shape().rows() as u32,
        columns: board.shape().columns() as u32,
    }
}

pub fn list(id: u64, boards: Vec<wire::Board>) -> SolveBatchRequest {
    let list = boards.into_iter().collect();
    SolveBatchRequest {
        id,
        boards: Some(solve_batch_request::Boards::List(list)),
        goal: None,
        options: None,
    }
}

pub fn packed(id: u64, boards: &[Board]) -> SolveBatchRequest {
    let tiles: Vec<u8> = boards
        .iter()
        .flat_map(|board| board.tiles().to_vec())
        .collect();
    packed_bytes(id, tiles)
}

pub fn packed_bytes(id: u64, tiles: Vec<u8>) -> SolveBatchRequest {
    let packed = wire::PackedBoards {
        rows: 0,
        columns: 0,
        tiles: tiles.into(),
    };
    SolveBatchRequest {
        id,
        boards: Some(solve_batch_request::Boards::Packed(packed)),
        goal: None,
        options: None,
    }
}

pub fn algorithm(algorithm: wire::Algorithm) -> Option<wire::SolveOptions> {
    Some(wire::SolveOptions {
        algorithm: algorithm.into(),
        ..Default::default()
    })
}

/// `count` different 3x3 boards spread over all 9! of them, half unsolvable.
pub fn spread(count: usize) -> Vec<Board> {
    let all = cantor::factorial(9) as usize;
    // A step without a common factor with 9! visits different boards.
    (0..count)
        .map(|number| {
            let mut tiles = [0; 9];
            cantor::unrank(((number * 100_003 + 7) % all) as u32, &mut tiles);
            Board::from_bytes(Shape::EIGHT, &tiles).unwrap()
        })
        .collect()
}

/// The board after these moves; panics where the blank leaves the board.
pub fn replay(start: &Board, moves: &str) -> Board {
    moves.chars().fold(*start, |board, letter| {
        board
            .slide(Direction::from_letter(letter).expect("a letter of udlr"))
            .expect("a legal move")
    })
}

/// Work for ten seconds or more.
pub fn long() -> SolveBatchRequest {
    let mut request = packed(1, &spread(65_536));
    request.options = algorithm(wire::Algorithm::Bfs);
    request
}
