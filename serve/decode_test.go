package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

// repeated returns n bytes: a prefix, copies of a unit, and a suffix.
func repeated(n int, prefix, unit, suffix string) []byte {
	return []byte(prefix + strings.Repeat(unit, (n-len(prefix)-len(suffix))/len(unit)) + suffix)
}

// amplifying lists requests whose decoded form is much larger than their JSON.
func amplifying(n int) []struct{ name, path, body string } {
	const infer = "/v2/models/m/infer"
	strs := n / 3
	return []struct{ name, path, body string }{
		{"inputs", infer, string(repeated(n, `{"inputs":[`, `{},`, `{}]}`))},
		{"good inputs", infer, string(repeated(n, `{"inputs":[`, `{"name":"x","shape":[0],"datatype":"FP32","data":[]},`, `{}]}`))},
		{"outputs", infer, string(repeated(n, `{"outputs":[`, `{},`, `{}],"inputs":[]}`))},
		{"null outputs", infer, string(repeated(n, `{"outputs":[`, `null,`, `null]}`))},
		{"parameters", infer, string(repeated(n, `{"parameters":{`, `"a":1,`, `"b":2}}`))},
		{"list as parameter", infer, string(repeated(n, `{"parameters":{"a":[`, `0,`, `0]}}`))},
		{"shape", infer, string(repeated(n, `{"inputs":[{"name":"x","datatype":"FP32","shape":[`, `1,`, `1],"data":[1]}]}`))},
		{"data", infer, string(repeated(n, `{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[`, `1,`, `1]}]}`))},
		{"nested data", infer, string(repeated(n, `{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[`, `[],`, `1]}]}`))},
		{"strings", "/v2/models/s/infer", string(repeated(n, fmt.Sprintf(`{"inputs":[{"name":"x","datatype":"BYTES","shape":[%d],"data":[`, strs), `"",`, `""]}]}`))},
		{"digits of a string", "/v2/models/s/infer", string(repeated(n, `{"inputs":[{"name":"x","datatype":"BYTES","shape":[1],"data":[1`, `1`, `]}]}`))},
		{"one string", "/v2/models/s/infer", string(repeated(n, `{"inputs":[{"name":"x","datatype":"BYTES","shape":[1],"data":["`, `\u0000`, `"]}]}`))},
		{"id", infer, string(repeated(n, `{"id":"`, `<`, `","inputs":[]}`))},
		{"name", infer, string(repeated(n, `{"inputs":[{"name":"`, `<`, `","datatype":"FP32","shape":[1,2],"data":[1,2]}]}`))},
		{"datatype", infer, string(repeated(n, `{"inputs":[{"name":"x","datatype":"`, `<`, `","shape":[1,2],"data":[1,2]}]}`))},
		{"output name", infer, string(repeated(n, `{"outputs":[{"name":"`, `<`, `"}],"inputs":[]}`))},
		{"data of another type", infer, string(repeated(n, `{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":["`, `<`, `"]}]}`))},
		{"member", infer, string(repeated(n, `{"`, `<`, `":1}`))},
		{"number", infer, string(repeated(n, `{"parameters":{"a":`, `1`, `}}`))},
		{"index", "/v2/repository/index", string(repeated(n, `{"ready":[`, `{},`, `{}]}`))},
		{"load", "/v2/repository/models/m/load", string(repeated(n, `{"parameters":{"a":[`, `{},`, `{}]}}`))},
		{"config", "/v2/repository/models/m/load", string(repeated(n, `{"parameters":{"config":"{\"input\":[`, `{},`, `{}]}"}}`))},
		{"logging", "/v2/logging", string(repeated(n, `{"a":[`, `{},`, `{}]}`))},
		{"trace", "/v2/trace/setting", string(repeated(n, `{"trace_rate":[`, `"",`, `""]}`))},
		{"settings", "/v2/trace/setting", string(repeated(n, `{"a":[`, `{},`, `{}]}`))},
		{"region", "/v2/systemsharedmemory/region/r/register", string(repeated(n, `{"key":[`, `{},`, `{}]}`))},
	}
}

// decodingServer is a server with little memory, and with all endpoints.
func decodingServer(t *testing.T, total int64, tokens ...string) *Server {
	repo := writeRepo(t,
		map[string][]byte{"m/1/model.onnx": scaled(t, 1), "s/1/model.onnx": identity(t, tensor.TypeString, "n")})
	return newServer(t, repo,
		&Options{AllowModelControl: true, AllowSharedMemory: true, TotalMemory: total, Tokens: tokens})
}

