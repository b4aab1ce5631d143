package serve

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

// TestStatusOfRegionsCounts checks that a list of all regions takes no more than what is reserved
// for it.
func TestStatusOfRegionsCounts(t *testing.T) {
	s, folder := sharedServer(t)
	key := strings.Repeat("k", 255)
	object(t, folder, key, make([]byte, 1))
	for i := range maxRegions {
		if err := s.regions.register(&inference.SystemSharedMemoryRegisterRequest{Key: key, ByteSize: 1,
			Name: fmt.Sprintf("%04d", i) + strings.Repeat("\x01", 251)}); err != nil {
			t.Fatal(err)
		}
	}
	h, r := s.Handler(), httptest.NewRequest("GET", "/v2/systemsharedmemory/status", nil)
	w := &discard{head: http.Header{}}
	for range 2 { // so that pools have no buffer
		runtime.GC()
	}
	if n := allocated(func() { h.ServeHTTP(w, r) }); n > maxRegions*regionCost {
		t.Errorf("%d bytes for each region are allocated, want at most %d", n/maxRegions, regionCost)
	}
	free := s.memory.Limit() - s.memory.Used()
	if err := s.memory.Reserve(free - maxRegions*regionCost + 1); err != nil {
		t.Fatal(err)
	}
	if w := call(s, "GET", "/v2/systemsharedmemory/status", nil); w.Code != 503 {
		t.Errorf("a status without memory: %d, want 503", w.Code)
	}
}

// sharedServer returns a server of "simple" and "s", the identity of strings, that looks for
// shared memory in a folder.
func sharedServer(t *testing.T) (s *Server, folder string) {
	s = newServer(t, "",
		&Options{AllowSharedMemory: true, MaxBody: 1 << 16,
			Models: []Model{{Name: "simple", Data: simple(t, tensor.TypeInt32, "n", 2)},
				{Name: "s", Data: identity(t, tensor.TypeString, 2)}}})
	s.regions.folder = t.TempDir()
	return s, s.regions.folder
}

func object(t *testing.T, folder, key string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, key), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func stringParam(s string) *inference.InferParameter {
	return &inference.InferParameter{ParameterChoice: &inference.InferParameter_StringParam{StringParam: s}}
}

func intParam(n int64) *inference.InferParameter {
	return &inference.InferParameter{ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: n}}
}

func inRegion(name string, offset, size int64) map[string]*inference.InferParameter {
	return map[string]*inference.InferParameter{"shared_memory_region": stringParam(name),
		"shared_memory_offset": intParam(offset), "shared_memory_byte_size": intParam(size)}
}

