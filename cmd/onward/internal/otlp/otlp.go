// Package otlp exports spans to an OpenTelemetry collector by OTLP over HTTP, in protobuf
// (https://opentelemetry.io/docs/specs/otlp). OpenTelemetry's own exporter needs 13 more modules.
package otlp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	maxQueue = 4096            // spans that wait; more are dropped
	maxBatch = 512             // spans of one export
	interval = 5 * time.Second // longest wait of a span
	timeout  = 10 * time.Second
)

// Provider is a tracer provider whose spans are sent to a collector.
type Provider struct {
	noop.TracerProvider
	url, service string
	log          *slog.Logger
	client       http.Client
	spans        chan *span
	stop         sync.Once
	stopped      chan struct{} // closed by Shutdown
	done         chan struct{} // closed when all spans have been sent
	dropped      atomic.Int64
}

// New returns a provider for a collector, such as http://127.0.0.1:4318. Without a path, the URL is
// that of OTLP, /v1/traces. service is the name of the service in the spans' resource.
func New(endpoint, service string, log *slog.Logger) (*Provider, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("OTLP endpoint %q: want a URL such as http://127.0.0.1:4318", endpoint)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	p := &Provider{url: u.String(), service: cmp.Or(service, "onward"), log: log, client: http.Client{Timeout: timeout},
		spans: make(chan *span, maxQueue), stopped: make(chan struct{}), done: make(chan struct{})}
	go p.export()
	return p, nil
}

// Shutdown sends the spans that have ended, and waits for that until ctx is done. Later spans are
// dropped.
func (p *Provider) Shutdown(ctx context.Context) error {
	p.stop.Do(func() { close(p.stopped) })
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Tracer implements trace.TracerProvider.
func (p *Provider) Tracer(name string, _ ...trace.TracerOption) trace.Tracer {
	return &tracer{p: p, name: name}
}

type tracer struct {
	noop.Tracer
	p    *Provider
	name string
}

// Start implements trace.Tracer. A span is sampled unless its parent is not.
func (t *tracer) Start(ctx context.Context, name string, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	c := trace.NewSpanStartConfig(opts...)
	parent := trace.SpanContextFromContext(ctx)
	if c.NewRoot() {
		parent = trace.SpanContext{}
	}
	if parent.IsValid() && !parent.IsSampled() {
		return t.Tracer.Start(ctx, name, opts...)
	}
	id := trace.SpanContextConfig{TraceID: parent.TraceID(), TraceState: parent.TraceState(), TraceFlags: trace.FlagsSampled}
	if !id.TraceID.IsValid() {
		binary.LittleEndian.PutUint64(id.TraceID[:], rand.Uint64())
		binary.LittleEndian.PutUint64(id.TraceID[8:], rand.Uint64()|1) // 0 is not valid
	}
	binary.LittleEndian.PutUint64(id.SpanID[:], rand.Uint64()|1)
	s := &span{t: t, id: trace.NewSpanContext(id), parent: parent.SpanID(), name: name, kind: c.SpanKind(), start: c.Timestamp(), attributes: c.Attributes()}
	if s.start.IsZero() {
		s.start = time.Now()
	}
	return trace.ContextWithSpan(ctx, s), s
}

// span is a span that is recorded.
type span struct {
	noop.Span
	t      *tracer
	id     trace.SpanContext
	parent trace.SpanID
	kind   trace.SpanKind

	mu         sync.Mutex
	name       string
	start, end time.Time
	attributes []attribute.KeyValue
	errors     []string
	status     codes.Code
	message    string
}

func (s *span) SpanContext() trace.SpanContext       { return s.id }
func (s *span) IsRecording() bool                    { return true }
func (s *span) TracerProvider() trace.TracerProvider { return s.t.p }

func (s *span) SetName(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name = name
}

func (s *span) SetAttributes(a ...attribute.KeyValue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attributes = append(s.attributes, a...)
}

func (s *span) SetStatus(c codes.Code, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.message = c, message
}

func (s *span) RecordError(err error, _ ...trace.EventOption) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors = append(s.errors, err.Error())
}

