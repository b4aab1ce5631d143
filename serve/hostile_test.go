package serve

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

func compress(t testing.TB, enc string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var z io.WriteCloser = gzip.NewWriter(&b)
	if enc == "deflate" {
		z = zlib.NewWriter(&b)
	}
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decompress(t testing.TB, enc string, r io.Reader) string {
	t.Helper()
	var z io.Reader
	var err error
	if enc == "deflate" {
		z, err = zlib.NewReader(r)
	} else {
		z, err = gzip.NewReader(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(readAll(t, z))
}

// fp32 is a request with one input of the model scaled.
func fp32(shape, data string) string {
	return `{"inputs":[{"name":"x","shape":` + shape + `,"datatype":"FP32","data":` + data + `}]}`
}

// refused sends a request and checks its status and a part of its error.
func refused(t *testing.T, s *Server, body string, code int, want string, headers ...string) {
	t.Helper()
	w := call(s, "POST", "/v2/models/m/infer", []byte(body), headers...)
	var e errorJSON
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Error == "" {
		t.Errorf("%.200s: %d %s, want a JSON error", body, w.Code, w.Body)
	} else if w.Code != code || !strings.Contains(e.Error, want) {
		t.Errorf("%.200s: %d %s, want %d and %q", body, w.Code, e.Error, code, want)
	}
	if w := call(s, "POST", "/v2/models/m/infer", []byte(fp32("[1,2]", "[1,2]"))); w.Code != 200 {
		t.Errorf("after %.200s the server fails: %d %s", body, w.Code, w.Body)
	}
}

// TestLongNamesInErrors sends requests with errors that list the inputs or outputs of a model whose
// names are long, and loads it with configurations that do not fit it. The names are shortened
// before the error is made.
func TestLongNamesInErrors(t *testing.T) {
	const n, size = 16, 1 << 16
	long := func(i int) string { return strings.Repeat("\x01", size) + fmt.Sprint(i) }
	b := onnx.NewModel("long").Opset("", 17).IRVersion(8)
	for i := range n {
		b.Input("x"+long(i), onnx.Float, 1).Output("y"+long(i), onnx.Float, 1)
		b.Node("Identity", []string{"x" + long(i)}, []string{"y" + long(i)})
	}
	b.Input("x", onnx.Float, 1).Output("y", onnx.Float, 1).Node("Identity", []string{"x"}, []string{"y"})
	data := modelBytes(t, b)
	s := one(t, data)
	for _, c := range []struct{ body, want string }{
		{`{"inputs":[{"name":"q","shape":[1],"datatype":"FP32","data":[1]}]}`, "input 'q'"},
		{`{"inputs":[]}`, "missing"},
		{`{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}]}`, "missing"},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/v2/models/m/infer", strings.NewReader(c.body))
		if got := allocated(func() { s.Handler().ServeHTTP(w, r) }); got > 4*size {
			t.Errorf("%s: %d bytes are allocated, want at most %d", c.body, got, 4*size)
		}
		if got := w.Body.String(); w.Code != 400 || !strings.Contains(got, c.want) || !strings.Contains(got, " more") {
			t.Errorf("%s: %d %.300s, want 400, %s and how many more names there are", c.body, w.Code, got, c.want)
		}
	}
	m := &request{model: "m", outputs: []wanted{{name: "q"}}}
	for i := range n {
		m.inputs = append(m.inputs, namedTensor{"x" + long(i), tensor.Must(tensor.New([]float32{1}, 1))})
	}
	m.inputs = append(m.inputs, namedTensor{"x", tensor.Must(tensor.New([]float32{1}, 1))})
	if got := allocated(func() {
		_, err := s.infer(t.Context(), m)
		if err == nil || !strings.Contains(err.Error(), "output 'q'") {
			t.Errorf("an unknown output: %v", err)
		}
	}); got > 4*size {
		t.Errorf("the error of an unknown output allocates %d bytes, want at most %d", got, 4*size)
	}
	for _, config := range []string{`input { name: "q" }`, `output { name: "q" }`, `max_batch_size: 2`} {
		_, err := New(t.Context(), writeRepo(t, map[string][]byte{"m/1/model.onnx": data,
			"m/config.pbtxt": []byte(config)}), quiet(nil))
		if err == nil || len(err.Error()) > 4*maxError {
			t.Errorf("%s: error %.300v, want one of at most %d bytes", config, err, 4*maxError)
		}
	}
	for _, step := range []string{`input_map { key: "q" value: "a" }`, `output_map { key: "q" value: "b" }`, ""} {
		_, err := New(t.Context(), writeRepo(t, map[string][]byte{"m/1/model.onnx": data,
			"e/config.pbtxt": []byte(`input { name: "a" } output { name: "b" } ensemble_scheduling { step { model_name: "m" ` +
				step + ` } }`)}), quiet(nil))
		if err == nil || len(err.Error()) > 4*maxError {
			t.Errorf("an ensemble with %s: error %.300v, want one of at most %d bytes", step, err, 4*maxError)
		}
	}
}

func TestBadJSON(t *testing.T) {
	s := one(t, scaled(t, 1))
	for _, c := range []struct{ body, want string }{
		{"", "JSON"},
		{"{", "JSON"},
		{"[]", "JSON"},
		{"nul", "JSON"},
		{fp32("[1,2]", "[1,2]") + "{}", "data after the end"},
		{"{\"id\":\"\xff\"}", "UTF-8"},
		{`{"id":7}`, "JSON"},
		{`{"inptus":[]}`, "inptus"},
		{`{"model_name":"other","inputs":[]}`, "but the path"},
		{`{"model_name":7}`, "JSON"},
		{`{"inputs":{}}`, "JSON"},
		{`{"inputs":[]}`, "missing \"x\""},
		{`{}`, "missing \"x\""},
		{`{"inputs":[null]}`, "datatype"},
		{fp32("[1,2]", "[1,"), "JSON"},
		{fp32("[1,2]", "null"), "data"},
		{fp32("[1,2]", `{"a":1}`), "data"},
		{fp32("[1,2]", `["a","b"]`), "data"},
		{fp32("[1,2]", `[1,true]`), "data"},
		{fp32("[1,2]", `[[1],[2,3]]`), "data"},
		{`{"parameters":{"priority":{}},"inputs":[]}`, "priority"},
		{`{"parameters":{"unknown":1},"inputs":[]}`, "unknown"},
		{`{"parameters":{"sequence_id":5},"inputs":[]}`, "model 'm' is stateless"},
		{`{"parameters":{"priority":-1},"inputs":[]}`, "priority"},
		{`{"parameters":{"timeout":1e999},"inputs":[]}`, "timeout"},
	} {
		refused(t, s, c.body, 400, c.want)
	}
}

func TestJSONDepth(t *testing.T) {
	s := one(t, scaled(t, 1))
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	refused(t, s, deep, 400, "JSON")
	refused(t, s, fp32("[1,2]", deep), 400, "depth")
	refused(t, s, `{"parameters":{"a":`+strings.Repeat(`{"a":`, 100_000)+"1"+strings.Repeat("}", 100_001)+"}", 400, "must be a bool")
	refused(t, s, fp32("[1,2]", strings.Repeat("[", 5000)+"1,2"+strings.Repeat("]", 5000)), 400, "data")
}

func TestNumbersOutOfRange(t *testing.T) {
	s := one(t, scaled(t, 1))
	refused(t, s, fp32("[1,2]", "[1e999,0]"), 400, "1e999")
	refused(t, s, fp32("[1,2]", "[1e39,0]"), 400, "1e39")
	refused(t, s, fp32("[9223372036854775808,2]", "[]"), 400, "JSON")
	refused(t, s, fp32("[1.5,2]", "[]"), 400, "JSON")
	ints := newServer(t, "", &Options{Models: []Model{{Name: "i", Data: identity(t, tensor.TypeInt64, 1)}}})
	infer := func(v string) (int, string) {
		w := call(ints, "POST", "/v2/models/i/infer", []byte(`{"inputs":[{"name":"x","shape":[1],"datatype":"INT64","data":[`+v+`]}]}`))
		return w.Code, w.Body.String()
	}
	// no float64 between
	for _, v := range []string{"9007199254740993", "-9223372036854775808", "9223372036854775807"} {
		if code, body := infer(v); code != 200 || !strings.Contains(body, `"data":[`+v+`]`) {
			t.Errorf("%s: %d %s, want the same number", v, code, body)
		}
	}
	for _, v := range []string{"9223372036854775808", "1.5", "1e30"} {
		if code, body := infer(v); code != 400 {
			t.Errorf("%s: %d %s, want 400", v, code, body)
		}
	}
}

// Errors must stay short when they quote names, of which JSON escapes each character.
func TestErrorsShortenNames(t *testing.T) {
	s := one(t, scaled(t, 1))
	long := strings.Repeat("<", 1000)
	x := `{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}`
	for _, body := range []string{
		`{"inputs":[` + strings.Replace(x, `"x"`, `"`+long+`"`, 1) + `]}`,
		`{"inputs":[` + x + `],"outputs":[{"name":"` + long + `"}]}`,
		`{"inputs":[` + x + `],"parameters":{"` + long + `":1}}`,
		`{"inputs":[` + x + `],"parameters":{"priority":"` + long + `"}}`,
		`{"inputs":[` + x + `],"parameters":{"binary_data_output":"` + long + `"}}`,
	} {
		if w := call(s, "POST", "/v2/models/m/infer", []byte(body)); w.Code != 400 || w.Body.Len() > 2048 {
			t.Errorf("%.60s: %d with %d bytes: %.80s", body, w.Code, w.Body.Len(), w.Body)
		}
	}
	w := call(s, "POST", "/v2/models/"+url.PathEscape(long)+"/infer", []byte(`{"inputs":[`+x+`]}`))
	if w.Code != 404 || w.Body.Len() > 2048 {
		t.Errorf("an unknown model: %d with %d bytes: %.80s", w.Code, w.Body.Len(), w.Body)
	}
}

func TestInputsAndOutputsOfRequests(t *testing.T) {
	s := one(t, scaled(t, 1))
	x := `{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}`
	for _, c := range []struct{ body, want string }{
		{`{"inputs":[` + x + `,` + x + `]}`, "twice"},
		{`{"inputs":[` + x + `,` + strings.Replace(x, `"x"`, `"z"`, 1) + `]}`, "unexpected inference input 'z'"},
		{`{"inputs":[` + strings.Replace(x, `"x"`, `"X"`, 1) + `]}`, "unexpected inference input 'X'"},
		{`{"inputs":[` + strings.Replace(x, `FP32`, `fp32`, 1) + `]}`, "unknown datatype"},
		{`{"inputs":[` + strings.Replace(x, `FP32`, `FP64`, 1) + `]}`, "expects 'FP32'"},
		{`{"inputs":[` + strings.Replace(x, `"shape":[1,2],`, ``, 1) + `]}`, "shape is missing"},
		{`{"inputs":[` + strings.Replace(x, `,"data":[1,2]`, ``, 1) + `]}`, "neither data nor"},
		{`{"inputs":[` + strings.Replace(x, `"data"`, `"parameters":{"binary_data_size":8},"data"`, 1) + `]}`, "both data and"},
		{`{"inputs":[` + strings.Replace(x, `"data"`, `"parameters":{"a":8},"data"`, 1) + `]}`, "unknown parameter"},
		{`{"inputs":[` + strings.Replace(x, `"data"`, `"parameters":{"shared_memory_region":"r"},"data"`, 1) + `]}`, "shared_memory_region"},
		{`{"inputs":[` + x + `],"outputs":[{"name":"z"}]}`, "unexpected inference output 'z'"},
		{`{"inputs":[` + x + `],"outputs":[{"name":"y"},{"name":"y"}]}`, "twice"},
		{`{"inputs":[` + x + `],"outputs":[{"name":"y","parameters":{"classification":-1}}]}`, "is -1, want"},
		{`{"inputs":[` + x + `],"outputs":[{"name":"y","parameters":{"binary_data":1}}]}`, "binary_data"},
		{fp32("[2]", "[1,2]"), "unexpected shape"},
		{fp32("[1,3]", "[1,2,3]"), "unexpected shape"},
		{fp32("[1,2]", "[1,2,3]"), "data"},
		{fp32("[-1,2]", "[1,2]"), "want 0 or more"},
		{fp32("[4294967296,4294967296]", "[1]"), "x"},
		{fp32("["+strings.Repeat("1,", 5000)+"1]", "[1]"), "dimensions"},
	} {
		refused(t, s, c.body, 400, c.want)
	}
}

func TestBinaryDataSizes(t *testing.T) {
	s := newServer(t, "",
		&Options{Models: []Model{{Name: "m", Data: scaled(t, 1)},
			{Name: "s", Data: identity(t, tensor.TypeString, "n")}, {Name: "b", Data: identity(t, tensor.TypeBool, 1)}}})
	header := func(size string) string {
		return `{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":` + size + `}}]}`
	}
	for _, c := range []struct{ size, data, want string }{
		{"7", "1234567", "takes 8"},
		{"9", "123456789", "takes 8"},
		{"8", "1234567", "remain"},
		{"8", "123456789", "1 bytes after"},
		{"-8", "12345678", "binary_data_size"},
		{`"x"`, "12345678", "binary_data_size"},
		{"18446744073709551615", "12345678", "remain"},
		{"1e999", "12345678", "binary_data_size"},
	} {
		body, h := binaryBody(header(c.size), []byte(c.data))
		refused(t, s, string(body), 400, c.want, h...)
	}
	for h, want := range map[string]string{"999999": "but the body has", "-1": "want a number", "x": "want a number",
		"5": "JSON", "99999999999999999999": "want a number"} {
		refused(t, s, header("8")+"12345678", 400, want, headerLength, h)
	}
	bytesBody := func(model, datatype, shape, data string) (int, string) {
		body, h := binaryBody(fmt.Sprintf(`{"inputs":[{"name":"x","shape":%s,"datatype":"%s","parameters":{"binary_data_size":%d}}]}`, shape, datatype, len(data)), []byte(data))
		w := call(s, "POST", "/v2/models/"+model+"/infer", body, h...)
		return w.Code, w.Body.String()
	}
	for _, c := range []struct{ shape, data, want string }{
		{"[1]", "\x05\x00\x00\x00abc", "has length 5"},
		{"[1]", "\xff\xff\xff\xffabc", "has length 4294967295"},
		{"[2]", "\x01\x00\x00\x00a\x00\x00\x00", "ends in the length"},
		{"[1]", "\x01\x00\x00\x00ab", "after the last"},
		{"[1000000000]", "\x01\x00\x00\x00a", "at least 4000000000"},
		{"[0]", "a", "after the last"},
	} {
		if code, body := bytesBody("s", "BYTES", c.shape, c.data); code != 400 || !strings.Contains(body, c.want) {
			t.Errorf("BYTES %s %q: %d %s, want 400 and %q", c.shape, c.data, code, body, c.want)
		}
	}
	if code, body := bytesBody("b", "BOOL", "[1]", "\x02"); code != 400 || !strings.Contains(body, "want 0 or 1") {
		t.Errorf("BOOL 2: %d %s", code, body)
	}
	if code, body := bytesBody("s", "BYTES", "[1]", "\x01\x00\x00\x00\xff"); code != 400 ||
		!strings.Contains(body, "not UTF-8") {
		t.Errorf("BYTES that JSON cannot hold: %d %s", code, body)
	}
}

func TestBodyLimit(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, MaxBody: 1000})
	refused(t, s, fp32("[1,2]", "[1,2"+strings.Repeat(" ", 1000)+"]"), 413, "limit")
	// Without a Content-Length the size is not known in advance.
	r := httptest.NewRequest("POST", "/v2/models/m/infer", io.MultiReader(strings.NewReader(strings.Repeat(" ", 2000))))
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if w.Code != 413 {
		t.Errorf("chunked body of 2000 bytes: %d %s, want 413", w.Code, w.Body)
	}
	_, err := dial(t, s).
		ModelInfer(t.Context(),
			&inference.ModelInferRequest{ModelName: "m", RawInputContents: [][]byte{make([]byte, 2000)}})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("message of 2000 bytes: %v, want RESOURCE_EXHAUSTED", err)
	}
}

