package serve

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

// message is a request of gRPC with one raw input.
func message(model, datatype string, shape []int64, data string) *inference.ModelInferRequest {
	return &inference.ModelInferRequest{ModelName: model, RawInputContents: [][]byte{[]byte(data)},
		Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: datatype, Shape: shape}}}
}

// TestBinaryDataSizeOfMessages checks the parameter that KServe's client sends with raw contents.
func TestBinaryDataSizeOfMessages(t *testing.T) {
	c := dial(t, one(t, scaled(t, 1)))
	for size, want := range map[int64]codes.Code{8: codes.OK, 7: codes.InvalidArgument, -1: codes.InvalidArgument} {
		m := message("m", "FP32", []int64{1, 2}, "12345678")
		m.Inputs[0].Parameters = map[string]*inference.InferParameter{
			"binary_data_size": {ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: size}}}
		if _, err := c.ModelInfer(t.Context(), m); status.Code(err) != want {
			t.Errorf("binary_data_size %d for 8 bytes: %v, want %v", size, err, want)
		}
	}
}

func TestServiceCalls(t *testing.T) {
	s := newServer(t,
		writeRepo(t, map[string][]byte{"m/config.pbtxt": []byte("max_batch_size: 8"), "m/1/model.onnx": scaled(t, 1)}),
		&Options{AllowModelControl: true})
	conn := dialConn(t, s)
	c := inference.NewGRPCInferenceServiceClient(conn)
	ctx := t.Context()
	live, err := c.ServerLive(ctx, &inference.ServerLiveRequest{})
	if err != nil || !live.Live {
		t.Errorf("ServerLive: %v, %v", live, err)
	}
	meta, err := c.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: "m"})
	if err != nil || meta.Platform != platform || fmt.Sprint(meta.Inputs[0].Shape, meta.Versions) != "[-1 2] [1]" {
		t.Errorf("ModelMetadata: %v, %v", meta, err)
	}
	config, err := c.ModelConfig(ctx, &inference.ModelConfigRequest{Name: "m", Version: "1"})
	if err != nil || config.Config.MaxBatchSize != 8 {
		t.Errorf("ModelConfig: %v, %v", config, err)
	}
	server, err := c.ServerMetadata(ctx, &inference.ServerMetadataRequest{})
	if err != nil || server.Name != "onward" || len(server.Extensions) == 0 {
		t.Errorf("ServerMetadata: %v, %v", server, err)
	}
	ready := func() string {
		m, err := c.ModelReady(ctx, &inference.ModelReadyRequest{Name: "m"})
		r, err2 := c.ServerReady(ctx, &inference.ServerReadyRequest{})
		h, err3 := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
		return fmt.Sprintf("%v %v %v %v %v %v", m.GetReady(), err, r.GetReady(), err2, h.GetStatus(), err3)
	}
	if got := ready(); got != "true <nil> true <nil> SERVING <nil>" {
		t.Errorf("ready: %s", got)
	}
	if _, err := c.RepositoryModelUnload(ctx, &inference.RepositoryModelUnloadRequest{ModelName: "m"}); err != nil {
		t.Error(err)
	}
	index, err := c.RepositoryIndex(ctx, &inference.RepositoryIndexRequest{})
	if err != nil || len(index.Models) != 1 || index.Models[0].State != "UNAVAILABLE" {
		t.Errorf("index after the unload: %v, %v", index, err)
	}
	if _, err := c.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: "m"}); status.Code(err) !=
		codes.Unavailable {
		t.Errorf("metadata after the unload: %v", err)
	}
	load := &inference.RepositoryModelLoadRequest{ModelName: "m",
		Parameters: map[string]*inference.ModelRepositoryParameter{
			"config": {ParameterChoice: &inference.ModelRepositoryParameter_StringParam{StringParam: `{"max_batch_size": 4}`}}}}
	if _, err := c.RepositoryModelLoad(ctx, load); err != nil {
		t.Error(err)
	}
	if config, err := c.ModelConfig(ctx, &inference.ModelConfigRequest{Name: "m"}); err != nil ||
		config.Config.MaxBatchSize != 4 {
		t.Errorf("configuration of the load: %v, %v", config, err)
	}
	s.Drain()
	if got := ready(); got != "true <nil> false <nil> NOT_SERVING <nil>" {
		t.Errorf("ready while draining: %s", got)
	}
	if _, err := c.SystemSharedMemoryStatus(ctx, &inference.SystemSharedMemoryStatusRequest{}); status.Code(err) !=
		codes.Unimplemented {
		t.Errorf("shared memory: %v, want UNIMPLEMENTED", err)
	}
	if _, err := c.RepositoryIndex(ctx, &inference.RepositoryIndexRequest{RepositoryName: "r"}); status.Code(err) !=
		codes.Unimplemented {
		t.Errorf("named repository: %v, want UNIMPLEMENTED", err)
	}
}

