package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

func modelBytes(t testing.TB, b *onnx.ModelBuilder) []byte {
	t.Helper()
	data, err := b.Must().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// identity returns a model y = x.
func identity(t testing.TB, dtype tensor.DType, dims ...any) []byte {
	b := onnx.NewModel("identity").Opset("", 17).IRVersion(8)
	b.Input("x", onnx.DataType(dtype), dims...).Output("y", onnx.DataType(dtype), dims...)
	b.Node("Identity", []string{"x"}, []string{"y"})
	return modelBytes(t, b)
}

// scaled returns a model y = factor·x of float [n, 2].
func scaled(t testing.TB, factor float32) []byte {
	b := onnx.NewModel("scaled").Opset("", 17).IRVersion(8)
	b.Input("x", onnx.Float, "n", 2).Output("y", onnx.Float, "n", 2)
	b.Initializer("f", []float32{factor})
	b.Node("Mul", []string{"x", "f"}, []string{"y"})
	return modelBytes(t, b)
}

// simple returns the model "simple" of Triton's examples: sum and difference of two inputs.
func simple(t testing.TB, dtype tensor.DType, dims ...any) []byte {
	b := onnx.NewModel("simple").Opset("", 17).IRVersion(8)
	for _, n := range []string{"INPUT0", "INPUT1"} {
		b.Input(n, onnx.DataType(dtype), dims...)
	}
	b.Output("OUTPUT0", onnx.DataType(dtype), dims...).Output("OUTPUT1", onnx.DataType(dtype), dims...)
	b.Node("Add", []string{"INPUT0", "INPUT1"}, []string{"OUTPUT0"})
	b.Node("Sub", []string{"INPUT0", "INPUT1"}, []string{"OUTPUT1"})
	return modelBytes(t, b)
}

// writeRepo writes files below a new folder.
func writeRepo(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		write(t, filepath.Join(dir, name), data)
	}
	return dir
}