func TestGzipBomb(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, MaxBody: 1 << 20})
	for _, enc := range []string{"gzip", "deflate"} {
		bomb := compress(t, enc, make([]byte, 64<<20))
		if len(bomb) > 1<<20 {
			t.Fatalf("%s: %d bytes are no bomb", enc, len(bomb))
		}
		refused(t, s, string(bomb), 413, "limit", "Content-Encoding", enc)
		good := compress(t, enc, []byte(fp32("[1,2]", "[1,2]")))
		refused(t, s, string(good[:len(good)-6]), 400, "cannot be read", "Content-Encoding", enc)
		refused(t, s, string(good)+"x", 400, "cannot be read", "Content-Encoding", enc)
		refused(t, s, "no "+enc, 400, "cannot be read", "Content-Encoding", enc)
	}
	refused(t, s, "x", 415, "not supported", "Content-Encoding", "br")
}

func TestModelNames(t *testing.T) {
	s := newServer(t, writeRepo(t, map[string][]byte{"m/1/model.onnx": scaled(t, 1)}),
		&Options{AllowModelControl: true})
	for _, name := range []string{"..%2F..%2Fetc", "%2e%2e", "m%2F..%2Fm", "m%00", "m%2F1", "m%5C1", "M",
		strings.Repeat("a", 5000)} {
		for _, x := range []struct{ method, path string }{{"POST", "/v2/models/%s/infer"}, {"GET", "/v2/models/%s"},
			{"POST", "/v2/repository/models/%s/load"}} {
			w := call(s, x.method, fmt.Sprintf(x.path, name), []byte(`{}`))
			if w.Code != 404 && w.Code != 400 {
				t.Errorf("%s: %d %s, want 400 or 404", fmt.Sprintf(x.path, name), w.Code, w.Body)
			}
		}
	}
	for _, v := range []string{"2", "0", "-1", "01", "+1", "1.0", "x", "99999999999999999999"} {
		if w := call(s, "GET", "/v2/models/m/versions/"+v, nil); w.Code != 404 && w.Code != 400 {
			t.Errorf("version %s: %d %s, want 400 or 404", v, w.Code, w.Body)
		}
	}
	c := dial(t, s)
	for _, name := range []string{"../m", "", "..", "m/1", "m\x00"} {
		_, err := c.RepositoryModelLoad(t.Context(), &inference.RepositoryModelLoadRequest{ModelName: name})
		if code := status.Code(err); code != codes.InvalidArgument && code != codes.NotFound {
			t.Errorf("load of %q: %v", name, err)
		}
	}
	for method, path := range map[string]string{"GET": "/v2/models/m/infer", "POST": "/v2/models/m",
		"DELETE": "/v2/models/m"} {
		if w := call(s, method, path, nil); w.Code != 405 || w.Header().Get("Allow") == "" {
			t.Errorf("%s %s: %d, want 405", method, path, w.Code)
		}
	}
}

