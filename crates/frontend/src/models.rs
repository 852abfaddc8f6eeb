use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use tito_formats::{Refusal, RefusalKind, model_body, models_body};
use tito_types::Resolution;

use crate::app::App;
use crate::reply;
use crate::status::{Failure, rescue};

/// Every name that can be asked for now. Listed means routable.
pub(crate) async fn list(State(app): State<Arc<App>>) -> Response {
    reply::json(StatusCode::OK, models_body(&app.catalog(), app.created_unix_seconds))
}

/// One model. Its id may hold slashes, percent-encoded or not.
pub(crate) async fn one(State(app): State<Arc<App>>, id: Result<Path<String>, PathRejection>) -> Response {
    let catalog = app.catalog();
    let Ok(Path(id)) = id else {
        return refuse(RefusalKind::UnknownModel, "the model id is not UTF-8".to_owned());
    };
    if let Some(body) = model_body(&catalog, &id, app.created_unix_seconds) {
        return reply::json(StatusCode::OK, body);
    }
    match catalog.resolve(Some(&id)) {
        Resolution::Unavailable => {
            refuse(RefusalKind::ModelUnavailable, format!("no engine can serve {id:?} now"))
        }
        Resolution::Served(..) | Resolution::Unknown | Resolution::Ambiguous => {
            refuse(RefusalKind::UnknownModel, format!("no engine serves a model {id:?}"))
        }
    }
}

fn refuse(kind: RefusalKind, message: String) -> Response {
    let refusal = Refusal { kind, param: Some("id".to_owned()), message };
    rescue(&Failure::Refused(refusal)).into_response()
}
