package otlp

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protowire"
)

// fields returns the fields of a message by number, as bytes or uint64.
func fields(t *testing.T, b []byte) map[protowire.Number][]any {
	t.Helper()
	m := map[protowire.Number][]any{}
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			t.Fatalf("%q is no message", b)
		}
		b = b[size:]
		var v any
		switch kind {
		case protowire.BytesType:
			v, size = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			v, size = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			v, size = protowire.ConsumeFixed64(b)
		default:
			t.Fatalf("field %d has wire type %d", n, kind)
		}
		if size < 0 {
			t.Fatalf("field %d is cut off", n)
		}
		b, m[n] = b[size:], append(m[n], v)
	}
	return m
}

// collector returns a collector that keeps the spans of the requests.
func collector(t *testing.T, hold <-chan struct{}) (url string, spans func() []map[protowire.Number][]any) {
	var mu sync.Mutex
	var all []map[protowire.Number][]any
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if hold != nil {
			<-hold
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != "POST" || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %s %v: %v", r.Method, r.URL, r.Header, err)
		}
		mu.Lock()
		defer mu.Unlock()
		resource := fields(t, fields(t, body)[1][0].([]byte))
		if !bytes.Contains(resource[1][0].([]byte), []byte("service.name")) || !bytes.Contains(resource[1][0].([]byte), []byte("test")) {
			t.Errorf("resource %q", resource[1][0])
		}
		for _, scope := range resource[2] {
			for _, x := range fields(t, scope.([]byte))[2] {
				all = append(all, fields(t, x.([]byte)))
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []map[protowire.Number][]any {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func TestSpansReachTheCollector(t *testing.T) {
	url, spans := collector(t, nil)
	p, err := New(url, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true})
	start := time.Unix(100, 5)
	ctx, a := p.Tracer("scope").Start(trace.ContextWithSpanContext(t.Context(), parent), "a", trace.WithTimestamp(start), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("s", "text"), attribute.Int64("i", -1), attribute.Bool("b", true)))
	_, b := p.Tracer("scope").Start(ctx, "b")
	b.End()
	a.RecordError(errors.New("went wrong"))
	a.SetStatus(codes.Error, "failed")
	a.End(trace.WithTimestamp(start.Add(time.Second)))
	a.End() // a second end counts for nothing
	_, root := p.Tracer("other").Start(t.Context(), "root")
	root.End()
	ignored := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	_, no := p.Tracer("scope").Start(trace.ContextWithSpanContext(t.Context(), ignored), "not sampled")
	no.End()
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string]map[protowire.Number][]any{}
	for _, s := range spans() {
		got[string(s[5][0].([]byte))] = s
	}
	if len(spans()) != 3 || got["a"] == nil || got["b"] == nil || got["root"] == nil {
		t.Fatalf("spans %q", spans())
	}
	x := got["a"]
	if id := x[1][0].([]byte); !bytes.Equal(id, append([]byte{1}, make([]byte, 15)...)) || !bytes.Equal(x[4][0].([]byte), []byte{2, 0, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("a: trace %s, parent %x", hex.EncodeToString(id), x[4][0])
	}
	if x[6][0] != uint64(2) || x[7][0] != uint64(100e9+5) || x[8][0] != uint64(101e9+5) {
		t.Errorf("a: kind %v, from %v to %v", x[6][0], x[7][0], x[8][0])
	}
	if s := fmt.Sprintf("%q", x[9]); len(x[9]) != 3 || !strings.Contains(s, "text") {
		t.Errorf("a: attributes %s", s)
	}
	if !bytes.Contains(x[11][0].([]byte), []byte("went wrong")) {
		t.Errorf("a: event %q", x[11][0])
	}
	if s := fields(t, x[15][0].([]byte)); string(s[2][0].([]byte)) != "failed" || s[3][0] != uint64(2) {
		t.Errorf("a: status %q", s)
	}
	if y := got["b"]; !bytes.Equal(y[1][0].([]byte), x[1][0].([]byte)) || !bytes.Equal(y[4][0].([]byte), x[2][0].([]byte)) || y[6][0] != uint64(1) {
		t.Errorf("b is not a child of a: %q", y)
	}
	if r := got["root"]; r[4] != nil || bytes.Equal(r[1][0].([]byte), make([]byte, 16)) {
		t.Errorf("root: %q", r)
	}
}

// TestSlowCollector checks that spans do not wait for a collector, and that every one is sent or
// counted as dropped.
func TestSlowCollector(t *testing.T) {
	hold := make(chan struct{})
	url, spans := collector(t, hold)
	var log bytes.Buffer
	p, err := New(url, "test", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	const n = 2 * (maxQueue + maxBatch)
	for range n {
		_, s := p.Tracer("scope").Start(t.Context(), "a")
		s.End()
	}
	close(hold)
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The exporter resets the counter with each line that it logs, which can be while spans end.
	dropped := 0
	for _, m := range regexp.MustCompile(`dropped: .* spans=(\d+)`).FindAllStringSubmatch(log.String(), -1) {
		k, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		dropped += k
	}
	if sent := len(spans()); dropped == 0 || sent+dropped != n {
		t.Errorf("%d spans sent and %d dropped of %d; log %q", sent, dropped, n, log.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestEndpoints(t *testing.T) {
	for _, e := range []string{"", "127.0.0.1:4318", "grpc://host", "http://", "%"} {
		if _, err := New(e, "", slog.Default()); err == nil || !strings.Contains(err.Error(), "want a URL") {
			t.Errorf("%q: %v", e, err)
		}
	}
	var log bytes.Buffer
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	p, err := New(s.URL+"/own/path", "", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	_, x := p.Tracer("scope").Start(t.Context(), "a")
	x.End()
	if err := p.Shutdown(t.Context()); err != nil || !strings.Contains(log.String(), "404") {
		t.Errorf("%v, log %q", err, log.String())
	}
}