// TestMetricLabelFlood checks that unknown models add no series.
func TestMetricLabelFlood(t *testing.T) {
	s := one(t, scaled(t, 1))
	count := func() int {
		f, err := s.opts.Metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, m := range f {
			n += len(m.Metric)
		}
		return n
	}
	before := count()
	for i := range 100 {
		call(s, "POST", fmt.Sprintf("/v2/models/none%d/infer", i), []byte(fp32("[1,2]", "[1,2]")))
		call(s, "POST", fmt.Sprintf("/v2/models/m/versions/%d/infer", i+2), []byte(fp32("[1,2]", "[1,2]")))
	}
	if after := count(); after != before {
		t.Errorf("%d series, and %d after requests for unknown models", before, after)
	}
}

func TestMemoryOfARun(t *testing.T) {
	o := &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}}
	o.Session.Limits = onward.Limits{MaxMemory: 1 << 16}
	s := newServer(t, "", o)
	refused(t, s, fp32("[100000,2]", "["+strings.Repeat("1,", 199_999)+"1]"), 413, "memory")
}

// TestTooManyRequests checks that requests over MaxRequests are refused while others wait for
// their body.
// TestMemoryOfAllRequests checks that requests are refused, with a status that asks for another
// attempt, while the memory of all is in use, and that they give back what they reserve.
func TestMemoryOfAllRequests(t *testing.T) {
	const total = 1 << 20
	s := newServer(t, "",
		&Options{TotalMemory: total,
			Models: []Model{{Name: "m", Data: scaled(t, 1)}, {Name: "other", Data: scaled(t, 2)}}})
	held := s.memory.Used() // by the models
	small, large := fp32("[1,2]", "[1,2]"), fp32("[1000,2]", "["+strings.Repeat("1,", 1999)+"1]")
	post := func(body string) (int, string) {
		w := call(s, "POST", "/v2/models/m/infer", []byte(body))
		return w.Code, w.Body.String()
	}
	run := int64(len(large)) + 4000 // the run reserves 8000 bytes for the output
	for _, c := range []struct {
		name string
		used int64 // by others
		body string
		code int
		want string
	}{
		{"free", 0, large, 200, "outputs"},
		{"body does not fit", total - held - 10, small, 503, "memory budget exceeded"},
		{"run does not fit", total - held - run, large, 503, "memory budget exceeded"},
		{"small one fits", total - held - run, small, 200, "outputs"},
		{"never fits", 0, fp32("[200000,2]", "["+strings.Repeat("1,", 399_999)+"1]"), 413, "memory of all requests"},
		{"body never fits", 0, strings.Repeat(" ", total+1), 413, "memory of all requests"},
	} {
		if err := s.memory.Reserve(c.used); err != nil {
			t.Fatal(err)
		}
		code, body := post(c.body)
		if code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s, want %d %s", c.name, code, body, c.code, c.want)
		}
		if got := s.memory.Used() - held; got != c.used {
			t.Errorf("%s: %d bytes are reserved after the request, want %d", c.name, got, c.used)
		}
		s.memory.Release(c.used)
	}
	c := dial(t, s)
	if _, err := c.ServerLive(t.Context(), &inference.ServerLiveRequest{}); err != nil {
		t.Fatal(err)
	}
	held = s.memory.Used() // by the models and the connection
	used := total - held - total/spareShare - streamCost - 6000
	if err := s.memory.Reserve(used); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ModelInfer(t.Context(), message("other", "FP32", []int64{1, 2}, "12345678")); status.Code(err) !=
		codes.ResourceExhausted {
		t.Errorf("gRPC: %v, want RESOURCE_EXHAUSTED", err)
	}
	if w := call(s, "POST", "/v2/models/other/infer", []byte(large)); w.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	s.memory.Release(used)
}

