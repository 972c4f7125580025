//! A TCP proxy between an operator and its API server, whose connections a test can cut.

use std::net::SocketAddr;

use kube::config::Kubeconfig;
use kube::{Client, Config};
use llsd_testbed::Testbed;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Forwards connections. After `disconnect` it closes them all and accepts none until `reconnect`.
pub struct TcpProxy {
    address: SocketAddr,
    is_up: watch::Sender<bool>,
}

impl TcpProxy {
    /// Starts a proxy for the API server of a testbed.
    pub async fn to(testbed: &Testbed) -> Self {
        let server = testbed.state().server.clone();
        let target = server.trim_start_matches("https://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let is_up = watch::Sender::new(true);
        let state = is_up.subscribe();
        tokio::spawn(async move {
            while let Ok((client_side, _)) = listener.accept().await {
                tokio::spawn(forward(client_side, target.clone(), state.clone()));
            }
        });
        Self { address, is_up }
    }

    /// A client for a user that connects through the proxy.
    pub async fn client(&self, testbed: &Testbed, user: &str) -> Client {
        let file = testbed.kubeconfig(user).unwrap();
        let mut kubeconfig = Kubeconfig::read_from(file).unwrap();
        let cluster = kubeconfig.clusters[0].cluster.as_mut().unwrap();
        cluster.server = Some(format!("https://{}", self.address));
        let config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await;
        Client::try_from(config.unwrap()).unwrap()
    }

    /// Closes every connection and rejects new ones.
    pub fn disconnect(&self) {
        self.is_up.send_replace(false);
    }

    /// Accepts connections again.
    pub fn reconnect(&self) {
        self.is_up.send_replace(true);
    }
}

async fn forward(mut client_side: TcpStream, target: String, mut is_up: watch::Receiver<bool>) {
    if !*is_up.borrow_and_update() {
        return;
    }
    let Ok(mut server_side) = TcpStream::connect(target).await else {
        return;
    };
    tokio::select! {
        // The client and the server see for themselves how the connection ended.
        _ = copy_bidirectional(&mut client_side, &mut server_side) => {}
        _ = is_up.wait_for(|up| !up) => {}
    }
}
