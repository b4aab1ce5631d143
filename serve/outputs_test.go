package serve

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

// TestResponsesKeepTheMemory checks that what is made of outputs counts: their text in JSON, their
// binary form, and classes.
func TestResponsesKeepTheMemory(t *testing.T) {
	const total, n = 16 << 20, 1 << 20
	text := string(binary.LittleEndian.AppendUint32(nil, 2*n)) + strings.Repeat("\x01", 2*n)
	float := string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(-2.2250738585072014e-308)))
	for _, c := range []struct {
		name    string
		dtype   tensor.DType
		shape   int64
		data    string
		outputs string
	}{
		{"control characters", tensor.TypeString, 1, text, `{"name":"y"}`},
		{"numbers", tensor.TypeFloat64, n / 4, strings.Repeat(float, n/4), `{"name":"y"}`},
		{"classes", tensor.TypeUint8, n, strings.Repeat("a", n),
			`{"name":"y","parameters":{"classification":1000000000}}`},
		{"class", tensor.TypeUint8, 4 * n, strings.Repeat("a", 4*n), `{"name":"y","parameters":{"classification":1}}`},
	} {
		s := newServer(t, "",
			&Options{Models: []Model{{Name: "m", Data: identity(t, c.dtype, "n")}}, TotalMemory: total})
		held := s.memory.Used()
		head := fmt.Sprintf(`{"inputs":[{"name":"x","datatype":%q,"shape":[%d],"parameters":{"binary_data_size":%d}}],`+
			`"outputs":[%s]}`, datatypeName(c.dtype), c.shape, len(c.data), c.outputs)
		r := httptest.NewRequest("POST", "/v2/models/m/infer", strings.NewReader(head+c.data))
		r.Header.Set(headerLength, fmt.Sprint(len(head)))
		h, w := s.Handler(), &discard{head: http.Header{}}
		if n := allocated(func() { h.ServeHTTP(w, r) }); n > 3*total {
			t.Errorf("%s: %d MiB are allocated, want at most %d", c.name, n>>20, 3*total>>20)
		}
		if w.code != 0 && w.code != 413 && w.code != 503 {
			t.Errorf("%s: %d", c.name, w.code)
		}
		if n := s.memory.Used(); n != held {
			t.Errorf("%s: %d bytes are reserved after the request, want %d", c.name, n, held)
		}
	}
}

// discard is a response without memory.
type discard struct {
	head http.Header
	code int
}

func (d *discard) Header() http.Header         { return d.head }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(code int)        { d.code = code }

