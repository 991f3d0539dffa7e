//! gRPC health v1, and reflection v1 and v1alpha.

use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};

use loyd::server::Config;
use loyd::service::Settings;

use crate::support::{Server, soon};

fn check(service: &str) -> HealthCheckRequest {
    HealthCheckRequest {
        service: service.to_owned(),
    }
}

#[tokio::test]
async fn check_knows_the_server_and_its_service() {
    let server = Server::start().await;
    let mut client = HealthClient::new(server.channel().await);
    for service in ["", "loyd.v1.SolverService"] {
        let response = soon(client.check(check(service)))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(response.status(), ServingStatus::Serving, "{service:?}");
    }
    let status = soon(client.check(check("nobody"))).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn watch_of_an_unknown_name_keeps_the_stream() {
    let server = Server::start().await;
    let mut client = HealthClient::new(server.channel().await);
    let mut watch = soon(client.watch(check("nobody")))
        .await
        .unwrap()
        .into_inner();
    let first = soon(watch.message()).await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::ServiceUnknown);
    // Nothing more comes, and the stream does not end.
    let more = tokio::time::timeout(std::time::Duration::from_millis(200), watch.message()).await;
    assert!(more.is_err(), "{more:?}");
}

#[tokio::test]
async fn watchers_are_told_of_a_drain() {
    let mut server = Server::start().await;
    let mut client = HealthClient::new(server.channel().await);
    let mut watch = soon(client.watch(check(""))).await.unwrap().into_inner();
    let first = soon(watch.message()).await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);
    server.stop();
    let second = soon(watch.message()).await.unwrap().unwrap();
    assert_eq!(second.status(), ServingStatus::NotServing);
    assert!(soon(watch.message()).await.unwrap().is_none());
    server.stopped().await;
}

async fn services_v1(server: &Server) -> Result<Vec<String>, tonic::Status> {
    use v1::server_reflection_request::MessageRequest;
    use v1::server_reflection_response::MessageResponse;
    let mut client =
        v1::server_reflection_client::ServerReflectionClient::new(server.channel().await);
    let request = v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut responses = soon(client.server_reflection_info(tokio_stream::once(request)))
        .await?
        .into_inner();
    match soon(responses.message())
        .await?
        .unwrap()
        .message_response
        .unwrap()
    {
        MessageResponse::ListServicesResponse(list) => Ok(list
            .service
            .into_iter()
            .map(|service| service.name)
            .collect()),
        other => panic!("{other:?}"),
    }
}

async fn services_v1alpha(server: &Server) -> Result<Vec<String>, tonic::Status> {
    use v1alpha::server_reflection_request::MessageRequest;
    use v1alpha::server_reflection_response::MessageResponse;
    let mut client =
        v1alpha::server_reflection_client::ServerReflectionClient::new(server.channel().await);
    let request = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut responses = soon(client.server_reflection_info(tokio_stream::once(request)))
        .await?
        .into_inner();
    match soon(responses.message())
        .await?
        .unwrap()
        .message_response
        .unwrap()
    {
        MessageResponse::ListServicesResponse(list) => Ok(list
            .service
            .into_iter()
            .map(|service| service.name)
            .collect()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn both_versions_of_reflection_list_the_services() {
    let server = Server::start().await;
    for services in [
        services_v1(&server).await.unwrap(),
        services_v1alpha(&server).await.unwrap(),
    ] {
        for name in ["loyd.v1.SolverService", "grpc.health.v1.Health"] {
            assert!(
                services.iter().any(|service| service == name),
                "{name} in {services:?}"
            );
        }
    }
}

#[tokio::test]
async fn reflection_can_be_hidden() {
    let config = Config {
        reflection: false,
        ..Config::default()
    };
    let server = Server::with(Settings::default(), config).await;
    for status in [
        services_v1(&server).await.unwrap_err(),
        services_v1alpha(&server).await.unwrap_err(),
    ] {
        assert_eq!(status.code(), Code::Unimplemented);
    }
}
