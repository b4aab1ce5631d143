package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

const accumulatorConfig = `max_batch_size: 8 sequence_batching { max_sequence_idle_microseconds: 1000000000
	state { input_name: "TOTAL" output_name: "NEXT" data_type: TYPE_INT32 dims: [1] } }`

// accumulator returns a stateful model whose output is the sum of the inputs of the sequence.
func accumulator(t testing.TB) []byte {
	b := onnx.NewModel("accumulator").Opset("", 17).IRVersion(8)
	b.Input("INPUT", onnx.Int32, "n", 1).Input("TOTAL", onnx.Int32, "n", 1)
	b.Output("OUTPUT", onnx.Int32, "n", 1).Output("NEXT", onnx.Int32, "n", 1)
	b.Node("Add", []string{"INPUT", "TOTAL"}, []string{"OUTPUT"})
	b.Node("Identity", []string{"OUTPUT"}, []string{"NEXT"})
	return modelBytes(t, b)
}

func accumulatorServer(t testing.TB) *Server {
	return newServer(t,
		writeRepo(t, map[string][]byte{"m/config.pbtxt": []byte(accumulatorConfig), "m/1/model.onnx": accumulator(t)}),
		nil)
}

// step is one request of a sequence.
type step struct {
	id         string // as JSON
	start, end bool
	input      int32
	want       int32
	err        string
}

func (x step) post(s *Server) (int, string) {
	w := call(s, "POST", "/v2/models/m/infer", fmt.Appendf(nil, `{"parameters":{"sequence_id":%s,"sequence_start":%v,"sequence_end":%v},
		"inputs":[{"name":"INPUT","shape":[1,1],"datatype":"INT32","data":[%d]}],"outputs":[{"name":"OUTPUT"}]}`, x.id, x.start, x.end, x.input))
	return w.Code, w.Body.String()
}

func (x step) message(t testing.TB) *inference.ModelInferRequest {
	m := message("m", "INT32", []int64{1, 1}, string(binary.LittleEndian.AppendUint32(nil, uint32(x.input))))
	m.Inputs[0].Name = "INPUT"
	flag := func(b bool) *inference.InferParameter {
		return &inference.InferParameter{ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: b}}
	}
	m.Parameters = map[string]*inference.InferParameter{"sequence_start": flag(x.start), "sequence_end": flag(x.end)}
	if id, ok := strings.CutPrefix(x.id, `"`); ok {
		m.Parameters["sequence_id"] = &inference.InferParameter{
			ParameterChoice: &inference.InferParameter_StringParam{StringParam: strings.TrimSuffix(id, `"`)}}
	} else {
		var n int64
		if _, err := fmt.Sscan(x.id, &n); err != nil {
			t.Fatal(err)
		}
		m.Parameters["sequence_id"] = &inference.InferParameter{
			ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: n}}
	}
	return m
}

func TestSequencesKeepStates(t *testing.T) {
	s := accumulatorServer(t)
	c := dial(t, s)
	steps := []step{
		{id: "7", start: true, input: 1, want: 1},
		{id: `"7"`, start: true, input: 100, want: 100}, // a string is another ID than a number
		{id: "7", input: 2, want: 3},
		{id: `"7"`, input: 100, want: 200},
		{id: "8", start: true, end: true, input: 5, want: 5},
		{id: "8", input: 5, err: "must specify the START flag"},
		{id: "7", input: 3, end: true, want: 6},
		{id: "7", input: 3, err: "inference request for sequence 7 to model 'm' must specify the START flag"},
		{id: `"7"`, start: true, input: 1, want: 1}, // begun anew
		{id: `"7"`, end: true, input: 1, want: 2},
		{id: "0", start: true, input: 1, err: "non-zero or non-empty correlation ID"},
		{id: `""`, start: true, input: 1, err: "non-zero or non-empty correlation ID"},
	}
	for i, x := range steps {
		code, body := x.post(s)
		if want := fmt.Sprintf(`"data":[%d]`, x.want); x.err == "" && (code != 200 || !strings.Contains(body, want)) ||
			x.err != "" && (code != 400 || !strings.Contains(body, x.err)) {
			t.Errorf("REST, step %d: %d %s, want %d %q", i, code, body, x.want, x.err)
		}
	}
	for i, x := range steps {
		m, err := c.ModelInfer(t.Context(), x.message(t))
		if x.err == "" && (err != nil || binary.LittleEndian.Uint32(m.RawOutputContents[0]) != uint32(x.want)) ||
			x.err != "" && (err == nil || !strings.Contains(err.Error(), x.err)) {
			t.Errorf("gRPC, step %d: %v %v, want %d %q", i, m, err, x.want, x.err)
		}
	}
	if n := s.models["m"].versions[1].sequences.active(); n != 0 {
		t.Errorf("%d sequences are in progress after all have ended", n)
	}
	w := call(s, "GET", "/v2/models/m", nil)
	if body := w.Body.String(); strings.Contains(body, "TOTAL") || strings.Contains(body, "NEXT") {
		t.Errorf("the metadata shows states: %s", body)
	}
}