// write replaces a file, as a deployment should: beside it and renamed.
func write(t testing.TB, path string, data []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o777)
	if err == nil {
		err = os.WriteFile(path+".new", data, 0o666)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func quiet(o *Options) *Options {
	if o == nil {
		o = &Options{}
	}
	o.Logger = slog.New(slog.DiscardHandler)
	return o
}

func newServer(t testing.TB, repo string, o *Options) *Server {
	t.Helper()
	s, err := New(context.Background(), repo, quiet(o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// one returns a server of a single model "m".
func one(t testing.TB, data []byte) *Server {
	return newServer(t, "", &Options{Models: []Model{{Name: "m", Data: data}}})
}

// call sends a request to the handler. headers alternate between names and values.
func call(s *Server, method, path string, body []byte, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, bytes.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func get(t testing.TB, s *Server, path string) map[string]any {
	t.Helper()
	w := call(s, "GET", path, nil)
	if w.Code != 200 {
		t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
	}
	var m map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// binaryBody returns the body of a request with binary data and its header fields.
func binaryBody(header string, data ...[]byte) ([]byte, []string) {
	return append([]byte(header), bytes.Join(data, nil)...), []string{headerLength, strconv.Itoa(len(header))}
}

func dial(t testing.TB, s *Server) inference.GRPCInferenceServiceClient {
	t.Helper()
	return inference.NewGRPCInferenceServiceClient(dialConn(t, s))
}

func dialConn(t testing.TB, s *Server, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	g := grpc.NewServer(s.GRPCOptions()...)
	s.Register(g)
	go g.Serve(l)
	c, err := grpc.NewClient("passthrough:///test", append(opts,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); g.Stop() })
	return c
}

// samples holds two elements of every type: as JSON, and in binary form.
var samples = []struct{ datatype, json, raw string }{
	{"BOOL", `true,false`, "\x01\x00"},
	{"UINT8", `0,255`, "\x00\xff"},
	{"UINT16", `1,65535`, "\x01\x00\xff\xff"},
	{"UINT32", `1,4294967295`, "\x01\x00\x00\x00\xff\xff\xff\xff"},
	{"UINT64", `1,18446744073709551615`, "\x01\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff"},
	{"INT8", `-128,127`, "\x80\x7f"},
	{"INT16", `-2,32767`, "\xfe\xff\xff\x7f"},
	{"INT32", `-2,2147483647`, "\xfe\xff\xff\xff\xff\xff\xff\x7f"},
	{"INT64", `-2,9007199254740993`, "\xfe\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00\x00\x00\x00\x20\x00"},
	{"FP16", `1.5,-2`, "\x00\x3e\x00\xc0"},
	{"BF16", `1.5,-2`, "\xc0\x3f\x00\xc0"},
	{"FP32", `1.5,-2`, "\x00\x00\xc0\x3f\x00\x00\x00\xc0"},
	{"FP64", `1.5,-2`, "\x00\x00\x00\x00\x00\x00\xf8\x3f\x00\x00\x00\x00\x00\x00\x00\xc0"},
	{"BYTES", `"a","äö"`, "\x01\x00\x00\x00a\x04\x00\x00\x00äö"},
}

func TestSamplesCoverAllTypes(t *testing.T) {
	for _, d := range datatypes {
		found := 0
		for _, x := range samples {
			if x.datatype == d.name {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%d samples of %s, want 1", found, d.name)
		}
	}
}

func TestInferEveryTypeInEveryForm(t *testing.T) {
	for _, x := range samples {
		t.Run(x.datatype, func(t *testing.T) {
			dtype, err := parseDatatype(x.datatype)
			if err != nil {
				t.Fatal(err)
			}
			s := one(t, identity(t, dtype, 1, 2))
			nested, flat := "[["+x.json+"]]", "["+x.json+"]"
			want := `{"model_name":"m","model_version":"1","id":"q","outputs":[{"name":"y","datatype":"` + x.datatype + `","shape":[1,2],"data":` + flat + `}]}`
			for _, data := range []string{nested, flat} {
				w := call(s, "POST", "/v2/models/m/infer", []byte(`{"id":"q","inputs":[{"name":"x","shape":[1,2],"datatype":"`+x.datatype+`","data":`+data+`}]}`))
				if w.Code != 200 || w.Body.String() != want {
					t.Errorf("JSON %s: %d %s, want %s", data, w.Code, w.Body, want)
				}
			}
			header := `{"inputs":[{"name":"x","shape":[1,2],"datatype":"` + x.datatype + `","parameters":{"binary_data_size":` + strconv.Itoa(len(x.raw)) + `}}],` +
				`"outputs":[{"name":"y","parameters":{"binary_data":true}}]}`
			for pad := range 4 { // the data begins at every alignment
				body, h := binaryBody(strings.Repeat(" ", pad)+header, []byte(x.raw))
				w := call(s, "POST", "/v2/models/m/versions/1/infer", body, h...)
				n, _ := strconv.Atoi(w.Header().Get(headerLength))
				if got := w.Body.String(); w.Code != 200 || n > len(got) || got[n:] != x.raw {
					t.Errorf("binary: %d %s %q, want the data %q", w.Code, w.Header(), got, x.raw)
				} else if !json.Valid([]byte(got[:n])) || !strings.Contains(got[:n], `"binary_data_size":`+strconv.Itoa(len(x.raw))) {
					t.Errorf("binary: header %s", got[:n])
				}
			}
			c := dial(t, s)
			m := &inference.ModelInferRequest{ModelName: "m", Id: "q", RawInputContents: [][]byte{[]byte(x.raw)},
				Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: x.datatype, Shape: []int64{1, 2}}}}
			forms := []*inference.ModelInferRequest{m}
			if contents := typedContents(t, dtype, x.json); contents != nil {
				forms = append(forms, &inference.ModelInferRequest{ModelName: "m", Id: "q",
					Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: x.datatype, Shape: []int64{1, 2}, Contents: contents}}})
			}
			for i, m := range forms {
				r, err := c.ModelInfer(t.Context(), m)
				if err != nil {
					t.Fatalf("gRPC form %d: %v", i, err)
				}
				if r.Id != "q" || len(r.Outputs) != 1 || r.Outputs[0].Datatype != x.datatype ||
					string(r.RawOutputContents[0]) != x.raw {
					t.Errorf("gRPC form %d: %v", i, r)
				}
			}
		})
	}
}

// typedContents returns elements as typed contents, or nil if the protocol has none for the type.
func typedContents(t *testing.T, dtype tensor.DType, text string) *inference.InferTensorContents {
	c := new(inference.InferTensorContents)
	into := map[tensor.DType]any{tensor.TypeBool: &c.BoolContents, tensor.TypeInt8: &c.IntContents,
		tensor.TypeInt16: &c.IntContents, tensor.TypeInt32: &c.IntContents,
		tensor.TypeInt64: &c.Int64Contents, tensor.TypeUint8: &c.UintContents, tensor.TypeUint16: &c.UintContents, tensor.TypeUint32: &c.UintContents,
		tensor.TypeUint64: &c.Uint64Contents, tensor.TypeFloat32: &c.Fp32Contents, tensor.TypeFloat64: &c.Fp64Contents}[dtype]
	if dtype == tensor.TypeString {
		var l []string
		if err := json.Unmarshal([]byte("["+text+"]"), &l); err != nil {
			t.Fatal(err)
		}
		for _, s := range l {
			c.BytesContents = append(c.BytesContents, []byte(s))
		}
		return c
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal([]byte("["+text+"]"), into); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOutputsByName(t *testing.T) {
	s := one(t, simple(t, tensor.TypeInt32, 1, 2))
	const in = `"inputs":[{"name":"INPUT0","shape":[1,2],"datatype":"INT32","data":[5,6]},{"name":"INPUT1","shape":[1,2],"datatype":"INT32","data":[1,2]}]`
	for _, c := range []struct{ outputs, want string }{
		{``, `OUTPUT0[6,8]OUTPUT1[4,4]`},
		{`,"outputs":[]`, `OUTPUT0[6,8]OUTPUT1[4,4]`},
		{`,"outputs":[{"name":"OUTPUT1"}]`, `OUTPUT1[4,4]`},
		{`,"outputs":[{"name":"OUTPUT1"},{"name":"OUTPUT0"}]`, `OUTPUT1[4,4]OUTPUT0[6,8]`},
	} {
		w := call(s, "POST", "/v2/models/m/infer", []byte(`{`+in+c.outputs+`}`))
		var r struct {
			Outputs []struct {
				Name string
				Data json.RawMessage
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil {
			t.Fatalf("%s: %s", err, w.Body)
		}
		got := ""
		for _, o := range r.Outputs {
			got += o.Name + string(o.Data)
		}
		if got != c.want {
			t.Errorf("outputs %s: %s, want %s", c.outputs, got, c.want)
		}
	}
}

func TestBinaryOutputsByDefault(t *testing.T) {
	s := one(t, simple(t, tensor.TypeInt8, 2))
	body := `{"parameters":{"binary_data_output":true},"inputs":[{"name":"INPUT0","shape":[2],"datatype":"INT8","data":[5,6]},{"name":"INPUT1","shape":[2],"datatype":"INT8","data":[1,2]}]%s}`
	for outputs, want := range map[string]string{
		``: "\x06\x08\x04\x04",
		`,"outputs":[{"name":"OUTPUT0","parameters":{"binary_data":false}},{"name":"OUTPUT1"}]`: "\x04\x04",
	} {
		w := call(s, "POST", "/v2/models/m/infer", fmt.Appendf(nil, body, outputs))
		n, err := strconv.Atoi(w.Header().Get(headerLength))
		if err != nil || w.Body.String()[n:] != want {
			t.Errorf("outputs %q: %s %q, want the data %q", outputs, w.Header(), w.Body, want)
		}
	}
}

func TestClassification(t *testing.T) {
	const config = `max_batch_size: 4 output { name: "y" label_filename: "labels.txt" }`
	s := newServer(t,
		writeRepo(t, map[string][]byte{"m/config.pbtxt": []byte(config), "m/labels.txt": []byte("cat\ndog\n"),
			"m/1/model.onnx": identity(t, tensor.TypeFloat32, "n", 3)}), nil)
	infer := func(k string) string {
		return call(s, "POST", "/v2/models/m/infer", []byte(`{"inputs":[{"name":"x","shape":[2,3],"datatype":"FP32","data":[1,3,2,0.5,"NaN",0.5]}],"outputs":[{"name":"y","parameters":{"classification":`+k+`}}]}`)).Body.String()
	}
	for k, want := range map[string]string{
		"1": `"datatype":"BYTES","shape":[2,1],"data":["3.000000:1:dog","0.500000:0:cat"]`,
		"9": `"shape":[2,3],"data":["3.000000:1:dog","2.000000:2","1.000000:0:cat","0.500000:0:cat","0.500000:2","NaN:1:dog"]`,
	} {
		if got := infer(k); !strings.Contains(got, want) {
			t.Errorf("classification %s: %s, want %s", k, got, want)
		}
	}
	w := call(one(t, identity(t, tensor.TypeString, 1)), "POST", "/v2/models/m/infer",
		[]byte(`{"inputs":[{"name":"x","shape":[1],"datatype":"BYTES","data":["a"]}],"outputs":[{"name":"y","parameters":{"classification":1}}]}`))
	if w.Code != 400 {
		t.Errorf("classification of strings: %d %s, want 400", w.Code, w.Body)
	}
}

func TestMetadataConfigAndStatistics(t *testing.T) {
	s := newServer(t, writeRepo(t, map[string][]byte{
		"m/config.pbtxt": []byte(`max_batch_size: 8 version_policy { all {} } instance_group { count: 3 }`),
		"m/1/model.onnx": scaled(t, 1), "m/3/model.onnx": scaled(t, 3), "m/notes/readme": nil, "m/02/model.onnx": nil}), nil)
	m := get(t, s, "/v2/models/m")
	if got := fmt.Sprint(m); got != "map[inputs:[map[datatype:FP32 name:x shape:[-1 2]]] name:m "+
		"outputs:[map[datatype:FP32 name:y shape:[-1 2]]] platform:onnxruntime_onnx versions:[1 3]]" {
		t.Errorf("metadata: %s", got)
	}
	c := get(t, s, "/v2/models/m/config")
	if got := fmt.Sprintf("%v %v %v %v", c["max_batch_size"], c["input"], c["instance_group"], c["platform"]); got !=
		"8 [map[allow_ragged_batch:false data_type:TYPE_FP32 dims:[2] format:FORMAT_NONE name:x optional:false]] "+
			"[map[count:3 kind:KIND_CPU name:m_0]] onnxruntime_onnx" {
		t.Errorf("configuration: %s", got)
	}
	body := []byte(`{"inputs":[{"name":"x","shape":[2,2],"datatype":"FP32","data":[1,2,3,4]}]}`)
	if w := call(s, "POST", "/v2/models/m/infer", body); !strings.Contains(w.Body.String(), `"model_version":"3","outputs":[{"name":"y","datatype":"FP32","shape":[2,2],"data":[3,6,9,12]}]`) {
		t.Errorf("the latest version answers %s", w.Body)
	}
	if w := call(s, "POST", "/v2/models/m/versions/1/infer", body); !strings.Contains(w.Body.String(), `"data":[1,2,3,4]`) {
		t.Errorf("version 1 answers %s", w.Body)
	}
	call(s, "POST", "/v2/models/m/versions/1/infer", []byte(`{"inputs":[]}`))
	stats := get(t, s, "/v2/models/m/versions/1/stats")["model_stats"].([]any)
	if len(stats) != 1 {
		t.Fatalf("statistics: %v", stats)
	}
	x := stats[0].(map[string]any)
	inner := x["inference_stats"].(map[string]any)
	count := func(k string) any { return inner[k].(map[string]any)["count"] }
	if got := fmt.Sprintf("%v %v %v %v %v %v", x["version"], x["inference_count"], x["execution_count"],
		count("success"), count("fail"), count("queue")); got != "1 2 1 1 1 1" {
		t.Errorf("statistics: %s", got)
	}
	if all := get(t, s, "/v2/models/stats")["model_stats"].([]any); len(all) != 2 {
		t.Errorf("statistics of all models: %d, want 2", len(all))
	}
	g, err := dial(t, s).ModelStatistics(t.Context(), &inference.ModelStatisticsRequest{Name: "m", Version: "1"})
	if err != nil || len(g.ModelStats) != 1 || g.ModelStats[0].InferenceCount != 2 ||
		g.ModelStats[0].InferenceStats.Fail.Count != 1 {
		t.Errorf("statistics over gRPC: %v, %v", g, err)
	}
	w := httptest.NewRecorder()
	s.MetricsHandler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{`nv_inference_request_success{model="m",version="1"} 1`, `nv_inference_request_failure{model="m",reason="OTHER",version="1"} 1`,
		`nv_inference_count{model="m",version="3"} 2`, `nv_inference_pending_request_count{model="m",version="3"} 0`} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("metrics lack %s", line)
		}
	}
}

func TestResponsesAreCompressed(t *testing.T) {
	s := one(t, identity(t, tensor.TypeInt64, "n"))
	data := strings.Repeat("0,", 2000) + "0"
	body := []byte(`{"inputs":[{"name":"x","shape":[2001],"datatype":"INT64","data":[` + data + `]}]}`)
	plain := call(s, "POST", "/v2/models/m/infer", body)
	for _, enc := range []string{"gzip", "deflate"} {
		w := call(s, "POST", "/v2/models/m/infer", compress(t, enc, body), "Content-Encoding", enc,
			"Accept-Encoding", "br, "+enc)
		if w.Header().Get("Content-Encoding") != enc || w.Body.Len() > 1000 {
			t.Errorf("%s: %d bytes, headers %v", enc, w.Body.Len(), w.Header())
			continue
		}
		if got := decompress(t, enc, w.Body); got != plain.Body.String() {
			t.Errorf("%s: the content differs", enc)
		}
	}
	if w := call(s, "POST", "/v2/models/m/infer", body, "Accept-Encoding", "gzip;q=0"); w.Header().
		Get("Content-Encoding") != "" {
		t.Errorf("gzip is refused by the client, but used: %v", w.Header())
	}
}

func TestBearerTokens(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, Tokens: []string{"one", "two"}})
	for _, c := range []struct {
		header string
		code   int
	}{{"", 401}, {"Bearer", 401}, {"Bearer three", 401}, {"Basic one", 401}, {"one", 401}, {"Bearer one", 200},
		{"bearer two", 200}} {
		if w := call(s, "GET", "/v2/models/m", nil, "Authorization", c.header); w.Code != c.code {
			t.Errorf("Authorization %q: %d, want %d", c.header, w.Code, c.code)
		}
	}
	for _, path := range []string{"/healthz", "/v2/health/live", "/v2/health/ready"} {
		if w := call(s, "GET", path, nil); w.Code != 200 {
			t.Errorf("%s without token: %d", path, w.Code)
		}
	}
}

func decodeLength(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

func TestEncodeRawStrings(t *testing.T) {
	b := encodeRaw(tensor.Must(tensor.New([]string{"", "abc"})))
	if len(b) != 11 || decodeLength(b) != 0 || decodeLength(b[4:]) != 3 || string(b[8:]) != "abc" {
		t.Errorf("%q", b)
	}
}

func readAll(t testing.TB, r io.Reader) []byte {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestUnsupportedExtensions(t *testing.T) {
	s := one(t, scaled(t, 1))
	for _, path := range []string{"/v2/cudasharedmemory/region/r/register", "/v2/models/m/generate",
		"/v2/models/m/generate_stream"} {
		if w := call(s, "POST", path, nil); w.Code != 501 || !strings.Contains(w.Body.String(), "not supported") {
			t.Errorf("%s: %d %s, want 501", path, w.Code, w.Body)
		}
	}
}

func TestProbes(t *testing.T) {
	s := one(t, scaled(t, 1))
	if w := call(s, "GET", "/v2/models/m/ready", nil); w.Code != 200 {
		t.Errorf("model ready: %d", w.Code)
	}
	if w := call(s, "HEAD", "/healthz", nil); w.Code != 200 {
		t.Errorf("HEAD /healthz: %d", w.Code)
	}
	// KServe's client names the model in the body, too.
	body := `{"model_name":"m","model_version":null,` + fp32("[1,2]", "[1,2]")[1:]
	if w := call(s, "POST", "/v2/models/m/infer", []byte(body)); w.Code != 200 {
		t.Errorf("request with model_name: %d %s", w.Code, w.Body)
	}
	if w := call(s, "POST", "/v2/models/m/versions/1/infer", []byte(strings.Replace(body, "null", `"2"`, 1))); w.Code !=
		400 {
		t.Errorf("request with the version of another path: %d %s", w.Code, w.Body)
	}
	// KServe's client reads the bodies.
	for path, want := range map[string]string{"/v2/health/live": `{"live":true}`, "/v2/health/ready": `{"ready":true}`, "/v2/models/m/ready": `{"name":"m","ready":true}`} {
		if w := call(s, "GET", path, nil); w.Body.String() != want {
			t.Errorf("%s: %s, want %s", path, w.Body, want)
		}
	}
	s.Drain()
	if a, b := call(s, "GET", "/v2/health/live", nil).Code, call(s, "GET", "/healthz", nil).Code; a != http.StatusOK ||
		b != http.StatusServiceUnavailable {
		t.Errorf("while draining: live %d, healthz %d, want 200 and 503", a, b)
	}
}

// TestEmptyRepositoryIsLogged starts a server that has nothing to serve.
func TestEmptyRepositoryIsLogged(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	s, err := New(t.Context(), dir, &Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, want := range []string{"level=WARN", "no models to serve", "MODEL/VERSION/model.onnx", dir} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log has no %q: %s", want, out.String())
		}
	}
}
