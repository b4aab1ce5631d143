package otlp

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestSpansReachTheCollector checks what a collector gets until Shutdown returns: the trace of the
// caller, the name of the service, and headers from the environment.
func TestSpansReachTheCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret")
	var got collector.ExportTraceServiceRequest
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Authorization") != "secret" {
			t.Errorf("%s %s %v: %v", r.Method, r.URL, r.Header, err)
		}
		if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(body, &got); err != nil {
			t.Error(err)
		}
	}))
	defer s.Close()
	p, err := New(t.Context(), s.URL, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
		TraceFlags: trace.FlagsSampled, Remote: true})
	_, a := p.Tracer("scope").
		Start(trace.ContextWithSpanContext(t.Context(), parent), "a", trace.WithSpanKind(trace.SpanKindServer))
	a.RecordError(errors.New("went wrong"))
	a.SetStatus(codes.Error, "failed")
	a.End()
	ignored := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	_, no := p.Tracer("scope").Start(trace.ContextWithSpanContext(t.Context(), ignored), "not sampled")
	no.End()
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(got.ResourceSpans) != 1 || len(got.ResourceSpans[0].ScopeSpans) != 1 ||
		len(got.ResourceSpans[0].ScopeSpans[0].Spans) != 1 {
		t.Fatalf("the collector got %v, want one span", &got)
	}
	service := ""
	for _, a := range got.ResourceSpans[0].Resource.Attributes {
		if a.Key == "service.name" {
			service += a.Value.GetStringValue()
		}
	}
	span := got.ResourceSpans[0].ScopeSpans[0].Spans[0]
	traceID, spanID := parent.TraceID(), parent.SpanID()
	if service != "test" || span.Name != "a" || !bytes.Equal(span.TraceId, traceID[:]) ||
		!bytes.Equal(span.ParentSpanId, spanID[:]) ||
		span.Status.Message != "failed" || len(span.Events) != 1 {
		t.Errorf("the collector got %v", &got)
	}
}

func TestEndpoints(t *testing.T) {
	for _, e := range []string{"", "127.0.0.1:4318", "grpc://host", "http://", "%"} {
		if _, err := New(t.Context(), e, "", slog.Default()); err == nil ||
			!strings.Contains(err.Error(), "want a URL") {
			t.Errorf("%q: %v", e, err)
		}
	}
	var log bytes.Buffer
	path := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		http.NotFound(w, r)
	}))
	defer s.Close()
	p, err := New(t.Context(), s.URL+"/own/path", "", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	_, x := p.Tracer("scope").Start(t.Context(), "a")
	x.End()
	if err := p.Shutdown(t.Context()); err != nil || path != "/own/path" || !strings.Contains(log.String(), "404") {
		t.Errorf("%v, path %q, log %q", err, path, log.String())
	}
}