// TestSequencesOfAStream sends the requests of many sequences without waiting for answers. An ID of
// either type of integers is the same.
func TestSequencesOfAStream(t *testing.T) {
	st, err := dial(t, accumulatorServer(t)).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const n, length = 6, 40
	go func() {
		for k := range length {
			for id := range n {
				x := step{id: fmt.Sprint(id + 1), start: k == 0, end: k == length-1, input: int32(id + 1)}
				m := x.message(t)
				if k%2 == 1 {
					m.Parameters["sequence_id"] = &inference.InferParameter{
						ParameterChoice: &inference.InferParameter_Uint64Param{Uint64Param: uint64(id + 1)}}
				}
				if st.Send(m) != nil {
					return
				}
			}
		}
		st.CloseSend()
	}()
	for k := range length {
		for id := range n {
			m, err := st.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if want := uint32((id + 1) * (k + 1)); m.ErrorMessage != "" ||
				binary.LittleEndian.Uint32(m.InferResponse.RawOutputContents[0]) != want {
				t.Fatalf("sequence %d, request %d: %v, want %d", id+1, k, m, want)
			}
		}
	}
}

// TestSequenceControls checks the values of the control inputs, with and without batches.
func TestSequenceControls(t *testing.T) {
	for _, batch := range []int{0, 4} {
		b := onnx.NewModel("controls").Opset("", 17).IRVersion(8)
		// Two sequences run at once; without a count there are as many instances as processors.
		config := fmt.Sprintf("max_batch_size: %d instance_group { count: 2 } "+
			"sequence_batching { max_sequence_idle_microseconds: 1000000000 "+
			"direct { max_queue_delay_microseconds: 10 minimum_slot_utilization: 0.5 } ", batch)
		var shape []any
		dims := "[1]"
		if batch > 0 {
			shape, dims = append(shape, "n"), "[1,1]"
		}
		shape = append(shape, 1)
		for _, c := range []struct{ name, dtype, values string }{
			{"START", "INT32", "int32_false_true: [0, 1]"},
			{"READY", "FP32", "fp32_false_true: [-1, 2.5]"},
			{"END", "BOOL", "bool_false_true: [true, false]"},
			{"CORRID", "INT64", "data_type: TYPE_INT64"},
		} {
			dtype, err := parseDatatype(c.dtype)
			if err != nil {
				t.Fatal(err)
			}
			b.Input(c.name, onnx.DataType(dtype), shape...).Output(c.name+"_OUT", onnx.DataType(dtype), shape...)
			b.Node("Identity", []string{c.name}, []string{c.name + "_OUT"})
			config += fmt.Sprintf("control_input { name: %q control { kind: CONTROL_SEQUENCE_%s %s } }", c.name,
				c.name, c.values)
		}
		b.Input("x", onnx.Float, shape...).Output("y", onnx.Float, shape...)
		b.Node("Identity", []string{"x"}, []string{"y"})
		s := newServer(t,
			writeRepo(t, map[string][]byte{"m/config.pbtxt": []byte(config + "}"), "m/1/model.onnx": modelBytes(t, b)}),
			nil)
		infer := func(params string) string {
			return call(s, "POST", "/v2/models/m/infer", fmt.Appendf(nil, `{"parameters":{%s},"inputs":[{"name":"x","shape":%s,"datatype":"FP32","data":[1]}]}`, params, dims)).Body.String()
		}
		for params, want := range map[string][]string{
			`"sequence_id":9223372036854775807,"sequence_start":true`:                {`[1]`, `[2.5]`, `[true]`, `[9223372036854775807]`},
			`"sequence_id":42,"sequence_start":true,"sequence_end":true`:             {`[1]`, `[2.5]`, `[false]`, `[42]`},
			`"sequence_id":9223372036854775808,"sequence_start":true`:                {"does not fit INT64"},
			`"sequence_id":"a","sequence_start":true`:                                {`is the string \"a\"`},
			`"sequence_id":1,"sequence_start":1`:                                     {"want a bool"},
			`"sequence_id":1.5,"sequence_start":true`:                                {"want a non-negative integer"},
			`"sequence_id":-1,"sequence_start":true`:                                 {"want a non-negative integer"},
			`"sequence_id":"` + strings.Repeat("a", 129) + `","sequence_start":true`: {"has 129 bytes, want at most 128"},
			`"sequence_start":true`:                                                  {"correlation ID"},
		} {
			body := infer(params)
			for _, w := range want {
				if !strings.Contains(body, w) {
					t.Errorf("max_batch_size %d, %s: %s, want %s", batch, params, body, w)
				}
			}
		}
		if got := infer(`"sequence_id":9223372036854775807`); !strings.Contains(got, `"data":[0]`) {
			t.Errorf("START of the second request: %s, want 0", got)
		}
	}
}