func TestTooManyRequests(t *testing.T) {
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, MaxRequests: 1})
	body, end := io.Pipe()
	first := httptest.NewRecorder()
	var wait sync.WaitGroup
	wait.Go(func() { s.Handler().ServeHTTP(first, httptest.NewRequest("POST", "/v2/models/m/infer", body)) })
	if _, err := end.Write([]byte("{")); err != nil { // returns when the first request reads it
		t.Fatal(err)
	}
	w := call(s, "POST", "/v2/models/m/infer", []byte(fp32("[1,2]", "[1,2]")))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("second request: %d %v, want 503 with Retry-After", w.Code, w.Header())
	}
	_, err := dial(t, s).ModelInfer(t.Context(), &inference.ModelInferRequest{ModelName: "m"})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("second request over gRPC: %v, want RESOURCE_EXHAUSTED", err)
	}
	end.Write([]byte(fp32("[1,2]", "[1,2]")[1:]))
	end.Close()
	wait.Wait()
	if first.Code != 200 {
		t.Errorf("first request: %d %s", first.Code, first.Body)
	}
}

// TestSlowClients checks that a connection that sends nothing, or a body in tiny pieces, is closed.
func TestSlowClients(t *testing.T) {
	s := one(t, scaled(t, 1))
	srv := httptest.NewUnstartedServer(s.Handler())
	srv.Config = HTTPServer(s.Handler(), 50*time.Millisecond)
	srv.Start()
	defer srv.Close()
	for _, start := range []string{"", "POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\n",
		"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"} {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, start); err != nil {
			t.Fatal(err)
		}
		// The server answers with an error or closes; without its timeouts
		// this would block forever.
		if b, err := io.ReadAll(c); err == nil && strings.HasPrefix(string(b), "HTTP/1.1 200") {
			t.Errorf("%q: %s", start, b)
		}
		c.Close()
	}
}