// allocated returns the bytes that f allocates.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestDecodingJSONKeepsTheMemory checks that no endpoint decodes more than the memory of all
// requests, and that errors do not repeat the request.
func TestDecodingJSONKeepsTheMemory(t *testing.T) {
	const total, size = 16 << 20, 6 << 20
	s := decodingServer(t, total)
	h := s.Handler()
	held := s.memory.Used()
	for _, c := range amplifying(size) {
		body := compress(t, "gzip", []byte(c.body))
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", c.path, bytes.NewReader(body))
		r.Header.Set("Content-Encoding", "gzip")
		// The buffer of the body grows by copying; garbage counts in what is allocated.
		if n := allocated(func() { h.ServeHTTP(w, r) }); n > 3*total {
			t.Errorf("%s: %d KiB of gzip allocate %d MiB, want at most %d", c.name, len(body)>>10, n>>20, 3*total>>20)
		}
		if w.Code < 400 || w.Code == 500 {
			t.Errorf("%s: %d %.200s, want an error", c.name, w.Code, w.Body)
		}
		if w.Body.Len() > 4096 {
			t.Errorf("%s: the error has %d bytes", c.name, w.Body.Len())
		}
		if n := s.memory.Used(); n != held {
			t.Errorf("%s: %d bytes are reserved after the request, want %d", c.name, n, held)
		}
	}
}

// rawMessage is a codec of a client that sends bytes as they are.
type rawMessage struct{}

func (rawMessage) Name() string                    { return "proto" }
func (rawMessage) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (rawMessage) Unmarshal(_ []byte, _ any) error { return nil }

// TestDecodingMessagesKeepsTheMemory does the same for gRPC.
func TestDecodingMessagesKeepsTheMemory(t *testing.T) {
	const total, size = 16 << 20, 2 << 20
	s := decodingServer(t, total)
	held := s.memory.Used()
	c := dialConn(t, s)
	name := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "m")
	packed := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), make([]byte, size))
	contents := protowire.AppendBytes(protowire.AppendTag(nil, 5, protowire.BytesType), packed)
	input := protowire.AppendBytes(protowire.AppendTag(nil, 5, protowire.BytesType), contents)
	inputOf := func(part string) []byte { // many times
		return protowire.AppendBytes(protowire.AppendTag(name[:len(name):len(name)], 5, protowire.BytesType),
			repeated(size/4, "", part+strings.Repeat("\x01", 30), ""))
	}
	for _, m := range []struct {
		name, method string
		body         []byte
	}{
		{"inputs", "ModelInfer", repeated(size, string(name), "\x2a\x00", "")},
		{"outputs", "ModelInfer", repeated(size, string(name), "\x32\x00", "")},
		{"raw contents", "ModelInfer", repeated(size, string(name), "\x3a\x00", "")},
		{"parameters", "ModelInfer", repeated(size, string(name), "\x22\x00", "")},
		{"typed contents", "ModelInfer", append(name[:len(name):len(name)], input...)},
		{"parts of a shape", "ModelInfer", inputOf("\x1a\x1e")},
		{"parts of typed contents", "ModelInfer", inputOf("\x2a\x20\x12\x1e")},
		{"name", "ModelInfer", protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), bytes.Repeat([]byte("<"), size))},
		{"load", "RepositoryModelLoad", repeated(size, "", "\x1a\x00", "")},
		{"settings", "TraceSetting", repeated(size, "", "\x0a\x00", "")},
		{"one byte", "ModelInfer", []byte("\x07")},
		{"another byte", "ModelInfer", []byte("\x0f")},
	} {
		for _, zip := range []bool{false, true} {
			opts := []grpc.CallOption{grpc.ForceCodec(rawMessage{})}
			if zip {
				opts = append(opts, grpc.UseCompressor(gzip.Name))
			}
			var err error
			n := allocated(func() {
				err = c.Invoke(t.Context(), "/inference.GRPCInferenceService/"+m.method, m.body, new(any), opts...)
			})
			if n > 3*total { // the client's copies count, too
				t.Errorf("%s, gzip %v: %d KiB allocate %d MiB, want at most %d", m.name, zip, len(m.body)>>10,
					n>>20, 3*total>>20)
			}
			if code := status.Code(err); code == codes.OK || code == codes.Unavailable {
				t.Errorf("%s, gzip %v: %v, want an error of the call", m.name, zip, err)
			}
			if text := status.Convert(err).Message(); len(text) > 4096 {
				t.Errorf("%s, gzip %v: the error has %d bytes", m.name, zip, len(text))
			}
		}
	}
	for _, opts := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
		err := c.Invoke(t.Context(), "/inference.GRPCInferenceService/ServerMetadata", []byte("\x07"), new(any),
			append(opts, grpc.ForceCodec(rawMessage{}))...)
		if status.Code(err) != codes.Internal {
			t.Errorf("a message of one byte, %d options: %v, want INTERNAL", len(opts), err)
		}
	}
	c.Close()
	waitFor(t, "the connection gives its memory back", func() bool { return s.memory.Used() == held })
}