func TestSequenceBatchSize(t *testing.T) {
	w := call(accumulatorServer(t), "POST", "/v2/models/m/infer", []byte(`{"parameters":{"sequence_id":1,"sequence_start":true},
		"inputs":[{"name":"INPUT","shape":[2,1],"datatype":"INT32","data":[1,2]}]}`))
	if w.Code != 400 || !strings.Contains(w.Body.String(), "must specify batch-size 1") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestInitialStates(t *testing.T) {
	file := string(binary.LittleEndian.AppendUint32(nil, 1000))
	for _, c := range []struct{ state, file, want string }{
		{`initial_state { name: "zeros" data_type: TYPE_INT32 dims: [1] zero_data: true }`, "", `"data":[5]`},
		{`initial_state { data_file: "first" }`, file, `"data":[1005]`},
		{`initial_state { data_file: "first" }`, file[:3], "it has 3 bytes"},
		{`initial_state { data_file: "first" }`, file + "x", "it has 5 bytes"},
		{`initial_state { data_file: "second" }`, file, "second"},
		{`initial_state { data_file: "../1/model.onnx" }`, file, "it has 191 bytes"},
		{`initial_state { data_file: "../../outside" }`, file, "escapes"},
		{`initial_state { data_type: TYPE_FP32 zero_data: true }`, "", "the state has TYPE_INT32"},
		{`initial_state { dims: [2] zero_data: true }`, "", "dims [2]"},
		{`initial_state { dims: [-1] zero_data: true }`, "", "dims [-1]"},
		{`initial_state { } initial_state { }`, "", "2 initial_state"},
	} {
		config := fmt.Sprintf(`max_batch_size: 8 sequence_batching { state { input_name: "TOTAL" output_name: "NEXT" %s } }`, c.state)
		s, err := New(t.Context(),
			writeRepo(t, map[string][]byte{"outside": []byte(file), "m/config.pbtxt": []byte(config),
				"m/1/model.onnx": accumulator(t), "m/initial_state/first": []byte(c.file)}), quiet(nil))
		got := fmt.Sprint(err)
		if err == nil {
			_, got = step{id: "1", start: true, input: 5}.post(s)
			s.Close()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.state, got, c.want)
		}
	}
}

func TestSequenceConfigErrors(t *testing.T) {
	state := `state { input_name: "TOTAL" output_name: "NEXT" }`
	start := `name: "TOTAL" control { kind: CONTROL_SEQUENCE_START`
	for _, c := range []struct{ config, want string }{
		{`iterative_sequence: true`, "iterative_sequence"},
		{`state { input_name: "NONE" output_name: "NEXT" }`, `no input "NONE"`},
		{`state { input_name: "TOTAL" output_name: "NONE" }`, `no output "NONE"`},
		{`state { input_name: "TOTAL" output_name: "NEXT" data_type: TYPE_FP32 }`, "TYPE_FP32"},
		{`state { input_name: "TOTAL" output_name: "NEXT" dims: [2] }`, "dims [2]"},
		{state + state, "twice"},
		{`oldest { }`, "max_candidate_sequences 0"},
		{`oldest { max_candidate_sequences: 2 preferred_batch_size: 9 }`, "1 to max_batch_size 8"},
		{`direct { minimum_slot_utilization: 2 }`, "0 to 1"},
		{`direct { minimum_slot_utilization: nan }`, "0 to 1"},
		{`direct { max_queue_delay_microseconds: 18446744073709551615 }`, "at most an hour"},
		{`control_input { name: "TOTAL" }`, "0 controls"},
		{`control_input { ` + start + ` } }`, "wants two values"},
		{`control_input { ` + start + ` int32_false_true: [0] } }`, "wants two values"},
		{`control_input { ` + start + ` int32_false_true: [0, 1] fp32_false_true: [0, 1] } }`, "wants two values"},
		{`control_input { ` + start + ` fp32_false_true: [0, 1] } }`, "control has type FP32, but the model's input has INT32"},
		{`control_input { ` + start + ` int32_false_true: [0, 1] } } ` + state, "twice"},
		{`control_input { name: "TOTAL" control { kind: CONTROL_SEQUENCE_CORRID int32_false_true: [0, 1] } }`, "no false_true"},
		{`control_input { name: "TOTAL" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_FP32 } }`, "cannot have data_type TYPE_FP32"},
		{state + `} input { name: "TOTAL"`, "which requests cannot set"},
		{state + `} dynamic_batching {`, "both dynamic_batching and sequence_batching"},
	} {
		config := "max_batch_size: 8 sequence_batching { " + c.config + " }"
		s, err := New(t.Context(),
			writeRepo(t, map[string][]byte{"m/config.pbtxt": []byte(config), "m/1/model.onnx": accumulator(t)}),
			quiet(nil))
		if err == nil {
			s.Close()
			t.Errorf("%s is accepted", config)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", config, err, c.want)
		}
	}
}