func TestSharedMemoryOverREST(t *testing.T) {
	s, folder := sharedServer(t)
	object(t, folder, "object", []byte("....\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x05\x00\x00\x00________"))
	ok := func(method, path, body string) string {
		t.Helper()
		w := call(s, method, path, []byte(body))
		if w.Code != 200 {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	ok("POST", "/v2/systemsharedmemory/region/r/register", `{"key":"/object","offset":4,"byte_size":24}`)
	if got := ok("GET", "/v2/systemsharedmemory/status", ""); got != `[{"byte_size":24,"key":"/object","name":"r","offset":4}]` {
		t.Errorf("status: %s", got)
	}
	if got := ok("GET", "/v2/systemsharedmemory/region/r/status", ""); !strings.Contains(got, `"r"`) {
		t.Errorf("status of the region: %s", got)
	}
	got := ok("POST", "/v2/models/simple/infer", `{"inputs":[
		{"name":"INPUT0","shape":[1,2],"datatype":"INT32","parameters":{"shared_memory_region":"r","shared_memory_byte_size":8}},
		{"name":"INPUT1","shape":[1,2],"datatype":"INT32","parameters":{"shared_memory_region":"r","shared_memory_offset":8,"shared_memory_byte_size":8}}],
		"outputs":[{"name":"OUTPUT0","parameters":{"shared_memory_region":"r","shared_memory_offset":16,"shared_memory_byte_size":8}},{"name":"OUTPUT1"}]}`)
	for _, want := range []string{`"parameters":{"shared_memory_region":"r","shared_memory_byte_size":8,"shared_memory_offset":16}`, `"data":[-2,-3]`} {
		if !strings.Contains(got, want) {
			t.Errorf("response %s, want %s", got, want)
		}
	}
	data, err := os.ReadFile(filepath.Join(folder, "object"))
	if err != nil || !bytes.HasSuffix(data, []byte("\x05\x00\x00\x00\x04\x00\x00\x00\x07\x00\x00\x00")) {
		t.Errorf("object after the request: %q %v", data, err)
	}
	ok("POST", "/v2/systemsharedmemory/region/r/unregister", "")
	ok("POST", "/v2/systemsharedmemory/unregister", "")
	if got := ok("GET", "/v2/systemsharedmemory/status", "") +
		ok("GET", "/v2/cudasharedmemory/status", ""); got != "[][]" {
		t.Errorf("status after unregister: %s", got)
	}
	ok("POST", "/v2/cudasharedmemory/unregister", "")
	if got := fmt.Sprint(get(t, s, "/v2")["extensions"]); !strings.Contains(got, "system_shared_memory") {
		t.Errorf("extensions: %s", got)
	}
}

func TestSharedMemoryOverGRPC(t *testing.T) {
	s, folder := sharedServer(t)
	c := dial(t, s)
	text := "\x01\x00\x00\x00a\x02\x00\x00\x00bc"
	object(t, folder, "in", []byte(text))
	object(t, folder, "out", make([]byte, 100))
	for _, key := range []string{"in", "out"} {
		if _, err := c.SystemSharedMemoryRegister(t.Context(),
			&inference.SystemSharedMemoryRegisterRequest{Name: key, Key: key, ByteSize: uint64(len(text))}); err !=
			nil {
			t.Fatal(err)
		}
	}
	m := &inference.ModelInferRequest{ModelName: "s",
		Inputs:  []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "BYTES", Shape: []int64{2}, Parameters: inRegion("in", 0, int64(len(text)))}},
		Outputs: []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "y", Parameters: inRegion("out", 0, int64(len(text)))}}}
	r, err := c.ModelInfer(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Outputs[0].Parameters; p["shared_memory_region"].GetStringParam() != "out" ||
		p["shared_memory_byte_size"].GetInt64Param() != int64(len(text)) || len(r.RawOutputContents) != 1 ||
		len(r.RawOutputContents[0]) != 0 {
		t.Errorf("response: %v", r)
	}
	if data, err := os.ReadFile(filepath.Join(folder, "out")); err != nil || !bytes.HasPrefix(data, []byte(text)) {
		t.Errorf("object after the request: %q %v", data, err)
	}
	// One input in the message, one in shared memory.
	object(t, folder, "ints", []byte("\x01\x00\x00\x00\x02\x00\x00\x00"))
	if _, err := c.SystemSharedMemoryRegister(t.Context(),
		&inference.SystemSharedMemoryRegisterRequest{Name: "ints", Key: "ints", ByteSize: 8}); err != nil {
		t.Fatal(err)
	}
	mixed := message("simple", "INT32", []int64{1, 2}, "\x05\x00\x00\x00\x06\x00\x00\x00")
	mixed.Inputs[0].Name = "INPUT1"
	mixed.Inputs = append([]*inference.ModelInferRequest_InferInputTensor{{Name: "INPUT0", Datatype: "INT32",
		Shape: []int64{1, 2}, Parameters: inRegion("ints", 0, 8)}}, mixed.Inputs...)
	if r, err = c.ModelInfer(t.Context(), mixed); err != nil ||
		string(r.RawOutputContents[0]) != "\x06\x00\x00\x00\x08\x00\x00\x00" {
		t.Errorf("one input of two in shared memory: %v %v", r, err)
	}
	mixed.RawInputContents = append(mixed.RawInputContents, nil)
	if _, err := c.ModelInfer(t.Context(), mixed); status.Code(err) != codes.InvalidArgument ||
		!strings.Contains(err.Error(), "expected 1 raw input contents") {
		t.Errorf("too many raw contents: %v", err)
	}
	st, err := c.SystemSharedMemoryStatus(t.Context(), &inference.SystemSharedMemoryStatusRequest{})
	if err != nil || len(st.Regions) != 3 || st.Regions["in"].GetKey() != "in" {
		t.Errorf("status: %v %v", st, err)
	}
	if _, err := c.SystemSharedMemoryUnregister(t.Context(), &inference.SystemSharedMemoryUnregisterRequest{}); err !=
		nil {
		t.Error(err)
	}
	if _, err := c.ModelInfer(t.Context(), m); status.Code(err) != codes.NotFound {
		t.Errorf("after unregister: %v", err)
	}
	if _, err := c.CudaSharedMemoryRegister(t.Context(),
		&inference.CudaSharedMemoryRegisterRequest{Name: "g"}); status.Code(err) != codes.Unimplemented {
		t.Errorf("CUDA: %v", err)
	}
	if _, err := c.CudaSharedMemoryStatus(t.Context(),
		&inference.CudaSharedMemoryStatusRequest{Name: "g"}); status.Code(err) != codes.NotFound {
		t.Errorf("CUDA status: %v", err)
	}
	if _, err := c.CudaSharedMemoryUnregister(t.Context(), &inference.CudaSharedMemoryUnregisterRequest{}); err != nil {
		t.Errorf("CUDA unregister: %v", err)
	}
}