// TestLongParametersKeepTheMemory checks that neither the order of a stream nor errors repeat
// names and values of parameters, which escaping makes four times as long.
func TestLongParametersKeepTheMemory(t *testing.T) {
	const total, size = 32 << 20, 6 << 20
	s := decodingServer(t, total)
	c := dial(t, s)
	long := strings.Repeat("\x01", size)
	text := &inference.InferParameter{ParameterChoice: &inference.InferParameter_StringParam{StringParam: long}}
	one := &inference.InferParameter{ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: 1}}
	type params = map[string]*inference.InferParameter
	for _, m := range []struct {
		name                   string
		request, input, output params
	}{
		{"sequence_id", params{"sequence_id": text}, nil, nil},
		{"sequence_start", params{"sequence_id": one, "sequence_start": text}, nil, nil},
		{"name", params{long: one}, nil, nil},
		{"name of an input's", nil, params{long: one}, nil},
		{"name beside a region", nil, params{long: one, "shared_memory_region": one}, nil},
		{"region", nil, params{"shared_memory_region": text}, nil},
		{"binary_data_size", nil, params{"binary_data_size": text}, nil},
		{"name of an output's", nil, nil, params{long: one}},
		{"binary_data", nil, nil, params{"binary_data": text}},
	} {
		r := message("m", "FP32", []int64{1, 2}, "12345678")
		r.Parameters, r.Inputs[0].Parameters = m.request, m.input
		r.Outputs = []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "y", Parameters: m.output}}
		st, err := c.ModelStreamInfer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := allocated(func() {
			if err := st.Send(r); err != nil {
				t.Fatal(err)
			}
			resp, err := st.Recv()
			if err != nil || resp.ErrorMessage == "" || len(resp.ErrorMessage) > 4096 {
				t.Errorf("%s: %.200v %v, want a short error", m.name, resp, err)
			}
			if st.CloseSend() != nil {
				t.Fatal("CloseSend")
			}
			st.Recv()
		})
		if n > total { // the client's copies count, too
			t.Errorf("%s: %d KiB allocate %d MiB, want at most %d", m.name, size>>10, n>>20, total>>20)
		}
	}
}

// TestCallsWithoutTokenAreRefusedUnread checks that gRPC reads no message of a call
// without a valid token.
func TestCallsWithoutTokenAreRefusedUnread(t *testing.T) {
	s := decodingServer(t, 16<<20, "secret")
	c := dialConn(t, s)
	st, err := c.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true},
		"/inference.GRPCInferenceService/ModelInfer")
	if err != nil {
		t.Fatal(err)
	}
	// No message is sent.
	if err := st.RecvMsg(new(inference.ModelInferResponse)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token and a message: %v, want UNAUTHENTICATED", err)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer secret")
	client := inference.NewGRPCInferenceServiceClient(c)
	if _, err := client.ModelInfer(ctx, message("m", "FP32", []int64{1, 2}, "12345678")); err != nil {
		t.Errorf("with the token: %v", err)
	}
	if _, err := client.ServerLive(t.Context(), &inference.ServerLiveRequest{}); err != nil {
		t.Errorf("ServerLive needs no token: %v", err)
	}
}