func TestBadMessages(t *testing.T) {
	s := newServer(t, "",
		&Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}, {Name: "i8", Data: identity(t, tensor.TypeInt8, 1)},
			{Name: "half", Data: identity(t, tensor.TypeFloat16, 1)}}})
	c := dial(t, s)
	typed := func(model, datatype string, shape []int64,
		contents *inference.InferTensorContents) *inference.ModelInferRequest {
		return &inference.ModelInferRequest{ModelName: model,
			Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: datatype, Shape: shape, Contents: contents}}}
	}
	both := message("m", "FP32", []int64{1, 2}, "12345678")
	both.Inputs[0].Contents = &inference.InferTensorContents{Fp32Contents: []float32{1, 2}}
	two := message("m", "FP32", []int64{1, 2}, "12345678")
	two.RawInputContents = append(two.RawInputContents, nil)
	parameter := message("m", "FP32", []int64{1, 2}, "12345678")
	parameter.Parameters = map[string]*inference.InferParameter{"p": {}}
	shared := message("m", "FP32", []int64{1, 2}, "12345678")
	shared.Inputs[0].Parameters = map[string]*inference.InferParameter{
		"shared_memory_region": {ParameterChoice: &inference.InferParameter_StringParam{StringParam: "r"}}}
	version := message("m", "FP32", []int64{1, 2}, "12345678")
	version.ModelVersion = "9"
	for _, x := range []struct {
		m    *inference.ModelInferRequest
		code codes.Code
		want string
	}{
		{&inference.ModelInferRequest{}, codes.NotFound, "unknown model"},
		{version, codes.NotFound, "version 9"},
		{&inference.ModelInferRequest{ModelName: "m"}, codes.InvalidArgument, "missing \"x\""},
		{message("m", "FP32", []int64{1, 2}, "1234567"), codes.InvalidArgument, "takes 8"},
		{message("m", "FP32", []int64{1 << 62, 1 << 62}, ""), codes.InvalidArgument, "x"},
		{message("m", "FP32", []int64{1, -2}, ""), codes.InvalidArgument, "want 0 or more"},
		{message("m", "XX", []int64{1, 2}, ""), codes.InvalidArgument, "unknown datatype"},
		{both, codes.InvalidArgument, "contents must be empty"},
		{two, codes.InvalidArgument, "expected 1 raw input contents"},
		{parameter, codes.InvalidArgument, "no value"},
		{shared, codes.InvalidArgument, "shared memory"},
		{typed("m", "FP32", []int64{1, 2}, nil), codes.InvalidArgument, "fp32_contents has 0 elements"},
		{typed("m", "FP32", []int64{1, 2}, &inference.InferTensorContents{Fp64Contents: []float64{1, 2}}), codes.InvalidArgument, "fp32_contents has 0"},
		{typed("m", "FP32", []int64{1, 2}, &inference.InferTensorContents{Fp32Contents: []float32{1, 2}, BoolContents: []bool{true}}), codes.InvalidArgument, "bool_contents is set"},
		{typed("i8", "INT8", []int64{1}, &inference.InferTensorContents{IntContents: []int32{128}}), codes.InvalidArgument, "element 0 is 128"},
		{typed("half", "FP16", []int64{1}, &inference.InferTensorContents{Fp32Contents: []float32{1}}), codes.InvalidArgument, "want raw_input_contents"},
	} {
		_, err := c.ModelInfer(t.Context(), x.m)
		if status.Code(err) != x.code || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v: %v, want %s and %q", x.m, err, x.code, x.want)
		}
	}
	if _, err := c.ModelInfer(t.Context(), message("m", "FP32", []int64{1, 2}, "12345678")); err != nil {
		t.Errorf("after bad messages: %v", err)
	}
}