// End queues the span. It never waits: if the queue is full, the span is dropped and counted.
func (s *span) End(opts ...trace.SpanEndOption) {
	c := trace.NewSpanEndConfig(opts...)
	s.mu.Lock()
	again := !s.end.IsZero()
	if !again {
		if s.end = c.Timestamp(); s.end.IsZero() {
			s.end = time.Now()
		}
	}
	s.mu.Unlock()
	if again {
		return
	}
	select {
	case <-s.t.p.stopped:
		s.t.p.dropped.Add(1)
		return
	default:
	}
	select {
	case s.t.p.spans <- s:
	default:
		s.t.p.dropped.Add(1)
	}
}

// export sends spans until the provider is stopped and the queue is empty.
func (p *Provider) export() {
	defer close(p.done)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var batch []*span
	send := func() {
		if n := p.dropped.Swap(0); n > 0 {
			p.log.Warn("spans were dropped: the queue was full because the collector is too slow, or export had ended", "spans", n)
		}
		if len(batch) == 0 {
			return
		}
		if err := p.post(p.request(batch)); err != nil {
			p.log.Warn("spans cannot be exported", "url", p.url, "spans", len(batch), "error", err)
		}
		batch = nil
	}
	for {
		select {
		case s := <-p.spans:
			if batch = append(batch, s); len(batch) >= maxBatch {
				send()
			}
		case <-tick.C:
			send()
		case <-p.stopped:
			for {
				select {
				case s := <-p.spans:
					if batch = append(batch, s); len(batch) >= maxBatch {
						send()
					}
				default:
					send()
					return
				}
			}
		}
	}
}

func (p *Provider) post(body []byte) error {
	r, err := p.client.Post(p.url, "application/x-protobuf", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, 1<<10))
	if r.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered %s: %.200q", r.Status, text)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// request returns an ExportTraceServiceRequest of opentelemetry-proto 1. The numbers are those of
// its fields.
func (p *Provider) request(spans []*span) []byte {
	scopes := map[string][]byte{}
	var order []string
	for _, s := range spans {
		if scopes[s.t.name] == nil {
			order = append(order, s.t.name)
			scopes[s.t.name] = message(nil, 1, text(nil, 1, s.t.name))
		}
		scopes[s.t.name] = message(scopes[s.t.name], 2, s.encode())
	}
	resource := message(nil, 1, message(nil, 1, pair("service.name", text(nil, 1, p.service))))
	for _, name := range order {
		resource = message(resource, 2, scopes[name])
	}
	return message(nil, 1, resource)
}

// encode returns the span as a message.
func (s *span) encode() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	trace, id := s.id.TraceID(), s.id.SpanID()
	b := message(nil, 1, trace[:])
	b = message(b, 2, id[:])
	if t := s.id.TraceState().String(); t != "" {
		b = text(b, 3, t)
	}
	if s.parent.IsValid() {
		b = message(b, 4, s.parent[:])
	}
	b = text(b, 5, s.name)
	b = number(b, 6, uint64(max(s.kind, 1))) // SpanKind has the protocol's numbers; 1: internal
	b = fixed(b, 7, s.start)
	b = fixed(b, 8, s.end)
	for _, a := range s.attributes {
		b = message(b, 9, pair(string(a.Key), value(a.Value)))
	}
	for _, e := range s.errors {
		m := text(fixed(nil, 1, s.end), 2, "exception")
		b = message(b, 11, message(m, 3, pair("exception.message", text(nil, 1, e))))
	}
	switch s.status {
	case codes.Error:
		b = message(b, 15, number(text(nil, 2, s.message), 3, 2))
	case codes.Ok:
		b = message(b, 15, number(nil, 3, 1))
	}
	return b
}

func value(v attribute.Value) []byte {
	switch v.Type() {
	case attribute.BOOL:
		n := uint64(0)
		if v.AsBool() {
			n = 1
		}
		return number(nil, 2, n)
	case attribute.INT64:
		return number(nil, 3, uint64(v.AsInt64()))
	}
	return text(nil, 1, v.String())
}

func pair(key string, value []byte) []byte { return message(text(nil, 1, key), 2, value) }

func message(b []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
}

func text(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func number(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

func fixed(b []byte, field protowire.Number, t time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), uint64(t.UnixNano()))
}
