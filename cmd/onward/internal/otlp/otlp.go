// Package otlp exports spans to an OpenTelemetry collector by OTLP over HTTP
// (https://opentelemetry.io/docs/specs/otlp).
package otlp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// New returns a tracer provider for a collector, such as http://127.0.0.1:4318. Without a path, the
// URL is that of OTLP, /v1/traces. service is the name of the service in the spans' resource. The
// OTEL_* environment variables of the SDK set headers, sampling and the size of batches. Errors of
// the export go to log.
func New(ctx context.Context, endpoint, service string, log *slog.Logger) (*sdk.TracerProvider, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("OTLP endpoint %q: want a URL such as http://127.0.0.1:4318", endpoint)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.String()))
	if err != nil {
		return nil, err
	}
	res, err := resource.Merge(resource.Default(),
		resource.NewSchemaless(attribute.String("service.name", cmp.Or(service, "onward"))))
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("spans cannot be exported", "url", u.Redacted(), "error", err)
	}))
	return sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(res)), nil
}