// TestStream checks that a stream answers in order, that an error does not end it, and that
// more requests than run at the same time work.
func TestStream(t *testing.T) {
	st, err := dial(t, one(t, scaled(t, 1))).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const n = 3 * maxStreamed
	go func() {
		for i := range n {
			m := message("m", "FP32", []int64{1, 2}, "12345678")
			m.Id = fmt.Sprint(i)
			if i%10 == 3 {
				m.Inputs[0].Name = "z"
			}
			m.Parameters = map[string]*inference.InferParameter{
				"triton_enable_empty_final_response": {ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: true}}}
			if st.Send(m) != nil {
				return
			}
		}
		st.CloseSend()
	}()
	for i := range n {
		m, err := st.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.InferResponse.GetId() != fmt.Sprint(i) || (m.ErrorMessage != "") != (i%10 == 3) {
			t.Errorf("answer %d: %v", i, m)
		}
		if m.ErrorMessage == "" && !m.InferResponse.Parameters["triton_final_response"].GetBoolParam() {
			t.Errorf("answer %d is not marked as the final one: %v", i, m)
		}
	}
	if _, err := st.Recv(); err != io.EOF {
		t.Errorf("after the last answer: %v", err)
	}
}

func TestTokensOverGRPC(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, Tokens: []string{"secret"}})
	conn := dialConn(t, s)
	c := inference.NewGRPCInferenceServiceClient(conn)
	for token, want := range map[string]codes.Code{"": codes.Unauthenticated, "Bearer wrong": codes.Unauthenticated,
		"Bearer secret": codes.OK} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", token)
		if _, err := c.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: "m"}); status.Code(err) != want {
			t.Errorf("%q: %v, want %s", token, err, want)
		}
		st, err := c.ModelStreamInfer(ctx)
		if err == nil {
			if st.Send(message("m", "FP32", []int64{1, 2}, "12345678")) == nil {
				_, err = st.Recv()
			} else {
				_, err = st.Recv()
			}
		}
		if status.Code(err) != want {
			t.Errorf("stream with %q: %v, want %s", token, err, want)
		}
	}
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("health without token: %v", err)
	}
}

// TestCompressedMessages sends messages with gzip, whose content has the limit of a message.
func TestCompressedMessages(t *testing.T) {
	c := dial(t, newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, MaxBody: 1 << 20}))
	if _, err := c.ModelInfer(t.Context(), message("m", "FP32", []int64{1, 2}, "12345678"),
		grpc.UseCompressor("gzip")); err != nil {
		t.Error(err)
	}
	bomb := message("m", "FP32", []int64{1, 2}, strings.Repeat("\x00", 32<<20))
	if _, err := c.ModelInfer(t.Context(), bomb, grpc.UseCompressor("gzip")); status.Code(err) !=
		codes.ResourceExhausted {
		t.Errorf("32 MiB of zeros: %v, want RESOURCE_EXHAUSTED", err)
	}
}

func TestDeadlineOfTheCaller(t *testing.T) {
	c := dial(t, one(t, scaled(t, 1)))
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := c.ModelInfer(ctx, message("m", "FP32", []int64{1, 2}, "12345678")); status.Code(err) !=
		codes.DeadlineExceeded {
		t.Errorf("error %v, want DEADLINE_EXCEEDED", err)
	}
}