func TestRegisterErrors(t *testing.T) {
	s, folder := sharedServer(t)
	outside := filepath.Join(t.TempDir(), "outside")
	object(t, filepath.Dir(outside), "outside", make([]byte, 64))
	object(t, folder, "object", make([]byte, 64))
	if err := os.Symlink(outside, filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	register := func(name, body string) (int, string) {
		w := call(s, "POST", "/v2/systemsharedmemory/region/"+name+"/register", []byte(body))
		return w.Code, w.Body.String()
	}
	if code, body := register("taken", `{"key":"object","byte_size":64}`); code != 200 {
		t.Fatal(code, body)
	}
	for _, c := range []struct {
		name, body string
		code       int
		want       string
	}{
		{"taken", `{"key":"object","byte_size":64}`, 409, "already in manager"},
		{"r", `{"key":"none","byte_size":64}`, 400, "Unable to open shared memory region: 'r'"},
		{"r", `{"key":"","byte_size":64}`, 400, "key of shared memory region"},
		{"r", `{"key":"/../outside","byte_size":64}`, 400, "must not contain a path"},
		{"r", `{"key":"//object","byte_size":64}`, 400, "must not contain a path"},
		{"r", `{"key":"..","byte_size":64}`, 400, "must not contain a path"},
		{"r", `{"key":"object\u0000","byte_size":64}`, 400, "must not contain"},
		{"r", `{"key":"link","byte_size":64}`, 400, "not a shared memory object"},
		{"r", `{"key":"folder","byte_size":64}`, 400, "not a shared memory object"},
		{"r", `{"key":"object"}`, 400, "byte_size 0"},
		{"r", `{"key":"object","byte_size":65}`, 400, "has 64 bytes"},
		{"r", `{"key":"object","offset":65,"byte_size":1}`, 400, "has 64 bytes"},
		{"r", `{"key":"object","offset":64,"byte_size":18446744073709551615}`, 400, "has 64 bytes"},
		{"r", `{"key":"object","offset":18446744073709551615,"byte_size":2}`, 400, "has 64 bytes"},
		{"r", `{"key":"object","byte_size":-1}`, 400, "JSON"},
		{"r", `{"key":"object","byte_size":64,"mode":7}`, 400, "mode"},
		{strings.Repeat("r", 256), `{"key":"object","byte_size":64}`, 400, "1 to 255 bytes"},
		{"%FF", `{"key":"object","byte_size":64}`, 400, "UTF-8"}, // else no message could list the regions
	} {
		if code, body := register(c.name, c.body); code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: %d %s, want %d %s", c.name, c.body, code, body, c.code, c.want)
		}
	}
	for i := range maxRegions {
		code, body := register(fmt.Sprint(i), `{"key":"object","byte_size":1}`)
		if want := 200; i == maxRegions-1 && code != 503 || i < maxRegions-1 && code != want {
			t.Fatalf("region %d: %d %s", i, code, body)
		}
	}
	if w := call(s, "GET", "/v2/systemsharedmemory/region/unknown/status", nil); w.Code != 404 {
		t.Errorf("status of an unknown region: %d %s", w.Code, w.Body)
	}
	if w := call(s, "POST", "/v2/cudasharedmemory/region/r/register", []byte(`{}`)); w.Code != 501 {
		t.Errorf("CUDA: %d %s", w.Code, w.Body)
	}
}