// TestTextSizes checks the bounds for what elements take in JSON.
func TestTextSizes(t *testing.T) {
	texts := []string{"", "a", "\x00\x7f", `"\`, "<>&", "é\u2028\u2029", "\xff", strings.Repeat("\u2029", 70_000)}
	values := []*tensor.Tensor{tensor.Must(tensor.New(texts[:6]))}
	for _, d := range datatypes {
		for _, b := range []string{"\x80\x00\x00\x00\x00\x00\x00\x00", "\xff\x7f\xff\xff\xff\xff\xff\xff",
			"\x01\x80\x0f\x00\x01\x00\x10\x80"} {
			if d.dtype == tensor.TypeBool {
				b = strings.Repeat("\x00", 8)
			}
			if d.dtype != tensor.TypeString {
				data := append(alignedBytes(8)[:0], b...)
				values = append(values, tensor.Must(tensor.FromBytes(d.dtype, data, 8/d.dtype.Size())))
			}
		}
	}
	for _, v := range values {
		r := &response{model: "m<", id: "\x01", outputs: []result{{name: "é", value: v}}}
		if head, _, err := encodeInfer(r); err != nil || int64(len(head)) > r.textCost()-900 {
			t.Errorf("%v has %d bytes in JSON, want at most %d: %v", v, len(head), r.textCost()-900, err)
		}
	}
	for _, x := range texts {
		if b := appendString(nil, x); int64(len(b)) >= stringSize(x) {
			t.Errorf("%.20q has %d bytes in JSON, want fewer than %d", x, len(b), stringSize(x))
		}
	}
}

// TestOutputsCount checks that the outputs of a run count until all its requests have released
// them.
func TestOutputsCount(t *testing.T) {
	const size = 1 << 20
	b := onnx.NewModel("widening").Opset("", 17).IRVersion(8)
	b.Input("x", onnx.Float, "n", 1).Output("y", onnx.Float, "n", size/4).Initializer("shape", []int64{1, size / 4})
	b.Node("Expand", []string{"x", "shape"}, []string{"y"})
	s := newServer(t, writeRepo(t, map[string][]byte{"m/1/model.onnx": modelBytes(t, b),
		"m/config.pbtxt": []byte("max_batch_size: 2 dynamic_batching { max_queue_delay_microseconds: 10000000 }"),
		"e/config.pbtxt": []byte(`platform: "ensemble" max_batch_size: 2
			input { name: "x" data_type: TYPE_FP32 dims: [1] } output { name: "y" data_type: TYPE_FP32 dims: [262144] }
			ensemble_scheduling { step { model_name: "m" model_version: -1
				input_map { key: "x" value: "x" } output_map { key: "y" value: "y" } } }`)}),
		&Options{TotalMemory: 64 << 20})
	held := s.memory.Used()
	for _, model := range []string{"m", "e"} {
		var wait sync.WaitGroup
		responses := make([]*response, 2)
		for i := range responses {
			wait.Go(func() {
				var err error
				if responses[i], err = s.infer(t.Context(), oneRow(model)); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		for i, r := range responses {
			if n := s.memory.Used() - held; n < 2*size {
				t.Errorf("%s: %d bytes are reserved before response %d is released, want %d", model, n, i, 2*size)
			}
			r.release()
		}
		if n := s.memory.Used(); n != held {
			t.Errorf("%s: %d bytes are reserved at the end, want %d", model, n, held)
		}
	}
}

func oneRow(model string) *request {
	return &request{model: model, inputs: []namedTensor{{"x", tensor.Must(tensor.New([]float32{1}, 1, 1))}}}
}

// TestAbandonedRunsGiveMemoryBack checks requests whose clients leave at any time of the run.
func TestAbandonedRunsGiveMemoryBack(t *testing.T) {
	b := onnx.NewModel("widening").Opset("", 17).IRVersion(8)
	b.Input("x", onnx.Float, "n", 1).Output("y", onnx.Float, "n", 1<<16)
	b.Initializer("shape", []int64{1, 1 << 16})
	b.Node("Expand", []string{"x", "shape"}, []string{"y"})
	s := newServer(t, "", &Options{MaxBatchSize: 4, TotalMemory: 64 << 20,
		Models: []Model{{Name: "m", Data: modelBytes(t, b)}}})
	held := s.memory.Used()
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for k := range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*50+k)*time.Microsecond)
				if r, err := s.infer(ctx, oneRow("m")); err == nil {
					r.release()
				}
				cancel()
			}
		})
	}
	wait.Wait()
	waitFor(t, "the memory is given back", func() bool { return s.memory.Used() == held })
}

// TestStatesCount checks that the states of sequences count until the sequences end.
func TestStatesCount(t *testing.T) {
	const total, size = 16 << 20, 1 << 20
	b := onnx.NewModel("states").Opset("", 17).IRVersion(8)
	b.Input("x", onnx.Float, "n").Input("s", onnx.Float, "k").Output("t", onnx.Float, "m")
	b.Output("y", onnx.Float, 1).Initializer("zero", []int64{0})
	b.Node("Concat", []string{"s", "x"}, []string{"t"}, onnx.Attrs{"axis": 0})
	b.Node("Gather", []string{"t", "zero"}, []string{"y"})
	s := newServer(t, writeRepo(t, map[string][]byte{"m/1/model.onnx": modelBytes(t, b), "m/config.pbtxt": []byte(
		`sequence_batching { oldest { max_candidate_sequences: 100 } max_sequence_idle_microseconds: 1000000000
			state { input_name: "s" output_name: "t" data_type: TYPE_FP32 dims: [-1] } }`)}),
		&Options{TotalMemory: total})
	held := s.memory.Used()
	send := func(id int, start, end bool) error {
		m := message("m", "FP32", []int64{size / 4}, string(make([]byte, size)))
		m.Parameters = step{id: "1", start: start, end: end}.message(t).Parameters
		m.Parameters["sequence_id"] = &inference.InferParameter{
			ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: int64(id)}}
		memory := &reservation{s: s}
		defer memory.release()
		_, kept, err := (&service{s: s}).infer(t.Context(), m, time.Now(), memory)
		releaseAll(kept)
		return err
	}
	started := 0
	for started < 20 {
		if err := send(started+1, true, false); err != nil {
			if classify(err).Code != Overloaded {
				t.Error(err)
			}
			break
		}
		started++
	}
	if n := s.memory.Used() - held; started < 8 || started > 15 || n < int64(started)*size {
		t.Errorf("%d sequences with states of 1 MiB are in progress and reserve %d bytes of %d", started, n, total)
	}
	send(started+1, false, true) // the last one goes on with its initial state
	for i := range started {
		send(i+1, true, true)
	}
	if n := s.memory.Used(); n != held {
		t.Errorf("%d bytes are reserved after the sequences, want %d", n, held)
	}
}

// TestWarmupCounts checks that a client cannot make the server allocate by a configuration.
func TestWarmupCounts(t *testing.T) {
	const total = 16 << 20
	s := newServer(t, writeRepo(t, map[string][]byte{"m/1/model.onnx": identity(t, tensor.TypeInt64, "n")}),
		&Options{AllowModelControl: true, TotalMemory: total})
	held := s.memory.Used()
	for _, config := range []string{
		`{"model_warmup":[{"name":"w","inputs":{"x":{"data_type":"TYPE_INT64","dims":[4000000],"zero_data":true}}}]}`,
	} {
		body := fmt.Sprintf(`{"parameters":{"config":%q}}`, config)
		n := allocated(func() {
			if w := call(s, "POST", "/v2/repository/models/m/load", []byte(body)); w.Code == 200 {
				t.Errorf("%s: %s", config, w.Body)
			}
		})
		if n > total {
			t.Errorf("%s: %d MiB are allocated", config, n>>20)
		}
	}
	if n := s.memory.Used(); n != held {
		t.Errorf("%d bytes are reserved at the end, want %d", n, held)
	}
}

// TestMetricsWithoutMemory checks that metrics are compressed if there is memory for it.
func TestMetricsWithoutMemory(t *testing.T) {
	const total = 16 << 20
	s := newServer(t, "", &Options{Models: []Model{{Name: "m", Data: scaled(t, 1)}}, TotalMemory: total})
	held := s.memory.Used()
	for enc, reserved := range map[string]int64{"gzip": 0, "": total - held - 1000} {
		if err := s.memory.Reserve(reserved); err != nil {
			t.Fatal(err)
		}
		r, w := httptest.NewRequest("GET", "/metrics", nil), httptest.NewRecorder()
		r.Header.Set("Accept-Encoding", "gzip")
		s.MetricsHandler().ServeHTTP(w, r)
		if got := w.Header().Get("Content-Encoding"); w.Code != 200 || got != enc || w.Body.Len() == 0 {
			t.Errorf("%d bytes are reserved: %d, encoding %q, want %q", reserved, w.Code, got, enc)
		}
		s.memory.Release(reserved)
	}
	if n := s.memory.Used(); n != held {
		t.Errorf("%d bytes are reserved after the requests, want %d", n, held)
	}
}