// spans is a tracer provider that records spans.
type spans struct {
	noop.TracerProvider
	mu  sync.Mutex
	all []*span
}

type span struct {
	noop.Span
	name       string
	parent, id trace.SpanContext
	start, end time.Time
}

func (s *span) SpanContext() trace.SpanContext { return s.id }

func (s *span) End(o ...trace.SpanEndOption) {
	c := trace.NewSpanEndConfig(o...)
	s.end = c.Timestamp()
}

func (s *spans) Tracer(string, ...trace.TracerOption) trace.Tracer { return &recorder{s: s} }

type recorder struct {
	noop.Tracer
	s *spans
}

func (r *recorder) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	c := trace.NewSpanStartConfig(o...)
	parent := trace.SpanContextFromContext(ctx)
	id := trace.SpanContextConfig{TraceID: parent.TraceID(), SpanID: trace.SpanID{7: byte(len(r.s.all) + 1)}}
	if !id.TraceID.IsValid() {
		id.TraceID[0] = byte(len(r.s.all) + 1)
	}
	x := &span{name: name, parent: parent, id: trace.NewSpanContext(id), start: c.Timestamp()}
	r.s.all = append(r.s.all, x)
	return trace.ContextWithSpan(ctx, x), x
}

// names returns the names of the spans since the last call, with those of their parents.
func (s *spans) names() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := map[trace.SpanID]string{}
	var l []string
	for _, x := range s.all {
		of[x.id.SpanID()] = x.name
		l = append(l, strings.TrimPrefix(of[x.parent.SpanID()]+"/"+x.name, "/"))
	}
	s.all = nil
	return strings.Join(l, ", ")
}

func TestTraceContext(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r := new(spans)
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, Tracer: r})
	call(s, "POST", "/v2/models/m/infer", []byte(fp32("[1,2]", "[1,2]")), "traceparent", parent)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent)
	if _, err := dial(t, s).ModelInfer(ctx, message("m", "FP32", []int64{1, 2}, "12345678")); err != nil {
		t.Fatal(err)
	}
	for i, x := range r.all {
		if got := x.id.TraceID().String(); got != "0af7651916cd43dd8448eb211c80319c" || x.start.IsZero() ||
			x.end.Before(x.start) && i%3 > 0 {
			t.Errorf("span %s: trace %s, from %s to %s", x.name, got, x.start, x.end)
		}
	}
	if got := r.names(); got != "infer m, infer m/queue, infer m/compute, infer m, infer m/queue, infer m/compute" {
		t.Errorf("spans of REST and gRPC: %s", got)
	}
}

// TestTraceStates checks that spans keep a short tracestate of the caller, and no long one.
func TestTraceStates(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r := new(spans)
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, Tracer: r})
	c := dial(t, s)
	for state, kept := range map[string]bool{"": true, "a=b,c=d": true, "a=" + strings.Repeat("b", 250): true,
		"a=" + strings.Repeat("b", 250) + ",c=" + strings.Repeat("d", 250) + ",e=" + strings.Repeat("f", 250): false} {
		call(s, "POST", "/v2/models/m/infer", []byte(fp32("[1,2]", "[1,2]")), "traceparent", parent, "tracestate",
			state)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent, "tracestate", state)
		if _, err := c.ModelInfer(ctx, message("m", "FP32", []int64{1, 2}, "12345678")); err != nil {
			t.Fatal(err)
		}
		want := ""
		if kept {
			want = state
		}
		for _, i := range []int{0, 3} { // of REST and gRPC
			p := r.all[i].parent
			if got := p.TraceState().String(); got != want || !p.IsRemote() || p.TraceID().String() != parent[3:35] {
				t.Errorf("span %d has the parent %v with tracestate %q, want %q", i, p.TraceID(), got, want)
			}
		}
		r.all = nil
	}
}