func TestSharedMemoryOfRequests(t *testing.T) {
	s, folder := sharedServer(t)
	object(t, folder, "object", make([]byte, 1<<17))
	object(t, folder, "short", make([]byte, 64))
	for name, size := range map[string]int{"object": 1 << 17, "short": 64} {
		if w := call(s, "POST", "/v2/systemsharedmemory/region/"+name+"/register",
			fmt.Appendf(nil, `{"key":%q,"byte_size":%d}`, name, size)); w.Code != 200 {
			t.Fatal(w.Body)
		}
	}
	if err := os.Truncate(filepath.Join(folder, "short"), 4); err != nil {
		t.Fatal(err)
	}
	const plain = `"shared_memory_region":"object","shared_memory_byte_size":8`
	for _, c := range []struct {
		shape, input, output string
		code                 int
		want                 string
	}{
		{"[1,2]", plain, plain, 200, "OUTPUT0"},
		{"[1,2]", `"shared_memory_region":"none","shared_memory_byte_size":8`, plain, 404, "Unable to find"},
		{"[1,2]", `"shared_memory_region":7,"shared_memory_byte_size":8`, plain, 400, "name of a region"},
		{"[1,2]", `"shared_memory_region":"object"`, plain, 400, "binary data has 0 bytes"},
		{"[1,2]", `"shared_memory_byte_size":8`, plain, 400, "lack shared_memory_region"},
		{"[1,2]", `"shared_memory_region":"object","shared_memory_byte_size":12`, plain, 400, "binary data has 12 bytes"},
		{"[1,2]", plain + `,"shared_memory_offset":131065`, plain, 400, "Invalid offset + byte size"},
		{"[1,2]", plain + `,"shared_memory_offset":18446744073709551615`, plain, 400, "Invalid offset + byte size"},
		{"[1,2]", plain + `,"shared_memory_offset":-1`, plain, 400, "non-negative"},
		{"[1,2]", plain + `,"binary_data_size":8`, plain, 400, "both data"},
		{"[1,2]", plain + `,"unknown":8`, plain, 400, "unknown parameter"},
		{"null", plain, plain, 400, "shape is missing"},
		{"[1,2]", `"shared_memory_region":"short","shared_memory_byte_size":8`, plain, 400, "has become smaller"},
		{"[16384,2]", `"shared_memory_region":"object","shared_memory_byte_size":131072`, plain, 413, "limit of 65536"},
		{"[1,2]", plain, `"shared_memory_region":"object","shared_memory_byte_size":7`, 400, "should be at least 8 bytes"},
		{"[1,2]", plain, plain + `,"shared_memory_offset":131065`, 400, "Invalid offset + byte size"},
		{"[1,2]", plain, `"shared_memory_region":"none","shared_memory_byte_size":8`, 404, "Unable to find"},
		{"[1,2]", plain, `"shared_memory_region":"short","shared_memory_byte_size":8`, 400, "has become smaller"},
	} {
		w := call(s, "POST", "/v2/models/simple/infer", fmt.Appendf(nil, `{"inputs":[{"name":"INPUT0","shape":%s,"datatype":"INT32","parameters":{%s}},
			{"name":"INPUT1","shape":[1,2],"datatype":"INT32","data":[1,2]}],"outputs":[{"name":"OUTPUT0","parameters":{%s}}]}`, c.shape, c.input, c.output))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("shape %s, input %s, output %s: %d %s, want %d %s", c.shape, c.input, c.output, w.Code,
				w.Body, c.code, c.want)
		}
	}
	if info, err := os.Stat(filepath.Join(folder, "short")); err != nil || info.Size() != 4 {
		t.Errorf("the truncated object has %v bytes %v, want 4 as before", info.Size(), err)
	}
}

func TestSharedMemoryIsOffByDefault(t *testing.T) {
	s := one(t, scaled(t, 1))
	for _, path := range []string{"region/r/register", "region/r/unregister", "unregister"} {
		for _, kind := range []string{"system", "cuda"} {
			if w := call(s, "POST", "/v2/"+kind+"sharedmemory/"+path, []byte(`{"key":"k","byte_size":1}`)); w.Code != 501 {
				t.Errorf("%s %s: %d %s, want 501", kind, path, w.Code, w.Body)
			}
		}
	}
	refused(t, s, `{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"shared_memory_region":"r","shared_memory_byte_size":8}}]}`, 501, "not allowed")
	if got := fmt.Sprint(get(t, s, "/v2")["extensions"]); strings.Contains(got, "shared_memory") {
		t.Errorf("extensions: %s", got)
	}
}