func TestWarmupOfAStatefulModel(t *testing.T) {
	config := accumulatorConfig + ` model_warmup { name: "w" count: 2 inputs { key: "INPUT" value { data_type: TYPE_INT32 dims: [1] zero_data: true } } }`
	s := newServer(t,
		writeRepo(t, map[string][]byte{"m/config.pbtxt": []byte(config), "m/1/model.onnx": accumulator(t)}), nil)
	if code, body := (step{id: "1", start: true, input: 5}).post(s); code != 200 || !strings.Contains(body, "[5]") {
		t.Errorf("%d %s", code, body)
	}
}

// fakeTotal is the accumulator for batches of float32, with a run that takes a millisecond. An
// input of −1 fails.
type fakeTotal struct {
	mu    sync.Mutex
	sizes []int
}

func (f *fakeTotal) Close() error { return nil }

func (f *fakeTotal) Run(_ context.Context, feed onward.Values, _ *onward.RunOptions) (onward.Values, error) {
	x, total := tensor.MustData[float32](feed["x"].(*tensor.Tensor)),
		tensor.MustData[float32](feed["total"].(*tensor.Tensor))
	f.mu.Lock()
	f.sizes = append(f.sizes, len(x))
	f.mu.Unlock()
	time.Sleep(time.Millisecond)
	y := make([]float32, len(x))
	for i := range x {
		if x[i] == -1 {
			return nil, errors.New("negative element")
		}
		y[i] = x[i] + total[i]
	}
	out := tensor.Must(tensor.New(y, len(y)))
	return onward.Values{"y": out, "next": out}, nil
}

// stateful returns a version of a fake model.
func stateful(f runner, slots int, policy schedulePolicy) *version {
	v := &version{model: "m", config: &inference.ModelConfig{MaxBatchSize: 8},
		inputs:  newSpecs(&spec{name: "x", dtype: tensor.TypeFloat32, dims: []int64{-1}}),
		outputs: newSpecs(&spec{name: "y", dtype: tensor.TypeFloat32, dims: []int64{-1}}), session: f, policy: oneLevel(policy)}
	v.scheduler = newScheduler(v.policy, f)
	v.sequences = &sequences{model: "m", idle: time.Second, slots: make(chan struct{}, slots),
		live:   map[any]*sequence{},
		states: []state{{input: "total", output: "next", initial: tensor.Must(tensor.New([]float32{0}, 1))}}}
	return v
}

// send runs a request of a sequence and returns its output, or its error as text.
func send(ctx context.Context, v *version, id, timeout uint64, start, end bool, x float32) string {
	r := &request{model: "m",
		params: map[string]any{"sequence_id": id, "sequence_start": start, "sequence_end": end, "timeout": timeout},
		inputs: []namedTensor{{"x", tensor.Must(tensor.New([]float32{x}, 1))}}}
	resp, _, err := v.infer(ctx, r)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(tensor.MustData[float32](resp.outputs[0].value)[0])
}

func TestSequencesFormBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fakeTotal)
		v := stateful(f, 4, schedulePolicy{maxBatch: 4, enough: 4, delay: time.Second})
		for k := range 3 {
			var wait sync.WaitGroup
			for id := range uint64(4) {
				wait.Go(func() {
					if got, want := send(t.Context(), v, id+1, 0, k == 0, false, float32(id)),
						fmt.Sprint(int(id)*(k+1)); got != want {
						t.Errorf("sequence %d, request %d: %s, want %s", id+1, k, got, want)
					}
				})
			}
			wait.Wait()
		}
		if fmt.Sprint(f.sizes) != "[4 4 4]" {
			t.Errorf("sizes of the runs: %v, want 4 sequences in each", f.sizes)
		}
		v.sequences.close()
	})
}

func TestFailedRequestKeepsTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := stateful(new(fakeTotal), 1, schedulePolicy{})
		for i, x := range []struct {
			start bool
			x     float32
			want  string
		}{{true, 5, "5"}, {false, -1, "negative element"}, {false, 2, "7"}, {true, 1, "1"}} {
			if got := send(t.Context(), v, 1, 0, x.start, false, x.x); !strings.Contains(got, x.want) {
				t.Errorf("request %d: %s, want %s", i, got, x.want)
			}
		}
		v.sequences.close()
	})
}

func TestIdleSequencesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := stateful(new(fakeTotal), 1, schedulePolicy{})
		if got := send(t.Context(), v, 1, 0, true, false, 5); got != "5" {
			t.Fatal(got)
		}
		for range 3 { // every request starts the time anew
			time.Sleep(time.Second - time.Millisecond*2)
			if got := send(t.Context(), v, 1, 0, false, false, 0); got != "5" {
				t.Fatal(got)
			}
		}
		time.Sleep(time.Second + time.Millisecond)
		if got := send(t.Context(), v, 1, 0, false, false, 0); !strings.Contains(got, "START") {
			t.Errorf("after the idle time: %s", got)
		}
		if n := v.sequences.active() + len(v.sequences.slots); n != 0 {
			t.Errorf("%d sequences and slots are left", n)
		}
	})
}

// TestMoreSequencesThanSlots checks that a sequence waits until another has ended, and that its
// requests keep their order meanwhile.
func TestMoreSequencesThanSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := stateful(new(fakeTotal), 1, schedulePolicy{instances: 4})
		var wait sync.WaitGroup
		check := func(ctx context.Context, id, timeout uint64, start, end bool, x float32, want string) {
			wait.Go(func() {
				if got := send(ctx, v, id, timeout, start, end, x); !strings.Contains(got, want) {
					t.Errorf("sequence %d, input %v: %s, want %s", id, x, got, want)
				}
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		check(t.Context(), 1, 0, true, false, 1, "1")
		time.Sleep(10 * time.Millisecond)
		check(t.Context(), 2, 0, true, false, 10, "10") // waits for the slot, and the next two for it
		check(t.Context(), 2, 0, false, false, 20, "30")
		check(t.Context(), 2, 0, false, true, 30, "60")
		// waits for its turn
		check(t.Context(), 2, 50_000, false, false, 40, "an earlier request of sequence 2 to model 'm' is in progress")
		check(t.Context(), 3, 50_000, true, true, 1, "1 sequences are in progress, the most of model 'm'")
		check(t.Context(), 3, 0, false, true, 1, "START") // the start has failed
		check(ctx, 4, 0, true, true, 1, "context canceled")
		cancel()
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		if n := v.sequences.active(); n != 2 {
			t.Errorf("%d sequences are in progress or wait, want 2", n)
		}
		check(t.Context(), 1, 0, false, true, 1, "2")
		wait.Wait()
		if n := v.sequences.active() + len(v.sequences.slots); n != 0 {
			t.Errorf("%d sequences and slots are left", n)
		}
	})
}

// TestRequestBeforeTheStart: a request that overtakes the one that starts its sequence is refused.
func TestRequestBeforeTheStart(t *testing.T) {
	q := &sequence{turn: make(chan struct{}, 1)}
	s := &sequences{model: "m", live: map[any]*sequence{uint64(7): q}, slots: make(chan struct{}, 1), idle: time.Hour,
		states: []state{{input: "x"}}}
	defer s.end(q, uint64(7))
	if _, err := s.enter(&job{ctx: t.Context(), size: 1, feed: onward.Values{}}, member{id: uint64(7)}); err == nil ||
		!strings.Contains(err.Error(), "START") {
		t.Errorf("error %v, want one that asks for START", err)
	}
	if len(q.turn) != 0 || q.users != 0 || len(s.slots) != 0 {
		t.Errorf("the request keeps its turn (%d), its place (%d) or a slot (%d)", len(q.turn), q.users, len(s.slots))
	}
}