// TestContentLengths sends bodies that are longer or shorter than their Content-Length.
func TestContentLengths(t *testing.T) {
	s := one(t, scaled(t, 1))
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	// half closes the connection after the text, which net/http takes for the client's leaving once
	// it has read the body.
	send := func(text string, half bool) string {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, text)
		if half {
			c.(*net.TCPConn).CloseWrite()
		}
		b, _ := io.ReadAll(c)
		return string(b)
	}
	good := fp32("[1,2]", "[1,2]")
	request := "POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
	for _, length := range []string{"-1", "x", "1e3", "99999999999999999999"} {
		if got := send(request+"Content-Length: "+length+"\r\n\r\n"+good, false); !strings.HasPrefix(got,
			"HTTP/1.1 400") {
			t.Errorf("Content-Length %s: %.100s, want 400", length, got)
		}
	}
	if got := send(request+fmt.Sprintf("Content-Length: %d\r\n\r\n", len(good)-1)+good, false); !strings.HasPrefix(got,
		"HTTP/1.1 400") {
		t.Errorf("Content-Length one too small: %.100s, want 400", got)
	}
	if got := send(request+fmt.Sprintf("Content-Length: %d\r\n\r\n", len(good)+1)+good, true); strings.HasPrefix(got,
		"HTTP/1.1 200") {
		t.Errorf("Content-Length one too large: %.100s", got)
	}
	chunks := ""
	for _, b := range []byte(good) {
		chunks += fmt.Sprintf("1\r\n%c\r\n", b)
	}
	if got := send(request+"Transfer-Encoding: chunked\r\n\r\n"+chunks+"0\r\n\r\n", false); !strings.HasPrefix(got,
		"HTTP/1.1 200") {
		t.Errorf("chunks of one byte: %.100s, want 200", got)
	}
	if got := send(request+"X: "+strings.Repeat("a", 2<<20)+"\r\n\r\n", false); strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("header of 2 MiB: %.100s", got)
	}
}

// TestLoadAndUnloadRaces runs requests while their model is loaded, unloaded and polled. Requests
// succeed or find no model.
func TestLoadAndUnloadRaces(t *testing.T) {
	s := newServer(t, writeRepo(t, map[string][]byte{"m/1/model.onnx": scaled(t, 1)}),
		&Options{AllowModelControl: true})
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for ctx.Err() == nil {
				if w := call(s, "POST", "/v2/models/m/infer", []byte(fp32("[1,2]", "[1,2]"))); w.Code != 200 &&
					w.Code != 404 && w.Code != 503 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
	var control sync.WaitGroup
	for i := range 3 {
		control.Go(func() {
			for range 30 {
				path := "/v2/repository/models/m/load"
				if i == 1 {
					path = "/v2/repository/models/m/unload"
				}
				if i == 2 {
					if err := s.Poll(ctx); err != nil {
						t.Error(err)
					}
				} else if w := call(s, "POST", path, nil); w.Code != 200 {
					t.Errorf("%s: %d %s", path, w.Code, w.Body)
				}
			}
		})
	}
	control.Wait()
	stop()
	wait.Wait()
}