// TestProbesReadShortMessages checks that gRPC refuses messages of calls that need no token by
// their prefix, if they are compressed or longer than such messages are.
func TestProbesReadShortMessages(t *testing.T) {
	s := decodingServer(t, 16<<20, "secret")
	held := s.memory.Used()
	c := dialConn(t, s)
	field := func(n int) []byte { // a field that no message knows
		return protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType), make([]byte, n))
	}
	for _, method := range []string{"/inference.GRPCInferenceService/ServerLive",
		"/inference.GRPCInferenceService/ServerReady", "/grpc.health.v1.Health/Check"} {
		for _, m := range []struct {
			name string
			body []byte
			zip  bool
			want codes.Code
		}{
			{"empty", nil, false, codes.OK},
			{"short", field(1000), false, codes.OK},
			{"long", field(5000), false, codes.ResourceExhausted},
			{"longer than a window", field(1 << 20), false, codes.ResourceExhausted},
			{"compressed", field(1000), true, codes.ResourceExhausted},
		} {
			opts := []grpc.CallOption{grpc.ForceCodec(rawMessage{})}
			if m.zip {
				opts = append(opts, grpc.UseCompressor(gzip.Name))
			}
			err := c.Invoke(t.Context(), method, m.body, new(any), opts...)
			if status.Code(err) != m.want {
				t.Errorf("%s, %s: %v, want %v", method, m.name, err, m.want)
			}
		}
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer secret")
	err := c.Invoke(ctx, "/inference.GRPCInferenceService/ServerMetadata", field(5000), new(any),
		grpc.ForceCodec(rawMessage{}))
	if err != nil {
		t.Errorf("a long message with a token: %v", err)
	}
	c.Close()
	waitFor(t, "the connection gives its memory back", func() bool { return s.memory.Used() == held })
}

// TestProbesWithoutTokenRefuseNoCalls checks that unfinished probes without a token do not use up
// MaxRequests, and that those with one count.
func TestProbesWithoutTokenRefuseNoCalls(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, MaxRequests: 2,
		Tokens: []string{"secret"}})
	authorized := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer secret")
	const n = 5
	probes := func(ctx context.Context) *grpc.ClientConn {
		c := dialConn(t, s)
		for range n {
			if _, err := c.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true},
				"/inference.GRPCInferenceService/ServerLive"); err != nil {
				t.Fatal(err)
			}
		}
		// Calls of a connection are read in their order: the answer to this one comes after them.
		c.Invoke(t.Context(), "/inference.GRPCInferenceService/ServerMetadata",
			&inference.ServerMetadataRequest{}, &inference.ServerMetadataResponse{})
		return c
	}
	probes(t.Context())
	client := inference.NewGRPCInferenceServiceClient(dialConn(t, s))
	if _, err := client.ModelInfer(authorized, message("m", "FP32", []int64{1, 2}, "12345678")); err != nil {
		t.Errorf("a call beside %d probes without a token: %v", n, err)
	}
	c := probes(authorized)
	_, err := client.ServerMetadata(authorized, &inference.ServerMetadataRequest{})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a call beside %d probes with a token: %v, want RESOURCE_EXHAUSTED", n, err)
	}
	if _, err := client.ServerLive(t.Context(), &inference.ServerLiveRequest{}); err != nil {
		t.Errorf("a probe without a token: %v", err)
	}
	c.Close()
	waitFor(t, "the calls end", func() bool { return s.calls.Load() == 0 })
}

// TestSecondMessageGivesMemoryBack checks a call with more messages than its method has.
func TestSecondMessageGivesMemoryBack(t *testing.T) {
	s := decodingServer(t, 16<<20, "secret")
	held := s.memory.Used()
	c := dialConn(t, s)
	st, err := c.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
		"/grpc.health.v1.Health/Watch", grpc.ForceCodec(rawMessage{}))
	if err != nil {
		t.Fatal(err)
	}
	body := protowire.AppendBytes(protowire.AppendTag(nil, 99, protowire.BytesType), make([]byte, 1000))
	for range 2 {
		if err := st.SendMsg(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.RecvMsg(new(any)); status.Code(err) != codes.Internal {
		t.Errorf("two messages of a call with one: %v, want INTERNAL", err)
	}
	c.Close()
	waitFor(t, "the messages give their memory back", func() bool { return s.memory.Used() == held })
}

// waitFor waits until a condition holds that no request can ask for.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// endingContext ends at its n-th check.
type endingContext struct {
	context.Context
	n int
}

func (c *endingContext) Err() error {
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

// TestDecodingStops ends the context of a request while its JSON is decoded: 1 MiB of small values
// take up to 80 ms. They have at least 300,000 values, of which every 1024th asks the context.
func TestDecodingStops(t *testing.T) {
	for _, a := range amplifying(1 << 20) {
		if !strings.Contains(" outputs, null outputs, data, nested data, strings,", " "+a.name+",") {
			continue
		}
		for _, checks := range []int{0, 10, 100} {
			ctx := &endingContext{t.Context(), checks}
			_, err := decodeInfer(ctx, []byte(a.body), nil, nil)
			if !errors.Is(err, context.Canceled) || classify(invalid(err)).Code != Cancelled {
				t.Errorf("%s, end at check %d: error is %v, want that of the context", a.name, checks, err)
			}
		}
	}
}
